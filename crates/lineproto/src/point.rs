//! A point: series, fields and an optional time.

use std::borrow::Cow;

use crate::escape::{self, unescape};
use crate::{LineError, Reason};

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue<'a> {
    /// A number without a suffix. Never NaN or infinite.
    Float(f64),
    /// A number with `i`.
    Integer(i64),
    /// A number with `u`.
    Unsigned(u64),
    /// One of the ten spellings of true and false.
    Boolean(bool),
    /// A string, without its quotes and escapes.
    Text(Cow<'a, str>),
}

impl FieldValue<'_> {
    /// Copies a text, so that the input can go.
    pub fn into_owned(self) -> FieldValue<'static> {
        match self {
            Self::Float(value) => FieldValue::Float(value),
            Self::Integer(value) => FieldValue::Integer(value),
            Self::Unsigned(value) => FieldValue::Unsigned(value),
            Self::Boolean(value) => FieldValue::Boolean(value),
            Self::Text(text) => FieldValue::Text(Cow::Owned(text.into_owned())),
        }
    }
}

/// One field of a point.
#[derive(Debug, Clone, PartialEq)]
pub struct Field<'a> {
    /// The key as it stands in the line, escapes included. It is UTF-8, and two keys of equal bytes are the same field.
    pub key: &'a [u8],
    /// The value.
    pub value: FieldValue<'a>,
}

impl<'a> Field<'a> {
    /// The key without its escapes.
    pub fn name(&self) -> Cow<'a, str> {
        match std::str::from_utf8(self.key) {
            Ok(key) => unescape(key, escape::KEY),
            Err(_) => String::from_utf8_lossy(self.key),
        }
    }
}

/// A point, borrowed from the input and from the reader that found it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point<'a> {
    /// The line of the input, from 1, on which the point starts.
    pub line_number: usize,
    /// The measurement and the tags as they stand in the line. Not checked: [`crate::SeriesKey::parse`] does that, once
    /// for a text that was not seen before.
    pub series: &'a [u8],
    /// The fields in the order of the line, each key once. Where a key occurs twice, the last value is kept.
    pub fields: &'a [Field<'a>],
    /// The time in nanoseconds, if the line has one.
    pub timestamp: Option<i64>,
    /// The line, without the white space before it and the line ending.
    pub line: &'a [u8],
}

impl<'a> Point<'a> {
    /// The error that refuses this point, for what the caller found wrong: with the series text, above all.
    pub fn error(&self, reason: Reason) -> LineError<'a> {
        LineError {
            line_number: self.line_number,
            line: self.line,
            reason,
        }
    }
}

/// A point that owns its texts and whose series was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedPoint {
    /// The measurement.
    pub measurement: String,
    /// The tags, sorted by key.
    pub tags: Vec<(String, String)>,
    /// The fields in the order of the line, each name once.
    pub fields: Vec<(String, FieldValue<'static>)>,
    /// The time in nanoseconds, if the line has one.
    pub timestamp: Option<i64>,
}
