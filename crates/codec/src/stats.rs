//! Statistics of a page in a directory, with which queries skip it or answer without it.

mod packed;

use std::cmp::Ordering;

use crate::{ColumnRef, ValuesRef};
pub use packed::{decode_statistics, encode_statistics};

/// Bytes of a text that its bounds keep.
const PREFIX_BYTES: usize = 8;

/// Statistics of the present values of one page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageStatistics {
    /// Rows that have a value. If 0, `values` holds zeros and must not be used.
    pub non_null: u32,
    /// The first row that has a value.
    pub first: Option<Edge>,
    /// The last row that has a value.
    pub last: Option<Edge>,
    /// Extremes and sums, by type.
    pub values: Statistics,
}

/// A value at the edge of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The row, counted from 0, null rows included.
    pub row: u16,
    /// The value: integers and floats as their 64 bits, booleans as 0 or 1, text as its first eight bytes, the first
    /// one highest, padded with zeros.
    pub bits: u64,
}

/// Extremes and sums of present values, by type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistics {
    /// Of signed integers.
    Int {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
        /// The sum, which cannot overflow.
        sum: i128,
    },
    /// Of unsigned integers.
    Unsigned {
        /// The smallest value.
        min: u64,
        /// The largest value.
        max: u64,
        /// The sum, which cannot overflow.
        sum: u128,
    },
    /// Of floats.
    Float {
        /// The smallest value; -0.0 is below 0.0.
        min: f64,
        /// The largest value; 0.0 is above -0.0.
        max: f64,
        /// The sum, in row order.
        sum: f64,
        /// A NaN or an infinity is among the values: the other numbers must not be used.
        non_finite: bool,
    },
    /// Of booleans.
    Bool {
        /// How many are true.
        trues: u32,
    },
    /// Of text and bytes.
    Text {
        /// The first eight bytes of the smallest value, padded with zeros. Padded likewise, no value is below it.
        min_prefix: [u8; PREFIX_BYTES],
        /// Not below any value. The largest value padded with zeros if it has at most eight bytes; else its first eight
        /// as one big-endian number, plus one. Eight bytes of 0xff mean that there is no bound.
        max_prefix: [u8; PREFIX_BYTES],
    },
}

/// Computes the statistics of a column of at most [`crate::BLOCK_ROWS_MAX`] rows.
///
/// # Panics
///
/// If the validity bitmap is shorter than the column, or offsets of text do not lie within its bytes: pages that
/// [`crate::encode_page`] took and columns that [`crate::decode_page`] filled are sound.
pub fn statistics(column: ColumnRef<'_>) -> PageStatistics {
    match column.values {
        ValuesRef::I64(values) => with_edges(
            column,
            |row| values[row] as u64,
            ints(present(column, values)),
        ),
        ValuesRef::U64(values) => with_edges(
            column,
            |row| values[row],
            unsigneds(present(column, values)),
        ),
        ValuesRef::F64(values) => with_edges(
            column,
            |row| values[row].to_bits(),
            floats(present(column, values)),
        ),
        ValuesRef::Bool(values) => {
            let trues = present(column, values).filter(|value| *value).count() as u32;
            with_edges(
                column,
                |row| u64::from(values[row]),
                Statistics::Bool { trues },
            )
        }
        ValuesRef::Text { offsets, bytes } | ValuesRef::Bytes { offsets, bytes } => {
            let value = |row: usize| &bytes[offsets[row] as usize..offsets[row + 1] as usize];
            let present = (0..column.rows())
                .filter(|row| column.is_present(*row))
                .map(value);
            with_edges(column, |row| rank(prefix(value(row))), texts(present))
        }
    }
}

fn present<T: Copy>(column: ColumnRef<'_>, values: &[T]) -> impl Iterator<Item = T> {
    values
        .iter()
        .enumerate()
        .filter(move |(row, _)| column.is_present(*row))
        .map(|(_, value)| *value)
}

