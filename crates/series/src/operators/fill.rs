//! Buckets without rows.
//!
//! Does: add them between the first and the last bucket of the range, or of the rows where the range has no end, and give
//! them the values that the query says. Does not: fill buckets that have rows and no value.

use crate::bucket::Bucket;
use crate::context::{BATCH_ROWS, Context};
use crate::error::Error;
use crate::evaluate::{Scalar, saturated, saturated_unsigned};
use crate::long::{self, Asks};
use crate::query::{Fill, SeriesQuery};
use crate::value::{Literal, Rules, Type};

/// Groups and buckets, in their order, with the values of their aggregates.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) keys: Vec<(u32, i64)>,
    /// `[aggregate][row]`.
    pub(super) columns: Vec<Vec<Option<Scalar>>>,
}

impl Frame {
    /// Memory that it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let values = self.columns.len() * size_of::<Option<Scalar>>();
        self.keys.len() * (size_of::<(u32, i64)>() + values)
    }
}

pub(super) fn filled(
    frame: Frame,
    query: &SeriesQuery,
    (kinds, fills): (&[Option<Type>], &[&Fill]),
    context: &Context,
) -> Result<Frame, Error> {
    let shape = query.shape();
    let Some(bucket) = shape.bucket.as_ref().filter(|_| shape.fill != Fill::Absent) else {
        return Ok(frame);
    };
    let mut constants = Vec::with_capacity(kinds.len());
    for (kind, fill) in kinds.iter().zip(fills) {
        constants.push((*fill, constant(fill, *kind)?));
    }
    let Some(grid) = grid(&frame, query, bucket, context)? else {
        return Ok(frame);
    };
    let mut charge = context.charge();
    let mut whole = Frame {
        keys: Vec::new(),
        columns: vec![Vec::new(); frame.columns.len()],
    };
    let mut first = 0;
    for group in frame.keys.chunk_by(|one, other| one.0 == other.0) {
        context.check()?;
        let own = first..first + group.len();
        first = own.end;
        charge.grow(grid.len() * frame.columns.len() * size_of::<Option<Scalar>>())?;
        // Where clocks are set, a bucket may start outside of the grid.
        let starts = group.iter().map(|key| key.1).chain(grid.iter().copied());
        let mut starts = long::sorted(starts.collect(), context, i64::cmp)?;
        starts.dedup();
        let number = group.first().map_or(0, |key| key.0);
        whole
            .keys
            .extend(starts.iter().map(|start| (number, *start)));
        for ((from, to), (fill, constant)) in
            frame.columns.iter().zip(&mut whole.columns).zip(&constants)
        {
            let own = from.get(own.clone()).unwrap_or_default();
            let known: Vec<(i64, &Option<Scalar>)> =
                group.iter().map(|key| key.1).zip(own).collect();
            let how = (*fill, constant.as_ref(), shape.rules);
            fill_column(how, &known, &starts, to, context)?;
        }
    }
    Ok(whole)
}

/// The value of empty buckets in a column of a type, if it is the same in all of them.
fn constant(fill: &Fill, kind: Option<Type>) -> Result<Option<Scalar>, Error> {
    let wrong = |kind: Type| {
        Err(Error::WrongType {
            operation: "fill".to_owned(),
            types: vec![kind],
        })
    };
    match (fill, kind) {
        (Fill::Linear, Some(kind)) if !kind.is_number() => wrong(kind),
        (Fill::Value(Literal::Value(value)), Some(kind)) => {
            let value = Scalar::of(value);
            Ok(match (value, kind) {
                (Some(Scalar::Int(value)), Type::Float) => Some(Scalar::Float(value as f64)),
                (Some(Scalar::Int(value)), Type::Unsigned) if value >= 0 => {
                    Some(Scalar::Unsigned(value.unsigned_abs()))
                }
                // As `InfluxQL` casts it.
                (Some(Scalar::Float(value)), Type::Int) => Some(Scalar::Int(saturated(value))),
                (None, _) => None,
                (Some(Scalar::Int(_)), Type::Int)
                | (Some(Scalar::Unsigned(_)), Type::Unsigned)
                | (Some(Scalar::Float(_)), Type::Float)
                | (Some(Scalar::Bool(_)), Type::Bool)
                | (Some(Scalar::Text(_)), Type::Text)
                | (Some(Scalar::Time(_)), Type::Time) => Scalar::of(value_of(fill)),
                _ => return wrong(kind),
            })
        }
        _ => Ok(None),
    }
}

