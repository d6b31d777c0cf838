//! Rows of a group that is not complete, on their way from one worker of a query to another.
//!
//! Does: write and read rows, with the checks of every summary. Does not: leave the process; nobody keeps these bytes.

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};
use crate::scalar::{SCALAR_BYTES_MIN, Scalar};
use crate::{Sample, Summary};

const SAMPLES: u8 = 0x81;
const TIMELINE: u8 = 0x82;
const PARTS: u8 = 0x83;

/// Samples and the range that they are from.
pub fn encode_samples(samples: &[Sample], bounds: Option<(i64, i64)>) -> Vec<u8> {
    let mut to = Writer::new(SAMPLES);
    to.u8(u8::from(bounds.is_some()));
    if let Some((from, until)) = bounds {
        to.i64(from);
        to.i64(until);
    }
    to.count(samples.len());
    for sample in samples {
        to.i64(sample.time);
        to.f64(sample.value);
    }
    to.finish()
}

/// What [`encode_samples`] wrote.
#[expect(clippy::type_complexity, reason = "the arguments of its counterpart")]
pub fn decode_samples(bytes: &[u8]) -> Result<(Vec<Sample>, Option<(i64, i64)>), Error> {
    let mut from = open(bytes, SAMPLES)?;
    let bounds = from.optional(|from| Ok((from.i64()?, from.i64()?)))?;
    let count = from.count(16)?;
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        samples.push(Sample {
            time: from.i64()?,
            value: from.f64()?,
        });
    }
    from.end()?;
    Ok((samples, bounds))
}

/// Times and states.
pub fn encode_timeline(rows: &[(i64, Scalar)]) -> Vec<u8> {
    let mut to = Writer::new(TIMELINE);
    to.count(rows.len());
    for (time, state) in rows {
        to.i64(*time);
        state.write(&mut to);
    }
    to.finish()
}

/// What [`encode_timeline`] wrote.
pub fn decode_timeline(bytes: &[u8]) -> Result<Vec<(i64, Scalar)>, Error> {
    let mut from = open(bytes, TIMELINE)?;
    let count = from.count(8 + SCALAR_BYTES_MIN)?;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        rows.push((from.i64()?, Scalar::read(&mut from)?));
    }
    from.end()?;
    Ok(rows)
}

/// Summaries that wait for others.
pub fn encode_parts(parts: &[Summary]) -> Vec<u8> {
    let mut to = Writer::new(PARTS);
    to.count(parts.len());
    for part in parts {
        to.bytes(&part.encode());
    }
    to.finish()
}

/// What [`encode_parts`] wrote.
pub fn decode_parts(bytes: &[u8]) -> Result<Vec<Summary>, Error> {
    let mut from = open(bytes, PARTS)?;
    let count = from.count(8)?;
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        parts.push(Summary::decode(from.bytes()?)?);
    }
    from.end()?;
    Ok(parts)
}

fn open(bytes: &[u8], kind: u8) -> Result<Reader<'_>, Error> {
    let (found, from) = Reader::open(bytes)?;
    if found == kind {
        Ok(from)
    } else {
        Err(damaged("its kind"))
    }
}
