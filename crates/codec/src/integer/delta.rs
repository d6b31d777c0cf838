//! DELTA: differences between neighbours, as a frame of reference with patches.
//!
//! Layout: zigzag varint of the first value, then a packing (see `patch.rs`) of the `n - 1` differences. Sums wrap.

use super::patch::{Packing, Parts};
use crate::pack::{GROUP, group_bytes, unpack_sums};
use crate::{Error, varint};

/// Of this many values one is a patch, where patches are put in before the differences are summed up.
const VALUES_PER_PATCH: usize = 16;

pub(super) fn bytes(first: i64, packing: &Packing, n: usize) -> usize {
    varint::bytes_i64(first) + packing.bytes(n - 1)
}

pub(super) fn encode(values: &[i64], packing: &Packing, out: &mut Vec<u8>) {
    varint::put_i64(values[0], out);
    packing.encode(deltas(values), out);
}

/// The differences between neighbours.
pub(super) fn deltas(values: &[i64]) -> impl ExactSizeIterator<Item = i64> + Clone {
    let (from, to) = (values, &values[values.len().min(1)..]);
    to.iter().zip(from).map(|(to, from)| to.wrapping_sub(*from))
}

pub(super) fn decode(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    decode_first(input, out.len(), out)
}

/// Fills `out` with the first of so many values.
pub(super) fn decode_first(input: &mut &[u8], total: usize, out: &mut [i64]) -> Result<(), Error> {
    let Some((first, out)) = out.split_first_mut() else {
        return Ok(());
    };
    *first = varint::get_i64(input)?;
    let (n, total) = (out.len(), total - 1);
    let parts = Parts::take(input, total)?;
    if parts.patches() * VALUES_PER_PATCH > total {
        // Each patch would go over the rest of its group below.
        parts.unpack(total, out)?;
        let mut sum = *first;
        for value in out {
            sum = sum.wrapping_add(*value);
            *value = sum;
        }
        return Ok(());
    }
    let mut sums = Sums {
        packed: parts.packed,
        width: parts.width,
        base: parts.base,
        sum: *first,
        done: 0,
    };
    // A patch adds to all values from its own on: to the rest of its group here, to later ones through the sum.
    parts.for_patches(total, |position, high| {
        if position >= n {
            return;
        }
        let end = (position / GROUP * GROUP + GROUP).min(n);
        sums.advance(end, out);
        for value in &mut out[position..end] {
            *value = value.wrapping_add(high);
        }
        sums.sum = sums.sum.wrapping_add(high);
    })?;
    sums.advance(n, out);
    Ok(())
}

/// Running sums of packed differences. Summing while unpacking costs hardly more than unpacking: the additions that
/// wait for each other fill the time that the shifts of the next values take.
struct Sums<'a> {
    packed: &'a [u8],
    width: u32,
    base: i64,
    sum: i64,
    done: usize,
}

impl Sums<'_> {
    /// Fills `out` up to `end`, the end of a group or of all; up to there it may be filled already.
    fn advance(&mut self, end: usize, out: &mut [i64]) {
        if end > self.done {
            let packed = &self.packed[self.done / GROUP * group_bytes(self.width)..];
            let out = &mut out[self.done..end];
            self.sum = unpack_sums(packed, self.width, self.base, self.sum, out);
            self.done = end;
        }
    }
}
