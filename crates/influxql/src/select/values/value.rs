//! Values of points, and InfluxQL's arithmetic on them.

use std::cmp::Ordering;
use std::sync::Arc;

use nilometer_influxql_syntax::ast::Operator;

/// A value of a field, a tag or an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Float(f64),
    Integer(i64),
    Unsigned(u64),
    Boolean(bool),
    Text(Arc<str>),
}

/// Types of values, in the order in which one is chosen of several: the first wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Float,
    Integer,
    Unsigned,
    Text,
    Boolean,
    Tag,
}

impl Kind {
    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::Float | Self::Integer | Self::Unsigned)
    }

    /// As InfluxDB names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Integer => "integer",
            Self::Unsigned => "unsigned",
            Self::Text => "string",
            Self::Boolean => "boolean",
            Self::Tag => "tag",
        }
    }
}

impl Value {
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(crate) fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            Self::Integer(value) => Some(*value as f64),
            Self::Unsigned(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// The value as one of this type; null if it cannot be.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a float too large becomes the largest integer"
    )]
    pub(crate) fn cast(&self, kind: Kind) -> Self {
        match (self, kind) {
            (Self::Float(_), Kind::Float)
            | (Self::Integer(_), Kind::Integer)
            | (Self::Unsigned(_), Kind::Unsigned)
            | (Self::Boolean(_), Kind::Boolean)
            | (Self::Text(_), Kind::Text | Kind::Tag) => self.clone(),
            (Self::Integer(value), Kind::Float) => Self::Float(*value as f64),
            (Self::Unsigned(value), Kind::Float) => Self::Float(*value as f64),
            (Self::Float(value), Kind::Integer) => Self::Integer(*value as i64),
            (Self::Unsigned(value), Kind::Integer) => Self::Integer(*value as i64),
            (Self::Float(value), Kind::Unsigned) => Self::Unsigned(*value as u64),
            (Self::Integer(value), Kind::Unsigned) => Self::Unsigned(*value as u64),
            _ => Self::Null,
        }
    }

    /// A number that fills a column of this type: of texts and booleans the empty one.
    pub(crate) fn filling(&self, kind: Kind) -> Self {
        match kind {
            Kind::Text | Kind::Tag => Self::Text("".into()),
            Kind::Boolean => Self::Boolean(false),
            kind => self.cast(kind),
        }
    }

    /// The order of values of one type; numbers of two types are compared as floats.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => left.cmp(right),
            (Self::Unsigned(left), Self::Unsigned(right)) => left.cmp(right),
            (Self::Boolean(left), Self::Boolean(right)) => left.cmp(right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            _ => match (self.as_float(), other.as_float()) {
                (Some(left), Some(right)) => left.partial_cmp(&right).unwrap_or(Ordering::Equal),
                _ => Ordering::Equal,
            },
        }
    }
}

/// Whether integers divide to a float, as they do among fields, or to an integer, as in conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Division {
    Float,
    Integer,
}

/// An operator on two values. What cannot be compared is not equal, and not unequal either.
pub(crate) fn operate(
    operator: Operator,
    left: &Value,
    right: &Value,
    division: Division,
) -> Value {
    use Value::{Boolean, Float, Integer, Null, Text, Unsigned};
    match (left, right) {
        // An absent boolean is false.
        (Null, Boolean(right)) => booleans(operator, false, *right),
        (Boolean(left), Null) => booleans(operator, *left, false),
        (Boolean(left), Boolean(right)) => booleans(operator, *left, *right),
        (Integer(left), Integer(right)) => integers(operator, *left, *right, division),
        (Unsigned(left), Unsigned(right)) => unsigned(operator, *left, *right),
        (Integer(left), Unsigned(right)) => mixed(
            operator,
            i128::from(*left),
            i128::from(*right),
            *left as u64,
            *right,
        ),
        (Unsigned(left), Integer(right)) => mixed(
            operator,
            i128::from(*left),
            i128::from(*right),
            *left,
            *right as u64,
        ),
        (Text(left), Text(right)) => match operator {
            Operator::Eq => Boolean(left == right),
            Operator::NotEq => Boolean(left != right),
            _ => incomparable(operator),
        },
        (Float(_) | Integer(_) | Unsigned(_), Float(_) | Integer(_) | Unsigned(_)) => {
            let (left, right) = (left.as_float(), right.as_float());
            floats(
                operator,
                left.unwrap_or(f64::NAN),
                right.unwrap_or(f64::NAN),
            )
        }
        _ => incomparable(operator),
    }
}

fn incomparable(operator: Operator) -> Value {
    if operator.is_condition() {
        Value::Boolean(false)
    } else {
        Value::Null
    }
}

fn booleans(operator: Operator, left: bool, right: bool) -> Value {
    Value::Boolean(match operator {
        Operator::And | Operator::BitAnd => left && right,
        Operator::Or | Operator::BitOr => left || right,
        Operator::Eq => left == right,
        Operator::BitXor | Operator::NotEq => left != right,
        _ => return incomparable(operator),
    })
}

