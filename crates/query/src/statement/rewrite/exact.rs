//! Numbers with more digits than a float holds, where they are compared: `n > 9007199254740992.5`. The planner reads a number with
//! a point as a float, and then nobody knows any more what was written.
//!
//! Does: keep the digits, as `'9007199254740992.5'::numeric(17, 1)::double precision`. Does not: decide what they are; that depends
//! on the type that they are compared with, which `numbers` looks at.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, ExactNumberInfo, Expr, UnaryOperator, Value,
};

use crate::statement::types::cast;

/// Digits that every float keeps.
const DIGITS_OF_FLOAT: usize = 15;

/// Digits after the point that an integer of 64 bits can be compared with, in the 76 that a decimal has.
const DIGITS_MAX: usize = 76;
const SCALE_MAX: usize = 55;

/// Spells the operands of a comparison.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op, right } if compares(op) => {
            spell(left);
            spell(right);
        }
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            spell(left);
            spell(right);
        }
        Expr::Between {
            expr, low, high, ..
        } => [expr, low, high].into_iter().for_each(|it| spell(it)),
        Expr::InList { expr, list, .. } => {
            spell(expr);
            list.iter_mut().for_each(spell);
        }
        _ => {}
    }
}

fn compares(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

fn spell(expr: &mut Expr) {
    let Some(text) = number(expr) else {
        return;
    };
    let Some((precision, scale)) = long(&text) else {
        return;
    };
    let Ok(scale_signed) = i64::try_from(scale) else {
        return;
    };
    let info = ExactNumberInfo::PrecisionAndScale(precision, scale_signed);
    let text = Expr::value(Value::SingleQuotedString(text));
    let exact = cast(text, DataType::Numeric(info));
    *expr = cast(exact, DataType::DoublePrecision);
}

/// A number as it was written, with its sign.
fn number(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => number(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => match number(expr)? {
            text if text.starts_with('-') => None,
            text => Some(format!("-{text}")),
        },
        Expr::Value(value) => match &value.value {
            Value::Number(text, false) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Precision and scale of a number with a point that is longer than a float is exact.
fn long(text: &str) -> Option<(u64, usize)> {
    let digits = text.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.')?;
    let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain(whole) || !is_plain(fraction) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let length = whole.len() + fraction.len();
    let is_long = length > DIGITS_OF_FLOAT && length <= DIGITS_MAX && fraction.len() <= SCALE_MAX;
    let precision = u64::try_from(length).ok()?;
    is_long.then_some((precision, fraction.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_float_does_not_hold_is_long() {
        assert_eq!(long("9007199254740992.5"), Some((17, 1)));
        assert_eq!(long("-9007199254740992.50"), Some((18, 2)));
        assert_eq!(long("0009007199254740992.5"), Some((17, 1)));
        for text in ["2.5", "9007199254740993", "1e300", "0.1", "."] {
            assert_eq!(long(text), None, "{text}");
        }
    }
}
