//! The text that names a series: `measurement,key=value,key=value`.

use std::borrow::Cow;

use crate::escape::{self, first_unescaped, unescape};
use crate::{KEY_BYTES_MAX, Reason};

/// A series: a measurement and its tags.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SeriesKey<'a> {
    /// The measurement, without its escapes.
    pub measurement: Cow<'a, str>,
    /// Keys and values without their escapes, sorted by key, each key once, none empty.
    pub tags: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> SeriesKey<'a> {
    /// Takes the text of a series apart, as [`crate::Point::series`] gives it: up to the space before the fields.
    pub fn parse(series: &'a [u8]) -> Result<Self, Reason> {
        RawSeries::split(series)?.check()
    }
}

/// The parts of a series text, escapes kept. Two steps, because a line without fields is refused between them.
pub(crate) struct RawSeries<'a> {
    bytes: usize,
    measurement: &'a [u8],
    tags: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> RawSeries<'a> {
    /// Finds the separators. The errors are those that a scan from left to right meets.
    pub(crate) fn split(series: &'a [u8]) -> Result<Self, Reason> {
        if series.is_empty() || series[0] == b',' {
            return Err(Reason::MissingMeasurement);
        }
        let end = first_unescaped(series, 1, b",").unwrap_or(series.len());
        let mut tags = Vec::new();
        let mut rest = series.get(end + 1..);
        while let Some(text) = rest {
            if matches!(text.first(), None | Some(b' ' | b',' | b'=')) {
                return Err(Reason::MissingTagKey);
            }
            let (key, text) = match first_unescaped(text, 1, b"=,") {
                Some(at) if text[at] == b'=' => (&text[..at], &text[at + 1..]),
                _ => return Err(Reason::MissingTagValue),
            };
            if matches!(text.first(), None | Some(b' ' | b',')) {
                return Err(Reason::MissingTagValue);
            }
            // From 1: an `=` that is the first byte of a value belongs to it, as in InfluxDB 1.x.
            let end = first_unescaped(text, 1, b"=,").unwrap_or(text.len());
            if text.get(end) == Some(&b'=') {
                return Err(Reason::InvalidTagFormat);
            }
            tags.push((key, &text[..end]));
            rest = text.get(end + 1..);
        }
        Ok(Self {
            bytes: series.len(),
            measurement: &series[..end],
            tags,
        })
    }

    /// Checks what the separators do not show, and takes the escapes away.
    pub(crate) fn check(mut self) -> Result<SeriesKey<'a>, Reason> {
        // Each separator inside a key needs its backslash, so different raw keys are different names.
        self.tags.sort_unstable_by(|a, b| a.0.cmp(b.0));
        if self.tags.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Reason::DuplicateTags);
        }
        if self.bytes > KEY_BYTES_MAX {
            return Err(Reason::KeyTooLong { bytes: self.bytes });
        }
        let measurement = unescape(utf8(self.measurement)?, escape::MEASUREMENT);
        let mut tags = Vec::with_capacity(self.tags.len());
        for (key, value) in self.tags {
            tags.push((
                unescape(utf8(key)?, escape::KEY),
                unescape(utf8(value)?, escape::KEY),
            ));
        }
        if tags.iter().any(|(key, _)| matches!(key, Cow::Owned(_))) {
            // A backslash sorts elsewhere than the separator it hides.
            tags.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        }
        Ok(SeriesKey { measurement, tags })
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Reason> {
    std::str::from_utf8(bytes).map_err(|_| Reason::InvalidUtf8)
}
