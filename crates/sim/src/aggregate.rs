//! Aggregates of the store against aggregates by hand.
//!
//! Does: add up the rows that a table must show, by series and bucket, and compare. Does not: care where the store's
//! numbers come from; statistics and rollups must say what the rows say.

use std::collections::BTreeMap;
use std::sync::Arc;

use nilometer_engine::{
    AggregateRequest, AggregateRow, AggregateSum, AggregateValue, FieldAggregate, Snapshot,
    TableSchema,
};

use crate::model::Table;
use crate::plan::{Tags, Value};

/// Sums of floats may differ by so much of the sum of magnitudes.
const TOLERANCE: f64 = 1e-12;

/// What is asked, of the table and the rows that it must have.
pub(crate) struct Question<'a> {
    pub(crate) schema: &'a Arc<TableSchema>,
    pub(crate) request: &'a AggregateRequest,
    /// Names of the fields of the request.
    pub(crate) fields: &'a [String],
    pub(crate) rows: &'a Table,
}

type Groups = BTreeMap<(Tags, i64), Group>;

#[derive(Default)]
struct Group {
    rows: u64,
    /// By field: its values with their times, in the order of their times and writes.
    fields: Vec<Vec<(i64, Value)>>,
}

/// Compares, and says how many hours and blocks were not read for the answer.
pub(crate) fn compare(snapshot: &Snapshot, question: &Question<'_>) -> Result<u64, String> {
    let text = |error: nilometer_engine::Error| error.to_string();
    let aggregation = snapshot.aggregate(question.request).map_err(text)?;
    let found = aggregation.read_all().map_err(text)?;
    let mut expected = by_hand(question);
    for row in &found.rows {
        let tags = question.schema.tags.iter().enumerate();
        let tags: Tags = tags
            .filter_map(|(at, tag)| {
                let value = aggregation.tag(at, row.position)?;
                Some((tag.name.clone(), value.to_owned()))
            })
            .collect();
        let place = (tags, row.bucket);
        let group = expected
            .remove(&place)
            .ok_or_else(|| format!("an aggregate of {place:?}, which has no rows: {row:?}"))?;
        check(&group, row, question.fields)
            .map_err(|what| format!("the aggregate of {place:?}: {what}"))?;
    }
    match expected.keys().next() {
        Some(missing) => Err(format!("no aggregate of {missing:?}, which has rows")),
        None => Ok(found.used.rollups + found.used.statistics),
    }
}

fn by_hand(question: &Question<'_>) -> Groups {
    let mut groups = Groups::new();
    for ((tags, time), rows) in question.rows {
        let bucket = match question.request.bucket_ns {
            None => i64::MIN,
            // The first bucket of all may start before there is time.
            Some(width) => time
                .div_euclid(width)
                .checked_mul(width)
                .unwrap_or(i64::MIN),
        };
        let group = groups.entry((tags.clone(), bucket)).or_default();
        group.fields.resize_with(question.fields.len(), Vec::new);
        group.rows += rows.len() as u64;
        for row in rows {
            for (name, values) in question.fields.iter().zip(&mut group.fields) {
                values.extend(row.get(name).map(|value| (*time, value.clone())));
            }
        }
    }
    groups
}

fn check(group: &Group, row: &AggregateRow, names: &[String]) -> Result<(), String> {
    if group.rows != row.rows {
        return Err(format!("{} rows instead of {}", row.rows, group.rows));
    }
    for ((values, found), name) in group.fields.iter().zip(&row.fields).zip(names) {
        let fits = match found {
            None => values.is_empty(),
            Some(found) => check_field(values, found).unwrap_or(false),
        };
        if !fits {
            return Err(format!("the values {values:?} of {name} give {found:?}"));
        }
    }
    Ok(())
}

/// Whether the aggregate is that of the values; `None` = there are none.
fn check_field(values: &[(i64, Value)], found: &FieldAggregate) -> Option<bool> {
    let (first, last) = (values.first()?, values.last()?);
    let ordered = |a: &&Value, b: &&Value| compare_values(a, b);
    let smallest = values.iter().map(|(_, value)| value).min_by(ordered)?;
    let largest = values.iter().map(|(_, value)| value).max_by(ordered)?;
    Some(
        found.count == values.len() as u64
            && is(smallest, &found.min)
            && is(largest, &found.max)
            && first.0 == found.first.0
            && is(&first.1, &found.first.1)
            && last.0 == found.last.0
            && is(&last.1, &found.last.1)
            && check_sum(values, found.sum.as_ref()),
    )
}

fn compare_values(a: &Value, b: &Value) -> std::cmp::Ordering {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => f64::from_bits(*a).total_cmp(&f64::from_bits(*b)),
        (a, b) => a.cmp(b),
    }
}

fn is(value: &Value, found: &AggregateValue) -> bool {
    match (value, found) {
        (Value::Integer(value), AggregateValue::Int(found)) => value == found,
        (Value::Unsigned(value), AggregateValue::Unsigned(found)) => value == found,
        (Value::Float(value), AggregateValue::Float(found)) => *value == found.to_bits(),
        (Value::Boolean(value), AggregateValue::Bool(found)) => value == found,
        (Value::Text(value), AggregateValue::Text(found)) => value.as_bytes() == found,
        _ => false,
    }
}

fn check_sum(values: &[(i64, Value)], found: Option<&AggregateSum>) -> bool {
    let values = || values.iter().map(|(_, value)| value);
    match found {
        None => values().all(|value| matches!(value, Value::Text(_))),
        Some(AggregateSum::Int(found)) => {
            let sum: i128 = values()
                .map(|value| match value {
                    Value::Integer(value) => i128::from(*value),
                    _ => 0,
                })
                .sum();
            sum == *found
        }
        Some(AggregateSum::Unsigned(found)) => {
            let sum: u128 = values()
                .map(|value| match value {
                    Value::Unsigned(value) => u128::from(*value),
                    Value::Boolean(value) => u128::from(*value),
                    _ => 0,
                })
                .sum();
            sum == *found
        }
        Some(AggregateSum::Float(found)) => {
            let floats = || {
                values().map(|value| match value {
                    Value::Float(bits) => f64::from_bits(*bits),
                    _ => 0.0,
                })
            };
            let magnitude: f64 = floats().map(f64::abs).sum();
            let sum: f64 = floats().sum();
            // Where adding overflows, the order of the values decides when.
            !magnitude.is_finite() || (sum - found).abs() <= TOLERANCE * magnitude
        }
    }
}
