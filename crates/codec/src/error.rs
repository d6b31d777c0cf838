//! Errors between values and bytes, and what to do about each.

use crate::{BLOCK_ROWS_MAX, PAGES_MAX, TEXT_BYTES_MAX, VALUE_BYTES_MAX};

/// Why a column could not be encoded or a page not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input ended inside a value.
    #[error(
        "the page ends too early; read all of its bytes, or restore the file if they were lost"
    )]
    Truncated,
    /// The encoding id is not one of format 0.
    #[error("unknown encoding {0}; the page was written by a newer version, or it is damaged")]
    UnknownEncoding(u8),
    /// The physical type is not one of format 0.
    #[error("unknown physical type {0}; the page was written by a newer version, or it is damaged")]
    UnknownType(u8),
    /// The bytes contradict themselves.
    #[error("corrupt page: {what}; restore the file from a backup or a replica")]
    Corrupt {
        /// The rule that the bytes break.
        what: &'static str,
    },
    /// The version of a device page is not one that this build reads.
    #[error(
        "device page of version {0}, and this version reads 1; update the server before the devices"
    )]
    UnknownDevicePage(u8),
    /// The page is compressed with zstd, and this build has no zstd.
    #[error("the page is compressed with zstd; use a build with the feature `zstd`")]
    UnsupportedZstd,
    /// The page is compressed with pco, and this build has no pco.
    #[error("the page is compressed with pco; use a build with the feature `pco`")]
    UnsupportedPco,
    /// The page is one of several that share a header, and was read without it.
    #[error(
        "the page needs the header that its column shares; read both from the segment that holds them"
    )]
    NoSharedHeader,
    /// A page holds at least one row and at most [`BLOCK_ROWS_MAX`].
    #[error("a page of {rows} rows; write between 1 and {BLOCK_ROWS_MAX} rows to a page")]
    LimitRows {
        /// The number of rows asked for.
        rows: usize,
    },
    /// The statistics of at most [`PAGES_MAX`] pages are packed together.
    #[error("the statistics of {pages} pages; pack at most {PAGES_MAX} together")]
    LimitPages {
        /// The number of pages asked for.
        pages: usize,
    },
    /// A page holds at most [`TEXT_BYTES_MAX`] bytes of text, and one with a single value at most [`VALUE_BYTES_MAX`].
    #[error(
        "a page of {bytes} bytes of text; write at most {TEXT_BYTES_MAX} to a page of several values, and at most {VALUE_BYTES_MAX} to one with a single value"
    )]
    LimitTextBytes {
        /// The number of bytes asked for.
        bytes: usize,
    },
    /// The parts of the column given to the encoder do not fit together.
    #[error("invalid column: {what}")]
    InvalidColumn {
        /// The rule that the caller broke.
        what: &'static str,
    },
}

impl Error {
    pub(crate) const fn corrupt(what: &'static str) -> Self {
        Self::Corrupt { what }
    }
}
