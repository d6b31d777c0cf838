//! The entropy coder of pco and the offsets behind it, the two loops in which a page of the cold tier takes its time.
//!
//! Does: read the symbols of a batch and what is added to the least value of each one's bin. Does not: know what the numbers mean.
//!
//! The n-th symbol belongs to state n mod 4. Tables have one of a few sizes, so that the loop is compiled for each of them and needs no
//! check that a state is inside of its table. Sums of places wrap where they cannot: a check for each costs as much as the sum.

use pco::metadata::Bin;

use super::{BATCH, corrupt};
use crate::Error;

/// States of the entropy coder that take turns.
pub(super) const STATES: usize = 4;
/// Bits of an offset that one read of eight bytes has, wherever it begins within a byte.
const OFFSET_BITS_MAX: u32 = 57;
/// Bits of a symbol, four of which one read has.
const TABLE_LOG_MAX: u32 = 14;
/// Widths that are looked at together: where all are 0 there is nothing to add.
const TOGETHER: usize = 8;

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

/// The bins of a variable, by state.
#[derive(Clone, Debug)]
pub(super) struct Coder {
    log: u32,
    bins: usize,
    /// The least value of its bin.
    lowers: Vec<u64>,
    states: Vec<State>,
    offsets: Offsets,
}

/// A state of the entropy coder.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(8))]
struct State {
    /// The state that follows, before the bits that are read are added.
    next: u16,
    /// As many ones as there are bits to read.
    mask: u16,
    bits: u8,
    offset_bits: u8,
}

/// How offsets are best read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offsets {
    /// No bin has any.
    None,
    /// Few values have one.
    Few,
    /// Many have, and one read of eight bytes has so many of them.
    Many { a_read: usize },
}

/// Where a page is being read.
pub(super) struct Bits<'a> {
    /// With the padding.
    bytes: &'a [u8],
    at: usize,
}

impl Coder {
    /// `None` = the library has to read it.
    pub(super) fn new(mut bins: Vec<Bin<u64>>, log: u32) -> Option<Self> {
        let count = bins.len();
        if bins.is_empty() {
            bins.push(Bin {
                weight: 1,
                lower: 0,
                offset_bits: 0,
            });
        }
        let widest = bins.iter().map(|bin| bin.offset_bits).max().unwrap_or(0);
        if log > TABLE_LOG_MAX || widest > OFFSET_BITS_MAX {
            return None;
        }
        let with: u32 = bins
            .iter()
            .filter(|bin| bin.offset_bits > 0)
            .map(|bin| bin.weight)
            .sum();
        let offsets = match widest {
            0 => Offsets::None,
            _ if u64::from(with) * 8 < 1 << log => Offsets::Few,
            1..=14 => Offsets::Many { a_read: 4 },
            15..=28 => Offsets::Many { a_read: 2 },
            _ => Offsets::Many { a_read: 1 },
        };
        let (mut lowers, mut states) = tables(&bins, log)?;
        let room = rooms().find(|room| *room >= states.len())?;
        // No state leads there.
        lowers.resize(room, 0);
        states.resize(room, State::default());
        Some(Self {
            log,
            bins: count,
            lowers,
            states,
            offsets,
        })
    }

    pub(super) fn states(&self) -> usize {
        self.states.len()
    }

    /// Reads the states that a page begins with.
    pub(super) fn begin(
        &self,
        bits: &mut Bits<'_>,
        states: &mut [usize; STATES],
    ) -> Result<(), Error> {
        for state in states {
            let read = bits.take(self.log)?;
            *state = usize::try_from(read).map_err(|_| corrupt())?;
        }
        Ok(())
    }

