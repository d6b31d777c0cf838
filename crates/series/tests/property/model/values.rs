//! Values of the model, and expressions over its rows.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use nilometer_series::{Binary, Expr, Function, Literal, Rules, TagExpr, Unary, Value};

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

/// A value of an answer, and how far a float may be off.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) value: Val,
    pub(crate) off: f64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) &'static str);

pub(crate) type Result<T> = std::result::Result<T, Refused>;

pub(crate) fn exact(value: Val) -> Cell {
    Cell { value, off: 0.0 }
}

pub(crate) fn value_of(literal: &Literal) -> Val {
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

pub(crate) fn whole(value: &Val) -> Option<i128> {
    Some(match value {
        Val::Int(it) | Val::Time(it) => i128::from(*it),
        Val::Uint(it) => i128::from(*it),
        _ => return None,
    })
}

pub(crate) fn float(value: &Val) -> Option<f64> {
    Some(match value {
        Val::Int(it) => *it as f64,
        Val::Uint(it) => *it as f64,
        Val::Float(it) => *it,
        _ => return None,
    })
}

pub(crate) fn compare(operator: Binary, one: &Val, other: &Val, rules: Rules) -> Val {
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

pub(crate) fn calculate(operator: Binary, one: &Val, other: &Val, rules: Rules) -> Result<Val> {
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

pub(crate) fn of_floats(operator: Binary, a: f64, b: f64, rules: Rules) -> Result<f64> {
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
pub(crate) fn eval(
    expr: &Expr,
    row: &Row,
    rules: Rules,
    known: &dyn Fn(&Expr) -> Option<Val>,
) -> Result<Val> {
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
            (Function::NullIfNan, Val::Float(value)) if value.is_nan() => Val::Null,
            (Function::Floor | Function::Ceil | Function::NullIfNan, value) => value,
            other => panic!("{other:?}"),
        },
        Expr::Aggregate(_) | Expr::Neighbour(..) => panic!("{expr} is not known"),
    })
}

pub(crate) fn tags_hold(expr: &TagExpr, row: &Row, rules: Rules) -> Option<bool> {
    let compared = |tag: &str, holds: &dyn Fn(&str) -> bool| match (row.tags.get(tag), rules) {
        (Some(value), _) => Some(holds(value)),
        (None, Rules::Influx) => Some(holds("")),
        (None, Rules::Postgres) => None,
    };
    let shown = |literal: &Literal| match value_of(literal) {
        Val::Text(text) => text,
        Val::Int(value) => value.to_string(),
        other => panic!("{other:?}"),
    };
    match expr {
        TagExpr::All => Some(true),
        TagExpr::OneOf(tag, values) => {
            compared(tag, &|own| values.iter().any(|it| shown(it) == own))
        }
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
                return compared(tag, &|own| {
                    let number = own.parse::<i64>().ok().filter(|it| it.to_string() == own);
                    number.is_some_and(|number| low <= number && number <= high)
                });
            }
            compared(tag, &|own| {
                first.as_ref().is_none_or(|it| shown(it).as_str() <= own)
                    && last.as_ref().is_none_or(|it| own <= shown(it).as_str())
            })
        }
        // The patterns of the test are plain letters, at the start.
        TagExpr::Matches(tag, pattern) => {
            let pattern = shown(pattern);
            let letters = pattern.strip_prefix('^').unwrap();
            compared(tag, &|own| own.starts_with(letters))
        }
        TagExpr::Absent(tag) => Some(!row.tags.contains_key(tag)),
        // False if one is false, else unknown if one is; the other way around for `or`.
        TagExpr::And(all) | TagExpr::Or(all) => {
            let decides = matches!(expr, TagExpr::Or(_));
            let mut truth = Some(!decides);
            for part in all {
                match tags_hold(part, row, rules) {
                    Some(it) if it == decides => return Some(decides),
                    Some(_) => {}
                    None => truth = None,
                }
            }
            truth
        }
        TagExpr::Not(inner) => tags_hold(inner, row, rules).map(|truth| !truth),
    }
}
