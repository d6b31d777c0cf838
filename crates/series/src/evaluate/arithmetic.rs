//! Arithmetic of numbers and times.
//!
//! Does: integers exactly, in 128 bits, and floats as IEEE has them; what does not fit ends as the rules say. Does not:
//! compare.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, NullArray, PrimitiveArray, TimestampNanosecondArray,
    UInt64Array,
};
use arrow_buffer::NullBuffer;

use super::{floats, low_bits, wide, wrapped};
use crate::error::Error;
use crate::query::Binary;
use crate::value::{Rules, Type};

/// The type of a result; `None` = null, because an operand always is.
pub(super) fn kind(
    operator: Binary,
    left: Option<Type>,
    right: Option<Type>,
    rules: Rules,
) -> Result<Option<Type>, Error> {
    let wrong = |types: Vec<Type>| {
        Err(Error::WrongType {
            operation: operator.to_string(),
            types,
        })
    };
    let (Some(one), Some(other)) = (left, right) else {
        let known = left.or(right);
        return match known.filter(|kind| !kind.is_number() && *kind != Type::Time) {
            Some(kind) => wrong(vec![kind]),
            None => Ok(None),
        };
    };
    let integers = matches!(
        (one, other),
        (Type::Int | Type::Unsigned, Type::Int | Type::Unsigned)
    );
    Ok(Some(match (one, other, operator) {
        (Type::Time, Type::Time, Binary::Subtract) => Type::Int,
        (Type::Time, Type::Int, Binary::Add | Binary::Subtract)
        | (Type::Int, Type::Time, Binary::Add) => Type::Time,
        (_, _, Binary::Divide) if integers && rules == Rules::Influx => Type::Float,
        (Type::Unsigned, Type::Unsigned, _) => Type::Unsigned,
        _ if integers => Type::Int,
        (_, _, Binary::Remainder) if rules == Rules::Postgres => {
            return wrong(vec![one, other]);
        }
        _ if one.is_number() && other.is_number() => Type::Float,
        _ => return wrong(vec![one, other]),
    }))
}

pub(super) fn calculate(
    operator: Binary,
    left: &ArrayRef,
    right: &ArrayRef,
    kind: Type,
    rules: Rules,
) -> Result<ArrayRef, Error> {
    if kind == Type::Float {
        let (Some(one), Some(other)) = (floats(left), floats(right)) else {
            return Ok(Arc::new(NullArray::new(left.len())));
        };
        return match rules {
            Rules::Influx => Ok(of_all_floats(operator, &one, &other)),
            Rules::Postgres => of_floats(operator, &one, &other, rules),
        };
    }
    if let (Rules::Influx, Type::Int, Some(one), Some(other)) = (
        rules,
        kind,
        left.as_primitive_opt::<Int64Type>(),
        right.as_primitive_opt::<Int64Type>(),
    ) && let Some(results) = of_all_ints(operator, one, other)
    {
        return Ok(results);
    }
    let (Some(one), Some(other)) = (wide(left), wide(right)) else {
        return Ok(Arc::new(NullArray::new(left.len())));
    };
    let results = one.zip(other).map(|(one, other)| match (one, other) {
        (Some(one), Some(other)) => of_integers(operator, one, other, rules).map(Some),
        _ => Ok(None),
    });
    collect(results, kind, rules)
}

fn collect(
    results: impl Iterator<Item = Result<Option<i128>, Error>>,
    kind: Type,
    rules: Rules,
) -> Result<ArrayRef, Error> {
    let out_of_range = || Error::OutOfRange {
        kind,
        operation: "arithmetic",
    };
    let narrow = |value: i128| match rules {
        Rules::Postgres => i64::try_from(value).map_err(|_| out_of_range()),
        Rules::Influx => Ok(wrapped(value)),
    };
    Ok(match kind {
        Type::Unsigned => {
            let values = results.map(|value| match value? {
                None => Ok(None),
                Some(value) if rules == Rules::Influx => Ok(Some(low_bits(value))),
                Some(value) => u64::try_from(value).map(Some).map_err(|_| out_of_range()),
            });
            Arc::new(values.collect::<Result<UInt64Array, Error>>()?)
        }
        Type::Time => {
            let values = results.map(|value| value?.map(narrow).transpose());
            let times = values.collect::<Result<TimestampNanosecondArray, Error>>()?;
            Arc::new(times.with_timezone("UTC"))
        }
        _ => {
            let values = results.map(|value| value?.map(narrow).transpose());
            Arc::new(values.collect::<Result<Int64Array, Error>>()?)
        }
    })
}

