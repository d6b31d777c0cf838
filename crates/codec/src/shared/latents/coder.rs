//! The entropy coder of pco and the offsets behind it, the two loops in which a page of the cold tier takes its time.
//!
//! Does: read the symbols of a batch and what is added to the least value of each one's bin, and hand each number over once. Does not:
//! know what the numbers mean.
//!
//! The n-th symbol belongs to state n mod 4. Tables have one of a few sizes, so that the loop is compiled for each of them and needs no
//! check that a state is inside of its table. Sums of places wrap where they cannot: a check for each costs as much as the sum.
//! The loop over symbols copies the states that it meets, all of each at once; the loop over offsets, which follow behind all symbols of a
//! batch, has from the copies what it needs, and hands on the numbers without a place for them in between.

use pco::metadata::Bin;

use super::{BATCH, corrupt};
use crate::Error;

/// States of the entropy coder that take turns.
pub(super) const STATES: usize = 4;
/// Bits of an offset that one read of eight bytes has, wherever it begins within a byte.
const OFFSET_BITS_MAX: u32 = 57;
/// Bits of a symbol, four of which one read has.
const TABLE_LOG_MAX: u32 = 14;
/// States that are looked at together: where no offset has a bit there is nothing to add.
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
    states: Vec<State>,
    offsets: Offsets,
}

