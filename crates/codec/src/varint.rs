//! LEB128 varints: seven bits a byte, low bits first, the high bit set on all bytes but the last.
//!
//! Signed values are zigzag coded first (0, -1, 1, -2 become 0, 1, 2, 3), so that small magnitudes stay short.

use crate::Error;

/// Longest encoding of a 64-bit value.
const BYTES_MAX: usize = 10;

/// Appends `value`.
pub fn put_u64(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

/// Appends `value`, zigzag coded.
pub fn put_i64(value: i64, out: &mut Vec<u8>) {
    put_u64(zigzag(value), out);
}

/// Takes one value off the front of `input`. Encodings that do not fit 64 bits are corrupt.
pub fn get_u64(input: &mut &[u8]) -> Result<u64, Error> {
    let mut value = 0;
    for (index, &byte) in input.iter().take(BYTES_MAX).enumerate() {
        // The tenth byte carries the 64th bit alone.
        if index == BYTES_MAX - 1 && byte > 1 {
            return Err(Error::corrupt("a varint exceeds 64 bits"));
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *input = &input[index + 1..];
            return Ok(value);
        }
    }
    Err(Error::Truncated)
}

/// Takes one zigzag coded value off the front of `input`.
pub fn get_i64(input: &mut &[u8]) -> Result<i64, Error> {
    let zigzag = get_u64(input)?;
    Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
}

/// Bytes that [`put_u64`] appends for `value`.
pub(crate) fn bytes_u64(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Bytes that [`put_i64`] appends for `value`.
pub(crate) fn bytes_i64(value: i64) -> usize {
    bytes_u64(zigzag(value))
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}
