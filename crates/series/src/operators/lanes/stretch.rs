//! Stored values of a stretch of rows, for aggregates that are kept a value at a time.
//!
//! Does: add it to one. Does not: know which cell it belongs to.

use nilometer_engine::{StoredField, StoredSums, StoredTotals, Stretch};

use super::super::accumulate::{Accumulator, Total};
use crate::evaluate::Scalar;

/// What is stored of one stretch of rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct One<'a> {
    pub(super) at: usize,
    pub(super) stretch: &'a Stretch,
    /// `None` = of the time.
    pub(super) field: Option<StoredField<'a>>,
}

impl One<'_> {
    /// Adds it to an aggregate that is kept a value at a time.
    pub(super) fn add(self, accumulator: &mut Accumulator) {
        let count = match self.field {
            None => u64::from(self.stretch.rows),
            Some(field) => field
                .counts
                .get(self.at)
                .map_or(0, |count| u64::from(*count)),
        };
        if count == 0 {
            return;
        }
        match accumulator {
            Accumulator::Count(all) => *all += count,
            Accumulator::Sum { .. } => {
                if let Some(sum) = self.sum() {
                    accumulator.add_sum(count, sum);
                }
            }
            Accumulator::Extremes { .. } => {
                if let Some((low, high)) = self.extremes(count) {
                    accumulator.add_extremes(&low, &high);
                }
            }
            _ => {}
        }
    }

    fn sum(self) -> Option<Total> {
        let of = |sums: StoredSums<'_>| match sums {
            StoredSums::Narrow(sums) => sums.get(self.at).copied().map(i128::from),
            StoredSums::Wide(sums) => sums.get(self.at).copied(),
        };
        Some(match self.field?.totals {
            StoredTotals::Int { sum, .. } | StoredTotals::Unsigned { sum, .. } => {
                Total::Integer(of(sum)?)
            }
            StoredTotals::Float { sum, .. } => Total::Float(*sum.get(self.at)?),
            StoredTotals::Bool { .. } => return None,
        })
    }

    fn extremes(self, count: u64) -> Option<(Scalar, Scalar)> {
        let at = self.at;
        let Some(field) = self.field else {
            let (first, last) = (self.stretch.first_ns, self.stretch.last_ns);
            return Some((Scalar::Time(first), Scalar::Time(last)));
        };
        Some(match field.totals {
            StoredTotals::Int { min, max, .. } => {
                (Scalar::Int(*min.get(at)?), Scalar::Int(*max.get(at)?))
            }
            StoredTotals::Unsigned { min, max, .. } => (
                Scalar::Unsigned(*min.get(at)?),
                Scalar::Unsigned(*max.get(at)?),
            ),
            StoredTotals::Float { min, max, .. } => {
                (Scalar::Float(*min.get(at)?), Scalar::Float(*max.get(at)?))
            }
            StoredTotals::Bool { trues } => {
                let trues = u64::from(*trues.get(at)?);
                (Scalar::Bool(trues == count), Scalar::Bool(trues > 0))
            }
        })
    }
}
