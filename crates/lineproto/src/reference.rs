//! The reference parser: one line, byte by byte, in the order in which InfluxDB 1.x looks at it. It defines what every
//! line means and which error a bad one gets; nothing here is written to be fast.
//!
//! Next: [`crate::reader`] for the parser that is.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::error::shown;
use crate::escape::{self, first_unescaped, unescape};
use crate::lines::{blanks, trim};
use crate::point::{Field, FieldValue, OwnedPoint};
use crate::series::{RawSeries, SeriesKey};
use crate::{KEY_BYTES_MAX, KEY_SEPARATOR_BYTES, LineError, Precision, Reason};

/// Reads one line: `None` if it is blank or a comment. `line_number` only goes into the error.
///
/// The line is one as [`crate::Lines`] cuts them; white space before it and a line ending are skipped.
pub fn parse_line(
    line: &[u8],
    line_number: usize,
    precision: Precision,
) -> Result<Option<OwnedPoint>, LineError<'_>> {
    let line = trim(line);
    if matches!(line.first(), None | Some(b'#')) {
        return Ok(None);
    }
    match split(line, precision) {
        Ok(point) => Ok(Some(point.into_owned())),
        Err(reason) => Err(LineError {
            line_number,
            line,
            reason,
        }),
    }
}

/// A line taken apart and checked, borrowed from it.
pub(crate) struct SplitLine<'a> {
    pub(crate) series: &'a [u8],
    pub(crate) key: SeriesKey<'a>,
    pub(crate) fields: Vec<Field<'a>>,
    pub(crate) timestamp: Option<i64>,
}

impl SplitLine<'_> {
    fn into_owned(self) -> OwnedPoint {
        OwnedPoint {
            measurement: self.key.measurement.into_owned(),
            tags: self
                .key
                .tags
                .into_iter()
                .map(|(key, value)| (key.into_owned(), value.into_owned()))
                .collect(),
            fields: self
                .fields
                .into_iter()
                .map(|field| (field.name().into_owned(), field.value.into_owned()))
                .collect(),
            timestamp: self.timestamp,
        }
    }
}

/// Takes a trimmed line apart that is neither blank nor a comment.
pub(crate) fn split(line: &[u8], precision: Precision) -> Result<SplitLine<'_>, Reason> {
    let end = first_unescaped(line, 1, b" ");
    let series = &line[..end.unwrap_or(line.len())];
    let raw = RawSeries::split(series)?;
    let end = end.ok_or(Reason::MissingFields)?;
    let key = raw.check()?;
    let (fields, rest) = fields(&line[end..])?;
    for field in &fields {
        let bytes = series.len() + KEY_SEPARATOR_BYTES + field.key.len();
        if bytes > KEY_BYTES_MAX {
            return Err(Reason::KeyTooLong { bytes });
        }
    }
    let timestamp = timestamp(rest, precision)?;
    Ok(SplitLine {
        series,
        key,
        fields,
        timestamp,
    })
}

/// The fields at the start of `text`, and what follows them: nothing, or a space and the timestamp.
fn fields(text: &[u8]) -> Result<(Vec<Field<'_>>, &[u8]), Reason> {
    let mut fields: Vec<Field> = Vec::new();
    let mut index_of: HashMap<&[u8], usize> = HashMap::new();
    let mut rest = &text[blanks(text)..];
    loop {
        let key = match first_unescaped(rest, 0, b"=, ") {
            Some(0) if rest[0] == b'=' => return Err(Reason::MissingFieldKey),
            Some(end) if rest[end] == b'=' => &rest[..end],
            _ => return Err(Reason::InvalidFieldFormat),
        };
        if std::str::from_utf8(key).is_err() {
            return Err(Reason::InvalidUtf8);
        }
        let (value, bytes) = field_value(&rest[key.len() + 1..])?;
        rest = &rest[key.len() + 1 + bytes..];
        if let Some(&index) = index_of.get(key) {
            fields[index].value = value;
        } else {
            index_of.insert(key, fields.len());
            fields.push(Field { key, value });
        }
        match rest.first() {
            Some(b',') => rest = &rest[1..],
            _ => return Ok((fields, rest)),
        }
    }
}

/// The value at the start of `text` and its length. A comma, a space or nothing follows it.
fn field_value(text: &[u8]) -> Result<(FieldValue<'_>, usize), Reason> {
    let end = text
        .iter()
        .position(|byte| matches!(byte, b',' | b' '))
        .unwrap_or(text.len());
    let word = &text[..end];
    match text.first() {
        None | Some(b',' | b' ') => Err(Reason::MissingFieldValue),
        Some(b'"') => string(text),
        Some(b'0'..=b'9' | b'.' | b'-' | b'N' | b'n') => Ok((number(word)?, end)),
        Some(_) => Ok((FieldValue::Boolean(boolean(word)?), end)),
    }
}

