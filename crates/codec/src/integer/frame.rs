//! FOR (frame of reference): offsets from a base, bit packed, with patches for the wide ones.
//!
//! Layout: a packing (see `patch.rs`) of the values themselves.

use super::patch::{Packing, Parts};
use crate::Error;

pub(super) fn bytes(packing: &Packing, n: usize) -> usize {
    packing.bytes(n)
}

pub(super) fn encode(values: &[i64], packing: &Packing, out: &mut Vec<u8>) {
    packing.encode(values.iter().copied(), out);
}

pub(super) fn decode(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    decode_first(input, out.len(), out)
}

/// Fills `out` with the first of so many values.
pub(super) fn decode_first(input: &mut &[u8], total: usize, out: &mut [i64]) -> Result<(), Error> {
    Parts::take(input, total)?.unpack(total, out)
}
