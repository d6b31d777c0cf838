//! The footer of an index file: where every block is and what it starts with. Held in memory while the file is open:
//! about a thousandth of what it describes.

use nilometer_codec::varint;

use super::block::{ended, put_u32s, take_u32s};
use super::{SERIES_OF_ONE_BLOCK, VALUES_OF_ONE_BLOCK};
use crate::definition::{put_text, take_text, take_u32};
use crate::error::Malformed;
use crate::schema::{ColumnId, TableId};

/// Blocks of one kind, one after the other in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    pub(super) offset: u64,
    /// With their checksums.
    pub(super) lengths: Vec<u32>,
}

/// What the footer says of a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TagMeta {
    pub(super) tag: ColumnId,
    pub(super) dictionary: Blocks,
    /// By dictionary block: number of values.
    pub(super) values: Vec<u32>,
    /// By dictionary block: the first value.
    pub(super) firsts: Vec<String>,
    /// By dictionary block: bytes of its lists.
    pub(super) lists: Blocks,
    /// Number of series without the tag, and the bytes of their list, which stands behind all others; 0 = no such list.
    pub(super) absent: u32,
    pub(super) absent_bytes: u32,
}

/// What the footer says of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableMeta {
    pub(super) table: TableId,
    pub(super) series: u32,
    pub(super) blocks: Blocks,
    /// By block of series: the first id.
    pub(super) first_ids: Vec<u32>,
    pub(super) hashes: Blocks,
    /// By block of hashes: the first one.
    pub(super) first_hashes: Vec<u32>,
    pub(super) tags: Vec<TagMeta>,
}

impl Blocks {
    /// Offset and length of a block.
    pub(super) fn place(&self, block: usize) -> Option<(u64, u32)> {
        let length = *self.lengths.get(block)?;
        let before = self.lengths.get(..block)?.iter();
        let before: u64 = before.map(|&n| u64::from(n)).sum();
        Some((self.offset.checked_add(before)?, length))
    }

    /// Where the next thing after all blocks stands.
    pub(super) fn end(&self) -> u64 {
        let length: u64 = self.lengths.iter().map(|&n| u64::from(n)).sum();
        self.offset.saturating_add(length)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(self.offset, out);
        put_u32s(self.lengths.iter().copied(), out);
    }

    fn decode(input: &mut &[u8], n: usize) -> Result<Self, Malformed> {
        Ok(Self {
            offset: varint::get_u64(input)?,
            lengths: take_u32s(input, n)?,
        })
    }
}

impl TableMeta {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(u64::from(self.table.0), out);
        varint::put_u64(u64::from(self.series), out);
        self.blocks.encode(out);
        put_u32s(self.first_ids.iter().copied(), out);
        self.hashes.encode(out);
        put_u32s(self.first_hashes.iter().copied(), out);
        varint::put_u64(self.tags.len() as u64, out);
        for tag in &self.tags {
            varint::put_u64(u64::from(tag.tag.0), out);
            varint::put_u64(tag.values.len() as u64, out);
            tag.dictionary.encode(out);
            put_u32s(tag.values.iter().copied(), out);
            tag.lists.encode(out);
            varint::put_u64(u64::from(tag.absent), out);
            varint::put_u64(u64::from(tag.absent_bytes), out);
            for first in &tag.firsts {
                put_text(first, out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let table = TableId(take_u32(input)?);
        let series = take_u32(input)?;
        let blocks = (series as usize).div_ceil(SERIES_OF_ONE_BLOCK);
        let mut meta = Self {
            table,
            series,
            blocks: Blocks::decode(input, blocks)?,
            first_ids: take_u32s(input, blocks)?,
            hashes: Blocks::decode(input, blocks)?,
            first_hashes: take_u32s(input, blocks)?,
            tags: Vec::new(),
        };
        for _ in 0..take_u32(input)? {
            meta.tags.push(TagMeta::decode(input)?);
        }
        let sorted = meta.first_ids.is_sorted_by(|a, b| a < b)
            && meta.first_hashes.is_sorted()
            && meta.tags.is_sorted_by(|a, b| a.tag < b.tag);
        if !sorted {
            return Err(Malformed::new("the footer is out of order"));
        }
        Ok(meta)
    }
}

impl TagMeta {
    fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let tag = ColumnId(take_u32(input)?);
        let n = take_u32(input)? as usize;
        let mut meta = Self {
            tag,
            dictionary: Blocks::decode(input, n)?,
            values: take_u32s(input, n)?,
            lists: Blocks::decode(input, n)?,
            absent: take_u32(input)?,
            absent_bytes: take_u32(input)?,
            firsts: Vec::new(),
        };
        for _ in 0..n {
            meta.firsts.push(take_text(input)?);
        }
        let fits = meta
            .values
            .iter()
            .all(|&n| n as usize <= VALUES_OF_ONE_BLOCK);
        if !fits || !meta.firsts.is_sorted_by(|a, b| a < b) {
            return Err(Malformed::new("a dictionary is out of order"));
        }
        Ok(meta)
    }
}

pub(super) fn encode(tables: &[TableMeta]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::put_u64(tables.len() as u64, &mut out);
    for table in tables {
        table.encode(&mut out);
    }
    out
}

pub(super) fn decode(mut input: &[u8]) -> Result<Vec<TableMeta>, Malformed> {
    let input = &mut input;
    let mut tables = Vec::new();
    for _ in 0..take_u32(input)? {
        tables.push(TableMeta::decode(input)?);
    }
    ended(input)?;
    if !tables.is_sorted_by(|a: &TableMeta, b| a.table < b.table) {
        return Err(Malformed::new("tables are out of order"));
    }
    Ok(tables)
}
