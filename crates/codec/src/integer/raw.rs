//! RAW: nothing else is smaller.
//!
//! Layout: 8 bytes a value, little-endian.

use crate::Error;
use crate::read::take;

pub(super) fn bytes(n: usize) -> usize {
    8 * n
}

pub(super) fn encode(values: &[i64], out: &mut Vec<u8>) {
    out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
}

pub(super) fn decode(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    let bytes = take(input, 8 * out.len())?;
    for (value, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
        *value = i64::from_le_bytes(*bytes);
    }
    Ok(())
}
