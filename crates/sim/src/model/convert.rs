//! Values of one type as another: what a field's new type makes of its values, by the rule alone.
//!
//! The rule: a value converts if converting it back gives the same value again. Numbers become texts as Rust prints
//! them.

use nilometer_codec::PhysicalType;

use crate::plan::Value;

/// The value as another type; `None` = it would not stay what it is.
pub(super) fn convert(value: &Value, to: PhysicalType) -> Option<Value> {
    let there = one_way(value, to)?;
    let back = one_way(&there, super::predict::type_of(value))?;
    (back == *value).then_some(there)
}

/// Integers that floats have without gaps.
const EXACT: f64 = 9_007_199_254_740_992.0;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "what is lost comes back as another value, which is what the caller looks for"
)]
fn one_way(value: &Value, to: PhysicalType) -> Option<Value> {
    let whole = match value {
        Value::Integer(value) => Some(i128::from(*value)),
        Value::Unsigned(value) => Some(i128::from(*value)),
        Value::Boolean(value) => Some(i128::from(*value)),
        Value::Float(bits) => {
            let float = f64::from_bits(*bits);
            (float.abs() <= EXACT).then_some(float as i128)
        }
        Value::Text(_) => None,
    };
    match (to, value) {
        (PhysicalType::Text, value) => Some(Value::Text(printed(value))),
        (to, Value::Text(text)) => match to {
            PhysicalType::I64 => Some(Value::Integer(text.parse().ok()?)),
            PhysicalType::U64 => Some(Value::Unsigned(text.parse().ok()?)),
            PhysicalType::Bool => Some(Value::Boolean(text.parse().ok()?)),
            PhysicalType::F64 => Some(Value::Float(text.parse::<f64>().ok()?.to_bits())),
            PhysicalType::Text | PhysicalType::Bytes => None,
        },
        (PhysicalType::I64, _) => Some(Value::Integer(whole?.try_into().ok()?)),
        (PhysicalType::U64, _) => Some(Value::Unsigned(whole?.try_into().ok()?)),
        (PhysicalType::Bool, _) => match whole? {
            0 => Some(Value::Boolean(false)),
            1 => Some(Value::Boolean(true)),
            _ => None,
        },
        (PhysicalType::F64, _) => {
            let float = whole? as f64;
            (float.abs() <= EXACT).then_some(Value::Float(float.to_bits()))
        }
        (PhysicalType::Bytes, _) => None,
    }
}

fn printed(value: &Value) -> String {
    match value {
        Value::Float(bits) => f64::from_bits(*bits).to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Unsigned(value) => value.to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::Text(text) => text.clone(),
    }
}
