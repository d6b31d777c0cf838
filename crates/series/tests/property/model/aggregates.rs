//! Aggregates of the model.

use nilometer_series::{Aggregate, Expr, Percentile, Rules, Selector, Shape};

use super::buckets::fill_of;
use super::values::{Cell, Refused, Result, Row, Val, eval, exact, float, total, whole};

/// Sum of floats, and how far another order of adding may be off.
pub(crate) fn sum_floats(values: &[f64]) -> (f64, f64) {
    let magnitude: f64 = values.iter().map(|value| value.abs()).sum();
    // The sum of no more than -0.0 is 0.0: it is added to nothing, which is 0.0.
    let sum = values.iter().fold(0.0, |sum, value| sum + value);
    (sum, 1e-12 * magnitude)
}

pub(crate) fn aggregate(aggregate: &Aggregate, rows: &[&Row], rules: Rules) -> Result<Cell> {
    let eval = |of: &Expr, row: &Row| eval(of, row, rules, &|_| None);
    let values = |of: &Expr| -> Result<Vec<(Val, usize)>> {
        let mut found = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let value = eval(of, row)?;
            if value != Val::Null {
                found.push((value, at));
            }
        }
        Ok(found)
    };
    let sorted = |of: &Expr| -> Result<Vec<Val>> {
        let mut all: Vec<Val> = values(of)?.into_iter().map(|it| it.0).collect();
        all.sort_by(total);
        Ok(all)
    };
    let count = |count: usize| exact(Val::Int(i64::try_from(count).unwrap()));
    let or_null = |value: Option<Val>| exact(value.unwrap_or(Val::Null));
    Ok(match aggregate {
        Aggregate::Rows => count(rows.len()),
        Aggregate::Count(of) => count(values(of)?.len()),
        Aggregate::CountDistinct(of) => {
            let mut all = sorted(of)?;
            all.dedup_by(|a, b| total(a, b).is_eq());
            count(all.len())
        }
        Aggregate::Sum(of) => sum(&sorted(of)?, rules)?,
        Aggregate::Mean(of) => {
            let all = sorted(of)?;
            if all.is_empty() {
                return Ok(exact(Val::Null));
            }
            let size = all.len() as f64;
            if matches!(all[0], Val::Float(_)) {
                let floats: Vec<f64> = all.iter().filter_map(float).collect();
                let (sum, off) = sum_floats(&floats);
                return Ok(Cell {
                    value: Val::Float(sum / size),
                    off: off / size,
                });
            }
            let sum: i128 = all.iter().filter_map(whole).sum();
            exact(Val::Float(sum as f64 / size))
        }
        // Of SQL over PostgreSQL's protocol alone, whose tests compare them with PostgreSQL's own.
        Aggregate::NumericSum(_) | Aggregate::NumericMean(_) => {
            unreachable!("no question asks for numeric sums")
        }
        Aggregate::Min(of) => or_null(sorted(of)?.first().cloned()),
        Aggregate::Max(of) => or_null(sorted(of)?.last().cloned()),
        Aggregate::Spread(of) => {
            let all = sorted(of)?;
            match (all.first(), all.last()) {
                (Some(Val::Float(low)), Some(Val::Float(high))) => exact(Val::Float(high - low)),
                (Some(low), Some(high)) => {
                    let distance = whole(high).unwrap() - whole(low).unwrap();
                    exact(fit(distance, matches!(low, Val::Uint(_)), rules)?)
                }
                _ => exact(Val::Null),
            }
        }
        Aggregate::Stddev(of) => stddev(&sorted(of)?),
        Aggregate::First(of) => {
            or_null(select(Selector::First, &values(of)?, rows, rules).map(|it| it.1))
        }
        Aggregate::Last(of) => {
            or_null(select(Selector::Last, &values(of)?, rows, rules).map(|it| it.1))
        }
        Aggregate::Select {
            selector,
            by,
            value,
        } => match select(*selector, &values(by)?, rows, rules) {
            Some((at, _)) => exact(eval(value, rows[at])?),
            None => exact(Val::Null),
        },
        Aggregate::Median(of) => percentile(&sorted(of)?, 50.0, Percentile::Continuous),
        Aggregate::Percentile(of, percent, kind) => percentile(&sorted(of)?, *percent, *kind),
        Aggregate::Mode(of) => mode(&values(of)?, rows, rules),
        Aggregate::Histogram {
            of,
            low,
            high,
            buckets,
        } => histogram(&sorted(of)?, *low, *high, *buckets),
    })
}

pub(crate) fn fit(value: i128, is_unsigned: bool, rules: Rules) -> Result<Val> {
    if rules == Rules::Influx {
        return Ok(if is_unsigned {
            Val::Uint(value as u64)
        } else {
            Val::Int(value as i64)
        });
    }
    let fitted = if is_unsigned {
        u64::try_from(value).map(Val::Uint)
    } else {
        i64::try_from(value).map(Val::Int)
    };
    fitted.map_err(|_| Refused("range"))
}

pub(crate) fn sum(all: &[Val], rules: Rules) -> Result<Cell> {
    match all.first() {
        None => Ok(exact(Val::Null)),
        Some(Val::Float(_)) => {
            let floats: Vec<f64> = all.iter().filter_map(float).collect();
            let (sum, off) = sum_floats(&floats);
            Ok(Cell {
                value: Val::Float(sum),
                off,
            })
        }
        Some(first) => {
            let sum: i128 = all.iter().filter_map(whole).sum();
            fit(sum, matches!(first, Val::Uint(_)), rules).map(exact)
        }
    }
}

