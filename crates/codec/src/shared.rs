//! Headers that the pages of a column share, and decoding with them.
//!
//! Does: parse a header once for any number of pages, decode pages in pco. Does not: write them (`cold.rs` does); builds
//! without the feature `pco` refuse both.
//! Next: `docs/format/page.md`, "Numbers in pco".

#[cfg(feature = "pco")]
mod latents;
#[cfg(feature = "pco")]
mod numbers;
pub(crate) mod room;

#[cfg(feature = "pco")]
pub(crate) use numbers::is_near;

use crate::{Error, PhysicalType};
use room::Room;

/// Longest header that is read. A writer's have some hundred bytes: a few for each of at most 256 bins.
pub const SHARED_HEADER_BYTES_MAX: usize = 64 << 10;

/// What the pages in pco of one column share, checked once; any number of threads may decode with it.
#[derive(Clone, Debug)]
pub struct SharedHeader {
    #[cfg(feature = "pco")]
    pub(crate) numbers: numbers::Numbers,
    physical_type: PhysicalType,
    memory_bytes: usize,
}

impl SharedHeader {
    /// Parses what [`crate::ColdColumn::header`] held, all of it.
    pub fn parse(physical_type: PhysicalType, bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > SHARED_HEADER_BYTES_MAX {
            return Err(Error::corrupt("a shared header is longer than 64 KiB"));
        }
        #[cfg(feature = "pco")]
        {
            let numbers = numbers::Numbers::parse(physical_type, bytes)?;
            Ok(Self {
                memory_bytes: numbers.memory_bytes(),
                numbers,
                physical_type,
            })
        }
        #[cfg(not(feature = "pco"))]
        {
            let _ = physical_type;
            Err(Error::UnsupportedPco)
        }
    }

    /// The type of the pages that it belongs to.
    pub fn physical_type(&self) -> PhysicalType {
        self.physical_type
    }

    /// About how much memory it takes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

/// Where the values of a page go.
#[cfg_attr(
    not(feature = "pco"),
    expect(dead_code, reason = "without pco nothing is decoded into them")
)]
pub(crate) enum Slots<'a> {
    I64(&'a mut [i64]),
    U64(&'a mut [u64]),
    F64(&'a mut [f64], &'a mut Vec<i64>),
}

/// Values that a page in pco is decoded in steps of.
pub(crate) const FIRST_STEP: usize = 256;

/// Decodes the first values of the body of a page in pco that has `total`, as many as there are slots, a multiple of
/// [`FIRST_STEP`]; false = these are not to be had without the others. What comes after them is not looked at.
pub(crate) fn decode_first(
    shared: Option<&SharedHeader>,
    body: &[u8],
    total: usize,
    slots: Slots<'_>,
    room: &mut Room,
) -> Result<bool, Error> {
    let shared = shared.ok_or(Error::NoSharedHeader)?;
    #[cfg(feature = "pco")]
    {
        let scratch = room.scratch.get_or_insert_default();
        numbers::decode_first(&shared.numbers, body, total, slots, scratch)
    }
    #[cfg(not(feature = "pco"))]
    {
        let _ = (shared, body, total, slots, room);
        Err(Error::UnsupportedPco)
    }
}

/// Decodes the body of a page in pco.
pub(crate) fn decode(
    shared: Option<&SharedHeader>,
    input: &mut &[u8],
    slots: Slots<'_>,
    room: &mut Room,
) -> Result<(), Error> {
    let shared = shared.ok_or(Error::NoSharedHeader)?;
    #[cfg(feature = "pco")]
    {
        let scratch = room.scratch.get_or_insert_default();
        numbers::decode(&shared.numbers, input, slots, scratch)
    }
    #[cfg(not(feature = "pco"))]
    {
        let _ = (shared, input, slots, room);
        Err(Error::UnsupportedPco)
    }
}
