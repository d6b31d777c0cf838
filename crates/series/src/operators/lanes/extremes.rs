//! Smallest and largest values.
//!
//! Does: compare floats in a total order, -0.0 below 0.0 and NaN above everything. Does not: compare text.

use nilometer_engine::float_order;

use super::operand::{Valid, WORD_ROWS};
use super::run::{Run, resize};

/// A type with a total order.
pub(super) trait Ordered: Copy + Default {
    fn is_less(self, other: Self) -> bool;

    /// The extreme of some values, at least one.
    fn extreme(values: &[Self], is_max: bool) -> Option<Self> {
        values.iter().copied().reduce(|best, value| {
            let is_better = if is_max {
                best.is_less(value)
            } else {
                value.is_less(best)
            };
            if is_better { value } else { best }
        })
    }
}

impl Ordered for i64 {
    fn is_less(self, other: Self) -> bool {
        self < other
    }
}

impl Ordered for u64 {
    fn is_less(self, other: Self) -> bool {
        self < other
    }
}

impl Ordered for f64 {
    fn is_less(self, other: Self) -> bool {
        float_order(self, other).is_lt()
    }

    fn extreme(values: &[Self], is_max: bool) -> Option<Self> {
        let first = *values.first()?;
        // As the machine compares, which is right but for NaN and the two zeros.
        let mut is_odd = false;
        let mut best = first;
        for &value in values {
            is_odd |= value.is_nan();
            let is_better = if is_max { best < value } else { value < best };
            best = if is_better { value } else { best };
        }
        if !is_odd && best != 0.0 {
            return Some(best);
        }
        values.iter().copied().reduce(|best, value| {
            let is_better = if is_max {
                best.is_less(value)
            } else {
                value.is_less(best)
            };
            if is_better { value } else { best }
        })
    }
}

/// Extremes by cell.
#[derive(Debug)]
pub(super) struct Extreme<T> {
    is_max: bool,
    pub(super) seen: Vec<bool>,
    pub(super) best: Vec<T>,
}

impl<T: Ordered> Extreme<T> {
    pub(super) fn new(is_max: bool) -> Self {
        Self {
            is_max,
            seen: Vec::new(),
            best: Vec::new(),
        }
    }

    pub(super) fn resize(&mut self, cells: usize) {
        resize(&mut self.seen, cells, false);
        resize(&mut self.best, cells, T::default());
    }

    pub(super) fn offer(&mut self, cell: u32, value: T) {
        let cell = cell as usize;
        let (Some(seen), Some(best)) = (self.seen.get_mut(cell), self.best.get_mut(cell)) else {
            return;
        };
        let is_better = if self.is_max {
            best.is_less(value)
        } else {
            value.is_less(*best)
        };
        if !*seen || is_better {
            *best = value;
            *seen = true;
        }
    }

    pub(super) fn add(&mut self, runs: &[Run], values: &[T], valid: Option<Valid<'_>>) {
        for run in runs {
            let own = values.get(run.rows()).unwrap_or_default();
            match &valid {
                None => {
                    if let Some(value) = T::extreme(own, self.is_max) {
                        self.offer(run.cell, value);
                    }
                }
                Some(valid) => {
                    let mut row = run.rows().start;
                    for part in own.chunks(WORD_ROWS) {
                        let mut bits = valid.word(row, part.len());
                        row += part.len();
                        if bits.count_ones() as usize == part.len() {
                            if let Some(value) = T::extreme(part, self.is_max) {
                                self.offer(run.cell, value);
                            }
                            continue;
                        }
                        while bits != 0 {
                            if let Some(value) = part.get(bits.trailing_zeros() as usize) {
                                self.offer(run.cell, *value);
                            }
                            bits &= bits - 1;
                        }
                    }
                }
            }
        }
    }

    pub(super) fn add_stored(&mut self, cells: &[u32], counts: &[u32], min: &[T], max: &[T]) {
        let values = if self.is_max { max } else { min };
        for ((cell, count), value) in cells.iter().zip(counts).zip(values) {
            if *count > 0 {
                self.offer(*cell, *value);
            }
        }
    }

    /// Whether the extreme of a cell is known to be beyond a smallest and a largest value.
    pub(super) fn is_beyond(&self, cell: u32, min: Option<&T>, max: Option<&T>) -> bool {
        let cell = cell as usize;
        let (Some(true), Some(&best)) = (self.seen.get(cell), self.best.get(cell)) else {
            return false;
        };
        if self.is_max {
            max.is_some_and(|max| !best.is_less(*max))
        } else {
            min.is_some_and(|min| !min.is_less(best))
        }
    }

    pub(super) fn join(&mut self, other: &Self, cells: &[u32]) {
        for ((cell, seen), value) in cells.iter().zip(&other.seen).zip(&other.best) {
            if *seen {
                self.offer(*cell, *value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PostgreSQL` has NaN above all numbers; the two zeros are told apart so that the answer is one whatever the order.
    #[test]
    fn floats_have_one_smallest_and_one_largest() {
        let of = |values: &[f64], is_max| f64::extreme(values, is_max).map(f64::to_bits);
        let (zero, minus, nan) = (0.0_f64.to_bits(), (-0.0_f64).to_bits(), f64::NAN.to_bits());
        for values in [[0.0, -0.0], [-0.0, 0.0]] {
            assert_eq!(of(&values, true), Some(zero));
            assert_eq!(of(&values, false), Some(minus));
        }
        for values in [[f64::NAN, 1.0, 2.0], [2.0, 1.0, f64::NAN]] {
            assert_eq!(of(&values, true), Some(nan));
            assert_eq!(of(&values, false), Some(1.0_f64.to_bits()));
        }
        assert_eq!(
            of(&[-3.0, 5.0, f64::INFINITY], true),
            Some(f64::INFINITY.to_bits())
        );
        assert_eq!(of(&[], true), None);
    }
}
