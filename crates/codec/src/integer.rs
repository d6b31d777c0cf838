//! The integer pipeline: times, integers, booleans, dictionary codes and decimal floats all end here.
//!
//! At most [`BLOCK_ROWS_MAX`] values make a chunk. A plan is chosen from counts alone, never by trial encoding: one
//! pass finds the extremes of values and differences, a second one counts how many values exceed each width. All
//! arithmetic wraps, so the full range of i64 round-trips, and u64 does by reinterpretation.

mod blocked;
mod constant;
mod delta;
mod distinct;
mod frame;
mod grid;
mod narrow;
mod patch;
mod raw;
mod runs;
mod stride;

use crate::encoding::{Encoding, PageSet};
use crate::read::take_u8;
use crate::{BLOCK_ROWS_MAX, Error, pack};
pub(crate) use patch::{for_positions, position_width};

use blocked::Blocked;
use distinct::Distinct;
use grid::Grid;
use narrow::Extremes;
use patch::Packing;
use runs::Runs;

/// How one chunk will be encoded; the size is known before a byte is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    Flat(Flat),
    Runs(Runs),
    Distinct(Distinct),
    Grid(Grid),
    Blocked(Blocked),
}

/// A plan for the values themselves, not for parts of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flat {
    Constant { value: i64 },
    Stride { first: i64, step: i64 },
    Frame(Packing),
    Delta { first: i64, packing: Packing },
    Raw,
}

/// Appends `values`, any number of them, in chunks of [`BLOCK_ROWS_MAX`]; the reader must know how many there are.
pub fn encode_i64s(values: &[i64], out: &mut Vec<u8>) {
    for chunk in values.chunks(BLOCK_ROWS_MAX) {
        let plan = plan(chunk, PageSet::First);
        out.push(plan.encoding() as u8);
        plan.encode_body(chunk, out);
    }
}

/// Takes `n` values off the front of `input` and appends them to `out`.
///
/// After an error `out` holds what it held before. Memory grows only as input is consumed.
pub fn decode_i64s(input: &mut &[u8], n: usize, out: &mut Vec<i64>) -> Result<(), Error> {
    let start = out.len();
    let end = start.checked_add(n).ok_or(Error::Truncated)?;
    while out.len() < end {
        let from = out.len();
        out.resize(end.min(from + BLOCK_ROWS_MAX), 0);
        if let Err(error) = decode_chunk(input, &mut out[from..]) {
            out.truncate(start);
            return Err(error);
        }
    }
    Ok(())
}

/// Decodes one self-describing chunk that fills `out`, at most [`BLOCK_ROWS_MAX`] values.
pub(crate) fn decode_chunk(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    let encoding = Encoding::try_from(take_u8(input)?)?;
    decode_body(encoding, input, out)
}

/// Decodes a chunk whose encoding id was read already.
pub(crate) fn decode_body(
    encoding: Encoding,
    input: &mut &[u8],
    out: &mut [i64],
) -> Result<(), Error> {
    debug_assert!(
        !out.is_empty() && out.len() <= BLOCK_ROWS_MAX,
        "a chunk of {} values",
        out.len()
    );
    match encoding {
        Encoding::RunLength => runs::decode(input, out),
        Encoding::Distinct => distinct::decode(input, out),
        Encoding::Grid => grid::decode(input, out),
        Encoding::Blocked => blocked::decode(input, out),
        _ => decode_flat(encoding, input, out),
    }
}

