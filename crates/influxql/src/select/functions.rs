//! Functions: which there are, and of what kind.

pub(crate) mod forecast;
pub(crate) mod order;
pub(crate) mod reduce;
pub(crate) mod sketch;
pub(crate) mod technical;
pub(crate) mod transform;

use crate::select::values::value::Value;

/// Whether a call chooses points and does not make new ones.
pub(crate) fn is_selector(name: &str) -> bool {
    matches!(
        name,
        "first" | "last" | "min" | "max" | "percentile" | "sample" | "top" | "bottom"
    )
}

/// Whether a call is worked out of the points of another one, or of a field, in their order.
pub(crate) fn is_transform(name: &str) -> bool {
    is_technical(name)
        || matches!(
            name,
            "derivative"
                | "non_negative_derivative"
                | "difference"
                | "non_negative_difference"
                | "moving_average"
                | "cumulative_sum"
                | "elapsed"
                | "count_hll"
                | "holt_winters"
                | "holt_winters_with_fit"
        )
}

pub(crate) fn is_technical(name: &str) -> bool {
    matches!(
        name,
        "exponential_moving_average"
            | "double_exponential_moving_average"
            | "triple_exponential_moving_average"
            | "relative_strength_index"
            | "triple_exponential_derivative"
            | "kaufmans_efficiency_ratio"
            | "kaufmans_adaptive_moving_average"
            | "chande_momentum_oscillator"
    )
}

pub(crate) fn is_math(name: &str) -> bool {
    matches!(
        name,
        "abs"
            | "sin"
            | "cos"
            | "tan"
            | "asin"
            | "acos"
            | "atan"
            | "atan2"
            | "exp"
            | "log"
            | "ln"
            | "log2"
            | "log10"
            | "sqrt"
            | "pow"
            | "floor"
            | "ceil"
            | "round"
    )
}

/// A function of mathematics; null of what is no number.
pub(crate) fn math(name: &str, arguments: &[Value]) -> Value {
    let Some(first) = arguments.first() else {
        return Value::Null;
    };
    match (name, first) {
        ("abs", Value::Integer(value)) => return Value::Integer(value.wrapping_abs()),
        ("abs" | "floor" | "ceil" | "round", Value::Unsigned(_))
        | ("floor" | "ceil" | "round", Value::Integer(_)) => return first.clone(),
        _ => {}
    }
    let Some(x) = first.as_float() else {
        return Value::Null;
    };
    let second = arguments.get(1).map(Value::as_float);
    let both = |of: fn(f64, f64) -> f64| match second {
        Some(Some(y)) => Some(of(x, y)),
        _ => None,
    };
    let found = match name {
        "abs" => Some(x.abs()),
        "floor" => Some(x.floor()),
        "ceil" => Some(x.ceil()),
        "round" => Some(x.round()),
        "sin" => Some(x.sin()),
        "cos" => Some(x.cos()),
        "tan" => Some(x.tan()),
        "asin" => Some(x.asin()),
        "acos" => Some(x.acos()),
        "atan" => Some(x.atan()),
        "exp" => Some(x.exp()),
        "ln" => Some(x.ln()),
        "log2" => Some(x.log2()),
        "log10" => Some(x.log10()),
        "sqrt" => Some(x.sqrt()),
        "atan2" => both(f64::atan2),
        "pow" => both(f64::powf),
        "log" => both(|x, base| x.ln() / base.ln()),
        _ => None,
    };
    found.map_or(Value::Null, Value::Float)
}
