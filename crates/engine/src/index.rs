//! The tag index on disk: immutable files that say which series there are and what tags they have.
//!
//! Does: write a file of some tables' series, find a series by its tags, tags by series, series by tag values, values by
//! prefix, merge files, and say what is left of a damaged one; reads go block by block through a bounded cache. Does not:
//! decide when files are written, merged or put aside, or know what is newer than they are. Layout: `docs/format/index.md`.
//!
//! Within a file, the series of a table have *ordinals*: their positions in the ascending order of their ids. A tag's
//! values have *codes*: their positions in byte order, from 1; code 0 = the series has no such tag.

mod block;
mod cache;
mod footer;
pub(crate) mod hostile;
mod merge;
mod reader;
mod salvage;
mod select;
mod stream;
#[cfg(test)]
mod tests;
mod texts;
mod verify;
mod writer;

use nilometer_codec::crc32c;

use crate::error::Malformed;
use crate::file_header::Kind;
use crate::schema::{ColumnId, TableId};

pub(crate) use cache::BlockCache;
pub(crate) use merge::{PART_BYTES, merge};
pub(crate) use reader::Index;
pub(crate) use texts::Texts;
pub(crate) use verify::IndexPlace;
pub(crate) use writer::{Hashing, IndexWriter};

const MAGIC: [u8; 8] = *b"NILOIDX0";
const KIND: Kind = Kind {
    magic: MAGIC,
    format: 1,
};
const HEADER_BYTES: usize = 64;
const TAIL_BYTES: usize = 40;

/// Series of one block, and entries of one block of hashes: what is decoded to look at one of them.
const SERIES_OF_ONE_BLOCK: usize = 1024;
/// Values of one dictionary block, unless their text ends it.
const VALUES_OF_ONE_BLOCK: usize = 64;
/// Text that ends a dictionary block.
const BLOCK_TEXT_BYTES: usize = 16 << 10;
/// A tag with at most so many dictionary blocks has each twice: every series may hang on one of them. With more values a
/// block is needed by few series, and its text is most of the file.
const COPIED_BLOCKS_MAX: usize = 16;

/// All series of one table, as a writer takes them and a merge makes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableSeries {
    pub(crate) table: TableId,
    /// Ascending.
    pub(crate) ids: Vec<u32>,
    /// By tag id.
    pub(crate) tags: Vec<TagSeries>,
}

/// One tag of all series of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TagSeries {
    pub(crate) tag: ColumnId,
    /// In byte order, each once.
    pub(crate) values: Texts,
    /// By ordinal: position of the value, from 1; 0 = absent.
    pub(crate) codes: Vec<u32>,
}

impl TableSeries {
    /// Whether lengths, orders and codes are as they must be.
    fn check(&self) -> Result<(), Malformed> {
        let tags_fit = self.tags.iter().all(|tag| {
            let values = tag.values.len();
            tag.codes.len() == self.ids.len()
                && tag.codes.iter().all(|&code| code as usize <= values)
                && tag.values.iter().is_sorted_by(|a, b| a < b)
        });
        let sorted =
            self.ids.is_sorted_by(|a, b| a < b) && self.tags.is_sorted_by(|a, b| a.tag < b.tag);
        if tags_fit && sorted {
            Ok(())
        } else {
            Err(Malformed::new("series of a table contradict each other"))
        }
    }
}

/// What a set of tags is looked up by; tags ascend by id. Different sets may share it. `scratch` is only for its memory.
pub(crate) fn hash_tags<'a>(
    tags: impl Iterator<Item = (ColumnId, &'a str)>,
    scratch: &mut Vec<u8>,
) -> u32 {
    scratch.clear();
    for (tag, value) in tags {
        put_hashed(tag, value, scratch);
    }
    crc32c(0, scratch)
}

/// What a tag contributes to the hash of a set.
fn put_hashed(tag: ColumnId, value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&tag.0.to_le_bytes());
    out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    out.extend_from_slice(value.as_bytes());
}
