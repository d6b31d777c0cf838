//! IMAGE: the bits of a float as an integer, without the low bits that are zero in all of them.
//!
//! Layout: shift (1 byte), an integer chunk of `bits >> shift`, arithmetic. Floats that were binary32 once drop 29 bits this way, and
//! values of one magnitude share sign and exponent, which the frame of reference drops.

use crate::read::take_u8;
use crate::{BLOCK_ROWS_MAX, Error, PageSet, integer};

pub(super) struct Image {
    shift: u32,
    n: usize,
    latents: [i64; BLOCK_ROWS_MAX],
    plan: integer::Plan,
}

impl Image {
    pub(super) fn of(values: &[f64], set: PageSet) -> Self {
        let union = values
            .iter()
            .fold(0, |union, value| union | value.to_bits());
        // All zero is a constant; any shift below 64 serves.
        let shift = union.trailing_zeros().min(63);
        let mut latents = [0; BLOCK_ROWS_MAX];
        for (latent, value) in latents.iter_mut().zip(values) {
            *latent = value.to_bits() as i64 >> shift;
        }
        let plan = integer::plan(&latents[..values.len()], set);
        Self {
            shift,
            n: values.len(),
            latents,
            plan,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        1 + 1 + self.plan.body_bytes(self.n)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.shift as u8);
        out.push(self.plan.encoding() as u8);
        self.plan.encode_body(&self.latents[..self.n], out);
    }
}

pub(super) fn decode(input: &mut &[u8], latents: &mut [i64], out: &mut [f64]) -> Result<(), Error> {
    let shift = u32::from(take_u8(input)?);
    if shift > 63 {
        return Err(Error::corrupt(
            "the bits of floats are shifted by more than 63",
        ));
    }
    integer::decode_chunk(input, latents)?;
    for (value, latent) in out.iter_mut().zip(latents) {
        *value = f64::from_bits((*latent << shift) as u64);
    }
    Ok(())
}
