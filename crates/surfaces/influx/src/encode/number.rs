//! Numbers as Go prints them.

use std::io::Write;

/// The digits of small numbers, and how many they are.
#[expect(clippy::cast_possible_truncation, reason = "a digit is below ten")]
static SMALL: [[u8; 4]; 1000] = {
    let mut all = [[0; 4]; 1000];
    let mut value = 0;
    while value < 1000 {
        let [hundreds, tens, ones] = [
            b'0' + (value / 100) as u8,
            b'0' + (value / 10 % 10) as u8,
            b'0' + (value % 10) as u8,
        ];
        all[value] = if value < 10 {
            [ones, 0, 0, 1]
        } else if value < 100 {
            [tens, ones, 0, 2]
        } else {
            [hundreds, tens, ones, 3]
        };
        value += 1;
    }
    all
};

/// Appends an integer.
#[inline]
pub(super) fn push_int(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    push_unsigned(value.unsigned_abs(), out);
}

/// Appends an integer without a sign.
#[inline]
pub(super) fn push_unsigned(value: u64, out: &mut Vec<u8>) {
    if let Ok(place) = usize::try_from(value)
        && let Some(digits) = SMALL.get(place)
    {
        // Most are: all bytes at once, and those that are none of its digits taken away.
        let [.., count] = *digits;
        let end = out.len() + usize::from(count);
        out.extend_from_slice(digits);
        out.truncate(end);
        return;
    }
    push_long(value, out);
}

/// Three digits at a time.
#[inline(never)]
fn push_long(mut value: u64, out: &mut Vec<u8>) {
    // 2^64 has twenty.
    let mut digits = [0u8; 21];
    let mut first = digits.len();
    for three in digits.rchunks_exact_mut(3) {
        let low = value % 1000;
        value /= 1000;
        let own = [low / 100, low / 10 % 10, low % 10];
        for (digit, own) in three.iter_mut().zip(own) {
            *digit = b'0' + u8::try_from(own).unwrap_or(0);
        }
        first -= 3;
        if value == 0 {
            break;
        }
    }
    let digits = digits.get(first..).unwrap_or_default();
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    out.extend_from_slice(digits.get(zeros..).unwrap_or_default());
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
        let mut digits = zmij::Buffer::new();
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
                let text = written(|out| push_plain_float(value, out));
                assert_eq!(text.parse(), Ok(value));
                assert_eq!(text.len(), value.to_string().len(), "{text}");
            }
            // Where two shortest texts are as near as each other, libraries differ in which they take.
            let value = int as f64 / [1.0, 10.0, 1e5, 3.0][usize::try_from(round % 4).unwrap()];
            let text = written(|out| push_plain_float(value, out));
            assert_eq!(text.parse(), Ok(value));
            assert_eq!(text.len(), value.to_string().len(), "{text}");
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
