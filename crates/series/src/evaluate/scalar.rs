//! Single values of columns, which aggregates keep.
//!
//! Does: take a value out of a column, order two of them, build a column of them. Does not: know expressions.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int64Array,
    StringArray, TimestampNanosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field};

use crate::value::{Type, Value};

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    Time(i64),
    Counts(Vec<i64>),
    /// Units of the last digit, and how many digits are behind the point.
    Numeric(i128, u8),
}

impl Scalar {
    /// A number as a float.
    pub(crate) fn number(&self) -> Option<f64> {
        Some(match self {
            Self::Int(value) => *value as f64,
            Self::Unsigned(value) => *value as f64,
            Self::Float(value) => *value,
            _ => return None,
        })
    }

    /// Bytes beside its place.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len() + 16,
            Self::Bytes(bytes) => bytes.len() + 16,
            Self::Counts(counts) => counts.len() * size_of::<i64>(),
            _ => 0,
        }
    }

    /// The value of a query; `None` = null.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Unsigned(value) => Self::Unsigned(*value),
            Value::Float(value) => Self::Float(*value),
            Value::Text(value) => Self::Text(Arc::clone(value)),
            Value::Time(value) => Self::Time(*value),
        })
    }
}

/// How two values of one type are ordered: -0.0 is below 0.0 and NaN above everything, text by its bytes.
pub(crate) fn order(one: &Scalar, other: &Scalar) -> Ordering {
    match (one, other) {
        (Scalar::Bool(one), Scalar::Bool(other)) => one.cmp(other),
        (Scalar::Int(one), Scalar::Int(other)) | (Scalar::Time(one), Scalar::Time(other)) => {
            one.cmp(other)
        }
        (Scalar::Unsigned(one), Scalar::Unsigned(other)) => one.cmp(other),
        (Scalar::Numeric(one, _), Scalar::Numeric(other, _)) => one.cmp(other),
        (Scalar::Float(one), Scalar::Float(other)) => nilometer_engine::float_order(*one, *other),
        (Scalar::Text(one), Scalar::Text(other)) => one.cmp(other),
        (Scalar::Bytes(one), Scalar::Bytes(other)) => one.cmp(other),
        _ => Ordering::Equal,
    }
}

/// The value of a row; `None` = null.
pub(crate) fn scalar_at(column: &ArrayRef, row: usize) -> Option<Scalar> {
    if column.is_null(row) {
        return None;
    }
    Some(match column.data_type() {
        DataType::Boolean => Scalar::Bool(column.as_boolean().value(row)),
        DataType::Int64 => Scalar::Int(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => Scalar::Unsigned(column.as_primitive::<UInt64Type>().value(row)),
        DataType::Decimal128(_, scale) => Scalar::Numeric(
            column.as_primitive::<Decimal128Type>().value(row),
            scale.unsigned_abs(),
        ),
        DataType::Float64 => Scalar::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Scalar::Text(Arc::from(column.as_string::<i32>().value(row))),
        DataType::Binary => Scalar::Bytes(Arc::from(column.as_binary::<i32>().value(row))),
        DataType::Timestamp(..) => {
            Scalar::Time(column.as_primitive::<TimestampNanosecondType>().value(row))
        }
        DataType::Dictionary(..) => {
            let tags = column.as_dictionary_opt::<Int32Type>()?;
            let key = usize::try_from(tags.keys().value(row)).ok()?;
            Scalar::Text(Arc::from(tags.values().as_string::<i32>().value(key)))
        }
        _ => return None,
    })
}

macro_rules! collect {
    ($values:expr, $kind:ident, $array:ty) => {
        $values
            .into_iter()
            .map(|value| match value {
                Some(Scalar::$kind(value)) => Some(value),
                _ => None,
            })
            .collect::<$array>()
    };
}

/// A column of values of one type.
pub(crate) fn array_of(kind: Type, values: Vec<Option<Scalar>>) -> ArrayRef {
    match kind {
        Type::Bool => Arc::new(collect!(values, Bool, BooleanArray)),
        Type::Int => Arc::new(collect!(values, Int, Int64Array)),
        Type::Unsigned => Arc::new(collect!(values, Unsigned, UInt64Array)),
        Type::Float => Arc::new(collect!(values, Float, Float64Array)),
        Type::Text => Arc::new(collect!(values, Text, StringArray)),
        Type::Bytes => {
            let values = values.into_iter().map(|value| match value {
                Some(Scalar::Bytes(value)) => Some(value),
                _ => None,
            });
            Arc::new(values.collect::<BinaryArray>())
        }
        Type::Time => {
            let times = collect!(values, Time, TimestampNanosecondArray);
            Arc::new(times.with_timezone("UTC"))
        }
        Type::Numeric(_) => {
            let values = values.into_iter().map(|value| match value {
                Some(Scalar::Numeric(value, _)) => Some(value),
                _ => None,
            });
            let values = values.collect::<Decimal128Array>();
            Arc::new(values.with_data_type(kind.arrow()))
        }
        Type::Counts => {
            let counts = Field::new_list_field(DataType::Int64, false);
            let mut lists = ListBuilder::new(Int64Builder::new()).with_field(counts);
            for value in values {
                match value {
                    Some(Scalar::Counts(counts)) => {
                        lists.values().append_slice(&counts);
                        lists.append(true);
                    }
                    _ => lists.append(false),
                }
            }
            Arc::new(lists.finish())
        }
    }
}
