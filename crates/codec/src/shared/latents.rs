//! Pages of pco read without its library: what nearly all columns of integers are, in half the instructions.
//!
//! Layout of a page, bits from the lowest up: of each variable the numbers that sums of differences begin from and four
//! states of its coder, up to a whole byte; then batches of 256 values, of each variable the bits of its coder and after
//! them the offsets into the bins that the coder names; at the end up to a whole byte.
//! A variable is the numbers themselves, or their multiples of a base and a second one, what is left over.
//!
//! Does: decode integers whose bins are narrow, as they are or as differences to neighbours. Does not: check the header of
//! a chunk, which the library has read; or know other forms of chunks, which the library decodes (`numbers.rs`).

use pco::metadata::{Bin, ChunkLatentVarMeta, ChunkMeta, DeltaEncoding, DynBins, DynLatent, Mode};

use crate::Error;

/// Values of one batch.
const BATCH: usize = 256;
/// States of a coder that take turns.
const TURNS: usize = 4;
/// Zero among numbers that are ordered as unsigned ones.
const MIDDLE: u64 = 1 << 63;
/// Differences of differences are taken so often at most.
const ORDER_MAX: usize = 7;
/// Bits of a state at most: four of them fit a word.
const LOG_MAX: u32 = 14;
/// A word read at any bit has at least so many of its own.
const WORD_BITS: u32 = 57;

/// A chunk as its pages are decoded.
#[derive(Clone, Debug)]
pub(crate) struct Latents {
    primary: Coder,
    /// The second variable, and what the first is a multiple of.
    secondary: Option<(Coder, u64)>,
    /// How often differences were taken of the first.
    order: usize,
}

/// What the states of a variable's coder mean.
#[derive(Clone, Debug)]
struct Coder {
    /// By state; a power of two.
    nodes: Vec<Node>,
    log: u32,
    /// Only one bin: nothing is coded.
    is_single: bool,
    /// Bits of the widest offset.
    offset_bits: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The least value of the bin.
    lower: u64,
    /// The next state, but for the bits that are read for it.
    next: u16,
    bits: u8,
    /// Bits of the offset into the bin.
    offset_bits: u8,
}

/// Numbers as pco orders them.
pub(crate) trait Ordered: Copy {
    fn of(latent: u64) -> Self;
}

impl Ordered for i64 {
    fn of(latent: u64) -> Self {
        (latent ^ MIDDLE).cast_signed()
    }
}

impl Ordered for u64 {
    fn of(latent: u64) -> Self {
        latent
    }
}