fn of_integers(operator: Binary, one: i128, other: i128, rules: Rules) -> Result<i128, Error> {
    let checked = match operator {
        Binary::Add => Some(one + other),
        Binary::Subtract => Some(one - other),
        Binary::Multiply if rules == Rules::Influx => Some(one.wrapping_mul(other)),
        Binary::Multiply => one.checked_mul(other),
        _ if other == 0 => {
            return match rules {
                Rules::Postgres => Err(Error::DivisionByZero),
                Rules::Influx => Ok(0),
            };
        }
        Binary::Remainder => Some(one % other),
        _ => Some(one / other),
    };
    checked.ok_or(Error::OutOfRange {
        kind: Type::Unsigned,
        operation: "arithmetic",
    })
}

/// Of all rows at once: what is made of nulls is not looked at, and nothing fails by these rules.
fn of_all_floats(operator: Binary, one: &Float64Array, other: &Float64Array) -> ArrayRef {
    let pairs = || one.values().iter().zip(other.values());
    let results: Vec<f64> = match operator {
        Binary::Add => pairs().map(|(one, other)| one + other).collect(),
        Binary::Subtract => pairs().map(|(one, other)| one - other).collect(),
        Binary::Multiply => pairs().map(|(one, other)| one * other).collect(),
        Binary::Remainder => pairs()
            .map(|(one, other)| if *other == 0.0 { 0.0 } else { one % other })
            .collect(),
        _ => pairs()
            .map(|(one, other)| if *other == 0.0 { 0.0 } else { one / other })
            .collect(),
    };
    let nulls = NullBuffer::union(one.nulls(), other.nulls());
    Arc::new(Float64Array::new(results.into(), nulls))
}

/// The same of integers, which wrap around; `None` = they are divided.
fn of_all_ints(operator: Binary, one: &Int64Array, other: &Int64Array) -> Option<ArrayRef> {
    let pairs = || one.values().iter().zip(other.values());
    let results: Vec<i64> = match operator {
        Binary::Add => pairs()
            .map(|(one, other)| one.wrapping_add(*other))
            .collect(),
        Binary::Subtract => pairs()
            .map(|(one, other)| one.wrapping_sub(*other))
            .collect(),
        Binary::Multiply => pairs()
            .map(|(one, other)| one.wrapping_mul(*other))
            .collect(),
        _ => return None,
    };
    let nulls = NullBuffer::union(one.nulls(), other.nulls());
    Some(Arc::new(Int64Array::new(results.into(), nulls)))
}

fn of_floats(
    operator: Binary,
    one: &Float64Array,
    other: &Float64Array,
    rules: Rules,
) -> Result<ArrayRef, Error> {
    let pairs = one.iter().zip(other);
    let results = pairs.map(|(one, other)| match (one, other) {
        (Some(one), Some(other)) => of_float(operator, one, other, rules).map(Some),
        _ => Ok(None),
    });
    let results: PrimitiveArray<Float64Type> = results.collect::<Result<_, Error>>()?;
    Ok(Arc::new(results))
}

fn of_float(operator: Binary, one: f64, other: f64, rules: Rules) -> Result<f64, Error> {
    let result = match operator {
        Binary::Add => one + other,
        Binary::Subtract => one - other,
        Binary::Multiply => one * other,
        Binary::Divide | Binary::Remainder if other == 0.0 && rules == Rules::Influx => 0.0,
        Binary::Divide if other == 0.0 && !one.is_nan() => return Err(Error::DivisionByZero),
        Binary::Remainder => one % other,
        _ => one / other,
    };
    if rules == Rules::Postgres {
        // As `float8pl`, `float8mul` and `float8div` check them.
        let is_product = matches!(operator, Binary::Multiply | Binary::Divide);
        let divides = operator == Binary::Divide;
        let has_infinity = one.is_infinite() || (other.is_infinite() && !divides);
        let overflows = result.is_infinite() && !has_infinity;
        let underflows = is_product
            && result == 0.0
            && one != 0.0
            && if divides {
                !other.is_infinite()
            } else {
                other != 0.0
            };
        if overflows || underflows {
            return Err(Error::OutOfRange {
                kind: Type::Float,
                operation: "arithmetic",
            });
        }
    }
    Ok(result)
}

