//! Accumulators: the state of an aggregate while rows come in.
//!
//! Does: add runs of rows, join what several threads know, and finish by the rules. Does not: know buckets (`cells`).

mod picked;
mod values;

use std::ops::Range;

use crate::context::Context;
use crate::error::Error;
use crate::evaluate::{Scalar, low_bits, order, place, wrapped};
use crate::long::ASK_ROWS;
use crate::query::{Aggregate, Percentile, Selector};
use crate::value::{Rules, Type};
use picked::{Picked, offer};
use values::{Held, count_distinct, mode, percentile};

/// What is known of one aggregate of one bucket.
#[derive(Debug, Clone)]
pub(super) enum Accumulator {
    Count(u64),
    Sum {
        count: u64,
        total: Total,
    },
    Extremes {
        low: Option<Scalar>,
        high: Option<Scalar>,
    },
    Picked(Option<Box<Picked>>),
    /// Count, mean, and sum of the squares of the distances from it.
    Moments(f64, f64, f64),
    Values(Vec<Held>),
    Histogram(Option<Vec<i64>>),
}

/// A sum: integers exactly.
#[derive(Debug, Clone, Copy)]
pub(super) enum Total {
    Integer(i128),
    Float(f64),
}

impl Total {
    fn add(&mut self, other: Self) {
        *self = match (*self, other) {
            (Self::Integer(one), Self::Integer(other)) => Self::Integer(one.wrapping_add(other)),
            (one, other) => Self::Float(one.float() + other.float()),
        };
    }

    fn float(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    fn of(value: &Scalar) -> Self {
        match value {
            Scalar::Int(value) => Self::Integer(i128::from(*value)),
            Scalar::Unsigned(value) => Self::Integer(i128::from(*value)),
            value => Self::Float(value.number().unwrap_or(0.0)),
        }
    }
}

/// How the row of an aggregate is chosen, if it is one's.
pub(super) fn selector(aggregate: &Aggregate) -> Option<Selector> {
    match aggregate {
        Aggregate::First(_) => Some(Selector::First),
        Aggregate::Last(_) => Some(Selector::Last),
        Aggregate::Select { selector, .. } => Some(*selector),
        _ => None,
    }
}

/// The type of an aggregate, of operands of these types. `None` = null always.
pub(super) fn kind(
    aggregate: &Aggregate,
    operands: &[Option<Type>],
) -> Result<Option<Type>, Error> {
    let operand = operands.first().copied().flatten();
    let needs_number = matches!(
        aggregate,
        Aggregate::Sum(_)
            | Aggregate::Mean(_)
            | Aggregate::NumericSum(_)
            | Aggregate::NumericMean(_)
            | Aggregate::Spread(_)
            | Aggregate::Stddev(_)
            | Aggregate::Median(_)
            | Aggregate::Percentile(..)
            | Aggregate::Histogram { .. }
    );
    let needs_integer = matches!(
        aggregate,
        Aggregate::NumericSum(_) | Aggregate::NumericMean(_)
    );
    let is_fit = |kind: &Type| match kind {
        Type::Float => !needs_integer,
        kind => !needs_number || kind.is_number(),
    };
    if let Some(kind) = operand.filter(|kind| !is_fit(kind)) {
        let text = aggregate.to_string();
        return Err(Error::WrongType {
            operation: text,
            types: vec![kind],
        });
    }
    Ok(match aggregate {
        Aggregate::Rows | Aggregate::Count(_) | Aggregate::CountDistinct(_) => Some(Type::Int),
        Aggregate::Select { .. } => operands.last().copied().flatten(),
        Aggregate::Histogram { .. } => Some(Type::Counts),
        Aggregate::NumericSum(_) => operand.map(|_| Type::Numeric(0)),
        Aggregate::NumericMean(_) => operand.map(|_| Type::Numeric(MEAN_SCALE)),
        Aggregate::Mean(_)
        | Aggregate::Stddev(_)
        | Aggregate::Median(_)
        | Aggregate::Percentile(_, _, Percentile::Continuous) => operand.map(|_| Type::Float),
        _ => operand,
    })
}

impl Accumulator {
    /// Of no rows.
    pub(super) fn new(aggregate: &Aggregate) -> Self {
        match aggregate {
            Aggregate::Rows | Aggregate::Count(_) => Self::Count(0),
            Aggregate::Sum(_)
            | Aggregate::Mean(_)
            | Aggregate::NumericSum(_)
            | Aggregate::NumericMean(_) => Self::Sum {
                count: 0,
                total: Total::Integer(0),
            },
            Aggregate::Min(_) | Aggregate::Max(_) | Aggregate::Spread(_) => Self::Extremes {
                low: None,
                high: None,
            },
            Aggregate::First(_) | Aggregate::Last(_) | Aggregate::Select { .. } => {
                Self::Picked(None)
            }
            Aggregate::Stddev(_) => Self::Moments(0.0, 0.0, 0.0),
            Aggregate::CountDistinct(_)
            | Aggregate::Median(_)
            | Aggregate::Mode(_)
            | Aggregate::Percentile(..) => Self::Values(Vec::new()),
            Aggregate::Histogram { .. } => Self::Histogram(None),
        }
    }

