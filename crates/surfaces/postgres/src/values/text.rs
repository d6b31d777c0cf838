//! Numbers and intervals as text, as PostgreSQL writes them.

use std::io::Write;

use bytes::{BufMut, BytesMut};

use super::moment::NS_PER_S;

const NS_PER_DAY: i64 = 86_400 * NS_PER_S;

/// Exponents from which a float is written with one (`1e+15`).
const FLOAT8_DIGITS: i32 = 15;
const FLOAT4_DIGITS: i32 = 6;

/// An integer.
pub(crate) fn put_integer(out: &mut BytesMut, value: impl Into<i128>) {
    let value: i128 = value.into();
    if let Ok(mut rest) = u64::try_from(value.unsigned_abs()) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            if let Some(digit) = digits.get_mut(at) {
                *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            }
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if value < 0 {
            out.put_u8(b'-');
        }
        out.extend_from_slice(digits.get(at..).unwrap_or_default());
    } else {
        out.extend_from_slice(value.to_string().as_bytes());
    }
}

/// The shortest digits that say which float it is.
pub(crate) fn put_float8(out: &mut BytesMut, value: f64) {
    if value.is_finite() {
        let mut buffer = ryu::Buffer::new();
        put_digits(out, buffer.format_finite(value), FLOAT8_DIGITS);
    } else {
        put_not_finite(out, value);
    }
}

/// The same of a float of four bytes.
pub(crate) fn put_float4(out: &mut BytesMut, value: f32) {
    if value.is_finite() {
        let mut buffer = ryu::Buffer::new();
        put_digits(out, buffer.format_finite(value), FLOAT4_DIGITS);
    } else {
        put_not_finite(out, f64::from(value));
    }
}

fn put_not_finite(out: &mut BytesMut, value: f64) {
    let text: &[u8] = if value.is_nan() {
        b"NaN"
    } else if value > 0.0 {
        b"Infinity"
    } else {
        b"-Infinity"
    };
    out.extend_from_slice(text);
}

/// The digits of a float, of which `shortest` is one spelling, in the places where PostgreSQL has them.
fn put_digits(out: &mut BytesMut, shortest: &str, digits_max: i32) {
    let (sign, rest) = match shortest.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", shortest),
    };
    let (mantissa, exponent) = match rest.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().unwrap_or(0)),
        None => (rest, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits: Vec<u8> = whole.bytes().chain(part.bytes()).collect();
    // The exponent of the first digit that counts.
    let mut first = exponent + i32::try_from(whole.len()).unwrap_or(1) - 1;
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    if zeros == digits.len() {
        out.extend_from_slice(sign.as_bytes());
        out.put_u8(b'0');
        return;
    }
    digits.drain(..zeros);
    first -= i32::try_from(zeros).unwrap_or(0);
    while digits.last() == Some(&b'0') {
        digits.pop();
    }
    out.extend_from_slice(sign.as_bytes());
    if (-4..digits_max).contains(&first) {
        put_plain(out, &digits, first);
        return;
    }
    let (one, more) = digits.split_at(1);
    out.extend_from_slice(one);
    if !more.is_empty() {
        out.put_u8(b'.');
        out.extend_from_slice(more);
    }
    let mut writer = out.writer();
    let sign = if first < 0 { '-' } else { '+' };
    // Nothing fails that writes into memory.
    let _ = write!(writer, "e{sign}{:02}", first.abs());
}

fn put_plain(out: &mut BytesMut, digits: &[u8], first: i32) {
    if let Ok(before) = usize::try_from(first) {
        let before = before + 1;
        let whole = digits.get(..before.min(digits.len())).unwrap_or_default();
        out.extend_from_slice(whole);
        out.put_bytes(b'0', before.saturating_sub(digits.len()));
        if let Some(part) = digits.get(before..).filter(|part| !part.is_empty()) {
            out.put_u8(b'.');
            out.extend_from_slice(part);
        }
    } else {
        out.extend_from_slice(b"0.");
        out.put_bytes(b'0', usize::try_from(-first - 1).unwrap_or(0));
        out.extend_from_slice(digits);
    }
}