impl Latents {
    /// `None` = its pages are left to the library.
    pub(super) fn of(meta: &ChunkMeta) -> Option<Self> {
        let order = match &meta.delta_encoding {
            DeltaEncoding::NoOp => 0,
            DeltaEncoding::Consecutive {
                order,
                secondary_uses_delta: false,
            } => *order,
            _ => return None,
        };
        let all = &meta.per_latent_var;
        let secondary = match (&meta.mode, &all.secondary) {
            (Mode::Classic, None) => None,
            (Mode::IntMult(DynLatent::U64(base)), Some(second)) => {
                Some((Coder::of(second)?, *base))
            }
            _ => return None,
        };
        if all.delta.is_some() || order > ORDER_MAX {
            return None;
        }
        Some(Self {
            primary: Coder::of(&all.primary)?,
            secondary,
            order,
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let secondary = self.secondary.as_ref();
        let nodes = self.primary.nodes.len() + secondary.map_or(0, |(it, _)| it.nodes.len());
        nodes * size_of::<Node>()
    }

    /// Decodes the first values of a page of `total`, all of them or a multiple of [`BATCH`], and returns how many bytes they
    /// took, up to a whole one.
    pub(super) fn decode<T: Ordered>(
        &self,
        page: &[u8],
        total: usize,
        out: &mut [T],
    ) -> Result<usize, Error> {
        let mut bits = Bits { page, at: 0 };
        let mut sums = [0; ORDER_MAX];
        let sums = &mut sums[..self.order];
        for sum in sums.iter_mut() {
            *sum = bits.take(32) | bits.take(32) << 32;
        }
        let mut states = self.primary.states(&mut bits);
        let mut second_states = [0; TURNS];
        if let Some((coder, _)) = &self.secondary {
            second_states = coder.states(&mut bits);
        }
        bits.end_byte()?;
        let (mut latents, mut rest) = ([0; BATCH], [0; BATCH]);
        let mut left = total;
        for out in out.chunks_mut(BATCH) {
            let latents = &mut latents[..out.len()];
            // The last sums have no difference after them.
            let differences = left.saturating_sub(self.order).min(out.len());
            let (coded, after) = latents.split_at_mut(differences);
            self.primary.decode(&mut states, &mut bits, coded);
            after.fill(0);
            add_up(sums, latents);
            if let Some((coder, base)) = &self.secondary {
                let rest = &mut rest[..out.len()];
                coder.decode(&mut second_states, &mut bits, rest);
                for (latent, rest) in latents.iter_mut().zip(rest) {
                    *latent = latent.wrapping_mul(*base).wrapping_add(*rest);
                }
            }
            for (to, latent) in out.iter_mut().zip(latents) {
                *to = T::of(*latent);
            }
            left = left.saturating_sub(out.len());
        }
        if left == 0 {
            bits.end_byte()?;
        }
        let taken = bits.at.div_ceil(8);
        if taken > page.len() {
            return Err(Error::Truncated);
        }
        Ok(taken)
    }
}

/// Numbers of which these are the differences, of differences of differences and so on.
fn add_up(sums: &mut [u64], latents: &mut [u64]) {
    if sums.is_empty() {
        return;
    }
    for latent in latents.iter_mut() {
        *latent ^= MIDDLE;
    }
    for sum in sums.iter_mut().rev() {
        let mut next = *sum;
        for latent in latents.iter_mut() {
            let difference = std::mem::replace(latent, next);
            next = next.wrapping_add(difference);
        }
        *sum = next;
    }
}

impl Coder {
    fn of(variable: &ChunkLatentVarMeta) -> Option<Self> {
        let DynBins::U64(bins) = &variable.bins else {
            return None;
        };
        let offset_bits = bins.iter().map(|bin| bin.offset_bits).max()?;
        let log = variable.ans_size_log;
        if offset_bits >= WORD_BITS || log > LOG_MAX {
            return None;
        }
        let nodes = nodes(bins, log)?;
        Some(Self {
            nodes,
            log,
            is_single: bins.len() == 1,
            offset_bits,
        })
    }

    fn states(&self, bits: &mut Bits<'_>) -> [usize; TURNS] {
        [0; TURNS].map(|_: usize| bits.take(self.log) as usize)
    }

    /// Decodes one batch.
    fn decode(&self, states: &mut [usize; TURNS], bits: &mut Bits<'_>, out: &mut [u64]) {
        let mut widths = [0; BATCH];
        let widths = &mut widths[..out.len()];
        if self.is_single {
            let node = self.nodes.first().copied().unwrap_or_default();
            out.fill(node.lower);
            widths.fill(node.offset_bits);
        } else {
            self.bins(states, bits, out, widths);
        }
        // As many offsets as one word has for certain.
        match WORD_BITS / self.offset_bits.max(1) {
            _ if self.offset_bits == 0 => {}
            0..2 => bits.add::<1>(widths, out),
            2..4 => bits.add::<2>(widths, out),
            4..8 => bits.add::<4>(widths, out),
            _ => bits.add::<8>(widths, out),
        }
    }

    /// The bins that the coder names: their least values, and how wide they are.
    fn bins(
        &self,
        states: &mut [usize; TURNS],
        bits: &mut Bits<'_>,
        out: &mut [u64],
        widths: &mut [u8],
    ) {
        let nodes = self.nodes.as_slice();
        let mask = nodes.len() - 1;
        let mut own = *states;
        for (out, widths) in out.chunks_mut(TURNS).zip(widths.chunks_mut(TURNS)) {
            // Four steps take 4 * 14 bits at most.
            let mut word = bits.word();
            for ((state, out), width) in own.iter_mut().zip(out).zip(widths) {
                let node = nodes[*state & mask];
                *out = node.lower;
                *width = node.offset_bits;
                let low = word & !(u64::MAX << (node.bits & 63));
                word >>= node.bits & 63;
                bits.at += usize::from(node.bits);
                *state = usize::from(node.next) + low as usize;
            }
        }
        *states = own;
    }
}

/// The states of a coder, of which each bin has as many as it has weight, spread as pco does.
fn nodes(bins: &[Bin<u64>], log: u32) -> Option<Vec<Node>> {
    let size = 1_usize << log;
    let weight: u64 = bins.iter().map(|bin| u64::from(bin.weight)).sum();
    // One bin has all states, whatever its weight says.
    let is_single = bins.len() == 1 && log == 0;
    if weight != size as u64 && !is_single {
        return None;
    }
    let stride = (3 * size / 5) | 1;
    let mut of = vec![0; size];
    let mut at = 0;
    for (bin, it) in bins.iter().enumerate() {
        let states = if is_single { 1 } else { it.weight };
        for _ in 0..states {
            *of.get_mut(at & (size - 1))? = bin;
            at += stride;
        }
    }
    let mut next: Vec<u32> = bins.iter().map(|bin| bin.weight.max(1)).collect();
    let mut nodes = Vec::with_capacity(size);
    for bin in of {
        let (own, next) = (bins.get(bin)?, next.get_mut(bin)?);
        let bits = log.checked_sub(next.ilog2())?;
        let base = (u64::from(*next) << bits).checked_sub(size as u64)?;
        nodes.push(Node {
            lower: own.lower,
            next: u16::try_from(base).ok()?,
            bits: u8::try_from(bits).ok()?,
            offset_bits: u8::try_from(own.offset_bits).ok()?,
        });
        *next += 1;
    }
    Some(nodes)
}

/// Bits of a page, the lowest of each byte first; zeros behind its end.
struct Bits<'a> {
    page: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// The next bits, 57 of them at least.
    #[inline]
    fn word(&self) -> u64 {
        let start = self.at / 8;
        let word = match self.page.get(start..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => u64::from_le_bytes(*bytes),
            None => self.last_word(start),
        };
        word >> (self.at % 8)
    }

    #[cold]
    fn last_word(&self, start: usize) -> u64 {
        let mut bytes = [0; 8];
        let rest = self.page.get(start..).unwrap_or_default();
        for (to, from) in bytes.iter_mut().zip(rest) {
            *to = *from;
        }
        u64::from_le_bytes(bytes)
    }

    /// So many bits, 32 at most.
    fn take(&mut self, count: u32) -> u64 {
        let word = self.word();
        self.at += count as usize;
        word & ((1 << count) - 1)
    }

    /// Adds to each value as many bits as its width says, of which a word has `EACH` for certain.
    fn add<const EACH: usize>(&mut self, widths: &[u8], out: &mut [u64]) {
        for (out, widths) in out.chunks_mut(EACH).zip(widths.chunks(EACH)) {
            let mut word = self.word();
            for (out, width) in out.iter_mut().zip(widths) {
                let width = width & 63;
                *out = out.wrapping_add(word & !(u64::MAX << width));
                word >>= width;
                self.at += usize::from(width);
            }
        }
    }

    /// Skips to a whole byte; what is skipped is zero.
    fn end_byte(&mut self) -> Result<(), Error> {
        let over = self.at % 8;
        if over == 0 {
            return Ok(());
        }
        if self.take(8 - over as u32) != 0 {
            return Err(Error::corrupt("bits after a page of pco"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pco::data_types::Number;
    use pco::wrapped::{ChunkDecompressor, FileCompressor, FileDecompressor};
    use pco::{ChunkConfig, DecompressorScratch, DeltaSpec, ModeSpec, PagingSpec};

    use super::*;

    struct Dice(u64);

    impl Dice {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }
    }

    /// Numbers of several shapes: of few bins and many, wide and narrow ones, ramps, multiples.
    fn numbers(dice: &mut Dice, shape: u64, count: usize) -> Vec<i64> {
        let mut sum = 0_i64;
        let mut number = |at: usize| match shape {
            0 => 7,
            1 => (dice.next() % 5).cast_signed(),
            2 => (dice.next() >> (dice.next() % 64)).cast_signed(),
            3 => (dice.next() % 900).cast_signed() * 100 + i64::from(dice.next() % 64 == 0),
            4 => {
                sum = sum.wrapping_add((dice.next() % 40).cast_signed() - 20);
                sum
            }
            5 => at as i64 * at as i64,
            6 => dice.next().cast_signed(),
            _ => (dice.next() % 30 * (dice.next() % 30) * (dice.next() % 1000)).cast_signed() - 500,
        };
        (0..count).map(&mut number).collect()
    }

    fn decode_by_library<T: Number>(
        chunk: &ChunkDecompressor<T>,
        page: &[u8],
        out: &mut [T],
    ) -> Option<usize> {
        let mut scratch = DecompressorScratch::default();
        let decoder = chunk.page_decompressor_with_scratch(page, out.len(), &mut scratch);
        let mut decoder = decoder.ok()?;
        decoder.read(out).ok()?;
        Some(page.len() - decoder.into_src().len())
    }

    /// Writes chunks as the library can, and reads their pages both ways; returns how many chunks were read by hand.
    fn compare<T: Number + Ordered + PartialEq + std::fmt::Debug>(
        of: impl Fn(i64) -> T,
        round: u64,
        dice: &mut Dice,
    ) -> usize {
        let counts: Vec<usize> = (0..1 + dice.next() % 4)
            .map(|_| 1 + (dice.next() % 1024) as usize)
            .collect();
        let total = counts.iter().sum();
        let values: Vec<T> = numbers(dice, round % 8, total)
            .into_iter()
            .map(&of)
            .collect();
        let delta = match dice.next() % 9 {
            8 => DeltaSpec::Auto,
            0 => DeltaSpec::NoOp,
            order => DeltaSpec::TryConsecutive(order as usize),
        };
        let mode = match dice.next() % 3 {
            0 => ModeSpec::Auto,
            1 => ModeSpec::Classic,
            _ => ModeSpec::TryIntMult(100),
        };
        let config = ChunkConfig::default()
            .with_delta_spec(delta)
            .with_mode_spec(mode)
            .with_paging_spec(PagingSpec::Exact(counts.clone()));
        let file = FileCompressor::default();
        let mut written = Vec::new();
        file.write_header(&mut written).unwrap();
        let mut chunk = file.chunk_compressor(&values, &config).unwrap();
        chunk.write_meta(&mut written).unwrap();
        let (reader, rest) = FileDecompressor::new(written.as_slice()).unwrap();
        let (library, _) = reader.chunk_decompressor::<T, _>(rest).unwrap();
        let Some(own) = Latents::of(library.meta()) else {
            return 0;
        };
        let mut start = 0;
        for (index, count) in counts.into_iter().enumerate() {
            let mut page = Vec::new();
            chunk.write_page(index, &mut page).unwrap();
            let wanted = &values[start..start + count];
            start += count;
            let mut out = vec![of(1); count];
            let taken = own.decode(&page, count, &mut out).unwrap();
            assert_eq!(
                (taken, out.as_slice()),
                (page.len(), wanted),
                "round {round}"
            );
            for first in (BATCH..count).step_by(BATCH) {
                let out = &mut out[..first];
                own.decode(&page, count, out).unwrap();
                assert_eq!(out, &wanted[..first]);
            }
            for _ in 0..10 {
                let mut damaged = page.clone();
                if dice.next().is_multiple_of(3) {
                    damaged.truncate((dice.next() % page.len() as u64) as usize);
                } else {
                    let at = (dice.next() % page.len() as u64) as usize;
                    damaged[at] ^= 1 << (dice.next() % 8);
                }
                let mut theirs = vec![of(1); count];
                let library = decode_by_library(&library, &damaged, &mut theirs);
                let found = own.decode(&damaged, count, &mut out).ok();
                assert_eq!(found, library, "round {round}, damaged");
                if found.is_some() {
                    assert_eq!(out, theirs, "round {round}, damaged");
                }
            }
        }
        1
    }

    #[test]
    fn pages_read_by_hand_are_what_the_library_reads() {
        let mut dice = Dice(88_172_645_463_325_252);
        let rounds = 400;
        let by_hand: usize = (0..rounds)
            .map(|round| match round % 2 {
                0 => compare(|it| it, round / 2, &mut dice),
                _ => compare(i64::cast_unsigned, round / 2, &mut dice),
            })
            .sum();
        assert!(by_hand > 250, "{by_hand} of {rounds} chunks");
    }
}
