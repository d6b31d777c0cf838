//! Rows of text as Arrow columns, with their types.
//!
//! Does: read cells, each as its column's type, and put a row into the columns as a whole or say why not. Does not: know
//! how the cells are separated in a file.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, RecordBatch,
    StringBuilder, StringDictionaryBuilder, TimestampNanosecondBuilder, UInt64Builder,
};
use arrow::datatypes::{Field, Int32Type, Schema};
use nilometer_engine::TIME_COLUMN;
use nilometer_lineproto::{FIELD_TEXT_BYTES_MAX, KEY_BYTES_MAX};

use super::columns::{Absent, boolean, is_rounded};
use super::times::TimeFormat;
use crate::lines::{FieldType, Role};

/// Why a row is refused that has neither a time nor a value.
const NO_VALUE: &str = "the row has no time and no value in any field";

/// What a tag takes of the room for all tags of a row, beside its text.
pub(super) const TAG_BYTES: usize = 16;

/// Columns that rows are put into.
pub(super) struct RowBuilder {
    columns: Vec<(String, Builder)>,
    /// How times are written; `None` = rows have the time at which they are read.
    time: Option<TimeFormat>,
    absent: Absent,
    /// Columns of floats in which the user wants whole numbers rounded.
    rounded: Vec<String>,
}

enum Builder {
    Time(TimestampNanosecondBuilder),
    Tag(StringDictionaryBuilder<Int32Type>),
    Float(Float64Builder),
    Integer(Int64Builder),
    Unsigned(UInt64Builder),
    Boolean(BooleanBuilder),
    Text(StringBuilder),
    Bytes(BinaryBuilder),
}

/// A cell that was read.
#[derive(Debug, Clone, Copy)]
enum Cell<'a> {
    Absent,
    Time(i64),
    Float(f64),
    Integer(i64),
    Unsigned(u64),
    Boolean(bool),
    Text(&'a str),
}

impl RowBuilder {
    /// The n-th cell of a row goes into the n-th column.
    pub(super) fn new(
        columns: impl IntoIterator<Item = (String, Role)>,
        time: Option<TimeFormat>,
        absent: Absent,
        rounded: Vec<String>,
    ) -> Self {
        let mut columns: Vec<(String, Builder)> = columns
            .into_iter()
            .map(|(name, role)| (name, Builder::new(role)))
            .collect();
        if time.is_none() {
            let times = Builder::Time(TimestampNanosecondBuilder::new());
            columns.push((TIME_COLUMN.to_owned(), times));
        }
        Self {
            columns,
            time,
            absent,
            rounded,
        }
    }

    /// Adds a row, or nothing of it and says why. Cells beyond the columns are not looked at; the caller counts them.
    pub(super) fn add<'a>(
        &mut self,
        cells: impl Iterator<Item = &'a str>,
        now_ns: i64,
    ) -> Result<(), String> {
        let mut row = Vec::with_capacity(self.columns.len());
        let (mut has_field, mut tag_bytes) = (false, 0);
        for ((name, builder), cell) in self.columns.iter().zip(cells) {
            // Blanks mean nothing around a number, and are part of a text.
            let cell = match builder {
                Builder::Tag(_) | Builder::Text(_) | Builder::Bytes(_) => cell,
                _ => cell.trim(),
            };
            let read = match builder {
                Builder::Time(_) => self.read_time(cell)?,
                _ if self.absent.is(cell) => Cell::Absent,
                Builder::Float(_) if is_rounded(cell) && !self.rounded.contains(name) => {
                    return Err(rounded(name, cell));
                }
                Builder::Tag(_) => {
                    tag_bytes += cell.len() + TAG_BYTES;
                    Cell::Text(cell)
                }
                _ => {
                    has_field = true;
                    read(name, builder.kind(), cell)?
                }
            };
            row.push(read);
        }
        if tag_bytes > KEY_BYTES_MAX {
            return Err(format!(
                "its tags together have more than {KEY_BYTES_MAX} bytes"
            ));
        }
        if self.time.is_none() {
            // With the time of its arrival it would say nothing at all.
            if !has_field {
                return Err(NO_VALUE.to_owned());
            }
            row.push(Cell::Time(now_ns));
        }
        for ((_, builder), cell) in self.columns.iter_mut().zip(row) {
            builder.push(cell);
        }
        Ok(())
    }

    fn read_time(&self, cell: &str) -> Result<Cell<'static>, String> {
        let Some(format) = &self.time else {
            return Ok(Cell::Absent);
        };
        let time = format.read(cell).map(Cell::Time);
        time.ok_or_else(|| format.refusal(cell))
    }

    /// The rows so far; the next ones begin anew.
    pub(super) fn take(&mut self) -> anyhow::Result<RecordBatch> {
        let mut fields = Vec::with_capacity(self.columns.len());
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (name, builder) in &mut self.columns {
            let is_time = matches!(builder, Builder::Time(_));
            let array = builder.finish();
            let name = if is_time { TIME_COLUMN } else { name };
            fields.push(Field::new(name, array.data_type().clone(), !is_time));
            arrays.push(array);
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
    }
}