    /// Reads the first `count` numbers of a batch.
    pub(super) fn read(
        &self,
        bits: &mut Bits<'_>,
        states: &mut [usize; STATES],
        (values, widths): (&mut [u64; BATCH], &mut [u8; BATCH]),
        count: usize,
    ) -> Result<(), Error> {
        if self.bins > 1 {
            let found = (&mut values[..count], &mut widths[..count]);
            match self.states.len() {
                SMALL => self.symbols::<SMALL>(bits, states, found)?,
                MIDDLE => self.symbols::<MIDDLE>(bits, states, found)?,
                LARGE => self.symbols::<LARGE>(bits, states, found)?,
                LARGER => self.symbols::<LARGER>(bits, states, found)?,
                _ => self.symbols::<LARGEST>(bits, states, found)?,
            }
        } else if let (Some(lower), Some(only)) = (self.lowers.first(), self.states.first()) {
            values[..count].fill(*lower);
            widths[..count].fill(only.offset_bits);
        }
        let values = &mut values[..count];
        match self.offsets {
            Offsets::None => Ok(()),
            Offsets::Few => {
                let end = count.next_multiple_of(TOGETHER).min(BATCH);
                widths[count..end].fill(0);
                few(bits, values, widths)
            }
            Offsets::Many { a_read: 4 } => many::<4>(bits, values, widths),
            Offsets::Many { a_read: 2 } => many::<2>(bits, values, widths),
            Offsets::Many { .. } => many::<1>(bits, values, widths),
        }
    }

    fn symbols<const N: usize>(
        &self,
        bits: &mut Bits<'_>,
        states: &mut [usize; STATES],
        (values, widths): (&mut [u64], &mut [u8]),
    ) -> Result<(), Error> {
        let (lowers, table) = (self.lowers.first_chunk::<N>(), self.states.first_chunk());
        let (Some(lowers), Some(table)): (_, Option<&[State; N]>) = (lowers, table) else {
            return Err(corrupt());
        };
        let [mut first, mut second, mut third, mut fourth] = *states;
        let step = |state: &mut usize, word: &mut u64, value: &mut u64, width: &mut u8| {
            let at = *state % N;
            let entry = &table[at];
            *value = lowers[at];
            *width = entry.offset_bits;
            let read = *word as u16 & entry.mask;
            *word = word.wrapping_shr(u32::from(entry.bits));
            *state = usize::from(entry.next.wrapping_add(read));
            usize::from(entry.bits)
        };
        let (fours, ends) = values.as_chunks_mut::<STATES>();
        let (width_fours, width_ends) = widths.as_chunks_mut::<STATES>();
        let mut here = bits.at;
        for (values, widths) in fours.iter_mut().zip(width_fours) {
            let mut word = bits.word(here)?;
            // How many bits the four take is known from their states, before the word is there: so the next one is read meanwhile.
            let mut taken = step(&mut first, &mut word, &mut values[0], &mut widths[0]);
            taken += step(&mut second, &mut word, &mut values[1], &mut widths[1]);
            taken += step(&mut third, &mut word, &mut values[2], &mut widths[2]);
            taken += step(&mut fourth, &mut word, &mut values[3], &mut widths[3]);
            here = here.wrapping_add(taken);
        }
        let ends = ends.iter_mut().zip(width_ends);
        for ((value, width), state) in ends.zip([&mut first, &mut second, &mut third]) {
            let mut word = bits.word(here)?;
            here = here.wrapping_add(step(state, &mut word, value, width));
        }
        *states = [first, second, third, fourth];
        bits.at = here;
        Ok(())
    }
}

/// Sizes of tables.
const SMALL: usize = 1 << 6;
const MIDDLE: usize = 1 << 8;
const LARGE: usize = 1 << 10;
const LARGER: usize = 1 << 12;
const LARGEST: usize = 1 << TABLE_LOG_MAX;

fn rooms() -> impl Iterator<Item = usize> {
    [SMALL, MIDDLE, LARGE, LARGER, LARGEST].into_iter()
}

