//! Values, their types, and the rules that expressions follow.
//!
//! Does: say what a literal of a query is and how it is written. Does not: calculate; `evaluate` does.

use std::fmt;
use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use chrono::{DateTime, SecondsFormat};

/// Whose rules an expression follows where the languages differ.
///
/// | | `Postgres` | `Influx` |
/// |---|---|---|
/// | integer / integer | an integer, towards zero | a float |
/// | x / 0 | an error | 0 |
/// | integer overflow | an error | wraps around |
/// | absent tag | NULL: in no comparison | the text `''` |
/// | order of absent tags | last | first |
/// | NaN | equal to itself, above every number | IEEE: equal to nothing |
/// | unknown column | an error | absent in every row |
/// | aggregate of no rows, without groups | one row | no row |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rules {
    /// Of `PostgreSQL`.
    Postgres,
    /// Of `InfluxQL`.
    Influx,
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// True or false.
    Bool,
    /// 64 bits, signed.
    Int,
    /// 64 bits, unsigned.
    Unsigned,
    /// 64 bits, IEEE.
    Float,
    /// UTF-8.
    Text,
    /// Any bytes.
    Bytes,
    /// Nanoseconds since 1970.
    Time,
    /// The counts of a histogram.
    Counts,
    /// Of 128 bits, with so many digits behind the point.
    Numeric(u8),
}

/// A value of a query.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A float.
    Float(f64),
    /// A text.
    Text(Arc<str>),
    /// Nanoseconds since 1970.
    Time(i64),
}

/// A value, or the place of one that is bound later: shapes are kept with parameters in the places of their literals.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// This value.
    Value(Value),
    /// The value of this number, from 0.
    Parameter(usize),
}

impl<T: Into<Value>> From<T> for Literal {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(Arc::from(value))
    }
}

impl Value {
    /// Its type; `None` = of any.
    pub fn kind(&self) -> Option<Type> {
        Some(match self {
            Self::Null => return None,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Unsigned(_) => Type::Unsigned,
            Self::Float(_) => Type::Float,
            Self::Text(_) => Type::Text,
            Self::Time(_) => Type::Time,
        })
    }
}

impl Type {
    /// What it is in Arrow.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int64,
            Self::Unsigned => DataType::UInt64,
            Self::Float => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Self::Counts => DataType::new_list(DataType::Int64, false),
            Self::Numeric(scale) => DataType::Decimal128(38, scale.cast_signed()),
        }
    }

    /// Whether it is calculated with.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Unsigned | Self::Float)
    }

    /// The type of an Arrow column; `None` = no column of a query has it.
    pub(crate) fn of_arrow(kind: &DataType) -> Option<Self> {
        Some(match kind {
            DataType::Boolean => Self::Bool,
            DataType::Int64 => Self::Int,
            DataType::UInt64 => Self::Unsigned,
            DataType::Float64 => Self::Float,
            DataType::Utf8 | DataType::Dictionary(..) => Self::Text,
            DataType::Binary => Self::Bytes,
            DataType::Timestamp(..) => Self::Time,
            DataType::Decimal128(38, scale) => Self::Numeric(u8::try_from(*scale).ok()?),
            _ => return None,
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "boolean",
            Self::Int => "integer",
            Self::Unsigned => "unsigned integer",
            Self::Float => "float",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Time => "time",
            Self::Counts => "list of counts",
            Self::Numeric(_) => "numeric",
        })
    }
}

/// A time as a query writes it.
pub(crate) fn write_time(time_ns: i64) -> String {
    DateTime::from_timestamp_nanos(time_ns).to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// A text between quotes; a quote in it is doubled.
pub(crate) fn quoted(text: &str, quote: char) -> String {
    let doubled = [quote, quote].iter().collect::<String>();
    format!("{quote}{}{quote}", text.replace(quote, &doubled))
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Unsigned(value) => write!(f, "{value}u"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => f.write_str(&quoted(value, '\'')),
            Self::Time(value) => f.write_str(&write_time(*value)),
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value}"),
            // As prepared statements number them.
            Self::Parameter(number) => write!(f, "${}", number + 1),
        }
    }
}