    /// Adds rows: `value` is that of an operand in a row, `at` the time and tie of one. Returns the bytes that it has grown by.
    pub(super) fn add(
        &mut self,
        aggregate: &Aggregate,
        rules: Rules,
        rows: Range<usize>,
        value: impl Fn(usize, usize) -> Option<Scalar>,
        at: impl Fn(usize) -> (i64, u64),
    ) -> usize {
        let mut grown = 0;
        for row in rows {
            let Some(by) = value(0, row) else {
                continue;
            };
            let (when, tie) = at(row);
            match self {
                Self::Count(count) => *count += 1,
                Self::Picked(kept) => {
                    let Some(selector) = selector(aggregate) else {
                        continue;
                    };
                    let has_value = matches!(aggregate, Aggregate::Select { .. });
                    let value = if has_value {
                        value(1, row)
                    } else {
                        Some(by.clone())
                    };
                    let new = Picked {
                        time: when,
                        tie,
                        value,
                        by,
                    };
                    offer(kept, new, selector, rules);
                }
                Self::Values(all) => {
                    grown += size_of::<Held>() + by.bytes();
                    all.push(Held {
                        value: by,
                        time: when,
                        tie,
                    });
                }
                _ => self.add_value(aggregate, &by),
            }
        }
        grown
    }

    fn add_value(&mut self, aggregate: &Aggregate, value: &Scalar) {
        match self {
            Self::Sum { count, total } => {
                *count += 1;
                total.add(Total::of(value));
            }
            Self::Extremes { low, high } => extend(low, high, value),
            Self::Moments(count, mean, squares) => {
                let Some(value) = value.number() else { return };
                *count += 1.0;
                let distance = value - *mean;
                *mean += distance / *count;
                *squares += distance * (value - *mean);
            }
            Self::Histogram(counts) => {
                if let Aggregate::Histogram {
                    low, high, buckets, ..
                } = aggregate
                {
                    let counts = counts.get_or_insert_with(|| vec![0; *buckets as usize + 2]);
                    let part = part_of(value.number().unwrap_or(f64::NAN), *low, *high, *buckets);
                    if let Some(count) = counts.get_mut(part) {
                        *count += 1;
                    }
                }
            }
            Self::Count(_) | Self::Picked(_) | Self::Values(_) => {}
        }
    }

    /// Adds a sum of so many values.
    pub(super) fn add_sum(&mut self, values: u64, sum: Total) {
        if let Self::Sum { count, total } = self {
            *count += values;
            total.add(sum);
        }
    }

    /// Adds the smallest and the largest of some values.
    pub(super) fn add_extremes(&mut self, smallest: &Scalar, largest: &Scalar) {
        if let Self::Extremes { low, high } = self {
            extend(low, high, smallest);
            extend(low, high, largest);
        }
    }

    /// Adds what another one knows of other rows.
    pub(super) fn join(
        &mut self,
        other: Self,
        (aggregate, rules): (&Aggregate, Rules),
        context: &Context,
    ) -> Result<(), Error> {
        match (self, other) {
            (Self::Count(one), Self::Count(other)) => *one += other,
            (Self::Sum { count, total }, Self::Sum { count: n, total: t }) => {
                *count += n;
                total.add(t);
            }
            (Self::Extremes { low, high }, Self::Extremes { low: l, high: h }) => {
                for value in l.iter().chain(&h) {
                    extend(low, high, value);
                }
            }
            (Self::Picked(kept), Self::Picked(Some(new))) => {
                if let Some(selector) = selector(aggregate) {
                    offer(kept, *new, selector, rules);
                }
            }
            (Self::Moments(count, mean, squares), Self::Moments(n, m, s)) if n > 0.0 => {
                let whole = *count + n;
                let distance = m - *mean;
                *squares += s + distance * distance * (*count * n / whole);
                *mean += distance * (n / whole);
                *count = whole;
            }
            (Self::Values(all), Self::Values(others)) => {
                all.reserve(others.len());
                let mut others = others.into_iter();
                while others.len() > 0 {
                    context.check()?;
                    all.extend(others.by_ref().take(ASK_ROWS));
                }
            }
            (Self::Histogram(counts), Self::Histogram(Some(others))) => match counts {
                None => *counts = Some(others),
                Some(counts) => {
                    for (count, other) in counts.iter_mut().zip(others) {
                        *count += other;
                    }
                }
            },
            _ => {}
        }
        Ok(())
    }

