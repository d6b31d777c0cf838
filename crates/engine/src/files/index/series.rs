//! Series of a table as writers take them and merges make them, and what a set of tags is looked up by.

use nilometer_codec::crc32c;

use super::texts::Texts;
use crate::error::Malformed;
use crate::schema::{ColumnId, TableId};

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
    pub(super) fn check(&self) -> Result<(), Malformed> {
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
pub(super) fn put_hashed(tag: ColumnId, value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&tag.0.to_le_bytes());
    out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    out.extend_from_slice(value.as_bytes());
}
