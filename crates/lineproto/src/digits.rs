//! Decimal digits, eight at a time. A word holds eight bytes of text, the first in its lowest byte.

/// Digits whose value always fits a `u64`.
pub(crate) const DIGITS_MAX: usize = 19;

const POWERS_OF_TEN: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// How many digits `word` starts with, and their value. There is no branch on the count: lengths of numbers vary from one
/// field to the next, so a branch on them is one the processor cannot predict.
#[inline]
pub(crate) fn leading(word: u64) -> (u64, usize) {
    // A digit becomes 0 to 9, and adding 0x76 carries everything above 9 into the high bit of its byte. That bit is masked
    // out before, so that no byte carries into the next, and put back for the bytes that had it.
    let values = word ^ 0x3030_3030_3030_3030;
    let others = ((values & 0x7F7F_7F7F_7F7F_7F7F).wrapping_add(0x7676_7676_7676_7676) | values)
        & 0x8080_8080_8080_8080;
    let count = others.trailing_zeros() / 8;
    // Moves the digits to the high end and zeros in behind them: leading zeros. By 64 bits there is nothing to move.
    let values = values.checked_shl(64 - 8 * count).unwrap_or(0);
    // Neighbours join to pairs, pairs to fours and fours to eight, each lane in its own bits.
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let low = (pairs & 0x0000_00FF_0000_00FF).wrapping_mul(100 + (1_000_000 << 32));
    let high = ((pairs >> 16) & 0x0000_00FF_0000_00FF).wrapping_mul(1 + (10_000 << 32));
    (low.wrapping_add(high) >> 32, count as usize)
}

/// The digits that `text` starts with: their value and count. `None` if there are more than [`DIGITS_MAX`].
#[inline]
pub(crate) fn run(text: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    let mut count = 0;
    while let Some(word) = text.get(count..).and_then(<[u8]>::first_chunk::<8>) {
        let (more, digits) = leading(u64::from_le_bytes(*word));
        if count + digits > DIGITS_MAX {
            return None;
        }
        value = value.wrapping_mul(POWERS_OF_TEN[digits]).wrapping_add(more);
        count += digits;
        if digits < 8 {
            return Some((value, count));
        }
    }
    while let Some(digit @ b'0'..=b'9') = text.get(count) {
        if count == DIGITS_MAX {
            return None;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        count += 1;
    }
    Some((value, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_digits_are_counted_and_read_for_every_length_and_end() {
        for (count, value) in [
            0_u64, 7, 65, 431, 9_876, 12_345, 999_999, 1_000_001, 98_765_432,
        ]
        .into_iter()
        .enumerate()
        {
            let text = if count == 0 {
                String::new()
            } else {
                value.to_string()
            };
            assert_eq!(text.len(), count);
            for end in 0..=255_u8 {
                if end.is_ascii_digit() {
                    continue;
                }
                let mut word = [end; 8];
                word[..count].copy_from_slice(text.as_bytes());
                assert_eq!(
                    leading(u64::from_le_bytes(word)),
                    (value, count),
                    "{count} digits before byte {end}"
                );
            }
        }
    }

    #[test]
    fn bytes_after_the_digits_do_not_change_the_value() {
        assert_eq!(leading(u64::from_le_bytes(*b"12i,x=99")), (12, 2));
        assert_eq!(leading(u64::from_le_bytes(*b"00012345")), (12_345, 8));
        assert_eq!(leading(u64::from_le_bytes(*b"7\xFF\x8A\x00/:99")), (7, 1));
    }

    #[test]
    fn a_run_holds_nineteen_digits_and_no_more() {
        for tail in ["", "i", "i,next=1234567890"] {
            let longest = format!("9999999999999999999{tail}");
            assert_eq!(
                run(longest.as_bytes()),
                Some((9_999_999_999_999_999_999, 19))
            );
            let longer = format!("00000000000000000001{tail}");
            assert_eq!(run(longer.as_bytes()), None);
            let eight = format!("12345678{tail}");
            assert_eq!(run(eight.as_bytes()), Some((12_345_678, 8)));
            assert_eq!(run(tail.as_bytes()), Some((0, 0)));
        }
    }
}
