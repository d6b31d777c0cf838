//! The naive model: rows in a list, and queries answered by going over all of them.
//!
//! It knows nothing of the engine or of operators. What it takes from the crate are the values that a question is made of.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use nilometer_series::{
    Aggregate, Binary, Expr, Fill, Function, Limit, Literal, OrderBy, Percentile, Rules, Selector,
    Shape, Source, TagExpr, Transform, Unary, Value, Width,
};

/// A value; `Null` = none.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Val {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(String),
    Time(i64),
    Counts(Vec<i64>),
}

/// A row of a table or of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) time: i64,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) fields: BTreeMap<String, Val>,
    /// What tells rows of one time apart: source, then tags, then the order of writing.
    pub(crate) source: usize,
    pub(crate) written: usize,
}

/// The rows of each table, and the names of its tags in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    pub(crate) tables: BTreeMap<String, (Vec<String>, Vec<Row>)>,
}

/// An answer. Floats that were summed up carry the sum of magnitudes.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Vec<Cell>>,
    /// The same rows for a query around this one.
    nested: Vec<Row>,
}

/// A value of an answer, and how far a float may be off.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) value: Val,
    pub(crate) off: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) &'static str);

type Result<T> = std::result::Result<T, Refused>;

fn exact(value: Val) -> Cell {
    Cell { value, off: 0.0 }
}

fn value_of(literal: &Literal) -> Val {
    match literal {
        Literal::Value(value) => match value {
            Value::Null => Val::Null,
            Value::Bool(it) => Val::Bool(*it),
            Value::Int(it) => Val::Int(*it),
            Value::Unsigned(it) => Val::Uint(*it),
            Value::Float(it) => Val::Float(*it),
            Value::Text(it) => Val::Text(it.to_string()),
            Value::Time(it) => Val::Time(*it),
        },
        Literal::Parameter(_) => panic!("the model takes no parameters"),
    }
}

/// -0.0 below 0.0, NaN above all, text by bytes.
pub(crate) fn total(one: &Val, other: &Val) -> Ordering {
    match (one, other) {
        (Val::Float(a), Val::Float(b)) => match (a.is_nan(), b.is_nan()) {
            (false, false) => a.total_cmp(b),
            (a, b) => a.cmp(&b),
        },
        (Val::Int(a), Val::Int(b)) | (Val::Time(a), Val::Time(b)) => a.cmp(b),
        (Val::Uint(a), Val::Uint(b)) => a.cmp(b),
        (Val::Bool(a), Val::Bool(b)) => a.cmp(b),
        (Val::Text(a), Val::Text(b)) => a.cmp(b),
        other => panic!("two types: {other:?}"),
    }
}

fn whole(value: &Val) -> Option<i128> {
    Some(match value {
        Val::Int(it) | Val::Time(it) => i128::from(*it),
        Val::Uint(it) => i128::from(*it),
        _ => return None,
    })
}

fn float(value: &Val) -> Option<f64> {
    Some(match value {
        Val::Int(it) => *it as f64,
        Val::Uint(it) => *it as f64,
        Val::Float(it) => *it,
        _ => return None,
    })
}

fn compare(operator: Binary, one: &Val, other: &Val, rules: Rules) -> Val {
    if *one == Val::Null || *other == Val::Null {
        return Val::Null;
    }
    let order = match (whole(one), whole(other)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => match (float(one), float(other)) {
            (Some(a), Some(b)) if rules == Rules::Influx => a.partial_cmp(&b),
            (Some(a), Some(b)) => Some(match (a.is_nan(), b.is_nan()) {
                (false, false) => a.partial_cmp(&b).unwrap(),
                (a, b) => a.cmp(&b),
            }),
            _ => Some(total(one, other)),
        },
    };
    Val::Bool(match operator {
        Binary::Equal => order == Some(Ordering::Equal),
        Binary::NotEqual => order != Some(Ordering::Equal),
        Binary::Less => order == Some(Ordering::Less),
        Binary::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Binary::Greater => order == Some(Ordering::Greater),
        Binary::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        _ => panic!("no comparison"),
    })
}

