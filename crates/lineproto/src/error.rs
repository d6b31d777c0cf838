//! Errors of line protocol in the words of InfluxDB 1.x: clients show them, and some act on them.

use std::fmt;

use crate::{KEY_BYTES_MAX, TIME_NS_MAX, TIME_NS_MIN};

/// How much of a bad line, or of a bad number, a message shows. A request may be one bad line of many megabytes.
const SHOWN_BYTES_MAX: usize = 1024;

/// Why a line was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The line starts with a comma, or the series text is empty.
    #[error("missing measurement")]
    MissingMeasurement,
    /// A tag has no key.
    #[error("missing tag key")]
    MissingTagKey,
    /// A tag has no value. Leave the tag out instead.
    #[error("missing tag value")]
    MissingTagValue,
    /// A tag value has an `=` without a backslash.
    #[error("invalid tag format")]
    InvalidTagFormat,
    /// A tag key occurs twice.
    #[error("duplicate tags")]
    DuplicateTags,
    /// The line ends with the series.
    #[error("missing fields")]
    MissingFields,
    /// A field has no key.
    #[error("missing field key")]
    MissingFieldKey,
    /// A field has no value.
    #[error("missing field value")]
    MissingFieldValue,
    /// The fields are not a list of `key=value`.
    #[error("invalid field format")]
    InvalidFieldFormat,
    /// A string does not end.
    #[error("unbalanced quotes")]
    UnbalancedQuotes,
    /// Something that starts as a number does not go on as one.
    #[error("invalid number")]
    InvalidNumber,
    /// A value is not a number, not a string, and not a boolean either.
    #[error("invalid boolean")]
    InvalidBoolean,
    /// A float is beyond the largest finite one, or its exponent is malformed.
    #[error("invalid float")]
    InvalidFloat,
    /// An integer does not fit 64 bits with a sign.
    #[error(
        "unable to parse integer {digits}: strconv.ParseInt: parsing \"{digits}\": value out of range"
    )]
    IntegerRange {
        /// The number as it stands in the line, without the `i`.
        digits: String,
    },
    /// An unsigned integer does not fit 64 bits.
    #[error(
        "unable to parse unsigned {digits}: strconv.ParseUint: parsing \"{digits}\": value out of range"
    )]
    UnsignedRange {
        /// The number as it stands in the line, without the `u`.
        digits: String,
    },
    /// The timestamp has something other than digits.
    #[error("bad timestamp")]
    BadTimestamp,
    /// The timestamp is a minus sign.
    #[error("strconv.ParseInt: parsing \"-\": invalid syntax")]
    TimestampSyntax,
    /// The timestamp does not fit 64 bits.
    #[error("strconv.ParseInt: parsing \"{digits}\": value out of range")]
    TimestampRange {
        /// The timestamp as it stands in the line.
        digits: String,
    },
    /// The timestamp times its unit is not a time a point may have.
    #[error("time outside range {TIME_NS_MIN} - {TIME_NS_MAX}")]
    TimeOutsideRange,
    /// Something follows the timestamp.
    #[error("point is invalid")]
    PointInvalid,
    /// The series text, or series text and field key together, are too long.
    #[error("max key length exceeded: {bytes} > {KEY_BYTES_MAX}")]
    KeyTooLong {
        /// The length found.
        bytes: usize,
    },
    /// A name or a text is not UTF-8. InfluxDB stores such bytes; here texts are texts.
    #[error("invalid UTF-8")]
    InvalidUtf8,
}

/// A line that was refused, borrowed from the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError<'a> {
    /// The line of the input, from 1, on which the refused one starts.
    pub line_number: usize,
    /// The line, without the white space before it and the line ending.
    pub line: &'a [u8],
    /// What is wrong with it.
    pub reason: Reason,
}

impl LineError<'_> {
    /// Copies what a message needs, so that the input can go.
    pub fn to_owned_error(&self) -> OwnedLineError {
        OwnedLineError {
            line_number: self.line_number,
            line: shown(self.line),
            reason: self.reason.clone(),
        }
    }
}

impl fmt::Display for LineError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "unable to parse '{}': {}",
            String::from_utf8_lossy(self.line),
            self.reason
        )
    }
}

impl std::error::Error for LineError<'_> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.reason)
    }
}

/// A line that was refused, kept. The line is cut where a message would become unreadable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to parse '{line}': {reason}")]
pub struct OwnedLineError {
    /// The line of the input, from 1, on which the refused one starts.
    pub line_number: usize,
    /// The line as text: not UTF-8 replaced, and after 1024 bytes `...`.
    pub line: String,
    /// What is wrong with it.
    #[source]
    pub reason: Reason,
}

impl From<LineError<'_>> for OwnedLineError {
    fn from(error: LineError<'_>) -> Self {
        Self {
            line_number: error.line_number,
            line: shown(error.line),
            reason: error.reason,
        }
    }
}

/// A point that line protocol has no text for. Nothing is written of such a point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The point has no fields.
    #[error("the point has no fields; line protocol needs one at least")]
    NoFields,
    /// A measurement, tag key, tag value or field key cannot be said.
    #[error(
        "{name:?} cannot be written as a name: it is empty, has a line feed, ends in a backslash, or starts as a comment or blank"
    )]
    Name {
        /// The text.
        name: String,
    },
    /// A float is not a number or not finite.
    #[error(
        "field {name:?} is NaN or infinite, which line protocol has no text for; leave the field out"
    )]
    NotFinite {
        /// The field's name.
        name: String,
    },
    /// The time is one of the reserved values.
    #[error("time {time_ns} is outside {TIME_NS_MIN} - {TIME_NS_MAX}")]
    Time {
        /// The time.
        time_ns: i64,
    },
}

/// `bytes` as text, cut between two characters if it is long.
pub(crate) fn shown(bytes: &[u8]) -> String {
    if bytes.len() <= SHOWN_BYTES_MAX {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut end = SHOWN_BYTES_MAX;
    // A continuation byte is 10xxxxxx and a character has at most three of them.
    while end > SHOWN_BYTES_MAX - 3 && bytes[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    format!("{}...", String::from_utf8_lossy(&bytes[..end]))
}
