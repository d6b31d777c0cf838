//! Conditions on fields that the engine can look at while it reads.
//!
//! Does: take the comparisons of a field with a value out of a condition. Does not: replace the condition: what the engine
//! leaves out does not meet it, and what it leaves in is looked at again.

use nilometer_engine::{
    ColumnKind, FieldMatch, FieldPredicate, PhysicalType, TableSchema, TextRange,
};

use crate::evaluate::saturated;
use crate::query::{Binary, Expr};
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
    let Expr::Binary(operator, left, right) = condition else {
        return;
    };
    if *operator == Binary::And {
        collect(left, table, found);
        collect(right, table, found);
        return;
    }
    // `field or true` holds where the field is null; a comparison never does.
    let is_comparison = matches!(
        operator,
        Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual
    );
    if !is_comparison {
        return;
    }
    let found_one = match (left.as_ref(), right.as_ref()) {
        (Expr::Field(field), Expr::Literal(Literal::Value(value))) => {
            Some((field, *operator, value))
        }
        (Expr::Literal(Literal::Value(value)), Expr::Field(field)) => {
            turned(*operator).map(|operator| (field, operator, value))
        }
        _ => None,
    };
    if let Some((field, operator, value)) = found_one {
        found.extend(predicate(field, operator, value, table));
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
    let at = table.fields.iter().position(|it| it.name == field)?;
    let ColumnKind::Field(kind) = table.fields.get(at)?.kind else {
        return None;
    };
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
        (PhysicalType::Text, Value::Text(text)) if operator == Binary::Equal => {
            let bytes = text.as_bytes().to_vec();
            FieldMatch::Text(vec![TextRange {
                first: Some(bytes.clone()),
                last: Some(bytes),
            }])
        }
        (PhysicalType::Bool, Value::Bool(truth)) if operator == Binary::Equal => {
            FieldMatch::Bool(*truth)
        }
        // A comparison with null never holds, whatever it is with.
        _ => FieldMatch::Present,
    };
    Some(FieldPredicate {
        column: 1 + table.tags.len() + at,
        matches,
    })
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