fn calculate(operator: Binary, one: &Val, other: &Val, rules: Rules) -> Result<Val> {
    if *one == Val::Null || *other == Val::Null {
        return Ok(Val::Null);
    }
    let as_float = matches!(one, Val::Float(_))
        || matches!(other, Val::Float(_))
        || (operator == Binary::Divide && rules == Rules::Influx);
    if as_float {
        let (a, b) = (float(one).unwrap(), float(other).unwrap());
        return of_floats(operator, a, b, rules).map(Val::Float);
    }
    let (a, b) = (whole(one).unwrap(), whole(other).unwrap());
    let result = match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => match a.checked_mul(b) {
            Some(product) => product,
            None if rules == Rules::Influx => a.wrapping_mul(b),
            None => return Err(Refused("range")),
        },
        _ if b == 0 && rules == Rules::Postgres => return Err(Refused("zero")),
        _ if b == 0 => 0,
        Binary::Divide => a / b,
        Binary::Remainder => a % b,
        _ => panic!("no arithmetic"),
    };
    if let (Val::Uint(_), Val::Uint(_)) = (one, other) {
        return match (u64::try_from(result), rules) {
            (Ok(result), _) => Ok(Val::Uint(result)),
            (Err(_), Rules::Influx) => Ok(Val::Uint(result as u64)),
            _ => Err(Refused("range")),
        };
    }
    match (i64::try_from(result), rules) {
        (Ok(result), _) => Ok(Val::Int(result)),
        (Err(_), Rules::Influx) => Ok(Val::Int(result as i64)),
        _ => Err(Refused("range")),
    }
}

fn of_floats(operator: Binary, a: f64, b: f64, rules: Rules) -> Result<f64> {
    let result = match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide if b == 0.0 => match rules {
            Rules::Influx => 0.0,
            Rules::Postgres if a.is_nan() => a / b,
            Rules::Postgres => return Err(Refused("zero")),
        },
        Binary::Divide => a / b,
        _ => panic!("no arithmetic of floats"),
    };
    if rules == Rules::Influx {
        return Ok(result);
    }
    let from_infinity = match operator {
        Binary::Divide => a.is_infinite(),
        _ => a.is_infinite() || b.is_infinite(),
    };
    let lost = match operator {
        Binary::Multiply => result == 0.0 && a != 0.0 && b != 0.0,
        Binary::Divide => result == 0.0 && a != 0.0 && !b.is_infinite(),
        _ => false,
    };
    if (result.is_infinite() && !from_infinity) || lost {
        return Err(Refused("range"));
    }
    Ok(result)
}

/// An expression over a row; `known` answers for aggregates and neighbours.
fn eval(expr: &Expr, row: &Row, rules: Rules, known: &dyn Fn(&Expr) -> Option<Val>) -> Result<Val> {
    if let Some(value) = known(expr) {
        return Ok(value);
    }
    let inner = |expr: &Expr| eval(expr, row, rules, known);
    Ok(match expr {
        Expr::Time => Val::Time(row.time),
        Expr::Tag(tag) => match row.tags.get(tag) {
            Some(value) => Val::Text(value.clone()),
            None if rules == Rules::Influx => Val::Text(String::new()),
            None => Val::Null,
        },
        Expr::Field(field) => row.fields.get(field).cloned().unwrap_or(Val::Null),
        Expr::Literal(literal) => value_of(literal),
        Expr::Unary(operator, of) => match (operator, inner(of)?) {
            (Unary::IsNull, value) => Val::Bool(value == Val::Null),
            (Unary::IsNotNull, value) => Val::Bool(value != Val::Null),
            (_, Val::Null) => Val::Null,
            (Unary::Not, Val::Bool(truth)) => Val::Bool(!truth),
            (Unary::Negate, Val::Float(value)) => Val::Float(-value),
            (Unary::Negate, value) => {
                let negated = -whole(&value).unwrap();
                match (i64::try_from(negated), rules) {
                    (Ok(value), _) => Val::Int(value),
                    (Err(_), Rules::Influx) => Val::Int(negated as i64),
                    _ => return Err(Refused("range")),
                }
            }
            other => panic!("{other:?}"),
        },
        Expr::Binary(Binary::And, left, right) => match (inner(left)?, inner(right)?) {
            (Val::Bool(false), _) | (_, Val::Bool(false)) => Val::Bool(false),
            (Val::Bool(true), Val::Bool(true)) => Val::Bool(true),
            _ => Val::Null,
        },
        Expr::Binary(Binary::Or, left, right) => match (inner(left)?, inner(right)?) {
            (Val::Bool(true), _) | (_, Val::Bool(true)) => Val::Bool(true),
            (Val::Bool(false), Val::Bool(false)) => Val::Bool(false),
            _ => Val::Null,
        },
        Expr::Binary(operator, left, right) => {
            let (one, other) = (inner(left)?, inner(right)?);
            match operator {
                Binary::Add
                | Binary::Subtract
                | Binary::Multiply
                | Binary::Divide
                | Binary::Remainder => calculate(*operator, &one, &other, rules)?,
                _ => compare(*operator, &one, &other, rules),
            }
        }
        Expr::Call(Function::Coalesce, operands) => {
            for operand in operands {
                let value = inner(operand)?;
                if value != Val::Null {
                    // The questions have a float among its operands, so it is one.
                    return Ok(float(&value).map_or(value, Val::Float));
                }
            }
            Val::Null
        }
        Expr::Call(function, operands) => match (function, inner(&operands[0])?) {
            (_, Val::Null) => Val::Null,
            (Function::Floor, Val::Float(value)) => Val::Float(value.floor()),
            (Function::Ceil, Val::Float(value)) => Val::Float(value.ceil()),
            (Function::Abs, Val::Float(value)) => Val::Float(value.abs()),
            (Function::Floor | Function::Ceil, value) => value,
            other => panic!("{other:?}"),
        },
        Expr::Aggregate(_) | Expr::Neighbour(..) => panic!("{expr} is not known"),
    })
}

