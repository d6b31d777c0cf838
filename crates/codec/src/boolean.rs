//! Booleans: one bit each, or integers 0 and 1 where the pipeline is smaller, as in long runs.

mod bitmap;

use crate::encoding::{Encoding, PageSet};
use crate::{BLOCK_ROWS_MAX, Error, integer};

/// Appends the body of 1 to [`BLOCK_ROWS_MAX`] values and answers with its encoding.
pub(crate) fn encode(values: &[bool], out: &mut Vec<u8>) -> Encoding {
    let n = values.len();
    let latents: [i64; BLOCK_ROWS_MAX] =
        std::array::from_fn(|index| values.get(index).copied().map_or(0, i64::from));
    let plan = integer::plan(&latents[..n], PageSet::First);
    if bitmap::bytes(n) <= plan.body_bytes(n) {
        bitmap::encode(values, out);
        return Encoding::Bitmap;
    }
    plan.encode_body(&latents[..n], out);
    plan.encoding()
}

/// Fills `out`; `latents` is room to work in.
pub(crate) fn decode(
    encoding: Encoding,
    input: &mut &[u8],
    latents: &mut Vec<i64>,
    out: &mut [bool],
) -> Result<(), Error> {
    latents.resize(out.len(), 0);
    match encoding {
        Encoding::Bitmap => bitmap::decode(input, latents)?,
        _ => integer::decode_body(encoding, input, latents)?,
    }
    let mut union = 0;
    for (value, latent) in out.iter_mut().zip(latents) {
        union |= *latent;
        *value = *latent != 0;
    }
    if union & !1 != 0 {
        return Err(Error::corrupt("a boolean is neither 0 nor 1"));
    }
    Ok(())
}
