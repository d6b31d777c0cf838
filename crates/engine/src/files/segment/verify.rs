//! Reading all of a segment for the sake of its checksums.
//!
//! Does: check and decode every group's directory, statistics, rollups and pages, as far as a bound lets it, and go on
//! where it stopped; pages that are next to each other are read at once. Does not: compare values with statistics, look at
//! other files, or leave anything in the cache if the segment was opened alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nilometer_codec::ColumnBuf;

use super::directory::{ColumnChunk, GroupDirectory};
use super::{SERIES_PAGE, Segment, TIME_PAGE};
use crate::batch::Values;
use crate::error::Error;
use crate::schema::TableId;

/// Pages that are read at once.
const SPAN_BYTES: u64 = 128 << 10;

/// How far a segment was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SegmentPlace {
    pub(crate) group: u64,
    /// Pages of the group before this, counted column by column; 0 = not even its directory was read.
    pub(crate) page: u64,
}

/// What one call has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PartRead {
    pub(crate) bytes: u64,
    pub(crate) pages: u64,
    /// Nothing is left to read.
    pub(crate) is_end: bool,
}

/// Is told what is damaged, and may end the reading.
pub(crate) type Tell<'a> = &'a mut dyn FnMut(Error) -> Result<(), Error>;

impl Segment {
    /// An error = the first part or page that fails its checksum or does not decode, with its place.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        let mut place = SegmentPlace::default();
        self.verify_some(&mut place, u64::MAX, &mut Err).map(drop)
    }

    /// Reads on from a place, about so many bytes, and tells of each part and page that is damaged.
    pub(crate) fn verify_some(
        &self,
        place: &mut SegmentPlace,
        bytes_max: u64,
        tell: Tell<'_>,
    ) -> Result<PartRead, Error> {
        let mut read = PartRead::default();
        let mut page = ColumnBuf::default();
        let groups = self.all_groups().count() as u64;
        while place.group < groups && read.bytes < bytes_max {
            let group = usize::try_from(place.group).unwrap_or(usize::MAX);
            let Some(directory) = self.verify_parts(group, place, &mut read, tell)? else {
                *place = next_group(place);
                continue;
            };
            while read.bytes < bytes_max {
                let Some(span) = Span::at(&directory, place.page) else {
                    *place = next_group(place);
                    break;
                };
                place.page = span.end;
                self.verify_pages(&span, &mut page, &mut read, tell)?;
            }
        }
        read.is_end = place.group >= groups;
        Ok(read)
    }

    /// The directory of a group; its other parts too if nothing of the group was read before. `None` = it is damaged.
    fn verify_parts(
        &self,
        group: usize,
        place: &SegmentPlace,
        read: &mut PartRead,
        tell: Tell<'_>,
    ) -> Result<Option<Arc<GroupDirectory>>, Error> {
        if place.page == 0 {
            let meta = self.group(group)?;
            let parts = [meta.directory, meta.statistics, meta.rollups];
            read.bytes += parts.iter().map(|part| u64::from(part.length)).sum::<u64>();
            let statistics = self.statistics(group).map(drop);
            let rollups = self.rollups(group).map(drop);
            for part in [statistics, rollups] {
                part.or_else(&mut *tell)?;
            }
        }
        match self.directory(group) {
            Ok(directory) => {
                let large = directory.large.iter().filter(|_| place.page == 0);
                for value in large {
                    read.bytes += u64::from(value.stored);
                    let mut whole = Vec::new();
                    let found = self.read_large(&directory, value, &mut whole);
                    found.or_else(&mut *tell)?;
                }
                Ok(Some(directory))
            }
            // It was told of when it was read first.
            Err(_) if place.page > 0 => Ok(None),
            Err(error) => tell(error).map(|()| None),
        }
    }

    fn verify_pages(
        &self,
        span: &Span<'_>,
        page: &mut ColumnBuf,
        read: &mut PartRead,
        tell: Tell<'_>,
    ) -> Result<(), Error> {
        let (start, length) = (span.offset, span.bytes);
        read.bytes += length;
        let bytes = match self.read_span(start, length) {
            Ok(bytes) => bytes,
            Err(error) => return tell(error),
        };
        for block in span.blocks.clone() {
            let Some((offset, length)) = span.chunk.page(block) else {
                continue;
            };
            read.pages += 1;
            let at = usize::try_from(offset - start).unwrap_or(usize::MAX);
            let own = bytes.get(at..at.saturating_add(length as usize));
            let own = own.unwrap_or_default();
            let decoded = self.decode_page(span.chunk, span.rows(block), own, offset, page);
            decoded.or_else(&mut *tell)?;
        }
        Ok(())
    }
}

/// What of a segment does not read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Broken {
    /// Where that begins, and why.
    pub(crate) offset: u64,
    pub(crate) reason: String,
    /// Groups of which nothing can be read.
    groups: BTreeSet<usize>,
    /// Blocks, by group, of which a page cannot be read.
    blocks: BTreeSet<(usize, usize)>,
    /// By table.
    pub(crate) lost: BTreeMap<TableId, LostRows>,
}

