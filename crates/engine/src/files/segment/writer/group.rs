//! Writing one group: pages column by column and block by block, then the directory.

use std::ops::Range;

use nilometer_codec::{
    ColdColumn, ColumnBuf, ColumnRef, Encoding, Page, PageSet, PhysicalType, ValuesRef,
    encode_cold_column, encode_page_of, shorten_page,
};

use super::known::Known;
use super::large::{self, Large};
use super::table::Picks;
use super::{Output, SegmentWriter, WRITE_BYTES};
use crate::batch::{Column, TableRows, Values};
use crate::error::{Error, Malformed};
use crate::schema::{ColumnId, TableId};
use crate::segment::checksum::{Checksums, SegmentFormat};
use crate::segment::directory::{BlockEntry, ColumnChunk, GroupDirectory, Shared};
use crate::segment::footer::{GroupMeta, Part, Tier};
use crate::segment::{BLOCK_LARGE_BYTES_MAX, BLOCK_TEXT_BYTES_MAX, SERIES_PAGE, TIME_PAGE};

/// Blocks of one partition of one table.
#[derive(Debug)]
pub(crate) struct GroupInput<'a> {
    pub(crate) table: TableId,
    /// First time of the partition's window.
    pub(crate) partition_start: i64,
    /// What the blocks of rows are ranges of, ordered by (series, time), duplicates merged.
    pub(crate) rows: &'a TableRows,
    /// In the order of (series, time).
    pub(crate) blocks: &'a [BlockInput<'a>],
    /// Whether to keep sums of hours.
    pub(crate) rollups: bool,
}

/// A block, however it comes.
#[derive(Debug)]
pub(crate) enum BlockInput<'a> {
    /// Rows of the group's `rows`.
    Rows(Range<usize>),
    /// Pages that stay as they are.
    Copied(&'a CopiedBlock),
}

/// A block of another segment.
#[derive(Debug)]
pub(crate) struct CopiedBlock {
    pub(crate) entry: BlockEntry,
    pub(crate) pages: Vec<CopiedPage>,
}

/// A page that was checked and is written as it is.
#[derive(Debug)]
pub(crate) struct CopiedPage {
    /// A field's id, `TIME_PAGE` or `SERIES_PAGE`.
    pub(crate) column: u32,
    pub(crate) kind: PhysicalType,
    /// The page, without its checksum.
    pub(crate) bytes: Vec<u8>,
}

/// Rows in the order in which blocks take them.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) rows: &'a TableRows,
    /// Which rows, and of each column which row's value; `None` = all as they stand.
    picked: Option<(&'a Picks, &'a [u32])>,
}

/// Room that one block after the other is gathered in.
#[derive(Debug)]
struct Scratch {
    picked: Vec<u32>,
    column: Column,
    numbers: Vec<i64>,
    bitmap: Vec<u8>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            picked: Vec::new(),
            column: Column::new(ColumnId(0), PhysicalType::I64),
            numbers: Vec::new(),
            bitmap: Vec::new(),
        }
    }
}

impl<'a> View<'a> {
    pub(super) fn whole(rows: &'a TableRows) -> Self {
        Self { rows, picked: None }
    }

