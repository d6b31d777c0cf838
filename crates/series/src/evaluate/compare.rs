//! Comparisons, and what is made of truth: and, or, not.
//!
//! Does: compare values of types that can be, null with nothing. Does not: order rows (`operators::sort`).

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::{floats, wide};
use crate::error::Error;
use crate::query::Binary;
use crate::value::{Rules, Type};

pub(super) fn check(
    operator: Binary,
    left: Option<Type>,
    right: Option<Type>,
) -> Result<(), Error> {
    let (Some(one), Some(other)) = (left, right) else {
        return Ok(());
    };
    let are_like = one == other && one != Type::Counts
        || (one.is_number() && other.is_number())
        || matches!(
            (one, other),
            (Type::Time, Type::Int) | (Type::Int, Type::Time)
        );
    if are_like {
        return Ok(());
    }
    Err(Error::WrongType {
        operation: operator.to_string(),
        types: vec![one, other],
    })
}

fn holds(operator: Binary, order: Option<Ordering>) -> bool {
    match (operator, order) {
        (Binary::NotEqual, None) => true,
        (_, None) => false,
        (Binary::Equal, Some(order)) => order.is_eq(),
        (Binary::NotEqual, Some(order)) => order.is_ne(),
        (Binary::Less, Some(order)) => order.is_lt(),
        (Binary::LessOrEqual, Some(order)) => order.is_le(),
        (Binary::Greater, Some(order)) => order.is_gt(),
        (_, Some(order)) => order.is_ge(),
    }
}

/// How two floats compare. As `PostgreSQL` has it, NaN is equal to itself and above everything else; `None` = they do not
/// compare, as IEEE has it.
fn float_order(one: f64, other: f64, rules: Rules) -> Option<Ordering> {
    let order = one.partial_cmp(&other);
    match rules {
        Rules::Influx => order,
        Rules::Postgres => Some(order.unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()))),
    }
}

pub(super) fn compare(
    operator: Binary,
    left: &ArrayRef,
    right: &ArrayRef,
    rules: Rules,
) -> ArrayRef {
    if let Some(truth) = of_numbers(operator, left, right, rules) {
        return truth;
    }
    let truth: BooleanArray = if let (Some(one), Some(other)) = (wide(left), wide(right)) {
        let pairs = one.zip(other);
        pairs
            .map(|(one, other)| Some(holds(operator, Some(one?.cmp(&other?)))))
            .collect()
    } else if let (Some(one), Some(other)) = (floats(left), floats(right)) {
        let pairs = one.iter().zip(&other);
        pairs
            .map(|(one, other)| Some(holds(operator, float_order(one?, other?, rules))))
            .collect()
    } else if let (Some(one), Some(other)) =
        (left.as_string_opt::<i32>(), right.as_string_opt::<i32>())
    {
        let pairs = one.iter().zip(other);
        pairs
            .map(|(one, other)| Some(holds(operator, Some(one?.cmp(other?)))))
            .collect()
    } else if let (Some(one), Some(other)) = (left.as_boolean_opt(), right.as_boolean_opt()) {
        let pairs = one.iter().zip(other);
        pairs
            .map(|(one, other)| Some(holds(operator, Some(one?.cmp(&other?)))))
            .collect()
    } else if let (Some(one), Some(other)) =
        (left.as_binary_opt::<i32>(), right.as_binary_opt::<i32>())
    {
        let pairs = one.iter().zip(other);
        pairs
            .map(|(one, other)| Some(holds(operator, Some(one?.cmp(other?)))))
            .collect()
    } else {
        BooleanArray::new_null(left.len())
    };
    Arc::new(truth)
}

/// Of numbers of one type, all at once; `None` = they are none such.
fn of_numbers(
    operator: Binary,
    left: &ArrayRef,
    right: &ArrayRef,
    rules: Rules,
) -> Option<ArrayRef> {
    let truth = if let (Some(one), Some(other)) = (
        left.as_primitive_opt::<Int64Type>(),
        right.as_primitive_opt::<Int64Type>(),
    ) {
        each(operator, one.values(), other.values())
    } else if let (Some(one), Some(other)) = (
        left.as_primitive_opt::<UInt64Type>(),
        right.as_primitive_opt::<UInt64Type>(),
    ) {
        each(operator, one.values(), other.values())
    } else {
        if left.as_primitive_opt::<Float64Type>().is_none()
            && right.as_primitive_opt::<Float64Type>().is_none()
        {
            return None;
        }
        let (one, other) = (floats(left)?, floats(right)?);
        let (one, other) = (one.values(), other.values());
        let has_nan = rules == Rules::Postgres && (has_nan(one) || has_nan(other));
        if has_nan {
            // NaN is equal to itself and above everything.
            let pairs = one.iter().zip(other.iter());
            let order = |(one, other): (&f64, &f64)| float_order(*one, *other, rules);
            pairs.map(|pair| holds(operator, order(pair))).collect()
        } else {
            each(operator, one, other)
        }
    };
    let nulls = NullBuffer::union(left.nulls(), right.nulls());
    Some(Arc::new(BooleanArray::new(truth, nulls)))
}

