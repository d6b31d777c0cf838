//! BITMAP: one bit a value.
//!
//! Layout: `ceil(n / 8)` bytes, LSB first, 1 = true.

use crate::Error;
use crate::pack::{pack, packed_bytes, unpack};
use crate::read::take;

pub(super) fn bytes(n: usize) -> usize {
    packed_bytes(n, 1)
}

pub(super) fn encode(values: &[bool], out: &mut Vec<u8>) {
    pack(values.iter().map(|value| u64::from(*value)), 1, out);
}

pub(super) fn decode(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    unpack(take(input, bytes(out.len()))?, 1, 0, out);
    Ok(())
}
