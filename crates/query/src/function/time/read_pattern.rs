//! `PostgreSQL`'s patterns of times for `to_date` and `to_timestamp`: a text that follows one, as a time in its usual form.
//!
//! Does: read years, months, days, hours and parts of a second, names of months, and AM and PM, with what stands between them passed
//! over as `PostgreSQL` does. Does not: read weeks, Julian days, eras, Roman numerals or zones, whose patterns are refused; or say
//! which zone the time is in (the cast of the text does).

use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The function that stands in the place of the two.
pub(crate) const NAME: &str = "__time_by_pattern";

pub(in crate::function) fn function() -> Arc<ScalarUDF> {
    let kinds = vec![DataType::Utf8, DataType::Utf8];
    let signature = Signature::exact(kinds, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(ByPattern { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ByPattern {
    signature: Signature,
}

impl ScalarUDFImpl for ByPattern {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [texts, patterns] = args.args.as_slice() else {
            return internal_err!("{NAME} takes a text and a pattern");
        };
        let is_scalar = [texts, patterns]
            .iter()
            .all(|it| matches!(it, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let (texts, patterns) = (texts.to_array(rows)?, patterns.to_array(rows)?);
        let pairs = texts.as_string::<i32>().iter();
        let pairs = pairs.zip(patterns.as_string::<i32>().iter());
        let times = pairs.map(|pair| match pair {
            (Some(text), Some(pattern)) => read(text, pattern).map(Some),
            _ => Ok(None),
        });
        let times: ArrayRef = Arc::new(times.collect::<Result<StringArray>>()?);
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&times, 0)?)
        } else {
            ColumnarValue::Array(times)
        })
    }
}

/// A part of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// A number of so many digits.
    Year(usize),
    Month,
    Day,
    DayOfYear,
    Hour,
    HourOfHalf,
    Minute,
    Second,
    /// So many digits of a second.
    Fraction(usize),
    MonthName,
    HalfOfDay,
    /// A space, or another sign that is no letter and no digit.
    Between,
    /// Anything else stands for one letter.
    Any,
}

/// What parts are called, the longest first where one begins with another.
const PARTS: [(&str, Part); 29] = [
    ("MONTH", Part::MonthName),
    ("SSSSS", Part::Any),
    ("YYYY", Part::Year(4)),
    ("HH24", Part::Hour),
    ("HH12", Part::HourOfHalf),
    ("A.M.", Part::HalfOfDay),
    ("P.M.", Part::HalfOfDay),
    ("YYY", Part::Year(3)),
    ("MON", Part::MonthName),
    ("DDD", Part::DayOfYear),
    ("FF1", Part::Fraction(1)),
    ("FF2", Part::Fraction(2)),
    ("FF3", Part::Fraction(3)),
    ("FF4", Part::Fraction(4)),
    ("FF5", Part::Fraction(5)),
    ("FF6", Part::Fraction(6)),
    ("AM", Part::HalfOfDay),
    ("PM", Part::HalfOfDay),
    ("YY", Part::Year(2)),
    ("MM", Part::Month),
    ("DD", Part::Day),
    ("HH", Part::HourOfHalf),
    ("MI", Part::Minute),
    ("SS", Part::Second),
    ("MS", Part::Fraction(3)),
    ("US", Part::Fraction(6)),
    ("TH", Part::Any),
    ("Y", Part::Year(1)),
    ("D", Part::Any),
];

/// Parts that mean something in PostgreSQL which is not read here.
const REFUSED: [&str; 18] = [
    "Y,YYY", "IYYY", "IYY", "IDDD", "SSSSS", "SSSS", "TZH", "TZM", "TZ", "OF", "B.C.", "A.D.",
    "BC", "AD", "IW", "WW", "ID", "DAY",
];

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

fn parts_of(pattern: &str) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let starts = |name: &str| {
            rest.get(..name.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(name))
        };
        if first == '"' {
            let inner = rest.get(1..).unwrap_or_default();
            let (text, after) = inner.split_once('"').unwrap_or((inner, ""));
            parts.extend(text.chars().map(|_| Part::Any));
            rest = after;
            continue;
        }
        // They say how much is written, and as much is read as there is.
        if starts("FM") || starts("FX") || starts("TM") {
            rest = rest.get(2..).unwrap_or_default();
            continue;
        }
        if let Some(name) = REFUSED.iter().find(|name| starts(name)) {
            return exec_err!(
                "to_timestamp and to_date do not read the pattern \"{name}\" here; write the time with YYYY, MM, DD, HH24, MI and SS"
            );
        }
        if let Some((name, part)) = PARTS.iter().find(|(name, _)| starts(name)) {
            parts.push(*part);
            rest = rest.get(name.len()..).unwrap_or_default();
            continue;
        }
        parts.push(if first.is_alphanumeric() {
            Part::Any
        } else {
            Part::Between
        });
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    Ok(parts)
}

