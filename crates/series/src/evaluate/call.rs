//! Functions of values.
//!
//! Does: what `query::Function` lists. Does not: aggregate.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::{Resolved, Scalar, array_of, floats, saturated, scalar_at, wide, wrapped};
use crate::error::Error;
use crate::query::Function;
use crate::value::{Rules, Type};

pub(super) fn kind(function: Function, operands: &[Resolved]) -> Result<Option<Type>, Error> {
    let wrong = |types: Vec<Type>| {
        Err(Error::WrongType {
            operation: function.to_string(),
            types,
        })
    };
    if function == Function::Coalesce {
        let mut kinds = operands.iter().filter_map(|operand| operand.kind);
        let Some(first) = kinds.next() else {
            return Ok(None);
        };
        return kinds
            .try_fold(first, |one, other| match (one, other) {
                _ if one == other => Ok(one),
                (Type::Float, number) | (number, Type::Float) if number.is_number() => {
                    Ok(Type::Float)
                }
                (Type::Int, Type::Unsigned) | (Type::Unsigned, Type::Int) => Ok(Type::Int),
                _ => Err((one, other)),
            })
            .map(Some)
            .or_else(|(one, other)| wrong(vec![one, other]));
    }
    let [operand] = operands else {
        return Err(Error::contradiction(format!(
            "{function} takes one operand and was given {}",
            operands.len()
        )));
    };
    let Some(kind) = operand.kind else {
        return Ok(None);
    };
    match function {
        Function::Floor | Function::Ceil | Function::Abs | Function::NullIfNan
            if kind.is_number() =>
        {
            Ok(Some(kind))
        }
        Function::Sqrt if kind.is_number() => Ok(Some(Type::Float)),
        Function::Float if kind.is_number() || kind == Type::Text => Ok(Some(Type::Float)),
        Function::Integer
            if kind.is_number() || matches!(kind, Type::Text | Type::Bool | Type::Time) =>
        {
            Ok(Some(Type::Int))
        }
        _ => wrong(vec![kind]),
    }
}

pub(super) fn call(
    function: Function,
    operands: &[ArrayRef],
    kind: Type,
    rows: usize,
    rules: Rules,
) -> Result<ArrayRef, Error> {
    if function == Function::Coalesce {
        return coalesce(operands, kind, rows);
    }
    let Some(column) = operands.first() else {
        return Ok(array_of(kind, vec![None; rows]));
    };
    match function {
        Function::Float => float(column, rules),
        Function::Integer => integer(column, rules),
        Function::Sqrt => {
            let values = floats(column).unwrap_or_else(|| Float64Array::new_null(rows));
            if rules == Rules::Postgres && values.iter().flatten().any(|value| value < 0.0) {
                return Err(Error::OutOfRange {
                    kind: Type::Float,
                    operation: "sqrt",
                });
            }
            Ok(Arc::new(
                values.unary::<_, arrow_array::types::Float64Type>(f64::sqrt),
            ))
        }
        Function::Abs if kind != Type::Float => absolute(column, kind, rules),
        _ if kind != Type::Float => Ok(Arc::clone(column)),
        Function::NullIfNan => Ok(without_nan(column, rows)),
        _ => {
            let values = floats(column).unwrap_or_else(|| Float64Array::new_null(rows));
            let change = match function {
                Function::Floor => f64::floor,
                Function::Ceil => f64::ceil,
                _ => f64::abs,
            };
            Ok(Arc::new(
                values.unary::<_, arrow_array::types::Float64Type>(change),
            ))
        }
    }
}

/// The same numbers, null in the places of NaN. Most have none.
fn without_nan(column: &ArrayRef, rows: usize) -> ArrayRef {
    let values = floats(column).unwrap_or_else(|| Float64Array::new_null(rows));
    let has_nan = |found: bool, value: &f64| found | value.is_nan();
    if !values.values().iter().fold(false, has_nan) {
        return Arc::new(values);
    }
    let numbers: BooleanBuffer = values
        .values()
        .iter()
        .map(|value| !value.is_nan())
        .collect();
    let valid = NullBuffer::union(values.nulls(), Some(&NullBuffer::new(numbers)));
    Arc::new(Float64Array::new(values.values().clone(), valid))
}

fn absolute(column: &ArrayRef, kind: Type, rules: Rules) -> Result<ArrayRef, Error> {
    let Some(values) = wide(column).filter(|_| kind == Type::Int) else {
        return Ok(Arc::clone(column));
    };
    let results = values.map(|value| match (value.map(i128::abs), rules) {
        (None, _) => Ok(None),
        (Some(value), Rules::Influx) => Ok(Some(wrapped(value))),
        (Some(value), Rules::Postgres) => {
            i64::try_from(value)
                .map(Some)
                .map_err(|_| Error::OutOfRange {
                    kind,
                    operation: "abs",
                })
        }
    });
    Ok(Arc::new(results.collect::<Result<Int64Array, Error>>()?))
}

