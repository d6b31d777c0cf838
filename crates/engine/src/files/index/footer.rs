//! The footer of an index file: the place and the first entry of every block. In memory while the file is open, about a
//! thousandth of the file.
//!
//! Of format 0 there are two layouts. The earlier one has nothing twice and a tag's lists in front of its dictionary
//! blocks; it is read so that such files can be written again, and never written.

use nilometer_codec::varint;

use super::block::{ended, put_u32s, take_u32s};
use super::layout::{COPIED_BLOCKS_MAX, SERIES_OF_ONE_BLOCK, VALUES_OF_ONE_BLOCK};
use crate::definition::{put_text, take_text, take_u32};
use crate::error::Malformed;
use crate::schema::{ColumnId, TableId};

/// Blocks of one kind, one after the other in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    offset: u64,
    /// By block: where it ends, with its checksum.
    ends: Vec<u64>,
}

/// What a footer says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Footer {
    /// Ids of series below this had been given away, also those that are in no file any more.
    pub(super) next_series: u32,
    pub(super) tables: Vec<TableMeta>,
}

/// What the footer says of a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TagMeta {
    pub(super) tag: ColumnId,
    /// Codes by block of series.
    pub(super) codes: Blocks,
    /// For each dictionary block two of these: its lists, and behind them itself. In the earlier layout dictionary blocks
    /// only.
    pub(super) values: Blocks,
    /// By dictionary block its lists, in the earlier layout.
    pub(super) lists: Option<Blocks>,
    /// By dictionary block: number of values, the blocks before it included.
    pub(super) value_ends: Vec<u32>,
    /// By dictionary block: the first value.
    pub(super) firsts: Vec<String>,
    /// Number of series without the tag, and the bytes of their list, which stands behind all others; 0 = no such list.
    pub(super) absent: u32,
    pub(super) absent_bytes: u32,
}

/// What the footer says of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableMeta {
    pub(super) table: TableId,
    pub(super) series: u32,
    /// Ids by block of series.
    pub(super) ids: Blocks,
    /// By block of series: the first id.
    pub(super) first_ids: Vec<u32>,
    pub(super) last_id: u32,
    pub(super) hashes: Blocks,
    /// By block of hashes: the first one.
    pub(super) first_hashes: Vec<u32>,
    /// Ids stand there twice; false in the earlier layout.
    pub(super) has_copies: bool,
    pub(super) tags: Vec<TagMeta>,
}

/// How a footer and what it describes are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// The one that is written.
    Twice,
    /// The earlier one of format 0.
    Once,
}

impl Blocks {
    /// No blocks yet; the first will stand at `offset`.
    pub(super) fn at(offset: u64) -> Self {
        Self {
            offset,
            ends: Vec::new(),
        }
    }

    /// Where a block stands in a copy of all of them that starts at `offset`.
    fn place_in_copy(&self, block: usize, offset: u64) -> Option<(u64, u64)> {
        let (start, length) = self.place(block)?;
        let start = offset.checked_add(start.checked_sub(self.offset)?)?;
        Some((start, length))
    }

    /// Adds a block of so many bytes.
    pub(super) fn push(&mut self, length: u32) {
        self.ends.push(self.end() + u64::from(length));
    }

    /// Offset and length of a block.
    pub(super) fn place(&self, block: usize) -> Option<(u64, u64)> {
        let end = *self.ends.get(block)?;
        let start = match block {
            0 => self.offset,
            _ => *self.ends.get(block - 1)?,
        };
        Some((start, end - start))
    }

    /// Where the next thing after all blocks stands.
    pub(super) fn end(&self) -> u64 {
        self.ends.last().copied().unwrap_or(self.offset)
    }

    /// Where the first stands.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(self.offset, out);
        let starts = std::iter::once(&self.offset).chain(&self.ends);
        let lengths = self.ends.iter().zip(starts);
        let lengths = lengths.map(|(end, start)| u32::try_from(end - start).unwrap_or(u32::MAX));
        put_u32s(lengths, out);
    }

    fn decode(input: &mut &[u8], n: usize) -> Result<Self, Malformed> {
        let mut blocks = Self::at(varint::get_u64(input)?);
        for length in take_u32s(input, n)? {
            let end = blocks.end().checked_add(u64::from(length));
            let end = end.ok_or_else(|| Malformed::new("a place is outside the file"))?;
            blocks.ends.push(end);
        }
        Ok(blocks)
    }
}

