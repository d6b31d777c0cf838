//! Conditions on fields that the engine can look at while it reads.
//!
//! Does: take the comparisons of a field with a value out of a condition. Does not: replace the condition: what the engine
//! leaves out does not meet it, and what it leaves in is looked at again.

use nilometer_engine::{
    ColumnKind, FieldMatch, FieldPredicate, PhysicalType, TableSchema, TextRange,
};

use crate::evaluate::saturated;
use crate::query::{Binary, Expr, Unary};
use crate::value::{Literal, Value};

/// Below this every integer is a float.
const EXACT: f64 = 4_503_599_627_370_496.0;

/// Conditions that every row of an answer meets.
pub(super) fn field_predicates(condition: &Expr, table: &TableSchema) -> Vec<FieldPredicate> {
    let mut found = Vec::new();
    collect(condition, table, &mut found);
    found
}

fn collect(condition: &Expr, table: &TableSchema, found: &mut Vec<FieldPredicate>) {
    if let Expr::Binary(Binary::And, left, right) = condition {
        collect(left, table, found);
        collect(right, table, found);
        return;
    }
    found.extend(of_field(condition, table));
}

/// What a condition says of one field; `None` = nothing.
fn of_field(condition: &Expr, table: &TableSchema) -> Option<FieldPredicate> {
    match condition {
        Expr::Binary(Binary::Or, left, right) => {
            either(of_field(left, table)?, of_field(right, table)?)
        }
        // `field or true` holds where the field is null; a comparison never does.
        Expr::Binary(
            operator @ (Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual),
            left,
            right,
        ) => match (left.as_ref(), right.as_ref()) {
            (Expr::Field(field), Expr::Literal(Literal::Value(value))) => {
                predicate(field, *operator, value, table)
            }
            (Expr::Literal(Literal::Value(value)), Expr::Field(field)) => {
                predicate(field, turned(*operator)?, value, table)
            }
            _ => None,
        },
        Expr::Field(field) => truth(field, true, table),
        Expr::Unary(operator, of) => match (operator, of.as_ref()) {
            (Unary::Not, Expr::Field(field)) => truth(field, false, table),
            (Unary::IsNotNull, Expr::Field(field)) => Some(FieldPredicate {
                column: position(field, table)?.0,
                matches: FieldMatch::Present,
            }),
            _ => None,
        },
        _ => None,
    }
}

/// One of two conditions on one field.
fn either(one: FieldPredicate, other: FieldPredicate) -> Option<FieldPredicate> {
    if one.column != other.column {
        return None;
    }
    let matches = match (one.matches, other.matches) {
        (FieldMatch::Int(one), FieldMatch::Int(other)) => {
            FieldMatch::Int(one.into_iter().chain(other).collect())
        }
        (FieldMatch::Unsigned(one), FieldMatch::Unsigned(other)) => {
            FieldMatch::Unsigned(one.into_iter().chain(other).collect())
        }
        (FieldMatch::Float(one), FieldMatch::Float(other)) => {
            FieldMatch::Float(one.into_iter().chain(other).collect())
        }
        (FieldMatch::Text(one), FieldMatch::Text(other)) => {
            FieldMatch::Text(one.into_iter().chain(other).collect())
        }
        (one, other) if one == other => one,
        _ => FieldMatch::Present,
    };
    Some(FieldPredicate {
        column: one.column,
        matches,
    })
}

fn truth(field: &str, truth: bool, table: &TableSchema) -> Option<FieldPredicate> {
    match position(field, table)? {
        (column, PhysicalType::Bool) => Some(FieldPredicate {
            column,
            matches: FieldMatch::Bool(truth),
        }),
        _ => None,
    }
}

/// Where a field is among the columns that leave the engine, and its type.
fn position(field: &str, table: &TableSchema) -> Option<(usize, PhysicalType)> {
    let at = table.fields.iter().position(|it| it.name == field)?;
    match table.fields.get(at)?.kind {
        ColumnKind::Field(kind) => Some((1 + table.tags.len() + at, kind)),
        ColumnKind::Tag => None,
    }
}

fn turned(operator: Binary) -> Option<Binary> {
    Some(match operator {
        Binary::Less => Binary::Greater,
        Binary::LessOrEqual => Binary::GreaterOrEqual,
        Binary::Greater => Binary::Less,
        Binary::GreaterOrEqual => Binary::LessOrEqual,
        Binary::Equal | Binary::NotEqual => operator,
        _ => return None,
    })
}

fn predicate(
    field: &str,
    operator: Binary,
    value: &Value,
    table: &TableSchema,
) -> Option<FieldPredicate> {
    let (column, kind) = position(field, table)?;
    let matches = match (kind, value) {
        // Both zeros are one, NaN always qualifies.
        (PhysicalType::F64, value) => {
            let bound = number(value)?;
            FieldMatch::Float(vec![match operator {
                Binary::Equal => bound..=bound,
                Binary::Less | Binary::LessOrEqual => f64::NEG_INFINITY..=bound,
                Binary::Greater => bound.next_up()..=f64::INFINITY,
                Binary::GreaterOrEqual => bound..=f64::INFINITY,
                _ => f64::NEG_INFINITY..=f64::INFINITY,
            }])
        }
        (PhysicalType::I64, Value::Int(bound)) => {
            let bound = *bound;
            FieldMatch::Int(vec![match operator {
                Binary::Equal => bound..=bound,
                Binary::Less | Binary::LessOrEqual => i64::MIN..=bound,
                Binary::Greater | Binary::GreaterOrEqual => bound..=i64::MAX,
                _ => i64::MIN..=i64::MAX,
            }])
        }
        // Integers that floats are exact for, so that rounding moves none over the bound.
        (PhysicalType::I64, Value::Float(bound)) if bound.abs() < EXACT => {
            let (floor, ceil) = (saturated(bound.floor()), saturated(bound.ceil()));
            FieldMatch::Int(vec![match operator {
                Binary::Equal => floor..=ceil,
                Binary::Less => i64::MIN..=ceil - 1,
                Binary::LessOrEqual => i64::MIN..=floor,
                Binary::Greater => floor + 1..=i64::MAX,
                Binary::GreaterOrEqual => ceil..=i64::MAX,
                _ => i64::MIN..=i64::MAX,
            }])
        }
        (PhysicalType::U64, Value::Unsigned(bound)) => {
            let bound = *bound;
            FieldMatch::Unsigned(vec![match operator {
                Binary::Equal => bound..=bound,
                Binary::Less | Binary::LessOrEqual => 0..=bound,
                Binary::Greater | Binary::GreaterOrEqual => bound..=u64::MAX,
                _ => 0..=u64::MAX,
            }])
        }
        (PhysicalType::Text, Value::Text(text)) => {
            let bytes = || Some(text.as_bytes().to_vec());
            let (first, last) = match operator {
                Binary::Equal => (bytes(), bytes()),
                Binary::Less | Binary::LessOrEqual => (None, bytes()),
                Binary::Greater | Binary::GreaterOrEqual => (bytes(), None),
                _ => (None, None),
            };
            FieldMatch::Text(vec![TextRange { first, last }])
        }
        (PhysicalType::Bool, Value::Bool(truth)) if operator == Binary::Equal => {
            FieldMatch::Bool(*truth)
        }
        // A comparison with null never holds, whatever it is with.
        _ => FieldMatch::Present,
    };
    Some(FieldPredicate { column, matches })
}

/// A bound that is a number.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Int(value) => *value as f64,
        Value::Unsigned(value) => *value as f64,
        Value::Float(value) => *value,
        _ => return None,
    };
    (!number.is_nan()).then_some(number)
}
