//! Operand of an aggregate: the values of some rows, where they are.
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

/// Which values count: a bit for each, the first one lowest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Valid<'a> {
    bytes: &'a [u8],
    /// Bits before that of the first row.
    offset: usize,
}

/// Rows whose bits are looked at together.
pub(super) const WORD_ROWS: usize = 64;

impl<'a> Valid<'a> {
    fn of_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    fn of_array(array: &'a ArrayRef) -> Option<Self> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0)?;
        let bits = nulls.inner();
        Some(Self {
            bytes: bits.values(),
            offset: bits.offset(),
        })
    }

    #[cfg(test)]
    fn is(&self, row: usize) -> bool {
        let at = self.offset + row;
        self.bytes
            .get(at / 8)
            .is_some_and(|byte| byte >> (at % 8) & 1 == 1)
    }

    /// The bits of up to [`WORD_ROWS`] rows.
    pub(super) fn word(&self, row: usize, rows: usize) -> u64 {
        let at = self.offset + row;
        let bytes = self.bytes.get(at / 8..).unwrap_or_default();
        let shift = at % 8;
        let mut low = [0; 8];
        let known = bytes.len().min(8);
        if let (Some(to), Some(from)) = (low.get_mut(..known), bytes.get(..known)) {
            to.copy_from_slice(from);
        }
        let mut word = u64::from_le_bytes(low) >> shift;
        if let Some(next) = bytes.get(8).filter(|_| shift > 0) {
            word |= u64::from(*next) << (WORD_ROWS - shift);
        }
        if rows < WORD_ROWS {
            word &= (1 << rows) - 1;
        }
        word
    }

    /// How many of some rows have a value.
    fn count(&self, rows: Range<usize>) -> u64 {
        let (mut row, mut count) = (rows.start, 0);
        while row < rows.end {
            let length = (rows.end - row).min(WORD_ROWS);
            count += u64::from(self.word(row, length).count_ones());
            row += length;
        }
        count
    }
}

fn valid(array: &ArrayRef) -> Option<Valid<'_>> {
    Valid::of_array(array)
}

impl<'a> Operand<'a> {
    /// Of integers or times.
    pub(super) fn ints(&self) -> Option<Typed<'a, i64>> {
        match self {
            Self::Column(ColumnRef {
                values: ValuesRef::I64(values),
                validity,
            }) => Some((values, validity.map(Valid::of_bytes))),
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
            }) => Some((values, validity.map(Valid::of_bytes))),
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
            }) => Some((values, validity.map(Valid::of_bytes))),
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
    pub(in crate::operators) fn present(&self, rows: Range<usize>) -> u64 {
        let valid = match self {
            Self::Null => return 0,
            Self::Time(_) => None,
            Self::Column(column) => column.validity.map(Valid::of_bytes),
            Self::Array(array) => valid(array),
        };
        match valid {
            None => rows.len() as u64,
            Some(valid) => valid.count(rows),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_of_rows_are_found_wherever_they_begin_and_end() {
        let bytes: Vec<u8> = (0..40_u8).map(|at| at.wrapping_mul(113) ^ 0x5a).collect();
        for offset in 0..9 {
            let valid = Valid {
                bytes: &bytes,
                offset,
            };
            for row in 0..130 {
                for rows in 0..=WORD_ROWS {
                    let word = valid.word(row, rows);
                    let bits = (0..rows).filter(|at| valid.is(row + at));
                    let expected = bits.fold(0_u64, |word, at| word | 1 << at);
                    assert_eq!(word, expected, "{offset} {row} {rows}");
                }
                let all = (row..190).filter(|row| valid.is(*row)).count();
                assert_eq!(valid.count(row..190), all as u64);
            }
        }
    }
}