impl Builder {
    fn new(role: Role) -> Self {
        match role {
            Role::Time => Self::Time(TimestampNanosecondBuilder::new()),
            Role::Tag => Self::Tag(StringDictionaryBuilder::new()),
            Role::Field(FieldType::Float) => Self::Float(Float64Builder::new()),
            Role::Field(FieldType::Integer) => Self::Integer(Int64Builder::new()),
            Role::Field(FieldType::Unsigned) => Self::Unsigned(UInt64Builder::new()),
            Role::Field(FieldType::Boolean) => Self::Boolean(BooleanBuilder::new()),
            Role::Field(FieldType::Text) => Self::Text(StringBuilder::new()),
            Role::Field(FieldType::Bytes) => Self::Bytes(BinaryBuilder::new()),
        }
    }

    fn kind(&self) -> FieldType {
        match self {
            Self::Float(_) => FieldType::Float,
            Self::Integer(_) | Self::Time(_) => FieldType::Integer,
            Self::Unsigned(_) => FieldType::Unsigned,
            Self::Boolean(_) => FieldType::Boolean,
            Self::Text(_) | Self::Tag(_) => FieldType::Text,
            Self::Bytes(_) => FieldType::Bytes,
        }
    }

    /// Adds a cell that was read for this column.
    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Self::Time(to), Cell::Time(value)) => to.append_value(value),
            (Self::Float(to), Cell::Float(value)) => to.append_value(value),
            (Self::Integer(to), Cell::Integer(value)) => to.append_value(value),
            (Self::Unsigned(to), Cell::Unsigned(value)) => to.append_value(value),
            (Self::Boolean(to), Cell::Boolean(value)) => to.append_value(value),
            (Self::Text(to), Cell::Text(value)) => to.append_value(value),
            (Self::Tag(to), Cell::Text(value)) => to.append_value(value),
            (Self::Bytes(to), Cell::Text(value)) => to.append_value(value),
            (Self::Time(to), _) => to.append_null(),
            (Self::Float(to), _) => to.append_null(),
            (Self::Integer(to), _) => to.append_null(),
            (Self::Unsigned(to), _) => to.append_null(),
            (Self::Boolean(to), _) => to.append_null(),
            (Self::Text(to), _) => to.append_null(),
            (Self::Tag(to), _) => to.append_null(),
            (Self::Bytes(to), _) => to.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Time(from) => Arc::new(from.finish()),
            Self::Tag(from) => Arc::new(from.finish()),
            Self::Float(from) => Arc::new(from.finish()),
            Self::Integer(from) => Arc::new(from.finish()),
            Self::Unsigned(from) => Arc::new(from.finish()),
            Self::Boolean(from) => Arc::new(from.finish()),
            Self::Text(from) => Arc::new(from.finish()),
            Self::Bytes(from) => Arc::new(from.finish()),
        }
    }
}

fn read<'a>(column: &str, kind: FieldType, cell: &'a str) -> Result<Cell<'a>, String> {
    let read = match kind {
        FieldType::Float => match cell.parse() {
            Ok(value) if is_beyond(cell, value) => return Err(beyond(column, cell)),
            value => value.ok().map(Cell::Float),
        },
        FieldType::Integer => cell.parse().ok().map(Cell::Integer),
        FieldType::Unsigned => cell.parse().ok().map(Cell::Unsigned),
        FieldType::Boolean => boolean(cell).map(Cell::Boolean),
        FieldType::Text | FieldType::Bytes if cell.len() > FIELD_TEXT_BYTES_MAX => {
            return Err(too_long(column, cell.len()));
        }
        FieldType::Text | FieldType::Bytes => Some(Cell::Text(cell)),
    };
    read.ok_or_else(|| {
        format!(
            "column \"{column}\" has {cell:?}, which is not of its type {}; if the type is wrong, give --type {column}=text or another",
            kind.name()
        )
    })
}

/// Whether a text is a finite number that a float does not have: 1e400, and not inf.
pub(super) fn is_beyond(cell: &str, value: f64) -> bool {
    value.is_infinite() && cell.bytes().any(|byte| byte.is_ascii_digit())
}

pub(super) fn beyond(column: &str, cell: &str) -> String {
    format!(
        "column \"{column}\" has {cell:?}, which is beyond the greatest float, 1.8e308; if the column is to have it, give --type {column}=text"
    )
}

fn rounded(column: &str, cell: &str) -> String {
    format!(
        "column \"{column}\" has {cell}, which a float would round; give --type {column}=text, integer or unsigned, or float to round it"
    )
}

pub(super) fn too_long(column: &str, bytes: usize) -> String {
    format!("column \"{column}\" has {bytes} bytes, and a value may have {FIELD_TEXT_BYTES_MAX}")
}