fn compared(operator: Operator, order: Option<Ordering>) -> Option<Value> {
    let holds = |wanted: fn(Ordering) -> bool| Some(Value::Boolean(order.is_some_and(wanted)));
    match operator {
        Operator::Eq => holds(Ordering::is_eq),
        Operator::NotEq => Some(Value::Boolean(order.is_none_or(Ordering::is_ne))),
        Operator::Lt => holds(Ordering::is_lt),
        Operator::LtEq => holds(Ordering::is_le),
        Operator::Gt => holds(Ordering::is_gt),
        Operator::GtEq => holds(Ordering::is_ge),
        _ => None,
    }
}

fn floats(operator: Operator, left: f64, right: f64) -> Value {
    if let Some(holds) = compared(operator, left.partial_cmp(&right)) {
        return holds;
    }
    Value::Float(match operator {
        Operator::Add => left + right,
        Operator::Sub => left - right,
        Operator::Mul => left * right,
        Operator::Div if right == 0.0 => 0.0,
        Operator::Div => left / right,
        Operator::Mod => left % right,
        _ => return incomparable(operator),
    })
}

fn integers(operator: Operator, left: i64, right: i64, division: Division) -> Value {
    if let Some(holds) = compared(operator, Some(left.cmp(&right))) {
        return holds;
    }
    Value::Integer(match operator {
        Operator::Add => left.wrapping_add(right),
        Operator::Sub => left.wrapping_sub(right),
        Operator::Mul => left.wrapping_mul(right),
        Operator::Div if division == Division::Float => {
            return floats(operator, left as f64, right as f64);
        }
        Operator::Div | Operator::Mod if right == 0 => 0,
        Operator::Div => left.wrapping_div(right),
        Operator::Mod => left.wrapping_rem(right),
        Operator::BitAnd => left & right,
        Operator::BitOr => left | right,
        Operator::BitXor => left ^ right,
        _ => return incomparable(operator),
    })
}

fn unsigned(operator: Operator, left: u64, right: u64) -> Value {
    if let Some(holds) = compared(operator, Some(left.cmp(&right))) {
        return holds;
    }
    Value::Unsigned(match operator {
        Operator::Add => left.wrapping_add(right),
        Operator::Sub => left.wrapping_sub(right),
        Operator::Mul => left.wrapping_mul(right),
        Operator::Div | Operator::Mod if right == 0 => 0,
        Operator::Div => left / right,
        Operator::Mod => left % right,
        Operator::BitAnd => left & right,
        Operator::BitOr => left | right,
        Operator::BitXor => left ^ right,
        _ => return incomparable(operator),
    })
}

/// An integer and an unsigned one: compared by size, calculated without sign.
fn mixed(operator: Operator, left: i128, right: i128, bits: u64, other: u64) -> Value {
    match compared(operator, Some(left.cmp(&right))) {
        Some(holds) => holds,
        None => unsigned(operator, bits, other),
    }
}

#[cfg(test)]
mod tests {
    use super::{Division, Value, operate};
    use nilometer_influxql_syntax::ast::Operator;

    /// TSBS divides a status by itself to count what is not zero: x / 0 is 0 in InfluxQL, and never an error.
    #[test]
    fn division_by_zero_is_zero_and_integers_divide_to_floats() {
        use Value::{Boolean, Float, Integer, Null, Text};
        for (left, operator, right, expected) in [
            (Integer(7), Operator::Div, Integer(2), Float(3.5)),
            (Integer(7), Operator::Div, Integer(0), Float(0.0)),
            (Float(7.0), Operator::Div, Float(0.0), Float(0.0)),
            (Integer(7), Operator::Mod, Integer(0), Integer(0)),
            (
                Integer(i64::MAX),
                Operator::Add,
                Integer(1),
                Integer(i64::MIN),
            ),
            (Integer(1), Operator::Lt, Float(1.5), Boolean(true)),
            (Text("a".into()), Operator::Eq, Integer(1), Boolean(false)),
            (
                Text("a".into()),
                Operator::NotEq,
                Integer(1),
                Boolean(false),
            ),
            (Text("a".into()), Operator::Add, Text("b".into()), Null),
            (Null, Operator::Eq, Boolean(false), Boolean(true)),
            (Null, Operator::Add, Integer(1), Null),
            (Integer(6), Operator::BitXor, Integer(3), Integer(5)),
            (Float(1.0), Operator::BitAnd, Float(1.0), Null),
            (Value::Unsigned(1), Operator::Gt, Integer(-1), Boolean(true)),
        ] {
            let found = operate(operator, &left, &right, Division::Float);
            assert_eq!(found, expected, "{left:?} {operator:?} {right:?}");
        }
        assert_eq!(
            operate(Operator::Div, &Integer(7), &Integer(2), Division::Integer),
            Integer(3)
        );
    }
}
