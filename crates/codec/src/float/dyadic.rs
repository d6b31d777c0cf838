//! DYADIC: floats that were measured in steps of a power of two are integers over it.
//!
//! Layout: scale (1 byte, two's complement), the exceptions, an integer chunk of all values, where exceptions repeat a
//! neighbour. A value is `integer * 2^-scale`: integers are below 2^53, so the product is exact, and a machine without
//! a floating-point unit adds to the exponent instead.

use super::exceptions::{Exceptions, Taken};
use crate::integer::{self, Plan};
use crate::read::take_u8;
use crate::{BLOCK_ROWS_MAX, Error, PageSet};

/// Integers are within -2^53 and 2^53, where every one is a float.
const LIMIT_BITS: u32 = 54;
const LIMIT: i64 = 1 << (LIMIT_BITS - 1);

/// Within these, adding `MAGIC` converts between integer and float without a branch.
const NEAR_BITS: u32 = 52;
/// 1.5 * 2^52, see `decimal.rs`.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// Bits of the fraction of a float.
const FRACTION_BITS: u32 = 52;
/// What is added to the exponent of a float.
const EXPONENT_BIAS: i32 = 1023;

/// Values looked at to choose the scale.
const SAMPLES_MAX: usize = 16;

/// Bits that an exception costs: its own, and a position of ten.
const EXCEPTION_BITS: i64 = 74;

pub(super) struct Dyadics {
    scale: i8,
    n: usize,
    exceptions: Exceptions,
    plan: Plan,
}

impl Dyadics {
    /// The values over 2^`scale`, or `None` if too few of them are exact.
    pub(super) fn at_scale(
        values: &[f64],
        scale: i8,
        latents: &mut [i64; BLOCK_ROWS_MAX],
    ) -> Option<Self> {
        let n = values.len();
        let latents = &mut latents[..n];
        to_latents(values, scale, latents);
        let exceptions = exceptions(values, latents, scale);
        if exceptions.count > n / 2 {
            return None;
        }
        exceptions.fill(latents);
        let plan = integer::plan(latents, PageSet::Second);
        Some(Self {
            scale,
            n,
            exceptions,
            plan,
        })
    }

    /// Whether no value is an exception.
    pub(super) fn is_exact(&self) -> bool {
        self.exceptions.count == 0
    }

    pub(super) fn bytes(&self) -> usize {
        1 + self.exceptions.bytes(self.n) + 1 + self.plan.body_bytes(self.n)
    }

    /// Appends the body of the values that these are the integers of.
    pub(super) fn encode(
        &self,
        values: &[f64],
        latents: &[i64; BLOCK_ROWS_MAX],
        out: &mut Vec<u8>,
    ) {
        out.push(self.scale.cast_unsigned());
        self.exceptions.encode(values, out);
        out.push(self.plan.encoding() as u8);
        self.plan.encode_body(&latents[..self.n], out);
    }
}

pub(super) fn decode(input: &mut &[u8], latents: &mut [i64], out: &mut [f64]) -> Result<(), Error> {
    let scale = take_u8(input)?.cast_signed();
    let exceptions = Taken::take(input, out.len())?;
    integer::decode_chunk(input, latents)?;
    from_latents(latents, scale, out)?;
    exceptions.apply(out)
}

/// The scale at which a sample of the values takes the fewest bits, or `None` if most of them are exact at none.
pub(super) fn choose_scale(values: impl Iterator<Item = f64> + Clone) -> Option<i8> {
    let step = values.clone().count().div_ceil(SAMPLES_MAX).max(1);
    let mut scales = [None; SAMPLES_MAX];
    let mut count = 0;
    for (scale, value) in scales.iter_mut().zip(values.step_by(step)) {
        *scale = scale_of(value);
        count += 1;
    }
    let scales = &scales[..count];
    let exceptions = |scale: i8| {
        let beyond = |needed: &&Option<i8>| needed.is_none_or(|needed| needed > scale);
        scales.iter().filter(beyond).count()
    };
    let cost =
        |scale: i8| exceptions(scale) as i64 * EXCEPTION_BITS + count as i64 * i64::from(scale);
    let best = scales
        .iter()
        .flatten()
        .copied()
        .min_by_key(|scale| cost(*scale))?;
    (2 * exceptions(best) < count).then_some(best)
}

/// The smallest scale at which a value is exact; zero is at all.
fn scale_of(value: f64) -> Option<i8> {
    let bits = value.to_bits();
    if bits == 0 {
        return Some(i8::MIN);
    }
    let exponent = (bits >> FRACTION_BITS & 0x7ff) as i32;
    // Zero is -0.0 and what is too small to be written this way, 0x7ff infinity or NaN.
    if exponent == 0 || exponent == 0x7ff {
        return None;
    }
    let fraction = bits | 1 << FRACTION_BITS;
    let scale =
        FRACTION_BITS as i32 - fraction.trailing_zeros() as i32 - (exponent - EXPONENT_BIAS);
    i8::try_from(scale.max(i32::from(i8::MIN))).ok()
}

/// 2^`exponent`, which is at most 128 either way.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((EXPONENT_BIAS + exponent) as u64) << FRACTION_BITS)
}

/// The integers; nonsense for values that have none, which [`exceptions`] finds.
pub(super) fn to_latents(values: &[f64], scale: i8, out: &mut [i64]) {
    let power = power(i32::from(scale));
    for (latent, value) in out.iter_mut().zip(values) {
        // Saturates where it does not fit.
        *latent = (*value * power) as i64;
    }
}

pub(super) fn exceptions(values: &[f64], latents: &[i64], scale: i8) -> Exceptions {
    let power = power(-i32::from(scale));
    let is_exact = |value: f64, latent: i64| {
        beyond_limit(latent) == 0 && (latent as f64 * power).to_bits() == value.to_bits()
    };
    // One look at the union of all differences, instead of one look at each.
    let differs = values
        .iter()
        .zip(latents)
        .fold(0, |union, (value, latent)| {
            union | beyond_limit(*latent) | ((*latent as f64 * power).to_bits() ^ value.to_bits())
        });
    if differs == 0 {
        return Exceptions::NONE;
    }
    Exceptions::of(values, latents, is_exact)
}

/// Zero if the integer is within the limit (-2^53 itself included, 2^53 not).
fn beyond_limit(latent: i64) -> u64 {
    (latent.wrapping_add(LIMIT) as u64) >> LIMIT_BITS
}

/// Fills `out`, with nonsense if an integer is beyond the limit, which is an error.
pub(super) fn from_latents(latents: &[i64], scale: i8, out: &mut [f64]) -> Result<(), Error> {
    let power = power(-i32::from(scale));
    let mut beyond_near = 0;
    for (value, latent) in out.iter_mut().zip(latents) {
        beyond_near |= latent.wrapping_add(1 << (NEAR_BITS - 1)) as u64;
        let magic = f64::from_bits(MAGIC.to_bits().wrapping_add(*latent as u64));
        *value = (magic - MAGIC) * power;
    }
    if beyond_near >> NEAR_BITS == 0 {
        return Ok(());
    }
    let mut beyond = 0;
    for (value, latent) in out.iter_mut().zip(latents) {
        beyond |= beyond_limit(*latent);
        *value = *latent as f64 * power;
    }
    if beyond != 0 {
        return Err(Error::corrupt("a dyadic is beyond 2^53"));
    }
    Ok(())
}
