//! Backslashes: finding what they do not hide, and taking them away.

use std::borrow::Cow;

use memchr::memchr;

/// What a backslash hides in a measurement. `=` and `"` need none there, but some clients give them one (Python's `influxdb`),
/// and InfluxDB 1.x takes it away when it names the measurement.
pub(crate) const MEASUREMENT: &[u8] = b", =\"";
/// What a backslash hides in a tag key, a tag value and a field key.
pub(crate) const KEY: &[u8] = b",= ";
/// What a backslash hides in a string.
pub(crate) const TEXT: &[u8] = b"\"\\";

/// Where the first byte of `wanted` stands that has no backslash before it, from `start` on.
///
/// The byte before decides alone, so two backslashes and a comma are a backslash and a comma that does not separate.
pub(crate) fn first_unescaped(text: &[u8], start: usize, wanted: &[u8]) -> Option<usize> {
    (start..text.len()).find(|&i| wanted.contains(&text[i]) && (i == 0 || text[i - 1] != b'\\'))
}

/// `text` without the backslashes that hide one of `hidden`.
pub(crate) fn unescape<'a>(text: &'a str, hidden: &[u8]) -> Cow<'a, str> {
    let Some(first) = memchr(b'\\', text.as_bytes()) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len());
    let (before, mut rest) = text.split_at(first);
    out.push_str(before);
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.chars().next() {
            // Pushed here, and not left for the next round, where a hidden backslash would hide once more.
            Some(c) if c.is_ascii() && hidden.contains(&(c as u8)) => {
                out.push(c);
                rest = &rest[1..];
            }
            _ => out.push('\\'),
        }
    }
    out.push_str(rest);
    if out.len() == text.len() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(out)
    }
}

/// Appends `text` with a backslash before each of `hidden`.
pub(crate) fn escape_into(out: &mut Vec<u8>, text: &str, hidden: &[u8]) {
    for &byte in text.as_bytes() {
        if hidden.contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
}
