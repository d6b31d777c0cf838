//! Floats: decimals become integers where that is exact; the others keep their bits.

mod decimal;
mod dyadic;
mod exceptions;
mod image;
#[cfg(feature = "pco")]
mod scale;

use crate::encoding::{Encoding, PageSet};
use crate::read::take;
use crate::{BLOCK_ROWS_MAX, Error};
pub(crate) use decimal::NearDecimals;

use decimal::Decimals;
use dyadic::Dyadics;
use image::Image;
#[cfg(feature = "pco")]
pub(crate) use {
    exceptions::{Exceptions, Taken},
    scale::Scale,
};

/// Finest steps of a power of two that are looked for before decimals: those of decimals take more digits.
const NEAR_SCALES: std::ops::RangeInclusive<i8> = 1..=40;

/// Appends the body of 1 to `BLOCK_ROWS_MAX` values and answers with its encoding.
pub(crate) fn encode(values: &[f64], set: PageSet, out: &mut Vec<u8>) -> Encoding {
    let half_bytes = 4 * values.len();
    let scale = match set {
        PageSet::First | PageSet::Quick => None,
        PageSet::Second | PageSet::Third | PageSet::Fourth => {
            dyadic::choose_scale(values.iter().copied()).filter(|scale| *scale > 0)
        }
    };
    let mut dyadic_latents = [0; BLOCK_ROWS_MAX];
    let near = scale.filter(|scale| NEAR_SCALES.contains(scale));
    let mut dyadic = near.and_then(|scale| Dyadics::at_scale(values, scale, &mut dyadic_latents));
    // As decimals the same values take as many digits as these take bits, so that it is of no use to look at them.
    if let Some(dyadic) = dyadic.as_ref().filter(|it| it.is_exact())
        && dyadic.bytes() <= half_bytes / 2
    {
        dyadic.encode(values, &dyadic_latents, out);
        return Encoding::Dyadic;
    }
    let mut latents = [0; BLOCK_ROWS_MAX];
    let decimal = Decimals::of(values, &mut latents, set);
    let decimal_bytes = decimal.as_ref().map_or(usize::MAX, Decimals::bytes);
    let mut image = None;
    // Decimals that halve the size or better are kept without asking for more: the bits of a float are rarely smoother.
    if decimal_bytes > half_bytes {
        if dyadic.is_none()
            && let Some(scale) = scale
        {
            dyadic = Dyadics::at_scale(values, scale, &mut dyadic_latents);
        }
        image = Some(Image::of(values, set));
    }
    let image_bytes = image.as_ref().map_or(usize::MAX, Image::bytes);
    let others = decimal_bytes.min(image_bytes).min(8 * values.len());
    if let Some(dyadic) = dyadic.filter(|dyadic| is_worth(dyadic.bytes(), others, values.len())) {
        dyadic.encode(values, &dyadic_latents, out);
        return Encoding::Dyadic;
    }
    match (decimal, image) {
        (Some(decimal), _) if decimal_bytes == others && decimal_bytes < 8 * values.len() => {
            decimal.encode(values, &latents, out);
            Encoding::Decimal
        }
        (_, Some(image)) if image_bytes < 8 * values.len() => {
            image.encode(out);
            Encoding::Image
        }
        _ => {
            out.extend(
                values
                    .iter()
                    .flat_map(|value| value.to_bits().to_le_bytes()),
            );
            Encoding::Raw
        }
    }
}

/// Whether dyadics are smaller than all others, and by an eighth than the bits as they are, which are the fastest to read.
fn is_worth(bytes: usize, others: usize, n: usize) -> bool {
    bytes < others && bytes <= 7 * n
}

/// Fills `out`; `latents` is room to work in.
pub(crate) fn decode(
    encoding: Encoding,
    input: &mut &[u8],
    latents: &mut Vec<i64>,
    out: &mut [f64],
) -> Result<(), Error> {
    match encoding {
        Encoding::Decimal => {
            latents.resize(out.len(), 0);
            decimal::decode(input, latents, out)
        }
        Encoding::Dyadic => {
            latents.resize(out.len(), 0);
            dyadic::decode(input, latents, out)
        }
        Encoding::Image => {
            latents.resize(out.len(), 0);
            image::decode(input, latents, out)
        }
        Encoding::Raw => {
            let bytes = take(input, 8 * out.len())?;
            for (value, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
                *value = f64::from_bits(u64::from_le_bytes(*bytes));
            }
            Ok(())
        }
        _ => Err(Error::corrupt("the encoding is not one of floats")),
    }
}
