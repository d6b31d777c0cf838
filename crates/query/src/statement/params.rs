//! Values that come beside a statement: `$name` and `$1` stand for them.
//!
//! Does: put the values into the parsed statement as literals, so that what plans or writes it sees no difference. Does
//! not: put text into text; a value never becomes SQL.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, UnaryOperator, Value, ValueWithSpan, VisitMut, VisitorMut,
};
use nilometer_engine::nearest;

use super::name::position;
use super::{cast, timestamp_type};
use crate::error::{Error, Position};

/// One value.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Param {
    /// No value.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A float, also one that is no number.
    F64(f64),
    /// Text; where a time is wanted, it is read as one.
    Text(String),
    /// A time in Unix nanoseconds.
    Time(i64),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl From<bool> for Param {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Param {
    fn from(value: i64) -> Self {
        Self::I64(value)
    }
}

impl From<u64> for Param {
    fn from(value: u64) -> Self {
        Self::U64(value)
    }
}

impl From<f64> for Param {
    fn from(value: f64) -> Self {
        Self::F64(value)
    }
}

impl From<&str> for Param {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Param {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Param {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The values of a statement's parameters, by name and by number. More than the statement asks for do no harm.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Params {
    named: BTreeMap<String, Param>,
    numbered: Vec<Param>,
}

impl Params {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of `$name`; the name may be given with its `$`.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Param>) -> &mut Self {
        let name: String = name.into();
        let name = name.strip_prefix('$').map(str::to_owned).unwrap_or(name);
        self.named.insert(name, value.into());
        self
    }

    /// The value of the next number: `$1` first.
    pub fn push(&mut self, value: impl Into<Param>) -> &mut Self {
        self.numbered.push(value.into());
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.numbered.is_empty()
    }

    /// Puts the values into a statement.
    pub(super) fn fill(&self, statement: &mut impl VisitMut) -> Result<(), Error> {
        match statement.visit(&mut Fill(self)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    fn literal(&self, placeholder: &str, position: Option<Position>) -> Result<Expr, Error> {
        let Some(name) = placeholder
            .strip_prefix('$')
            .filter(|name| !name.is_empty())
        else {
            return Err(Error::Parameter {
                name: placeholder.to_owned(),
                reason: "write $name for a value by name, or $1 for the first one by number"
                    .to_owned(),
                position,
            });
        };
        let number: Option<usize> = name.parse().ok();
        let numbered = number
            .and_then(|number| number.checked_sub(1))
            .and_then(|at| self.numbered.get(at));
        match numbered.or_else(|| self.named.get(name)) {
            Some(value) => Ok(value.literal()),
            None => Err(Error::Parameter {
                name: placeholder.to_owned(),
                reason: self.missing(name, number.is_some()),
                position,
            }),
        }
    }

    fn missing(&self, name: &str, is_number: bool) -> String {
        if is_number {
            return format!("{} values were given by number", self.numbered.len());
        }
        match nearest(name, self.named.keys().cloned()) {
            Some(near) => format!("no value of this name was given; did you mean \"${near}\"?"),
            None => "no value of this name was given; add it to the parameters".to_owned(),
        }
    }
}

impl Param {
    fn literal(&self) -> Expr {
        match self {
            Self::Null => Expr::value(Value::Null),
            Self::Bool(value) => Expr::value(Value::Boolean(*value)),
            Self::I64(value) => number(value.unsigned_abs().to_string(), *value < 0),
            Self::U64(value) => number(value.to_string(), false),
            Self::F64(value) if value.is_finite() => {
                number(format!("{:e}", value.abs()), value.is_sign_negative())
            }
            Self::F64(value) => cast(text(&value.to_string()), ast::DataType::DoublePrecision),
            Self::Text(value) => text(value),
            // As text: a cast would take a number for seconds.
            Self::Time(value) => {
                let time = chrono::DateTime::from_timestamp_nanos(*value);
                cast(text(&time.to_rfc3339()), timestamp_type())
            }
            Self::Bytes(value) => {
                let digits = value.iter().map(|byte| format!("{byte:02X}"));
                Expr::value(Value::HexStringLiteral(digits.collect()))
            }
        }
    }
}

fn text(value: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(value.to_owned()))
}

fn number(digits: String, negative: bool) -> Expr {
    let digits = Expr::value(Value::Number(digits, false));
    if !negative {
        return digits;
    }
    Expr::UnaryOp {
        op: UnaryOperator::Minus,
        expr: Box::new(digits),
    }
}

struct Fill<'a>(&'a Params);

impl VisitorMut for Fill<'_> {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        if let Expr::Value(ValueWithSpan {
            value: Value::Placeholder(name),
            span,
        }) = expr
        {
            match self.0.literal(name, position(*span)) {
                Ok(literal) => *expr = literal,
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}
