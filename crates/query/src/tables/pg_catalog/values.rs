//! Arguments and results of the catalogue's functions, row by row.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

use super::cells::Cell;

/// What a function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Returns {
    Bool,
    Int,
    Text,
    Texts,
}

impl Returns {
    pub(super) fn arrow(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int64,
            Self::Text => DataType::Utf8,
            Self::Texts => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
        }
    }

    /// The values of all rows.
    pub(super) fn array(self, cells: Vec<Cell>) -> ArrayRef {
        match self {
            Self::Bool => {
                let truths = cells.into_iter().map(|cell| match cell {
                    Cell::Bool(truth) => Some(truth),
                    _ => None,
                });
                Arc::new(truths.collect::<BooleanArray>())
            }
            Self::Int => {
                let numbers = cells.into_iter().map(|cell| match cell {
                    Cell::Int(number) => Some(number),
                    _ => None,
                });
                Arc::new(numbers.collect::<Int64Array>())
            }
            Self::Text => {
                let texts = cells.into_iter().map(|cell| match cell {
                    Cell::Text(text) => Some(text),
                    _ => None,
                });
                Arc::new(texts.collect::<StringArray>())
            }
            Self::Texts => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for cell in cells {
                    match cell {
                        Cell::Texts(texts) => {
                            for text in texts {
                                lists.values().append_value(text);
                            }
                            lists.append(true);
                        }
                        _ => lists.append(false),
                    }
                }
                Arc::new(lists.finish())
            }
        }
    }
}

/// An argument for all rows.
#[derive(Debug)]
pub(super) enum Argument {
    Bools(BooleanArray),
    Ints(Int64Array),
    Texts(StringArray),
    /// Of a type that no function asks for.
    Others,
}

impl Argument {
    /// Of `rows` rows; a constant is one row.
    pub(super) fn of(value: &ColumnarValue) -> Result<Self> {
        let array = match value {
            ColumnarValue::Array(array) => Arc::clone(array),
            ColumnarValue::Scalar(value) => value.to_array()?,
        };
        Ok(match array.data_type() {
            DataType::Boolean => Self::Bools(array.as_boolean().clone()),
            kind if kind.is_integer() => {
                let numbers = cast(&array, &DataType::Int64)?;
                Self::Ints(numbers.as_primitive::<Int64Type>().clone())
            }
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Dictionary(..) => {
                let texts = cast(&array, &DataType::Utf8)?;
                Self::Texts(texts.as_string::<i32>().clone())
            }
            _ => Self::Others,
        })
    }

    pub(super) fn cell(&self, row: usize) -> Cell {
        let at = |array: &dyn Array| {
            let at = if array.len() == 1 { 0 } else { row };
            array.is_valid(at).then_some(at)
        };
        match self {
            Self::Bools(of) => at(of).map(|at| of.value(at)).into(),
            Self::Ints(of) => at(of).map(|at| of.value(at)).into(),
            Self::Texts(of) => at(of).map(|at| of.value(at)).into(),
            Self::Others => Cell::Null,
        }
    }
}

/// The one value of an array.
pub(super) fn scalar(array: &ArrayRef) -> Result<ColumnarValue> {
    Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
        array, 0,
    )?))
}
