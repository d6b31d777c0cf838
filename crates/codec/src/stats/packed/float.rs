//! Statistics of floats: lists of floats, encoded as the pages of floats are.
//!
//! The sum of decimals is a decimal but for its last bits. It is written as the nearest decimal and the number of steps
//! from there to the sum, where that is smaller than all of its bits.

use super::{Known, Values, put as put_integers, take as take_integers};
use crate::encoding::Encoding;
use crate::float::{self, NearDecimals};
use crate::read::take_u8;
use crate::stats::Statistics;
use crate::{BLOCK_ROWS_MAX, Error};

/// Sums follow as a list of floats.
const SUMS_WHOLE: u8 = 0;
/// Sums follow as decimals and steps.
const SUMS_NEAR: u8 = 1;

pub(super) fn put(known: &[Known], out: &mut Vec<u8>) {
    if known.is_empty() {
        return;
    }
    let list = |of: fn(&Known) -> u64| -> Vec<f64> {
        known.iter().map(|page| f64::from_bits(of(page))).collect()
    };
    let min = list(|page| page.extremes().0 as u64);
    put_floats(&min, out);
    put_floats(&list(|page| page.extremes().1 as u64), out);
    put_floats(&list(|page| page.last.bits), out);
    put_floats(&list(|page| page.first.bits), out);
    let of_floats = |page: &Known| match page.values {
        Statistics::Float {
            sum, non_finite, ..
        } => (sum, i64::from(non_finite)),
        _ => (0.0, 0),
    };
    let (sums, flags): (Vec<f64>, Vec<i64>) = known.iter().map(of_floats).unzip();
    put_integers(flags.into_iter(), out);
    put_sums(&sums, &min, out);
}

pub(super) fn take(input: &mut &[u8], n: usize) -> Result<Values, Error> {
    if n == 0 {
        return Ok(Vec::new());
    }
    let (min, max) = (take_floats(input, n)?, take_floats(input, n)?);
    let (last, first) = (take_floats(input, n)?, take_floats(input, n)?);
    let flags = take_integers(input, n)?;
    let sums = take_sums(input, n)?;
    let values = |index: usize| {
        let non_finite = match flags[index] {
            0 => false,
            1 => true,
            _ => return Err(Error::corrupt("a flag of statistics is neither 0 nor 1")),
        };
        let values = Statistics::Float {
            min: min[index],
            max: max[index],
            sum: sums[index],
            non_finite,
        };
        Ok((
            first[index].to_bits() as i64,
            last[index].to_bits() as i64,
            values,
        ))
    };
    (0..n).map(values).collect()
}

fn put_floats(values: &[f64], out: &mut Vec<u8>) {
    for chunk in values.chunks(BLOCK_ROWS_MAX) {
        let at = out.len();
        out.push(0);
        out[at] = float::encode(chunk, crate::PageSet::First, out) as u8;
    }
}

fn take_floats(input: &mut &[u8], n: usize) -> Result<Vec<f64>, Error> {
    let mut values = vec![0.0; n];
    let mut latents = Vec::new();
    for chunk in values.chunks_mut(BLOCK_ROWS_MAX) {
        let encoding = Encoding::try_from(take_u8(input)?)?;
        float::decode(encoding, input, &mut latents, chunk)?;
    }
    Ok(values)
}

fn put_sums(sums: &[f64], summed: &[f64], out: &mut Vec<u8>) {
    let start = out.len();
    out.push(SUMS_WHOLE);
    put_floats(sums, out);
    let mut near = Vec::new();
    if let Some(decimals) = NearDecimals::of(sums, summed) {
        near.extend_from_slice(&[SUMS_NEAR, decimals.scale.cast_unsigned()]);
        put_integers(decimals.integers.into_iter(), &mut near);
        put_integers(decimals.steps.into_iter(), &mut near);
        if near.len() < out.len() - start {
            out.truncate(start);
            out.extend_from_slice(&near);
        }
    }
}

fn take_sums(input: &mut &[u8], n: usize) -> Result<Vec<f64>, Error> {
    match take_u8(input)? {
        SUMS_WHOLE => take_floats(input, n),
        SUMS_NEAR => {
            let scale = take_u8(input)?.cast_signed();
            let integers = take_integers(input, n)?;
            let steps = take_integers(input, n)?;
            NearDecimals {
                scale,
                integers,
                steps,
            }
            .to_floats()
        }
        _ => Err(Error::corrupt("sums are of no known kind")),
    }
}