fn tags_hold(expr: &TagExpr, row: &Row, rules: Rules) -> Option<bool> {
    let test = |tag: &str, holds: &dyn Fn(&str) -> bool| match (row.tags.get(tag), rules) {
        (Some(value), _) => Some(holds(value)),
        (None, Rules::Influx) => Some(holds("")),
        (None, Rules::Postgres) => None,
    };
    let text = |literal: &Literal| match value_of(literal) {
        Val::Text(text) => text,
        Val::Int(value) => value.to_string(),
        other => panic!("{other:?}"),
    };
    match expr {
        TagExpr::All => Some(true),
        TagExpr::OneOf(tag, values) => test(tag, &|own| values.iter().any(|it| text(it) == own)),
        TagExpr::Range(tag, first, last) => {
            let is_integer = |bound: &Option<Literal>| {
                bound
                    .as_ref()
                    .is_some_and(|it| matches!(value_of(it), Val::Int(_)))
            };
            if is_integer(first) || is_integer(last) {
                let bound = |bound: &Option<Literal>, open: i64| match bound.as_ref().map(value_of)
                {
                    Some(Val::Int(value)) => value,
                    _ => open,
                };
                let (low, high) = (bound(first, i64::MIN), bound(last, i64::MAX));
                return test(tag, &|own| {
                    let number = own.parse::<i64>().ok().filter(|it| it.to_string() == own);
                    number.is_some_and(|number| low <= number && number <= high)
                });
            }
            test(tag, &|own| {
                first.as_ref().is_none_or(|it| text(it).as_str() <= own)
                    && last.as_ref().is_none_or(|it| own <= text(it).as_str())
            })
        }
        // The patterns of the test are plain letters, at the start.
        TagExpr::Matches(tag, pattern) => {
            let pattern = text(pattern);
            let letters = pattern.strip_prefix('^').unwrap();
            test(tag, &|own| own.starts_with(letters))
        }
        TagExpr::Absent(tag) => Some(!row.tags.contains_key(tag)),
        TagExpr::And(all) => all.iter().fold(Some(true), |truth, it| {
            match (truth, tags_hold(it, row, rules)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            }
        }),
        TagExpr::Or(all) => all.iter().fold(Some(false), |truth, it| {
            match (truth, tags_hold(it, row, rules)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            }
        }),
        TagExpr::Not(inner) => tags_hold(inner, row, rules).map(|truth| !truth),
    }
}

/// A key that sorts as groups are sorted.
type GroupKey = Vec<(u8, Option<String>)>;

