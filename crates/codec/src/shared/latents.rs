//! Pages of pco, read by hand: integers as they are or as multiples of a base, as they are or as differences to neighbours.
//!
//! Does: make the tables of a chunk from what the library parsed; decode a page, or its first batches, value for value as the
//! library does, with two thirds of its instructions. Does not: parse a chunk, write, or know other modes; the library reads these.
//!
//! A page is: for each variable the values that its differences begin with and four states of the entropy coder, up to a whole
//! byte; then batches of 256 values, of each variable the symbols and after them the offsets within their bins; zeros up to a whole
//! byte. The n-th symbol belongs to state n mod 4. What the library does with one call for symbols, offsets, differences and modes
//! each, with buffers for sixteen bytes a value, is one loop for symbols and one for all that follows.

use pco::data_types::Number;
use pco::metadata::{Bin, ChunkLatentVarMeta, DeltaEncoding, Mode};
use pco::wrapped::ChunkDecompressor;

use crate::Error;

/// Values of a batch.
pub(crate) const BATCH: usize = 256;
/// States of the entropy coder that take turns.
const STATES: usize = 4;
/// Bits of an offset that one read of eight bytes has, wherever it begins within a byte.
const OFFSET_BITS_MAX: u32 = 57;
/// Bits of a symbol, four of which one read has.
const TABLE_LOG_MAX: u32 = 14;
/// Differences of differences, as the library bounds them.
const ORDER_MAX: usize = 7;
/// Zeros behind a page, so that a read near its end is one of eight bytes.
const PADDING: usize = 8;
/// Differences are written with this added, so that small ones of both signs are neighbours.
const CENTER: u64 = 1 << 63;

/// A number as pco orders it.
pub(crate) trait Integer: Number {
    /// The number that an ordered value stands for.
    fn of_ordered(ordered: u64) -> Self;
}

impl Integer for i64 {
    #[inline]
    fn of_ordered(ordered: u64) -> Self {
        (ordered ^ CENTER).cast_signed()
    }
}

impl Integer for u64 {
    #[inline]
    fn of_ordered(ordered: u64) -> Self {
        ordered
    }
}

/// What the pages of one column share.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    primary: Variable,
    /// What is added to multiples of a base, and the base.
    multiple: Option<(u64, Variable)>,
}

/// A row of numbers from which the values are made.
#[derive(Clone, Debug)]
struct Variable {
    log: u32,
    table: Vec<State>,
    bins: usize,
    has_offsets: bool,
    /// How often differences were taken.
    order: usize,
}

/// A state of the entropy coder.
#[derive(Clone, Copy, Debug)]
struct State {
    /// The least value of its bin.
    lower: u64,
    /// The state that follows, before the bits that are read are added.
    next: u16,
    /// As many ones as there are bits to read.
    mask: u16,
    bits: u8,
    offset_bits: u8,
}

/// As many ones as the index says; a look here is cheaper than two shifts.
const MASKS: [u64; 64] = {
    let mut masks = [0; 64];
    let mut bits = 1;
    while bits < 64 {
        masks[bits] = u64::MAX >> (64 - bits);
        bits += 1;
    }
    masks
};

/// Where a page is being read.
struct Bits<'a> {
    /// With the padding.
    bytes: &'a [u8],
    at: usize,
}

/// What is carried from batch to batch.
struct Progress {
    states: [usize; STATES],
    /// The values that the differences begin with, the first one first.
    moments: [u64; ORDER_MAX],
}

/// Room for a page and a batch of each variable, kept from page to page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    padded: Vec<u8>,
    values: Vec<u64>,
    added: Vec<u64>,
}

fn corrupt() -> Error {
    Error::corrupt("numbers in pco do not decode")
}

