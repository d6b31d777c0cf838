//! Declarations of a table, checked against points of line protocol.
//!
//! Does: read values as their columns' logical types, say which rows a declaration refuses. Does not: evaluate SQL: a table
//! with CHECKs takes no line protocol, and a default is not filled in.

use nilometer_lineproto::{FIELD_TEXT_BYTES_MAX, FieldValue};

use crate::batch::{Column, Values};
use crate::declared::TimeKind;
use crate::logical::{Decimal, LogicalType, Stored, Violation};
use crate::schema::{ColumnDef, ColumnId, TableSchema};

/// What lines for a table have to meet.
#[derive(Debug)]
pub(super) struct Rules {
    /// Times are whole numbers of it.
    time_unit_ns: i64,
    time_kind: TimeKind,
    /// Times are integers of it.
    time_type: Option<LogicalType>,
    /// Fields that every row has.
    fields: Vec<(ColumnId, String)>,
    /// Tags that every series has.
    tags: Vec<(ColumnId, String)>,
    /// Tags that are integers.
    integers: Vec<(ColumnId, String, LogicalType)>,
    /// The first CHECK, for which all lines are refused.
    check: Option<String>,
}

const DAY_NS: i64 = 86_400_000_000_000;

impl Rules {
    /// Those of a table; `None` = there are none.
    pub(super) fn of(table: &TableSchema) -> Option<Box<Self>> {
        let (_, time_kind) = table.time();
        let named = |column: &ColumnDef| (column.id, column.name.clone());
        let fields = table.fields.iter().filter(|it| it.is_not_null());
        let tags = table.tags.iter().filter(|it| it.is_not_null());
        let integers = table.tags.iter();
        let declared = table.declared.as_ref();
        let rules = Self {
            time_unit_ns: match time_kind {
                TimeKind::TimestampTz | TimeKind::Timestamp => 1,
                TimeKind::Date => DAY_NS,
                TimeKind::Integer { unit_ns } => unit_ns.max(1),
            },
            time_kind,
            time_type: table.time_type(),
            fields: fields.map(named).collect(),
            tags: tags.map(named).collect(),
            integers: integers
                .filter_map(|tag| Some((tag.id, tag.name.clone(), tag.of()?)))
                .collect(),
            check: declared.and_then(|it| Some(it.checks.first()?.name.clone())),
        };
        let is_any = rules.time_unit_ns > 1
            || rules.time_type.is_some()
            || rules.check.is_some()
            || !(rules.fields.is_empty() && rules.tags.is_empty() && rules.integers.is_empty());
        is_any.then(|| Box::new(rules))
    }

    /// Why a series may not be; its tags are those with a value.
    pub(super) fn check_tags(&self, table: &str, tags: &[(ColumnId, &str)]) -> Result<(), String> {
        let value_of = |id: ColumnId| tags.iter().find(|(tag, _)| *tag == id).map(|it| it.1);
        for (id, name) in &self.tags {
            if value_of(*id).is_none() {
                return Err(format!(
                    "the point has no tag \"{name}\", which is NOT NULL in table \"{table}\""
                ));
            }
        }
        for (id, name, of) in &self.integers {
            if let Some(value) = value_of(*id) {
                canonical_integer(*of, value)
                    .map_err(|why| format!("tag \"{name}\" of table \"{table}\": {why}"))?;
            }
        }
        Ok(())
    }

    /// Why a row at this time may not be.
    pub(super) fn check_time(&self, time: i64) -> Result<(), String> {
        if let Some(check) = &self.check {
            return Err(format!(
                "the table has the CHECK \"{check}\", which line protocol cannot evaluate; write the row with SQL"
            ));
        }
        if time % self.time_unit_ns == 0 {
            let checked = self
                .time_type
                .map(|of| of.checked(time / self.time_unit_ns));
            return checked.map_or(Ok(()), |it| it.map(drop).map_err(|why| why.reason));
        }
        Err(match self.time_kind {
            TimeKind::Date => format!(
                "the time {time} is not the beginning of a day, and the table's times are days"
            ),
            _ => format!(
                "the time {time} is no whole number of the table's unit of {} ns",
                self.time_unit_ns
            ),
        })
    }

