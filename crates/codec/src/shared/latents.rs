//! Pages of pco, read by hand: integers as they are or as multiples of a base, as they are or as differences to neighbours.
//!
//! Does: make the tables of a chunk from what the library parsed; decode a page, or its first batches, value for value as the
//! library does, with a fraction of its instructions. Does not: parse a chunk, write, or know other modes; the library reads these.
//!
//! A page is: for each variable the values that its differences begin with and four states of the entropy coder, up to a whole
//! byte; then batches of 256 values, of each variable the symbols and after them the offsets within their bins; zeros up to a whole
//! byte. Everything is computed in 64 bits, also of narrower numbers: sums and products modulo 2^16 or 2^32 are the low bits of those.

mod coder;
#[cfg(test)]
mod tests;

use pco::data_types::{Latent, Number};
use pco::metadata::{Bin, ChunkLatentVarMeta, DeltaEncoding, DynLatent, Mode};
use pco::wrapped::ChunkDecompressor;

use crate::Error;
use coder::{Bits, Coder, STATES, State};

/// Values of a batch.
pub(crate) const BATCH: usize = 256;
/// Differences of differences, as the library bounds them.
const ORDER_MAX: usize = 7;
/// Zeros behind a page, so that a read near its end is one of eight bytes.
const PADDING: usize = 8;

/// A number as pco orders it.
pub(crate) trait Integer: Number {
    /// Bits of the number.
    const BITS: u32;
    /// What is added to an ordered number to have the bits of the number itself.
    const BIAS: u64;

    /// The number whose lowest bits these are, as the bits of one of 64 bits.
    fn extended(bits: u64) -> u64;
}

impl Integer for i64 {
    const BITS: u32 = 64;
    const BIAS: u64 = 1 << 63;

    #[inline]
    fn extended(bits: u64) -> u64 {
        bits
    }
}

impl Integer for u64 {
    const BITS: u32 = 64;
    const BIAS: u64 = 0;

    #[inline]
    fn extended(bits: u64) -> u64 {
        bits
    }
}

impl Integer for i32 {
    const BITS: u32 = 32;
    const BIAS: u64 = 1 << 31;

    #[inline]
    fn extended(bits: u64) -> u64 {
        i64::from((bits as u32).cast_signed()).cast_unsigned()
    }
}

impl Integer for i16 {
    const BITS: u32 = 16;
    const BIAS: u64 = 1 << 15;

    #[inline]
    fn extended(bits: u64) -> u64 {
        i64::from((bits as u16).cast_signed()).cast_unsigned()
    }
}

/// A number of 64 bits, which is what columns have.
pub(crate) trait Whole: Copy + Default {
    fn of_bits(bits: u64) -> Self;
}

impl Whole for i64 {
    #[inline]
    fn of_bits(bits: u64) -> Self {
        bits.cast_signed()
    }
}

impl Whole for u64 {
    #[inline]
    fn of_bits(bits: u64) -> Self {
        bits
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
    coder: Coder,
    has_bins: bool,
    /// How often differences were taken.
    order: usize,
    /// Bits of the values that they begin with.
    width: u32,
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
    batch: Box<Batch>,
}

/// What a batch is made of.
#[derive(Clone, Debug)]
struct Batch {
    found: [State; BATCH],
    values: [u64; BATCH],
    /// What is added to the values, if they are multiples of a base.
    added: [u64; BATCH],
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            found: [State::default(); BATCH],
            values: [0; BATCH],
            added: [0; BATCH],
        }
    }
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
        let primary = Variable::of::<T::L>(&latents.primary, order, T::BITS)?;
        let multiple = match (&meta.mode, &latents.secondary) {
            (Mode::Classic, None) => None,
            (Mode::IntMult(base), Some(secondary)) => {
                let order = if adds { order } else { 0 };
                let base = base_of::<T::L>(base)?;
                Some((base, Variable::of::<T::L>(secondary, order, T::BITS)?))
            }
            _ => return None,
        };
        Some(Self { primary, multiple })
    }

    /// States of all its tables.
    pub(crate) fn states(&self) -> usize {
        let added = self.multiple.as_ref();
        self.primary.coder.states() + added.map_or(0, |(_, it)| it.coder.states())
    }

    /// Decodes the first values of a page of `total`, as many as there is room for in `out`: all of them, or a multiple of
    /// [`BATCH`]. All of them take the whole of `body`.
    pub(crate) fn read<T: Integer, W: Whole>(
        &self,
        body: &[u8],
        total: usize,
        out: &mut [W],
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let Scratch { padded, batch } = scratch;
        padded.clear();
        padded.extend_from_slice(body);
        padded.resize(body.len() + PADDING, 0);
        let mut bits = Bits::new(padded);
        let mut primary = self.primary.begin(&mut bits, total)?;
        let mut multiple = match &self.multiple {
            Some((base, variable)) => Some((*base, variable, variable.begin(&mut bits, total)?)),
            None => None,
        };
        bits.skip_zeros()?;
        let batch = &mut **batch;
        let mut left = total;
        for out in out.chunks_mut(BATCH) {
            let variable = &self.primary;
            match &mut multiple {
                None => {
                    variable.direct::<T, W>(&mut bits, &mut primary, (left, &mut *batch), out)?;
                }
                Some((base, added, progress)) => {
                    let Batch {
                        found,
                        values,
                        added: sums,
                    } = &mut *batch;
                    let (values, sums) = (&mut values[..out.len()], &mut sums[..out.len()]);
                    variable.values(&mut bits, &mut primary, (left, found), values)?;
                    added.values(&mut bits, progress, (left, found), sums)?;
                    for ((out, value), added) in out.iter_mut().zip(values).zip(sums) {
                        let ordered = value.wrapping_mul(*base).wrapping_add(*added);
                        *out = W::of_bits(T::extended(ordered.wrapping_add(T::BIAS)));
                    }
                }
            }
            left -= out.len();
        }
        if left == 0 {
            bits.skip_zeros()?;
            if bits.at() != 8 * body.len() {
                return Err(corrupt());
            }
        }
        if bits.at() > 8 * body.len() {
            return Err(Error::Truncated);
        }
        Ok(())
    }
}

