//! Choice of series by one of their tags.
//!
//! Does: say what a value must be, print patterns as regular expressions, and answer by comparing texts. Does not: use a
//! library of regular expressions; what a pattern finds is known from how it was made.

use super::Tags;

/// Series by the value of one tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagFilter {
    /// The tag.
    pub name: String,
    /// What its value must be.
    pub wanted: Wanted,
    /// They are the ones to leave out.
    pub negated: bool,
}

/// What the value of a tag must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// One of these; `None` = absent.
    OneOf(Vec<Option<String>>),
    /// One in which the pattern is found; an absent tag counts as the empty value.
    Pattern(Pattern),
}

/// A regular expression of a kind that needs no library to be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// Found in every value, also in the one that is absent.
    Anything,
    /// Found in every value that is there.
    Something,
    /// Found where this text is.
    Contains(String),
    /// The same, in upper or lower case.
    ContainsAnyCase(String),
    /// Found where a value starts with this text.
    Starts(String),
    /// Found where a value ends with this text.
    Ends(String),
    /// Found where a value is one of these.
    Is(Vec<String>),
    /// Found where a value has a digit between these two.
    Digit(char, char),
}

impl Pattern {
    /// The expression.
    pub fn text(&self) -> String {
        match self {
            Self::Anything => ".*".to_owned(),
            Self::Something => ".+".to_owned(),
            Self::Contains(text) => escaped(text),
            Self::ContainsAnyCase(text) => format!("(?i){}", escaped(text)),
            Self::Starts(text) => format!("^{}", escaped(text)),
            Self::Ends(text) => format!("{}$", escaped(text)),
            Self::Is(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| escaped(text)).collect();
                format!("^(?:{})$", texts.join("|"))
            }
            Self::Digit(first, last) => format!("[{first}-{last}]"),
        }
    }

    /// Whether it is found in a value.
    pub fn is_found(&self, value: &str) -> bool {
        match self {
            Self::Anything => true,
            Self::Something => !value.is_empty(),
            Self::Contains(text) => value.contains(text),
            Self::ContainsAnyCase(text) => value.to_lowercase().contains(&text.to_lowercase()),
            Self::Starts(text) => value.starts_with(text),
            Self::Ends(text) => value.ends_with(text),
            Self::Is(texts) => texts.iter().any(|text| text == value),
            Self::Digit(first, last) => value.chars().any(|c| (*first..=*last).contains(&c)),
        }
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

impl TagFilter {
    /// Whether a series with these tags is meant.
    pub fn keeps(&self, tags: &Tags) -> bool {
        let value = tags.get(&self.name);
        let is_wanted = match &self.wanted {
            Wanted::OneOf(values) => values.iter().any(|wanted| wanted.as_ref() == value),
            Wanted::Pattern(pattern) => pattern.is_found(value.map_or("", String::as_str)),
        };
        is_wanted != self.negated
    }
}

/// Whether a series with these tags is meant by all.
pub fn all_keep(filters: &[TagFilter], tags: &Tags) -> bool {
    filters.iter().all(|filter| filter.keeps(tags))
}
