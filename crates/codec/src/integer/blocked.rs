//! BLOCKED: a base and a width for every 32 values, for noise that swells and calms within a page.
//!
//! Layout: order (1 byte), for order 1 the first value (zigzag varint), a chunk of the widths, a chunk of the bases, the
//! packed values of each block. Order 0 packs the values, order 1 the differences between neighbours. Neither chunk
//! has parts of its own. A device writes and reads a block with 32 numbers of room.

use super::{Flat, decode_flat_chunk};
use crate::pack::{BLOCK, pack, packed_bytes, unpack_block, width_of};
use crate::read::{take, take_u8};
use crate::{BLOCK_ROWS_MAX, Error, varint};

/// Fewest values that are looked at: widths and bases cost more than a few values ever save.
const ROWS_MIN: usize = 2 * BLOCK;

/// Blocks of a page.
const BLOCKS_MAX: usize = BLOCK_ROWS_MAX / BLOCK;

/// Which numbers are packed, and how the widths and bases of the blocks will be encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocked {
    is_delta: bool,
    bytes: usize,
    widths: Flat,
    bases: Flat,
}

impl Blocked {
    /// The blocks of `values`, or `None` if they do not save an eighth of `bytes_max`, the least without.
    ///
    /// Values that take less than two bits each are not looked at.
    pub(super) fn of(values: &[i64], bytes_max: usize) -> Option<Self> {
        let n = values.len();
        if n < ROWS_MIN || 4 * bytes_max < n {
            return None;
        }
        let best = [false, true]
            .into_iter()
            .filter(|is_delta| glance(values, *is_delta) <= bytes_max - bytes_max / 8)
            .map(|is_delta| Self::of_order(values, is_delta))
            .min_by_key(|plan| plan.bytes)?;
        // Many small blocks are slower to read than one: a few bytes less are not worth that.
        (8 * best.bytes <= 7 * bytes_max).then_some(best)
    }

    fn of_order(values: &[i64], is_delta: bool) -> Self {
        let blocks = Blocks::of(values, is_delta);
        let widths = super::plan_flat(&blocks.widths[..blocks.count]);
        let bases = super::plan_flat(&blocks.bases[..blocks.count]);
        let first = if is_delta {
            varint::bytes_i64(values[0])
        } else {
            0
        };
        let chunks = 1 + widths.body_bytes(blocks.count) + 1 + bases.body_bytes(blocks.count);
        Self {
            is_delta,
            bytes: 1 + first + chunks + blocks.packed_bytes,
            widths,
            bases,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends the body of the values that it was made of.
    pub(super) fn encode(&self, values: &[i64], out: &mut Vec<u8>) {
        let blocks = Blocks::of(values, self.is_delta);
        out.push(u8::from(self.is_delta));
        if self.is_delta {
            varint::put_i64(values[0], out);
        }
        self.widths
            .encode_chunk(&blocks.widths[..blocks.count], out);
        self.bases.encode_chunk(&blocks.bases[..blocks.count], out);
        let numbers = &blocks.numbers[..blocks.n];
        let widths = blocks.widths.iter().zip(&blocks.bases);
        for (block, (width, base)) in numbers.chunks(BLOCK).zip(widths) {
            let offsets = block.iter().map(|number| number.wrapping_sub(*base) as u64);
            pack(offsets, *width as u32, out);
        }
    }
}

/// What all blocks would take if they were like every fourth, without their bases.
fn glance(values: &[i64], is_delta: bool) -> usize {
    const STEP: usize = 4;
    let (mut bits, mut count) = (0, 0);
    for block in values.chunks_exact(BLOCK).step_by(STEP) {
        let (min, max) = if is_delta {
            ends(super::delta::deltas(block))
        } else {
            ends(block.iter().copied())
        };
        bits += width_of(max.wrapping_sub(min) as u64) as usize;
        count += 1;
    }
    values.len() * bits / (8 * count)
}

/// The least and the greatest.
fn ends(numbers: impl Iterator<Item = i64>) -> (i64, i64) {
    numbers.fold((i64::MAX, i64::MIN), |(min, max), number| {
        (min.min(number), max.max(number))
    })
}

/// The numbers that are packed, and what their blocks take.
struct Blocks {
    numbers: [i64; BLOCK_ROWS_MAX],
    n: usize,
    widths: [i64; BLOCKS_MAX],
    bases: [i64; BLOCKS_MAX],
    count: usize,
    packed_bytes: usize,
}

impl Blocks {
    fn of(values: &[i64], is_delta: bool) -> Self {
        let mut numbers = [0; BLOCK_ROWS_MAX];
        let n = if is_delta {
            for (number, delta) in numbers.iter_mut().zip(super::delta::deltas(values)) {
                *number = delta;
            }
            values.len() - 1
        } else {
            numbers[..values.len()].copy_from_slice(values);
            values.len()
        };
        let (mut widths, mut bases) = ([0; BLOCKS_MAX], [0; BLOCKS_MAX]);
        let mut bytes = 0;
        let places = widths.iter_mut().zip(&mut bases);
        for (block, (width, base)) in numbers[..n].chunks(BLOCK).zip(places) {
            let (min, max) = ends(block.iter().copied());
            let bits = width_of(max.wrapping_sub(min) as u64);
            (*width, *base) = (i64::from(bits), min);
            bytes += packed_bytes(block.len(), bits);
        }
        Self {
            numbers,
            n,
            widths,
            bases,
            count: n.div_ceil(BLOCK),
            packed_bytes: bytes,
        }
    }
}

pub(super) fn decode(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    match take_u8(input)? {
        0 => decode_blocks(input, out),
        1 => {
            let first = varint::get_i64(input)?;
            let Some((place, deltas)) = out.split_first_mut() else {
                return Ok(());
            };
            *place = first;
            if deltas.is_empty() {
                return Err(Error::corrupt("one value has no differences"));
            }
            decode_blocks(input, deltas)?;
            let mut sum = first;
            for value in deltas {
                sum = sum.wrapping_add(*value);
                *value = sum;
            }
            Ok(())
        }
        _ => Err(Error::corrupt("blocks are of order 0 or 1")),
    }
}

fn decode_blocks(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    let count = out.len().div_ceil(BLOCK);
    let (mut widths, mut bases) = ([0; BLOCKS_MAX], [0; BLOCKS_MAX]);
    decode_flat_chunk(input, &mut widths[..count])?;
    decode_flat_chunk(input, &mut bases[..count])?;
    for ((block, width), base) in out.chunks_mut(BLOCK).zip(widths).zip(bases) {
        let width = u32::try_from(width)
            .ok()
            .filter(|width| *width <= 64)
            .ok_or(Error::corrupt("a packed value is wider than 64 bits"))?;
        let packed = take(input, packed_bytes(block.len(), width))?;
        unpack_block(packed, width, base, block);
    }
    Ok(())
}
