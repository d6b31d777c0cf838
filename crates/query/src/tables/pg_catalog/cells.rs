//! Rows of the catalogue, put together column by column: only those columns are made that are asked for.

use std::sync::Arc;

use arrow::array::{
    ArrayBuilder, ArrayRef, BooleanBuilder, Float32Builder, Float64Builder, Int16Builder,
    Int32Builder, Int64Builder, ListBuilder, RecordBatch, RecordBatchOptions, StringBuilder,
    TimestampNanosecondBuilder,
};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::Result;

use super::relations::{CatalogTable, arrow_of};

/// Rows of one batch.
const BATCH_ROWS: usize = 8192;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Null,
    /// What PostgreSQL has where there is nothing: NULL where a column may be, else zero, false or an empty text.
    Default,
    Bool(bool),
    Int(i64),
    Text(String),
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

enum Values {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    Time(TimestampNanosecondBuilder),
    Text(StringBuilder),
    Int16s(ListBuilder<Int16Builder>),
    Int64s(ListBuilder<Int64Builder>),
    Texts(ListBuilder<StringBuilder>),
}

struct Column {
    name: &'static str,
    not_null: bool,
    values: Values,
}

/// Rows of one table that are being made.
pub(super) struct Sink {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    batches: Vec<RecordBatch>,
}

impl Sink {
    /// For these columns of a table.
    pub(super) fn new(table: &CatalogTable, columns: &[usize], schema: SchemaRef) -> Self {
        let columns = columns.iter().filter_map(|&at| table.columns.get(at));
        let columns = columns.map(|column| Column {
            name: column.name,
            not_null: column.not_null,
            values: Values::of(&arrow_of(column.kind)),
        });
        Self {
            schema,
            columns: columns.collect(),
            rows: 0,
            batches: Vec::new(),
        }
    }

    /// Adds a row: `cell` says what it has in a column.
    pub(super) fn row(&mut self, cell: impl Fn(&'static str) -> Cell) -> Result<()> {
        for column in &mut self.columns {
            column.values.push(cell(column.name), column.not_null);
        }
        self.rows += 1;
        if self.rows >= BATCH_ROWS {
            self.end_batch()?;
        }
        Ok(())
    }

    fn end_batch(&mut self) -> Result<()> {
        let arrays = self.columns.iter_mut().map(|column| column.values.finish());
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            arrays.collect(),
            &options,
        )?;
        self.batches.push(batch);
        self.rows = 0;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Vec<RecordBatch>> {
        if self.rows > 0 {
            self.end_batch()?;
        }
        Ok(self.batches)
    }
}

impl Values {
    fn of(kind: &DataType) -> Self {
        match kind {
            DataType::Boolean => Self::Bool(BooleanBuilder::new()),
            DataType::Int16 => Self::Int16(Int16Builder::new()),
            DataType::Int32 => Self::Int32(Int32Builder::new()),
            DataType::Int64 => Self::Int64(Int64Builder::new()),
            DataType::Float32 => Self::Float32(Float32Builder::new()),
            DataType::Float64 => Self::Float64(Float64Builder::new()),
            DataType::Timestamp(..) => {
                Self::Time(TimestampNanosecondBuilder::new().with_timezone("UTC"))
            }
            DataType::List(of) => match of.data_type() {
                DataType::Int16 => Self::Int16s(ListBuilder::new(Int16Builder::new())),
                DataType::Int64 => Self::Int64s(ListBuilder::new(Int64Builder::new())),
                _ => Self::Texts(ListBuilder::new(StringBuilder::new())),
            },
            _ => Self::Text(StringBuilder::new()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "estimates of rows")]
    fn push(&mut self, cell: Cell, not_null: bool) {
        let is_default = cell == Cell::Default && not_null;
        match self {
            Self::Bool(to) => to.append_option(match cell {
                Cell::Bool(value) => Some(value),
                Cell::Text(text) => Some(text == "t"),
                _ => is_default.then_some(false),
            }),
            Self::Int16(to) => to.append_option(whole(&cell, is_default)),
            Self::Int32(to) => to.append_option(whole(&cell, is_default)),
            Self::Int64(to) => to.append_option(whole(&cell, is_default)),
            Self::Float32(to) => {
                to.append_option(whole::<i64>(&cell, is_default).map(|it| it as f32));
            }
            Self::Float64(to) => {
                to.append_option(whole::<i64>(&cell, is_default).map(|it| it as f64));
            }
            Self::Time(to) => to.append_option(whole(&cell, false)),
            Self::Text(to) => match cell {
                Cell::Text(text) => to.append_value(text),
                Cell::Int(number) => to.append_value(number.to_string()),
                Cell::Bool(truth) => to.append_value(if truth { "t" } else { "f" }),
                _ => to.append_option(is_default.then_some("")),
            },
            Self::Int16s(to) => match cell {
                Cell::Ints(values) => {
                    for value in values {
                        to.values().append_option(i16::try_from(value).ok());
                    }
                    to.append(true);
                }
                _ => to.append(is_default),
            },
            Self::Int64s(to) => match cell {
                Cell::Ints(values) => {
                    to.values().append_slice(&values);
                    to.append(true);
                }
                _ => to.append(is_default),
            },
            Self::Texts(to) => match cell {
                Cell::Texts(values) => {
                    for value in values {
                        to.values().append_value(value);
                    }
                    to.append(true);
                }
                _ => to.append(is_default),
            },
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bool(of) => ArrayBuilder::finish(of),
            Self::Int16(of) => ArrayBuilder::finish(of),
            Self::Int32(of) => ArrayBuilder::finish(of),
            Self::Int64(of) => ArrayBuilder::finish(of),
            Self::Float32(of) => ArrayBuilder::finish(of),
            Self::Float64(of) => ArrayBuilder::finish(of),
            Self::Time(of) => ArrayBuilder::finish(of),
            Self::Text(of) => ArrayBuilder::finish(of),
            Self::Int16s(of) => ArrayBuilder::finish(of),
            Self::Int64s(of) => ArrayBuilder::finish(of),
            Self::Texts(of) => ArrayBuilder::finish(of),
        }
    }
}

/// A whole number, as `fixed.txt` or a row has it.
fn whole<T: TryFrom<i64> + Default>(cell: &Cell, is_default: bool) -> Option<T> {
    match cell {
        Cell::Int(number) => T::try_from(*number).ok(),
        Cell::Text(text) => T::try_from(text.parse().ok()?).ok(),
        _ => is_default.then(T::default),
    }
}
