//! Writing a segment: rows of many tables in, one file out.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use nilometer_codec::{
    BLOCK_ROWS_MAX, ColumnRef, PhysicalType, ValuesRef, crc32c, encode_page, varint,
};

use super::directory::{BlockEntry, ColumnChunk, GroupDirectory};
use super::{
    BLOCK_TEXT_BYTES_MAX, GROUP_BLOCKS_MAX, HEADER_BYTES, MAGIC, OWN_BLOCK_ROWS_MIN, SERIES_PAGE,
    TIME_PAGE,
};
use crate::batch::{Column, TableRows, Values};
use crate::disk::{Disk, DiskFile, write_all_at};
use crate::error::{Error, Malformed};
use crate::file_header;
use crate::order::sorted_order;
use crate::schema::{TableId, TableSettings};

/// Bytes gathered before a write call.
const WRITE_BYTES: usize = 1 << 20;

/// One group as the footer lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupMeta {
    pub(crate) table: TableId,
    pub(crate) partition_start: i64,
    pub(crate) first_series: u32,
    pub(crate) last_series: u32,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
    pub(crate) rows: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) crc: u32,
}

impl GroupMeta {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(u64::from(self.table.0), out);
        varint::put_i64(self.partition_start, out);
        varint::put_u64(u64::from(self.first_series), out);
        varint::put_u64(u64::from(self.last_series), out);
        varint::put_i64(self.min_time, out);
        varint::put_i64(self.max_time, out);
        varint::put_u64(self.rows, out);
        varint::put_u64(self.offset, out);
        varint::put_u64(u64::from(self.length), out);
        out.extend_from_slice(&self.crc.to_le_bytes());
    }
}

/// Rows of one table for a segment, in arrival order, and what they follow.
pub(crate) struct TableInput {
    pub(crate) rows: TableRows,
    pub(crate) settings: TableSettings,
}

/// Which source row gives each output row of a column.
struct Picks {
    /// For series and time, and for columns without an own list.
    rows: Vec<u32>,
    /// By column, where duplicates were merged: the newest row that has a value.
    by_column: Option<Vec<Vec<u32>>>,
}

impl Picks {
    fn of(&self, column: usize) -> &[u32] {
        match &self.by_column {
            Some(lists) => lists.get(column).map(Vec::as_slice).unwrap_or_default(),
            None => &self.rows,
        }
    }
}

/// A file being written front to back.
struct Output {
    file: Arc<dyn DiskFile>,
    buffer: Vec<u8>,
    /// Bytes that are written; the position is this plus the buffer.
    written: u64,
}

