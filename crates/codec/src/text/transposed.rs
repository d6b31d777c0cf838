//! TRANSPOSED: values of one length, cut at the same places into lanes; each lane is a list of integers.
//!
//! Layout: number of lanes (varint), an integer chunk of their widths in bytes (below zero: lowest byte first), then of each
//! lane an integer chunk of its numbers, which count modulo its width.
//!
//! Structures of numbers that somebody has put together as bytes become columns of numbers again, and are decoded by the
//! kernels of integers, several times as fast as a general compressor inflates them.

#![expect(
    clippy::big_endian_bytes,
    reason = "numbers in payloads stand as whoever wrote them put them"
)]

use std::borrow::Cow;

use super::{Rows, check_utf8};
use crate::integer::{self, Plan};
use crate::pack::width_of;
use crate::{BLOCK_ROWS_MAX, Error, PageSet, varint};

/// Longest values that are read: room for structures of numbers, and little memory for a page of a few bytes.
const LENGTH_MAX: usize = 1024;

/// Longest values that are written: cutting takes time by length, and longer ones are rarely of numbers.
const WRITTEN_LENGTH_MAX: usize = 256;

/// Fewest values that are cut: each lane has some bytes of its own.
const ROWS_MIN: usize = 16;

/// Pairs of neighbours that the places of cuts are chosen from.
const PAIRS: usize = 32;

/// Bytes of a lane beside its numbers: their kind, width, patches and base.
const LANE_BYTES: usize = 4;

/// Bytes of a lane of one number beside it.
const CONSTANT_LANE_BYTES: usize = 2;

/// Values of one length, and the lanes that they are best cut into.
pub(super) struct Transposed<'a> {
    values: Cow<'a, [u8]>,
    length: usize,
    lanes: Vec<Lane>,
    bytes: usize,
}

/// Where a lane begins in every value, and its width; below zero, the lowest byte comes first.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    place: usize,
    width: i8,
}

impl<'a> Transposed<'a> {
    /// Cuts values that all have `length` bytes, or answers `None` where lanes cannot pay.
    pub(super) fn of(rows: &Rows<'a>, length: usize) -> Option<Self> {
        if rows.n < ROWS_MIN || length == 0 || length > WRITTEN_LENGTH_MAX {
            return None;
        }
        let values = contiguous(rows, length);
        let (lanes, bytes) = cut(&values, length);
        Some(Self {
            values,
            length,
            lanes,
            bytes,
        })
    }

    /// About how many bytes the body has.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut numbers = [0; BLOCK_ROWS_MAX];
        varint::put_u64(self.lanes.len() as u64, out);
        for (number, lane) in numbers.iter_mut().zip(&self.lanes) {
            *number = i64::from(lane.width);
        }
        put_chunk(&numbers[..self.lanes.len()], out);
        let n = self.values.len() / self.length;
        for lane in &self.lanes {
            lane.take(&self.values, self.length, &mut numbers[..n]);
            put_chunk(&numbers[..n], out);
        }
    }
}

fn put_chunk(numbers: &[i64], out: &mut Vec<u8>) {
    // Blocks of their own widths take twice as long to read, and this is there for the sake of reading.
    let plan: Plan = integer::plan(numbers, PageSet::First);
    out.push(plan.encoding() as u8);
    plan.encode_body(numbers, out);
}

/// The values one after the other, which they are already unless null rows have bytes.
fn contiguous<'a>(rows: &Rows<'a>, length: usize) -> Cow<'a, [u8]> {
    let (first, last) = (rows.ranges[0], rows.ranges[rows.n - 1]);
    let all = &rows.bytes[first.0 as usize..last.1 as usize];
    if all.len() == rows.n * length {
        return Cow::Borrowed(all);
    }
    let mut values = Vec::with_capacity(rows.n * length);
    for value in rows.values() {
        values.extend_from_slice(value);
    }
    Cow::Owned(values)
}

/// Chooses the lanes that take the fewest bytes, as far as a sample says, and answers with about how many.
fn cut(values: &[u8], length: usize) -> (Vec<Lane>, usize) {
    let n = values.len() / length;
    let varies = varying(values, length);
    let sample = sample(values, length);
    // Of each place, the least that the bytes before it take, and the lane that ends there.
    let mut best = vec![(usize::MAX, Lane::default()); length + 1];
    best[0].0 = 0;
    for place in 0..length {
        let before = best[place].0;
        for width in [4, 8, 2, 1, -4, -8, -2] {
            let lane = Lane { place, width };
            let end = place + lane.width();
            if end > length {
                continue;
            }
            let varying = &varies[place..end];
            let lowest = if width > 0 {
                varying[varying.len() - 1]
            } else {
                varying[0]
            };
            let bits = if lowest != 0 {
                lane.sampled_bits(&sample, length)
            } else if width > 0 && varying.iter().all(|bits| *bits == 0) {
                0
            } else {
                // A number whose lowest byte is always the same is better cut there.
                continue;
            };
            let own = if bits == 0 {
                CONSTANT_LANE_BYTES
            } else {
                LANE_BYTES
            };
            let bytes = before + own + lane.width() + (n * bits as usize).div_ceil(8);
            if bytes < best[end].0 {
                best[end] = (bytes, lane);
            }
        }
    }
    let mut lanes = Vec::new();
    let mut end = length;
    while end > 0 {
        let lane = best[end].1;
        lanes.push(lane);
        end = lane.place;
    }
    lanes.reverse();
    (lanes, best[length].0)
}

/// Of each place the bits that are not the same in all values.
fn varying(values: &[u8], length: usize) -> Vec<u8> {
    let mut varying = vec![0; length];
    let first = &values[..length];
    for value in values.chunks_exact(length) {
        for (varying, (byte, first)) in varying.iter_mut().zip(value.iter().zip(first)) {
            *varying |= byte ^ first;
        }
    }
    varying
}

