//! Conditions that a relation answers itself, row by row or by a key.
//!
//! Does: take comparisons of a column with values, and with NULL, over from the planner, for values that are shown as they are
//! stored. Does not: ranges, floats (whose NaN the planner compares otherwise), or anything that can fail.

use std::fmt;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use nilometer_engine::{RelationSchema, Value};

/// What a row must meet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Condition {
    /// The column at a place has one of some values, each of which is there once.
    OneOf(usize, Vec<Value>),
    /// It has none.
    Null(usize),
    /// It has one.
    NotNull(usize),
}

impl Condition {
    /// The condition that an expression is; `None` = the planner's.
    pub(crate) fn of(schema: &RelationSchema, expr: &Expr) -> Option<Self> {
        match expr {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::Eq,
                right,
            }) => {
                let ((Expr::Column(column), Expr::Literal(literal, _))
                | (Expr::Literal(literal, _), Expr::Column(column))) =
                    (left.as_ref(), right.as_ref())
                else {
                    return None;
                };
                let at = place(schema, &column.name)?;
                Some(Self::OneOf(at, vec![value(schema, at, literal)?]))
            }
            // Short lists are spelled out.
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::Or,
                right,
            }) => match (Self::of(schema, left)?, Self::of(schema, right)?) {
                (Self::OneOf(at, mut one), Self::OneOf(other, more)) if at == other => {
                    for value in more {
                        if !one.contains(&value) {
                            one.push(value);
                        }
                    }
                    Some(Self::OneOf(at, one))
                }
                _ => None,
            },
            Expr::InList(list) if !list.negated => {
                let Expr::Column(column) = list.expr.as_ref() else {
                    return None;
                };
                let at = place(schema, &column.name)?;
                let mut values: Vec<Value> = Vec::with_capacity(list.list.len());
                for item in &list.list {
                    let Expr::Literal(literal, _) = item else {
                        return None;
                    };
                    let value = value(schema, at, literal)?;
                    if !values.contains(&value) {
                        values.push(value);
                    }
                }
                Some(Self::OneOf(at, values))
            }
            Expr::IsNull(inner) => match inner.as_ref() {
                Expr::Column(column) => Some(Self::Null(place(schema, &column.name)?)),
                _ => None,
            },
            Expr::IsNotNull(inner) => match inner.as_ref() {
                Expr::Column(column) => Some(Self::NotNull(place(schema, &column.name)?)),
                _ => None,
            },
            // IS NULL of a column that is never NULL, once the planner knows that.
            Expr::Literal(ScalarValue::Boolean(Some(false) | None), _) => {
                Some(Self::OneOf(0, Vec::new()))
            }
            _ => None,
        }
    }

    /// Whether a row meets it. No value is equal to NULL.
    pub(super) fn holds(&self, row: &[Value]) -> bool {
        match self {
            Self::OneOf(at, values) => row.get(*at).is_some_and(|value| values.contains(value)),
            Self::Null(at) => matches!(row.get(*at), None | Some(Value::Null)),
            Self::NotNull(at) => !Self::Null(*at).holds(row),
        }
    }

    /// The values that a column has one of.
    pub(super) fn values_of(&self, column: usize) -> Option<&[Value]> {
        match self {
            Self::OneOf(at, values) if *at == column => Some(values),
            _ => None,
        }
    }

    /// As EXPLAIN shows it.
    pub(super) fn shown<'a>(&'a self, schema: &'a RelationSchema) -> impl fmt::Display + 'a {
        fmt::from_fn(move |f| {
            let name = |at: &usize| schema.columns.get(*at).map_or("?", |of| of.name.as_str());
            match self {
                Self::OneOf(at, values) => {
                    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                    write!(f, "{} in ({})", name(at), values.join(", "))
                }
                Self::Null(at) => write!(f, "{} is null", name(at)),
                Self::NotNull(at) => write!(f, "{} is not null", name(at)),
            }
        })
    }
}

fn place(schema: &RelationSchema, name: &str) -> Option<usize> {
    schema.columns.iter().position(|known| known.name == name)
}

/// A literal as the relation stores it, if the two mean the same.
fn value(schema: &RelationSchema, at: usize, literal: &ScalarValue) -> Option<Value> {
    // What is stored otherwise than it is shown is compared by the planner.
    if schema.of(at).is_some_and(|of| !of.is_shown_as_stored()) {
        return None;
    }
    let value = match literal {
        ScalarValue::Int64(Some(value)) => Value::from(*value),
        ScalarValue::UInt64(Some(value)) => Value::from(*value),
        ScalarValue::Boolean(Some(value)) => Value::from(*value),
        ScalarValue::Utf8(Some(value)) => Value::from(value.as_str()),
        ScalarValue::Binary(Some(value)) => Value::from(value.as_slice()),
        _ => return None,
    };
    let kind = schema.columns.get(at)?.kind;
    (value.kind() == Some(kind)).then_some(value)
}
