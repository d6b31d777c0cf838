//! Defaults and CHECKs of a definition, before it is carried out: with one that cannot be evaluated, every INSERT would fail.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::datasource::MemTable;
use nilometer_engine::{
    Check, ColumnKind, Declared, DeclaredTime, LogicalType, PhysicalType, TIME_COLUMN, TimeKind,
    enum_of_check,
};
use nilometer_service::define::{
    Change, DefineError, Numbered, Object, TableChange, missing_enumeration,
};

use nilometer_service::ForeignKey;

use crate::Params;
use crate::error::Error;
use crate::planning::plan::plan;
use crate::statement::name::{NameScope, quoted};
use crate::statement::{Bounds, Statement, parse};
use crate::tables::catalogue::{EXCLUDED, ReadContext};

/// What a definition says of rows.
struct New<'a> {
    table: &'a str,
    columns: Vec<Field>,
    checks: &'a [Check],
    defaults: Vec<&'a str>,
}

/// Refuses a definition whose defaults or CHECKs have no value.
pub(crate) async fn check_new(
    reading: &ReadContext,
    place: &NameScope,
    change: &Change,
) -> Result<(), Error> {
    let Some(new) = new(change) else {
        return Ok(());
    };
    if !new.defaults.is_empty() {
        // A default stands alone: it sees no row.
        let text = format!("SELECT {}", new.defaults.join(", "));
        let mut asking = reading.clone();
        asking.asks_names = true;
        planned(&asking, place, &text).await?;
    }
    let is_condition = |check: &&Check| ForeignKey::of(check).is_none();
    let conditions = new.checks.iter().filter(is_condition);
    if conditions.clone().next().is_none() {
        return Ok(());
    }
    let conditions = conditions.map(|check| check.expression.as_str());
    let conditions: Vec<String> = conditions.map(|it| format!("({it}) IS FALSE")).collect();
    let text = format!(
        "SELECT {} FROM {EXCLUDED} AS {}",
        conditions.join(", "),
        quoted(new.table)
    );
    let rows = MemTable::try_new(Arc::new(Schema::new(new.columns)), vec![Vec::new()])?;
    let within = (place.database.as_str(), place.schema.as_str());
    if let Some(name) = missing_enumeration(&reading.snapshot, within, new.checks) {
        let what = Object::Type;
        let nearest = None;
        let unknown = DefineError::Unknown {
            what,
            name,
            nearest,
        };
        return Err(Error::of_name(unknown, None));
    }
    let mut reading = reading.excluding(Arc::new(rows));
    reading.asks_names |= new
        .checks
        .iter()
        .any(|check| enum_of_check(check).is_some());
    planned(&reading, place, &text).await
}

/// Plans a query of ours. Where its parts stand in the statement is not known any more.
async fn planned(reading: &ReadContext, place: &NameScope, text: &str) -> Result<(), Error> {
    let bounds = Bounds::of(&reading.shared.options);
    let Statement::Query(question) = parse(text, bounds, &Params::new())? else {
        return Err(Error::internal("a query of a declaration that is none"));
    };
    let session = reading.session(place);
    let planned = plan(reading, &session, place, &question.statement).await;
    match planned {
        Ok(_) => Ok(()),
        Err(Error::UnknownColumn { name, nearest, .. }) => Err(Error::UnknownColumn {
            name,
            nearest,
            position: None,
        }),
        Err(Error::Plan { message, .. }) => Err(Error::Plan {
            message,
            position: None,
        }),
        Err(other) => Err(other),
    }
}

/// What a change says of rows; `None` = nothing.
fn new(change: &Change) -> Option<New<'_>> {
    match change {
        Change::CreateTable {
            path,
            columns,
            declared,
            ..
        } => {
            let time = declared.time.as_ref();
            let all = std::iter::once(time_field(time)).chain(columns.iter().map(|column| {
                let kind = match column.kind {
                    ColumnKind::Tag => PhysicalType::Text,
                    ColumnKind::Field(kind) => kind,
                };
                field(&column.name, kind, column.declared.of)
            }));
            let of_time = time.map(|time| &time.column);
            let said = of_time
                .into_iter()
                .chain(columns.iter().map(|it| &it.declared));
            Some(New {
                table: &path.last,
                columns: all.collect(),
                checks: &declared.checks,
                defaults: defaults(said),
            })
        }
        Change::CreateRelation {
            path,
            new,
            declared,
            ..
        } => {
            let columns = new.columns.iter().enumerate();
            let columns = columns.map(|(at, column)| {
                let of = declared.columns.get(at).and_then(|it| it.of);
                field(&column.name, column.kind, of)
            });
            Some(New {
                table: &path.last,
                columns: columns.collect(),
                checks: &declared.table.checks,
                defaults: defaults(declared.columns.iter()),
            })
        }
        Change::AlterTable { path, change, .. } => Some(New {
            table: &path.last,
            columns: Vec::new(),
            checks: &[],
            defaults: set_defaults(change),
        }),
        _ => None,
    }
}

/// The defaults that a change of a table sets.
fn set_defaults(change: &TableChange) -> Vec<&str> {
    match change {
        TableChange::Several(changes) => changes.iter().flat_map(set_defaults).collect(),
        TableChange::Add { column, .. } => defaults(std::iter::once(&column.declared)),
        TableChange::Default { to: Some(to), .. } if Numbered::of(to).is_none() => vec![to],
        _ => Vec::new(),
    }
}

fn defaults<'a>(columns: impl Iterator<Item = &'a Declared>) -> Vec<&'a str> {
    let given = columns.filter_map(|it| it.default.as_deref());
    // Numbers are no expression.
    given.filter(|it| Numbered::of(it).is_none()).collect()
}

fn time_field(time: Option<&DeclaredTime>) -> Field {
    let name = time.map_or(TIME_COLUMN, |time| time.name.as_str());
    let kind = match time.map(|time| time.kind).unwrap_or_default() {
        TimeKind::TimestampTz => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
        TimeKind::Timestamp => DataType::Timestamp(TimeUnit::Nanosecond, None),
        TimeKind::Date => DataType::Date32,
        TimeKind::Integer { .. } => DataType::Int64,
    };
    Field::new(name, kind, true)
}

/// A column as it will be shown.
pub(super) fn field(name: &str, kind: PhysicalType, of: Option<LogicalType>) -> Field {
    let kind = match (of, kind) {
        (Some(of), _) => of.shown_type(),
        (None, PhysicalType::I64) => DataType::Int64,
        (None, PhysicalType::U64) => DataType::UInt64,
        (None, PhysicalType::F64) => DataType::Float64,
        (None, PhysicalType::Bool) => DataType::Boolean,
        (None, PhysicalType::Text) => DataType::Utf8,
        (None, PhysicalType::Bytes) => DataType::Binary,
    };
    Field::new(name, kind, true)
}
