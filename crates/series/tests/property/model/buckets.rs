//! Groups, buckets, fills and limits of the model.

use std::collections::BTreeMap;

use nilometer_series::{Fill, Limit, Literal, Rules, Shape, Width};

use super::values::{Cell, Row, Val, exact, float, value_of};

/// A key that sorts as groups are sorted.
pub(crate) type GroupKey = Vec<(u8, Option<String>)>;

pub(crate) fn tag_keys<'a>(
    row: &Row,
    tags: impl Iterator<Item = &'a String>,
    rules: Rules,
) -> GroupKey {
    let key = |tag: &String| {
        let value = row.tags.get(tag).cloned();
        let rank = match (&value, rules) {
            (None, Rules::Postgres) => 2,
            (None, Rules::Influx) => 0,
            (Some(_), _) => 1,
        };
        (rank, value)
    };
    tags.map(key).collect()
}

pub(crate) fn bucket_start(shape: &Shape, time: i64) -> i64 {
    let bucket = shape.bucket.as_ref().unwrap();
    match bucket.width {
        Width::Fixed(width) => {
            let first = bucket.origin_ns + bucket.offset.fixed_ns;
            time - (time - first).rem_euclid(width)
        }
        Width::Months(width) => {
            let (year, month) = year_and_month(time);
            let (first_year, first_month) = year_and_month(bucket.origin_ns);
            let months = year * 12 + month;
            let start =
                months - (months - first_year * 12 - first_month).rem_euclid(i64::from(width));
            days_before(start.div_euclid(12), start.rem_euclid(12)) * 86_400_000_000_000
        }
    }
}

pub(crate) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days from 1970 to the first of a month, counted one year and one month after another.
pub(crate) fn days_before(year: i64, month: i64) -> i64 {
    let length = |year: i64| if is_leap(year) { 366 } else { 365 };
    let years = if year >= 1970 {
        (1970..year).map(length).sum::<i64>()
    } else {
        -(year..1970).map(length).sum::<i64>()
    };
    let february = if is_leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    years
        + months[..usize::try_from(month).unwrap()]
            .iter()
            .sum::<i64>()
}

pub(crate) fn year_and_month(time: i64) -> (i64, i64) {
    let day = time.div_euclid(86_400_000_000_000);
    let mut year = 1970 + day.div_euclid(366) - 1;
    while days_before(year + 1, 0) <= day {
        year += 1;
    }
    let month = (0..12).rev().find(|month| days_before(year, *month) <= day);
    (year, month.unwrap())
}

