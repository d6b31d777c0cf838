//! Numbers in pco: one chunk of pco a column, one of its pages for each of ours.
//!
//! Layout of the header: form (1 byte), for forms 1 and 2 the scale (1 byte, two's complement), a header of pco, the
//! metadata of a chunk. Layout of a page: for forms 1 and 2 the exceptions, a page of pco.
//! Form 0 are the numbers as they are, 1 floats as decimals, 2 floats as dyadics, whose integers pco sees; 4 more, and 8 more, of
//! integers that all fit 32 bits, or 16.
//! Modes with a dictionary and differences to a distant value are not written and not read: they take memory that the
//! header has not paid for.

use pco::DecompressorScratch;
use pco::data_types::Number;
use pco::metadata::DeltaEncoding;
use pco::wrapped::{ChunkDecompressor, FileDecompressor};

use super::Slots;
use super::latents::{self, Chunk, Integer, Whole};
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
    F64(Box<ChunkDecompressor<f64>>),
    Scaled(Scale, Integers<i64>),
}

/// What reads the pages of a column of integers.
#[derive(Clone, Debug)]
pub(crate) enum Integers<T: Integer + Whole> {
    ByHand(Chunk),
    ByLibrary(Box<ChunkDecompressor<T>>),
    /// Of 32 bits each in pco, and of 16.
    Half(Chunk),
    Quarter(Chunk),
}

/// Bits of the integers that pco has, as the form of a header says.
#[derive(Clone, Copy)]
enum Width {
    Whole,
    Half,
    Quarter,
}

/// Room that either of them needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    by_hand: latents::Scratch,
    by_library: DecompressorScratch,
}

