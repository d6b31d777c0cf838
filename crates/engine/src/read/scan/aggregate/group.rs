//! A segment's group in an aggregation: stored hours and blocks, and blocks to decode.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use nilometer_codec::PhysicalType;
use nilometer_codec::stats::PageStatistics;

use super::bucket::Buckets;
use crate::error::Error;
use crate::mask::Mask;
use crate::scan::source::{GroupReader, Piece, Rows};
use crate::schema::ColumnId;
use crate::segment::{BlockEntry, GroupDirectory, GroupRollups, Segment, Summary};

#[derive(Debug)]
pub(super) struct Group<'a> {
    segment: &'a Arc<Segment>,
    number: usize,
    pub(super) directory: &'a Arc<GroupDirectory>,
    pub(super) mask: &'a Mask,
    /// The series that are read, ascending.
    series: &'a [u32],
    fields: Vec<Field>,
    statistics: Stored<Vec<ByBlock>>,
    rollups: Stored<Hours>,
    /// Blocks that must be decoded.
    needed: BTreeSet<usize>,
}

/// What is unpacked when it is first asked for.
#[derive(Debug)]
enum Stored<T> {
    Unread,
    /// There is none, or it does not know every field.
    Missing,
    Unpacked(T),
}

impl<T> Stored<T> {
    fn get(&self) -> Option<&T> {
        match self {
            Self::Unread | Self::Missing => None,
            Self::Unpacked(value) => Some(value),
        }
    }
}

impl<T> From<Option<T>> for Stored<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Self::Unpacked)
    }
}

/// How the group has a field of the request.
#[derive(Debug, Clone, Copy)]
enum Field {
    /// Null in every row.
    Absent,
    /// As the table has it.
    Same(ColumnId, PhysicalType),
    /// Of another type, or of one that is not summed up: only its rows say what it is.
    RowsOnly,
}

/// What is known of the pages of a field; empty for absent ones.
type ByBlock = Vec<Option<PageStatistics>>;

#[derive(Debug)]
struct Hours {
    rollups: Arc<GroupRollups>,
    /// Positions of the entries of the series that are read, ascending.
    entries: Vec<usize>,
    /// By field, by position in `entries`; empty for absent fields.
    values: Vec<Vec<Option<Summary>>>,
}

impl Hours {
    /// What is known of an entry, by field.
    fn of_entry(&self, entry: usize) -> impl Iterator<Item = Option<Summary>> {
        let place = self.entries.binary_search(&entry);
        self.values
            .iter()
            .map(move |column| column.get(place.ok()?).copied().flatten())
    }
}

impl<'a> Group<'a> {
    pub(super) fn new(
        segment: &'a Arc<Segment>,
        number: usize,
        directory: &'a Arc<GroupDirectory>,
        mask: &'a Mask,
        series: &'a [u32],
        fields: &[(ColumnId, PhysicalType)],
    ) -> Self {
        let fields = fields.iter().map(|&(id, kind)| {
            let mut chunks = directory.chunks.iter();
            let kinds: Vec<_> = chunks
                .by_ref()
                .filter(|chunk| chunk.column == id.0)
                .map(|chunk| chunk.kind)
                .collect();
            let is_text = matches!(kind, PhysicalType::Text | PhysicalType::Bytes);
            match kinds.as_slice() {
                [] => Field::Absent,
                [one] if *one == kind && !is_text => Field::Same(id, kind),
                _ => Field::RowsOnly,
            }
        });
        Self {
            segment,
            number,
            directory,
            mask,
            series,
            fields: fields.collect(),
            statistics: Stored::Unread,
            rollups: Stored::Unread,
            needed: BTreeSet::new(),
        }
    }

    /// Positions of the blocks that may have rows of a series.
    pub(super) fn blocks_of(&self, series: u32) -> Range<usize> {
        self.directory.blocks_of(series)
    }

    pub(super) fn block(&self, at: usize) -> Option<&BlockEntry> {
        self.directory.blocks.get(at)
    }

    /// Whether what is stored of blocks and hours may stand for rows at all. Rows of a table that keeps duplicates do
    /// not become one; those of one that kept them once do, when they are read.
    pub(super) fn may_stand(&self, keeps_duplicates: bool) -> Result<bool, Error> {
        let has_duplicates = self.segment.group(self.number)?.has_duplicates;
        let is_known = |field: &Field| !matches!(field, Field::RowsOnly);
        Ok((keeps_duplicates || !has_duplicates) && self.fields.iter().all(is_known))
    }

    /// Notes that a block must be decoded.
    pub(super) fn need(&mut self, block: usize) {
        self.needed.insert(block);
    }

    /// The rollups, if they know every field.
    pub(super) fn rollups(&mut self) -> Result<Option<Arc<GroupRollups>>, Error> {
        if matches!(self.rollups, Stored::Unread) {
            self.rollups = self.unpack_rollups()?.into();
        }
        Ok(self.rollups.get().map(|hours| Arc::clone(&hours.rollups)))
    }

