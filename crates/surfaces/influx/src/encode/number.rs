//! Numbers as Go prints them.

use std::io::Write;

/// Appends an integer.
pub(super) fn push_int(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    push_unsigned(value.unsigned_abs(), out);
}

/// Appends an integer without a sign.
pub(super) fn push_unsigned(mut value: u64, out: &mut Vec<u8>) {
    // As many digits as 2^64 has.
    let mut digits = [0u8; 20];
    let mut first = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
        first -= 1;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(first..).unwrap_or_default());
}

/// Appends a float as Go's `encoding/json` does: the shortest digits, with an exponent below 1e-6 and from 1e21 on. JSON has
/// no text for what is no number.
pub(super) fn push_json_float(value: f64, out: &mut Vec<u8>) {
    let size = value.abs();
    if !value.is_finite() {
        out.extend_from_slice(b"null");
    } else if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        out.extend_from_slice(digits.as_bytes());
        out.push(b'e');
        if !exponent.starts_with('-') {
            out.push(b'+');
        }
        out.extend_from_slice(exponent.as_bytes());
    } else {
        push_decimal(value, out);
    }
}

/// Appends a float as Go's `strconv.FormatFloat(value, 'f', -1, 64)` does: the shortest digits, never an exponent.
pub(super) fn push_plain_float(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"+Inf" } else { b"-Inf" });
    } else {
        push_decimal(value, out);
    }
}

fn push_decimal(value: f64, out: &mut Vec<u8>) {
    write!(out, "{value}").expect("a buffer takes everything");
}
