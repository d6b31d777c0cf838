//! Exact decimal numbers of up to 38 digits.

use std::fmt;

/// `value` times ten to the power of minus `scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    value: i128,
    scale: u8,
}

/// Digits that 128 bits hold for certain.
const DIGITS_MAX: usize = 38;

impl Decimal {
    pub(crate) fn new(value: i128, scale: u8) -> Self {
        Self { value, scale }
    }

    /// A number as SQL writes it, `-12.50` or `1.25e3`; `None` = it is none, or has more digits than fit.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let written = Written::parse(text)?;
        // Zeros that an exponent says are digits before the point.
        let scale = u8::try_from(written.scale.max(0)).ok()?;
        Some(Self::new(written.rescaled(scale)?, scale))
    }

    /// The digits of a text with so many behind the point, rounded half away from zero.
    pub(crate) fn read(text: &str, scale: u8) -> Result<i128, Unread> {
        let written = Written::parse(text).ok_or(Unread::NoNumber)?;
        written.rescaled(scale).ok_or(Unread::TooLarge)
    }

    /// Its digits with so many behind the point, rounded half away from zero; `None` = they do not fit.
    pub(crate) fn rescaled(self, scale: u8) -> Option<i128> {
        if scale >= self.scale {
            let more = 10_i128.checked_pow(u32::from(scale - self.scale))?;
            return self.value.checked_mul(more);
        }
        let unit = 10_i128.checked_pow(u32::from(self.scale - scale))?;
        let (whole, rest) = (self.value / unit, self.value % unit);
        let is_up = rest.unsigned_abs() >= unit.unsigned_abs() - rest.unsigned_abs();
        Some(if is_up {
            whole + self.value.signum()
        } else {
            whole
        })
    }
}

/// Why a text is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    NoNumber,
    TooLarge,
}

/// A number as it is written: digits without zeros in front, times ten to the power of minus `scale`.
struct Written {
    negative: bool,
    digits: String,
    scale: i64,
}

impl Written {
    fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut digits = String::with_capacity(whole.len() + fraction.len());
        digits.push_str(whole);
        digits.push_str(fraction);
        if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        Some(Self {
            negative,
            scale: i64::try_from(fraction.len()).ok()? - i64::from(exponent),
            digits: digits.trim_start_matches('0').to_owned(),
        })
    }

    /// The digits with so many behind the point, rounded half away from zero; `None` = they do not fit.
    fn rescaled(mut self, scale: u8) -> Option<i128> {
        let more = i64::from(scale) - self.scale;
        let mut is_up = false;
        if self.digits.is_empty() {
            return Some(0);
        }
        if let Ok(cut) = usize::try_from(-more) {
            let kept = self.digits.len().checked_sub(cut);
            let first_cut = kept.and_then(|kept| self.digits.as_bytes().get(kept));
            is_up = first_cut.is_some_and(|digit| *digit >= b'5');
            self.digits.truncate(kept.unwrap_or(0));
        } else {
            let more = usize::try_from(more).ok()?;
            if self.digits.len() + more > DIGITS_MAX {
                return None;
            }
            self.digits.extend(std::iter::repeat_n('0', more));
        }
        if self.digits.len() > DIGITS_MAX {
            return None;
        }
        let value: i128 = if self.digits.is_empty() {
            0
        } else {
            self.digits.parse().ok()?
        };
        let value = value + i128::from(is_up);
        Some(if self.negative { -value } else { value })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.value < 0 { "-" } else { "" };
        let digits = self.value.unsigned_abs().to_string();
        let scale = usize::from(self.scale);
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        write!(f, "{sign}{whole}.{fraction}")
    }
}

/// How many digits a number has; 0 has none.
pub(super) fn digits(value: i128) -> u32 {
    value.unsigned_abs().checked_ilog10().map_or(0, |it| it + 1)
}

/// Bytes that sort as the numbers do.
#[expect(
    clippy::big_endian_bytes,
    reason = "the highest byte first makes bytes sort as the numbers do"
)]
pub(crate) fn sortable(value: i128) -> [u8; 16] {
    (value ^ i128::MIN).to_be_bytes()
}

/// The number of such bytes.
#[expect(
    clippy::big_endian_bytes,
    reason = "the highest byte first makes bytes sort as the numbers do"
)]
pub(crate) fn unsortable(bytes: [u8; 16]) -> i128 {
    i128::from_be_bytes(bytes) ^ i128::MIN
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Expected values are those of PostgreSQL 15: `select '...'::numeric(38, s)`.
    #[test]
    fn texts_round_as_in_postgresql() {
        let cases = [
            ("1.005", 2, "1.01"),
            ("-1.005", 2, "-1.01"),
            (
                "1.0049999999999999999999999999999999999999999999",
                2,
                "1.00",
            ),
            ("0.5", 0, "1"),
            ("-0.5", 0, "-1"),
            ("0.49999999999999999999999999999999999999999999", 0, "0"),
            ("1.25e3", 1, "1250.0"),
            (".5", 3, "0.500"),
            ("5.", 1, "5.0"),
            ("1e-50", 5, "0.00000"),
            (
                "12345678901234567890123456789012345.6785",
                3,
                "12345678901234567890123456789012345.679",
            ),
            (
                "99999999999999999999999999999999999999",
                0,
                "99999999999999999999999999999999999999",
            ),
        ];
        for (text, scale, expected) in cases {
            let value = Decimal::read(text, scale).unwrap();
            assert_eq!(Decimal::new(value, scale).to_string(), expected, "{text}");
        }
        for wrong in ["", ".", "-", "1.2.3", "1e", "abc", "0x1", "1 2"] {
            let parsed = Decimal::read(wrong, 0);
            assert_eq!(parsed, Err(Unread::NoNumber), "{wrong}");
        }
        assert_eq!(Decimal::read("1e99", 0), Err(Unread::TooLarge));
        assert_eq!(Decimal::read("1e38", 0), Err(Unread::TooLarge));
    }

    proptest! {
        #[test]
        fn bytes_sort_as_numbers_do(a in any::<i128>(), b in any::<i128>()) {
            prop_assert_eq!(a.cmp(&b), sortable(a).cmp(&sortable(b)));
            prop_assert_eq!(unsortable(sortable(a)), a);
        }
    }
}
