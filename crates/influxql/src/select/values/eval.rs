//! Expressions over the columns of a row.

use nilometer_influxql_syntax::ast::{Expr, Operator, Reference};
use regex::Regex;

use crate::select::checked::fold::literal;
use crate::select::error::Error;
use crate::select::functions::{is_math, math};
use crate::select::planned::names::pattern;
use crate::select::values::value::{Division, Value, operate};

/// An expression whose names are places of columns.
#[derive(Debug)]
pub(crate) enum Node {
    Column(usize),
    Literal(Value),
    Operation(Operator, Box<Node>, Box<Node>),
    Matches(Box<Node>, Box<Regex>, bool),
    Math(String, Vec<Node>),
}

/// Finds the column of a reference or of a call.
pub(crate) type Place<'a> = &'a dyn Fn(Named<'_>) -> Option<usize>;

/// What has a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Named<'a> {
    Reference(&'a Reference),
    Call(&'a Expr),
}

impl Node {
    pub(crate) fn of(expr: &Expr, place: Place<'_>) -> Result<Self, Error> {
        let column = |named| place(named).map_or(Self::Literal(Value::Null), Self::Column);
        Ok(match expr {
            Expr::Reference(reference) => column(Named::Reference(reference)),
            Expr::Call(call) if is_math(&call.name) => {
                let operands = call
                    .arguments
                    .iter()
                    .map(|argument| Self::of(argument, place));
                Self::Math(call.name.clone(), operands.collect::<Result<_, _>>()?)
            }
            Expr::Call(_) => column(Named::Call(expr)),
            Expr::Binary(operator @ (Operator::Match | Operator::NotMatch), left, right) => {
                let Expr::Regex(wanted) = right.inner() else {
                    return Ok(Self::Literal(Value::Boolean(false)));
                };
                let wanted = Box::new(pattern(wanted)?);
                Self::Matches(
                    Box::new(Self::of(left, place)?),
                    wanted,
                    *operator == Operator::Match,
                )
            }
            Expr::Binary(operator, left, right) => {
                let (left, right) = (Self::of(left, place)?, Self::of(right, place)?);
                Self::Operation(*operator, Box::new(left), Box::new(right))
            }
            Expr::Paren(inner) => Self::of(inner, place)?,
            other => Self::Literal(literal(other).unwrap_or(Value::Null)),
        })
    }

    pub(crate) fn value(&self, row: &dyn Fn(usize) -> Value, division: Division) -> Value {
        match self {
            Self::Column(place) => row(*place),
            Self::Literal(value) => value.clone(),
            Self::Operation(operator, left, right) => operate(
                *operator,
                &left.value(row, division),
                &right.value(row, division),
                division,
            ),
            Self::Matches(of, wanted, positive) => match of.value(row, division) {
                Value::Text(text) => Value::Boolean(wanted.is_match(&text) == *positive),
                _ => Value::Boolean(false),
            },
            Self::Math(name, operands) => {
                let operands: Vec<Value> = operands
                    .iter()
                    .map(|operand| operand.value(row, division))
                    .collect();
                math(name, &operands)
            }
        }
    }

    /// Whether a condition holds.
    pub(crate) fn holds(&self, row: &dyn Fn(usize) -> Value) -> bool {
        self.value(row, Division::Integer) == Value::Boolean(true)
    }
}