/// Months, days and nanoseconds, in PostgreSQL's own style.
pub(crate) fn put_interval(out: &mut BytesMut, months: i32, days: i32, ns: i64) {
    let mut is_first = true;
    let mut is_before = false;
    let mut writer = out.writer();
    for (value, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if value == 0 {
            continue;
        }
        let space = if is_first { "" } else { " " };
        let plus = if is_before && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        // Nothing fails that writes into memory.
        let _ = write!(writer, "{space}{plus}{value} {unit}{plural}");
        is_before = value < 0;
        is_first = false;
    }
    if !is_first && ns == 0 {
        return;
    }
    let space = if is_first { "" } else { " " };
    let sign = match (ns < 0, is_before) {
        (true, _) => "-",
        (false, true) => "+",
        (false, false) => "",
    };
    let all = ns.unsigned_abs();
    let (seconds, part) = (all / NS_PER_S.unsigned_abs(), all % NS_PER_S.unsigned_abs());
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let _ = write!(writer, "{space}{sign}{hours:02}:{minutes:02}:{seconds:02}");
    if part != 0 {
        let digits = format!("{part:09}");
        let _ = write!(writer, ".{}", digits.trim_end_matches('0'));
    }
}

/// A length of time as an interval: whole days, and what is left.
pub(crate) fn days_and_rest(ns: i64) -> (i32, i64) {
    let days = i32::try_from(ns / NS_PER_DAY).unwrap_or(i32::MAX);
    (days, ns % NS_PER_DAY)
}

/// Bytes as `\x` and digits.
pub(crate) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\x");
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            out.put_u8(DIGITS.get(usize::from(nibble)).copied().unwrap_or(b'0'));
        }
    }
}

/// An element of an array, in quotes where it would be read as something else.
pub(crate) fn put_element(out: &mut BytesMut, text: &[u8]) {
    let is_plain = !text.is_empty()
        && !text.eq_ignore_ascii_case(b"null")
        && text.iter().all(|byte| {
            !matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') && !byte.is_ascii_whitespace()
        });
    if is_plain {
        out.extend_from_slice(text);
        return;
    }
    out.put_u8(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(put: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        put(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    /// What PostgreSQL 15 answers to `SELECT $1::float8` and `::float4`.
    #[test]
    fn floats_are_written_as_postgresql_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e15, "1e+15"),
            (1_234_567_890_123_456.0, "1.234567890123456e+15"),
            (1e-4, "0.0001"),
            (1.25e-4, "0.000125"),
            (1e-5, "1e-05"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
            (0.1 + 0.2, "0.30000000000000004"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(shown(|out| put_float8(out, value)), text);
        }
        for (value, text) in [(1e6f32, "1e+06"), (123_456.0, "123456"), (0.1, "0.1")] {
            assert_eq!(shown(|out| put_float4(out, value)), text);
        }
    }

    /// What PostgreSQL 15 answers to `SELECT make_interval(...)`.
    #[test]
    fn intervals_are_written_as_postgresql_writes_them() {
        for ((months, days, ns), text) in [
            ((0, 0, 0), "00:00:00"),
            (
                (14, 3, 3_661_500_000_000),
                "1 year 2 mons 3 days 01:01:01.5",
            ),
            (
                (-14, 3, -1_000_000_000),
                "-1 years -2 mons +3 days -00:00:01",
            ),
            ((0, -1, 1_000_000_000), "-1 days +00:00:01"),
            ((1, 0, 0), "1 mon"),
            ((0, 0, 360_000_000_000_000), "100:00:00"),
        ] {
            assert_eq!(shown(|out| put_interval(out, months, days, ns)), text);
        }
    }

    #[test]
    fn integers_and_elements_are_whole() {
        for value in [
            0,
            1,
            -1,
            i128::from(i64::MIN),
            i128::from(u64::MAX),
            i128::MAX,
        ] {
            assert_eq!(shown(|out| put_integer(out, value)), value.to_string());
        }
        for (text, quoted) in [
            ("a", "a"),
            ("", "\"\""),
            ("NULL", "\"NULL\""),
            ("a b", "\"a b\""),
            ("a\"b\\", "\"a\\\"b\\\\\""),
        ] {
            assert_eq!(shown(|out| put_element(out, text.as_bytes())), quoted);
        }
    }
}