pub(super) fn negate(
    column: &ArrayRef,
    kind: Option<Type>,
    rules: Rules,
) -> Result<ArrayRef, Error> {
    if kind == Some(Type::Float) {
        let values = floats(column).unwrap_or_else(|| Float64Array::new_null(column.len()));
        return Ok(Arc::new(values.unary::<_, Float64Type>(|value| -value)));
    }
    match wide(column) {
        None => Ok(Arc::new(NullArray::new(column.len()))),
        Some(values) => {
            let results = values.map(|value| Ok(value.map(|value| -value)));
            collect(results, Type::Int, rules)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(operator: Binary, one: i64, other: i64, rules: Rules) -> Result<i64, String> {
        let (one, other) = (Int64Array::from(vec![one]), Int64Array::from(vec![other]));
        let (one, other): (ArrayRef, ArrayRef) = (Arc::new(one), Arc::new(other));
        let result = calculate(operator, &one, &other, Type::Int, rules);
        let result = result.map_err(|error| error.to_string())?;
        let values = result.as_any().downcast_ref::<Int64Array>().unwrap();
        Ok(values.value(0))
    }

    #[test]
    fn integers_overflow_as_their_language_says() {
        let overflow = "integer out of range in arithmetic".to_owned();
        let (pg, influx) = (Rules::Postgres, Rules::Influx);
        assert_eq!(ints(Binary::Add, i64::MAX, 1, pg), Err(overflow.clone()));
        assert_eq!(ints(Binary::Add, i64::MAX, 1, influx), Ok(i64::MIN));
        assert_eq!(ints(Binary::Divide, i64::MIN, -1, pg), Err(overflow));
        assert_eq!(ints(Binary::Divide, -7, 2, pg), Ok(-3));
        assert_eq!(
            ints(Binary::Divide, 1, 0, pg),
            Err("division by zero".to_owned())
        );
        assert_eq!(ints(Binary::Divide, 1, 0, influx), Ok(0));
        assert_eq!(ints(Binary::Remainder, -7, 2, pg), Ok(-1));
        // 3037000500 squared is 9223372037000250000, which is beyond i64 by 145474193: it wraps to the complement.
        let wrapped = i128::from(3_037_000_500_i64).pow(2) - (1_i128 << 64);
        let result = ints(Binary::Multiply, 3_037_000_500, 3_037_000_500, influx).unwrap();
        assert_eq!(i128::from(result), wrapped);
    }

    #[test]
    fn floats_are_checked_as_postgresql_checks_them() {
        let pg = |operator, one, other| {
            of_float(operator, one, other, Rules::Postgres).map_err(|error| error.to_string())
        };
        let overflow = Err("float out of range in arithmetic".to_owned());
        assert_eq!(pg(Binary::Multiply, 1e300, 1e300), overflow);
        assert_eq!(pg(Binary::Multiply, 1e-300, 1e-300), overflow);
        assert_eq!(pg(Binary::Divide, f64::INFINITY, 2.0), Ok(f64::INFINITY));
        assert_eq!(pg(Binary::Divide, 1.0, f64::INFINITY), Ok(0.0));
        assert_eq!(
            pg(Binary::Divide, 0.0, 0.0),
            Err("division by zero".to_owned())
        );
        assert!(pg(Binary::Divide, f64::NAN, 0.0).unwrap().is_nan());
        let influx = of_float(Binary::Divide, 3.0, 0.0, Rules::Influx).unwrap();
        assert_eq!(influx.to_bits(), 0.0_f64.to_bits());
    }

    /// Columns are calculated all rows at once where nothing can fail: with the results of one row after the other.
    #[test]
    fn columns_have_the_results_of_their_rows() {
        let values = [0.0, -0.0, 1.5, -2.0, f64::NAN, f64::INFINITY, 1e308];
        let pairs = values
            .iter()
            .flat_map(|one| values.map(|other| (Some(*one), Some(other))));
        let (mut left, mut right): (Vec<_>, Vec<_>) = pairs.unzip();
        left.extend([None, Some(1.0), None]);
        right.extend([Some(1.0), None, None]);
        let (one, other) = (Float64Array::from(left), Float64Array::from(right));
        for operator in [
            Binary::Add,
            Binary::Subtract,
            Binary::Multiply,
            Binary::Divide,
            Binary::Remainder,
        ] {
            // NaN is one, whichever bits it has.
            let bits = |column: ArrayRef| -> Vec<Option<u64>> {
                let values = column.as_primitive::<Float64Type>().iter();
                let bits = |value: f64| {
                    if value.is_nan() {
                        u64::MAX
                    } else {
                        value.to_bits()
                    }
                };
                values.map(|it| it.map(bits)).collect()
            };
            let all = bits(of_all_floats(operator, &one, &other));
            let each = bits(of_floats(operator, &one, &other, Rules::Influx).unwrap());
            assert_eq!(all, each, "{operator:?}");
        }
        let values = [0, 1, -1, i64::MAX, i64::MIN, 3_037_000_500];
        let pairs = values
            .iter()
            .flat_map(|one| values.map(|other| (Some(*one), Some(other))));
        let (mut left, mut right): (Vec<_>, Vec<_>) = pairs.unzip();
        left.extend([None, Some(1), None]);
        right.extend([Some(1), None, None]);
        let (one, other) = (Int64Array::from(left), Int64Array::from(right));
        for operator in [Binary::Add, Binary::Subtract, Binary::Multiply] {
            let all = of_all_ints(operator, &one, &other).unwrap();
            let each = one.iter().zip(&other).map(|pair| match pair {
                (Some(one), Some(other)) => {
                    let (one, other) = (i128::from(one), i128::from(other));
                    let result = of_integers(operator, one, other, Rules::Influx);
                    Some(wrapped(result.unwrap()))
                }
                _ => None,
            });
            let each: Vec<Option<i64>> = each.collect();
            assert_eq!(
                all.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(),
                each
            );
        }
    }
}
