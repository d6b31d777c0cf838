//! Floats that are no integer over the scale of their page, and so keep their bits beside it.
//!
//! Layout: how many (varint), their positions, packed like those of patches, their bits (8 bytes each, little-endian).

use crate::integer::{for_positions, position_width};
use crate::pack::{pack, packed_bytes};
use crate::read::take;
use crate::{BLOCK_ROWS_MAX, Error, varint};

/// Which values are not exact, one bit each.
pub(crate) struct Exceptions {
    pub(crate) count: usize,
    words: [u64; BLOCK_ROWS_MAX / 64],
}

impl Exceptions {
    pub(super) const NONE: Self = Self {
        count: 0,
        words: [0; BLOCK_ROWS_MAX / 64],
    };

    /// Those of the values whose integer is not exact.
    pub(super) fn of(values: &[f64], latents: &[i64], is_exact: impl Fn(f64, i64) -> bool) -> Self {
        let mut words = [0; BLOCK_ROWS_MAX / 64];
        for (word, (values, latents)) in words
            .iter_mut()
            .zip(values.chunks(64).zip(latents.chunks(64)))
        {
            for (index, (value, latent)) in values.iter().zip(latents).enumerate() {
                *word |= u64::from(!is_exact(*value, *latent)) << index;
            }
        }
        Self {
            count: words.iter().map(|word| word.count_ones() as usize).sum(),
            words,
        }
    }

    fn has(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    /// Exceptions repeat the integer before them, those at the start the first exact one: neither widens the packing.
    pub(crate) fn fill(&self, latents: &mut [i64]) {
        if self.count == 0 {
            return;
        }
        let mut neighbour = (0..latents.len())
            .find(|index| !self.has(*index))
            .map_or(0, |index| latents[index]);
        for (index, latent) in latents.iter_mut().enumerate() {
            if self.has(index) {
                *latent = neighbour;
            }
            neighbour = *latent;
        }
    }

    /// Bytes that [`Self::encode`] appends for a page of `n` values.
    pub(super) fn bytes(&self, n: usize) -> usize {
        let count = self.count;
        varint::bytes_u64(count as u64) + packed_bytes(count, position_width(n)) + 8 * count
    }

    pub(crate) fn encode(&self, values: &[f64], out: &mut Vec<u8>) {
        varint::put_u64(self.count as u64, out);
        if self.count == 0 {
            return;
        }
        let mut positions = [0; BLOCK_ROWS_MAX];
        let exceptions = (0..values.len()).filter(|index| self.has(*index));
        for (position, index) in positions.iter_mut().zip(exceptions) {
            *position = index as u64;
        }
        let positions = &positions[..self.count];
        pack(positions.iter().copied(), position_width(values.len()), out);
        out.extend(
            positions
                .iter()
                .flat_map(|index| values[*index as usize].to_bits().to_le_bytes()),
        );
    }
}

/// Exceptions as they stand in a page, before the values are there that they replace.
pub(crate) struct Taken<'a> {
    count: usize,
    positions: &'a [u8],
    bits: &'a [u8],
}

impl<'a> Taken<'a> {
    /// Takes those of `n` values off the front of `input`.
    pub(crate) fn take(input: &mut &'a [u8], n: usize) -> Result<Self, Error> {
        let count = usize::try_from(varint::get_u64(input)?).unwrap_or(usize::MAX);
        if count > n {
            return Err(Error::corrupt("more exceptions than values"));
        }
        Ok(Self {
            count,
            positions: take(input, packed_bytes(count, position_width(n)))?,
            bits: take(input, 8 * count)?,
        })
    }

    /// Whether every value is what its integer says.
    #[cfg(feature = "pco")]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Puts them over the values.
    pub(crate) fn apply(&self, out: &mut [f64]) -> Result<(), Error> {
        let bits = self.bits.as_chunks().0;
        for_positions(self.positions, out.len(), self.count, |index, position| {
            out[position] = f64::from_bits(u64::from_le_bytes(bits[index]));
        })
    }
}
