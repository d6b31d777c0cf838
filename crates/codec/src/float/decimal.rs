//! DECIMAL (after ALP): floats that were written as decimals are integers over one power of ten.
//!
//! Layout: scale (1 byte, two's complement), the exceptions, an integer chunk of all values, where exceptions repeat a
//! neighbour.
//!
//! A value is `integer / 10^scale`, or `integer * 10^-scale` if the scale is negative. Both operands are exact and
//! IEEE 754 rounds the one operation correctly, so the result is the float nearest to the decimal, on every machine:
//! dividing costs more than ALP's two multiplications, but no decimal of up to 15 digits is ever an exception.

use super::exceptions::{Exceptions, Taken};
use crate::integer::{self, Plan};
use crate::read::take_u8;
use crate::{BLOCK_ROWS_MAX, Error, PageSet};

/// Powers of ten that binary64 holds exactly.
const POWERS: [f64; 19] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18,
];
const SCALE_MAX: i8 = POWERS.len() as i8 - 1;

/// Integers are within -2^51 and 2^51, where adding `MAGIC` converts between integer and float without a branch.
const LIMIT: i64 = 1 << (LIMIT_BITS - 1);
/// Bits of an integer within the limit, plus the limit.
const LIMIT_BITS: u32 = 52;
/// 1.5 * 2^52: the bits of `MAGIC + x` are those of `MAGIC` plus `x`, for whole `x` within the limit.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// Values compared at a time.
const GLANCE: usize = 64;

/// Values looked at to choose the scale.
const SAMPLES_MAX: usize = 16;

pub(super) struct Decimals {
    scale: i8,
    n: usize,
    exceptions: Exceptions,
    plan: Plan,
}

/// Room for the integers. The caller's, because moving it about costs as much as filling it.
pub(super) type Latents = [i64; BLOCK_ROWS_MAX];

impl Decimals {
    /// The values as decimals, or `None` if too few of them are.
    pub(super) fn of(values: &[f64], latents: &mut Latents, set: PageSet) -> Option<Self> {
        let scale = choose_scale(values.iter().copied())?;
        let best = Self::at_scale(values, scale, latents, set);
        match &best {
            Some(best) if best.exceptions.count == 0 => {}
            _ => {
                if let Some(finer) = Self::finer(values, scale, best.as_ref(), latents, set) {
                    return Some(finer);
                }
            }
        }
        best
    }

    /// At a finer scale that suits the exceptions of this one, if that is smaller.
    fn finer(
        values: &[f64],
        scale: i8,
        coarse: Option<&Self>,
        latents: &mut Latents,
        set: PageSet,
    ) -> Option<Self> {
        // A sample misses what is rare: the exceptions say whether a digit more would do.
        let exceptions = values
            .iter()
            .copied()
            .filter(|value| !is_exact(*value, to_latent(*value, scale), scale));
        let finer = choose_scale(exceptions.take(SAMPLES_MAX)).filter(|finer| *finer > scale)?;
        let mut finer_latents = [0; BLOCK_ROWS_MAX];
        let finer = Self::at_scale(values, finer, &mut finer_latents, set)?;
        if coarse.is_some_and(|coarse| coarse.bytes() <= finer.bytes()) {
            return None;
        }
        *latents = finer_latents;
        Some(finer)
    }