fn tag_keys<'a>(row: &Row, tags: impl Iterator<Item = &'a String>, rules: Rules) -> GroupKey {
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

fn bucket_start(shape: &Shape, time: i64) -> i64 {
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

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days from 1970 to the first of a month, counted one year and one month after another.
fn days_before(year: i64, month: i64) -> i64 {
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

fn year_and_month(time: i64) -> (i64, i64) {
    let day = time.div_euclid(86_400_000_000_000);
    let mut year = 1970 + day.div_euclid(366) - 1;
    while days_before(year + 1, 0) <= day {
        year += 1;
    }
    let month = (0..12).rev().find(|month| days_before(year, *month) <= day);
    (year, month.unwrap())
}

/// Sum of floats, and how far another order of adding may be off.
fn sum_floats(values: &[f64]) -> (f64, f64) {
    let magnitude: f64 = values.iter().map(|value| value.abs()).sum();
    // The sum of no more than -0.0 is 0.0: it is added to nothing, which is 0.0.
    let sum = values.iter().fold(0.0, |sum, value| sum + value);
    (sum, 1e-12 * magnitude)
}

fn aggregate(aggregate: &Aggregate, rows: &[&Row], rules: Rules) -> Result<Cell> {
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
        } => {
            let all = sorted(of)?;
            if all.is_empty() {
                return Ok(exact(Val::Null));
            }
            let mut counts = vec![0; *buckets as usize + 2];
            for value in all.iter().filter_map(float) {
                let width = high - low;
                let place = if value < *low {
                    0
                } else if value < *high {
                    let share = (value - low) / width;
                    1 + ((f64::from(*buckets) * share).floor() as usize).min(*buckets as usize - 1)
                } else {
                    *buckets as usize + 1
                };
                counts[place] += 1;
            }
            exact(Val::Counts(counts))
        }
    })
}

