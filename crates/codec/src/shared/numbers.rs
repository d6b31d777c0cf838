//! Numbers in pco: one chunk of pco a column, one of its pages for each of ours.
//!
//! Layout of the header: form (1 byte), for forms 1 and 2 the scale (1 byte, two's complement), a header of pco, the
//! metadata of a chunk. Layout of a page: for forms 1 and 2 the exceptions, a page of pco.
//! Form 0 are the numbers as they are, 1 floats as decimals, 2 floats as dyadics, whose integers pco sees.
//! Modes with a dictionary and differences to a distant value are not written and not read: they take memory that the
//! header has not paid for.

use pco::DecompressorScratch;
use pco::data_types::Number;
use pco::metadata::DeltaEncoding;
use pco::wrapped::{ChunkDecompressor, FileDecompressor};

use super::Slots;
use super::latents::{Latents, Ordered};
use crate::float::{Scale, Taken};
use crate::read::take_u8;
use crate::{Error, PhysicalType};

/// Variants of a mode with a dictionary have this id or a higher one, in the low bits of the first byte of a chunk.
const DICTIONARY_MODE: u8 = 4;
const MODE_MASK: u8 = 0x0f;

/// A parsed header.
#[derive(Clone, Debug)]
pub(crate) enum Numbers {
    I64(Integers<i64>),
    U64(Integers<u64>),
    F64(ChunkDecompressor<f64>),
    Scaled(Scale, Integers<i64>),
}

/// A chunk of integers, and who reads its pages.
#[derive(Clone, Debug)]
pub(crate) enum Integers<T: Number> {
    Own(Latents),
    Library(ChunkDecompressor<T>),
}

impl<T: Number + Ordered> Integers<T> {
    /// Takes the headers of pco off the front of `input`.
    fn take(input: &mut &[u8]) -> Result<Self, Error> {
        let chunk = chunk(input)?;
        Ok(match Latents::of(chunk.meta()) {
            Some(latents) => Self::Own(latents),
            None => Self::Library(chunk),
        })
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Self::Own(latents) => latents.memory_bytes(),
            Self::Library(chunk) => states(chunk) * STATE_BYTES,
        }
    }

    /// A page, all of it.
    fn page(
        &self,
        input: &mut &[u8],
        out: &mut [T],
        scratch: &mut DecompressorScratch,
    ) -> Result<(), Error> {
        match self {
            Self::Own(latents) => {
                let taken = latents.decode(input, out.len(), out)?;
                *input = input.get(taken..).ok_or(Error::Truncated)?;
                Ok(())
            }
            Self::Library(chunk) => page(chunk, input, out, scratch),
        }
    }

    /// The first values of a page of `total`.
    fn first(
        &self,
        body: &[u8],
        total: usize,
        out: &mut [T],
        scratch: &mut DecompressorScratch,
    ) -> Result<(), Error> {
        match self {
            Self::Own(latents) => latents.decode(body, total, out).map(drop),
            Self::Library(chunk) => first(chunk, body, total, out, scratch),
        }
    }
}

/// A state of the entropy coder as the library has it: where it goes, and the least value of its bin.
const STATE_BYTES: usize = 16;

impl Numbers {
    pub(super) fn parse(physical_type: PhysicalType, bytes: &[u8]) -> Result<Self, Error> {
        let mut input = bytes;
        let form = take_u8(&mut input)?;
        let numbers = match (form, physical_type) {
            (0, PhysicalType::I64) => Self::I64(Integers::take(&mut input)?),
            (0, PhysicalType::U64) => Self::U64(Integers::take(&mut input)?),
            (0, PhysicalType::F64) => Self::F64(chunk(&mut input)?),
            (1 | 2, PhysicalType::F64) => {
                let scale = take_u8(&mut input)?.cast_signed();
                let scale = if form == 1 {
                    Scale::Decimal(scale)
                } else {
                    Scale::Dyadic(scale)
                };
                scale.to_floats(&[], &mut [])?;
                Self::Scaled(scale, Integers::take(&mut input)?)
            }
            _ => {
                return Err(Error::corrupt(
                    "the form of a shared header is not one of its type",
                ));
            }
        };
        if !input.is_empty() {
            return Err(Error::corrupt("bytes after a shared header"));
        }
        Ok(numbers)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let states = match self {
            Self::I64(it) | Self::Scaled(_, it) => it.memory_bytes(),
            Self::U64(it) => it.memory_bytes(),
            Self::F64(it) => states(it) * STATE_BYTES,
        };
        size_of::<Self>() + states
    }
}