impl TableMeta {
    /// Where the copy of a block of ids is.
    pub(super) fn ids_copy(&self, block: usize) -> Option<(u64, u64)> {
        let copies = self.has_copies.then(|| self.hashes.end())?;
        self.ids.place_in_copy(block, copies)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(u64::from(self.table.0), out);
        varint::put_u64(u64::from(self.series), out);
        self.ids.encode(out);
        put_u32s(self.first_ids.iter().copied(), out);
        varint::put_u64(u64::from(self.last_id), out);
        self.hashes.encode(out);
        put_u32s(self.first_hashes.iter().copied(), out);
        varint::put_u64(self.tags.len() as u64, out);
        for tag in &self.tags {
            varint::put_u64(u64::from(tag.tag.0), out);
            tag.codes.encode(out);
            varint::put_u64(tag.value_ends.len() as u64, out);
            tag.values.encode(out);
            let starts = std::iter::once(&0).chain(&tag.value_ends);
            let values = tag.value_ends.iter().zip(starts);
            put_u32s(values.map(|(end, start)| end - start), out);
            varint::put_u64(u64::from(tag.absent), out);
            varint::put_u64(u64::from(tag.absent_bytes), out);
            for first in &tag.firsts {
                put_text(first, out);
            }
        }
    }

    fn decode(input: &mut &[u8], layout: Layout) -> Result<Self, Malformed> {
        let table = TableId(take_u32(input)?);
        let series = take_u32(input)?;
        let blocks = (series as usize).div_ceil(SERIES_OF_ONE_BLOCK);
        let mut meta = Self {
            table,
            series,
            ids: Blocks::decode(input, blocks)?,
            first_ids: take_u32s(input, blocks)?,
            last_id: take_u32(input)?,
            hashes: Blocks::decode(input, blocks)?,
            first_hashes: take_u32s(input, blocks)?,
            has_copies: layout == Layout::Twice,
            tags: Vec::new(),
        };
        for _ in 0..take_u32(input)? {
            meta.tags.push(TagMeta::decode(input, blocks, layout)?);
        }
        let last = meta.first_ids.last().copied().unwrap_or(u32::MAX);
        let sorted = meta.first_ids.is_sorted_by(|a, b| a < b)
            && last <= meta.last_id
            && meta.first_hashes.is_sorted()
            && meta.tags.is_sorted_by(|a, b| a.tag < b.tag);
        if !sorted {
            return Err(Malformed::new("the footer is out of order"));
        }
        Ok(meta)
    }
}

impl TagMeta {
    /// `blocks`: of series.
    fn decode(input: &mut &[u8], blocks: usize, layout: Layout) -> Result<Self, Malformed> {
        let tag = ColumnId(take_u32(input)?);
        let codes = Blocks::decode(input, blocks)?;
        let n = take_u32(input)? as usize;
        let of_values = match layout {
            Layout::Twice => n.saturating_mul(2),
            Layout::Once => n,
        };
        let values = Blocks::decode(input, of_values)?;
        let mut end = 0u32;
        let mut value_ends = Vec::new();
        for more in take_u32s(input, n)? {
            let sum = end.checked_add(more);
            end = sum
                .filter(|_| more as usize <= VALUES_OF_ONE_BLOCK)
                .ok_or_else(|| Malformed::new("a dictionary is out of order"))?;
            value_ends.push(end);
        }
        let lists = match layout {
            Layout::Twice => None,
            Layout::Once => Some(Blocks::decode(input, n)?),
        };
        let mut meta = Self {
            tag,
            codes,
            values,
            lists,
            value_ends,
            absent: take_u32(input)?,
            absent_bytes: take_u32(input)?,
            firsts: Vec::new(),
        };
        for _ in 0..n {
            meta.firsts.push(take_text(input)?);
        }
        if !meta.firsts.is_sorted_by(|a, b| a < b) {
            return Err(Malformed::new("a dictionary is out of order"));
        }
        Ok(meta)
    }

