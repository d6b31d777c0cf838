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
    Parts::take(input, out.len())?.unpack(out)
}
