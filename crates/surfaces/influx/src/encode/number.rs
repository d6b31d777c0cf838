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
    if value < 10_000 {
        // Most are: four digits at once, and zeros before them taken away.
        let digits = [value / 1000, value / 100 % 10, value / 10 % 10, value % 10];
        let digits = digits.map(|digit| b'0' + digit as u8);
        let zeros = usize::from(value < 10) + usize::from(value < 100) + usize::from(value < 1000);
        let end = out.len() + digits.len() - zeros;
        let left = u32::from_le_bytes(digits) >> (8 * zeros);
        out.extend_from_slice(&left.to_le_bytes());
        out.truncate(end);
        return;
    }
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
    // Here the faster one writes the same digits without an exponent, and a fraction of nothing.
    if value == 0.0 || (1e-4..1e15).contains(&value.abs()) {
        let mut digits = ryu::Buffer::new();
        let digits = digits.format_finite(value);
        let digits = digits.strip_suffix(".0").unwrap_or(digits);
        out.extend_from_slice(digits.as_bytes());
        return;
    }
    write!(out, "{value}").expect("a buffer takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(push: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = b"before".to_vec();
        push(&mut out);
        String::from_utf8(out).unwrap().split_off(6)
    }

    #[test]
    fn numbers_have_the_digits_of_the_standard_library() {
        let mut bits = 7_u64;
        for round in 0..200_000_u64 {
            bits = bits
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(round | 1);
            let int = bits.cast_signed() >> (round % 64);
            assert_eq!(written(|out| push_int(int, out)), int.to_string());
            let value = f64::from_bits(bits);
            if value.is_finite() {
                assert_eq!(
                    written(|out| push_plain_float(value, out)),
                    value.to_string()
                );
            }
            let value = int as f64 / [1.0, 10.0, 1e5, 3.0][round as usize % 4];
            assert_eq!(
                written(|out| push_plain_float(value, out)),
                value.to_string()
            );
        }
        for value in [
            0.0,
            -0.0,
            1.0,
            -5.0,
            1e15,
            1e-4,
            999_999_999_999_999.9,
            123_456.0,
        ] {
            assert_eq!(
                written(|out| push_plain_float(value, out)),
                value.to_string()
            );
        }
        for int in [
            0,
            9,
            10,
            99,
            100,
            999,
            1000,
            9999,
            10_000,
            i64::MIN,
            i64::MAX,
        ] {
            assert_eq!(written(|out| push_int(int, out)), int.to_string());
        }
    }
}
