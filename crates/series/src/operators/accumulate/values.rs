//! Aggregates that need all values: percentiles, medians, modes, distinct counts.
//!
//! Does: keep values, and work out what is asked when the last is there. Does not: keep them on disk.

use crate::context::Context;
use crate::error::Error;
use crate::evaluate::{Scalar, order, place};
use crate::long::{self, Asks};
use crate::query::Percentile;
use crate::value::Rules;

/// A value with the time and tie of its row.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) value: Scalar,
    pub(crate) time: i64,
    pub(crate) tie: u64,
}

/// In the order of their values; those of one value as they were read.
fn sorted(all: Vec<Held>, context: &Context) -> Result<Vec<Held>, Error> {
    long::sorted(all, context, |one, other| order(&one.value, &other.value))
}

pub(crate) fn count_distinct(all: Vec<Held>, context: &Context) -> Result<usize, Error> {
    let all = sorted(all, context)?;
    let mut asks = Asks::of(context);
    let (mut count, mut before) = (0, None);
    for held in &all {
        asks.rows(1)?;
        count += usize::from(before.is_none_or(|before| order(before, &held.value).is_ne()));
        before = Some(&held.value);
    }
    Ok(count)
}

/// Rows of one value.
#[derive(Debug, Clone, Copy)]
struct Same<'a> {
    value: &'a Scalar,
    count: usize,
    earliest: (i64, u64, usize),
}

impl Same<'_> {
    /// Whether it is chosen before another one, of which the value is smaller.
    fn is_better(&self, other: &Self, rules: Rules) -> bool {
        let is_earlier = rules == Rules::Influx && self.earliest < other.earliest;
        self.count > other.count || (self.count == other.count && is_earlier)
    }
}

/// The value that most rows have: of several the smallest, or that of the earliest row.
pub(crate) fn mode(
    all: Vec<Held>,
    rules: Rules,
    context: &Context,
) -> Result<Option<Scalar>, Error> {
    // Rows of one series and time are told apart by their places in the order of reading.
    let all: Vec<(usize, Held)> = all.into_iter().enumerate().collect();
    let by_value = |one: &(usize, Held), other: &(usize, Held)| order(&one.1.value, &other.1.value);
    let all = long::sorted(all, context, by_value)?;
    let mut asks = Asks::of(context);
    let (mut best, mut run): (Option<Same<'_>>, Option<Same<'_>>) = (None, None);
    let better = |best: Option<Same<'_>>, run: Option<Same<'_>>| match (best, run) {
        (Some(best), Some(run)) => !run.is_better(&best, rules),
        (best, _) => best.is_some(),
    };
    for (at, held) in &all {
        asks.rows(1)?;
        let place = (held.time, held.tie, *at);
        match &mut run {
            Some(run) if order(run.value, &held.value).is_eq() => {
                run.count += 1;
                run.earliest = run.earliest.min(place);
            }
            _ => {
                if !better(best, run) {
                    best = run;
                }
                run = Some(Same {
                    value: &held.value,
                    count: 1,
                    earliest: place,
                });
            }
        }
    }
    if !better(best, run) {
        best = run;
    }
    Ok(best.map(|best| best.value.clone()))
}

/// A percentile of numbers. As `PostgreSQL` and `InfluxQL` work them out, step by step, so that floats agree to the bit.
pub(crate) fn percentile(
    all: Vec<Held>,
    percent: f64,
    kind: Percentile,
    context: &Context,
) -> Result<Option<Scalar>, Error> {
    Ok(of_sorted(&sorted(all, context)?, percent, kind))
}

fn of_sorted(all: &[Held], percent: f64, kind: Percentile) -> Option<Scalar> {
    let count = all.len() as f64;
    let at = |rank: f64| {
        let inside = rank >= 0.0 && rank < count;
        let held = all.get(place(rank)).filter(|_| inside);
        held.map(|held| held.value.clone())
    };
    match kind {
        Percentile::Nearest => at((count * percent / 100.0 + 0.5).floor() - 1.0),
        Percentile::Discrete => at((count * (percent / 100.0)).ceil().max(1.0) - 1.0),
        Percentile::Continuous => {
            let rank = (count - 1.0) * (percent / 100.0);
            let low = at(rank.floor())?.number()?;
            if rank.floor() >= rank.ceil() {
                return Some(Scalar::Float(low));
            }
            let high = at(rank.ceil())?.number()?;
            Some(Scalar::Float(low + (rank - rank.floor()) * (high - low)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(values: &[f64]) -> Vec<Held> {
        let all = (0..).zip(values).map(|(time, value)| Held {
            value: Scalar::Float(*value),
            time,
            tie: 0,
        });
        all.collect()
    }

    /// The answers of `PostgreSQL`'s manual's functions and of `InfluxQL`'s worked by hand.
    #[test]
    fn percentiles_of_four_values() {
        let of = |percent, kind| {
            percentile(
                held(&[4.0, 1.0, 3.0, 2.0]),
                percent,
                kind,
                &Context::default(),
            )
            .unwrap()
        };
        // Place 1.5 of 0 to 3: in the middle of 2 and 3.
        assert_eq!(of(50.0, Percentile::Continuous), Some(Scalar::Float(2.5)));
        // Half of four is two: the second.
        assert_eq!(of(50.0, Percentile::Discrete), Some(Scalar::Float(2.0)));
        assert_eq!(of(0.0, Percentile::Discrete), Some(Scalar::Float(1.0)));
        // floor(4 * 0.9 + 0.5) - 1 = 3: the fourth.
        assert_eq!(of(90.0, Percentile::Nearest), Some(Scalar::Float(4.0)));
        // floor(4 * 0.1 + 0.5) - 1 = -1: before the first.
        assert_eq!(of(10.0, Percentile::Nearest), None);
        assert_eq!(of(100.0, Percentile::Continuous), Some(Scalar::Float(4.0)));
    }

    #[test]
    fn of_two_values_that_are_as_frequent_the_language_chooses() {
        let values = [5.0, 2.0, 2.0, 5.0, 9.0];
        let pg = mode(held(&values), Rules::Postgres, &Context::default()).unwrap();
        assert_eq!(pg, Some(Scalar::Float(2.0)));
        let influx = mode(held(&values), Rules::Influx, &Context::default()).unwrap();
        assert_eq!(influx, Some(Scalar::Float(5.0)));
        assert_eq!(
            mode(Vec::new(), Rules::Influx, &Context::default()).unwrap(),
            None
        );
    }

    #[test]
    fn zeros_are_two_values_and_nan_is_one() {
        assert_eq!(
            count_distinct(held(&[0.0, -0.0, f64::NAN, f64::NAN]), &Context::default()).unwrap(),
            3
        );
    }
}
