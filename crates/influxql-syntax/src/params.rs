//! Values of parameters `$name`.

use std::collections::HashMap;

use crate::format_duration;
use crate::token::Kind;

/// Values by name, without the `$`.
pub type Params = HashMap<String, Value>;

/// What a parameter stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A float.
    Float(f64),
    /// An integer.
    Integer(i64),
    /// A text.
    Text(String),
    /// A boolean.
    Boolean(bool),
    /// An identifier: `{"identifier": "cpu"}`.
    Identifier(String),
    /// A regular expression: `{"regex": "^a"}`.
    Regex(String),
    /// A duration: `{"duration": "10m"}`.
    Duration(String),
    /// Not a value: the error is reported where the parameter is used.
    Unusable(String),
}

impl Value {
    /// The value of an object of one entry, as JSON gives it: `{"regex": "^a"}`.
    #[must_use]
    pub fn of_object(key: &str, value: Self) -> Self {
        let refused = |reason: &str| Self::Unusable(reason.to_owned());
        match (key, value) {
            ("ident" | "identifier", Self::Text(text)) => Self::Identifier(text),
            ("ident" | "identifier", _) => refused("identifier must be a string value"),
            ("regex", Self::Text(text)) => Self::Regex(text),
            ("regex", _) => refused("regex literal must be a string value"),
            ("string", Self::Text(text)) => Self::Text(text),
            ("string", _) => refused("string literal must be a string value"),
            ("float" | "number", Self::Float(value)) => Self::Float(value),
            ("float" | "number", Self::Integer(value)) => Self::Float(value as f64),
            ("float" | "number", _) => refused("number literal must be a float value"),
            ("int" | "integer", Self::Integer(value)) => Self::Integer(value),
            ("int" | "integer", _) => refused("integer literal must be an integer value"),
            ("duration", Self::Text(text)) => Self::Duration(text),
            ("duration", Self::Integer(ns)) => Self::Duration(format_duration(ns)),
            ("duration", _) => refused("duration literal must be a string or integer value"),
            (other, _) => Self::Unusable(format!("unknown bind object type: {other}")),
        }
    }

    pub(crate) fn token(&self) -> (Kind, String) {
        match self {
            // Rust writes floats without exponents, as Go does with 'f' and -1.
            Self::Float(value) => (Kind::Number, value.to_string()),
            Self::Integer(value) => (Kind::Integer, value.to_string()),
            Self::Text(text) => (Kind::Text, text.clone()),
            Self::Boolean(true) => (Kind::True, String::new()),
            Self::Boolean(false) => (Kind::False, String::new()),
            Self::Identifier(text) => (Kind::Ident, text.clone()),
            Self::Regex(text) => (Kind::Regex, text.clone()),
            Self::Duration(text) => (Kind::Duration, text.clone()),
            Self::Unusable(text) => (Kind::BoundParam, text.clone()),
        }
    }
}
