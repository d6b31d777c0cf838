//! Values for placeholders: `$name` and `$1` in a statement become literals of the plan, never text of the statement.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::error::{Error, Position};
use crate::nearest::nearest;

/// A value for a placeholder.
#[derive(Debug, Clone, PartialEq)]
pub enum Parameter {
    /// No value, of no type.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A whole number that may be above the largest signed one.
    Unsigned(u64),
    /// A number.
    Float(f64),
    /// A text; compared with a time it is one.
    Text(String),
}

/// Values by the names of their placeholders without the `$`: `name` for `$name`, `1` for `$1`.
pub type Parameters = BTreeMap<String, Parameter>;

/// Puts values where their placeholders are. Both must be there: a value too many is a misspelt name most likely.
pub(crate) fn fill(
    plan: LogicalPlan,
    sql: &str,
    parameters: &Parameters,
) -> Result<LogicalPlan, Error> {
    let placeholders: BTreeSet<String> = plan.get_parameter_names()?.into_iter().collect();
    for placeholder in &placeholders {
        let position = position_of(sql, placeholder);
        let name = placeholder.get(1..).unwrap_or_default();
        if name.is_empty() {
            let message = format!(
                "the placeholder {placeholder} has no name; write $1, $2, ... or $name, and give the values in params"
            );
            return Err(Error::Plan { message, position });
        }
        if !parameters.contains_key(name) {
            let meant = nearest(name, parameters.keys().cloned());
            let hint = meant.map_or_else(
                || "give one in params".to_owned(),
                |meant| format!("did you mean ${meant}?"),
            );
            let message = format!("no value for the placeholder {placeholder}; {hint}");
            return Err(Error::Plan { message, position });
        }
    }
    if let Some(name) = parameters
        .keys()
        .find(|name| !placeholders.contains(&format!("${name}")))
    {
        return Err(Error::Plan {
            message: format!(
                "params has a value for ${name}, which the statement does not have; leave it out"
            ),
            position: None,
        });
    }
    if placeholders.is_empty() {
        return Ok(plan);
    }
    let values: Vec<(String, ScalarValue)> = parameters
        .iter()
        .map(|(name, value)| (name.clone(), scalar(value)))
        .collect();
    Ok(plan.with_param_values(values)?)
}

fn scalar(value: &Parameter) -> ScalarValue {
    match value {
        Parameter::Null => ScalarValue::Null,
        Parameter::Boolean(value) => ScalarValue::Boolean(Some(*value)),
        Parameter::Integer(value) => ScalarValue::Int64(Some(*value)),
        Parameter::Unsigned(value) => ScalarValue::UInt64(Some(*value)),
        Parameter::Float(value) => ScalarValue::Float64(Some(*value)),
        Parameter::Text(value) => ScalarValue::Utf8(Some(value.clone())),
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
