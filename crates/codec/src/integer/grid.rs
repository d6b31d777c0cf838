//! GRID: values that stand on a grid, as times do that are kept in nanoseconds and were taken to the second.
//!
//! Layout: a base (zigzag varint), the width of the grid (varint), a chunk of how many widths each value is above the base.
//! The chunk is neither RUNS nor DISTINCT nor GRID. Value `i` is `base + width * number i`, wrapping.

use super::{Flat, decode_flat_chunk};
use crate::{BLOCK_ROWS_MAX, Error, varint};

/// Fewest values that are looked at: a few take few bytes however they are written.
const ROWS_MIN: usize = 16;

/// A grid, and how the numbers on it will be encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    base: i64,
    width: i64,
    numbers: Flat,
}

impl Grid {
    /// The widest grid of `values`, or `None` if it does not save a quarter of `bytes_max`, the least without.
    ///
    /// Values that take less than a byte each are not looked at; others on no grid pay for a few divisions.
    pub(super) fn of(values: &[i64], bytes_max: usize) -> Option<Self> {
        let n = values.len();
        if n < ROWS_MIN || bytes_max < n {
            return None;
        }
        let base = values[0];
        let mut width = 0_u64;
        for value in values {
            let distance = value.checked_sub(base)?.unsigned_abs();
            if width == 0 || distance % width != 0 {
                width = common_divisor(width, distance);
                if width == 1 {
                    return None;
                }
            }
        }
        // None is 0: then all values are one.
        let width = i64::try_from(width).ok().filter(|&width| width > 0)?;
        let mut numbers = [0; BLOCK_ROWS_MAX];
        place(values, base, width, &mut numbers);
        let grid = Self {
            base,
            width,
            numbers: super::plan_flat(&numbers[..n]),
        };
        // Multiplying costs a reader something: a few bytes less are not worth that.
        (4 * grid.bytes(n) <= 3 * bytes_max).then_some(grid)
    }

    /// Bytes of the body for the `n` values that it was made of.
    pub(super) fn bytes(&self, n: usize) -> usize {
        let ends = varint::bytes_i64(self.base) + varint::bytes_u64(self.width.cast_unsigned());
        ends + 1 + self.numbers.body_bytes(n)
    }

    /// Appends the body of the values that it was made of.
    pub(super) fn encode(&self, values: &[i64], out: &mut Vec<u8>) {
        let mut numbers = [0; BLOCK_ROWS_MAX];
        place(values, self.base, self.width, &mut numbers);
        varint::put_i64(self.base, out);
        varint::put_u64(self.width.cast_unsigned(), out);
        self.numbers.encode_chunk(&numbers[..values.len()], out);
    }
}

/// How many widths each value is above the base, from the front of `numbers`.
fn place(values: &[i64], base: i64, width: i64, numbers: &mut [i64; BLOCK_ROWS_MAX]) {
    for (number, value) in numbers.iter_mut().zip(values) {
        *number = value.wrapping_sub(base) / width;
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

pub(super) fn decode(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    let base = varint::get_i64(input)?;
    // Arithmetic wraps, so a width is as good as any other number of 64 bits.
    let width = varint::get_u64(input)?.cast_signed();
    decode_flat_chunk(input, out)?;
    for value in out {
        *value = base.wrapping_add(value.wrapping_mul(width));
    }
    Ok(())
}
