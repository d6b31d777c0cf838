//! `PostgreSQL`'s patterns of times for `to_char`.
//!
//! A pattern with `%` is one of `strftime` instead, which is what `DataFusion`'s function of this name takes. What is
//! no part of a pattern stands for itself, as does what is in double quotes.

use std::fmt::{self, Write};

use arrow::array::timezone::Tz;
use chrono::{DateTime, Datelike};

/// A pattern, taken apart once for all rows.
#[derive(Debug)]
pub(super) struct Pattern(Vec<Part>);

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Text(String),
    /// A specifier of `strftime`.
    Time(&'static str),
    /// A name: its specifier, its case and whether it is filled up with blanks to nine characters.
    Name(&'static str, Case, bool),
    Quarter,
    /// Weeks of the year that begin with its first day.
    Week,
    /// Sunday is 1.
    Weekday,
    /// Any pattern of `strftime`.
    Foreign(String),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Case {
    Upper,
    Lower,
    Title,
}

/// Parts, the longest first where one begins with another. `FM` before one takes what is in the second column.
const PARTS: [(&str, &str, &str); 23] = [
    ("IYYY", "%G", "%-G"),
    ("YYYY", "%Y", "%-Y"),
    ("HH24", "%H", "%-H"),
    ("HH12", "%I", "%-I"),
    ("DDD", "%j", "%-j"),
    ("YY", "%y", "%-y"),
    ("MM", "%m", "%-m"),
    ("DD", "%d", "%-d"),
    ("HH", "%I", "%-I"),
    ("MI", "%M", "%-M"),
    ("SS", "%S", "%-S"),
    ("MS", "%3f", "%3f"),
    ("US", "%6f", "%6f"),
    ("AM", "%p", "%p"),
    ("PM", "%p", "%p"),
    ("am", "%P", "%P"),
    ("pm", "%P", "%P"),
    ("ID", "%u", "%u"),
    ("IW", "%V", "%-V"),
    ("TZ", "%Z", "%Z"),
    ("tz", "%Z", "%Z"),
    ("OF", "%:z", "%:z"),
    ("CC", "%C", "%-C"),
];

const NAMES: [(&str, &str, Case); 12] = [
    ("MONTH", "%B", Case::Upper),
    ("Month", "%B", Case::Title),
    ("month", "%B", Case::Lower),
    ("MON", "%b", Case::Upper),
    ("Mon", "%b", Case::Title),
    ("mon", "%b", Case::Lower),
    ("DAY", "%A", Case::Upper),
    ("Day", "%A", Case::Title),
    ("day", "%A", Case::Lower),
    ("DY", "%a", Case::Upper),
    ("Dy", "%a", Case::Title),
    ("dy", "%a", Case::Lower),
];

impl Pattern {
    pub(super) fn new(pattern: &str) -> Self {
        if pattern.contains('%') {
            return Self(vec![Part::Foreign(pattern.to_owned())]);
        }
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = pattern;
        while !rest.is_empty() {
            if let Some(quoted) = rest.strip_prefix('"') {
                let (inside, after) = quoted.split_once('"').unwrap_or((quoted, ""));
                text.push_str(inside);
                rest = after;
                continue;
            }
            let bare = rest.strip_prefix("FM").or_else(|| rest.strip_prefix("fm"));
            if let Some((part, after)) = part(bare.unwrap_or(rest), bare.is_some()) {
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(part);
                rest = after;
                continue;
            }
            let mut letters = rest.chars();
            text.extend(letters.next());
            rest = letters.as_str();
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Self(parts)
    }

    pub(super) fn write(&self, time: &DateTime<Tz>, to: &mut impl Write) -> fmt::Result {
        for part in &self.0 {
            match part {
                Part::Text(text) => to.write_str(text)?,
                Part::Time(specifier) => write!(to, "{}", time.format(specifier))?,
                Part::Foreign(pattern) => write!(to, "{}", time.format(pattern))?,
                Part::Quarter => write!(to, "{}", time.month0() / 3 + 1)?,
                Part::Week => write!(to, "{:02}", time.ordinal0() / 7 + 1)?,
                Part::Weekday => write!(to, "{}", time.weekday().number_from_sunday())?,
                Part::Name(specifier, case, is_filled) => {
                    let name = time.format(specifier).to_string();
                    let name = match case {
                        Case::Upper => name.to_uppercase(),
                        Case::Lower => name.to_lowercase(),
                        Case::Title => name,
                    };
                    let width = if *is_filled { 9 } else { 0 };
                    write!(to, "{name:<width$}")?;
                }
            }
        }
        Ok(())
    }
}

/// The part that a pattern begins with, and what follows it.
fn part(pattern: &str, is_bare: bool) -> Option<(Part, &str)> {
    for (name, specifier, case) in NAMES {
        if let Some(after) = pattern.strip_prefix(name) {
            let is_filled = !is_bare && matches!(specifier, "%B" | "%A");
            return Some((Part::Name(specifier, case, is_filled), after));
        }
    }
    for (name, specifier, bare) in PARTS {
        let starts = pattern.get(..name.len()).is_some_and(|start| {
            // The case of what is a number is free; `AM` and `TZ` say theirs.
            start == name
                || (!matches!(name, "AM" | "PM" | "am" | "pm" | "TZ" | "tz")
                    && start.eq_ignore_ascii_case(name))
        });
        if starts {
            let specifier = if is_bare { bare } else { specifier };
            return Some((Part::Time(specifier), pattern.get(name.len()..)?));
        }
    }
    for (name, part) in [
        ("WW", Part::Week),
        ("Q", Part::Quarter),
        ("D", Part::Weekday),
    ] {
        if let Some(after) = pattern.strip_prefix(name) {
            return Some((part, after));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeZone;

    /// Answers of `PostgreSQL`'s manual and of its rules for blanks and case, for a Friday.
    #[test]
    fn patterns_write_what_postgresql_writes() {
        let zone: Tz = "+00:00".parse().unwrap();
        let time = zone.from_utc_datetime(
            &DateTime::from_timestamp(1_451_613_605, 123_456_000)
                .unwrap()
                .naive_utc(),
        );
        for (pattern, expected) in [
            ("YYYY-MM-DD HH24:MI:SS", "2016-01-01 02:00:05"),
            ("HH12:MI:SS.MS AM", "02:00:05.123 AM"),
            ("US", "123456"),
            ("FMDD. FMMonth YYYY", "1. January 2016"),
            ("Month|", "January  |"),
            ("DY, Mon DD", "FRI, Jan 01"),
            ("day", "friday   "),
            ("Q \"quarter\" YYYY", "1 quarter 2016"),
            ("IYYY-\"W\"IW-ID", "2015-W53-5"),
            ("DDD WW D", "001 01 6"),
            ("%Y/%m", "2016/01"),
            ("", ""),
        ] {
            let mut text = String::new();
            Pattern::new(pattern).write(&time, &mut text).unwrap();
            assert_eq!(text, expected, "{pattern}");
        }
    }
}