    /// `members` are positions in `picks`.
    pub(super) fn picked(rows: &'a TableRows, picks: &'a Picks, members: &'a [u32]) -> Self {
        Self {
            rows,
            picked: Some((picks, members)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.picked
            .map_or(self.rows.rows(), |(_, members)| members.len())
    }

    fn row(&self, at: usize) -> usize {
        let Some((picks, members)) = self.picked else {
            return at;
        };
        let pick = members.get(at).and_then(|&at| picks.rows.get(at as usize));
        pick.map_or(usize::MAX, |&row| row as usize)
    }

    pub(super) fn series(&self, at: usize) -> u32 {
        self.rows.series.get(self.row(at)).copied().unwrap_or(0)
    }

    pub(super) fn time(&self, at: usize) -> i64 {
        self.rows.times.get(self.row(at)).copied().unwrap_or(0)
    }

    /// The rows of the batch that give a column its values.
    fn sources(&self, column: usize, block: &Range<usize>) -> impl Iterator<Item = u32> {
        let plain = self.picked.is_none().then(|| block.clone());
        let picked = self.picked.map(|(picks, members)| {
            let list = picks.of(column);
            let members = members.get(block.clone()).unwrap_or_default();
            members
                .iter()
                .filter_map(|&at| list.get(at as usize).copied())
        });
        let plain = plain.into_iter().flatten();
        plain
            .filter_map(|row| u32::try_from(row).ok())
            .chain(picked.into_iter().flatten())
    }

    /// Memory that a block's rows take decoded, and whether the text of each of its columns fits a block.
    pub(super) fn sizes(&self, block: &Range<usize>, format: SegmentFormat) -> (usize, bool) {
        let (mut all, mut fits) = (block.len() * 12, true);
        for (at, column) in self.rows.columns.iter().enumerate() {
            match &column.values {
                Values::Text(strings) | Values::Bytes(strings) => {
                    let lengths = self.sources(at, block);
                    let lengths = lengths.map(|row| strings.get(row as usize).len());
                    let (mut text, mut in_pages) = (0, 0);
                    for bytes in lengths {
                        text += bytes;
                        in_pages += match format {
                            SegmentFormat::First => bytes,
                            _ => large::in_page(bytes),
                        };
                    }
                    fits &= in_pages <= BLOCK_TEXT_BYTES_MAX && text <= BLOCK_LARGE_BYTES_MAX;
                    all += text + block.len() * 4;
                }
                Values::Bool(_) => all += block.len(),
                Values::I64(_) | Values::U64(_) | Values::F64(_) => all += block.len() * 8,
            }
        }
        (all, fits)
    }

    fn times<'s>(&'s self, block: &Range<usize>, scratch: &'s mut Scratch) -> ColumnRef<'s> {
        scratch.numbers.clear();
        scratch
            .numbers
            .extend(block.clone().map(|at| self.time(at)));
        dense(&scratch.numbers)
    }

    fn series_ids<'s>(&'s self, block: &Range<usize>, scratch: &'s mut Scratch) -> ColumnRef<'s> {
        scratch.numbers.clear();
        let ids = block.clone().map(|at| i64::from(self.series(at)));
        scratch.numbers.extend(ids);
        dense(&scratch.numbers)
    }

    /// A block of a field; `None` = null in every row.
    fn field<'s>(
        &'s self,
        column: usize,
        block: &Range<usize>,
        scratch: &'s mut Scratch,
    ) -> Option<ColumnRef<'s>> {
        if self.picked.is_none() {
            return whole_field(self.rows, column, block, &mut scratch.bitmap);
        }
        let own = self.rows.columns.get(column)?;
        scratch.picked.clear();
        scratch.picked.extend(self.sources(column, block));
        let kind = own.values.kind();
        if scratch.column.id != own.id || scratch.column.values.kind() != kind {
            scratch.column = Column::new(own.id, kind);
        }
        scratch.column.truncate(0);
        scratch.column.extend_picked(own, &scratch.picked);
        let rows = scratch.picked.len();
        if scratch.column.validity.nulls() == rows {
            return None;
        }
        Some(scratch.column.slice(0..rows, &mut scratch.bitmap))
    }

    fn entry(&self, block: &Range<usize>) -> BlockEntry {
        let times = || block.clone().map(|at| self.time(at));
        BlockEntry {
            first_series: self.series(block.start),
            last_series: self.series(block.end.saturating_sub(1)),
            rows: u32::try_from(block.len()).unwrap_or(u32::MAX),
            min_time: times().min().unwrap_or(0),
            max_time: times().max().unwrap_or(0),
        }
    }
}

/// A block of a field of rows as they stand; `None` = null in every row.
fn whole_field<'s>(
    rows: &'s TableRows,
    column: usize,
    block: &Range<usize>,
    bitmap: &'s mut Vec<u8>,
) -> Option<ColumnRef<'s>> {
    let own = rows.columns.get(column)?;
    let nulls = &own.validity;
    let is_null = nulls.nulls() > 0 && !block.clone().any(|row| nulls.is_valid(row));
    (!is_null).then(|| own.slice(block.clone(), bitmap))
}