fn has_nan(values: &[f64]) -> bool {
    values
        .iter()
        .fold(false, |found, value| found | value.is_nan())
}

fn each<T: PartialOrd + Copy>(operator: Binary, one: &[T], other: &[T]) -> BooleanBuffer {
    // The operator is chosen once and not for every pair.
    match operator {
        Binary::Equal => pairs(one, other, |one, other| one == other),
        Binary::NotEqual => pairs(one, other, |one, other| one != other),
        Binary::Less => pairs(one, other, |one, other| one < other),
        Binary::LessOrEqual => pairs(one, other, |one, other| one <= other),
        Binary::Greater => pairs(one, other, |one, other| one > other),
        _ => pairs(one, other, |one, other| one >= other),
    }
}

fn pairs<T: Copy>(one: &[T], other: &[T], holds: impl Fn(T, T) -> bool) -> BooleanBuffer {
    let rows = one.len().min(other.len());
    let mut bytes = Vec::with_capacity(rows.div_ceil(8));
    for (one, other) in one.chunks(8).zip(other.chunks(8)) {
        let mut byte = 0_u8;
        for (at, (one, other)) in one.iter().zip(other).enumerate() {
            byte |= u8::from(holds(*one, *other)) << at;
        }
        bytes.push(byte);
    }
    BooleanBuffer::new(Buffer::from(bytes), 0, rows)
}

pub(super) fn not(column: &ArrayRef) -> ArrayRef {
    match column.as_boolean_opt() {
        Some(truth) => {
            let turned: BooleanArray = truth.iter().map(|it| it.map(|it| !it)).collect();
            Arc::new(turned)
        }
        None => Arc::new(BooleanArray::new_null(column.len())),
    }
}

/// In three values: false and anything is false, true or anything is true.
pub(super) fn logic(operator: Binary, left: &ArrayRef, right: &ArrayRef) -> ArrayRef {
    let (Some(one), Some(other)) = (left.as_boolean_opt(), right.as_boolean_opt()) else {
        return Arc::new(BooleanArray::new_null(left.len()));
    };
    let decides = operator == Binary::Or;
    let pairs = one.iter().zip(other);
    let truth: BooleanArray = pairs
        .map(|(one, other)| match (one, other) {
            (Some(it), _) | (_, Some(it)) if it == decides => Some(decides),
            (Some(_), Some(_)) => Some(!decides),
            _ => None,
        })
        .collect();
    Arc::new(truth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_has_three_values() {
        let values = [Some(true), Some(false), None];
        let pairs = values
            .iter()
            .flat_map(|one| values.map(|other| (*one, other)));
        let (one, other): (Vec<_>, Vec<_>) = pairs.unzip();
        let column = |values: Vec<Option<bool>>| Arc::new(BooleanArray::from(values)) as ArrayRef;
        let (one, other) = (column(one), column(other));
        let table = |operator| {
            let truth = logic(operator, &one, &other);
            truth.as_boolean().iter().collect::<Vec<_>>()
        };
        let (t, f, u) = (Some(true), Some(false), None);
        assert_eq!(table(Binary::And), [t, f, u, f, f, f, u, f, u]);
        assert_eq!(table(Binary::Or), [t, t, t, t, f, u, t, u, u]);
    }

    #[test]
    fn nan_compares_as_its_language_says() {
        let pg = |one, other| float_order(one, other, Rules::Postgres);
        assert_eq!(pg(f64::NAN, f64::NAN), Some(Ordering::Equal));
        assert_eq!(pg(f64::NAN, f64::INFINITY), Some(Ordering::Greater));
        assert_eq!(pg(1.0, -f64::NAN), Some(Ordering::Less));
        assert_eq!(pg(-0.0, 0.0), Some(Ordering::Equal));
        assert_eq!(float_order(f64::NAN, 1.0, Rules::Influx), None);
        assert!(holds(Binary::NotEqual, None) && !holds(Binary::Equal, None));
    }
}