impl Numbers {
    pub(super) fn parse(physical_type: PhysicalType, bytes: &[u8]) -> Result<Self, Error> {
        let mut input = bytes;
        let form = take_u8(&mut input)?;
        let width = match form >> 2 {
            0 => Width::Whole,
            1 => Width::Half,
            2 => Width::Quarter,
            _ => return Err(Error::corrupt("the form of a shared header is unknown")),
        };
        let numbers = match (form & 3, physical_type) {
            (0, PhysicalType::I64) => Self::I64(integers(width, &mut input)?),
            (0, PhysicalType::U64) => Self::U64(integers(width, &mut input)?),
            (0, PhysicalType::F64) if form == 0 => Self::F64(Box::new(chunk(&mut input)?)),
            (1 | 2, PhysicalType::F64) => {
                let scale = take_u8(&mut input)?.cast_signed();
                let scale = if form & 3 == 1 {
                    Scale::Decimal(scale)
                } else {
                    Scale::Dyadic(scale)
                };
                scale.to_floats(&[], &mut [])?;
                Self::Scaled(scale, integers(width, &mut input)?)
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
        /// A state of the entropy coder: where it goes, and the least value of its bin.
        const STATE_BYTES: usize = 16;
        let states = match self {
            Self::I64(it) | Self::Scaled(_, it) => it.states(),
            Self::U64(it) => it.states(),
            Self::F64(it) => states(it),
        };
        // What the library made stands behind a box; without one this is a little too much.
        size_of::<Self>() + size_of::<ChunkDecompressor<f64>>() + states * STATE_BYTES
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

fn integers<T: Integer + Whole>(width: Width, input: &mut &[u8]) -> Result<Integers<T>, Error> {
    Ok(match width {
        Width::Whole => {
            let chunk = chunk(input)?;
            match Chunk::of(&chunk) {
                Some(tables) => Integers::ByHand(tables),
                None => Integers::ByLibrary(Box::new(chunk)),
            }
        }
        Width::Half => Integers::Half(narrow::<i32>(input)?),
        Width::Quarter => Integers::Quarter(narrow::<i16>(input)?),
    })
}

/// Of narrow integers there is nothing that is left to the library.
fn narrow<T: Integer>(input: &mut &[u8]) -> Result<Chunk, Error> {
    let chunk: ChunkDecompressor<T> = chunk(input)?;
    Chunk::of(&chunk).ok_or(Error::corrupt(
        "the mode of pco is not one of narrow integers",
    ))
}

impl<T: Integer + Whole> Integers<T> {
    fn states(&self) -> usize {
        match self {
            Self::ByHand(chunk) | Self::Half(chunk) | Self::Quarter(chunk) => chunk.states(),
            Self::ByLibrary(chunk) => states(chunk),
        }
    }

    /// Decodes the first values of a page of `total`, all of them or a multiple of a batch; a whole page takes all of `body`.
    fn read(
        &self,
        body: &[u8],
        total: usize,
        out: &mut [T],
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let by_hand = &mut scratch.by_hand;
        match self {
            Self::ByHand(chunk) => chunk.read::<T, T>(body, total, out, by_hand),
            Self::Half(chunk) => chunk.read::<i32, T>(body, total, out, by_hand),
            Self::Quarter(chunk) => chunk.read::<i16, T>(body, total, out, by_hand),
            Self::ByLibrary(chunk) => page(chunk, body, total, out, &mut scratch.by_library),
        }
    }
}

fn page<T: Number>(
    chunk: &ChunkDecompressor<T>,
    body: &[u8],
    total: usize,
    out: &mut [T],
    scratch: &mut DecompressorScratch,
) -> Result<(), Error> {
    let is_whole = out.len() == total;
    let page = chunk.page_decompressor_with_scratch(body, total, scratch);
    let mut page = page.map_err(corrupt)?;
    page.read(out).map_err(corrupt)?;
    if is_whole && !page.into_src().is_empty() {
        return Err(Error::corrupt("bytes after the numbers of a page"));
    }
    Ok(())
}

/// Takes all that is left of `input`.
pub(super) fn decode(
    numbers: &Numbers,
    input: &mut &[u8],
    slots: Slots<'_>,
    scratch: &mut Scratch,
) -> Result<(), Error> {
    match (numbers, slots) {
        (Numbers::I64(it), Slots::I64(out)) => it.read(input, out.len(), out, scratch)?,
        (Numbers::U64(it), Slots::U64(out)) => it.read(input, out.len(), out, scratch)?,
        (Numbers::F64(chunk), Slots::F64(out, _)) => {
            page(chunk, input, out.len(), out, &mut scratch.by_library)?;
        }
        (Numbers::Scaled(scale, it), Slots::F64(out, integers)) => {
            let exceptions = Taken::take(input, out.len())?;
            integers.resize(out.len().max(integers.len()), 0);
            let integers = &mut integers[..out.len()];
            it.read(input, integers.len(), integers, scratch)?;
            scale.to_floats(integers, out)?;
            exceptions.apply(out)?;
        }
        _ => {
            return Err(Error::corrupt(
                "a page and its shared header are of two types",
            ));
        }
    }
    *input = &[];
    Ok(())
}

/// The first values of a page of `total`; false = these are not to be had without the others.
pub(super) fn decode_first(
    numbers: &Numbers,
    body: &[u8],
    total: usize,
    slots: Slots<'_>,
    scratch: &mut Scratch,
) -> Result<bool, Error> {
    match (numbers, slots) {
        (Numbers::I64(it), Slots::I64(out)) => it.read(body, total, out, scratch)?,
        (Numbers::U64(it), Slots::U64(out)) => it.read(body, total, out, scratch)?,
        (Numbers::F64(chunk), Slots::F64(out, _)) => {
            page(chunk, body, total, out, &mut scratch.by_library)?;
        }
        (Numbers::Scaled(scale, it), Slots::F64(out, integers)) => {
            let mut body = body;
            if !Taken::take(&mut body, total)?.is_empty() {
                return Ok(false);
            }
            integers.resize(out.len().max(integers.len()), 0);
            let integers = &mut integers[..out.len()];
            it.read(body, total, integers, scratch)?;
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
