//! Floats: decimals become integers where that is exact; the others keep their bits.

mod decimal;
mod image;

use crate::encoding::Encoding;
use crate::read::take;
use crate::{BLOCK_ROWS_MAX, Error};
pub(crate) use decimal::NearDecimals;

/// Appends the body of 1 to `BLOCK_ROWS_MAX` values and answers with its encoding.
pub(crate) fn encode(values: &[f64], out: &mut Vec<u8>) -> Encoding {
    let raw_bytes = 8 * values.len();
    let mut latents = [0; BLOCK_ROWS_MAX];
    let decimal = decimal::Decimals::of(values, &mut latents);
    let decimal_bytes = decimal
        .as_ref()
        .map_or(usize::MAX, decimal::Decimals::bytes);
    // Decimals that halve the size or better are kept without asking for more: the bits of a float are rarely smoother.
    if let Some(decimal) = &decimal
        && decimal_bytes <= raw_bytes / 2
    {
        decimal.encode(values, &latents, out);
        return Encoding::Decimal;
    }
    let image = image::Image::of(values);
    let image_bytes = image.bytes();
    match decimal {
        Some(decimal) if decimal_bytes <= image_bytes && decimal_bytes < raw_bytes => {
            decimal.encode(values, &latents, out);
            Encoding::Decimal
        }
        _ if image_bytes < raw_bytes => {
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
