//! A segment's group in an aggregation: stored hours and blocks, and blocks to decode.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use nilometer_codec::PhysicalType;

use crate::error::Error;
use crate::mask::Mask;
use crate::scan::source::{GroupReader, Piece, Rows};
use crate::schema::ColumnId;
use crate::segment::{
    BlockEntry, GroupDirectory, GroupRollups, HourEntry, SERIES_PAGE, Segment, StoredField,
    TIME_PAGE, Unpacked,
};

#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) segment: &'a Arc<Segment>,
    pub(super) number: usize,
    pub(super) directory: &'a Arc<GroupDirectory>,
    pub(super) mask: &'a Mask,
    fields: Vec<Field>,
    /// Whether first and last values are asked for.
    ends: bool,
    blocks: Stored<Vec<Column>>,
    hours: Stored<Hours>,
    /// Blocks that must be decoded.
    needed: BTreeSet<usize>,
    /// By block: whether its rows were given already, those of several series together. Empty = those of none were.
    pub(super) given: Vec<bool>,
    /// The series that was looked for last, and its blocks.
    found: Cell<(u32, usize, usize)>,
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

impl Field {
    fn of(directory: &GroupDirectory, (id, kind): (ColumnId, PhysicalType)) -> Self {
        let chunks = directory.chunks.iter();
        let mut kinds = chunks
            .filter(|chunk| chunk.column == id.0)
            .map(|chunk| chunk.kind);
        let is_text = matches!(kind, PhysicalType::Text | PhysicalType::Bytes);
        match (kinds.next(), kinds.next()) {
            (None, _) => Self::Absent,
            (Some(one), None) if one == kind && !is_text => Self::Same(id, kind),
            _ => Self::RowsOnly,
        }
    }
}

/// Whether a group has each field as the table has it, or it is null in every row.
pub(super) fn knows_fields(
    directory: &GroupDirectory,
    fields: &[(ColumnId, PhysicalType)],
) -> bool {
    let mut fields = fields.iter().map(|of| Field::of(directory, *of));
    fields.all(|field| !matches!(field, Field::RowsOnly))
}

/// What is known of a field in each block or hour; `None` = there are no values.
type Column = Option<Arc<Unpacked>>;

#[derive(Debug)]
struct Hours {
    rollups: Arc<GroupRollups>,
    /// By field.
    columns: Vec<Column>,
}

/// The first block from one on for which something does not hold that holds up to there.
fn first_from(blocks: &[BlockEntry], from: usize, holds: impl Fn(&BlockEntry) -> bool) -> usize {
    let (mut low, mut step) = (from, 1);
    while blocks.get(low + step - 1).is_some_and(&holds) {
        low += step;
        step *= 2;
    }
    let near = blocks.get(low..blocks.len().min(low + step));
    low + near.unwrap_or_default().partition_point(holds)
}

impl<'a> Group<'a> {
    pub(super) fn new(
        segment: &'a Arc<Segment>,
        number: usize,
        directory: &'a Arc<GroupDirectory>,
        mask: &'a Mask,
        fields: &[(ColumnId, PhysicalType)],
        ends: bool,
    ) -> Self {
        let fields = fields.iter().map(|of| Field::of(directory, *of));
        Self {
            segment,
            number,
            directory,
            mask,
            fields: fields.collect(),
            ends,
            blocks: Stored::Unread,
            hours: Stored::Unread,
            needed: BTreeSet::new(),
            given: Vec::new(),
            found: Cell::new((0, 0, 0)),
        }
    }

    /// Positions of the blocks that may have rows of a series.
    pub(super) fn blocks_of(&self, series: u32) -> Range<usize> {
        let (last, start, end) = self.found.get();
        if last == series && end > start {
            return start..end;
        }
        let blocks = &self.directory.blocks;
        // Series are asked for as they ascend, so that the blocks of the next one are near.
        let from = if series > last { start } else { 0 };
        let start = first_from(blocks, from, |block| block.last_series < series);
        let end = first_from(blocks, start, |block| block.first_series <= series);
        self.found.set((series, start, end));
        start..end
    }

    /// Whether the rows of a block were given already.
    pub(super) fn is_given(&self, block: usize) -> bool {
        self.given.get(block).copied().unwrap_or(false)
    }

    /// Whether each field is had as the table has it, or is null in every row.
    fn knows_fields(&self) -> bool {
        let is_known = |field: &Field| !matches!(field, Field::RowsOnly);
        self.fields.iter().all(is_known)
    }

    pub(super) fn block(&self, at: usize) -> Option<&BlockEntry> {
        self.directory.blocks.get(at)
    }