pub(crate) fn window_rows(rows: &Literal) -> usize {
    match value_of(rows) {
        Val::Int(rows) => usize::try_from(rows).unwrap(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn window(limit: Option<&Limit>) -> (usize, usize) {
    let number = |literal: &Literal| match value_of(literal) {
        Val::Int(value) => usize::try_from(value).unwrap(),
        other => panic!("{other:?}"),
    };
    limit.map_or((0, usize::MAX), |limit| {
        (number(&limit.skip), number(&limit.rows))
    })
}

/// Limits of rows that are in order.
pub(crate) fn limited<T>(rows: Vec<(GroupKey, T)>, shape: &Shape) -> Vec<T> {
    let (skip, most) = window(shape.limit_per_group.as_ref());
    let mut seen: BTreeMap<GroupKey, usize> = BTreeMap::new();
    let within = rows.into_iter().filter(|(group, _)| {
        let place = seen.entry(group.clone()).or_default();
        *place += 1;
        *place > skip && *place - skip <= most
    });
    let (skip, most) = window(shape.limit.as_ref());
    within.map(|(_, row)| row).skip(skip).take(most).collect()
}

pub(crate) type Made = Vec<(GroupKey, (i64, Vec<Cell>))>;

/// Which of the fills a column has; 0 = that of all.
pub(crate) fn fill_of(shape: &Shape, column: &str) -> usize {
    let own = shape.fills.iter().position(|(name, _)| name == column);
    own.map_or(0, |place| place + 1)
}

/// The rows of those groups that the limit of groups leaves.
pub(crate) fn of_groups(rows: Vec<Row>, shape: &Shape) -> Vec<Row> {
    let key = |row: &Row| tag_keys(row, shape.group.iter(), shape.rules);
    let mut keys: Vec<GroupKey> = rows.iter().map(key).collect();
    keys.sort();
    keys.dedup();
    if shape.rules == Rules::Influx {
        // As `InfluxDB` writes the key of a group: which tags it has, then what they are.
        keys.sort_by_key(|key| {
            let known = shape.group.iter().zip(key).filter(|(_, it)| it.1.is_some());
            let mut known: Vec<(&String, String)> = known
                .map(|(name, (_, value))| (name, value.clone().unwrap()))
                .collect();
            known.sort();
            let mut words: Vec<String> = known.iter().map(|it| it.0.clone()).collect();
            words.extend(known.into_iter().map(|it| it.1));
            words.join("|")
        });
    }
    let (skip, most) = window(shape.limit_groups.as_ref());
    let kept: Vec<GroupKey> = keys.into_iter().skip(skip).take(most).collect();
    rows.into_iter()
        .filter(|row| kept.contains(&key(row)))
        .collect()
}

/// `fills` says by aggregate which fill it has.
pub(crate) fn filled(made: Made, shape: &Shape, fills: &[usize]) -> Made {
    let Some(bucket) = shape.bucket.as_ref().filter(|_| shape.fill != Fill::Absent) else {
        return made;
    };
    let Width::Fixed(width) = bucket.width else {
        panic!("the model fills fixed widths");
    };
    let starts = || made.iter().map(|it| it.1.0);
    let (Some(first), Some(last)) = (starts().min(), starts().max()) else {
        return made;
    };
    let bound = |bound: &Option<Literal>| match bound.as_ref().map(value_of) {
        Some(Val::Time(time) | Val::Int(time)) => Some(time),
        _ => None,
    };
    let first = bound(&shape.time.from).map_or(first, |time| bucket_start(shape, time));
    let last = bound(&shape.time.to).map_or(last, |time| bucket_start(shape, time - 1));
    let mut whole = Made::new();
    for group in made.chunk_by(|a, b| a.0 == b.0) {
        let mut start = first;
        while start <= last {
            let before = group.iter().rev().find(|it| it.1.0 < start);
            let after = group.iter().find(|it| it.1.0 > start);
            let cells = match group.iter().find(|it| it.1.0 == start) {
                Some(known) => known.1.1.clone(),
                None => (0..group[0].1.1.len())
                    .map(|at| {
                        let fill = match fills[at] {
                            0 => &shape.fill,
                            own => &shape.fills[own - 1].1,
                        };
                        fill_cell((shape, fill), start, at, before, after)
                    })
                    .collect(),
            };
            whole.push((group[0].0.clone(), (start, cells)));
            start += width;
        }
    }
    whole
}

pub(crate) type MadeRow = (GroupKey, (i64, Vec<Cell>));

pub(crate) fn fill_cell(
    (shape, fill): (&Shape, &Fill),
    start: i64,
    at: usize,
    before: Option<&MadeRow>,
    after: Option<&MadeRow>,
) -> Cell {
    match fill {
        Fill::Absent | Fill::Null => exact(Val::Null),
        Fill::Value(value) => exact(value_of(value)),
        Fill::Previous => before.map_or(exact(Val::Null), |it| it.1.1[at].clone()),
        Fill::Linear => {
            let (Some(before), Some(after)) = (before, after) else {
                return exact(Val::Null);
            };
            let (a, b) = (&before.1.1[at], &after.1.1[at]);
            let (Some(y0), Some(y1)) = (float(&a.value), float(&b.value)) else {
                return exact(Val::Null);
            };
            let (t0, t1) = (before.1.0, after.1.0);
            let value = y0 + (y1 - y0) * ((start - t0) as f64 / (t1 - t0) as f64);
            let whole = match shape.rules {
                Rules::Postgres => value.round(),
                Rules::Influx => value.trunc(),
            };
            Cell {
                value: match a.value {
                    Val::Int(_) => Val::Int(whole as i64),
                    Val::Uint(_) => Val::Uint(whole as u64),
                    _ => Val::Float(value),
                },
                off: a.off + b.off + 1e-12 * (y0.abs() + y1.abs()),
            }
        }
    }
}