    /// Number of dictionary blocks.
    pub(super) fn dictionary_blocks(&self) -> usize {
        self.firsts.len()
    }

    /// Where a dictionary block is.
    pub(super) fn dictionary(&self, block: usize) -> Option<(u64, u64)> {
        match self.lists {
            None => self.values.place(block.checked_mul(2)?.checked_add(1)?),
            Some(_) => self.values.place(block),
        }
    }

    /// Where the copy of a dictionary block is, if there is one.
    pub(super) fn dictionary_copy(&self, block: usize) -> Option<(u64, u64)> {
        if self.lists.is_some() || self.dictionary_blocks() > COPIED_BLOCKS_MAX {
            return None;
        }
        let mut at = self.values.end().checked_add(self.absent_bytes.into())?;
        for before in 0..block {
            at = at.checked_add(self.dictionary(before)?.1)?;
        }
        Some((at, self.dictionary(block)?.1))
    }

    /// Where the lists of a dictionary block start.
    pub(super) fn lists_at(&self, block: usize) -> Option<u64> {
        let place = match &self.lists {
            None => self.values.place(block.checked_mul(2)?),
            Some(lists) => lists.place(block),
        };
        place.map(|(offset, _)| offset)
    }

    /// Where the list of the series without the tag stands.
    pub(super) fn absent_at(&self) -> u64 {
        self.lists.as_ref().unwrap_or(&self.values).end()
    }

    /// Number of values.
    pub(super) fn value_count(&self) -> u32 {
        self.value_ends.last().copied().unwrap_or(0)
    }

    /// The dictionary block of a code, counted from 0, and the position in it.
    pub(super) fn place_of(&self, code: u32) -> (usize, usize) {
        let block = self.value_ends.partition_point(|&end| end <= code);
        let before = block.checked_sub(1).and_then(|at| self.value_ends.get(at));
        (block, (code - before.copied().unwrap_or(0)) as usize)
    }

    /// Number of values of a dictionary block, and of all before it.
    pub(super) fn values_of(&self, block: usize) -> (u32, u32) {
        let before = block.checked_sub(1).and_then(|at| self.value_ends.get(at));
        let before = before.copied().unwrap_or(0);
        let end = self.value_ends.get(block).copied().unwrap_or(before);
        (end - before, before)
    }
}

impl Footer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        varint::put_u64(u64::from(self.next_series), &mut out);
        varint::put_u64(self.tables.len() as u64, &mut out);
        for table in &self.tables {
            table.encode(&mut out);
        }
        out
    }

    pub(super) fn decode(mut input: &[u8], layout: Layout) -> Result<Self, Malformed> {
        let input = &mut input;
        let next_series = take_u32(input)?;
        let mut tables = Vec::new();
        for _ in 0..take_u32(input)? {
            tables.push(TableMeta::decode(input, layout)?);
        }
        ended(input)?;
        // It stays in memory as long as the file does, and there may be very many tables.
        tables.shrink_to_fit();
        if !tables.is_sorted_by(|a: &TableMeta, b| a.table < b.table) {
            return Err(Malformed::new("tables are out of order"));
        }
        if tables.iter().any(|table| table.last_id >= next_series) {
            return Err(Malformed::new("a series has an id that nobody was given"));
        }
        Ok(Self {
            next_series,
            tables,
        })
    }

    /// Memory in use, about.
    pub(super) fn bytes(&self) -> usize {
        let blocks = |blocks: &Blocks| blocks.ends.capacity() * size_of::<u64>();
        let tag = |tag: &TagMeta| {
            let firsts = tag.firsts.iter();
            let text: usize = firsts.map(|it| it.capacity() + size_of::<String>()).sum();
            let places = blocks(&tag.codes) + blocks(&tag.values);
            text + places + tag.value_ends.capacity() * 4 + size_of::<TagMeta>()
        };
        let table = |table: &TableMeta| {
            let tags: usize = table.tags.iter().map(tag).sum();
            let firsts = table.first_ids.capacity() + table.first_hashes.capacity();
            let places = blocks(&table.ids) + blocks(&table.hashes);
            tags + places + firsts * 4 + size_of::<TableMeta>()
        };
        self.tables.iter().map(table).sum()
    }
}