fn base_of<L: Latent>(base: &DynLatent) -> Option<u64> {
    Some(base.downcast_ref::<L>()?.to_u64())
}

impl Variable {
    fn of<L: Latent>(meta: &ChunkLatentVarMeta, order: usize, width: u32) -> Option<Self> {
        let bins = meta.bins.downcast_ref::<L>()?;
        let has_bins = !bins.is_empty();
        // Differences are written with half of all numbers added, so that small ones of both signs are neighbours.
        let center = if order > 0 { 1 << (width - 1) } else { 0 };
        let bins = bins.iter().map(|bin| Bin {
            weight: bin.weight,
            lower: bin.lower.to_u64().wrapping_add(center),
            offset_bits: bin.offset_bits,
        });
        Some(Self {
            coder: Coder::new(bins.collect(), meta.ans_size_log)?,
            has_bins,
            order,
            width,
        })
    }

    /// Reads what stands before the batches.
    fn begin(&self, bits: &mut Bits<'_>, total: usize) -> Result<Progress, Error> {
        if !self.has_bins && total > self.order {
            return Err(corrupt());
        }
        let mut progress = Progress {
            states: [0; STATES],
            moments: [0; ORDER_MAX],
        };
        for moment in &mut progress.moments[..self.order] {
            *moment = match self.width {
                64 => bits.take(32)? | bits.take(32)? << 32,
                narrower => bits.take(narrower)?,
            };
        }
        self.coder.begin(bits, &mut progress.states)?;
        Ok(progress)
    }

    /// Decodes the values of a batch, as many as there are places; `left` = values of the page from here on.
    fn values(
        &self,
        bits: &mut Bits<'_>,
        progress: &mut Progress,
        (left, found): (usize, &mut [State; BATCH]),
        values: &mut [u64],
    ) -> Result<(), Error> {
        let (written, behind) = self.written(values, left);
        let states = &mut progress.states;
        let Some((last, others)) = progress.moments[..self.order].split_last_mut() else {
            let put = |value: &mut u64, number| *value = number;
            return self.coder.read(bits, states, found, (written, put));
        };
        let mut sum = *last;
        let put = |value: &mut u64, difference| {
            *value = sum;
            sum = sum.wrapping_add(difference);
        };
        self.coder.read(bits, states, found, (written, put))?;
        behind.fill(sum);
        *last = sum;
        for moment in others.iter_mut().rev() {
            for value in &mut *values {
                let difference = *value;
                *value = *moment;
                *moment = moment.wrapping_add(difference);
            }
        }
        Ok(())
    }

    /// The same of numbers that are the column's values as they are: mostly these go to their places as they are read.
    fn direct<T: Integer, W: Whole>(
        &self,
        bits: &mut Bits<'_>,
        progress: &mut Progress,
        (left, batch): (usize, &mut Batch),
        out: &mut [W],
    ) -> Result<(), Error> {
        let to = |ordered: u64| W::of_bits(T::extended(ordered));
        let states = &mut progress.states;
        let found = &mut batch.found;
        match &mut progress.moments[..self.order] {
            [] => {
                let put = |out: &mut W, number: u64| *out = to(number.wrapping_add(T::BIAS));
                self.coder.read(bits, states, found, (out, put))
            }
            [moment] => {
                let (written, behind) = self.written(out, left);
                let mut sum = moment.wrapping_add(T::BIAS);
                let put = |out: &mut W, difference| {
                    *out = to(sum);
                    sum = sum.wrapping_add(difference);
                };
                self.coder.read(bits, states, found, (written, put))?;
                behind.fill(to(sum));
                *moment = sum.wrapping_sub(T::BIAS);
                Ok(())
            }
            _ => {
                let values = &mut batch.values[..out.len()];
                self.values(bits, progress, (left, found), values)?;
                for (out, value) in out.iter_mut().zip(values) {
                    *out = to(value.wrapping_add(T::BIAS));
                }
                Ok(())
            }
        }
    }

    /// The places whose differences are written, and those behind: the last differences of a page are not written, as their values follow
    /// from those before.
    fn written<'a, O>(&self, out: &'a mut [O], left: usize) -> (&'a mut [O], &'a mut [O]) {
        let written = out.len().min(left.saturating_sub(self.order));
        out.split_at_mut(written)
    }
}
