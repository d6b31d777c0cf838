//! Calculations and conditions of InfluxQL as expressions of the series' engine.
//!
//! Does: translate what means the same in both, given what each name and call stands for. Does not: look at values; what has
//! no such expression is worked out value by value (`values::eval`).

use nilometer_influxql_syntax::ast::{Expr, Operator, Reference};
use nilometer_series::{self as series, Binary, Function};

use crate::select::checked::fold::literal;
use crate::select::functions::is_math;
use crate::select::planned::names::field_kind;
use crate::select::planned::plan::Table;
use crate::select::planned::pushed::{is_flat, is_tag};
use crate::select::planned::types::kind_of_cast;
use crate::select::steps::read::stored;
use crate::select::values::value::{Kind, Value};

/// What stands for a column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Named<'a> {
    Reference(&'a Reference),
    /// By its text.
    Call(&'a str),
}

/// An expression of the series' engine, with its type.
pub(crate) type Typed = (series::Expr, Kind);

/// Finds the expression of a name or of a call.
pub(crate) type Find<'a> = &'a dyn Fn(Named<'_>) -> Option<Typed>;

impl Named<'_> {
    /// The call of this text.
    pub(crate) fn among(self, calls: &[(&str, Typed)]) -> Option<Typed> {
        let Self::Call(text) = self else {
            return None;
        };
        let (_, found) = calls.iter().find(|(known, _)| *known == text)?;
        Some(found.clone())
    }
}

/// A calculation with floats and integers. It is null where one of its operands is.
pub(crate) fn number(expr: &Expr, find: Find<'_>) -> Option<Typed> {
    calculated(expr, find).filter(|(expr, _)| is_flat(expr))
}

fn calculated(expr: &Expr, find: Find<'_>) -> Option<Typed> {
    match expr {
        Expr::Paren(inner) => calculated(inner, find),
        Expr::Reference(reference) => find(Named::Reference(reference)),
        Expr::Binary(operator, left, right) => {
            let operands = (calculated(left, find)?, calculated(right, find)?);
            operation(*operator, operands)
        }
        Expr::Call(call) if is_math(&call.name) => {
            let [argument] = call.arguments.as_slice() else {
                return None;
            };
            let (of, own) = calculated(argument, find)?;
            let (function, kind) = match call.name.as_str() {
                "floor" => (Function::Floor, own),
                "ceil" => (Function::Ceil, own),
                "abs" => (Function::Abs, own),
                "sqrt" => (Function::Sqrt, Kind::Float),
                _ => return None,
            };
            Some((series::Expr::Call(function, vec![of]), kind))
        }
        Expr::Call(call) => find(Named::Call(&call.to_string())),
        other => match literal(other)? {
            Value::Float(value) => Some((series::Expr::literal(value), Kind::Float)),
            Value::Integer(value) => Some((series::Expr::literal(value), Kind::Integer)),
            _ => None,
        },
    }
}

fn operation(operator: Operator, ((left, one), (right, two)): (Typed, Typed)) -> Option<Typed> {
    let operator = match operator {
        Operator::Add => Binary::Add,
        Operator::Sub => Binary::Subtract,
        Operator::Mul => Binary::Multiply,
        Operator::Div => Binary::Divide,
        // The rest of a division by zero is NaN among fields there, and zero in a series query.
        _ => return None,
    };
    // Integers divide to floats.
    let kind = if operator == Binary::Divide {
        Kind::Float
    } else {
        one.min(two)
    };
    Some((series::Expr::binary(operator, left, right), kind))
}

/// A condition on rows of a query inside: numbers that are compared, and tags with texts. Where a number is absent it does not
/// hold, and there is nothing that denies one.
pub(crate) fn holds(
    condition: &Expr,
    find: Find<'_>,
    tag: &dyn Fn(&Reference) -> Option<series::Expr>,
) -> Option<series::Expr> {
    compared(condition, find, tag).filter(is_flat)
}

fn compared(
    condition: &Expr,
    find: Find<'_>,
    tag: &dyn Fn(&Reference) -> Option<series::Expr>,
) -> Option<series::Expr> {
    match condition {
        Expr::Paren(inner) => compared(inner, find, tag),
        Expr::Binary(operator @ (Operator::And | Operator::Or), left, right) => {
            let both = if *operator == Operator::And {
                Binary::And
            } else {
                Binary::Or
            };
            let (left, right) = (compared(left, find, tag)?, compared(right, find, tag)?);
            Some(series::Expr::binary(both, left, right))
        }
        Expr::Binary(operator, left, right) => {
            let operator = match operator {
                Operator::Eq => Binary::Equal,
                Operator::NotEq => Binary::NotEqual,
                Operator::Lt => Binary::Less,
                Operator::LtEq => Binary::LessOrEqual,
                Operator::Gt => Binary::Greater,
                Operator::GtEq => Binary::GreaterOrEqual,
                _ => return None,
            };
            let is_equality = matches!(operator, Binary::Equal | Binary::NotEqual);
            let (left, right) = match (left.inner(), right.inner()) {
                (Expr::Reference(name), Expr::Text(text)) if is_equality => {
                    let text = series::Value::Text(text.as_str().into());
                    (tag(name)?, series::Expr::literal(text))
                }
                (left, right) => {
                    let (left, right) = (left, right);
                    if divides(left) || divides(right) {
                        return None;
                    }
                    (calculated(left, find)?.0, calculated(right, find)?.0)
                }
            };
            Some(series::Expr::binary(operator, left, right))
        }
        _ => None,
    }
}

/// Integers divide to integers in conditions, and to floats in a series query.
fn divides(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |expr| found |= matches!(expr, Expr::Binary(Operator::Div, ..)));
    found
}

/// A field that is a number of one type in all tables of the measurement.
pub(crate) fn field(reference: &Reference, table: &Table) -> Option<Typed> {
    let is_number = |kind: Kind| matches!(kind, Kind::Float | Kind::Integer);
    let kind = kind_of_cast(reference.cast).filter(|kind| is_number(*kind))?;
    if is_tag(reference, table) {
        return None;
    }
    let kinds = table
        .schemas
        .iter()
        .map(|schema| field_kind(schema, &reference.name));
    let mut kinds = kinds.collect::<Option<Vec<Kind>>>()?;
    kinds.dedup();
    match kinds.as_slice() {
        [own] if is_number(*own) => Some((stored(reference, table)?, kind)),
        _ => None,
    }
}