impl Output {
    fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn spill(&mut self, path: &Path, least: usize) -> Result<(), Error> {
        if self.buffer.len() >= least {
            write_all_at(self.file.as_ref(), &self.buffer, self.written)
                .map_err(Error::io("write", path))?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// Writes a segment and syncs it if `sync`; the folder's names are the caller's to sync.
pub(crate) fn write_segment(
    disk: &dyn Disk,
    path: &Path,
    uuid: [u8; 16],
    file_id: u64,
    tables: &[TableInput],
    sync: bool,
) -> Result<(u64, u64), Error> {
    let file = disk.create(path).map_err(Error::io("create", path))?;
    let mut output = Output {
        file,
        buffer: file_header::encode(MAGIC, uuid, &file_id.to_le_bytes(), HEADER_BYTES),
        written: 0,
    };
    let mut groups = Vec::new();
    for table in tables {
        write_table(table, path, &mut output, &mut groups)?;
    }
    let footer_offset = output.position();
    let mut footer = Vec::new();
    varint::put_u64(groups.len() as u64, &mut footer);
    for group in &groups {
        group.encode(&mut footer);
    }
    output.buffer.extend_from_slice(&footer);
    let tail_start = output.buffer.len();
    output.buffer.extend_from_slice(&file_id.to_le_bytes());
    output
        .buffer
        .extend_from_slice(&footer_offset.to_le_bytes());
    output
        .buffer
        .extend_from_slice(&(footer.len() as u64).to_le_bytes());
    output
        .buffer
        .extend_from_slice(&crc32c(0, &footer).to_le_bytes());
    let crc = crc32c(0, output.buffer.get(tail_start..).unwrap_or_default());
    output.buffer.extend_from_slice(&crc.to_le_bytes());
    output.buffer.extend_from_slice(&MAGIC);
    output.spill(path, 0)?;
    if sync {
        output.file.sync().map_err(Error::io("sync", path))?;
    }
    Ok((output.written, groups.iter().map(|group| group.rows).sum()))
}

fn write_table(
    input: &TableInput,
    path: &Path,
    output: &mut Output,
    groups: &mut Vec<GroupMeta>,
) -> Result<(), Error> {
    let rows = &input.rows;
    let picks = merge_duplicates(rows, sorted_order(&rows.series, &rows.times));
    let interval = input.settings.partition_interval_ns.max(1);
    let mut partitions: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for (at, &row) in (0u32..).zip(&picks.rows) {
        let time = rows.times.get(row as usize).copied().unwrap_or(0);
        partitions
            .entry(time.div_euclid(interval))
            .or_default()
            .push(at);
    }
    for (partition, members) in partitions {
        let start = partition.saturating_mul(interval);
        let sorted = Sorted {
            rows,
            picks: &picks,
            members: &members,
        };
        let blocks = sorted.block_ranges();
        for chunk in blocks.chunks(GROUP_BLOCKS_MAX) {
            groups.push(sorted.write_group(chunk, start, path, output)?);
            output.spill(path, WRITE_BYTES)?;
        }
    }
    Ok(())
}

/// Rows with equal series and time become one: per field the newest value wins, null never overwrites.
fn merge_duplicates(rows: &TableRows, order: Vec<u32>) -> Picks {
    let key = |row: u32| {
        let row = row as usize;
        (rows.series.get(row).copied(), rows.times.get(row).copied())
    };
    if order.windows(2).all(|pair| match pair {
        [a, b] => key(*a) != key(*b),
        _ => true,
    }) {
        return Picks {
            rows: order,
            by_column: None,
        };
    }
    let mut last = Vec::new();
    let mut by_column = vec![Vec::new(); rows.columns.len()];
    for same in order.chunk_by(|a, b| key(*a) == key(*b)) {
        let Some(&newest) = same.last() else { continue };
        last.push(newest);
        for (column, list) in rows.columns.iter().zip(&mut by_column) {
            let with_value = same
                .iter()
                .rev()
                .find(|row| column.validity.is_valid(**row as usize));
            list.push(with_value.copied().unwrap_or(newest));
        }
    }
    Picks {
        rows: last,
        by_column: Some(by_column),
    }
}

/// Rows of one partition in their final order: `members` are positions in `picks`.
struct Sorted<'a> {
    rows: &'a TableRows,
    picks: &'a Picks,
    members: &'a [u32],
}

impl Sorted<'_> {
    fn source_row(&self, member: u32) -> usize {
        self.picks.rows.get(member as usize).copied().unwrap_or(0) as usize
    }

    fn series(&self, member: u32) -> u32 {
        let row = self.source_row(member);
        self.rows.series.get(row).copied().unwrap_or(0)
    }

    fn time(&self, member: u32) -> i64 {
        let row = self.source_row(member);
        self.rows.times.get(row).copied().unwrap_or(0)
    }

    /// Ranges of `members`, one a block: series with enough rows have blocks of their own, neighbours with fewer
    /// share them.
    fn block_ranges(&self) -> Vec<Range<usize>> {
        let mut blocks: Vec<Range<usize>> = Vec::new();
        let mut shared: Option<Range<usize>> = None;
        let mut start = 0;
        for run in self
            .members
            .chunk_by(|a, b| self.series(*a) == self.series(*b))
        {
            let end = start + run.len();
            if run.len() >= OWN_BLOCK_ROWS_MIN {
                blocks.extend(shared.take());
                let own = (start..end).step_by(BLOCK_ROWS_MAX);
                blocks.extend(own.map(|at| at..(at + BLOCK_ROWS_MAX).min(end)));
            } else if let Some(open) = shared
                .as_mut()
                .filter(|open| end - open.start <= BLOCK_ROWS_MAX)
            {
                open.end = end;
            } else {
                blocks.extend(shared.replace(start..end));
            }
            start = end;
        }
        blocks.extend(shared);
        blocks
            .into_iter()
            .flat_map(|block| self.split_text(block))
            .collect()
    }

    /// Halves a block until its text fits, or one row is left.
    fn split_text(&self, block: Range<usize>) -> Vec<Range<usize>> {
        let too_long = block.len() > 1
            && self.rows.columns.iter().enumerate().any(|(at, column)| {
                let (Values::Text(strings) | Values::Bytes(strings)) = &column.values else {
                    return false;
                };
                let members = self.members.get(block.clone()).unwrap_or_default();
                let picks = self.picks.of(at);
                let bytes: usize = members
                    .iter()
                    .filter_map(|&member| picks.get(member as usize))
                    .map(|&row| strings.get(row as usize).len())
                    .sum();
                bytes > BLOCK_TEXT_BYTES_MAX
            });
        if !too_long {
            return vec![block];
        }
        let middle = block.start + block.len() / 2;
        let mut parts = self.split_text(block.start..middle);
        parts.extend(self.split_text(middle..block.end));
        parts
    }

    fn write_group(
        &self,
        blocks: &[Range<usize>],
        partition_start: i64,
        path: &Path,
        output: &mut Output,
    ) -> Result<GroupMeta, Error> {
        let entries: Vec<BlockEntry> = blocks.iter().map(|block| self.entry(block)).collect();
        let mut chunks = vec![
            self.write_series_chunk(blocks, &entries, output),
            self.write_time_chunk(blocks, output),
        ];
        for (at, column) in self.rows.columns.iter().enumerate() {
            chunks.push(self.write_field_chunk(blocks, at, column, output));
        }
        let chunks = chunks
            .into_iter()
            .collect::<Result<Vec<_>, Malformed>>()
            .map_err(|what| what.at(path, output.position()))?;
        let directory = GroupDirectory {
            table: self.rows.table,
            blocks: entries,
            chunks: chunks
                .into_iter()
                .filter(|chunk| chunk.lengths.iter().any(|&n| n > 0))
                .collect(),
        };
        let mut bytes = Vec::new();
        directory.encode(&mut bytes);
        let offset = output.position();
        output.buffer.extend_from_slice(&bytes);
        let blocks = &directory.blocks;
        Ok(GroupMeta {
            table: self.rows.table,
            partition_start,
            first_series: blocks.iter().map(|b| b.first_series).min().unwrap_or(0),
            last_series: blocks.iter().map(|b| b.last_series).max().unwrap_or(0),
            min_time: blocks.iter().map(|b| b.min_time).min().unwrap_or(0),
            max_time: blocks.iter().map(|b| b.max_time).max().unwrap_or(0),
            rows: blocks.iter().map(|b| u64::from(b.rows)).sum(),
            offset,
            length: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            crc: crc32c(0, &bytes),
        })
    }

    fn members_of(&self, block: &Range<usize>) -> &[u32] {
        self.members.get(block.clone()).unwrap_or_default()
    }

    fn entry(&self, block: &Range<usize>) -> BlockEntry {
        let members = self.members_of(block);
        let times = || members.iter().map(|&member| self.time(member));
        BlockEntry {
            first_series: members.first().map_or(0, |&member| self.series(member)),
            last_series: members.last().map_or(0, |&member| self.series(member)),
            rows: u32::try_from(members.len()).unwrap_or(u32::MAX),
            min_time: times().min().unwrap_or(0),
            max_time: times().max().unwrap_or(0),
        }
    }

    fn write_series_chunk(
        &self,
        blocks: &[Range<usize>],
        entries: &[BlockEntry],
        output: &mut Output,
    ) -> Result<ColumnChunk, Malformed> {
        let mut chunk = new_chunk(SERIES_PAGE, PhysicalType::I64, output);
        let mut numbers = Vec::new();
        for (block, entry) in blocks.iter().zip(entries) {
            if entry.first_series == entry.last_series {
                chunk.lengths.push(0);
                continue;
            }
            numbers.clear();
            let members = self.members_of(block);
            numbers.extend(members.iter().map(|&member| i64::from(self.series(member))));
            put_page(dense(&numbers), &mut chunk, output)?;
        }
        Ok(chunk)
    }

    fn write_time_chunk(
        &self,
        blocks: &[Range<usize>],
        output: &mut Output,
    ) -> Result<ColumnChunk, Malformed> {
        let mut chunk = new_chunk(TIME_PAGE, PhysicalType::I64, output);
        let mut numbers = Vec::new();
        for block in blocks {
            numbers.clear();
            let members = self.members_of(block);
            numbers.extend(members.iter().map(|&member| self.time(member)));
            put_page(dense(&numbers), &mut chunk, output)?;
        }
        Ok(chunk)
    }

    fn write_field_chunk(
        &self,
        blocks: &[Range<usize>],
        at: usize,
        column: &Column,
        output: &mut Output,
    ) -> Result<ColumnChunk, Malformed> {
        let mut chunk = new_chunk(column.id.0, column.values.kind(), output);
        let picks = self.picks.of(at);
        let mut rows = Vec::new();
        let mut gathered = Column::new(column.id, column.values.kind());
        let mut bitmap = Vec::new();
        for block in blocks {
            rows.clear();
            let members = self.members_of(block);
            rows.extend(
                members
                    .iter()
                    .filter_map(|&member| picks.get(member as usize)),
            );
            gathered.truncate(0);
            gathered.extend_picked(column, &rows);
            if gathered.validity.nulls() == rows.len() {
                chunk.lengths.push(0);
                continue;
            }
            put_page(
                gathered.slice(0..rows.len(), &mut bitmap),
                &mut chunk,
                output,
            )?;
        }
        Ok(chunk)
    }
}

fn dense(numbers: &[i64]) -> ColumnRef<'_> {
    ColumnRef {
        values: ValuesRef::I64(numbers),
        validity: None,
    }
}

fn new_chunk(column: u32, kind: PhysicalType, output: &Output) -> ColumnChunk {
    ColumnChunk {
        column,
        kind,
        offset: output.position(),
        lengths: Vec::new(),
    }
}

/// Appends a page and its checksum.
fn put_page(
    column: ColumnRef<'_>,
    chunk: &mut ColumnChunk,
    output: &mut Output,
) -> Result<(), Malformed> {
    let start = output.buffer.len();
    encode_page(column, &mut output.buffer)?;
    let crc = crc32c(0, output.buffer.get(start..).unwrap_or_default());
    output.buffer.extend_from_slice(&crc.to_le_bytes());
    let length = output.buffer.len() - start;
    chunk
        .lengths
        .push(u32::try_from(length).map_err(|_| Malformed::new("page of 4 GiB"))?);
    Ok(())
}