/// Fills `out` with the first of `total` values of a chunk whose encoding id was read already; false = of this encoding only
/// all values can be had, and nothing was read.
pub(crate) fn decode_first(
    encoding: Encoding,
    input: &mut &[u8],
    total: usize,
    out: &mut [i64],
) -> Result<bool, Error> {
    match encoding {
        Encoding::Constant => constant::decode(input, out)?,
        Encoding::Stride => stride::decode(input, out)?,
        Encoding::Frame => frame::decode_first(input, total, out)?,
        Encoding::Delta => delta::decode_first(input, total, out)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Decodes a chunk that is part of another one, and so has no parts itself: input cannot make decoding recur.
fn decode_flat_chunk(input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    let encoding = Encoding::try_from(take_u8(input)?)?;
    decode_flat(encoding, input, out)
}

fn decode_flat(encoding: Encoding, input: &mut &[u8], out: &mut [i64]) -> Result<(), Error> {
    match encoding {
        Encoding::Constant => constant::decode(input, out),
        Encoding::Stride => stride::decode(input, out),
        Encoding::Frame => frame::decode(input, out),
        Encoding::Delta => delta::decode(input, out),
        Encoding::Raw => raw::decode(input, out),
        _ => Err(Error::corrupt("the encoding is not one of integers")),
    }
}

impl Plan {
    pub(crate) fn encoding(&self) -> Encoding {
        match self {
            Self::Flat(plan) => plan.encoding(),
            Self::Runs(_) => Encoding::RunLength,
            Self::Distinct(_) => Encoding::Distinct,
            Self::Grid(_) => Encoding::Grid,
            Self::Blocked(_) => Encoding::Blocked,
        }
    }

    /// Bytes of the body for the `n` values that the plan was made for, the encoding id not included.
    pub(crate) fn body_bytes(&self, n: usize) -> usize {
        match self {
            Self::Flat(plan) => plan.body_bytes(n),
            Self::Runs(runs) => runs.bytes(),
            Self::Distinct(distinct) => distinct.bytes(n),
            Self::Grid(grid) => grid.bytes(n),
            Self::Blocked(blocked) => blocked.bytes(),
        }
    }

    /// Appends the body of the values that the plan was made for.
    pub(crate) fn encode_body(&self, values: &[i64], out: &mut Vec<u8>) {
        match self {
            Self::Flat(plan) => plan.encode_body(values, out),
            Self::Runs(runs) => runs.encode(values, out),
            Self::Distinct(distinct) => distinct.encode(values, out),
            Self::Grid(grid) => grid.encode(values, out),
            Self::Blocked(blocked) => blocked.encode(values, out),
        }
    }
}

impl Flat {
    fn encoding(&self) -> Encoding {
        match self {
            Self::Constant { .. } => Encoding::Constant,
            Self::Stride { .. } => Encoding::Stride,
            Self::Frame(_) => Encoding::Frame,
            Self::Delta { .. } => Encoding::Delta,
            Self::Raw => Encoding::Raw,
        }
    }

    /// As of [`Plan`].
    fn body_bytes(&self, n: usize) -> usize {
        match self {
            Self::Constant { value } => constant::bytes(*value),
            Self::Stride { first, step } => stride::bytes(*first, *step),
            Self::Frame(packing) => frame::bytes(packing, n),
            Self::Delta { first, packing } => delta::bytes(*first, packing, n),
            Self::Raw => raw::bytes(n),
        }
    }

    /// As of [`Plan`].
    fn encode_body(&self, values: &[i64], out: &mut Vec<u8>) {
        match self {
            Self::Constant { value } => constant::encode(*value, out),
            Self::Stride { first, step } => stride::encode(*first, *step, out),
            Self::Frame(packing) => frame::encode(values, packing, out),
            Self::Delta { packing, .. } => delta::encode(values, packing, out),
            Self::Raw => raw::encode(values, out),
        }
    }

    /// Appends the encoding id too.
    fn encode_chunk(&self, values: &[i64], out: &mut Vec<u8>) {
        out.push(self.encoding() as u8);
        self.encode_body(values, out);
    }
}

/// Chooses the smallest encoding of 1 to [`BLOCK_ROWS_MAX`] values.
pub(crate) fn plan(values: &[i64], set: PageSet) -> Plan {
    let flat = plan_flat(values);
    // Nothing is smaller than these.
    if matches!(flat, Flat::Constant { .. } | Flat::Stride { .. }) {
        return Plan::Flat(flat);
    }
    let bytes = flat.body_bytes(values.len());
    if let Some(runs) = Runs::of(values, bytes) {
        return Plan::Runs(runs);
    }
    if let Some(distinct) = Distinct::of(values, bytes) {
        return Plan::Distinct(distinct);
    }
    if let Some(grid) = Grid::of(values, bytes) {
        return Plan::Grid(grid);
    }
    if set >= PageSet::Second
        && let Some(blocked) = Blocked::of(values, bytes)
    {
        return Plan::Blocked(blocked);
    }
    Plan::Flat(flat)
}

fn plan_flat(values: &[i64]) -> Flat {
    // Room is cleared when it is made: a few values are planned before that is done.
    if values.len() < narrow::ROWS_MIN {
        return plan_flat_of(values, None);
    }
    let mut room = [0; BLOCK_ROWS_MAX];
    plan_flat_of(values, narrow::narrow(values, &mut room))
}

/// The plan is the same with the narrow values as without, only sooner made.
fn plan_flat_of(values: &[i64], narrow: Option<&[i16]>) -> Flat {
    let first = values[0];
    let Extremes {
        value_min,
        value_max,
        delta_min,
        delta_max,
    } = match narrow {
        Some(narrow) => Extremes::of_narrow(first, narrow),
        None => Extremes::of(values),
    };
    if value_min == value_max {
        return Flat::Constant { value: first };
    }
    if delta_min == delta_max {
        return Flat::Stride {
            first,
            step: delta_min,
        };
    }
    let n = values.len();
    let value_width = pack::width_of(value_max.wrapping_sub(value_min) as u64);
    let delta_width = pack::width_of(delta_max.wrapping_sub(delta_min) as u64);

    let mut best = Flat::Raw;
    let mut best_bytes = best.body_bytes(n);
    let mut consider = |plan: Flat| {
        let bytes = plan.body_bytes(n);
        if bytes < best_bytes {
            (best, best_bytes) = (plan, bytes);
        }
    };
    // Differences of noise are one bit wider than the noise, those of anything that moves slowly are narrower. Patches
    // blur that by a little; beyond two bits the wider one is not worth a pass. At equal size the frame is faster to read.
    if value_width <= delta_width + 2 {
        let packing = narrow
            .and_then(|narrow| {
                let offsets = narrow::offsets(first, narrow, value_min);
                Packing::choose_narrow(&offsets[..n], value_min, value_width)
            })
            .unwrap_or_else(|| Packing::choose(&values.iter().copied(), value_min, value_width));
        consider(Flat::Frame(packing));
    }
    if delta_width <= value_width + 2 {
        let packing = narrow
            .and_then(|narrow| {
                let offsets = narrow::delta_offsets(narrow, delta_min);
                Packing::choose_narrow(&offsets[..n - 1], delta_min, delta_width)
            })
            .unwrap_or_else(|| Packing::choose(&delta::deltas(values), delta_min, delta_width));
        consider(Flat::Delta { first, packing });
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Walks, noise and outliers that stay within 16 bits of each other, above any base.
    fn near() -> impl Strategy<Value = Vec<i64>> {
        let rows = 1..=BLOCK_ROWS_MAX;
        let above = |(base, values): (i64, Vec<i64>)| -> Vec<i64> {
            values
                .iter()
                .map(|value| base.wrapping_add(*value))
                .collect()
        };
        prop_oneof![
            (0_u32..16, vec(any::<i16>(), rows.clone())).prop_map(|(shift, values)| {
                values
                    .iter()
                    .map(|value| i64::from(value >> shift))
                    .collect()
            }),
            vec(-9_i64..10, rows.clone()).prop_map(|steps| {
                let mut at = 0;
                steps
                    .iter()
                    .map(|step| {
                        at += step;
                        at
                    })
                    .collect()
            }),
            vec(
                prop_oneof![30 => 1000_i64..1009, 1 => -16_384_i64..16_384],
                rows
            ),
        ]
        .prop_flat_map(move |values| (any::<i64>(), Just(values)).prop_map(above))
    }

    proptest! {
        #[test]
        fn narrow_values_are_planned_like_others(values in near()) {
            let mut room = [0; BLOCK_ROWS_MAX];
            let narrow = narrow::narrow(&values, &mut room);
            let plan = plan_flat_of(&values, narrow);
            prop_assert_eq!(format!("{plan:?}"), format!("{:?}", plan_flat_of(&values, None)));
        }
    }
}
