//! Constants in expressions, calculated before anything is read.

use nilometer_influxql_syntax::ast::{Call, Expr, Operator};

use crate::select::values::value::{Division, Value, operate};

/// The expression with its constants calculated; integers divide to floats.
pub(crate) fn folded(expr: &Expr) -> Expr {
    match expr {
        Expr::Binary(operator, left, right) => {
            let (left, right) = (folded(left), folded(right));
            constant(*operator, &left, &right)
                .unwrap_or_else(|| Expr::Binary(*operator, Box::new(left), Box::new(right)))
        }
        Expr::Paren(inner) => match folded(inner) {
            inner @ Expr::Binary(..) => Expr::Paren(Box::new(inner)),
            inner => inner,
        },
        Expr::Call(call) => Expr::Call(Call {
            name: call.name.clone(),
            arguments: call.arguments.iter().map(folded).collect(),
        }),
        other => other.clone(),
    }
}

pub(crate) fn is_literal(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Float(_)
            | Expr::Integer(_)
            | Expr::Unsigned(_)
            | Expr::Boolean(_)
            | Expr::Text(_)
            | Expr::Duration(_)
            | Expr::Regex(_)
    )
}

/// The value of a literal.
pub(crate) fn literal(expr: &Expr) -> Option<Value> {
    Some(match expr {
        Expr::Float(value) => Value::Float(*value),
        Expr::Integer(value) => Value::Integer(*value),
        Expr::Unsigned(value) => Value::Unsigned(*value),
        Expr::Boolean(value) => Value::Boolean(*value),
        Expr::Text(text) => Value::Text(text.as_str().into()),
        _ => return None,
    })
}

fn constant(operator: Operator, left: &Expr, right: &Expr) -> Option<Expr> {
    if let Some(folded) = logical(operator, left, right) {
        return Some(folded);
    }
    if let (Expr::Duration(left), right) = (left, right) {
        return duration(operator, *left, right);
    }
    match operate(operator, &literal(left)?, &literal(right)?, Division::Float) {
        Value::Float(value) => Some(Expr::Float(value)),
        Value::Integer(value) => Some(Expr::Integer(value)),
        Value::Unsigned(value) => Some(Expr::Unsigned(value)),
        Value::Boolean(value) => Some(Expr::Boolean(value)),
        Value::Text(_) | Value::Null => None,
    }
}

/// `true AND x` is x.
fn logical(operator: Operator, left: &Expr, right: &Expr) -> Option<Expr> {
    let (known, other) = match (left, right) {
        (Expr::Boolean(known), other) | (other, Expr::Boolean(known)) => (*known, other),
        _ => return None,
    };
    match (operator, known) {
        (Operator::And, true) | (Operator::Or, false) => Some(other.clone()),
        (Operator::And, false) => Some(Expr::Boolean(false)),
        (Operator::Or, true) => Some(Expr::Boolean(true)),
        _ => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "Go converts durations in the same way"
)]
fn duration(operator: Operator, left: i64, right: &Expr) -> Option<Expr> {
    Some(match (operator, right) {
        (Operator::Add, Expr::Duration(right)) => Expr::Duration(left.wrapping_add(*right)),
        (Operator::Sub, Expr::Duration(right)) => Expr::Duration(left.wrapping_sub(*right)),
        (Operator::Mul, Expr::Integer(right)) => Expr::Duration(left.wrapping_mul(*right)),
        (Operator::Mul, Expr::Float(right)) => Expr::Duration((left as f64 * right) as i64),
        (Operator::Div, Expr::Integer(0)) => Expr::Duration(0),
        (Operator::Div, Expr::Integer(right)) => Expr::Duration(left.wrapping_div(*right)),
        _ => return None,
    })
}