/// Rows of a table that do not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LostRows {
    pub(crate) rows: u64,
    /// First and last time that they may have.
    pub(crate) times: (i64, i64),
}

impl Broken {
    pub(crate) fn has_group(&self, group: usize) -> bool {
        self.groups.contains(&group)
    }

    pub(crate) fn has_block(&self, group: usize, block: usize) -> bool {
        self.blocks.contains(&(group, block))
    }

    fn lose(&mut self, table: TableId, rows: u64, times: (i64, i64)) {
        let lost = self
            .lost
            .entry(table)
            .or_insert(LostRows { rows: 0, times });
        lost.rows += rows;
        lost.times.0 = lost.times.0.min(times.0);
        lost.times.1 = lost.times.1.max(times.1);
    }

    fn meet(met: &mut Option<Self>, error: Error) -> Result<&mut Self, Error> {
        match error {
            Error::Corrupt { offset, reason, .. } => Ok(met.get_or_insert_with(|| Self {
                offset,
                reason,
                ..Self::default()
            })),
            error => Err(error),
        }
    }
}

impl Segment {
    /// Reads all of it, and tells which blocks do not read, of tables that are given with their fields; `None` = all do,
    /// and so does everything else.
    pub(crate) fn broken(
        &self,
        fields: &BTreeMap<TableId, BTreeSet<u32>>,
    ) -> Result<Option<Broken>, Error> {
        let mut met = None;
        let mut page = ColumnBuf::default();
        for (group, meta) in self.all_groups() {
            let statistics = self.statistics(group).map(drop);
            for part in [statistics, self.rollups(group).map(drop)] {
                if let Err(error) = part {
                    Broken::meet(&mut met, error)?;
                }
            }
            let directory = match self.directory(group) {
                Ok(directory) => directory,
                Err(error) => {
                    let broken = Broken::meet(&mut met, error)?;
                    broken.groups.insert(group);
                    broken.lose(meta.table, meta.rows, (meta.min_time, meta.max_time));
                    continue;
                }
            };
            for chunk in &directory.chunks {
                let is_field = |fields: &BTreeSet<u32>| fields.contains(&chunk.column);
                let is_read = [TIME_PAGE, SERIES_PAGE].contains(&chunk.column)
                    || fields.get(&meta.table).is_some_and(is_field);
                for (block, entry) in directory.blocks.iter().enumerate() {
                    let Some((offset, length)) = chunk.page(block) else {
                        continue;
                    };
                    let bytes = self.read_span(offset, u64::from(length));
                    let rows = entry.rows as usize;
                    let read =
                        bytes.and_then(|it| self.decode_page(chunk, rows, &it, offset, &mut page));
                    let large = directory.large_of(chunk.column, block);
                    let read = read.and_then(|()| match large {
                        [] => Ok(()),
                        large => {
                            let mut values = Values::from_page(&page);
                            self.put_large(&directory, large, &mut values)
                        }
                    });
                    let Err(error) = read else { continue };
                    let broken = Broken::meet(&mut met, error)?;
                    if is_read && broken.blocks.insert((group, block)) {
                        let times = (entry.min_time, entry.max_time);
                        broken.lose(meta.table, u64::from(entry.rows), times);
                    }
                }
            }
        }
        Ok(met)
    }
}

fn next_group(place: &SegmentPlace) -> SegmentPlace {
    SegmentPlace {
        group: place.group + 1,
        page: 0,
    }
}

/// Pages of one column that stand next to each other.
struct Span<'a> {
    directory: &'a GroupDirectory,
    chunk: &'a ColumnChunk,
    blocks: std::ops::Range<usize>,
    offset: u64,
    bytes: u64,
    /// The page of the group after them.
    end: u64,
}

impl<'a> Span<'a> {
    fn rows(&self, block: usize) -> usize {
        let entry = self.directory.blocks.get(block);
        entry.map_or(0, |entry| entry.rows as usize)
    }

    /// Those from a page on; `None` = the group has no more.
    fn at(directory: &'a GroupDirectory, page: u64) -> Option<Self> {
        let blocks = directory.blocks.len();
        let page = usize::try_from(page).ok()?;
        let (chunk, first) = (page.checked_div(blocks)?, page % blocks);
        let column = directory.chunks.get(chunk)?;
        let (mut end, mut offset, mut bytes) = (first, column.offset, 0);
        while end < column.lengths.len() {
            if let Some((start, length)) = column.page(end) {
                let length = u64::from(length);
                let follows = start == offset.saturating_add(bytes);
                if bytes > 0 && (!follows || bytes + length > SPAN_BYTES) {
                    break;
                }
                if bytes == 0 {
                    offset = start;
                }
                bytes += length;
            }
            end += 1;
        }
        // A column has a length for each block; if it does not, the rest of its blocks has no pages.
        let end = if end == first { blocks } else { end };
        Some(Self {
            directory,
            chunk: column,
            blocks: first..end,
            offset,
            bytes,
            end: (chunk * blocks + end) as u64,
        })
    }
}