fn states<T: Number>(chunk: &ChunkDecompressor<T>) -> usize {
    let latents = &chunk.meta().per_latent_var;
    let size = |log: u32| 1_usize << log;
    let secondary = latents.secondary.as_ref();
    size(latents.primary.ans_size_log) + secondary.map_or(0, |it| size(it.ans_size_log))
}

fn corrupt<E>(_: E) -> Error {
    Error::corrupt("numbers in pco do not decode")
}

/// Takes the headers of pco off the front of `input`.
fn chunk<T: Number>(input: &mut &[u8]) -> Result<ChunkDecompressor<T>, Error> {
    let (file, rest) = FileDecompressor::new(*input).map_err(corrupt)?;
    let mode = rest.first().ok_or(Error::Truncated)? & MODE_MASK;
    if mode >= DICTIONARY_MODE {
        return Err(Error::corrupt("the mode of pco is not one of columns"));
    }
    let (chunk, rest) = file.chunk_decompressor(rest).map_err(corrupt)?;
    if !is_near(&chunk.meta().delta_encoding) {
        return Err(Error::corrupt(
            "the differences of pco are not to neighbours",
        ));
    }
    *input = rest;
    Ok(chunk)
}

pub(crate) fn is_near(delta: &DeltaEncoding) -> bool {
    matches!(
        delta,
        DeltaEncoding::NoOp | DeltaEncoding::Consecutive { .. }
    )
}

pub(super) fn decode(
    numbers: &Numbers,
    input: &mut &[u8],
    slots: Slots<'_>,
    scratch: &mut DecompressorScratch,
) -> Result<(), Error> {
    match (numbers, slots) {
        (Numbers::I64(chunk), Slots::I64(out)) => chunk.page(input, out, scratch),
        (Numbers::U64(chunk), Slots::U64(out)) => chunk.page(input, out, scratch),
        (Numbers::F64(chunk), Slots::F64(out, _)) => page(chunk, input, out, scratch),
        (Numbers::Scaled(scale, chunk), Slots::F64(out, integers)) => {
            let exceptions = Taken::take(input, out.len())?;
            integers.resize(out.len().max(integers.len()), 0);
            let integers = &mut integers[..out.len()];
            chunk.page(input, integers, scratch)?;
            scale.to_floats(integers, out)?;
            exceptions.apply(out)
        }
        _ => Err(Error::corrupt(
            "a page and its shared header are of two types",
        )),
    }
}

fn page<T: Number>(
    chunk: &ChunkDecompressor<T>,
    input: &mut &[u8],
    out: &mut [T],
    scratch: &mut DecompressorScratch,
) -> Result<(), Error> {
    let mut page = chunk
        .page_decompressor_with_scratch(*input, out.len(), scratch)
        .map_err(corrupt)?;
    page.read(out).map_err(corrupt)?;
    *input = page.into_src();
    Ok(())
}

/// The first values of a page of `total`; false = these are not to be had without the others.
pub(super) fn decode_first(
    numbers: &Numbers,
    body: &[u8],
    total: usize,
    slots: Slots<'_>,
    scratch: &mut DecompressorScratch,
) -> Result<bool, Error> {
    match (numbers, slots) {
        (Numbers::I64(chunk), Slots::I64(out)) => chunk.first(body, total, out, scratch)?,
        (Numbers::U64(chunk), Slots::U64(out)) => chunk.first(body, total, out, scratch)?,
        (Numbers::F64(chunk), Slots::F64(out, _)) => first(chunk, body, total, out, scratch)?,
        (Numbers::Scaled(scale, chunk), Slots::F64(out, integers)) => {
            let mut body = body;
            if !Taken::take(&mut body, total)?.is_empty() {
                return Ok(false);
            }
            integers.resize(out.len().max(integers.len()), 0);
            let integers = &mut integers[..out.len()];
            chunk.first(body, total, integers, scratch)?;
            scale.to_floats(integers, out)?;
        }
        _ => {
            return Err(Error::corrupt(
                "a page and its shared header are of two types",
            ));
        }
    }
    Ok(true)
}

fn first<T: Number>(
    chunk: &ChunkDecompressor<T>,
    body: &[u8],
    total: usize,
    out: &mut [T],
    scratch: &mut DecompressorScratch,
) -> Result<(), Error> {
    let page = chunk.page_decompressor_with_scratch(body, total, scratch);
    page.map_err(corrupt)?.read(out).map_err(corrupt)?;
    Ok(())
}
