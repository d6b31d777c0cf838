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

/// Bytes of small integers that are brought together before they are appended.
const INTS_BYTES: usize = 64;

/// Integers with commas between them. Small ones, as most are, meet in a buffer of fixed size, so that each is a store of four bytes.
#[derive(Debug)]
pub(super) struct Ints {
    bytes: [u8; INTS_BYTES],
    length: usize,
}

impl Default for Ints {
    fn default() -> Self {
        Self {
            bytes: [0; INTS_BYTES],
            length: 0,
        }
    }
}

impl Ints {
    /// Appends an integer and a comma.
    #[inline]
    pub(super) fn push(&mut self, value: i64, out: &mut Vec<u8>) {
        let small = usize::try_from(value).ok();
        let small = small.and_then(|value| SMALL.get(value));
        let place = self.bytes.get_mut(self.length..);
        if let (Some(digits), Some(place)) = (small, place.and_then(<[u8]>::first_chunk_mut)) {
            let [one, two, three, count] = *digits;
            *place = [one, two, three, b','];
            let end = self.length + usize::from(count);
            if let Some(comma) = self.bytes.get_mut(end) {
                *comma = b',';
            }
            self.length = end + 1;
        } else {
            self.end_with_comma(out);
            if small.is_some() {
                self.push(value, out);
            } else {
                push_int(value, out);
                out.push(b',');
            }
        }
    }

    fn end_with_comma(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.bytes.get(..self.length).unwrap_or_default());
        self.length = 0;
    }

    /// Appends what is left, without the last comma.
    #[inline]
    pub(super) fn end(mut self, out: &mut Vec<u8>) {
        self.end_with_comma(out);
        out.pop();
    }
}

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
    fn integers_side_by_side_have_commas_between_them() {
        let mut bits = 11_u64;
        for length in 1..200_usize {
            let ints: Vec<i64> = (0..length)
                .map(|place| {
                    bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(9);
                    // Of every length, and most of them small.
                    bits.cast_signed()
                        >> (if place % 9 == 0 {
                            bits % 64
                        } else {
                            54 + bits % 10
                        })
                })
                .collect();
            let texts: Vec<String> = ints.iter().map(ToString::to_string).collect();
            let own = written(|out| {
                let mut own = Ints::default();
                for int in &ints {
                    own.push(*int, out);
                }
                own.end(out);
            });
            assert_eq!(own, texts.join(","));
        }
        for edge in [0, 9, 10, 99, 100, 999, 1000, -1, i64::MIN, i64::MAX] {
            let own = written(|out| {
                let mut own = Ints::default();
                own.push(edge, out);
                own.end(out);
            });
            assert_eq!(own, edge.to_string());
        }
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
