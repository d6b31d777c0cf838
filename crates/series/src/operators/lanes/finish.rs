//! Columns of the answer, made of lanes.
//!
//! Does: give the values of cells in an order, as the rules of the language have them. Does not: choose the order.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array,
    TimestampNanosecondArray, UInt64Array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};

use super::super::accumulate::{Accumulator, MEAN_SCALE, integer, numeric_mean};
use super::extremes::Extreme;
use super::sums::Sums;
use super::{Column, Lane};
use crate::context::Context;
use crate::error::Error;
use crate::evaluate::{Scalar, array_of, scalar_at};
use crate::long::Asks;
use crate::query::Aggregate;
use crate::value::{Rules, Type};

impl Lane {
    /// The values of cells, one after another. What is kept a value at a time can be asked for once.
    pub(crate) fn column(&mut self, cells: &[u32], context: &Context) -> Result<ArrayRef, Error> {
        let is_mean = matches!(self.aggregate, Aggregate::Mean(_));
        let kind = self.kind;
        Ok(match &mut self.column {
            Column::Count(counts) => {
                let counts = each(counts, cells);
                let counts = counts.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
                Arc::new(Int64Array::from_iter_values(counts))
            }
            Column::Ints(sums) if matches!(kind, Some(Type::Numeric(_))) => {
                numeric(sums, cells, &self.aggregate)
            }
            Column::Ints(sums) if is_mean => mean(sums, cells, float),
            Column::Ints(sums) => whole(sums, cells, kind.unwrap_or(Type::Int), self.rules)?,
            Column::Floats(sums) if is_mean => mean(sums, cells, |total| total),
            Column::Floats(sums) => {
                let totals = each(&sums.totals, cells).collect::<Vec<f64>>();
                let nulls = nulls(each(&sums.counts, cells).map(|count| count > 0));
                Arc::new(Float64Array::new(ScalarBuffer::from(totals), nulls))
            }
            Column::Int(extreme) => {
                let (values, nulls) = values(extreme, cells);
                match kind {
                    Some(Type::Time) => times(values, nulls),
                    _ => Arc::new(Int64Array::new(ScalarBuffer::from(values), nulls)),
                }
            }
            Column::Unsigned(extreme) => {
                let (values, nulls) = values(extreme, cells);
                Arc::new(UInt64Array::new(ScalarBuffer::from(values), nulls))
            }
            Column::Float(extreme) => {
                let (values, nulls) = values(extreme, cells);
                Arc::new(Float64Array::new(ScalarBuffer::from(values), nulls))
            }
            Column::Ends(ends) => {
                let bits: Vec<Option<u64>> = cells.iter().map(|cell| ends.bits(*cell)).collect();
                of_bits(kind.unwrap_or(Type::Bool), &bits)
            }
            Column::Each(_) => {
                let values = self.scalars(cells, context)?;
                array_of(kind.unwrap_or(Type::Bool), values)
            }
        })
    }

    /// The same, a value each.
    pub(crate) fn scalars(
        &mut self,
        cells: &[u32],
        context: &Context,
    ) -> Result<Vec<Option<Scalar>>, Error> {
        if let Column::Each(all) = &mut self.column {
            let mut asks = Asks::of(context);
            let mut values = Vec::with_capacity(cells.len());
            for cell in cells {
                let known = all.get_mut(*cell as usize);
                let known = known.map(|known| std::mem::replace(known, Accumulator::Count(0)));
                let known = known.unwrap_or(Accumulator::Count(0));
                if let Accumulator::Values(held) = &known {
                    asks.rows(held.len())?;
                }
                let by = (self.kind, self.rules);
                values.push(known.finish(&self.aggregate, by, context)?);
            }
            return Ok(values);
        }
        let column = self.column(cells, context)?;
        Ok((0..column.len())
            .map(|row| scalar_at(&column, row))
            .collect())
    }
}

/// The nearest float; narrow numbers, which nearly all are, become one in a step.
fn float(total: i128) -> f64 {
    i64::try_from(total).map_or(total as f64, |total| total as f64)
}

