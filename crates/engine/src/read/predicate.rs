//! Predicates on tags; those on fields are in `field.rs`.
//!
//! Does: say which values qualify. Does not: find the series that have them (`names/catalogue/selection.rs` does).

mod field;

use std::ops::RangeInclusive;

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
    /// A value in one of the ranges of texts, by their bytes. An absent tag is in none.
    Texts(Vec<TextRange>),
    /// A value that is an integer, written as one is printed, in one of the ranges. An absent tag is in none.
    Integers(Vec<RangeInclusive<i64>>),
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
            (Self::Texts(one), Self::Texts(other)) => one == other,
            (Self::Integers(one), Self::Integers(other)) => one == other,
            _ => false,
        }
    }
}

impl TagMatch {
    /// Whether a value, or its absence, matches.
    pub fn is_match(&self, value: Option<&str>) -> bool {
        match self {
            Self::OneOf(values) => values.iter().any(|wanted| wanted.as_deref() == value),
            Self::Pattern(pattern) => pattern.is_match(value.unwrap_or_default()),
            Self::Texts(ranges) => value.is_some_and(|value| {
                let text = value.as_bytes();
                ranges.iter().any(|range| range.contains(text))
            }),
            Self::Integers(ranges) => value.and_then(integer).is_some_and(|value| {
                let mut ranges = ranges.iter();
                ranges.any(|range| range.contains(&value))
            }),
        }
    }
}

/// The integer that a text is, if it is written as integers are printed: `+7` and `007` are other texts.
fn integer(text: &str) -> Option<i64> {
    let value: i64 = text.parse().ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = match digits.strip_prefix('0') {
        Some(rest) => rest.is_empty() && value == 0 && digits.len() == text.len(),
        None => !digits.starts_with('+'),
    };
    is_plain.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_is_a_text_as_integers_are_printed() {
        for value in [0, 7, -7, i64::MAX, i64::MIN] {
            assert_eq!(integer(&value.to_string()), Some(value));
        }
        for text in [
            "",
            "-",
            "+7",
            "007",
            "-0",
            "00",
            " 7",
            "7.0",
            "9223372036854775808",
        ] {
            assert_eq!(integer(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_absent_tag_is_in_no_range() {
        let all = TagMatch::Texts(vec![TextRange::default()]);
        assert!(all.is_match(Some("a")) && !all.is_match(None));
        let some = TagMatch::Integers(vec![-2..=2, 9..=9]);
        let found = |text| some.is_match(Some(text));
        assert!(found("-2") && found("9") && !found("3") && !found("a"));
        assert!(!some.is_match(None));
    }
}
