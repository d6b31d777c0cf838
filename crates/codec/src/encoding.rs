//! Ids of encodings: the first byte of a page, and of each chunk of integers in it.
//!
//! Does: give every encoding its number and its name. Does not: encode.
//! Next: `docs/format/page.md` for the bytes of each.

use crate::Error;

/// How the body of a page is encoded. Ids 0 to 7 and 13 are also those of integer chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Encoding {
    /// One value, repeated.
    Constant = 0,
    /// First value and constant difference.
    Stride = 1,
    /// Frame of reference: offsets from a base, bit packed.
    Frame = 2,
    /// Differences, as a frame of reference.
    Delta = 3,
    /// Eight bytes a value.
    Raw = 4,
    /// Values of runs, then their lengths.
    RunLength = 5,
    /// Distinct integers, then the position of each value among them.
    Distinct = 6,
    /// Integers on a grid: a base, the width, how many widths above the base each is.
    Grid = 7,
    /// Floats as integers over a power of ten (ALP).
    Decimal = 8,
    /// Floats by their bits, as integers.
    Image = 9,
    /// Floats as integers over a power of two.
    Dyadic = 10,
    /// Numbers in pco, which need the header that the pages of their column share.
    Pco = 11,
    /// Booleans, one bit each.
    Bitmap = 12,
    /// Integers with a base and a width for every 32.
    Blocked = 13,
    /// Lengths, then bytes.
    Plain = 16,
    /// Distinct values, then codes.
    Dictionary = 17,
    /// [`Encoding::Plain`], compressed with zstd.
    PlainZstd = 18,
    /// [`Encoding::Dictionary`], compressed with zstd.
    DictionaryZstd = 19,
    /// Values of one length, cut into lanes of integers.
    Transposed = 20,
}

/// Which encodings a writer may choose from. A reader knows them all; what a file may hold is a matter of its format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageSet {
    /// Those of the first release: what logs, statistics and segments of format 1 hold.
    #[default]
    First,
    /// The first without those that take long: text is not compressed. For what is read seldom and soon gone.
    Quick,
    /// [`Encoding::Dyadic`] and [`Encoding::Blocked`] too: segments of format 2.
    Second,
    /// Of [`Encoding::Pco`] integers of 32 and 16 bits too: segments of format 3.
    Third,
    /// [`Encoding::Transposed`] too: segments of format 4.
    Fourth,
}

impl TryFrom<u8> for Encoding {
    type Error = Error;

    fn try_from(id: u8) -> Result<Self, Error> {
        Ok(match id {
            0 => Self::Constant,
            1 => Self::Stride,
            2 => Self::Frame,
            3 => Self::Delta,
            4 => Self::Raw,
            5 => Self::RunLength,
            6 => Self::Distinct,
            7 => Self::Grid,
            8 => Self::Decimal,
            9 => Self::Image,
            10 => Self::Dyadic,
            11 => Self::Pco,
            12 => Self::Bitmap,
            13 => Self::Blocked,
            16 => Self::Plain,
            17 => Self::Dictionary,
            18 => Self::PlainZstd,
            19 => Self::DictionaryZstd,
            20 => Self::Transposed,
            _ => return Err(Error::UnknownEncoding(id)),
        })
    }
}