    /// Why the row that was just added to columns may not be: `rows` were there before.
    pub(super) fn check_fields(
        &self,
        table: &str,
        columns: &[Column],
        rows: usize,
    ) -> Result<(), String> {
        let lacks = |id: ColumnId| {
            let column = columns.iter().find(|column| column.id == id);
            column.is_none_or(|column| column.values.len() <= rows)
        };
        self.check_has(table, |id| !lacks(id))
    }

    /// Why a row may not be that has no fields but some.
    pub(super) fn check_has(
        &self,
        table: &str,
        has: impl Fn(ColumnId) -> bool,
    ) -> Result<(), String> {
        match self.fields.iter().find(|(id, _)| !has(*id)) {
            None => Ok(()),
            Some((_, name)) => Err(format!(
                "the point has no field \"{name}\", which is NOT NULL in table \"{table}\""
            )),
        }
    }
}

/// Whether a text is an integer of a type, in the one form that a tag has.
pub(super) fn canonical_integer(of: LogicalType, text: &str) -> Result<(), String> {
    match of.read(text) {
        Ok(Stored::I64(value)) if value.to_string() == text => Ok(()),
        Ok(_) => Err(format!(
            "\"{text}\" is not the form of an integer; write it without signs, spaces and zeros in front that it does not need"
        )),
        Err(violation) => Err(violation.reason),
    }
}

/// Adds a value to a column of a logical type.
pub(super) fn push(
    column: &mut Column,
    of: LogicalType,
    value: &FieldValue<'_>,
) -> Result<(), Violation> {
    let is_numeric = matches!(of, LogicalType::Numeric { .. });
    let stored = match value {
        FieldValue::Integer(value) if is_numeric => of.numeric(Decimal::new((*value).into(), 0))?,
        FieldValue::Unsigned(value) if is_numeric => {
            of.numeric(Decimal::new((*value).into(), 0))?
        }
        FieldValue::Float(value) if is_numeric => of.numeric_float(*value)?,
        FieldValue::Integer(value) if of.physical() == nilometer_codec::PhysicalType::I64 => {
            Stored::I64(of.checked(*value)?)
        }
        FieldValue::Float(value) if of == LogicalType::Real => {
            Stored::F64(LogicalType::real(*value)?)
        }
        FieldValue::Text(text) if text.len() <= FIELD_TEXT_BYTES_MAX => of.read(text)?,
        FieldValue::Text(text) => {
            return Err(Violation::range(
                of,
                format!("a text of {} bytes", text.len()),
            ));
        }
        other => return Err(Violation::form(of, &shown(other))),
    };
    push_stored(column, &stored);
    Ok(())
}

fn shown(value: &FieldValue<'_>) -> String {
    match value {
        FieldValue::Float(value) => value.to_string(),
        FieldValue::Integer(value) => format!("{value}i"),
        FieldValue::Unsigned(value) => format!("{value}u"),
        FieldValue::Boolean(value) => value.to_string(),
        FieldValue::Text(text) => text.to_string(),
    }
}

/// Adds a value to a column that is stored as its type says.
pub(super) fn push_stored(column: &mut Column, stored: &Stored) {
    match (&mut column.values, stored) {
        (Values::I64(to), Stored::I64(value)) => to.push(*value),
        (Values::F64(to), Stored::F64(value)) => to.push(*value),
        (Values::Bool(to), Stored::Bool(value)) => to.push(*value),
        (Values::Text(to), Stored::Text(value)) => to.push(value.as_bytes()),
        (Values::Bytes(to), Stored::Bytes(value)) => to.push(value),
        // A declaration fits its column, so that nothing else comes here.
        (values, _) => {
            debug_assert!(false, "a value of another type");
            values.clear(values.len());
            return;
        }
    }
    column.validity.push(true);
}
