//! Rows put together: of inputs, of calls, and filled.

use nilometer_influxql_syntax::ast::Fill;
use rustc_hash::FxHashMap;

use crate::select::planned::types::kind_of_cast;
use crate::select::steps::symbols::Symbols;
use crate::select::values::points::{Point, Points};
use crate::select::values::rows::Rows;
use crate::select::values::value::{Kind, Value};

pub(super) fn cast(mut column: Vec<Value>, kind: Option<Kind>) -> Vec<Value> {
    if let Some(kind) = kind {
        for value in &mut column {
            *value = value.cast(kind);
        }
    }
    column
}

/// Puts rows that were left out back in number: the limit that follows counts them.
pub(super) fn pad_offset(rows: &mut Rows, offset: u64) {
    if offset == 0 {
        return;
    }
    let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
    let mut places = Vec::with_capacity(rows.len());
    let mut last = None;
    for row in 0..rows.len() {
        if last != Some(rows.set_of(row)) {
            last = Some(rows.set_of(row));
            places.extend(std::iter::repeat_n(row, skipped));
        }
        places.push(row);
    }
    // The copies stand in front of what they were made of and are never shown.
    let columns: Vec<Vec<Value>> = rows
        .columns
        .iter()
        .map(|column| {
            places
                .iter()
                .map(|row| column.get(*row).cloned().unwrap_or(Value::Null))
                .collect()
        })
        .collect();
    rows.set = places.iter().map(|row| rows.set_of(*row)).collect();
    rows.times = places.iter().map(|row| rows.time_of(*row)).collect();
    rows.columns = columns;
}

/// Adds the rows of another input behind.
pub(super) fn append(all: &mut Rows, more: Rows) {
    let numbers: Vec<u32> = more
        .sets
        .keys
        .iter()
        .map(|key| all.sets.number(key.copy()))
        .collect();
    let number = |set: &u32| numbers.get(*set as usize).copied().unwrap_or_default();
    all.set.extend(more.set.iter().map(number));
    all.times.extend(more.times);
    for (column, more) in all.columns.iter_mut().zip(more.columns) {
        column.extend(more);
    }
}

/// `fill(5)` and `fill(previous)` of rows without calls: nulls get the number, or what stood there before.
pub(super) fn fill_raw(rows: &mut Rows, symbols: &Symbols, fill: Fill) {
    let number = match fill {
        Fill::Integer(value) => Value::Integer(value),
        Fill::Float(value) => Value::Float(value),
        Fill::Previous => Value::Null,
        _ => return,
    };
    let set = &rows.set;
    for (column, name) in rows.columns.iter_mut().zip(&symbols.references) {
        let constant = kind_of_cast(name.cast).map_or(Value::Null, |kind| number.cast(kind));
        let mut before = Value::Null;
        let mut last = None;
        for (value, set) in column.iter_mut().zip(set) {
            if last != Some(*set) {
                (last, before) = (Some(*set), Value::Null);
            }
            if value.is_null() {
                *value = if fill == Fill::Previous {
                    before.clone()
                } else {
                    constant.clone()
                };
            } else if fill == Fill::Previous {
                before = value.clone();
            }
        }
    }
}

/// Points of calls as rows: the columns of the references first, of a lone call only.
pub(super) fn joined(
    mut calls: Vec<Points>,
    defaults: &[Value],
    keep: bool,
    (references, ascending): (usize, bool),
) -> Rows {
    let mut rows = Rows::of(references + calls.len());
    if let [only] = calls.as_mut_slice() {
        let default = defaults.first().unwrap_or(&Value::Null);
        for (set, points) in std::mem::take(&mut only.groups) {
            let mut before = vec![Value::Null; references + 1];
            for point in points {
                rows.set.push(set);
                rows.times.push(point.time);
                let values = point
                    .aux
                    .into_iter()
                    .chain(std::iter::repeat(Value::Null))
                    .take(references);
                let values = values.chain(std::iter::once(point.value));
                for ((column, value), before) in
                    rows.columns.iter_mut().zip(values).zip(&mut before)
                {
                    let value = match value {
                        Value::Null if keep => before.clone(),
                        Value::Null => default.clone(),
                        value => value,
                    };
                    *before = value.clone();
                    column.push(value);
                }
            }
        }
        return rows;
    }
    let mut by_set: FxHashMap<u32, Vec<Option<Vec<Point>>>> = FxHashMap::default();
    let count = calls.len();
    let mut order = Vec::new();
    for (place, points) in calls.into_iter().enumerate() {
        for (set, points) in points.groups {
            let own = by_set.entry(set).or_insert_with(|| {
                order.push(set);
                vec![None; count]
            });
            if let Some(slot) = own.get_mut(place) {
                *slot = Some(points);
            }
        }
    }
    for set in order {
        let lists = by_set.remove(&set).unwrap_or_default();
        let mut lists: Vec<_> = lists
            .into_iter()
            .map(|points| points.unwrap_or_default().into_iter().peekable())
            .collect();
        let mut before = vec![Value::Null; count];
        loop {
            let times = lists
                .iter_mut()
                .filter_map(|list| list.peek().map(|point| point.time));
            let Some(time) = (if ascending { times.min() } else { times.max() }) else {
                break;
            };
            rows.set.push(set);
            rows.times.push(time);
            let columns = rows.columns.iter_mut().skip(references);
            for ((column, list), (default, before)) in columns
                .zip(&mut lists)
                .zip(defaults.iter().zip(&mut before))
            {
                let point = list.next_if(|point| point.time == time);
                let value = match point.map(|point| point.value) {
                    None | Some(Value::Null) if keep => before.clone(),
                    None | Some(Value::Null) => default.clone(),
                    Some(value) => value,
                };
                *before = value.clone();
                column.push(value);
            }
        }
        for column in rows.columns.iter_mut().take(references) {
            column.resize(rows.times.len(), Value::Null);
        }
    }
    rows
}