fn coalesce(operands: &[ArrayRef], kind: Type, rows: usize) -> Result<ArrayRef, Error> {
    let mut values = Vec::with_capacity(rows);
    for row in 0..rows {
        let found = operands.iter().find_map(|column| scalar_at(column, row));
        values.push(match (found, kind) {
            (Some(Scalar::Int(value)), Type::Float) => Some(Scalar::Float(value as f64)),
            (Some(Scalar::Unsigned(value)), Type::Float) => Some(Scalar::Float(value as f64)),
            (Some(Scalar::Unsigned(value)), Type::Int) => {
                let value = i64::try_from(value).map_err(|_| Error::OutOfRange {
                    kind,
                    operation: "coalesce",
                })?;
                Some(Scalar::Int(value))
            }
            (found, _) => found,
        });
    }
    Ok(array_of(kind, values))
}

/// What a text is not by `Postgres` is an error, by `Influx` null.
fn unreadable<T>(text: &str, kind: Type, rules: Rules) -> Result<Option<T>, Error> {
    match rules {
        Rules::Influx => Ok(None),
        Rules::Postgres => Err(Error::NotConvertible {
            value: text.to_owned(),
            kind,
        }),
    }
}

fn float(column: &ArrayRef, rules: Rules) -> Result<ArrayRef, Error> {
    let Some(texts) = column.as_string_opt::<i32>() else {
        let values = floats(column).unwrap_or_else(|| Float64Array::new_null(column.len()));
        return Ok(Arc::new(values));
    };
    let values = texts.iter().map(|text| {
        let Some(text) = text else {
            return Ok(None);
        };
        match text.trim().parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => unreadable(text, Type::Float, rules),
        }
    });
    Ok(Arc::new(values.collect::<Result<Float64Array, Error>>()?))
}

fn integer(column: &ArrayRef, rules: Rules) -> Result<ArrayRef, Error> {
    let out_of_range = || Error::OutOfRange {
        kind: Type::Int,
        operation: "integer",
    };
    let values: Result<Int64Array, Error> = if let Some(texts) = column.as_string_opt::<i32>() {
        let values = texts.iter().map(|text| {
            let Some(text) = text else {
                return Ok(None);
            };
            match text.trim().parse() {
                Ok(value) => Ok(Some(value)),
                Err(_) => unreadable(text, Type::Int, rules),
            }
        });
        values.collect()
    } else if let Some(truth) = column.as_boolean_opt() {
        Ok(truth.iter().map(|it| it.map(i64::from)).collect())
    } else if let Some(values) = wide(column) {
        let values = values.map(|value| match (value, rules) {
            (None, _) => Ok(None),
            (Some(value), Rules::Influx) => Ok(Some(wrapped(value))),
            (Some(value), Rules::Postgres) => {
                i64::try_from(value).map(Some).map_err(|_| out_of_range())
            }
        });
        values.collect()
    } else {
        let values = floats(column).unwrap_or_else(|| Float64Array::new_null(column.len()));
        let values = values.iter().map(|value| match (value, rules) {
            (None, _) => Ok(None),
            // Saturates; NaN becomes 0.
            (Some(value), Rules::Influx) => Ok(Some(saturated(value))),
            (Some(value), Rules::Postgres) => {
                let rounded = value.round_ties_even();
                // Above -2^63, and below 2^63.
                let bound = 9_223_372_036_854_775_808.0;
                if rounded >= -bound && rounded < bound {
                    Ok(Some(saturated(rounded)))
                } else {
                    Err(out_of_range())
                }
            }
        });
        values.collect()
    };
    Ok(Arc::new(values?))
}

#[cfg(test)]
mod tests {
    use arrow_array::UInt64Array;

    use super::*;

    fn whole(values: Vec<f64>, rules: Rules) -> Result<Vec<Option<i64>>, String> {
        let column: ArrayRef = Arc::new(Float64Array::from(values));
        let result = integer(&column, rules).map_err(|error| error.to_string())?;
        let values = result.as_any().downcast_ref::<Int64Array>().unwrap();
        Ok(values.iter().collect())
    }

    #[test]
    fn floats_become_integers_as_their_language_says() {
        let pg = whole(vec![0.5, 1.5, -2.5, 2.6], Rules::Postgres);
        assert_eq!(pg, Ok(vec![Some(0), Some(2), Some(-2), Some(3)]));
        let influx = whole(vec![0.9, -1.9, 1e300], Rules::Influx);
        assert_eq!(influx, Ok(vec![Some(0), Some(-1), Some(i64::MAX)]));
        assert!(whole(vec![f64::NAN], Rules::Postgres).is_err());
        assert!(whole(vec![9_223_372_036_854_775_808.0], Rules::Postgres).is_err());
    }

    #[test]
    fn what_is_no_number_becomes_null_and_what_was_null_stays_so() {
        let values = vec![Some(1.0), Some(f64::NAN), None, Some(f64::INFINITY)];
        let column: ArrayRef = Arc::new(Float64Array::from(values));
        let found = call(
            Function::NullIfNan,
            &[column],
            Type::Float,
            4,
            Rules::Influx,
        )
        .unwrap();
        let found = found.as_any().downcast_ref::<Float64Array>().unwrap();
        let expected = [Some(1.0), None, None, Some(f64::INFINITY)];
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn unsigned_integers_that_are_too_large_are_not_made_smaller() {
        let column: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        assert!(integer(&column, Rules::Postgres).is_err());
    }
}
