//! Rows of the body at hand, column by column.
//!
//! Does: append the fields of points to the columns of their table, define fields that are new, take back what a refused
//! row has added. A row that is refused defines nothing (`fits.rs`). Does not: know how series get their ids (`pending.rs` does).

use nilometer_codec::PhysicalType;
use nilometer_lineproto::{FIELD_TEXT_BYTES_MAX, FieldValue, Point};

use super::pending::Pending;
use super::planned::{Planned, is_planned_table};
use super::slot::{KnownField, TableSlot};
use super::{ColumnCount, declared, fits};
use crate::batch::{Column, TableRows, Values};
use crate::catalogue::Catalogue;
use crate::engine::Engine;
use crate::error::Error;
use crate::logical::LogicalType;
use crate::schema::{ColumnKind, SeriesId, TIME_COLUMN, TableId, column_bytes, type_name};

/// Rows of one table of the body at hand.
#[derive(Debug)]
pub(super) struct Builder {
    rows: TableRows,
    /// Rows whose series is pending, and its position there.
    unresolved: Vec<(usize, usize)>,
    /// By known field: its position in `rows.columns`.
    column_of: Vec<Option<usize>>,
    /// Known fields of the row before, in its order.
    template: Vec<usize>,
}

/// The series of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum RowSeries {
    Known(SeriesId),
    /// Its position among the pending ones.
    Pending(usize),
}

/// Why a row cannot be added.
pub(super) enum RowError {
    Conflict {
        field: String,
        got: PhysicalType,
        known: PhysicalType,
    },
    TooLong {
        field: String,
        bytes: usize,
    },
    NoField,
    /// A declaration of a field refuses its value.
    Violated {
        field: String,
        reason: String,
    },
    /// A declaration of the table refuses the row.
    Declared(String),
    BadName(Error),
    /// The batch has as many as it may.
    TooManyColumns,
    /// There is no memory for another name, and the whole body is refused.
    Refused(Error),
    /// The table was dropped since it was looked up: the whole body is read again.
    Stale,
}

impl RowError {
    /// InfluxDB's words for it.
    pub(super) fn text(&self, table: &str) -> String {
        match self {
            Self::Conflict { field, got, known } => format!(
                "field type conflict: input field \"{field}\" on measurement \"{table}\" is type {}, already exists as type {}",
                type_name(*got),
                type_name(*known)
            ),
            Self::TooLong { field, bytes } => format!(
                "input field \"{field}\" on measurement \"{table}\" is too long, {bytes} > {FIELD_TEXT_BYTES_MAX}"
            ),
            Self::Violated { field, reason } => {
                format!("input field \"{field}\" on measurement \"{table}\": {reason}")
            }
            Self::Declared(reason) => reason.clone(),
            Self::NoField => "the point has no field".to_owned(),
            Self::Stale => "the table was dropped meanwhile".to_owned(),
            Self::TooManyColumns => "the batch has too many columns".to_owned(),
            Self::BadName(error) | Self::Refused(error) => error.to_string(),
        }
    }
}

/// What adding a row needs beside the row.
pub(super) struct RowContext<'a> {
    pub(super) engine: &'a Engine,
    pub(super) table: &'a mut TableSlot,
    pub(super) columns: &'a mut ColumnCount,
    /// Memory of what the body has given a name.
    pub(super) new_names: &'a mut u64,
    pub(super) planned: &'a mut Planned,
    pub(super) point: &'a Point<'a>,
    /// The point was looked at as a whole, and may bring fields.
    pub(super) fits: bool,
    /// The point has a field named `time`, which is left out.
    pub(super) stripped_time: bool,
}

impl Builder {
    pub(super) fn new(table: TableId) -> Self {
        Self {
            rows: TableRows {
                table,
                series: Vec::new(),
                times: Vec::new(),
                columns: Vec::new(),
            },
            unresolved: Vec::new(),
            column_of: Vec::new(),
            template: Vec::new(),
        }
    }

    /// Rows so far.
    pub(super) fn rows(&self) -> usize {
        self.rows.rows()
    }

    /// Bytes of fixed width that the rows have once every column has room for all of them.
    pub(super) fn padded_bytes(&self) -> u64 {
        let widths = self.rows.columns.iter().map(|column| {
            let width = match column.values {
                Values::Bool(_) => 1,
                Values::Text(_) | Values::Bytes(_) => size_of::<u32>(),
                Values::I64(_) | Values::U64(_) | Values::F64(_) => size_of::<u64>(),
            };
            width as u64
        });
        widths.sum::<u64>().saturating_mul(self.rows.rows() as u64)
    }

