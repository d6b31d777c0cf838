//! Rows that are put together one by one.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// A value of a row.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    Null,
    Text(String),
    Number(i64),
    Truth(bool),
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

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Number(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Self {
        Self::from(value as u64)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Truth(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Text,
    Number,
    Truth,
}

/// Rows with the names and kinds of their columns.
#[derive(Debug)]
pub(super) struct Rows {
    columns: &'static [(&'static str, Of)],
    rows: Vec<Vec<Cell>>,
}

impl Rows {
    pub(super) fn new(columns: &'static [(&'static str, Of)]) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, row: impl IntoIterator<Item = Cell>) {
        self.rows.push(row.into_iter().collect());
    }

    pub(super) fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|(name, of)| {
            let kind = match of {
                Of::Text => DataType::Utf8,
                Of::Number => DataType::Int64,
                Of::Truth => DataType::Boolean,
            };
            Field::new(*name, kind, true)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    pub(super) fn batch(&self) -> RecordBatch {
        let arrays = self.columns.iter().enumerate().map(|(at, (_, of))| {
            let cells = self.rows.iter().map(|row| row.get(at));
            let array: ArrayRef = match of {
                Of::Text => Arc::new(
                    cells
                        .map(|cell| match cell {
                            Some(Cell::Text(text)) => Some(text.as_str()),
                            _ => None,
                        })
                        .collect::<StringArray>(),
                ),
                Of::Number => Arc::new(
                    cells
                        .map(|cell| match cell {
                            Some(Cell::Number(number)) => Some(*number),
                            _ => None,
                        })
                        .collect::<Int64Array>(),
                ),
                Of::Truth => Arc::new(
                    cells
                        .map(|cell| match cell {
                            Some(Cell::Truth(truth)) => Some(*truth),
                            _ => None,
                        })
                        .collect::<BooleanArray>(),
                ),
            };
            array
        });
        RecordBatch::try_new(self.schema(), arrays.collect())
            .expect("the arrays are built by the columns that the schema is built from")
    }
}