fn with_edges(
    column: ColumnRef<'_>,
    bits: impl Fn(usize) -> u64,
    values: Statistics,
) -> PageStatistics {
    let rows = column.rows();
    let is_present = |row: &usize| column.is_present(*row);
    let edge = |row: usize| Edge {
        row: row as u16,
        bits: bits(row),
    };
    PageStatistics {
        non_null: match column.validity {
            None => rows as u32,
            Some(_) => (0..rows).filter(is_present).count() as u32,
        },
        first: (0..rows).find(is_present).map(edge),
        last: (0..rows).rev().find(is_present).map(edge),
        values,
    }
}

fn ints(mut values: impl Iterator<Item = i64>) -> Statistics {
    let Some(first) = values.next() else {
        return Statistics::Int {
            min: 0,
            max: 0,
            sum: 0,
        };
    };
    let start = (first, first, i128::from(first));
    let (min, max, sum) = values.fold(start, |(min, max, sum), value| {
        (
            value.min(min),
            value.max(max),
            sum.wrapping_add(i128::from(value)),
        )
    });
    Statistics::Int { min, max, sum }
}

fn unsigneds(mut values: impl Iterator<Item = u64>) -> Statistics {
    let Some(first) = values.next() else {
        return Statistics::Unsigned {
            min: 0,
            max: 0,
            sum: 0,
        };
    };
    let start = (first, first, u128::from(first));
    let (min, max, sum) = values.fold(start, |(min, max, sum), value| {
        (
            value.min(min),
            value.max(max),
            sum.wrapping_add(u128::from(value)),
        )
    });
    Statistics::Unsigned { min, max, sum }
}

/// The order of floats in which extremes are found: -0.0 is below 0.0, and NaN, whatever its bits, is above everything and
/// equal to NaN, as `PostgreSQL` has it. So the smallest of some values is NaN only if all of them are.
pub fn float_order(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) => a.total_cmp(&b),
        (a, b) => a.cmp(&b),
    }
}

fn floats(mut values: impl Iterator<Item = f64>) -> Statistics {
    let Some(first) = values.next() else {
        return Statistics::Float {
            min: 0.0,
            max: 0.0,
            sum: 0.0,
            non_finite: false,
        };
    };
    let (mut min, mut max, mut sum) = (first, first, 0.0 + first);
    let mut non_finite = !first.is_finite();
    for value in values {
        non_finite |= !value.is_finite();
        // Zeros compare equal, but a page must give the same bits whatever order they came in.
        min = if float_order(value, min).is_lt() {
            value
        } else {
            min
        };
        max = if float_order(value, max).is_gt() {
            value
        } else {
            max
        };
        sum += value;
    }
    Statistics::Float {
        min,
        max,
        sum,
        non_finite,
    }
}

fn texts<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Statistics {
    let Some(first) = values.next() else {
        return Statistics::Text {
            min_prefix: [0; PREFIX_BYTES],
            max_prefix: [0; PREFIX_BYTES],
        };
    };
    let (min, max) = values.fold((first, first), |(min, max), value| {
        (min.min(value), max.max(value))
    });
    let mut max_prefix = prefix(max);
    if max.len() > PREFIX_BYTES {
        max_prefix = unrank(rank(max_prefix).saturating_add(1));
    }
    Statistics::Text {
        min_prefix: prefix(min),
        max_prefix,
    }
}

/// The first eight bytes, padded with zeros.
fn prefix(value: &[u8]) -> [u8; PREFIX_BYTES] {
    let mut prefix = [0; PREFIX_BYTES];
    let n = value.len().min(PREFIX_BYTES);
    prefix[..n].copy_from_slice(&value[..n]);
    prefix
}

/// The number that orders prefixes as their bytes do.
#[expect(
    clippy::big_endian_bytes,
    reason = "bytes compare like big-endian numbers; these are never stored as such"
)]
fn rank(prefix: [u8; PREFIX_BYTES]) -> u64 {
    u64::from_be_bytes(prefix)
}

/// The prefix that ranks so.
#[expect(clippy::big_endian_bytes, reason = "the inverse of `rank`")]
fn unrank(rank: u64) -> [u8; PREFIX_BYTES] {
    rank.to_be_bytes()
}
