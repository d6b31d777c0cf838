//! Summaries of one field: count, extremes, sum, first and last.
//!
//! Does: come from the statistics of a page or from the values themselves, and join with another one. Does not: know
//! series, files or deleted rows; whoever joins two knows that no row is in both.

use nilometer_codec::stats::{PageStatistics, Statistics, float_order};

/// Of at least one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) first: Moment,
    pub(crate) last: Moment,
    pub(crate) totals: Totals,
}

/// A value and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) time: i64,
    /// Integers and floats as their 64 bits, booleans as 0 or 1.
    pub(crate) bits: u64,
}

/// Extremes and sums, by type. Floats are in the order of [`float_order`]: -0.0 is below 0.0, NaN above everything.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Totals {
    Int {
        min: i64,
        max: i64,
        sum: i128,
    },
    Unsigned {
        min: u64,
        max: u64,
        sum: u128,
    },
    Float {
        min: f64,
        max: f64,
        sum: f64,
        /// NaN or an infinity is among the values: stored numbers must not be used.
        non_finite: bool,
    },
    Bool {
        trues: u64,
    },
}

impl Summary {
    /// From the statistics of a page and the times of its rows; `None` = no value, or text.
    pub(crate) fn of(page: &PageStatistics, time: impl Fn(u16) -> Option<i64>) -> Option<Self> {
        let (first, last) = (page.first?, page.last?);
        Some(Self {
            count: u64::from(page.non_null),
            first: Moment {
                time: time(first.row)?,
                bits: first.bits,
            },
            last: Moment {
                time: time(last.row)?,
                bits: last.bits,
            },
            totals: Totals::of(page.values)?,
        })
    }

    /// Adds other rows. Of two first values with one time this one's stays, of two last values the other's counts.
    pub(crate) fn join(&mut self, other: &Self) {
        self.count += other.count;
        if other.first.time < self.first.time {
            self.first = other.first;
        }
        if other.last.time >= self.last.time {
            self.last = other.last;
        }
        self.totals.join(&other.totals);
    }

    /// Whether the stored numbers may stand for the values.
    pub(crate) fn is_usable(&self) -> bool {
        !matches!(
            self.totals,
            Totals::Float {
                non_finite: true,
                ..
            }
        )
    }
}

impl Totals {
    pub(super) fn of(values: Statistics) -> Option<Self> {
        Some(match values {
            Statistics::Int { min, max, sum } => Self::Int { min, max, sum },
            Statistics::Unsigned { min, max, sum } => Self::Unsigned { min, max, sum },
            Statistics::Float {
                min,
                max,
                sum,
                non_finite,
            } => Self::Float {
                min,
                max,
                sum,
                non_finite,
            },
            Statistics::Bool { trues } => Self::Bool {
                trues: u64::from(trues),
            },
            Statistics::Text { .. } => return None,
        })
    }

    fn join(&mut self, other: &Self) {
        match (self, other) {
            (
                Self::Int { min, max, sum },
                Self::Int {
                    min: a,
                    max: b,
                    sum: c,
                },
            ) => {
                (*min, *max) = ((*min).min(*a), (*max).max(*b));
                *sum = sum.wrapping_add(*c);
            }
            (
                Self::Unsigned { min, max, sum },
                Self::Unsigned {
                    min: a,
                    max: b,
                    sum: c,
                },
            ) => {
                (*min, *max) = ((*min).min(*a), (*max).max(*b));
                *sum = sum.wrapping_add(*c);
            }
            (
                Self::Float {
                    min,
                    max,
                    sum,
                    non_finite,
                },
                Self::Float {
                    min: a,
                    max: b,
                    sum: c,
                    non_finite: d,
                },
            ) => {
                if float_order(*a, *min).is_lt() {
                    *min = *a;
                }
                if float_order(*b, *max).is_gt() {
                    *max = *b;
                }
                *sum += c;
                *non_finite |= d;
            }
            (Self::Bool { trues }, Self::Bool { trues: a }) => *trues += a,
            // A field has one type; whoever joins has checked it.
            _ => {}
        }
    }
}
