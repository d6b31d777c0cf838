//! Division of `numeric`: exact to the last of its digits, which is rounded.
//!
//! Does: divide decimals and integers with 16 digits behind the point, or as many as the operands have. Does not: follow the size
//! of the quotient, as `PostgreSQL` does, which shows 16 of one from 1 to 9,999, fewer of larger ones and more of smaller ones.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, i256};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Digits behind the point, if neither operand has more.
const SCALE: i8 = 16;

/// The function in the place of `/`.
pub(super) static QUOTIENT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Quotient { signature }))
});

#[derive(Debug, PartialEq, Eq, Hash)]
struct Quotient {
    signature: Signature,
}

/// Digits behind the point of an operand.
fn scale(kind: &DataType) -> Option<i8> {
    match kind {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some((*scale).max(0)),
        kind if kind.is_integer() || kind.is_null() => Some(0),
        _ => None,
    }
}

impl ScalarUDFImpl for Quotient {
    fn name(&self) -> &'static str {
        "numeric_quotient"
    }

    /// As the operator is shown.
    fn display_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = args else {
            return internal_err!("a quotient has two operands");
        };
        Ok(format!("{left} / {right}"))
    }

    /// As the operator is called, so that an expression finds its column again.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = args else {
            return internal_err!("a quotient has two operands");
        };
        Ok(format!("{} / {}", left.schema_name(), right.schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        let scales = arg_types.iter().map(scale).collect::<Option<Vec<i8>>>();
        let Some(scales) = scales else {
            return plan_err!("a quotient of numeric has numbers as operands");
        };
        let most = scales.into_iter().max().unwrap_or(0);
        Ok(DataType::Decimal128(38, most.max(SCALE)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("a quotient has two operands");
        };
        let is_scalar = [left, right]
            .iter()
            .all(|it| matches!(it, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let (left, right) = (left.to_array(rows)?, right.to_array(rows)?);
        let DataType::Decimal128(_, scale) = args.return_type() else {
            return internal_err!("a quotient is a decimal");
        };
        let divided: ArrayRef = Arc::new(quotients(&left, &right, *scale)?);
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&divided, 0)?)
        } else {
            ColumnarValue::Array(divided)
        })
    }
}

fn quotients(left: &ArrayRef, right: &ArrayRef, to: i8) -> Result<Decimal128Array> {
    let decimal = |of: &ArrayRef| -> Result<(ArrayRef, u32)> {
        let scale = scale(of.data_type()).unwrap_or(0);
        let wide = cast(of, &DataType::Decimal128(38, scale))?;
        Ok((wide, u32::from(scale.unsigned_abs())))
    };
    let (left, of_left) = decimal(left)?;
    let (right, of_right) = decimal(right)?;
    // left / 10^a divided by right / 10^b is left * 10^(b + to - a) / right, in units of the last digit.
    let shift = (u32::from(to.unsigned_abs()) + of_right).saturating_sub(of_left);
    let unit = i256::from_i128(10).checked_pow(shift);
    let unit = unit.ok_or_else(too_large)?;
    let pairs = left.as_primitive::<Decimal128Type>().iter();
    let pairs = pairs.zip(right.as_primitive::<Decimal128Type>().iter());
    let quotients = pairs.map(|(left, right)| {
        let (Some(left), Some(right)) = (left, right) else {
            return Ok(None);
        };
        quotient(left, right, unit).map(Some)
    });
    let quotients = quotients.collect::<Result<Decimal128Array>>()?;
    Ok(quotients.with_precision_and_scale(38, to)?)
}

fn quotient(left: i128, right: i128, unit: i256) -> Result<i128> {
    /// The first number of more than 38 digits.
    const BEYOND: i128 = 10_i128.pow(38);
    if right == 0 {
        return Err(ArrowError::DivideByZero.into());
    }
    let whole = i256::from_i128(left).checked_mul(unit);
    let whole = whole.ok_or_else(too_large)?;
    let right = i256::from_i128(right);
    let rest = whole.wrapping_rem(right);
    let cut = whole.wrapping_div(right);
    let is_half = rest.wrapping_abs() >= right.wrapping_abs().wrapping_sub(rest.wrapping_abs());
    let rounded = match (is_half, whole.is_negative() == right.is_negative()) {
        (false, _) => cut,
        (true, true) => cut.wrapping_add(i256::ONE),
        (true, false) => cut.wrapping_sub(i256::ONE),
    };
    let fits = |value: &i128| value.unsigned_abs() < BEYOND.unsigned_abs();
    rounded.to_i128().filter(fits).ok_or_else(too_large)
}

fn too_large() -> datafusion::error::DataFusionError {
    ArrowError::ArithmeticOverflow(
        "value overflows numeric format: a quotient has 38 digits, 16 of them behind the point"
            .to_owned(),
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Digits by hand.
    #[test]
    fn quotients_are_rounded_away_from_zero_in_their_last_digit() {
        let unit = i256::from_i128(10_000);
        for (left, right, expected) in [
            (1, 3, 3_333),
            (2, 3, 6_667),
            (-2, 3, -6_667),
            (2, -3, -6_667),
            (1, 20_000, 1),
            (-1, 20_000, -1),
            (1, 20_001, 0),
            (7, 7, 10_000),
        ] {
            assert_eq!(
                quotient(left, right, unit).unwrap(),
                expected,
                "{left}/{right}"
            );
        }
        assert!(quotient(1, 0, unit).is_err());
        assert!(quotient(i128::MAX / 2, 1, unit).is_err());
    }
}