    /// The rows, with the ids that pending series got.
    pub(super) fn finish(mut self, pending: &Pending) -> TableRows {
        for (row, at) in self.unresolved {
            if let (Some(slot), Some(id)) = (self.rows.series.get_mut(row), pending.id(at)) {
                *slot = id.0;
            }
        }
        let rows = self.rows.rows();
        for column in &mut self.rows.columns {
            column.pad(rows);
        }
        self.rows
            .columns
            .retain(|column| column.validity.nulls() < rows);
        self.rows
    }

    /// Adds a point, or nothing of it.
    pub(super) fn add_row(
        &mut self,
        series: RowSeries,
        time: i64,
        context: &mut RowContext<'_>,
    ) -> Result<(), RowError> {
        let rows = self.rows.rows();
        if let Some(rules) = &context.table.rules {
            rules.check_time(time).map_err(RowError::Declared)?;
        }
        let mut kept = 0;
        for field in context.point.fields {
            match self.add_field(kept, rows, field.key, &field.value, context) {
                Ok(true) => kept += 1,
                Ok(false) => {}
                Err(error) => {
                    self.take_back(rows);
                    return Err(error);
                }
            }
        }
        if kept == 0 {
            return Err(RowError::NoField);
        }
        if let Some(rules) = &context.table.rules
            && let Err(reason) = rules.check_fields(&context.table.name, &self.rows.columns, rows)
        {
            self.take_back(rows);
            return Err(RowError::Declared(reason));
        }
        let series = match series {
            RowSeries::Known(id) => id.0,
            RowSeries::Pending(at) => {
                self.unresolved.push((rows, at));
                0
            }
        };
        self.rows.series.push(series);
        self.rows.times.push(time);
        Ok(())
    }

    /// Adds one value to its column; false = the field is left out.
    #[inline]
    fn add_field(
        &mut self,
        at: usize,
        rows: usize,
        key: &[u8],
        value: &FieldValue<'_>,
        context: &mut RowContext<'_>,
    ) -> Result<bool, RowError> {
        let guess = self.template.get(at).copied();
        let guess = guess.filter(|&known| {
            let field = context.table.fields.get(known);
            field.is_some_and(|field| &*field.key == key)
        });
        let known = match guess {
            Some(known) => known,
            None => match self.look_up(at, key, value, context)? {
                Some(known) => known,
                None => return Ok(false),
            },
        };
        let position = match self.column_of.get(known) {
            Some(Some(position)) => *position,
            _ => self.start_column(known, context)?,
        };
        let Some(column) = self.rows.columns.get_mut(position) else {
            return Ok(false);
        };
        if column.values.len() < rows {
            column.pad(rows);
        }
        if let Some(of) = context.table.fields.get(known).and_then(|it| it.of) {
            return push_declared(column, of, key, value);
        }
        if push_value(column, value) {
            return Ok(true);
        }
        Err(refusal(key, value, column.values.kind()))
    }

    #[cold]
    fn look_up(
        &mut self,
        at: usize,
        key: &[u8],
        value: &FieldValue<'_>,
        context: &mut RowContext<'_>,
    ) -> Result<Option<usize>, RowError> {
        let known = match context.table.known_field(key) {
            Some(known) => known,
            None => match meet_field(key, value, context)? {
                Some(known) => known,
                None => return Ok(None),
            },
        };
        if at < self.template.len() {
            if let Some(slot) = self.template.get_mut(at) {
                *slot = known;
            }
        } else {
            self.template.push(known);
        }
        Ok(Some(known))
    }

    #[cold]
    fn start_column(
        &mut self,
        known: usize,
        context: &mut RowContext<'_>,
    ) -> Result<usize, RowError> {
        if !context.columns.add() {
            return Err(RowError::TooManyColumns);
        }
        if self.column_of.len() <= known {
            self.column_of.resize(known + 1, None);
        }
        let position = self.rows.columns.len();
        let field = context.table.fields.get(known);
        if position == 0 {
            // Very many tables of one field may come in one body, and a place for a column is a hundred bytes.
            self.rows.columns.reserve_exact(1);
        }
        if let (Some(field), Some(slot)) = (field, self.column_of.get_mut(known)) {
            self.rows.columns.push(Column::new(field.id, field.kind));
            *slot = Some(position);
        }
        Ok(position)
    }

    /// Undoes what the fields of a refused row added.
    #[cold]
    fn take_back(&mut self, rows: usize) {
        for column in &mut self.rows.columns {
            column.truncate(rows);
        }
    }
}