impl Chunk {
    /// The tables of a chunk; `None` = the library has to read it.
    pub(crate) fn of<T: Integer>(chunk: &ChunkDecompressor<T>) -> Option<Self> {
        let meta = chunk.meta();
        let (order, adds) = match meta.delta_encoding {
            DeltaEncoding::NoOp => (0, false),
            DeltaEncoding::Consecutive {
                order,
                secondary_uses_delta,
            } => (order, secondary_uses_delta),
            _ => return None,
        };
        let latents = &meta.per_latent_var;
        if order > ORDER_MAX || latents.delta.is_some() {
            return None;
        }
        let primary = Variable::of(&latents.primary, order)?;
        let multiple = match (&meta.mode, &latents.secondary) {
            (Mode::Classic, None) => None,
            (Mode::IntMult(base), Some(secondary)) => {
                let order = if adds { order } else { 0 };
                Some((*base.downcast_ref()?, Variable::of(secondary, order)?))
            }
            _ => return None,
        };
        Some(Self { primary, multiple })
    }

    /// States of all its tables.
    pub(crate) fn states(&self) -> usize {
        let added = self.multiple.as_ref();
        self.primary.table.len() + added.map_or(0, |(_, it)| it.table.len())
    }

    /// Decodes the first values of a page of `total`, as many as there is room for in `out`: all of them, or a multiple of
    /// [`BATCH`]. All of them take the whole of `body`.
    pub(crate) fn read<T: Integer>(
        &self,
        body: &[u8],
        total: usize,
        out: &mut [T],
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let Scratch {
            padded,
            values,
            added,
        } = scratch;
        padded.clear();
        padded.extend_from_slice(body);
        padded.resize(body.len() + PADDING, 0);
        values.resize(BATCH, 0);
        added.resize(BATCH, 0);
        let mut bits = Bits {
            bytes: padded,
            at: 0,
        };
        let mut primary = self.primary.begin(&mut bits, total)?;
        let mut multiple = match &self.multiple {
            Some((base, variable)) => Some((*base, variable, variable.begin(&mut bits, total)?)),
            None => None,
        };
        bits.skip_zeros()?;
        let mut left = total;
        for out in out.chunks_mut(BATCH) {
            let values = &mut values[..out.len()];
            self.primary.batch(&mut bits, &mut primary, left, values)?;
            if let Some((base, variable, progress)) = &mut multiple {
                let added = &mut added[..out.len()];
                variable.batch(&mut bits, progress, left, added)?;
                for (out, (value, added)) in out.iter_mut().zip(values.iter().zip(added)) {
                    *out = T::of_ordered(value.wrapping_mul(*base).wrapping_add(*added));
                }
            } else {
                for (out, value) in out.iter_mut().zip(values) {
                    *out = T::of_ordered(*value);
                }
            }
            left -= out.len();
        }
        if left == 0 {
            bits.skip_zeros()?;
            if bits.at != 8 * body.len() {
                return Err(corrupt());
            }
        }
        if bits.at > 8 * body.len() {
            return Err(Error::Truncated);
        }
        Ok(())
    }
}

impl Variable {
    fn of(meta: &ChunkLatentVarMeta, order: usize) -> Option<Self> {
        let bins: &[Bin<u64>] = meta.bins.downcast_ref::<u64>()?;
        let log = meta.ans_size_log;
        let widest = bins.iter().map(|bin| bin.offset_bits).max().unwrap_or(0);
        if log > TABLE_LOG_MAX || widest > OFFSET_BITS_MAX {
            return None;
        }
        Some(Self {
            log,
            table: table(bins, log)?,
            bins: bins.len(),
            has_offsets: widest > 0,
            order,
        })
    }

    /// Reads what stands before the batches.
    fn begin(&self, bits: &mut Bits<'_>, total: usize) -> Result<Progress, Error> {
        if self.bins == 0 && total > self.order {
            return Err(corrupt());
        }
        let mut progress = Progress {
            states: [0; STATES],
            moments: [0; ORDER_MAX],
        };
        for moment in &mut progress.moments[..self.order] {
            *moment = bits.take(32)? | bits.take(32)? << 32;
        }
        for state in &mut progress.states {
            let read = bits.take(self.log)?;
            *state = usize::try_from(read).map_err(|_| corrupt())?;
        }
        Ok(progress)
    }

