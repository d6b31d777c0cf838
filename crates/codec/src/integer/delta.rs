//! DELTA: differences between neighbours, as a frame of reference with patches.
//!
//! Layout: zigzag varint of the first value, then a packing (see `patch.rs`) of the `n - 1` differences. Sums wrap.

use super::patch::{self, Packing};
use crate::{Error, varint};

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
    let Some((first, deltas)) = out.split_first_mut() else {
        return Ok(());
    };
    *first = varint::get_i64(input)?;
    patch::decode(input, deltas)?;
    let mut sum = *first;
    for value in deltas {
        sum = sum.wrapping_add(*value);
        *value = sum;
    }
    Ok(())
}
