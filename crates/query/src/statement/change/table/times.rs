//! The time of a new table: which of its columns it is, what it is for SQL, and how wide its partitions are.
//!
//! Does: choose it, and say what is declared of it. Does not: choose again (`create_hypertable` does, of a table without rows).

use nilometer_engine::{
    Declared, DeclaredTable, DeclaredTime, LogicalType, PhysicalType, TIME_COLUMN, TimeKind,
};
use nilometer_service::define::Numbered;

use super::{Body, Key, WrittenColumn, check_column, refused};
use crate::error::{Error, Position};
use crate::statement::name::Name;
use crate::statement::settings::Interval;
use crate::statement::types::Written;

/// The column that is the table's time, by its position: that of the name, or else, of a table without tags and settings,
/// the first of a type of times. A table whose keys leave it out is a relation, as is one without such a column.
pub(super) fn time_of(body: &Body, is_bare: bool) -> Option<usize> {
    let of_time = |column: &WrittenColumn| column.of.time().is_some() && !column.is_tag;
    let mut columns = body.columns.iter();
    let named = columns.position(|column| column.name.text == TIME_COLUMN && of_time(column));
    let first = || body.columns.iter().position(of_time);
    let found = named.or_else(first)?;
    let name = &body.columns.get(found)?.name.text;
    let has_time = |key: &Key| key.columns.iter().any(|column| column.text == *name);
    let is_found_by_others = !body.keys.is_empty() && !body.keys.iter().any(has_time);
    (!is_bare || !is_found_by_others).then_some(found)
}

/// The kind of time that a column of integers is, with its type; `None` = it has no integers that could be times.
fn integer(column: &WrittenColumn) -> Option<(TimeKind, Option<LogicalType>)> {
    let numbers = |default: &String| Numbered::of(default).is_some();
    if column.is_tag || column.default.as_ref().is_some_and(numbers) {
        return None;
    }
    // So that every integer is one of the times that there are.
    let kind = TimeKind::Integer { unit_ns: 1 };
    match column.of {
        Written::Value(PhysicalType::I64) => Some((kind, None)),
        Written::Logical(of @ (LogicalType::SmallInt | LogicalType::Integer)) => {
            Some((kind, Some(of)))
        }
        _ => None,
    }
}

/// The position of the column that a setting names as the time.
pub(super) fn time_named(body: &Body, name: &Name) -> Result<usize, Error> {
    let mut columns = body.columns.iter();
    match columns.position(|column| column.name.text == name.text) {
        None => {
            check_column(&body.columns, name)?;
            Err(refused("the table has no such column", name.position))
        }
        Some(at) => match body.columns.get(at) {
            Some(column) if column.of.time().is_some() || integer(column).is_some() => Ok(at),
            _ => Err(refused(
                "the time column is TIMESTAMPTZ, TIMESTAMP, DATE, BIGINT, INTEGER or SMALLINT, and no default that counts",
                name.position,
            )),
        },
    }
}

/// What is declared of the time; nothing if it is as it always is.
pub(super) fn declared_time(written: WrittenColumn, position: Option<u32>) -> Option<DeclaredTime> {
    let integer = integer(&written);
    let (kind, of) = match written.of.time() {
        Some(kind) => (kind, None),
        None => integer.unwrap_or_default(),
    };
    let time = DeclaredTime {
        name: written.name.text,
        kind,
        column: Declared {
            of,
            default: written.default,
            position,
            ..Declared::default()
        },
    };
    let is_usual =
        time.name == TIME_COLUMN && time.kind == TimeKind::TimestampTz && time.column.is_empty();
    (!is_usual).then_some(time)
}

/// The width of partitions that is said, or that a hypertable over integers has where nothing is; `None` = as of every table.
pub(super) fn interval_ns(
    said: Option<Interval>,
    declared: &DeclaredTable,
    is_hypertable: bool,
) -> Result<Option<i64>, Error> {
    let time = declared.time.as_ref();
    let unit_ns = time.and_then(|time| match time.kind {
        TimeKind::Integer { unit_ns } => Some(unit_ns.max(1)),
        _ => None,
    });
    let Some(said) = said else {
        let of = time.and_then(|time| time.column.of);
        let usual = match of {
            Some(LogicalType::SmallInt) => 10_000,
            Some(_) => 100_000,
            None => 1_000_000,
        };
        return Ok(unit_ns.filter(|_| is_hypertable).map(|unit| unit * usual));
    };
    let wrong = |message: &str, position: Option<Position>| Err(refused(message, position));
    match (unit_ns, said.number) {
        (None, None) => Ok(said.ns),
        (Some(unit_ns), Some(number)) => match number.checked_mul(unit_ns) {
            Some(ns) if ns > 0 => Ok(Some(ns)),
            _ => wrong("the width of chunks is a number above zero", said.position),
        },
        (Some(_), None) => wrong(
            "the time of the table is an integer; say the width of chunks as a number of it, such as tsdb.chunk_interval = 100000",
            said.position,
        ),
        (None, Some(_)) => wrong(
            "the width of chunks is a length of time; write '30 days', '12 hours' or '90m'",
            said.position,
        ),
    }
}
