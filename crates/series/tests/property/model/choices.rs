//! Choices of the model: all rows of a group and bucket in a list, sorted, and the first of them taken.

use std::collections::BTreeMap;

use nilometer_series::{Choice, Expr, Rules, Shape, Top};

use super::buckets::{GroupKey, bucket_start, tag_keys, window_rows};
use super::values::{Result, Row, Val, eval, total, value_of};
use super::{Answer, answer_of_made, answer_of_rows};

/// Rows come by time, and of one time in their order.
pub(crate) fn answer_of_choice(shape: &Shape, choice: &Choice, rows: &[Row]) -> Result<Answer> {
    let only = match shape.time.from.as_ref().map(value_of) {
        Some(Val::Time(time) | Val::Int(time)) => time,
        _ => 0,
    };
    let mut cells: BTreeMap<(GroupKey, i64), Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        let key = tag_keys(row, shape.group.iter(), shape.rules);
        let start = match &shape.bucket {
            Some(_) => bucket_start(shape, row.time),
            None => only,
        };
        cells.entry((key, start)).or_default().push(at);
    }
    match choice {
        Choice::Top(top) => {
            let mut kept = Vec::new();
            for own in cells.into_values() {
                kept.extend(first(shape, top, rows, own)?);
            }
            kept.sort_unstable();
            let kept = kept.into_iter().map(|at| rows[at].clone());
            answer_of_rows(shape, kept.collect())
        }
        Choice::Distinct(of) => {
            let mut made = Vec::new();
            for ((group, start), own) in cells {
                for value in each_once(of, shape, own.iter().map(|at| &rows[*at]))? {
                    let row = Row {
                        time: start,
                        ..rows[own[0]].clone()
                    };
                    let known = |expr: &Expr| (expr == of).then(|| value.clone());
                    let columns = shape.columns.iter();
                    let values = columns.map(|it| eval(&it.expr, &row, shape.rules, &known));
                    made.push((group.clone(), (row.clone(), values.collect::<Result<_>>()?)));
                }
            }
            Ok(answer_of_made(shape, made))
        }
    }
}

/// Both zeros are one by `InfluxQL`.
fn plain(value: &Val, rules: Rules) -> Val {
    match value {
        Val::Float(zero) if *zero == 0.0 && rules == Rules::Influx => Val::Float(0.0),
        other => other.clone(),
    }
}

/// The places of the first rows: by value, then by time, then by their order in the answer.
fn first(shape: &Shape, top: &Top, rows: &[Row], own: Vec<usize>) -> Result<Vec<usize>> {
    let rules = shape.rules;
    let value = |of: &Expr, at: usize| eval(of, &rows[at], rules, &|_| None);
    let mut all = Vec::new();
    for at in own {
        let by = plain(&value(&top.by, at)?, rules);
        if by != Val::Null {
            all.push((by, at));
        }
    }
    all.sort_by(|one, other| {
        let by_value = total(&one.0, &other.0);
        let by_value = if top.smallest {
            by_value
        } else {
            by_value.reverse()
        };
        let by_time = rows[one.1].time.cmp(&rows[other.1].time);
        let by_order = one.1.cmp(&other.1);
        let by_order = if shape.order.descending {
            by_order.reverse()
        } else {
            by_order
        };
        by_value.then(by_time).then(by_order)
    });
    let mut seen: Vec<String> = Vec::new();
    let mut kept = Vec::new();
    for (_, at) in all {
        let each = top.each.iter().map(|of| value(of, at));
        let each = format!("{:?}", each.collect::<Result<Vec<Val>>>()?);
        if top.each.is_empty() || !seen.contains(&each) {
            kept.push(at);
            seen.push(each);
        }
    }
    kept.truncate(window_rows(&top.rows));
    Ok(kept)
}

/// The values by the times of the first rows that have them in the order of the answer, and of one time by value.
fn each_once<'a>(
    of: &Expr,
    shape: &Shape,
    rows: impl Iterator<Item = &'a Row>,
) -> Result<Vec<Val>> {
    let rules = shape.rules;
    let mut found: Vec<(i64, Val)> = Vec::new();
    for row in rows {
        let value = eval(of, row, rules, &|_| None)?;
        if value != Val::Null {
            found.push((row.time, value));
        }
    }
    found.sort_by(|one, other| {
        let by_time = one.0.cmp(&other.0);
        let by_time = if shape.order.descending {
            by_time.reverse()
        } else {
            by_time
        };
        by_time.then(total(&one.1, &other.1))
    });
    let mut kept: Vec<(i64, Val)> = Vec::new();
    for (time, value) in found {
        let is_same = |it: &(i64, Val)| total(&plain(&it.1, rules), &plain(&value, rules)).is_eq();
        if !kept.iter().any(is_same) {
            kept.push((time, value));
        }
    }
    kept.sort_by(|one, other| one.0.cmp(&other.0).then(total(&one.1, &other.1)));
    Ok(kept.into_iter().map(|it| it.1).collect())
}
