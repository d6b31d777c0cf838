//! What an aggregate is of: the values of some rows, where they are.
//!
//! Does: give them as a slice of their type, or one at a time. Does not: copy.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, ArrayRef};
use nilometer_engine::{ColumnRef, ValuesRef};

use crate::evaluate::{Scalar, scalar_at};

/// Values of rows.
#[derive(Debug, Clone)]
pub(crate) enum Operand<'a> {
    /// None has one.
    Null,
    /// As the engine has them.
    Column(ColumnRef<'a>),
    /// The times of the rows.
    Time(&'a [i64]),
    /// Any others.
    Array(&'a ArrayRef),
}

/// Values, and which of them count; `None` = all.
type Typed<'a, T> = (&'a [T], Option<Valid<'a>>);

/// Which values count.
#[derive(Debug, Clone, Copy)]
pub(super) enum Valid<'a> {
    Bits(&'a [u8]),
    Nulls(&'a arrow_buffer::NullBuffer),
}

impl Valid<'_> {
    pub(super) fn is(&self, row: usize) -> bool {
        match self {
            Self::Bits(bits) => bits
                .get(row / 8)
                .is_some_and(|byte| byte >> (row % 8) & 1 == 1),
            Self::Nulls(nulls) => nulls.is_valid(row),
        }
    }
}

fn valid(array: &ArrayRef) -> Option<Valid<'_>> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0);
    nulls.map(Valid::Nulls)
}

impl<'a> Operand<'a> {
    /// Of integers or times.
    pub(super) fn ints(&self) -> Option<Typed<'a, i64>> {
        match self {
            Self::Column(ColumnRef {
                values: ValuesRef::I64(values),
                validity,
            }) => Some((values, validity.map(Valid::Bits))),
            Self::Time(times) => Some((times, None)),
            Self::Array(array) => {
                if let Some(values) = array.as_primitive_opt::<Int64Type>() {
                    return Some((values.values(), valid(array)));
                }
                let times = array.as_primitive_opt::<TimestampNanosecondType>()?;
                Some((times.values(), valid(array)))
            }
            _ => None,
        }
    }

    pub(super) fn unsigneds(&self) -> Option<Typed<'a, u64>> {
        match self {
            Self::Column(ColumnRef {
                values: ValuesRef::U64(values),
                validity,
            }) => Some((values, validity.map(Valid::Bits))),
            Self::Array(array) => {
                let values = array.as_primitive_opt::<UInt64Type>()?;
                Some((values.values(), valid(array)))
            }
            _ => None,
        }
    }

    pub(super) fn floats(&self) -> Option<Typed<'a, f64>> {
        match self {
            Self::Column(ColumnRef {
                values: ValuesRef::F64(values),
                validity,
            }) => Some((values, validity.map(Valid::Bits))),
            Self::Array(array) => {
                let values = array.as_primitive_opt::<Float64Type>()?;
                Some((values.values(), valid(array)))
            }
            _ => None,
        }
    }

    pub(super) fn is_present(&self, row: usize) -> bool {
        match self {
            Self::Null => false,
            Self::Time(_) => true,
            Self::Column(column) => column.is_present(row),
            Self::Array(array) => array.is_valid(row),
        }
    }

    /// How many of the rows have a value.
    pub(super) fn present(&self, rows: Range<usize>) -> u64 {
        let has_all = match self {
            Self::Null => return 0,
            Self::Time(_) => true,
            Self::Column(column) => column.validity.is_none(),
            Self::Array(array) => array.null_count() == 0,
        };
        if has_all {
            return rows.len() as u64;
        }
        rows.filter(|row| self.is_present(*row)).count() as u64
    }

    /// A value as bits: integers and floats as their 64 bits, booleans as 0 or 1; `None` = null, or of another type.
    pub(super) fn bits(&self, row: usize) -> Option<u64> {
        match self {
            Self::Null => None,
            Self::Time(times) => times.get(row).map(|time| time.cast_unsigned()),
            Self::Column(column) if !column.is_present(row) => None,
            Self::Column(column) => match column.values {
                ValuesRef::I64(values) => values.get(row).map(|value| value.cast_unsigned()),
                ValuesRef::U64(values) => values.get(row).copied(),
                ValuesRef::F64(values) => values.get(row).map(|value| value.to_bits()),
                ValuesRef::Bool(values) => values.get(row).map(|value| u64::from(*value)),
                ValuesRef::Text { .. } | ValuesRef::Bytes { .. } => None,
            },
            Self::Array(array) => match scalar_at(array, row)? {
                Scalar::Int(value) | Scalar::Time(value) => Some(value.cast_unsigned()),
                Scalar::Unsigned(value) => Some(value),
                Scalar::Float(value) => Some(value.to_bits()),
                Scalar::Bool(value) => Some(u64::from(value)),
                _ => None,
            },
        }
    }

    /// A value; `None` = null.
    pub(super) fn scalar(&self, row: usize) -> Option<Scalar> {
        let column = match self {
            Self::Null => return None,
            Self::Time(times) => return times.get(row).map(|time| Scalar::Time(*time)),
            Self::Array(array) => return scalar_at(array, row),
            Self::Column(column) => column,
        };
        if !column.is_present(row) {
            return None;
        }
        Some(match column.values {
            ValuesRef::I64(values) => Scalar::Int(*values.get(row)?),
            ValuesRef::U64(values) => Scalar::Unsigned(*values.get(row)?),
            ValuesRef::F64(values) => Scalar::Float(*values.get(row)?),
            ValuesRef::Bool(values) => Scalar::Bool(*values.get(row)?),
            ValuesRef::Text { offsets, bytes } => {
                let text = String::from_utf8_lossy(slice(offsets, bytes, row)?);
                Scalar::Text(Arc::from(text.as_ref()))
            }
            ValuesRef::Bytes { offsets, bytes } => {
                Scalar::Bytes(Arc::from(slice(offsets, bytes, row)?))
            }
        })
    }
}

fn slice<'a>(offsets: &[u32], bytes: &'a [u8], row: usize) -> Option<&'a [u8]> {
    bytes.get(*offsets.get(row)? as usize..*offsets.get(row + 1)? as usize)
}
