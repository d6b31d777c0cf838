//! CONST: every value is the same.
//!
//! Layout: zigzag varint of the value.

use crate::{Error, varint};

pub(super) fn bytes(value: i64) -> usize {
    varint::bytes_i64(value)
}

pub(super) fn encode(value: i64, out: &mut Vec<u8>) {
    varint::put_i64(value, out);
}

pub(super) fn decode(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    out.fill(varint::get_i64(input)?);
    Ok(())
}