/// Pairs of neighbours from all over the values.
fn sample(values: &[u8], length: usize) -> Vec<u8> {
    let n = values.len() / length;
    if n <= 2 * PAIRS {
        // Whole pairs only.
        return values[..n / 2 * 2 * length].to_vec();
    }
    let mut sample = Vec::with_capacity(2 * PAIRS * length);
    for pair in 0..PAIRS {
        let row = pair * (n - 2) / (PAIRS - 1);
        sample.extend_from_slice(&values[row * length..(row + 2) * length]);
    }
    sample
}

impl Lane {
    /// In bytes.
    fn width(self) -> usize {
        usize::from(self.width.unsigned_abs())
    }

    /// Bits that each number takes, or each difference, whichever are fewer.
    fn sampled_bits(self, sample: &[u8], length: usize) -> u32 {
        let mut numbers = [0; 2 * PAIRS];
        let numbers = &mut numbers[..sample.len() / length];
        self.take(sample, length, numbers);
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        for [from, to] in numbers.as_chunks().0 {
            (min, max) = (min.min(*from).min(*to), max.max(*from).max(*to));
            let step = to.wrapping_sub(*from);
            (least, greatest) = (least.min(step), greatest.max(step));
        }
        let values = width_of(max.wrapping_sub(min) as u64);
        // What varies in all values may be one in the sample.
        values
            .min(width_of(greatest.wrapping_sub(least) as u64))
            .max(1)
    }

    /// Fills `out` with the numbers of the lane, each the one of its bytes that is nearest to the first: those of few bits
    /// stay so, whether they are signed or not.
    fn take(self, values: &[u8], length: usize, out: &mut [i64]) {
        let from = &values[self.place..];
        match self.width {
            -8 => take(from, length, out, i64::from_le_bytes),
            -4 => take(from, length, out, |word| i32::from_le_bytes(word).into()),
            -2 => take(from, length, out, |word| i16::from_le_bytes(word).into()),
            2 => take(from, length, out, |word| i16::from_be_bytes(word).into()),
            4 => take(from, length, out, |word| i32::from_be_bytes(word).into()),
            8 => take(from, length, out, i64::from_be_bytes),
            _ => take(from, length, out, |word| i8::from_be_bytes(word).into()),
        }
        let unused = 64 - 8 * self.width() as u32;
        let first = out.first().copied().unwrap_or(0);
        for number in out {
            let above = number.wrapping_sub(first);
            *number = first.wrapping_add(above << unused >> unused);
        }
    }

    /// Writes the numbers of the lane to their places.
    fn put(self, numbers: &[i64], length: usize, values: &mut [u8]) {
        let to = &mut values[self.place..];
        match self.width {
            -8 => put(numbers, length, to, i64::to_le_bytes),
            -4 => put(numbers, length, to, |number| (number as i32).to_le_bytes()),
            -2 => put(numbers, length, to, |number| (number as i16).to_le_bytes()),
            2 => put(numbers, length, to, |number| (number as i16).to_be_bytes()),
            4 => put(numbers, length, to, |number| (number as i32).to_be_bytes()),
            8 => put(numbers, length, to, i64::to_be_bytes),
            _ => put(numbers, length, to, |number| (number as i8).to_be_bytes()),
        }
    }
}

/// Reads a word at the start of every `length` bytes.
fn take<const W: usize>(
    from: &[u8],
    length: usize,
    out: &mut [i64],
    number: impl Fn([u8; W]) -> i64,
) {
    for (out, from) in out.iter_mut().zip(from.chunks(length)) {
        if let Some(word) = from.first_chunk() {
            *out = number(*word);
        }
    }
}

/// Writes a word at the start of every `length` bytes.
fn put<const W: usize>(
    numbers: &[i64],
    length: usize,
    to: &mut [u8],
    word: impl Fn(i64) -> [u8; W],
) {
    for (number, to) in numbers.iter().zip(to.chunks_mut(length)) {
        if let Some(to) = to.first_chunk_mut() {
            *to = word(*number);
        }
    }
}

/// Takes as many values as `numbers` has slots and appends them to `bytes`, which is empty.
pub(super) fn decode(
    input: &mut &[u8],
    is_utf8: bool,
    numbers: &mut [i64],
    offsets: &mut Vec<u32>,
    bytes: &mut Vec<u8>,
) -> Result<(), Error> {
    let lanes = usize::try_from(varint::get_u64(input)?).unwrap_or(usize::MAX);
    if lanes == 0 || lanes > LENGTH_MAX {
        return Err(Error::corrupt("values have no lanes, or too many"));
    }
    let mut widths = [0; LENGTH_MAX];
    let widths = &mut widths[..lanes];
    integer::decode_chunk(input, widths)?;
    let mut length = 0;
    for width in widths.iter() {
        length += match width {
            1 | 2 | 4 | 8 | -2 | -4 | -8 => width.unsigned_abs() as usize,
            _ => return Err(Error::corrupt("a lane is 1, 2, 4 or 8 bytes wide")),
        };
    }
    if length > LENGTH_MAX {
        return Err(Error::corrupt("lanes of more than 1024 bytes"));
    }
    let n = numbers.len();
    bytes.resize(n * length, 0);
    let mut place = 0;
    for width in widths {
        integer::decode_chunk(input, numbers)?;
        let lane = Lane {
            place,
            width: *width as i8,
        };
        lane.put(numbers, length, bytes);
        place += lane.width();
    }
    offsets.extend((1..=n).map(|row| (row * length) as u32));
    if is_utf8 {
        check_utf8(offsets, bytes)
    } else {
        Ok(())
    }
}