    /// Decodes a batch; `left` = values of the page from here on.
    fn batch(
        &self,
        bits: &mut Bits<'_>,
        progress: &mut Progress,
        left: usize,
        out: &mut [u64],
    ) -> Result<(), Error> {
        // The last differences of a page are not written: their values follow from those before.
        let written = out.len().min(left.saturating_sub(self.order));
        let (found, rest) = out.split_at_mut(written);
        rest.fill(0);
        if self.bins > 1 {
            self.symbols(bits, &mut progress.states, found)?;
        } else if let Some(only) = self.table.first() {
            found.fill(only.lower);
            if self.has_offsets {
                for value in found {
                    *value = value.wrapping_add(bits.take(u32::from(only.offset_bits))?);
                }
            }
        }
        if self.order > 0 {
            integrate(&mut progress.moments[..self.order], out);
        }
        Ok(())
    }

    fn symbols(
        &self,
        bits: &mut Bits<'_>,
        states: &mut [usize; STATES],
        out: &mut [u64],
    ) -> Result<(), Error> {
        let mut widths = [0_u8; BATCH];
        let widths = &mut widths[..out.len()];
        let table = self.table.as_slice();
        let mask = table.len().wrapping_sub(1);
        let mut at = bits.at;
        let [mut first, mut second, mut third, mut fourth] = *states;
        let mut step = |state: &mut usize, word: &mut u64, value: &mut u64, width: &mut u8| {
            let entry = table[*state & mask];
            *value = entry.lower;
            *width = entry.offset_bits;
            let read = *word as u16 & entry.mask;
            *word >>= entry.bits;
            at += usize::from(entry.bits);
            *state = usize::from(entry.next.wrapping_add(read));
            at
        };
        let mut here = bits.at;
        let mut fours = out.chunks_exact_mut(STATES);
        let mut width_fours = widths.chunks_exact_mut(STATES);
        for (values, widths) in fours.by_ref().zip(width_fours.by_ref()) {
            let word = &mut bits.word(here)?;
            step(&mut first, word, &mut values[0], &mut widths[0]);
            step(&mut second, word, &mut values[1], &mut widths[1]);
            step(&mut third, word, &mut values[2], &mut widths[2]);
            here = step(&mut fourth, word, &mut values[3], &mut widths[3]);
        }
        let ends = fours.into_remainder().iter_mut();
        let ends = ends.zip(width_fours.into_remainder());
        for ((value, width), state) in ends.zip([&mut first, &mut second, &mut third]) {
            here = step(state, &mut bits.word(here)?, value, width);
        }
        *states = [first, second, third, fourth];
        if self.has_offsets {
            for (value, width) in out.iter_mut().zip(widths) {
                let word = bits.word(here)?;
                *value = value.wrapping_add(word & MASKS[usize::from(*width) % 64]);
                here += usize::from(*width);
            }
        }
        bits.at = here;
        Ok(())
    }
}

/// The states of the entropy coder: each bin has as many as its weight, strewn in steps of about three fifths of the table.
fn table(bins: &[Bin<u64>], log: u32) -> Option<Vec<State>> {
    let nothing = [Bin {
        weight: 1,
        lower: 0,
        offset_bits: 0,
    }];
    let bins = if bins.is_empty() { &nothing } else { bins };
    let size = 1_usize << log;
    let stride = 3 * size / 5;
    let stride = stride + usize::from(stride.is_multiple_of(2));
    let mut of_bin = vec![0; size];
    let mut steps = 0;
    for (bin, what) in bins.iter().enumerate() {
        for _ in 0..what.weight {
            *of_bin.get_mut((stride * steps) & (size - 1))? = bin;
            steps += 1;
        }
    }
    if steps != size {
        return None;
    }
    let mut next: Vec<u32> = bins.iter().map(|bin| bin.weight).collect();
    let leading = u32::try_from(size).ok()?.leading_zeros();
    let states = of_bin.into_iter().map(|bin| {
        let read = next[bin].leading_zeros() - leading;
        let after = (next[bin] << read) - (1 << log);
        next[bin] += 1;
        Some(State {
            lower: bins[bin].lower,
            next: u16::try_from(after).ok()?,
            mask: u16::try_from((1_u32 << read) - 1).ok()?,
            bits: u8::try_from(read).ok()?,
            offset_bits: u8::try_from(bins[bin].offset_bits).ok()?,
        })
    });
    states.collect()
}

