//! RUNS: values that stay for a while, as states and saturated counters do.
//!
//! Layout: number of runs (varint), a chunk of their values, a chunk of their lengths. Neither chunk is RUNS again.

use super::{Flat, decode_flat_chunk};
use crate::{BLOCK_ROWS_MAX, Error, varint};

/// Fewest values that are looked at: the parts of runs cost more than a few values ever do.
const ROWS_MIN: usize = 64;

/// Neighbours compared before all of them are.
const SAMPLES: usize = 32;

/// Runs and how their values and lengths will be encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs {
    count: usize,
    values: Flat,
    lengths: Flat,
}

impl Runs {
    /// The runs of `values`, or `None` if they are too many to save a quarter of `bytes_max`, the least without.
    ///
    /// Data without runs pays for a few comparisons only.
    pub(super) fn of(values: &[i64], bytes_max: usize) -> Option<Self> {
        let n = values.len();
        if n < ROWS_MIN {
            return None;
        }
        // A run costs about what a value costs otherwise, and some bits for its length.
        let bits = 8 * bytes_max;
        let pays = |changes: usize, of: usize| changes * (bits + 4 * n) < of * bits;
        let is_change = |pair: &[i64; 2]| pair[0] != pair[1];
        let pairs = || values.array_windows();
        let step = ((n - 1) / SAMPLES).max(1);
        let sampled = pairs().step_by(step).filter(|pair| is_change(pair)).count();
        if !pays(sampled, (n - 1).div_ceil(step)) {
            return None;
        }
        let changes = pairs().filter(|pair| is_change(pair)).count();
        if !pays(changes, n - 1) {
            return None;
        }
        let (of_values, lengths) = split(values);
        let count = changes + 1;
        let runs = Self {
            count,
            values: super::plan_flat(&of_values[..count]),
            lengths: super::plan_flat(&lengths[..count]),
        };
        // Short runs are slower to read than differences: a few bytes less are not worth that.
        (4 * runs.bytes() <= 3 * bytes_max).then_some(runs)
    }

    pub(super) fn bytes(&self) -> usize {
        let Self {
            count,
            values,
            lengths,
        } = self;
        let chunks = 1 + values.body_bytes(*count) + 1 + lengths.body_bytes(*count);
        varint::bytes_u64(*count as u64) + chunks
    }

    /// Appends the runs of the values that they were found in.
    pub(super) fn encode(&self, values: &[i64], out: &mut Vec<u8>) {
        let (of_values, lengths) = split(values);
        varint::put_u64(self.count as u64, out);
        self.values.encode_chunk(&of_values[..self.count], out);
        self.lengths.encode_chunk(&lengths[..self.count], out);
    }
}

/// The values of the runs and their lengths, from the front of each array.
fn split(values: &[i64]) -> ([i64; BLOCK_ROWS_MAX], [i64; BLOCK_ROWS_MAX]) {
    let (mut of_values, mut lengths) = ([0; BLOCK_ROWS_MAX], [0; BLOCK_ROWS_MAX]);
    let runs = values.chunk_by(|a, b| a == b);
    for ((value, length), run) in of_values.iter_mut().zip(&mut lengths).zip(runs) {
        (*value, *length) = (run[0], run.len() as i64);
    }
    (of_values, lengths)
}

pub(super) fn decode(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    let count = varint::get_u64(input)?;
    let count = match usize::try_from(count) {
        Ok(count @ 1..) if count <= out.len() => count,
        _ => return Err(Error::corrupt("the number of runs is not that of a page")),
    };
    let mut lengths = [0; BLOCK_ROWS_MAX];
    let lengths = &mut lengths[..count];
    decode_flat_chunk(input, &mut out[..count])?;
    decode_flat_chunk(input, lengths)?;
    // From the end: a run begins at or behind the place of its value, so that no value is overwritten before it is read.
    let mut end = out.len();
    for (index, length) in lengths.iter().enumerate().rev() {
        let start = usize::try_from(*length)
            .ok()
            .and_then(|length| end.checked_sub(length))
            .filter(|start| (index..end).contains(start))
            .ok_or(Error::corrupt("runs are not as long as the page"))?;
        let value = out[index];
        out[start..end].fill(value);
        end = start;
    }
    if end > 0 {
        return Err(Error::corrupt("runs are not as long as the page"));
    }
    Ok(())
}