/// Whether values are times that a block's entry says, and so need no page.
fn is_even(column: u32, entry: &BlockEntry, values: ColumnRef<'_>) -> bool {
    match values.values {
        ValuesRef::I64(times) if column == TIME_PAGE => entry.has_even(times),
        _ => false,
    }
}

fn dense(numbers: &[i64]) -> ColumnRef<'_> {
    ColumnRef {
        values: ValuesRef::I64(numbers),
        validity: None,
    }
}

/// A column of a group: what the directory calls it, its type, and where rows have it.
type ColumnPlace = (u32, PhysicalType, Option<usize>);

/// Columns of the rows, then those that only copied blocks have.
fn columns_of(view: &View<'_>, blocks: &[BlockInput<'_>]) -> Vec<ColumnPlace> {
    let mut columns = vec![
        (SERIES_PAGE, PhysicalType::I64, None),
        (TIME_PAGE, PhysicalType::I64, None),
    ];
    for (at, column) in view.rows.columns.iter().enumerate() {
        columns.push((column.id.0, column.values.kind(), Some(at)));
    }
    for block in blocks {
        let BlockInput::Copied(copied) = block else {
            continue;
        };
        for page in &copied.pages {
            let is_known = columns
                .iter()
                .any(|(column, kind, _)| (*column, *kind) == (page.column, page.kind));
            if !is_known {
                columns.push((page.column, page.kind, None));
            }
        }
    }
    columns
}

impl SegmentWriter {
    /// Writes up to `GROUP_BLOCKS_MAX` blocks, which may be fewer than the group has.
    pub(super) fn put_group(
        &mut self,
        group: &GroupInput<'_>,
        view: &View<'_>,
        blocks: &[BlockInput<'_>],
    ) -> Result<(), Error> {
        let offset = self.output.position();
        let mut pages = Pages {
            view,
            blocks,
            scratch: Scratch::default(),
            known: Known::new(blocks.len(), group.rollups, self.format),
            checksums: self.checksums,
            set: match self.format {
                SegmentFormat::First => PageSet::First,
                SegmentFormat::Second => PageSet::Second,
                SegmentFormat::Third => PageSet::Third,
                SegmentFormat::Fourth | SegmentFormat::Fifth => PageSet::Fourth,
            },
            is_third: self.format >= SegmentFormat::Third,
            cold: ColdColumn::default(),
            large: Large::new(self.format, offset),
        };
        let entries = blocks.iter().map(|block| match block {
            BlockInput::Rows(range) => view.entry(range),
            BlockInput::Copied(copied) => copied.entry,
        });
        let mut directory = GroupDirectory {
            table: group.table,
            blocks: entries.collect(),
            clocks: Vec::new(),
            units: Vec::new(),
            device_series: Vec::new(),
            chunks: Vec::new(),
            large: Vec::new(),
            first_page: offset,
        };
        for column in columns_of(view, blocks) {
            let is_text = matches!(column.1, PhysicalType::Text | PhysicalType::Bytes);
            // Nothing shrinks text further.
            let chunk = if self.footer.tier == Tier::Hot || is_text {
                pages.put_chunk(column, &directory.blocks, &mut self.output)
            } else {
                pages.put_cold_chunk(column, &directory.blocks, &mut self.output)
            };
            let chunk = chunk.map_err(|what| what.at(&self.path, self.output.position()))?;
            if chunk.lengths.iter().any(|&n| n > 0) {
                directory.chunks.push(chunk);
            }
            self.output.spill(&self.path, WRITE_BYTES)?;
        }
        let pages_end = self.output.position();
        let mut bytes = Vec::new();
        directory.encode(self.format, &mut bytes);
        let directory_part = self.put_part(&bytes)?;
        let has_duplicates = pages.known.has_duplicates();
        let (statistics, rollups) = self.put_known(pages.known)?;
        bytes.clear();
        pages.large.encode(&mut bytes);
        let large = self.put_part(&bytes)?;
        let blocks = &directory.blocks;
        self.footer.groups.push(GroupMeta {
            table: group.table,
            partition_start: group.partition_start,
            first_series: blocks.iter().map(|b| b.first_series).min().unwrap_or(0),
            last_series: blocks.iter().map(|b| b.last_series).max().unwrap_or(0),
            min_time: blocks.iter().map(|b| b.min_time).min().unwrap_or(0),
            max_time: blocks.iter().map(|b| b.max_time).max().unwrap_or(0),
            rows: blocks.iter().map(|b| u64::from(b.rows)).sum(),
            has_duplicates,
            offset,
            pages: pages_end - offset,
            directory: directory_part,
            statistics,
            rollups,
            large,
        });
        self.output.spill(&self.path, WRITE_BYTES)
    }

    /// Writes the statistics of a group and its rollups, as far as there are any.
    pub(super) fn put_known(&mut self, known: Known) -> Result<(Part, Part), Error> {
        let (statistics, rollups) = known.finish();
        let mut bytes = Vec::new();
        if let Some(statistics) = &statistics {
            statistics.encode(&mut bytes);
        }
        let statistics = self.put_part(&bytes)?;
        bytes.clear();
        if let Some(rollups) = &rollups {
            rollups.encode(&mut bytes);
        }
        Ok((statistics, self.put_part(&bytes)?))
    }

    pub(super) fn put_part(&mut self, bytes: &[u8]) -> Result<Part, Error> {
        let offset = self.output.position();
        let part = Part::of(self.checksums, offset, bytes);
        self.output.buffer.extend_from_slice(bytes);
        part.map_err(|what| what.at(&self.path, offset))
    }
}

/// The pages of a group while they are written.
struct Pages<'a> {
    view: &'a View<'a>,
    blocks: &'a [BlockInput<'a>],
    scratch: Scratch,
    known: Known,
    checksums: Checksums,
    set: PageSet,
    /// Pages stand in short, and even times have none.
    is_third: bool,
    cold: ColdColumn,
    large: Large,
}