    fn unpack_rollups(&self) -> Result<Option<Hours>, Error> {
        let Some(rollups) = self.segment.rollups(self.number)? else {
            return Ok(None);
        };
        let offset = self.segment.group(self.number)?.rollups_offset();
        // A group has the hours of many series, and often one of them is asked for.
        let entries = self.series.iter().flat_map(|&id| rollups.of_series(id));
        let entries: Vec<usize> = entries.collect();
        let mut values = Vec::new();
        for field in &self.fields {
            let Field::Same(id, kind) = *field else {
                values.push(Vec::new());
                continue;
            };
            let column = rollups.column(id.0, kind, &entries);
            let column = column.map_err(|what| what.at(self.segment.path(), offset))?;
            match column {
                Some(column) => values.push(column),
                // It has no page in a block of one series, or the rollups do not know it.
                None if !self.is_in_own_blocks(id) => values.push(Vec::new()),
                None => return Ok(None),
            }
        }
        Ok(Some(Hours {
            rollups,
            entries,
            values,
        }))
    }

    fn is_in_own_blocks(&self, id: ColumnId) -> bool {
        let blocks = self.directory.blocks.iter().enumerate();
        let mut own = blocks.filter(|(_, block)| !block.is_shared());
        own.any(|(at, _)| self.has_page(id, at))
    }

    fn has_page(&self, id: ColumnId, block: usize) -> bool {
        let chunk = self.directory.chunk(id.0);
        chunk.is_some_and(|chunk| chunk.lengths.get(block).is_some_and(|&length| length > 0))
    }

    /// Whether an entry of the rollups may stand for its rows.
    pub(super) fn hour_is_usable(&self, entry: usize) -> bool {
        let Some(hours) = self.rollups.get() else {
            return false;
        };
        hours
            .of_entry(entry)
            .all(|summary| summary.is_none_or(|summary| summary.is_usable()))
    }

    /// Whether the statistics of a block may stand for its rows.
    pub(super) fn block_is_usable(&mut self, block: usize) -> Result<bool, Error> {
        if matches!(self.statistics, Stored::Unread) {
            self.statistics = self.unpack_statistics()?.into();
        }
        let Some(statistics) = self.statistics.get() else {
            return Ok(false);
        };
        let fields = self.fields.iter().zip(statistics);
        Ok(fields.into_iter().all(|(field, by_block)| {
            let Field::Same(id, _) = *field else {
                return true;
            };
            if !self.has_page(id, block) {
                return true;
            }
            match by_block.get(block).copied().flatten() {
                None => false,
                Some(page) if page.first.is_none() => true,
                Some(page) => self
                    .summary_of(&page, block)
                    .is_some_and(|summary| summary.is_usable()),
            }
        }))
    }

    fn unpack_statistics(&self) -> Result<Option<Vec<ByBlock>>, Error> {
        let Some(statistics) = self.segment.statistics(self.number)? else {
            return Ok(None);
        };
        let offset = self.segment.group(self.number)?.statistics_offset();
        let blocks = self.directory.blocks.len();
        let mut all = Vec::new();
        for field in &self.fields {
            let Field::Same(id, kind) = *field else {
                all.push(Vec::new());
                continue;
            };
            let column = statistics.column(id.0, kind, blocks);
            let column = column.map_err(|what| what.at(self.segment.path(), offset))?;
            all.push(column.unwrap_or_default());
        }
        Ok(Some(all))
    }

    /// The directory has the times of a block's first and last row only.
    fn summary_of(&self, page: &PageStatistics, block: usize) -> Option<Summary> {
        let entry = self.block(block)?;
        Summary::of(page, |row| {
            let row = u32::from(row);
            match row {
                0 => Some(entry.min_time),
                _ if row + 1 == entry.rows => Some(entry.max_time),
                _ => None,
            }
        })
    }

    /// Adds an hour, which is usable.
    pub(super) fn add_hour(&self, entry: usize, buckets: &mut Buckets) {
        let Some(hours) = self.rollups.get() else {
            return;
        };
        let Some(hour) = hours.rollups.entries.get(entry) else {
            return;
        };
        buckets.add(hour.min_time, u64::from(hour.rows), hours.of_entry(entry));
    }

    /// Adds a block, which is usable.
    pub(super) fn add_block(&self, block: usize, buckets: &mut Buckets) {
        let (Some(statistics), Some(entry)) = (self.statistics.get(), self.block(block)) else {
            return;
        };
        let values = statistics.iter().map(|by_block| {
            let page = by_block.get(block).copied().flatten()?;
            self.summary_of(&page, block)
        });
        buckets.add(entry.min_time, u64::from(entry.rows), values);
    }

    /// Fetches the blocks that must be decoded; `None` = there are none.
    pub(super) fn open_reader(
        &mut self,
        fields: &[(ColumnId, PhysicalType)],
    ) -> Result<Option<GroupReader>, Error> {
        if self.needed.is_empty() {
            return Ok(None);
        }
        let blocks = std::mem::take(&mut self.needed).into_iter().collect();
        GroupReader::open(self.segment, self.directory, blocks, fields).map(Some)
    }

    /// The rows of a series in a block, within a range of time and, if given, of rows.
    pub(super) fn decode(
        &self,
        reader: &mut GroupReader,
        block: usize,
        series: u32,
        time: &RangeInclusive<i64>,
        within: Option<Range<usize>>,
        rank: usize,
    ) -> Result<Option<Piece>, Error> {
        let decoded = reader.decode(block)?;
        let Some(mut rows) = decoded.rows_of(series, time) else {
            return Ok(None);
        };
        if let Some(within) = within {
            rows = rows.start.max(within.start)..rows.end.min(within.end);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        let mut piece = Piece {
            rank,
            data: Arc::clone(&decoded.data),
            rows: Rows::Range(rows),
        };
        let is_shown = self.mask.is_empty() || piece.hide(series, self.mask);
        Ok(is_shown.then_some(piece))
    }
}