fn fit(value: i128, is_unsigned: bool, rules: Rules) -> Result<Val> {
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

fn sum(all: &[Val], rules: Rules) -> Result<Cell> {
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
fn stddev(all: &[Val]) -> Cell {
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

fn percentile(all: &[Val], percent: f64, kind: Percentile) -> Cell {
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

fn mode(values: &[(Val, usize)], rows: &[&Row], rules: Rules) -> Cell {
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
fn place(row: &Row, at: usize) -> (i64, usize) {
    (row.time, at)
}

fn select(
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

/// The source of rows of nested answers.
const NESTED: usize = usize::MAX;

fn window(limit: Option<&Limit>) -> (usize, usize) {
    let number = |literal: &Literal| match value_of(literal) {
        Val::Int(value) => usize::try_from(value).unwrap(),
        other => panic!("{other:?}"),
    };
    limit.map_or((0, usize::MAX), |limit| {
        (number(&limit.skip), number(&limit.rows))
    })
}

/// Limits of rows that are in order.
fn limited<T>(rows: Vec<(GroupKey, T)>, shape: &Shape) -> Vec<T> {
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

impl Tables {
    /// Answers a question.
    pub(crate) fn answer(&self, shape: &Shape) -> Result<Answer> {
        let rules = shape.rules;
        let mut rows = self.source(shape)?;
        let time = |bound: &Option<Literal>, open: i64| match bound.as_ref().map(value_of) {
            Some(Val::Time(time) | Val::Int(time)) => time,
            _ => open,
        };
        let from = time(&shape.time.from, i64::MIN);
        let to = time(&shape.time.to, i64::MAX);
        rows.retain(|row| from <= row.time && row.time < to);
        rows.retain(|row| tags_hold(&shape.tags, row, rules) == Some(true));
        if let Some(condition) = &shape.rows {
            let mut kept = Vec::new();
            for row in rows {
                if eval(condition, &row, rules, &|_| None)? == Val::Bool(true) {
                    kept.push(row);
                }
            }
            rows = kept;
        }
        if shape.is_aggregate() {
            self.groups(shape, &rows)
        } else {
            self.rows(shape, rows)
        }
    }

    fn source(&self, shape: &Shape) -> Result<Vec<Row>> {
        match &shape.source {
            Source::Tables(names) => {
                let mut all = Vec::new();
                for (source, name) in names.iter().enumerate() {
                    let (tags, rows) = &self.tables[&name.table];
                    let mut rows: Vec<Row> = rows.clone();
                    rows.iter_mut().for_each(|row| row.source = source);
                    let rules = shape.rules;
                    rows.sort_by_key(|row| {
                        (row.time, tag_keys(row, tags.iter(), rules), row.written)
                    });
                    all.extend(rows);
                }
                // Stable: of one time, by source, then as they are.
                all.sort_by_key(|row| row.time);
                Ok(all)
            }
            Source::Nested(nested) => {
                let mut rows = self.answer(nested)?.nested;
                rows.sort_by_key(|row| row.time);
                Ok(rows)
            }
        }
    }

    fn rows(&self, shape: &Shape, rows: Vec<Row>) -> Result<Answer> {
        let rules = shape.rules;
        let mut groups: BTreeMap<GroupKey, Vec<Row>> = BTreeMap::new();
        for row in rows {
            let key = tag_keys(&row, shape.group.iter(), rules);
            groups.entry(key).or_default().push(row);
        }
        let mut made: Vec<(GroupKey, (Row, Vec<Val>))> = Vec::new();
        for (group, rows) in &groups {
            for (at, row) in rows.iter().enumerate() {
                let known = |expr: &Expr| match expr {
                    Expr::Neighbour(which, of) => {
                        let other = match which {
                            Transform::Previous => at.checked_sub(1),
                            Transform::Next => Some(at + 1),
                        };
                        let other = other.and_then(|at| rows.get(at));
                        Some(other.map_or(Val::Null, |other| {
                            eval(of, other, rules, &|_| None).unwrap()
                        }))
                    }
                    _ => None,
                };
                let columns = shape.columns.iter();
                let values = columns.map(|column| eval(&column.expr, row, rules, &known));
                let values = values.collect::<Result<Vec<Val>>>()?;
                made.push((group.clone(), (row.clone(), values)));
            }
        }
        let descending = shape.order.descending;
        if descending {
            // Within a group everything is turned around.
            let mut turned = Vec::new();
            for part in made.chunk_by(|a, b| a.0 == b.0) {
                turned.extend(part.iter().rev().cloned());
            }
            made = turned;
        }
        if shape.order.by == OrderBy::Time {
            made.sort_by(|a, b| {
                let order = a.1.0.time.cmp(&b.1.0.time);
                if descending { order.reverse() } else { order }
            });
        }
        let kept = limited(made, shape);
        let mut answer = Answer {
            rows: Vec::new(),
            nested: Vec::new(),
        };
        for (place, (row, values)) in kept.into_iter().enumerate() {
            let values: Vec<Cell> = values.into_iter().map(exact).collect();
            answer.push(shape, &row.tags, row.time, values, place);
        }
        Ok(answer)
    }

    fn groups(&self, shape: &Shape, rows: &[Row]) -> Result<Answer> {
        let rules = shape.rules;
        let only = match shape.time.from.as_ref().map(value_of) {
            Some(Val::Time(time) | Val::Int(time)) => time,
            _ => 0,
        };
        let mut groups: BTreeMap<GroupKey, BTreeMap<i64, Vec<&Row>>> = BTreeMap::new();
        for row in rows {
            let start = match &shape.bucket {
                Some(_) => bucket_start(shape, row.time),
                None => only,
            };
            let key = tag_keys(row, shape.group.iter(), rules);
            groups
                .entry(key)
                .or_default()
                .entry(start)
                .or_default()
                .push(row);
        }
        let is_one = shape.group.is_empty() && shape.bucket.is_none();
        if is_one && rules == Rules::Postgres && groups.is_empty() {
            groups
                .entry(Vec::new())
                .or_default()
                .insert(only, Vec::new());
        }
        let aggregates = aggregates_of(shape);
        let mut made: Vec<(GroupKey, (i64, Vec<Cell>))> = Vec::new();
        for (group, buckets) in groups {
            for (start, rows) in buckets {
                let values = aggregates.iter().map(|it| aggregate(it, &rows, rules));
                made.push((group.clone(), (start, values.collect::<Result<_>>()?)));
            }
        }
        let mut made = filled(made, shape);
        let order = shape.order;
        made.sort_by(|a, b| {
            let by_time = a.1.0.cmp(&b.1.0);
            let by_time = if order.descending {
                by_time.reverse()
            } else {
                by_time
            };
            match order.by {
                OrderBy::Time => by_time.then_with(|| a.0.cmp(&b.0)),
                _ => a.0.cmp(&b.0).then(by_time),
            }
        });
        let with_group = made
            .into_iter()
            .map(|(group, rest)| (group.clone(), (group, rest)));
        let kept = limited(with_group.collect(), shape);
        let mut answer = Answer {
            rows: Vec::new(),
            nested: Vec::new(),
        };
        for (place, (group, (start, cells))) in kept.into_iter().enumerate() {
            let pairs = shape.group.iter().zip(group);
            let tags = pairs.filter_map(|(tag, (_, value))| Some((tag.clone(), value?)));
            let tags: BTreeMap<String, String> = tags.collect();
            let row = Row {
                time: start,
                tags: tags.clone(),
                fields: BTreeMap::new(),
                source: 0,
                written: 0,
            };
            let known = |expr: &Expr| match expr {
                Expr::Aggregate(wanted) => {
                    let at = aggregates.iter().position(|it| it == wanted.as_ref())?;
                    Some(cells[at].value.clone())
                }
                _ => None,
            };
            let mut values = Vec::new();
            for column in &shape.columns {
                let value = eval(&column.expr, &row, rules, &known)?;
                let off = match &column.expr {
                    Expr::Aggregate(wanted) => {
                        let at = aggregates.iter().position(|it| it == wanted.as_ref());
                        cells[at.unwrap()].off
                    }
                    _ => 0.0,
                };
                values.push(Cell { value, off });
            }
            answer.push(shape, &tags, start, values, place);
        }
        Ok(answer)
    }
}

fn aggregates_of(shape: &Shape) -> Vec<Aggregate> {
    fn collect(expr: &Expr, found: &mut Vec<Aggregate>) {
        match expr {
            Expr::Aggregate(aggregate) if !found.contains(aggregate) => {
                found.push((**aggregate).clone());
            }
            Expr::Unary(_, of) | Expr::Neighbour(_, of) => collect(of, found),
            Expr::Binary(_, left, right) => {
                collect(left, found);
                collect(right, found);
            }
            Expr::Call(_, operands) => operands.iter().for_each(|of| collect(of, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    shape
        .columns
        .iter()
        .for_each(|column| collect(&column.expr, &mut found));
    found
}

type Made = Vec<(GroupKey, (i64, Vec<Cell>))>;

fn filled(made: Made, shape: &Shape) -> Made {
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
                    .map(|at| fill_cell(shape, start, at, before, after))
                    .collect(),
            };
            whole.push((group[0].0.clone(), (start, cells)));
            start += width;
        }
    }
    whole
}

type MadeRow = (GroupKey, (i64, Vec<Cell>));

fn fill_cell(
    shape: &Shape,
    start: i64,
    at: usize,
    before: Option<&MadeRow>,
    after: Option<&MadeRow>,
) -> Cell {
    match &shape.fill {
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

impl Answer {
    fn push(
        &mut self,
        shape: &Shape,
        tags: &BTreeMap<String, String>,
        time: i64,
        values: Vec<Cell>,
        place: usize,
    ) {
        let mut cells = Vec::new();
        if shape.shows_time() {
            cells.push(exact(Val::Time(time)));
        }
        let own = |tag: &String| match tags.get(tag) {
            Some(value) => exact(Val::Text(value.clone())),
            None => exact(Val::Null),
        };
        cells.extend(shape.group.iter().map(own));
        // Tags leave as they are: absent is null, whatever an expression makes of it.
        let columns = shape.columns.iter().zip(&values);
        cells.extend(columns.map(|(column, cell)| match &column.expr {
            Expr::Tag(tag) => own(tag),
            _ => cell.clone(),
        }));
        self.rows.push(cells);
        let names = shape.columns.iter().map(|column| column.name.clone());
        let kept = tags.iter().filter(|(tag, _)| shape.group.contains(tag));
        self.nested.push(Row {
            time,
            tags: kept
                .map(|(tag, value)| (tag.clone(), value.clone()))
                .collect(),
            fields: names
                .zip(values.into_iter().map(|cell| cell.value))
                .collect(),
            source: NESTED,
            written: place,
        });
    }
}
