//! Marks and sizes of an index file. See `docs/format/index.md`.

use crate::file_header::FileFormat;

pub(super) const MAGIC: [u8; 8] = *b"NILOIDX0";
pub(super) const KIND: FileFormat = FileFormat {
    magic: MAGIC,
    format: 1,
};
pub(super) const HEADER_BYTES: usize = 64;
pub(super) const TAIL_BYTES: usize = 40;

/// Series of one block, and entries of one block of hashes: what is decoded to look at one of them.
pub(super) const SERIES_OF_ONE_BLOCK: usize = 1024;
/// Values of one dictionary block, unless their text ends it.
pub(super) const VALUES_OF_ONE_BLOCK: usize = 64;
/// Text that ends a dictionary block.
pub(super) const BLOCK_TEXT_BYTES: usize = 16 << 10;
/// A tag with at most so many dictionary blocks has each twice: every series may hang on one of them. With more values a
/// block is needed by few series, and its text is most of the file.
pub(super) const COPIED_BLOCKS_MAX: usize = 16;
