//! DISTINCT: a few values that come again and again, but not beside each other, as the times of series that tick
//! together and stand one after the other in a shared block.
//!
//! Layout: number of entries (varint), a chunk of them, a chunk of the index of each value's entry. Neither chunk is RUNS
//! or DISTINCT. A writer's entries ascend, so that codes of times are as even as the times.

use super::{Flat, decode_flat_chunk};
use crate::{BLOCK_ROWS_MAX, Error, varint};

/// Fewest values that are looked at: an entry and its codes cost more than a few values ever do.
const ROWS_MIN: usize = 64;

/// Values looked at before all of them are.
const SAMPLES: usize = 64;

/// More distinct values than this among the samples, and the rest is not looked at.
const SAMPLED_ENTRIES_MAX: usize = SAMPLES / 2;

/// Codes of more entries than this take more than a byte each.
const ENTRIES_MAX: usize = 256;

/// How entries and codes will be encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Distinct {
    entries: usize,
    values: Flat,
    codes: Flat,
}

impl Distinct {
    /// The entries of `values`, or `None` if they are too many to save a quarter of `bytes_max`, the least without.
    ///
    /// Values that take less than six bits each are not looked at, others that seldom repeat pay for a few comparisons.
    pub(super) fn of(values: &[i64], bytes_max: usize) -> Option<Self> {
        let n = values.len();
        if n < ROWS_MIN || 4 * bytes_max < 3 * n {
            return None;
        }
        let mut samples = [0; SAMPLES];
        for (sample, value) in samples.iter_mut().zip(values.iter().step_by(n / SAMPLES)) {
            *sample = *value;
        }
        samples.sort_unstable();
        let changes = samples.array_windows().filter(|[a, b]| a != b).count();
        if changes >= SAMPLED_ENTRIES_MAX {
            return None;
        }
        let (mut entries, mut codes) = ([0; BLOCK_ROWS_MAX], [0; BLOCK_ROWS_MAX]);
        let count = split(values, &mut entries, &mut codes)?;
        let distinct = Self {
            entries: count,
            values: super::plan_flat(&entries[..count]),
            codes: super::plan_flat(&codes[..n]),
        };
        // Looking values up costs a reader something: a few bytes less are not worth that.
        (4 * distinct.bytes(n) <= 3 * bytes_max).then_some(distinct)
    }

    /// Bytes of the body for the `n` values that it was made of.
    pub(super) fn bytes(&self, n: usize) -> usize {
        let chunks = 1 + self.values.body_bytes(self.entries) + 1 + self.codes.body_bytes(n);
        varint::bytes_u64(self.entries as u64) + chunks
    }

    /// Appends the body of the values that it was made of.
    pub(super) fn encode(&self, values: &[i64], out: &mut Vec<u8>) {
        let (mut entries, mut codes) = ([0; BLOCK_ROWS_MAX], [0; BLOCK_ROWS_MAX]);
        let count = split(values, &mut entries, &mut codes).unwrap_or(self.entries);
        varint::put_u64(count as u64, out);
        self.values.encode_chunk(&entries[..count], out);
        self.codes.encode_chunk(&codes[..values.len()], out);
    }
}

/// The distinct values, ascending, and the position of each value among them, from the front of each array; `None` if
/// there are more than [`ENTRIES_MAX`].
fn split(
    values: &[i64],
    entries: &mut [i64; BLOCK_ROWS_MAX],
    codes: &mut [i64; BLOCK_ROWS_MAX],
) -> Option<usize> {
    let sorted = &mut entries[..values.len()];
    sorted.copy_from_slice(values);
    sorted.sort_unstable();
    let mut count = 1;
    for index in 1..sorted.len() {
        if sorted[index] != sorted[count - 1] {
            sorted[count] = sorted[index];
            count += 1;
        }
    }
    if count > ENTRIES_MAX {
        return None;
    }
    let entries = &sorted[..count];
    for (code, value) in codes.iter_mut().zip(values) {
        *code = entries.partition_point(|entry| entry < value) as i64;
    }
    Some(count)
}

pub(super) fn decode(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    let count = varint::get_u64(input)?;
    let count = match usize::try_from(count) {
        Ok(count @ 1..) if count <= out.len() => count,
        _ => {
            return Err(Error::corrupt(
                "the number of distinct values is not that of a page",
            ));
        }
    };
    let mut entries = [0; BLOCK_ROWS_MAX];
    let entries = &mut entries[..count];
    decode_flat_chunk(input, entries)?;
    decode_flat_chunk(input, out)?;
    for value in out {
        let code = usize::try_from(*value).ok();
        *value = code
            .and_then(|code| entries.get(code).copied())
            .ok_or(Error::corrupt("a code is beyond the distinct values"))?;
    }
    Ok(())
}
