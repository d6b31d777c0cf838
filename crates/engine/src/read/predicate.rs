//! Predicates on tags; those on fields are in `field.rs`.
//!
//! Does: say which values qualify. Does not: find the series that have them (`names/catalogue/selection.rs` does).

mod field;

use regex::Regex;

pub use field::{FieldMatch, FieldPredicate, TextRange};

/// Keeps the series whose tag does, or does not, match.
#[derive(Debug, Clone, PartialEq)]
pub struct TagPredicate {
    /// Position of the tag in [`crate::TableSchema::arrow_schema`].
    pub column: usize,
    /// What the tag is compared with.
    pub matches: TagMatch,
    /// Keep the series that do not match.
    pub negated: bool,
}

/// What a tag is compared with.
#[derive(Debug, Clone)]
pub enum TagMatch {
    /// One of these values; `None` = the tag is absent. No tag has the empty value.
    OneOf(Vec<Option<String>>),
    /// A value in which the expression is found somewhere; an absent tag counts as the empty value. InfluxDB's way.
    Pattern(Regex),
}

impl TagPredicate {
    /// Keeps the series in whose tag a regular expression is found somewhere, or, if `negated`, is not. The error says what
    /// is wrong with the expression.
    pub fn pattern(column: usize, pattern: &str, negated: bool) -> Result<Self, String> {
        let pattern = Regex::new(pattern).map_err(|error| error.to_string())?;
        Ok(Self {
            column,
            matches: TagMatch::Pattern(pattern),
            negated,
        })
    }

    /// Keeps the series whose tag is one of some values; `None` = it is absent.
    pub fn one_of(column: usize, values: Vec<Option<String>>) -> Self {
        Self {
            column,
            matches: TagMatch::OneOf(values),
            negated: false,
        }
    }
}

impl PartialEq for TagMatch {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::OneOf(one), Self::OneOf(other)) => one == other,
            (Self::Pattern(one), Self::Pattern(other)) => one.as_str() == other.as_str(),
            _ => false,
        }
    }
}

impl TagMatch {
    /// Whether a value, or its absence, matches.
    pub(crate) fn is_match(&self, value: Option<&str>) -> bool {
        match self {
            Self::OneOf(values) => values.iter().any(|wanted| wanted.as_deref() == value),
            Self::Pattern(pattern) => pattern.is_match(value.unwrap_or_default()),
        }
    }
}