pub(super) fn kind_of(value: &FieldValue<'_>) -> PhysicalType {
    match value {
        FieldValue::Float(_) => PhysicalType::F64,
        FieldValue::Integer(_) => PhysicalType::I64,
        FieldValue::Unsigned(_) => PhysicalType::U64,
        FieldValue::Boolean(_) => PhysicalType::Bool,
        FieldValue::Text(_) => PhysicalType::Text,
    }
}

/// Adds a value of the column's type; another type or an overlong text adds nothing and returns false.
#[inline]
pub(super) fn push_value(column: &mut Column, value: &FieldValue<'_>) -> bool {
    match (&mut column.values, value) {
        (Values::I64(to), FieldValue::Integer(value)) => to.push(*value),
        (Values::F64(to), FieldValue::Float(value)) => to.push(*value),
        (Values::U64(to), FieldValue::Unsigned(value)) => to.push(*value),
        (Values::Bool(to), FieldValue::Boolean(value)) => to.push(*value),
        (Values::Text(to), FieldValue::Text(value)) if value.len() <= FIELD_TEXT_BYTES_MAX => {
            to.push(value.as_bytes());
        }
        _ => return false,
    }
    column.validity.push(true);
    true
}

/// Adds a value to a column of a logical type.
pub(super) fn push_declared(
    column: &mut Column,
    of: LogicalType,
    key: &[u8],
    value: &FieldValue<'_>,
) -> Result<bool, RowError> {
    match declared::push(column, of, value) {
        Ok(()) => Ok(true),
        Err(violation) => Err(RowError::Violated {
            field: field_name(key),
            reason: violation.reason,
        }),
    }
}

#[cold]
pub(super) fn refusal(key: &[u8], value: &FieldValue<'_>, known: PhysicalType) -> RowError {
    let field = field_name(key);
    match value {
        FieldValue::Text(text) if known == PhysicalType::Text => RowError::TooLong {
            field,
            bytes: text.len(),
        },
        _ => RowError::Conflict {
            field,
            got: kind_of(value),
            known,
        },
    }
}

fn field_name(key: &[u8]) -> String {
    let field = nilometer_lineproto::Field {
        key,
        value: FieldValue::Boolean(true),
    };
    field.name().into_owned()
}

/// Learns a field by its key, once it is known that the point will be kept: one that is refused defines nothing.
fn meet_field(
    key: &[u8],
    value: &FieldValue<'_>,
    context: &mut RowContext<'_>,
) -> Result<Option<usize>, RowError> {
    if !context.fits {
        let (stripped_time, checked) =
            fits::check(context.engine, Some(context.table), context.point);
        context.stripped_time = stripped_time;
        checked?;
        context.fits = true;
    }
    define_field(key, value, context)
}

/// Learns a field by its key, defining it with the type at hand if the table has none of that name.
fn define_field(
    key: &[u8],
    value: &FieldValue<'_>,
    context: &mut RowContext<'_>,
) -> Result<Option<usize>, RowError> {
    let name = field_name(key);
    if name == TIME_COLUMN {
        context.stripped_time = true;
        return Ok(None);
    }
    if context.columns.is_full() {
        context.columns.add();
        return Err(RowError::TooManyColumns);
    }
    let table = context.table.id;
    let kind = ColumnKind::Field(kind_of(value));
    let bytes = *context.new_names + column_bytes(&name) as u64;
    let mut is_new = false;
    let engine = context.engine;
    let plan = |catalogue: &Catalogue| {
        let known = match catalogue.table(table) {
            Some(known) => known
                .field(&name)
                .map(|field| (field.id, field.kind, field.of())),
            None if is_planned_table(table) => None,
            None => return Ok(Err(RowError::Stale)),
        };
        match known {
            Some((id, ColumnKind::Field(kind), of)) => Ok(Ok((id, kind, of))),
            _ => match engine.sequencer().check_names(bytes) {
                Ok(()) => {
                    is_new = true;
                    Err(catalogue.plan_column(table, kind, &name))
                }
                Err(refused) => Ok(Err(RowError::Refused(refused))),
            },
        }
    };
    let stand_in = |planned: &mut Planned| Ok((planned.column(), kind_of(value), None));
    let (id, kind, of) = context.planned.define(engine, plan, stand_in)?;
    if is_new {
        *context.new_names = bytes;
    }
    let key = key.into();
    Ok(Some(context.table.add_field(KnownField {
        key,
        id,
        kind,
        of,
    })))
}