    fn at_scale(values: &[f64], scale: i8, latents: &mut Latents, set: PageSet) -> Option<Self> {
        let n = values.len();
        to_latents(values, scale, &mut latents[..n]);
        let exceptions = exceptions(values, &latents[..n], scale);
        if exceptions.count > n / 2 {
            return None;
        }
        exceptions.fill(&mut latents[..n]);
        let plan = integer::plan(&latents[..n], set);
        Some(Self {
            scale,
            n,
            exceptions,
            plan,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        1 + self.exceptions.bytes(self.n) + 1 + self.plan.body_bytes(self.n)
    }

    /// Appends the body of the values that these are the decimals of.
    pub(super) fn encode(&self, values: &[f64], latents: &Latents, out: &mut Vec<u8>) {
        out.push(self.scale.cast_unsigned());
        self.exceptions.encode(values, out);
        out.push(self.plan.encoding() as u8);
        self.plan.encode_body(&latents[..self.n], out);
    }
}

pub(super) fn decode(input: &mut &[u8], latents: &mut [i64], out: &mut [f64]) -> Result<(), Error> {
    let scale = take_u8(input)?.cast_signed();
    check_scale(scale)?;
    let exceptions = Taken::take(input, out.len())?;
    integer::decode_chunk(input, latents)?;
    from_latents(latents, scale, out)?;
    exceptions.apply(out)
}

/// Floats that are decimals but for their last bits, as sums of decimals are.
pub(crate) struct NearDecimals {
    pub(crate) scale: i8,
    /// The nearest decimals, as integers over the power of ten; 0 for floats beyond them all.
    pub(crate) integers: Vec<i64>,
    /// From the bits of the decimal to those of the float.
    pub(crate) steps: Vec<i64>,
}

impl NearDecimals {
    /// The floats at the scale that suits `like`, or `None` if these are no decimals.
    pub(crate) fn of(values: &[f64], like: &[f64]) -> Option<Self> {
        let scale = choose_scale(like.iter().copied())?;
        let mut integers = vec![0; values.len()];
        to_latents(values, scale, &mut integers);
        for integer in &mut integers {
            if beyond_limit(*integer) != 0 {
                *integer = 0;
            }
        }
        let mut floats = vec![0.0; values.len()];
        from_latents(&integers, scale, &mut floats).ok()?;
        let step = |(value, near): (&f64, &f64)| {
            let step = value.to_bits().wrapping_sub(near.to_bits());
            step.cast_signed()
        };
        let steps = values.iter().zip(&floats).map(step).collect();
        Some(Self {
            scale,
            integers,
            steps,
        })
    }

    /// The floats; the parts may come from anywhere.
    pub(crate) fn to_floats(&self) -> Result<Vec<f64>, Error> {
        check_scale(self.scale)?;
        let mut floats = vec![0.0; self.integers.len()];
        from_latents(&self.integers, self.scale, &mut floats)?;
        for (value, step) in floats.iter_mut().zip(&self.steps) {
            *value = f64::from_bits(value.to_bits().wrapping_add_signed(*step));
        }
        Ok(floats)
    }
}

pub(super) fn check_scale(scale: i8) -> Result<(), Error> {
    if scale.unsigned_abs() > SCALE_MAX.unsigned_abs() {
        return Err(Error::corrupt("the scale of decimals is beyond 10^18"));
    }
    Ok(())
}

/// Zero if the integer is within the limit (-2^51 itself included, 2^51 not).
fn beyond_limit(latent: i64) -> u64 {
    (latent.wrapping_add(LIMIT) as u64) >> LIMIT_BITS
}

/// Fills `out`, with nonsense if an integer is beyond the limit, which is an error.
pub(super) fn from_latents(latents: &[i64], scale: i8, out: &mut [f64]) -> Result<(), Error> {
    let power = POWERS[usize::from(scale.unsigned_abs())];
    let beyond = match scale {
        0 => convert(latents, out, to_float),
        1.. => convert(latents, out, |latent| to_float(latent) / power),
        _ => convert(latents, out, |latent| to_float(latent) * power),
    };
    if beyond >> LIMIT_BITS != 0 {
        return Err(Error::corrupt("a decimal is beyond 2^51"));
    }
    Ok(())
}

/// Fills `out`, and answers with the union of the integers, moved so that those within the limit leave the bits from
/// [`LIMIT_BITS`] on clear: one pass over the integers, and one look at the result, instead of one look at each.
#[inline]
fn convert(latents: &[i64], out: &mut [f64], to_value: impl Fn(i64) -> f64) -> u64 {
    let mut union = 0;
    for (value, latent) in out.iter_mut().zip(latents) {
        union |= latent.wrapping_add(LIMIT) as u64;
        *value = to_value(*latent);
    }
    union
}

/// The nearest integers; nonsense for values beyond the limit, which [`is_exact`] finds.
pub(super) fn to_latents(values: &[f64], scale: i8, out: &mut [i64]) {
    let power = POWERS[usize::from(scale.unsigned_abs())];
    if scale >= 0 {
        out.iter_mut()
            .zip(values)
            .for_each(|(latent, value)| *latent = to_integer(*value * power));
    } else {
        out.iter_mut()
            .zip(values)
            .for_each(|(latent, value)| *latent = to_integer(*value / power));
    }
}

fn to_latent(value: f64, scale: i8) -> i64 {
    let mut latent = [0];
    to_latents(&[value], scale, &mut latent);
    latent[0]
}

/// Whether decoding gives the same bits: not so for -0.0, NaN, infinities and values with more digits.
fn is_exact(value: f64, latent: i64, scale: i8) -> bool {
    let power = POWERS[usize::from(scale.unsigned_abs())];
    let decoded = if scale >= 0 {
        to_float(latent) / power
    } else {
        to_float(latent) * power
    };
    beyond_limit(latent) == 0 && decoded.to_bits() == value.to_bits()
}

pub(super) fn exceptions(values: &[f64], latents: &[i64], scale: i8) -> Exceptions {
    if all_exact(values, latents, scale) {
        return Exceptions::NONE;
    }
    Exceptions::of(values, latents, |value, latent| {
        is_exact(value, latent, scale)
    })
}

/// Whether all values are exact. Says so of many values sooner than [`is_exact`] of each.
fn all_exact(values: &[f64], latents: &[i64], scale: i8) -> bool {
    let mut decoded = [0.0; GLANCE];
    values
        .chunks(GLANCE)
        .zip(latents.chunks(GLANCE))
        .all(|(values, latents)| {
            let decoded = &mut decoded[..values.len()];
            let differs = |(value, decoded): (&f64, &f64)| value.to_bits() ^ decoded.to_bits();
            from_latents(&latents[..values.len()], scale, decoded).is_ok()
                && values
                    .iter()
                    .zip(&*decoded)
                    .map(differs)
                    .fold(0, |union, differs| union | differs)
                    == 0
        })
}

fn to_float(latent: i64) -> f64 {
    f64::from_bits(MAGIC.to_bits().wrapping_add(latent as u64)) - MAGIC
}

fn to_integer(value: f64) -> i64 {
    (value + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()) as i64
}

/// The scale that makes a sample of the values smallest, or `None` if most of them are not decimals.
pub(super) fn choose_scale(values: impl Iterator<Item = f64> + Clone) -> Option<i8> {
    let step = values.clone().count().div_ceil(SAMPLES_MAX).max(1);
    let mut scales = [None; SAMPLES_MAX];
    let mut count = 0;
    for (scale, value) in scales.iter_mut().zip(values.step_by(step)) {
        *scale = scale_of(value);
        count += 1;
    }
    let scales = &scales[..count];
    let cost = |scale: i8| {
        // In tenths of a bit: a digit more widens every value, a digit less makes an exception of 8 bytes and a position.
        let exceptions = scales
            .iter()
            .filter(|needed| needed.is_none_or(|needed| needed > scale))
            .count();
        exceptions as i64 * 740 + count as i64 * i64::from(scale) * 33
    };
    let candidates = scales.iter().flatten().copied();
    let best = candidates.min_by_key(|scale| cost(*scale))?;
    let exact = scales
        .iter()
        .flatten()
        .filter(|needed| **needed <= best)
        .count();
    (exact * 2 > count).then_some(best)
}

/// The smallest scale at which a value is exact.
fn scale_of(value: f64) -> Option<i8> {
    let exact = |scale: &i8| is_exact(value, to_latent(value, *scale), *scale);
    let scale = (0..=SCALE_MAX).find(exact);
    match scale {
        // A whole number may end in zeros, and one beyond the limit must. Zero says nothing about its neighbours.
        Some(0) if value == 0.0 => scale,
        Some(0) | None => (-SCALE_MAX..0).find(exact).or(scale),
        _ => scale,
    }
}
