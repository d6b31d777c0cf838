//! Segments: immutable files of sorted blocks. Layout: `docs/format/segment.md`.
//!
//! ```text
//! header | pages of a group: column by column, block by block | directory | statistics | rollups | ... | footer | tail
//! ```
//!
//! A *group* is up to [`GROUP_BLOCKS_MAX`] blocks of one partition of one table. Its pages are stored column by column,
//! so one field of all series is one stretch of the file, and one series is one small page a column.

mod cache;
mod checksum;
mod directory;
pub(crate) mod footer;
pub(crate) mod hostile;
mod large;
mod latest;
mod meta;
mod reader;
mod rollup;
mod statistics;
mod summary;
mod unpacked;
mod verify;
mod writer;

use crate::file_header::FileFormat;

pub(crate) use cache::{Bounded, SegmentCache};
pub(crate) use checksum::SegmentFormat;
pub(crate) use directory::{BlockEntry, ColumnChunk, GroupDirectory};
pub use footer::Tier;
pub(crate) use large::{LARGE_BYTES_MAX, LargeValue};
pub(crate) use latest::{GroupRuns, LatestColumn, SharedRun};
pub(crate) use meta::{Home, SegmentMeta, Window};
pub(crate) use reader::Segment;
pub(crate) use rollup::{GroupRollups, HOUR_NS, HourEntry};
pub(crate) use summary::{Moment, Summary, Totals};
pub(crate) use unpacked::Unpacked;
pub use unpacked::{StoredField, StoredSums, StoredTotals};
pub(crate) use verify::{Broken, PartRead, SegmentPlace};
pub(crate) use writer::{
    BlockInput, CopiedBlock, CopiedPage, GroupInput, SegmentWriter, TableInput, time_of,
};

/// Blocks of one group at most.
pub(crate) const GROUP_BLOCKS_MAX: usize = 256;
/// Decoded rows of one group at most, unless one block has more: with thousands of columns a few blocks are much memory.
pub(crate) const GROUP_BYTES_MAX: usize = 16 << 20;
/// Series with fewer rows in a partition share blocks.
pub(crate) const OWN_BLOCK_ROWS_MIN: usize = 128;
/// Windows are widened by this factor, again and again while rows are few in each: those that a flush cuts at, and
/// partitions. With one factor for both the first do not straddle the second.
pub(crate) const WIDEN_FACTOR: i64 = 8;
/// Widest window, in times of the table's interval.
pub(crate) const WIDEST: i64 = 512;
/// A block's text in one column ends it when it passes this, large values aside.
pub(crate) const BLOCK_TEXT_BYTES_MAX: usize = 1 << 20;
/// The same with large values: a reader of the column holds them together.
pub(crate) const BLOCK_LARGE_BYTES_MAX: usize = 64 << 20;

/// Column numbers of what is not a field; field ids start at 1.
pub(crate) const TIME_PAGE: u32 = 0;
/// The series of each row of a shared block.
pub(crate) const SERIES_PAGE: u32 = u32::MAX;

const MAGIC: [u8; 8] = *b"NILOSEG0";
const KIND: FileFormat = FileFormat {
    magic: MAGIC,
    format: SegmentFormat::LATEST as u16,
};
const HEADER_BYTES: usize = 64;
/// Where the zeros begin that the header ends with.
const FILLING: usize = 44;
const TAIL_BYTES: u64 = 40;

#[cfg(test)]
mod tests;