fn each<'a, T: Copy + Default>(list: &'a [T], cells: &'a [u32]) -> impl Iterator<Item = T> + 'a {
    let value = |cell: &u32| list.get(*cell as usize).copied().unwrap_or_default();
    cells.iter().map(value)
}

/// `None` = all are there.
fn nulls(valid: impl Iterator<Item = bool>) -> Option<NullBuffer> {
    let valid: BooleanBuffer = valid.collect();
    let nulls = NullBuffer::new(valid);
    (nulls.null_count() > 0).then_some(nulls)
}

fn values<T: Copy + Default>(extreme: &Extreme<T>, cells: &[u32]) -> (Vec<T>, Option<NullBuffer>) {
    let values = each(&extreme.best, cells).collect();
    (values, nulls(each(&extreme.seen, cells)))
}

fn times(values: Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
    let times = TimestampNanosecondArray::new(ScalarBuffer::from(values), nulls);
    Arc::new(times.with_timezone("UTC"))
}

fn mean<T: Copy + Default>(sums: &Sums<T>, cells: &[u32], float: impl Fn(T) -> f64) -> ArrayRef {
    let counts = || each(&sums.counts, cells);
    let totals = each(&sums.totals, cells);
    let means = totals.zip(counts());
    let means: Vec<f64> = means
        .map(|(total, count)| match count {
            0 => 0.0,
            count => float(total) / count as f64,
        })
        .collect();
    let nulls = nulls(counts().map(|count| count > 0));
    Arc::new(Float64Array::new(ScalarBuffer::from(means), nulls))
}

fn whole(sums: &Sums<i128>, cells: &[u32], kind: Type, rules: Rules) -> Result<ArrayRef, Error> {
    let nulls = nulls(each(&sums.counts, cells).map(|count| count > 0));
    let totals = each(&sums.totals, cells);
    if kind == Type::Unsigned {
        let mut all: Vec<u64> = Vec::with_capacity(cells.len());
        for total in totals {
            all.push(match integer(total, kind, rules, "sum")? {
                Scalar::Unsigned(sum) => sum,
                _ => 0,
            });
        }
        return Ok(Arc::new(UInt64Array::new(ScalarBuffer::from(all), nulls)));
    }
    let mut all: Vec<i64> = Vec::with_capacity(cells.len());
    for total in totals {
        all.push(match integer(total, kind, rules, "sum")? {
            Scalar::Int(sum) => sum,
            _ => 0,
        });
    }
    Ok(Arc::new(Int64Array::new(ScalarBuffer::from(all), nulls)))
}

fn numeric(sums: &Sums<i128>, cells: &[u32], aggregate: &Aggregate) -> ArrayRef {
    let counts = || each(&sums.counts, cells);
    let totals = each(&sums.totals, cells);
    let is_mean = matches!(aggregate, Aggregate::NumericMean(_));
    let (scale, values): (u8, Vec<i128>) = if is_mean {
        let means = totals.zip(counts());
        let means = means.map(|(total, count)| numeric_mean(total, count));
        (MEAN_SCALE, means.collect())
    } else {
        (0, totals.collect())
    };
    let nulls = nulls(counts().map(|count| count > 0));
    let values = Decimal128Array::new(ScalarBuffer::from(values), nulls);
    Arc::new(values.with_data_type(Type::Numeric(scale).arrow()))
}

fn of_bits(kind: Type, bits: &[Option<u64>]) -> ArrayRef {
    let signed = || bits.iter().map(|bits| bits.map(u64::cast_signed));
    match kind {
        Type::Int => Arc::new(signed().collect::<Int64Array>()),
        Type::Time => {
            let times: TimestampNanosecondArray = signed().collect();
            Arc::new(times.with_timezone("UTC"))
        }
        Type::Unsigned => Arc::new(bits.iter().copied().collect::<UInt64Array>()),
        Type::Float => {
            let floats = bits.iter().map(|bits| bits.map(f64::from_bits));
            Arc::new(floats.collect::<Float64Array>())
        }
        _ => {
            let truth = bits.iter().map(|bits| bits.map(|bits| bits != 0));
            Arc::new(truth.collect::<BooleanArray>())
        }
    }
}