    /// Whether what is stored of blocks and hours may stand for rows at all. Rows of a table that keeps duplicates do
    /// not become one; those of one that kept them once do, when they are read.
    pub(super) fn may_stand(&self, keeps_duplicates: bool) -> Result<bool, Error> {
        let has_duplicates = self.segment.group(self.number)?.has_duplicates;
        Ok((keeps_duplicates || !has_duplicates) && self.knows_fields())
    }

    /// Notes that a block must be decoded; `false` = it was known.
    pub(super) fn need(&mut self, block: usize) -> bool {
        self.needed.insert(block)
    }

    /// The rollups, if they know every field.
    pub(super) fn rollups(&mut self) -> Result<Option<Arc<GroupRollups>>, Error> {
        if matches!(self.hours, Stored::Unread) {
            self.hours = self.unpack_hours()?.into();
        }
        Ok(self.hours.get().map(|hours| Arc::clone(&hours.rollups)))
    }

    fn unpack_hours(&self) -> Result<Option<Hours>, Error> {
        let Some(rollups) = self.segment.rollups(self.number)? else {
            return Ok(None);
        };
        let mut columns = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let Field::Same(id, kind) = *field else {
                columns.push(None);
                continue;
            };
            let of = (id.0, kind);
            let column = self.segment.unpacked_hours(self.number, of, self.ends)?;
            // It has no page in a block of one series, or the rollups do not know it.
            if column.is_none() && self.is_in_own_blocks(id) {
                return Ok(None);
            }
            columns.push(column);
        }
        Ok(Some(Hours { rollups, columns }))
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
        let Some(hours) = self.hours.get() else {
            return false;
        };
        let mut columns = hours.columns.iter().flatten();
        columns.all(|column| column.is_usable(entry))
    }

    /// Whether the statistics of a block may stand for its rows.
    pub(super) fn block_is_usable(&mut self, block: usize) -> Result<bool, Error> {
        if matches!(self.blocks, Stored::Unread) {
            self.blocks = self.unpack_blocks()?.into();
        }
        let Some(columns) = self.blocks.get() else {
            return Ok(false);
        };
        Ok(self.fields.iter().zip(columns).all(|(field, column)| {
            let Field::Same(id, _) = *field else {
                return true;
            };
            match column {
                Some(column) => column.is_usable(block),
                None => !self.has_page(id, block),
            }
        }))
    }

    fn unpack_blocks(&self) -> Result<Option<Vec<Column>>, Error> {
        if self.segment.statistics(self.number)?.is_none() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            columns.push(match *field {
                Field::Same(id, kind) => {
                    let of = (id.0, kind);
                    self.segment.unpacked_blocks(self.number, of, self.ends)?
                }
                Field::Absent | Field::RowsOnly => None,
            });
        }
        Ok(Some(columns))
    }

    /// What is known of some blocks, which are usable, by field.
    pub(super) fn of_blocks<'s>(
        &'s self,
        blocks: &Range<usize>,
        to: &mut Vec<Option<StoredField<'s>>>,
    ) {
        let columns = self.blocks.get().into_iter().flatten();
        to.extend(columns.map(|column| Some(column.as_ref()?.of(blocks.clone()))));
    }

    /// The same of entries of the rollups.
    pub(super) fn of_hours<'s>(
        &'s self,
        entries: &Range<usize>,
        to: &mut Vec<Option<StoredField<'s>>>,
    ) {
        let columns = self
            .hours
            .get()
            .into_iter()
            .flat_map(|hours| &hours.columns);
        to.extend(columns.map(|column| Some(column.as_ref()?.of(entries.clone()))));
    }

    /// The entries of the rollups, if they were asked for.
    pub(super) fn hour_entries(&self) -> &[HourEntry] {
        self.hours.get().map_or(&[], |hours| &hours.rollups.entries)
    }

    /// Bytes that fetching and decoding the blocks takes that must be decoded.
    pub(super) fn bytes_needed(&self, fields: &[(ColumnId, PhysicalType)]) -> usize {
        let ids = fields.iter().map(|(id, _)| id.0);
        let columns: Vec<u32> = ids.chain([TIME_PAGE, SERIES_PAGE]).collect();
        let chunks = self.directory.chunks.iter();
        let chunks = chunks.filter(|chunk| columns.contains(&chunk.column));
        let lengths = chunks.flat_map(|chunk| {
            let blocks = self.needed.iter();
            blocks.filter_map(|at| chunk.lengths.get(*at))
        });
        // One block is decoded at a time. Of very many small segments each has a few rows.
        let rows = self.needed.iter().filter_map(|at| self.block(*at));
        let rows = rows.map(|block| block.rows as usize).max().unwrap_or(0);
        let decoded = columns.len() * rows * size_of::<u64>();
        lengths.map(|length| *length as usize).sum::<usize>() + decoded
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
