//! Sums and numbers of values.
//!
//! Does: integers exactly, floats in an order of its own. Does not: finish; whether a sum fits is a rule of the language.

use std::ops::AddAssign;

use nilometer_engine::StoredSums;

use super::operand::{Valid, WORD_ROWS};
use super::run::{Run, resize};

/// Sums by cell.
#[derive(Debug, Default)]
pub(super) struct Sums<T> {
    pub(super) counts: Vec<u64>,
    pub(super) totals: Vec<T>,
}

impl<T: Copy + Default + AddAssign> Sums<T> {
    pub(super) fn resize(&mut self, cells: usize) {
        resize(&mut self.counts, cells, 0);
        resize(&mut self.totals, cells, T::default());
    }

    fn more(&mut self, cell: u32, count: u64, total: T) {
        let cell = cell as usize;
        if let (Some(counts), Some(totals)) = (self.counts.get_mut(cell), self.totals.get_mut(cell))
        {
            *counts += count;
            *totals += total;
        }
    }

    pub(super) fn add<V>(
        &mut self,
        runs: &[Run],
        values: &[V],
        valid: Option<Valid<'_>>,
        sum: impl Fn(&[V]) -> T,
        one: impl Fn(&V) -> T,
    ) {
        for run in runs {
            let own = values.get(run.rows()).unwrap_or_default();
            let Some(valid) = &valid else {
                self.more(run.cell, own.len() as u64, sum(own));
                continue;
            };
            let (mut count, mut total, mut row) = (0, T::default(), run.rows().start);
            for part in own.chunks(WORD_ROWS) {
                let mut bits = valid.word(row, part.len());
                row += part.len();
                count += u64::from(bits.count_ones());
                // Gaps are rare: most parts have all of their values.
                if bits.count_ones() as usize == part.len() {
                    total += sum(part);
                    continue;
                }
                while bits != 0 {
                    if let Some(value) = part.get(bits.trailing_zeros() as usize) {
                        total += one(value);
                    }
                    bits &= bits - 1;
                }
            }
            self.more(run.cell, count, total);
        }
    }

    pub(super) fn join(&mut self, other: &Self, cells: &[u32]) {
        for ((cell, count), total) in cells.iter().zip(&other.counts).zip(&other.totals) {
            self.more(*cell, *count, *total);
        }
    }
}

impl Sums<i128> {
    pub(super) fn add_stored(&mut self, cells: &[u32], counts: &[u32], sums: StoredSums<'_>) {
        let cells = cells.iter().zip(counts);
        match sums {
            StoredSums::Narrow(sums) => {
                for ((cell, count), sum) in cells.zip(sums) {
                    self.more(*cell, u64::from(*count), i128::from(*sum));
                }
            }
            StoredSums::Wide(sums) => {
                for ((cell, count), sum) in cells.zip(sums) {
                    self.more(*cell, u64::from(*count), *sum);
                }
            }
        }
    }
}

impl Sums<f64> {
    pub(super) fn add_stored(&mut self, cells: &[u32], counts: &[u32], sums: &[f64]) {
        for ((cell, count), sum) in cells.iter().zip(counts).zip(sums) {
            self.more(*cell, u64::from(*count), *sum);
        }
    }
}

/// Values whose halves can be summed in 64 bits.
const HALVES_MAX: usize = 1 << 30;

/// Exactly: the upper and the lower halves apart, which do not overflow in 64 bits, and without signs, so that several are
/// added at a time.
pub(super) fn ints_sum(values: &[i64]) -> i128 {
    let parts = values.chunks(HALVES_MAX).map(|values| {
        let (mut low, mut high) = (0_u64, 0_u64);
        for value in values {
            let raised = value.cast_unsigned() ^ SIGN;
            low = low.wrapping_add(raised & u64::from(u32::MAX));
            high = high.wrapping_add(raised >> 32);
        }
        let raised = (i128::from(high) << 32) + i128::from(low);
        raised - i128::from(SIGN) * values.len() as i128
    });
    parts.sum()
}

/// By as much a signed number is raised when its first bit is turned.
const SIGN: u64 = 1 << 63;

/// The same of unsigned ones.
pub(super) fn unsigneds_sum(values: &[u64]) -> i128 {
    let parts = values.chunks(HALVES_MAX).map(|values| {
        let (mut low, mut high) = (0_u64, 0_u64);
        for value in values {
            low = low.wrapping_add(value & u64::from(u32::MAX));
            high = high.wrapping_add(value >> 32);
        }
        (i128::from(high) << 32) + i128::from(low)
    });
    parts.sum()
}

/// Sums that do not wait for each other.
const LANES: usize = 8;

pub(super) fn floats_sum(values: &[f64]) -> f64 {
    let (lanes, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for values in lanes {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value;
        }
    }
    sums.iter().sum::<f64>() + rest.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_integers_are_exact() {
        let cases: [&[i64]; 4] = [
            &[],
            &[i64::MIN, i64::MIN, -1],
            &[i64::MAX, i64::MAX, i64::MAX, 1],
            &[-1, 1, i64::MIN, i64::MAX],
        ];
        for values in cases {
            let expected: i128 = values.iter().map(|value| i128::from(*value)).sum();
            assert_eq!(ints_sum(values), expected, "{values:?}");
        }
        let values = [u64::MAX, u64::MAX, 7];
        assert_eq!(unsigneds_sum(&values), 2 * i128::from(u64::MAX) + 7);
    }
}
