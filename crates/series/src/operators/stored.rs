//! Aggregates that the engine knows without rows: from rollups of whole hours and statistics of whole blocks.
//!
//! Does: say whether a query is made of such, ask the engine series by series, and add what it says. Does not: decode; the
//! engine does where what is stored does not say.

use std::ops::RangeInclusive;
use std::sync::Arc;

use nilometer_engine::{
    AggregateRequest, AggregateSum, AggregateValue, Aggregation, FieldAggregate, Snapshot,
};

use super::accumulate::{Accumulator, Total, selector};
use super::picked::{Picked, offer};
use crate::bucket::Bucket;
use crate::error::Error;
use crate::evaluate::{Name, Scalar};
use crate::input::Table;
use crate::query::{Aggregate, Expr, Selector};
use crate::value::Rules;

/// Whether the engine knows an aggregate.
pub(super) fn is_known(aggregate: &Aggregate) -> bool {
    matches!(aggregate, Aggregate::Rows) || field(aggregate).is_some()
}

/// The field of an aggregate that the engine knows; `None` = it is of rows, or the engine does not know it.
fn field(aggregate: &Aggregate) -> Option<&str> {
    let of = match aggregate {
        Aggregate::Count(of)
        | Aggregate::Sum(of)
        | Aggregate::Mean(of)
        | Aggregate::Min(of)
        | Aggregate::Max(of)
        | Aggregate::Spread(of)
        | Aggregate::First(of)
        | Aggregate::Last(of) => of,
        Aggregate::Select {
            selector: Selector::First | Selector::Last,
            by,
            value,
        } if by == value || *value == Expr::Time => by,
        _ => return None,
    };
    match of {
        Expr::Field(field) => Some(field),
        _ => None,
    }
}

/// A table's aggregation.
#[derive(Debug)]
pub(super) struct Stored<'a> {
    pub(super) table: &'a Table,
    pub(super) aggregation: Aggregation,
    /// By aggregate of the query: place among the fields of the aggregation.
    places: Vec<Option<usize>>,
}

impl<'a> Stored<'a> {
    pub(super) fn plan(
        snapshot: &Snapshot,
        table: &'a Table,
        aggregates: &[Aggregate],
        time: RangeInclusive<i64>,
        bucket: Option<&Bucket>,
    ) -> Result<Self, Error> {
        let mut fields: Vec<usize> = Vec::new();
        let mut places = Vec::with_capacity(aggregates.len());
        for aggregate in aggregates {
            let name = field(aggregate);
            let position = name.and_then(|name| table.position(&Name::Field(name.to_owned())));
            places.push(position.map(|position| {
                let known = fields.iter().position(|field| *field == position);
                known.unwrap_or_else(|| {
                    fields.push(position);
                    fields.len() - 1
                })
            }));
        }
        let request = AggregateRequest {
            table: Arc::clone(&table.schema),
            fields,
            time,
            tags: Vec::new(),
            bucket_ns: bucket.and_then(Bucket::multiples),
        };
        let aggregation = snapshot.aggregate_series(&request, &table.series)?;
        Ok(Self {
            table,
            aggregation,
            places,
        })
    }

    /// What is known of an aggregate in a row of the aggregation.
    pub(super) fn field<'r>(
        &self,
        aggregate: usize,
        fields: &'r [Option<FieldAggregate>],
    ) -> Option<&'r FieldAggregate> {
        let place = self.places.get(aggregate).copied().flatten()?;
        fields.get(place)?.as_ref()
    }
}

fn scalar(value: &AggregateValue) -> Scalar {
    match value {
        AggregateValue::Int(value) => Scalar::Int(*value),
        AggregateValue::Unsigned(value) => Scalar::Unsigned(*value),
        AggregateValue::Float(value) => Scalar::Float(*value),
        AggregateValue::Bool(value) => Scalar::Bool(*value),
        AggregateValue::Text(bytes) => {
            Scalar::Text(Arc::from(String::from_utf8_lossy(bytes).as_ref()))
        }
        AggregateValue::Bytes(bytes) => Scalar::Bytes(Arc::from(bytes.as_slice())),
    }
}

/// Adds what is known of a series and bucket.
pub(super) fn add(
    accumulator: &mut Accumulator,
    aggregate: &Aggregate,
    rules: Rules,
    (rows, field): (u64, Option<&FieldAggregate>),
    tie: u64,
) {
    if matches!(aggregate, Aggregate::Rows) {
        accumulator.join(Accumulator::Count(rows), aggregate, rules);
        return;
    }
    let Some(known) = field else { return };
    match accumulator {
        Accumulator::Count(count) => *count += known.count,
        Accumulator::Sum { .. } => {
            let sum = match known.sum {
                Some(AggregateSum::Int(sum)) => Total::Integer(sum),
                Some(AggregateSum::Unsigned(sum)) => Total::Integer(sum.cast_signed()),
                Some(AggregateSum::Float(sum)) => Total::Float(sum),
                None => return,
            };
            accumulator.add_sum(known.count, sum);
        }
        Accumulator::Extremes { .. } => {
            let extremes = Accumulator::Extremes {
                low: Some(scalar(&known.min)),
                high: Some(scalar(&known.max)),
            };
            accumulator.join(extremes, aggregate, rules);
        }
        Accumulator::Picked(kept) => {
            let Some(selector) = selector(aggregate) else {
                return;
            };
            let (when, value) = match selector {
                Selector::First => &known.first,
                _ => &known.last,
            };
            let by = scalar(value);
            let is_time = matches!(
                aggregate,
                Aggregate::Select {
                    value: Expr::Time,
                    ..
                }
            );
            let new = Picked {
                time: *when,
                tie,
                value: Some(if is_time {
                    Scalar::Time(*when)
                } else {
                    by.clone()
                }),
                by,
            };
            offer(kept, new, selector, rules);
        }
        _ => {}
    }
}