/// What was read of a time.
#[derive(Debug, Default)]
struct Found {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    is_half: bool,
    is_afternoon: Option<bool>,
    minute: i64,
    second: i64,
    ns: i64,
}

/// The text as a time: `2024-05-01 12:00:00.000000000`.
fn read(text: &str, pattern: &str) -> Result<String> {
    let parts = parts_of(pattern)?;
    let mut found = Found::default();
    let mut letters = text.chars().peekable();
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Between => {
                // One sign of the pattern passes over as many as there are.
                while letters.next_if(|it| !it.is_alphanumeric()).is_some() {}
                continue;
            }
            Part::Any => {
                letters.next();
                continue;
            }
            _ => while letters.next_if(|it| it.is_whitespace()).is_some() {},
        }
        if letters.peek().is_none() {
            break;
        }
        // A number before another one has as many digits as its part; else it ends where the digits do.
        let is_alone = !matches!(
            parts.get(at + 1),
            Some(
                Part::Year(_)
                    | Part::Month
                    | Part::Day
                    | Part::DayOfYear
                    | Part::Hour
                    | Part::HourOfHalf
                    | Part::Minute
                    | Part::Second
                    | Part::Fraction(_)
            )
        );
        found.take(*part, &mut letters, is_alone, text)?;
    }
    found.shown(text)
}

impl Found {
    fn take(
        &mut self,
        part: Part,
        letters: &mut Peekable<Chars<'_>>,
        is_alone: bool,
        text: &str,
    ) -> Result<()> {
        let mut number = |digits: usize, what: &str| -> Result<(i64, usize)> {
            let most = if is_alone { 18 } else { digits };
            let mut read = String::new();
            while read.len() < most
                && let Some(digit) = letters.next_if(char::is_ascii_digit)
            {
                read.push(digit);
            }
            let value = read.parse().map_err(|_| {
                exec_datafusion_err!(
                    "invalid input syntax for type timestamp: \"{text}\" has no number for \"{what}\""
                )
            })?;
            Ok((value, read.len()))
        };
        match part {
            Part::Year(digits) => {
                let (year, written) = number(digits, "YYYY")?;
                self.year = Some(full_year(year, if digits == 4 { 4 } else { written }));
            }
            Part::Month => self.month = Some(number(2, "MM")?.0),
            Part::Day => self.day = Some(number(2, "DD")?.0),
            Part::DayOfYear => self.day_of_year = Some(number(3, "DDD")?.0),
            Part::Hour => self.hour = number(2, "HH24")?.0,
            Part::HourOfHalf => {
                self.hour = number(2, "HH12")?.0;
                self.is_half = true;
            }
            Part::Minute => self.minute = number(2, "MI")?.0,
            Part::Second => self.second = number(2, "SS")?.0,
            Part::Fraction(digits) => {
                let (value, written) = number(digits, "MS")?;
                let written = u32::try_from(written.min(9)).unwrap_or(9);
                self.ns = value * 10_i64.pow(9 - written);
            }
            Part::MonthName => self.month = Some(month_named(letters, text)?),
            Part::HalfOfDay => self.is_afternoon = Some(is_afternoon(letters, text)?),
            Part::Between | Part::Any => {}
        }
        Ok(())
    }

