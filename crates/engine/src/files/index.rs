//! The tag index on disk: immutable files of series and their tags.
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
mod layout;
mod merge;
mod reader;
mod salvage;
mod select;
mod series;
mod stream;
#[cfg(test)]
mod tests;
mod texts;
mod verify;
mod writer;

pub(crate) use cache::BlockCache;
pub(crate) use merge::{PART_BYTES, merge};
pub(crate) use reader::Index;
pub(crate) use series::{TagSeries, hash_tags};
pub(crate) use texts::Texts;
pub(crate) use verify::IndexPlace;
pub(crate) use writer::{Hashing, IndexWriter};