fn boolean(word: &[u8]) -> Result<bool, Reason> {
    match word {
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => Ok(true),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => Ok(false),
        _ => Err(Reason::InvalidBoolean),
    }
}

/// The number that `word` is. The suffix decides the type; the rest follows the checks of InfluxDB 1.x, which tell an
/// `invalid number` (these characters in this order are none) from an `invalid float` (they may be, but have no value).
fn number(word: &[u8]) -> Result<FieldValue<'static>, Reason> {
    let (body, suffix) = match word.split_last() {
        Some((b'i', body)) => (body, b'i'),
        Some((b'u', body)) => (body, b'u'),
        _ => (word, 0),
    };
    let unsigned = body.strip_prefix(b"-").unwrap_or(body);
    let (mut points, mut exponents) = (0, 0);
    for (i, byte) in unsigned.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {}
            b'.' => points += 1,
            b'e' | b'E' => exponents += 1,
            b'+' | b'-' if i > 0 && matches!(unsigned[i - 1], b'e' | b'E') => {}
            _ => return Err(Reason::InvalidNumber),
        }
    }
    let integral = points == 0 && exponents == 0;
    if points > 1 || unsigned.len() == points || (suffix != 0 && !integral) {
        return Err(Reason::InvalidNumber);
    }
    let text = std::str::from_utf8(body).map_err(|_| Reason::InvalidNumber)?;
    match suffix {
        // What is left are digits, so the only thing that can be wrong is that there are too many.
        b'i' => text
            .parse()
            .map(FieldValue::Integer)
            .map_err(|_| Reason::IntegerRange {
                digits: shown(body),
            }),
        b'u' if body.len() > unsigned.len() => Err(Reason::InvalidNumber),
        b'u' => text
            .parse()
            .map(FieldValue::Unsigned)
            .map_err(|_| Reason::UnsignedRange {
                digits: shown(body),
            }),
        _ => match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(FieldValue::Float(value)),
            _ => Err(Reason::InvalidFloat),
        },
    }
}

/// The string at the start of `text`, and its length with the quotes.
fn string(text: &[u8]) -> Result<(FieldValue<'_>, usize), Reason> {
    let mut end = 1;
    loop {
        match text.get(end) {
            None => return Err(Reason::UnbalancedQuotes),
            Some(b'"') => break,
            Some(b'\\') if matches!(text.get(end + 1), Some(b'"' | b'\\')) => end += 2,
            Some(_) => end += 1,
        }
    }
    if !matches!(text.get(end + 1), None | Some(b',' | b' ')) {
        return Err(after_string(&text[end + 1..]));
    }
    let text = std::str::from_utf8(&text[1..end]).map_err(|_| Reason::InvalidUtf8)?;
    Ok((FieldValue::Text(unescape(text, escape::TEXT)), end + 1))
}

/// What to call it when something other than a separator follows a string: quotes that do not pair up, if that is so.
fn after_string(text: &[u8]) -> Reason {
    let mut open = false;
    let mut at = 0;
    while at < text.len() && (open || text[at] != b' ') {
        match text[at] {
            b'\\' => at += 1,
            b'"' => open = !open,
            _ => {}
        }
        at += 1;
    }
    if open {
        Reason::UnbalancedQuotes
    } else {
        Reason::InvalidFieldFormat
    }
}

/// The time in nanoseconds that `text`, what follows the fields, gives.
fn timestamp(text: &[u8], precision: Precision) -> Result<Option<i64>, Reason> {
    let text = &text[blanks(text)..];
    let end = text
        .iter()
        .position(|&byte| byte == b' ')
        .unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    if word.is_empty() {
        return Ok(None);
    }
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Reason::BadTimestamp);
    }
    if digits.is_empty() {
        return Err(Reason::TimestampSyntax);
    }
    let text: Cow<str> = String::from_utf8_lossy(word);
    let timestamp: i64 = text.parse().map_err(|_| Reason::TimestampRange {
        digits: shown(word),
    })?;
    let time_ns = precision
        .nanoseconds(timestamp)
        .ok_or(Reason::TimeOutsideRange)?;
    if after.iter().any(|&byte| byte != b' ') {
        return Err(Reason::PointInvalid);
    }
    Ok(Some(time_ns))
}