/// A state of the entropy coder, as large as one move of a processor.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
pub(super) struct State {
    /// The least value of its bin.
    lower: u64,
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
        Some(Self {
            log,
            bins: count,
            states: table(&bins, log)?,
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

    /// The number that all are, if they take no bits.
    pub(super) fn only(&self) -> Option<u64> {
        let only = self.states.first()?;
        (self.bins <= 1 && self.offsets == Offsets::None).then_some(only.lower)
    }

    /// Reads as many numbers of a batch as there are places in `out`, and calls `put` with each of these and its number, in order.
    pub(super) fn read<O>(
        &self,
        bits: &mut Bits<'_>,
        states: &mut [usize; STATES],
        found: &mut [State; BATCH],
        (out, mut put): (&mut [O], impl FnMut(&mut O, u64)),
    ) -> Result<(), Error> {
        if let Some(only) = self.only() {
            for out in out {
                put(out, only);
            }
            return Ok(());
        }
        let found = found.get_mut(..out.len()).ok_or_else(corrupt)?;
        if self.bins > 1 {
            match self.states.len() {
                SMALL => self.symbols::<SMALL>(bits, states, found)?,
                MIDDLE => self.symbols::<MIDDLE>(bits, states, found)?,
                LARGE => self.symbols::<LARGE>(bits, states, found)?,
                LARGER => self.symbols::<LARGER>(bits, states, found)?,
                _ => self.symbols::<LARGEST>(bits, states, found)?,
            }
        } else {
            found.fill(*self.states.first().ok_or_else(corrupt)?);
        }
        match self.offsets {
            Offsets::None => {
                let pairs = out.iter_mut().zip(found);
                pairs.for_each(|(out, state)| put(out, state.lower));
                Ok(())
            }
            Offsets::Few => few(bits, found, (out, put)),
            Offsets::Many { a_read: 4 } => many::<4, O>(bits, found, (out, put)),
            Offsets::Many { a_read: 2 } => many::<2, O>(bits, found, (out, put)),
            Offsets::Many { .. } => many::<1, O>(bits, found, (out, put)),
        }
    }

    /// Finds the states that the next symbols are.
    fn symbols<const N: usize>(
        &self,
        bits: &mut Bits<'_>,
        states: &mut [usize; STATES],
        found: &mut [State],
    ) -> Result<(), Error> {
        let Some(table): Option<&[State; N]> = self.states.first_chunk() else {
            return Err(corrupt());
        };
        let [mut first, mut second, mut third, mut fourth] = *states;
        let step = |state: &mut usize, word: &mut u64, found: &mut State| {
            let entry = &table[*state % N];
            let taken = entry.bits;
            let read = *word as u16 & entry.mask;
            *state = usize::from(entry.next.wrapping_add(read));
            *word = word.wrapping_shr(u32::from(taken));
            *found = *entry;
            usize::from(taken)
        };
        let (fours, ends) = found.as_chunks_mut::<STATES>();
        let mut here = bits.at;
        for found in fours {
            let mut word = bits.word(here)?;
            // How many bits the four take is known from their states, before the word is there: so the next one is read meanwhile.
            let mut taken = step(&mut first, &mut word, &mut found[0]);
            taken += step(&mut second, &mut word, &mut found[1]);
            taken += step(&mut third, &mut word, &mut found[2]);
            taken += step(&mut fourth, &mut word, &mut found[3]);
            here = here.wrapping_add(taken);
        }
        for (found, state) in ends.iter_mut().zip([&mut first, &mut second, &mut third]) {
            let mut word = bits.word(here)?;
            here = here.wrapping_add(step(state, &mut word, found));
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

/// Adds offsets where most have no bits.
fn few<O>(
    bits: &mut Bits<'_>,
    found: &[State],
    (out, mut put): (&mut [O], impl FnMut(&mut O, u64)),
) -> Result<(), Error> {
    let (eights, ends) = out.as_chunks_mut::<TOGETHER>();
    let (found_eights, found_ends) = found.as_chunks::<TOGETHER>();
    for (out, found) in eights.iter_mut().zip(found_eights) {
        let all = found.iter().fold(0, |all, state| all | state.offset_bits);
        if all == 0 {
            let pairs = out.iter_mut().zip(found);
            pairs.for_each(|(out, state)| put(out, state.lower));
        } else {
            many::<1, O>(bits, found, (out, &mut put))?;
        }
    }
    many::<1, O>(bits, found_ends, (ends, put))
}

/// Adds offsets, `A_READ` of which fit what one read of eight bytes has.
fn many<const A_READ: usize, O>(
    bits: &mut Bits<'_>,
    found: &[State],
    (out, mut put): (&mut [O], impl FnMut(&mut O, u64)),
) -> Result<(), Error> {
    let mut here = bits.at;
    let mut add = |out: &mut O, state: &State, word: u64| {
        put(
            out,
            state
                .lower
                .wrapping_add(word & MASKS[usize::from(state.offset_bits) % 64]),
        );
        usize::from(state.offset_bits)
    };
    let (out, ends) = out.as_chunks_mut::<A_READ>();
    let (found, found_ends) = found.as_chunks::<A_READ>();
    for (out, found) in out.iter_mut().zip(found) {
        let mut word = bits.word(here)?;
        for (out, state) in out.iter_mut().zip(found) {
            here = here.wrapping_add(add(out, state, word));
            word = word.wrapping_shr(u32::from(state.offset_bits));
        }
    }
    for (out, state) in ends.iter_mut().zip(found_ends) {
        here = here.wrapping_add(add(out, state, bits.word(here)?));
    }
    bits.at = here;
    Ok(())
}

/// The states of the entropy coder: each bin has as many as its weight, strewn in steps of about three fifths of the table. No state
/// leads to those that fill the room behind.
fn table(bins: &[Bin<u64>], log: u32) -> Option<Vec<State>> {
    let size = 1_usize << log;
    let stride = 3 * size / 5;
    let stride = stride + usize::from(stride.is_multiple_of(2));
    let mut states = vec![State::default(); rooms().find(|room| *room >= size)?];
    let weights = bins.iter().map(|bin| u64::from(bin.weight));
    if weights.sum::<u64>() != 1 << log {
        return None;
    }
    let mut steps = 0;
    for (bin, what) in bins.iter().enumerate() {
        let state = State {
            lower: what.lower,
            offset_bits: u8::try_from(what.offset_bits).ok()?,
            // Its bin, until it is known what follows.
            next: u16::try_from(bin).ok()?,
            ..State::default()
        };
        for _ in 0..what.weight {
            *states.get_mut((stride * steps) & (size - 1))? = state;
            steps += 1;
        }
    }
    let mut next: Vec<u32> = bins.iter().map(|bin| bin.weight).collect();
    let leading = u32::try_from(size).ok()?.leading_zeros();
    for state in &mut states[..size] {
        let next = &mut next[usize::from(state.next)];
        let read = next.leading_zeros() - leading;
        state.next = u16::try_from((*next << read) - (1 << log)).ok()?;
        state.mask = u16::try_from((1_u32 << read) - 1).ok()?;
        state.bits = u8::try_from(read).ok()?;
        *next += 1;
    }
    Some(states)
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
