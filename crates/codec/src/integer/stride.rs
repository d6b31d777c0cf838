//! STRIDE: every difference is the same, as in times that tick.
//!
//! Layout: zigzag varint of the first value, zigzag varint of the difference. Value `i` is `first + i * step`, wrapping.

use crate::{Error, varint};

pub(super) fn bytes(first: i64, step: i64) -> usize {
    varint::bytes_i64(first) + varint::bytes_i64(step)
}

pub(super) fn encode(first: i64, step: i64, out: &mut Vec<u8>) {
    varint::put_i64(first, out);
    varint::put_i64(step, out);
}

pub(super) fn decode(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    let first = varint::get_i64(input)?;
    let step = varint::get_i64(input)?;
    // Eight sums at a time that do not wait for each other.
    let ahead: [i64; 8] = std::array::from_fn(|index| step.wrapping_mul(index as i64));
    let mut base = first;
    for values in out.chunks_mut(ahead.len()) {
        for (value, ahead) in values.iter_mut().zip(ahead) {
            *value = base.wrapping_add(ahead);
        }
        base = base.wrapping_add(step.wrapping_mul(8));
    }
    Ok(())
}
