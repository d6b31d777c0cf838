//! PLAIN: lengths, then bytes.
//!
//! Layout: an integer chunk of the lengths, the bytes of all values one after the other.

use super::check_utf8;
use crate::integer::{self, Flat, Plan};
use crate::read::take;
use crate::{BLOCK_ROWS_MAX, Error, PageSet, text_bytes_max};

/// The lengths of 1 to [`BLOCK_ROWS_MAX`] values, planned.
pub(super) struct Lengths {
    each: [i64; BLOCK_ROWS_MAX],
    n: usize,
    total: usize,
    plan: Plan,
}

impl Lengths {
    pub(super) fn of<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut lengths = [0; BLOCK_ROWS_MAX];
        let mut n = 0;
        let mut total = 0;
        for (length, value) in lengths.iter_mut().zip(values) {
            *length = value.len() as i64;
            n += 1;
            total += value.len();
        }
        Self {
            plan: integer::plan(&lengths[..n], PageSet::First),
            each: lengths,
            n,
            total,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        1 + self.plan.body_bytes(self.n) + self.total
    }

    /// The length that all values have.
    pub(super) fn common(&self) -> Option<usize> {
        match self.plan {
            Plan::Flat(Flat::Constant { value }) => usize::try_from(value).ok(),
            _ => None,
        }
    }

    /// Appends the values that these are the lengths of.
    pub(super) fn encode<'a>(&self, values: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
        out.push(self.plan.encoding() as u8);
        self.plan.encode_body(&self.each[..self.n], out);
        for value in values {
            out.extend_from_slice(value);
        }
    }
}

/// Takes as many values as `lengths` has slots and appends them.
pub(super) fn decode(
    input: &mut &[u8],
    is_utf8: bool,
    lengths: &mut [i64],
    offsets: &mut Vec<u32>,
    bytes: &mut Vec<u8>,
) -> Result<(), Error> {
    let bytes_max = text_bytes_max(lengths.len());
    decode_offsets(input, lengths, bytes_max, offsets)?;
    let total = offsets.last().map_or(0, |end| *end as usize);
    bytes.extend_from_slice(take(input, total)?);
    if is_utf8 {
        check_utf8(offsets, bytes)
    } else {
        Ok(())
    }
}

/// Takes as many lengths as `lengths` has slots and appends the end of each value to `offsets`, which ends with the start.
/// All of them together have at most `bytes_max` bytes.
pub(super) fn decode_offsets(
    input: &mut &[u8],
    lengths: &mut [i64],
    bytes_max: usize,
    offsets: &mut Vec<u32>,
) -> Result<(), Error> {
    integer::decode_chunk(input, lengths)?;
    let mut end = 0;
    for length in lengths {
        let length =
            usize::try_from(*length).map_err(|_| Error::corrupt("a text of negative length"))?;
        // Each length is at most the limit, so the sum of a page of them cannot overflow.
        end += length.min(bytes_max + 1);
        if end > bytes_max {
            return Err(Error::LimitTextBytes { bytes: end });
        }
        offsets.push(end as u32);
    }
    Ok(())
}