    fn shown(&self, text: &str) -> Result<String> {
        let out_of_range =
            || exec_datafusion_err!("date/time field value out of range: \"{text}\"");
        let mut hour = self.hour;
        if self.is_half || self.is_afternoon.is_some() {
            if !(1..=12).contains(&hour) {
                return exec_err!("hour \"{hour}\" is invalid for the 12-hour clock");
            }
            hour %= 12;
            if self.is_afternoon == Some(true) {
                hour += 12;
            }
        }
        let is_clock = (0..24).contains(&hour)
            && (0..60).contains(&self.minute)
            && (0..60).contains(&self.second)
            && (0..1_000_000_000).contains(&self.ns);
        let year = i32::try_from(self.year.unwrap_or(1)).map_err(|_| out_of_range())?;
        let part = |number: i64| u32::try_from(number).map_err(|_| out_of_range());
        let date = if let Some(day) = self.day_of_year {
            chrono::NaiveDate::from_yo_opt(year, part(day)?)
        } else {
            let (month, day) = (self.month.unwrap_or(1), self.day.unwrap_or(1));
            chrono::NaiveDate::from_ymd_opt(year, part(month)?, part(day)?)
        };
        let date = date.filter(|_| is_clock).ok_or_else(out_of_range)?;
        let (minute, second, ns) = (self.minute, self.second, self.ns);
        Ok(format!(
            "{} {hour:02}:{minute:02}:{second:02}.{ns:09}",
            date.format("%Y-%m-%d")
        ))
    }
}

/// A year of fewer than four digits is the one that is nearest to 2020.
fn full_year(year: i64, digits: usize) -> i64 {
    match digits {
        1 | 2 if year < 70 => year + 2000,
        1 | 2 => year + 1900,
        3 if year < 520 => year + 2000,
        3 => year + 1000,
        _ => year,
    }
}

fn month_named(letters: &mut Peekable<Chars<'_>>, text: &str) -> Result<i64> {
    let mut word = String::new();
    while let Some(letter) = letters.next_if(|it| it.is_alphabetic()) {
        word.extend(letter.to_lowercase());
    }
    let mut months = MONTHS.iter();
    let found =
        months.position(|name| *name == word || (word.len() == 3 && name.starts_with(&word)));
    let found = found.and_then(|at| i64::try_from(at + 1).ok());
    found.ok_or_else(|| {
        exec_datafusion_err!(
            "invalid input syntax for type timestamp: \"{text}\" has no month where the pattern has one"
        )
    })
}

fn is_afternoon(letters: &mut Peekable<Chars<'_>>, text: &str) -> Result<bool> {
    let first = letters.next().map(|it| it.to_ascii_lowercase());
    letters.next_if_eq(&'.');
    let second = letters.next().map(|it| it.to_ascii_lowercase());
    letters.next_if_eq(&'.');
    match (first, second) {
        (Some('a'), Some('m')) => Ok(false),
        (Some('p'), Some('m')) => Ok(true),
        _ => exec_err!(
            "invalid input syntax for type timestamp: \"{text}\" has no AM or PM where the pattern has one"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PostgreSQL 15 answers.
    #[test]
    fn texts_are_read_by_their_patterns() {
        for (text, pattern, expected) in [
            ("20240229", "YYYYMMDD", "2024-02-29 00:00:00.000000000"),
            ("2024-1-5", "YYYY-MM-DD", "2024-01-05 00:00:00.000000000"),
            (
                "05 Dec 2000",
                "DD Mon YYYY",
                "2000-12-05 00:00:00.000000000",
            ),
            (
                "December 5, 2000",
                "Month DD, YYYY",
                "2000-12-05 00:00:00.000000000",
            ),
            (
                "2024/05/01 13:14:15",
                "YYYY-MM-DD HH24:MI:SS",
                "2024-05-01 13:14:15.000000000",
            ),
            (
                "2024-05-01 1:14 PM",
                "YYYY-MM-DD HH12:MI AM",
                "2024-05-01 13:14:00.000000000",
            ),
            (
                "2024-05-01T13:14:15.25",
                "YYYY-MM-DD\"T\"HH24:MI:SS.MS",
                "2024-05-01 13:14:15.250000000",
            ),
            ("12-31-99", "MM-DD-YY", "1999-12-31 00:00:00.000000000"),
            ("2024 060", "YYYY DDD", "2024-02-29 00:00:00.000000000"),
        ] {
            assert_eq!(read(text, pattern).unwrap(), expected, "{text} {pattern}");
        }
        for (text, pattern) in [
            ("2024-13-01", "YYYY-MM-DD"),
            ("2023-02-29", "YYYY-MM-DD"),
            ("x", "YYYY"),
            ("2024 13", "YYYY HH12"),
            ("2024", "IYYY"),
        ] {
            assert!(read(text, pattern).is_err(), "{text} {pattern}");
        }
    }
}