/// In two passes.
pub(crate) fn stddev(all: &[Val]) -> Cell {
    let floats: Vec<f64> = all.iter().filter_map(float).collect();
    if floats.len() < 2 {
        return exact(Val::Null);
    }
    let size = floats.len() as f64;
    let mean = floats.iter().sum::<f64>() / size;
    let squares: f64 = floats.iter().map(|value| (value - mean).powi(2)).sum();
    let magnitude: f64 = floats.iter().map(|value| value * value).sum();
    let variance = squares / (size - 1.0);
    // The root of a small number is far more off than the number: its error divided by twice the root.
    let off = 1e-12 * magnitude;
    Cell {
        value: Val::Float(variance.sqrt()),
        off: (variance + off).sqrt() - (variance - off).max(0.0).sqrt(),
    }
}

pub(crate) fn percentile(all: &[Val], percent: f64, kind: Percentile) -> Cell {
    let size = all.len();
    if size == 0 {
        return exact(Val::Null);
    }
    match kind {
        Percentile::Nearest => {
            let place = (size as f64 * percent / 100.0 + 0.5).floor() as i64 - 1;
            let value = usize::try_from(place).ok().and_then(|at| all.get(at));
            exact(value.cloned().unwrap_or(Val::Null))
        }
        Percentile::Discrete => {
            let enough = (1..=size).find(|count| *count as f64 >= size as f64 * (percent / 100.0));
            exact(all[enough.unwrap_or(size) - 1].clone())
        }
        Percentile::Continuous => {
            let place = (size - 1) as f64 * (percent / 100.0);
            let (low, high) = (place.floor() as usize, place.ceil() as usize);
            let (a, b) = (float(&all[low]).unwrap(), float(&all[high]).unwrap());
            if low == high {
                return exact(Val::Float(a));
            }
            Cell {
                value: Val::Float(a + (place - low as f64) * (b - a)),
                off: 1e-12 * (a.abs() + b.abs()),
            }
        }
    }
}

pub(crate) fn mode(values: &[(Val, usize)], rows: &[&Row], rules: Rules) -> Cell {
    let same = |value: &Val| {
        let all = values.iter().filter(|it| total(&it.0, value).is_eq());
        all.map(|it| it.1).collect::<Vec<_>>()
    };
    let best = values
        .iter()
        .map(|(value, _)| (value, same(value)))
        .max_by(|one, other| {
            let more = one.1.len().cmp(&other.1.len());
            more.then_with(|| match rules {
                Rules::Postgres => total(other.0, one.0),
                Rules::Influx => {
                    let earliest = |all: &[usize]| all.iter().map(|at| place(rows[*at], *at)).min();
                    earliest(&other.1).cmp(&earliest(&one.1))
                }
            })
        });
    exact(best.map_or(Val::Null, |(value, _)| value.clone()))
}

/// Rows of a group come in their order, so the position tells rows of one time apart.
pub(crate) fn place(row: &Row, at: usize) -> (i64, usize) {
    (row.time, at)
}

pub(crate) fn select(
    selector: Selector,
    values: &[(Val, usize)],
    rows: &[&Row],
    rules: Rules,
) -> Option<(usize, Val)> {
    let mut all: Vec<&(Val, usize)> = values.iter().collect();
    match selector {
        Selector::Min => all.sort_by(|a, b| total(&a.0, &b.0)),
        Selector::Max => all.sort_by(|a, b| total(&b.0, &a.0)),
        Selector::First | Selector::Last => {
            let is_first = selector == Selector::First;
            let edge = all.iter().map(|it| rows[it.1].time);
            let time = if is_first { edge.min()? } else { edge.max()? };
            all.retain(|it| rows[it.1].time == time);
            if rules == Rules::Influx {
                all.sort_by(|a, b| total(&b.0, &a.0));
                if !is_first && let Some(best) = all.first().map(|it| it.0.clone()) {
                    // Of equal values that of the last row.
                    all.retain(|it| total(&it.0, &best).is_eq());
                    all.reverse();
                }
            } else if !is_first {
                all.reverse();
            }
        }
    }
    all.first().map(|it| (it.1, it.0.clone()))
}

/// The aggregates of a question, each once for every way in which it is filled.
pub(crate) fn aggregates_of(shape: &Shape) -> Vec<(Aggregate, usize)> {
    fn collect(expr: &Expr, fill: usize, found: &mut Vec<(Aggregate, usize)>) {
        let mut inner = |of: &Expr| collect(of, fill, found);
        match expr {
            Expr::Unary(_, of) | Expr::Neighbour(_, of) => inner(of),
            Expr::Binary(_, left, right) => {
                inner(left);
                inner(right);
            }
            Expr::Call(_, operands) => operands.iter().for_each(inner),
            Expr::Aggregate(aggregate) => {
                let new = ((**aggregate).clone(), fill);
                if !found.contains(&new) {
                    found.push(new);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for column in &shape.columns {
        collect(&column.expr, fill_of(shape, &column.name), &mut found);
    }
    found
}

fn histogram(all: &[Val], low: f64, high: f64, buckets: u32) -> Cell {
    if all.is_empty() {
        return exact(Val::Null);
    }
    let parts = buckets as usize;
    let mut counts = vec![0; parts + 2];
    for value in all.iter().filter_map(float) {
        let place = if value < low {
            0
        } else if value < high {
            let share = (value - low) / (high - low);
            1 + ((f64::from(buckets) * share).floor() as usize).min(parts - 1)
        } else {
            parts + 1
        };
        counts[place] += 1;
    }
    exact(Val::Counts(counts))
}
