//! Values that come beside a statement: `$name` and `$1` stand for them. They become literals of the plan, never text of
//! the statement.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::error::{Error, Position};
use crate::nearest::nearest;

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
    /// A float.
    F64(f64),
    /// Text; where a time is wanted, it is read as one.
    Text(String),
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

impl From<String> for Param {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

/// The values of a statement's parameters, by name and by number. More than the statement asks for do no harm.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Params {
    /// Numbers are names too.
    named: BTreeMap<String, Param>,
    numbered: usize,
}

impl Params {
    /// No values.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of `$name`.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Param>) -> &mut Self {
        self.named.insert(name.into(), value.into());
        self
    }

    /// The value of the next number: `$1` first.
    pub fn push(&mut self, value: impl Into<Param>) -> &mut Self {
        self.numbered += 1;
        self.named.insert(self.numbered.to_string(), value.into());
        self
    }

    /// Puts the values where their placeholders are.
    pub(crate) fn fill(&self, plan: LogicalPlan, sql: &str) -> Result<LogicalPlan, Error> {
        let placeholders: BTreeSet<String> = plan.get_parameter_names()?.into_iter().collect();
        for placeholder in &placeholders {
            self.check(placeholder, sql)?;
        }
        if placeholders.is_empty() {
            return Ok(plan);
        }
        let values: Vec<(String, ScalarValue)> = self
            .named
            .iter()
            .map(|(name, value)| (name.clone(), scalar(value)))
            .collect();
        Ok(plan.with_param_values(values)?)
    }

    fn check(&self, placeholder: &str, sql: &str) -> Result<(), Error> {
        let position = position_of(sql, placeholder);
        let name = placeholder.get(1..).unwrap_or_default();
        if name.is_empty() {
            let message = format!(
                "the placeholder {placeholder} has no name; write $1, $2, ... or $name, and give the values in params"
            );
            return Err(Error::Plan { message, position });
        }
        if self.named.contains_key(name) {
            return Ok(());
        }
        let meant = nearest(name, self.named.keys().cloned());
        let hint = meant.map_or_else(
            || "give one in params".to_owned(),
            |meant| format!("did you mean ${meant}?"),
        );
        let message = format!("no value for the placeholder {placeholder}; {hint}");
        Err(Error::Plan { message, position })
    }
}

fn scalar(value: &Param) -> ScalarValue {
    match value {
        Param::Null => ScalarValue::Null,
        Param::Bool(value) => ScalarValue::Boolean(Some(*value)),
        Param::I64(value) => ScalarValue::Int64(Some(*value)),
        Param::U64(value) => ScalarValue::UInt64(Some(*value)),
        Param::F64(value) => ScalarValue::Float64(Some(*value)),
        Param::Text(value) => ScalarValue::Utf8(Some(value.clone())),
    }
}

/// Where a placeholder stands first.
fn position_of(sql: &str, placeholder: &str) -> Option<Position> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql)
        .tokenize_with_location()
        .ok()?;
    let found = tokens
        .iter()
        .find(|token| matches!(&token.token, Token::Placeholder(text) if text == placeholder))?;
    Some(Position {
        line: found.span.start.line,
        column: found.span.start.column,
    })
}