fn value_of(fill: &Fill) -> &crate::value::Value {
    match fill {
        Fill::Value(Literal::Value(value)) => value,
        _ => &crate::value::Value::Null,
    }
}

/// The starts of all buckets; `None` = there are no rows whose group could have any.
fn grid(
    frame: &Frame,
    query: &SeriesQuery,
    bucket: &Bucket,
    context: &Context,
) -> Result<Option<Vec<i64>>, Error> {
    let starts = || frame.keys.iter().map(|key| key.1);
    let (Some(first), Some(last)) = (starts().min(), starts().max()) else {
        return Ok(None);
    };
    let bound = &query.bound;
    let first = if bound.has_first {
        bound.first_ns
    } else {
        first
    };
    let last = if bound.has_last { bound.last_ns } else { last };
    let groups = frame.keys.chunk_by(|one, other| one.0 == other.0).count() as u64;
    let buckets = bucket.count(first, last).saturating_mul(groups);
    let buckets_max = context.limits.buckets;
    // The count is by the shortest month and may be one too high, so a small answer is never refused for it.
    if buckets > buckets_max.max(BATCH_ROWS as u64) || buckets > buckets_max.saturating_add(groups)
    {
        return Err(Error::TooManyBuckets {
            buckets,
            buckets_max,
        });
    }
    let grid = bucket.grid(first, last, context)?;
    grid.map(Some)
        .ok_or_else(|| Error::contradiction("buckets are filled beyond the calendar"))
}

fn fill_column(
    (fill, constant, rules): (&Fill, Option<&Scalar>, Rules),
    known: &[(i64, &Option<Scalar>)],
    starts: &[i64],
    to: &mut Vec<Option<Scalar>>,
    context: &Context,
) -> Result<(), Error> {
    context.check()?;
    let mut asks = Asks::of(context);
    let mut known = known.iter().peekable();
    let mut before: Option<(i64, &Option<Scalar>)> = None;
    for &start in starts {
        asks.rows(1)?;
        if let Some(&(time, value)) = known.next_if(|(time, _)| *time == start) {
            before = Some((time, value));
            to.push(value.clone());
            continue;
        }
        to.push(match fill {
            Fill::Absent | Fill::Null => None,
            Fill::Value(_) => constant.cloned(),
            Fill::Previous => before.and_then(|(_, value)| value.clone()),
            Fill::Linear => match (before, known.peek()) {
                (Some((t0, Some(y0))), Some((t1, Some(y1)))) => {
                    between((t0, y0), (*t1, y1), start, rules)
                }
                _ => None,
            },
        });
    }
    Ok(())
}

/// The value at a time on the line between two others.
fn between(
    (t0, y0): (i64, &Scalar),
    (t1, y1): (i64, &Scalar),
    at: i64,
    rules: Rules,
) -> Option<Scalar> {
    let (low, high) = (y0.number()?, y1.number()?);
    let share = (i128::from(at) - i128::from(t0)) as f64 / (i128::from(t1) - i128::from(t0)) as f64;
    let value = low + (high - low) * share;
    let whole = match rules {
        Rules::Postgres => value.round(),
        Rules::Influx => value.trunc(),
    };
    Some(match y0 {
        Scalar::Int(_) => Scalar::Int(saturated(whole)),
        Scalar::Unsigned(_) => Scalar::Unsigned(saturated_unsigned(whole)),
        _ => Scalar::Float(value),
    })
}