/// Adds offsets where most have no bits; beyond the values widths are 0, up to a whole number of those looked at together.
fn few(bits: &mut Bits<'_>, values: &mut [u64], widths: &[u8; BATCH]) -> Result<(), Error> {
    let mut here = bits.at;
    let (eights, _) = widths.as_chunks::<TOGETHER>();
    for (values, widths) in values.chunks_mut(TOGETHER).zip(eights) {
        let mut left = u64::from_le_bytes(*widths);
        while left != 0 {
            let byte = left.trailing_zeros() / 8;
            let width = left.wrapping_shr(8 * byte) & 0xff;
            left &= !(0xff << (8 * byte));
            let word = bits.word(here)?;
            if let Some(value) = values.get_mut(byte as usize) {
                *value = value.wrapping_add(word & MASKS[width as usize % 64]);
            }
            here = here.wrapping_add(width as usize);
        }
    }
    bits.at = here;
    Ok(())
}

/// Adds offsets, `A_READ` of which fit what one read of eight bytes has.
fn many<const A_READ: usize>(
    bits: &mut Bits<'_>,
    values: &mut [u64],
    widths: &[u8; BATCH],
) -> Result<(), Error> {
    let mut here = bits.at;
    let (some, ends) = values.as_chunks_mut::<A_READ>();
    let (width_some, width_ends) = widths[..some.len() * A_READ + ends.len()].as_chunks::<A_READ>();
    for (values, widths) in some.iter_mut().zip(width_some) {
        let mut word = bits.word(here)?;
        for (value, width) in values.iter_mut().zip(widths) {
            *value = value.wrapping_add(word & MASKS[usize::from(*width) % 64]);
            word = word.wrapping_shr(u32::from(*width));
            here = here.wrapping_add(usize::from(*width));
        }
    }
    for (value, width) in ends.iter_mut().zip(width_ends) {
        *value = value.wrapping_add(bits.word(here)? & MASKS[usize::from(*width) % 64]);
        here = here.wrapping_add(usize::from(*width));
    }
    bits.at = here;
    Ok(())
}

/// The states of the entropy coder: each bin has as many as its weight, strewn in steps of about three fifths of the table.
fn tables(bins: &[Bin<u64>], log: u32) -> Option<(Vec<u64>, Vec<State>)> {
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
    let lowers = of_bin.iter().map(|bin| bins[*bin].lower).collect();
    let states = of_bin.into_iter().map(|bin| {
        let read = next[bin].leading_zeros() - leading;
        let after = (next[bin] << read) - (1 << log);
        next[bin] += 1;
        Some(State {
            next: u16::try_from(after).ok()?,
            mask: u16::try_from((1_u32 << read) - 1).ok()?,
            bits: u8::try_from(read).ok()?,
            offset_bits: u8::try_from(bins[bin].offset_bits).ok()?,
        })
    });
    Some((lowers, states.collect::<Option<_>>()?))
}

impl<'a> Bits<'a> {
    /// Of bytes with eight zeros behind them.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bits that were read.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The bits from `at` on, 57 of them at least.
    #[inline]
    fn word(&self, at: usize) -> Result<u64, Error> {
        let bytes = self.bytes.get(at / 8..).and_then(<[u8]>::first_chunk);
        Ok(u64::from_le_bytes(*bytes.ok_or(Error::Truncated)?) >> (at % 8))
    }

    /// So many bits, 57 at most.
    #[inline]
    pub(super) fn take(&mut self, count: u32) -> Result<u64, Error> {
        let word = self.word(self.at)?;
        self.at += count as usize;
        Ok(word & ((1 << count) - 1))
    }

    /// Goes to the end of a byte, over zeros.
    pub(super) fn skip_zeros(&mut self) -> Result<(), Error> {
        let over = self.at % 8;
        if over > 0 && self.word(self.at)? & ((1 << (8 - over)) - 1) != 0 {
            return Err(corrupt());
        }
        self.at = self.at.next_multiple_of(8);
        Ok(())
    }
}