impl Pages<'_> {
    /// Writes the pages of one column.
    fn put_chunk(
        &mut self,
        (column, kind, at): ColumnPlace,
        entries: &[BlockEntry],
        output: &mut Output,
    ) -> Result<ColumnChunk, Malformed> {
        let mut chunk = ColumnChunk::new(column, kind, output.position());
        for (index, (block, entry)) in self.blocks.iter().zip(entries).enumerate() {
            let (start, offset) = (output.buffer.len(), output.position());
            match block {
                BlockInput::Copied(copied) => {
                    let mut pages = copied.pages.iter();
                    let page = pages.find(|page| (page.column, page.kind) == (column, kind));
                    let page = page.map(|page| page.bytes.as_slice());
                    self.copy_page((column, index, entry), page, &mut output.buffer)?;
                }
                BlockInput::Rows(range) => {
                    let scratch = &mut self.scratch;
                    let values = match column {
                        SERIES_PAGE if entry.is_shared() => {
                            Some(self.view.series_ids(range, scratch))
                        }
                        SERIES_PAGE => None,
                        TIME_PAGE => Some(self.view.times(range, scratch)),
                        _ => at.and_then(|at| self.view.field(at, range, scratch)),
                    };
                    if let Some(values) = values {
                        if !(self.is_third && is_even(column, entry, values)) {
                            let page = self.large.page_of(column, index, values)?;
                            encode_page_of(page, self.set, &mut output.buffer)?;
                            if self.is_third {
                                shorten_page(&mut output.buffer, start)?;
                            }
                        }
                        self.known.observe(column, index, entry, values);
                    }
                }
            }
            chunk.lengths.push(self.end_page((start, offset), output)?);
        }
        self.known.end_column(column, kind);
        self.large.put(self.checksums, output);
        Ok(chunk)
    }

    /// Appends a page of another segment, or what stands for it in this format; `None` = the block has none there.
    fn copy_page(
        &mut self,
        (column, block, entry): (u32, usize, &BlockEntry),
        page: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let Some(bytes) = page else {
            let mut times = ColumnBuf::default();
            if column == TIME_PAGE && entry.fill_even(&mut times) {
                let times = times.as_column();
                if !self.is_third {
                    encode_page_of(times, self.set, out)?;
                }
                self.known.observe(column, block, entry, times);
            }
            return Ok(());
        };
        let page = Page::new(bytes)?;
        let may_be_even = matches!(
            page.header().encoding,
            Encoding::Constant | Encoding::Stride
        );
        if !self.is_third {
            out.extend_from_slice(bytes);
        } else if column == TIME_PAGE && may_be_even {
            let mut times = ColumnBuf::default();
            page.decode(None, &mut times)?;
            if !is_even(column, entry, times.as_column()) {
                page.put_short(out);
            }
        } else {
            page.put_short(out);
        }
        self.known.observe_page(column, block, entry, bytes)
    }

    /// Writes the pages of one column for few bytes, all together. No block may be one of copied pages.
    fn put_cold_chunk(
        &mut self,
        (column, kind, at): ColumnPlace,
        entries: &[BlockEntry],
        output: &mut Output,
    ) -> Result<ColumnChunk, Malformed> {
        let rows = self.view.rows;
        let series: Vec<i64> = match column {
            SERIES_PAGE => rows.series.iter().map(|&id| i64::from(id)).collect(),
            _ => Vec::new(),
        };
        let mut bitmaps = vec![Vec::new(); self.blocks.len()];
        let mut values: Vec<Option<ColumnRef<'_>>> = Vec::with_capacity(self.blocks.len());
        for ((block, entry), bitmap) in self.blocks.iter().zip(entries).zip(&mut bitmaps) {
            let BlockInput::Rows(range) = block else {
                return Err(Malformed::new("a copied block in the cold tier"));
            };
            let part = |numbers| <[i64]>::get(numbers, range.clone()).unwrap_or_default();
            values.push(match column {
                SERIES_PAGE if entry.is_shared() => Some(dense(part(&series))),
                SERIES_PAGE => None,
                TIME_PAGE => Some(dense(part(&rows.times))),
                _ => at.and_then(|at| whole_field(rows, at, range, bitmap)),
            });
        }
        let is_written = |values: Option<ColumnRef<'_>>, entry: &BlockEntry| {
            values.is_some_and(|values| !(self.is_third && is_even(column, entry, values)))
        };
        let written: Vec<bool> = values
            .iter()
            .zip(entries)
            .map(|(values, entry)| is_written(*values, entry))
            .collect();
        let present = values.iter().zip(&written);
        let present = present.filter_map(|(values, is_written)| values.filter(|_| *is_written));
        let present: Vec<ColumnRef<'_>> = present.collect();
        encode_cold_column(&present, self.set, &mut self.cold)?;
        let mut chunk = ColumnChunk::new(column, kind, output.position());
        chunk.shared = Shared::new(&self.cold.header);
        let mut next = 0;
        let blocks = values.iter().zip(written).zip(entries);
        for (index, ((values, is_written), entry)) in blocks.enumerate() {
            let place = (output.buffer.len(), output.position());
            if is_written {
                let page = self.cold.page(next);
                next += 1;
                if self.is_third {
                    Page::new(page)?.put_short(&mut output.buffer);
                } else {
                    output.buffer.extend_from_slice(page);
                }
            }
            if let Some(values) = *values {
                self.known.observe(column, index, entry, values);
            }
            chunk.lengths.push(self.end_page(place, output)?);
        }
        self.known.end_column(column, kind);
        Ok(chunk)
    }

    /// Appends the checksum of a page, if there is one from here on, and returns the bytes of both.
    fn end_page(
        &self,
        (start, offset): (usize, u64),
        output: &mut Output,
    ) -> Result<u32, Malformed> {
        let page = output.buffer.get(start..).unwrap_or_default();
        if page.is_empty() {
            return Ok(0);
        }
        let crc = self.checksums.of(offset, page);
        output.buffer.extend_from_slice(&crc.to_le_bytes());
        let length = u32::try_from(output.buffer.len() - start);
        length.map_err(|_| Malformed::new("page of 4 GiB"))
    }
}
