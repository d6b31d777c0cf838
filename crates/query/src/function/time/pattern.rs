//! `PostgreSQL`'s patterns of times for `to_char`.
//!
//! A pattern with `%` is one of `strftime` instead, which is what `DataFusion`'s function of this name takes. What is
//! no part of a pattern stands for itself, as does what is in double quotes.

use std::fmt::{self, Write};

use arrow::array::timezone::Tz;
use chrono::{DateTime, Datelike, Offset, Timelike};

/// A pattern, taken apart once for all rows.
#[derive(Debug)]
pub(in crate::function) struct Pattern(Vec<Part>);

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    /// A specifier of `strftime`.
    Time(&'static str),
    /// A name: its specifier, its case and whether it is filled up with blanks to nine characters.
    Name(&'static str, Case, bool),
    /// A number that `strftime` does not have, with zeros in front up to so many digits.
    Number(Number, usize),
    /// `Y,YYY`
    Thousands,
    /// The month in Roman numerals; filled up with blanks to four if so.
    Roman(Case, bool),
    /// Hours from UTC, with their sign.
    ZoneHours,
    /// A number with the letters of an ordinal.
    Ordinal(Box<Part>, Case),
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
const PARTS: [(&str, &str, &str); 24] = [
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
    ("BC", "AD", "AD"),
    ("AD", "AD", "AD"),
];

/// Numbers by their patterns, the longest first where one begins with another, with their digits.
const NUMBERS: [(&str, Number, usize); 21] = [
    ("SSSSS", |it| it.num_seconds_from_midnight().into(), 1),
    ("SSSS", |it| it.num_seconds_from_midnight().into(), 1),
    ("IDDD", iso_day, 3),
    ("YYY", |it| i64::from(it.year()).rem_euclid(1000), 3),
    (
        "IYY",
        |it| i64::from(it.iso_week().year()).rem_euclid(1000),
        3,
    ),
    (
        "IY",
        |it| i64::from(it.iso_week().year()).rem_euclid(100),
        2,
    ),
    ("CC", century, 2),
    // Weeks that begin with the first day of the year, and of the month.
    ("WW", |it| i64::from(it.ordinal0()) / 7 + 1, 2),
    ("TZM", |it| offset(it).abs() / 60 % 60, 2),
    ("FF1", |it| fraction(it, 1), 1),
    ("FF2", |it| fraction(it, 2), 2),
    ("FF3", |it| fraction(it, 3), 3),
    ("FF4", |it| fraction(it, 4), 4),
    ("FF5", |it| fraction(it, 5), 5),
    ("FF6", |it| fraction(it, 6), 6),
    ("W", |it| i64::from(it.day0()) / 7 + 1, 1),
    ("Y", |it| i64::from(it.year()).rem_euclid(10), 1),
    ("I", |it| i64::from(it.iso_week().year()).rem_euclid(10), 1),
    // Days since the 24th of November 4714 BC, which is 1,721,425 days before the year 1.
    ("J", |it| i64::from(it.num_days_from_ce()) + 1_721_425, 1),
    ("Q", |it| i64::from(it.month0()) / 3 + 1, 1),
    // Sunday is 1.
    ("D", |it| it.weekday().number_from_sunday().into(), 1),
];

type Number = fn(&DateTime<Tz>) -> i64;

const ROMAN: [&str; 12] = [
    "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII",
];

fn century(time: &DateTime<Tz>) -> i64 {
    let year = i64::from(time.year());
    if year > 0 {
        (year - 1) / 100 + 1
    } else {
        year / 100 - 1
    }
}

/// Days since the first Monday of the year of ISO 8601, from 1.
fn iso_day(time: &DateTime<Tz>) -> i64 {
    let week = i64::from(time.iso_week().week0());
    week * 7 + i64::from(time.weekday().number_from_monday())
}

/// The first digits of a second's fraction.
fn fraction(time: &DateTime<Tz>, digits: u32) -> i64 {
    i64::from(time.nanosecond() % 1_000_000_000) / 10_i64.pow(9 - digits)
}

/// Seconds from UTC.
fn offset(time: &DateTime<Tz>) -> i64 {
    time.offset().fix().local_minus_utc().into()
}

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
    pub(in crate::function) fn new(pattern: &str) -> Self {
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

    pub(in crate::function) fn write(
        &self,
        time: &DateTime<Tz>,
        to: &mut impl Write,
    ) -> fmt::Result {
        for part in &self.0 {
            part.write(time, to)?;
        }
        Ok(())
    }
}

impl Part {
    fn write(&self, time: &DateTime<Tz>, to: &mut impl Write) -> fmt::Result {
        match self {
            Part::Text(text) => to.write_str(text)?,
            Part::Time(specifier) => write!(to, "{}", time.format(specifier))?,
            Part::Foreign(pattern) => write!(to, "{}", time.format(pattern))?,
            Part::Number(number, width) => write!(to, "{:0width$}", number(time))?,
            Part::Thousands => {
                let year = time.year();
                write!(to, "{},{:03}", year / 1000, year.abs() % 1000)?;
            }
            Part::Roman(case, is_filled) => {
                let month = ROMAN.get(time.month0() as usize).copied().unwrap_or("");
                let width = if *is_filled { 4 } else { 0 };
                write!(to, "{:<width$}", case.of(month))?;
            }
            Part::ZoneHours => write!(to, "{:+03}", offset(time) / 3600)?,
            Part::Ordinal(part, case) => {
                let mut number = String::new();
                part.write(time, &mut number)?;
                write!(to, "{number}{}", case.of(ordinal(&number)))?;
            }
            Part::Name(specifier, case, is_filled) => {
                let name = time.format(specifier).to_string();
                let width = if *is_filled { 9 } else { 0 };
                write!(to, "{:<width$}", case.of(&name))?;
            }
        }
        Ok(())
    }

    /// Whether ordinals can be made of it.
    fn is_number(&self) -> bool {
        match self {
            Self::Time(specifier) => !matches!(*specifier, "%p" | "%P" | "%Z" | "%:z" | "AD"),
            Self::Number(..) | Self::Thousands => true,
            _ => false,
        }
    }
}

impl Case {
    fn of(self, name: &str) -> String {
        match self {
            Self::Upper => name.to_uppercase(),
            Self::Lower => name.to_lowercase(),
            Self::Title => name.to_owned(),
        }
    }
}

/// What makes an ordinal of a number in digits.
fn ordinal(number: &str) -> &'static str {
    let mut digits = number.bytes().rev();
    match (digits.next(), digits.next()) {
        (_, Some(b'1')) => "th",
        (Some(b'1'), _) => "st",
        (Some(b'2'), _) => "nd",
        (Some(b'3'), _) => "rd",
        _ => "th",
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
    for (name, case) in [("RM", Case::Upper), ("rm", Case::Lower)] {
        if let Some(after) = pattern.strip_prefix(name) {
            return Some((Part::Roman(case, !is_bare), after));
        }
    }
    for (name, part) in [("Y,YYY", Part::Thousands), ("TZH", Part::ZoneHours)] {
        if let Some(after) = without(pattern, name) {
            return Some((part, after));
        }
    }
    let times = PARTS.iter().filter_map(|(name, specifier, bare)| {
        let specifier = if is_bare { bare } else { specifier };
        Some((Part::Time(specifier), without(pattern, name)?))
    });
    let numbers = NUMBERS.iter().filter_map(|(name, number, width)| {
        let width = if is_bare { 1 } else { *width };
        Some((Part::Number(*number, width), without(pattern, name)?))
    });
    // The longest counts: `SSSS` is no `SS`, and `YYYY` no `YYY`.
    let (part, after) = times.chain(numbers).min_by_key(|(_, after)| after.len())?;
    for (letters, case) in [("TH", Case::Upper), ("th", Case::Lower)] {
        if part.is_number()
            && let Some(after) = after.strip_prefix(letters)
        {
            return Some((Part::Ordinal(Box::new(part), case), after));
        }
    }
    Some((part, after))
}

/// What follows a part. The case of what is a number is free; `AM` and `TZ` say theirs.
fn without<'a>(pattern: &'a str, name: &str) -> Option<&'a str> {
    let is_of_its_case = matches!(name, "AM" | "PM" | "am" | "pm" | "TZ" | "tz" | "AD" | "BC");
    let (start, after) = pattern.split_at_checked(name.len())?;
    let is_it = start == name || (!is_of_its_case && start.eq_ignore_ascii_case(name));
    is_it.then_some(after)
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
            // As PostgreSQL 15 answers, which was asked.
            ("CC J Y,YYY YYY Y", "21 2457389 2,016 016 6"),
            ("IYY IY I IDDD", "015 15 5 369"),
            ("SSSS SSSSS FF1 FF2 FF4 FF6", "7205 7205 1 12 1234 123456"),
            ("W WW RM|FMRM|rm", "1 01 I   |I|i   "),
            ("DDth MMTH FMDDth DDDth", "01st 01ST 1st 001st"),
            ("BC AD TZH:TZM", "AD AD +00:00"),
            ("%Y/%m", "2016/01"),
            ("", ""),
        ] {
            let mut text = String::new();
            Pattern::new(pattern).write(&time, &mut text).unwrap();
            assert_eq!(text, expected, "{pattern}");
        }
    }
}
