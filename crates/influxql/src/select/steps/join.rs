//! Rows put together: of inputs, of calls, and filled.

use nilometer_influxql_syntax::ast::Fill;

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

/// The points of a call in the order in which they come, with their groups.
type Stream = Vec<(u32, Point)>;

/// Rows of each group, and those before them.
pub(super) type Limit = (u64, u64);

/// The order of points: the place of their group by some tags, the time that counts, the place of their group by all tags.
pub(super) type Key<'a> = &'a dyn Fn(u32, i64) -> (usize, i64, usize);

fn stream(points: Points, key: Key<'_>, ascending: bool, (limit, offset): Limit) -> Stream {
    let all = points.groups.into_iter();
    let mut all: Stream = all
        .flat_map(|(set, points)| points.into_iter().map(move |point| (set, point)))
        .collect();
    all.sort_by(|(one_set, one), (two_set, two)| {
        let order = key(*one_set, one.time).cmp(&key(*two_set, two.time));
        if ascending { order } else { order.reverse() }
    });
    if limit == 0 && offset == 0 {
        return all;
    }
    let (mut last, mut seen) = (None, 0_u64);
    all.retain(|(set, _)| {
        if last != Some(*set) {
            (last, seen) = (Some(*set), 0);
        }
        seen += 1;
        seen > offset && (limit == 0 || seen - offset <= limit)
    });
    all
}

/// Points of calls as rows: the columns of the references first, of a lone call only. Of several calls the rows come as
/// InfluxDB takes them: whichever call has the first group and time next, each under the limit for itself.
pub(super) fn joined(
    calls: Vec<Points>,
    (beside, defaults): (&[Value], &[Value]),
    keep: bool,
    (ascending, key, limit): (bool, Key<'_>, Limit),
) -> Rows {
    let references = beside.len();
    let mut rows = Rows::of(references + calls.len());
    let mut before = vec![Value::Null; references + calls.len()];
    let mut last = None;
    let is_lone = calls.len() == 1;
    let streams = calls
        .into_iter()
        .map(|points| stream(points, key, ascending, limit));
    let mut streams: Vec<_> = streams.map(|all| all.into_iter().peekable()).collect();
    loop {
        let heads = streams.iter_mut().filter_map(|all| {
            let (set, point) = all.peek()?;
            let (_, _, place) = key(*set, point.time);
            Some(((place, point.time), *set))
        });
        let next = if ascending { heads.min() } else { heads.max() };
        let Some(((_, time), set)) = next else {
            return rows;
        };
        if last != Some(set) {
            last = Some(set);
            before.fill(Value::Null);
        }
        rows.set.push(set);
        rows.times.push(time);
        let mut values: Vec<(Value, &Value)> = Vec::with_capacity(before.len());
        for (all, default) in streams.iter_mut().zip(defaults) {
            let point = all.next_if(|(own, point)| *own == set && point.time == time);
            let (value, aux) = match point {
                Some((_, point)) => (point.value, point.aux),
                None => (Value::Null, Vec::new()),
            };
            if is_lone {
                let aux = aux.into_iter().chain(std::iter::repeat(Value::Null));
                values.extend(aux.zip(beside));
            }
            values.push((value, default));
        }
        let nulls = references + streams.len() - values.len();
        let values = std::iter::repeat_n((Value::Null, &Value::Null), nulls).chain(values);
        for ((column, before), (value, default)) in
            rows.columns.iter_mut().zip(&mut before).zip(values)
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