    /// The value of the aggregate; `None` = null.
    pub(super) fn finish(
        self,
        aggregate: &Aggregate,
        (kind, rules): (Option<Type>, Rules),
        context: &Context,
    ) -> Result<Option<Scalar>, Error> {
        let whole = |count: u64| Some(Scalar::Int(i64::try_from(count).unwrap_or(i64::MAX)));
        Ok(match self {
            Self::Count(count) => whole(count),
            Self::Sum { count: 0, .. } => None,
            Self::Sum { count, total } if matches!(aggregate, Aggregate::Mean(_)) => {
                Some(Scalar::Float(total.float() / count as f64))
            }
            Self::Sum {
                count,
                total: Total::Integer(sum),
            } if matches!(aggregate, Aggregate::NumericMean(_)) => {
                Some(Scalar::Numeric(numeric_mean(sum, count), MEAN_SCALE))
            }
            Self::Sum {
                total: Total::Integer(sum),
                ..
            } if matches!(aggregate, Aggregate::NumericSum(_)) => Some(Scalar::Numeric(sum, 0)),
            Self::Sum { total, .. } => match (total, kind) {
                (Total::Integer(sum), Some(kind)) => Some(integer(sum, kind, rules, "sum")?),
                (total, _) => Some(Scalar::Float(total.float())),
            },
            Self::Extremes { low, high } => match aggregate {
                Aggregate::Min(_) => low,
                Aggregate::Max(_) => high,
                _ => match (low, high) {
                    (Some(low), Some(high)) => Some(spread(&low, &high, rules)?),
                    _ => None,
                },
            },
            Self::Picked(picked) => picked.and_then(|picked| picked.value),
            Self::Moments(count, _, squares) => {
                (count >= 2.0).then(|| Scalar::Float((squares / (count - 1.0)).sqrt()))
            }
            Self::Values(all) => match aggregate {
                Aggregate::CountDistinct(_) => whole(count_distinct(all, context)? as u64),
                Aggregate::Mode(_) => mode(all, rules, context)?,
                Aggregate::Median(_) => percentile(all, 50.0, Percentile::Continuous, context)?,
                Aggregate::Percentile(_, percent, kind) => {
                    percentile(all, *percent, *kind, context)?
                }
                _ => None,
            },
            Self::Histogram(counts) => counts.map(Scalar::Counts),
        })
    }
}

fn extend(low: &mut Option<Scalar>, high: &mut Option<Scalar>, value: &Scalar) {
    if low.as_ref().is_none_or(|low| order(value, low).is_lt()) {
        *low = Some(value.clone());
    }
    if high.as_ref().is_none_or(|high| order(value, high).is_gt()) {
        *high = Some(value.clone());
    }
}

/// Digits of a numeric mean behind the point: as many as `PostgreSQL` shows of one from 1 to 9,999.
pub const MEAN_SCALE: u8 = 16;

/// The mean of so many values, as units of the last of its digits, rounded away from zero where it is between two.
pub fn numeric_mean(sum: i128, count: u64) -> i128 {
    const UNIT: i128 = 10_i128.pow(MEAN_SCALE as u32);
    let count = i128::from(count.max(1));
    // A remainder is below 2^64, and 2^64 units below 2^118.
    let rest = (sum % count) * UNIT;
    let rounded = rest / count;
    let away = i128::from(2 * (rest % count).abs() >= count) * rest.signum();
    (sum / count)
        .saturating_mul(UNIT)
        .saturating_add(rounded + away)
}

/// A sum as its type has it; what does not fit ends as the rules say.
pub(super) fn integer(
    sum: i128,
    kind: Type,
    rules: Rules,
    operation: &'static str,
) -> Result<Scalar, Error> {
    let out_of_range = || Error::OutOfRange { kind, operation };
    Ok(match (kind, rules) {
        (Type::Unsigned, Rules::Influx) => Scalar::Unsigned(low_bits(sum)),
        (Type::Unsigned, Rules::Postgres) => {
            Scalar::Unsigned(u64::try_from(sum).map_err(|_| out_of_range())?)
        }
        (Type::Float, _) => Scalar::Float(sum as f64),
        (_, Rules::Influx) => Scalar::Int(wrapped(sum)),
        (_, Rules::Postgres) => Scalar::Int(i64::try_from(sum).map_err(|_| out_of_range())?),
    })
}

fn spread(low: &Scalar, high: &Scalar, rules: Rules) -> Result<Scalar, Error> {
    match (Total::of(low), Total::of(high)) {
        (Total::Integer(one), Total::Integer(other)) => {
            let kind = match low {
                Scalar::Unsigned(_) => Type::Unsigned,
                _ => Type::Int,
            };
            integer(other - one, kind, rules, "spread")
        }
        (one, other) => Ok(Scalar::Float(other.float() - one.float())),
    }
}

/// Which part of a histogram a value is in, as `width_bucket` counts; NaN is above everything.
fn part_of(value: f64, low: f64, high: f64, buckets: u32) -> usize {
    if value < low {
        return 0;
    }
    if value < high {
        let part = place(f64::from(buckets) * ((value - low) / (high - low))) + 1;
        return part.min(buckets as usize);
    }
    buckets as usize + 1
}