/// Turns differences into the values that they are of; the last moment belongs to the innermost differences.
fn integrate(moments: &mut [u64], values: &mut [u64]) {
    let mut is_innermost = true;
    for moment in moments.iter_mut().rev() {
        let center = if is_innermost { CENTER } else { 0 };
        is_innermost = false;
        for value in &mut *values {
            let difference = value.wrapping_add(center);
            *value = *moment;
            *moment = moment.wrapping_add(difference);
        }
    }
}

impl Bits<'_> {
    /// The bits from `at` on, 57 of them at least.
    #[inline]
    fn word(&self, at: usize) -> Result<u64, Error> {
        let bytes = self.bytes.get(at / 8..at / 8 + 8);
        let bytes: Option<[u8; 8]> = bytes.and_then(|bytes| bytes.try_into().ok());
        Ok(u64::from_le_bytes(bytes.ok_or(Error::Truncated)?) >> (at % 8))
    }

    /// So many bits, 57 at most.
    #[inline]
    fn take(&mut self, count: u32) -> Result<u64, Error> {
        let word = self.word(self.at)?;
        self.at += count as usize;
        Ok(word & ((1 << count) - 1))
    }

    /// Goes to the end of a byte, over zeros.
    fn skip_zeros(&mut self) -> Result<(), Error> {
        let over = self.at % 8;
        if over > 0 && self.word(self.at)? & ((1 << (8 - over)) - 1) != 0 {
            return Err(corrupt());
        }
        self.at = self.at.next_multiple_of(8);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pco::wrapped::{FileCompressor, FileDecompressor};
    use pco::{ChunkConfig, DeltaSpec, ModeSpec, PagingSpec};
    use proptest::prelude::*;

    use super::*;

    /// A chunk of one page, as the library writes it, and what the library parses of it.
    fn written<T: Integer>(values: &[T], config: &ChunkConfig) -> (ChunkDecompressor<T>, Vec<u8>) {
        let file = FileCompressor::default();
        let config = config
            .clone()
            .with_paging_spec(PagingSpec::Exact(vec![values.len()]));
        let mut chunk = file.chunk_compressor(values, &config).unwrap();
        let (mut head, mut page) = (Vec::new(), Vec::new());
        file.write_header(&mut head).unwrap();
        chunk.write_meta(&mut head).unwrap();
        chunk.write_page(0, &mut page).unwrap();
        let (file, rest) = FileDecompressor::new(&head[..]).unwrap();
        let (chunk, rest) = file.chunk_decompressor::<T, _>(rest).unwrap();
        assert!(rest.is_empty());
        (chunk, page)
    }

    fn theirs<T: Integer>(
        chunk: &ChunkDecompressor<T>,
        page: &[u8],
        total: usize,
        first: usize,
    ) -> Option<Vec<T>> {
        let mut out = vec![T::default(); first];
        let mut scratch = pco::DecompressorScratch::default();
        let mut pages = chunk
            .page_decompressor_with_scratch(page, total, &mut scratch)
            .ok()?;
        pages.read(&mut out).ok()?;
        let is_whole = first < total || pages.into_src().is_empty();
        is_whole.then_some(out)
    }

    fn ours<T: Integer>(chunk: &Chunk, page: &[u8], total: usize, first: usize) -> Option<Vec<T>> {
        let mut out = vec![T::default(); first];
        let mut scratch = Scratch::default();
        chunk.read(page, total, &mut out, &mut scratch).ok()?;
        Some(out)
    }

    fn compare<T: Integer + PartialEq + std::fmt::Debug>(
        values: &[T],
        config: &ChunkConfig,
        flips: &[usize],
    ) -> Result<bool, TestCaseError> {
        let (chunk, page) = written(values, config);
        let Some(tables) = Chunk::of(&chunk) else {
            return Ok(false);
        };
        let total = values.len();
        let whole = ours(&tables, &page, total, total);
        prop_assert_eq!(whole.as_deref(), Some(values));
        for first in (BATCH..total).step_by(BATCH) {
            let found = ours(&tables, &page, total, first);
            prop_assert_eq!(found.as_deref(), Some(&values[..first]));
        }
        // What is damaged is refused, or read as the library reads it.
        for flip in flips {
            let mut damaged = page.clone();
            if damaged.is_empty() {
                break;
            }
            let at = flip % (8 * damaged.len());
            damaged[at / 8] ^= 1 << (at % 8);
            let both = (
                ours(&tables, &damaged, total, total),
                theirs(&chunk, &damaged, total, total),
            );
            prop_assert_eq!(both.0, both.1, "bit {}", at);
            damaged.truncate(at / 8);
            let both = (
                ours(&tables, &damaged, total, total),
                theirs(&chunk, &damaged, total, total),
            );
            prop_assert_eq!(both.0, both.1, "cut at {}", at / 8);
        }
        Ok(true)
    }

    fn values() -> impl Strategy<Value = Vec<i64>> {
        let length = prop_oneof![1..20_usize, 1..=1024_usize, Just(256), Just(257), Just(512)];
        let shapes = (
            0..7_u8,
            any::<i64>(),
            0..62_u32,
            prop::collection::vec(any::<i64>(), 1024),
        );
        (length, shapes).prop_map(|(length, (shape, base, bits, noise))| {
            let small = |at: usize| noise[at] >> (63 - bits);
            let mut walk = base;
            (0..length)
                .map(|at| match shape {
                    0 => base,
                    1 => small(at),
                    2 => {
                        walk = walk.wrapping_add(small(at));
                        walk
                    }
                    3 => small(at).wrapping_mul(1000),
                    4 => base
                        .wrapping_add(at as i64 * 10_000)
                        .wrapping_add(small(at) % 3),
                    // Few values, some far away: many bins.
                    5 => noise[at].rem_euclid(7) * (1 << (noise[at].rem_euclid(5) * 9)),
                    _ => noise[at],
                })
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        /// Expected are the values that were written; of damaged pages what the library says.
        #[test]
        fn pages_are_read_as_they_were_written(
            values in values(),
            order in 0..=ORDER_MAX,
            base in prop_oneof![Just(0), Just(1000), 2..100_u64],
            level in 0..=12_usize,
            flips in prop::collection::vec(any::<usize>(), 12),
        ) {
            let delta = match order {
                0 => DeltaSpec::NoOp,
                order => DeltaSpec::TryConsecutive(order),
            };
            let mode = match base {
                0 => ModeSpec::Classic,
                base => ModeSpec::TryIntMult(base),
            };
            let config = ChunkConfig::default()
                .with_delta_spec(delta)
                .with_mode_spec(mode)
                .with_compression_level(level);
            compare(&values, &config, &flips)?;
            let unsigned: Vec<u64> = values.iter().map(|it| it.cast_unsigned()).collect();
            compare(&unsigned, &config, &flips)?;
        }
    }

    /// That what is compared above is read by hand, and not left to the library as a rule.
    #[test]
    fn what_columns_usually_are_is_read_by_hand() {
        let walk: Vec<i64> = (0..1000).map(|n| n * 10 + n * n % 7).collect();
        let multiples: Vec<i64> = (0..1000).map(|n| n * n % 101 * 1000).collect();
        let constant = vec![7_i64; 1000];
        for values in [walk, multiples, constant] {
            for spec in [
                DeltaSpec::NoOp,
                DeltaSpec::TryConsecutive(1),
                DeltaSpec::TryConsecutive(2),
            ] {
                let config = ChunkConfig::default().with_delta_spec(spec);
                assert!(compare(&values, &config, &[0, 100, 1000]).unwrap());
            }
        }
        // Noise fills one bin: its offsets have 64 bits, which is left to the library.
        let noise = |n: u64| {
            let mixed = (n ^ n << 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        let wide: Vec<u64> = (1..1001).map(noise).collect();
        let config = ChunkConfig::default()
            .with_delta_spec(DeltaSpec::NoOp)
            .with_mode_spec(ModeSpec::Classic);
        assert!(!compare(&wide, &config, &[]).unwrap());
    }
}
