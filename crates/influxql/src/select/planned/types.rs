//! Types of expressions whose names have their types as casts.

use nilometer_influxql_syntax::ast::{Cast, Expr, Operator};

use crate::select::error::Error;
use crate::select::functions::{is_math, is_technical};
use crate::select::values::value::{Division, Kind, Value, operate};

pub(crate) fn cast_of(kind: Kind) -> Cast {
    match kind {
        Kind::Float => Cast::Float,
        Kind::Integer => Cast::Integer,
        Kind::Unsigned => Cast::Unsigned,
        Kind::Text => Cast::Text,
        Kind::Boolean => Cast::Boolean,
        Kind::Tag => Cast::Tag,
    }
}

/// The type that a cast says; `None` = of nothing that there is.
pub(crate) fn kind_of_cast(cast: Option<Cast>) -> Option<Kind> {
    match cast? {
        Cast::Float => Some(Kind::Float),
        Cast::Integer => Some(Kind::Integer),
        Cast::Unsigned => Some(Kind::Unsigned),
        Cast::Text => Some(Kind::Text),
        Cast::Boolean => Some(Kind::Boolean),
        Cast::Tag => Some(Kind::Tag),
        Cast::Field => None,
    }
}

/// The type of a typed expression, as far as it is known.
pub(crate) fn kind_of(expr: &Expr) -> Option<Kind> {
    match expr {
        Expr::Reference(reference) => kind_of_cast(reference.cast),
        Expr::Call(call) => {
            let argument = call.arguments.first().and_then(kind_of);
            match call.name.as_str() {
                "count" | "elapsed" => Some(Kind::Integer),
                "sum_hll" => Some(Kind::Text),
                "count_hll" => Some(Kind::Unsigned),
                "mean"
                | "median"
                | "stddev"
                | "integral"
                | "derivative"
                | "non_negative_derivative"
                | "moving_average"
                | "holt_winters"
                | "holt_winters_with_fit" => Some(Kind::Float),
                "abs" | "floor" | "ceil" | "round" => argument,
                name if is_math(name) || is_technical(name) => Some(Kind::Float),
                _ => argument,
            }
        }
        Expr::Float(_) => Some(Kind::Float),
        Expr::Integer(_) => Some(Kind::Integer),
        Expr::Unsigned(_) => Some(Kind::Unsigned),
        Expr::Boolean(_) => Some(Kind::Boolean),
        Expr::Text(_) => Some(Kind::Text),
        Expr::Paren(inner) => kind_of(inner),
        Expr::Binary(operator, left, right) => {
            let (left, right) = (kind_of(left), kind_of(right));
            if *operator == Operator::Div
                && left == Some(Kind::Integer)
                && right == Some(Kind::Integer)
            {
                return Some(Kind::Float);
            }
            match (left, right) {
                (Some(left), Some(right)) => Some(left.min(right)),
                (one, two) => one.or(two),
            }
        }
        _ => None,
    }
}

/// Refuses operators and functions of mathematics on types that they do not know.
pub(crate) fn check_types(expr: &Expr) -> Result<(), Error> {
    match expr {
        Expr::Paren(inner) => check_types(inner),
        Expr::Call(call) => {
            call.arguments.iter().try_for_each(check_types)?;
            let kind = call.arguments.first().and_then(kind_of);
            let takes = match call.name.as_str() {
                "asin" | "acos" => kind.is_none_or(|kind| kind == Kind::Float),
                name if is_math(name) => kind.is_none_or(Kind::is_number),
                _ => true,
            };
            match kind {
                Some(kind) if !takes => Err(Error::refused(format!(
                    "invalid argument type for the first argument in {}(): {}",
                    call.name,
                    kind.name()
                ))),
                _ => Ok(()),
            }
        }
        Expr::Binary(operator, left, right) => {
            check_types(left)?;
            check_types(right)?;
            let (Some(one), Some(two)) = (kind_of(left), kind_of(right)) else {
                return Ok(());
            };
            // Zero would divide by zero, which is zero.
            if operate(*operator, &zero(one), &zero(two), Division::Integer).is_null() {
                return Err(Error::refused(format!(
                    "type error: {expr}: incompatible types: {} and {}",
                    one.name(),
                    two.name()
                )));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn zero(kind: Kind) -> Value {
    match kind {
        Kind::Float => Value::Float(0.0),
        Kind::Integer => Value::Integer(0),
        Kind::Unsigned => Value::Unsigned(0),
        Kind::Boolean => Value::Boolean(false),
        Kind::Text => Value::Text("".into()),
        Kind::Tag => Value::Null,
    }
}
