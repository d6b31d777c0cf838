//! Cursors: each hands out one source's rows of a series, for series asked for in ascending order.

mod spans;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use nilometer_codec::{ColumnBuf, PhysicalType};

use super::counters::GroupRead;
use crate::batch::{Column, Validity, Values};
use crate::cast::cast;
use crate::error::{Error, Malformed};
use crate::head::Run;
use crate::mask::Mask;
use crate::schema::ColumnId;
use crate::segment::{
    BlockEntry, CopiedBlock, CopiedPage, GroupDirectory, SERIES_PAGE, Segment, TIME_PAGE,
};
use spans::fetch;
pub(super) use spans::{Span, stored};

/// Rows of one series from one source, ascending in time.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Position of the source; the higher one's values are newer.
    pub(crate) rank: usize,
    pub(crate) data: Arc<Data>,
    pub(crate) rows: Rows,
}

/// Which rows of `data`.
#[derive(Debug)]
pub(crate) enum Rows {
    Range(std::ops::Range<usize>),
    Picked(Vec<u32>),
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Picked(rows) => rows.len(),
        }
    }

    pub(crate) fn get(&self, at: usize) -> usize {
        match self {
            Self::Range(range) => range.start + at,
            Self::Picked(rows) => rows.get(at).map_or(0, |&row| row as usize),
        }
    }
}

impl Piece {
    /// Takes out the rows that a delete hides; false = none is left.
    pub(crate) fn hide(&mut self, series: u32, mask: &Mask) -> bool {
        let times = self.data.times();
        let shown = |row: usize| {
            let time = times.get(row).copied().unwrap_or(i64::MAX);
            !mask.hides(row, series, time)
        };
        let kept: Vec<u32> = (0..self.rows.len())
            .map(|at| self.rows.get(at))
            .filter(|&row| shown(row))
            .filter_map(|row| u32::try_from(row).ok())
            .collect();
        if kept.len() < self.rows.len() {
            self.rows = Rows::Picked(kept);
        }
        self.rows.len() > 0
    }
}

/// Decoded rows. `columns` are parallel to the scan's fields; `None` = null in every row.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) source: DataSource,
}

#[derive(Debug)]
pub(crate) enum DataSource {
    Block {
        times: Vec<i64>,
        columns: Vec<Option<Column>>,
    },
    Run {
        run: Arc<Run>,
        columns: Vec<Option<RunColumn>>,
    },
}

/// A column of a run.
#[derive(Debug)]
pub(crate) enum RunColumn {
    /// Its position there.
    At(usize),
    /// It is older than its field's type.
    Cast(Column),
}

impl Data {
    pub(crate) fn times(&self) -> &[i64] {
        match &self.source {
            DataSource::Block { times, .. } => times,
            DataSource::Run { run, .. } => &run.rows.times,
        }
    }

    pub(crate) fn column(&self, field: usize) -> Option<&Column> {
        match &self.source {
            DataSource::Block { columns, .. } => columns.get(field)?.as_ref(),
            DataSource::Run { run, columns } => match columns.get(field)?.as_ref()? {
                RunColumn::At(at) => run.rows.columns.get(*at),
                RunColumn::Cast(column) => Some(column),
            },
        }
    }
}

#[derive(Debug)]
pub(super) enum Cursor {
    Run(RunCursor),
    Group(Box<GroupCursor>),
}

impl Cursor {
    /// Memory of its own; a run is the head's.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            Self::Run(_) => 0,
            Self::Group(cursor) => cursor.reader.held_bytes(),
        }
    }

    /// Adds the rows of `series` in the time range. Series must be asked for in ascending order.
    pub(super) fn take(
        &mut self,
        series: u32,
        rank: usize,
        time: &RangeInclusive<i64>,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Error> {
        match self {
            Self::Run(cursor) => {
                cursor.take(series, rank, time, pieces);
                Ok(())
            }
            Self::Group(cursor) => cursor.take(series, rank, time, pieces),
        }
    }
}

/// A run of the head.
#[derive(Debug)]
pub(super) struct RunCursor {
    data: Arc<Data>,
    run: Arc<Run>,
    visible: usize,
    /// Position in the run's order.
    at: usize,
}

impl RunCursor {
    pub(super) fn open(
        run: &Arc<Run>,
        visible: usize,
        series: &[u32],
        fields: &[(ColumnId, PhysicalType)],
    ) -> Option<Self> {
        let first = *series.first()?;
        let at = run
            .order()
            .partition_point(|&row| series_at(run, row) < first);
        let columns = fields
            .iter()
            .map(|(id, kind)| {
                let at = run
                    .rows
                    .columns
                    .iter()
                    .position(|column| column.id == *id)?;
                let column = run.rows.columns.get(at)?;
                Some(if column.values.kind() == *kind {
                    RunColumn::At(at)
                } else {
                    RunColumn::Cast(cast(column, *kind))
                })
            })
            .collect();
        Some(Self {
            data: Arc::new(Data {
                source: DataSource::Run {
                    run: Arc::clone(run),
                    columns,
                },
            }),
            run: Arc::clone(run),
            visible,
            at,
        })
    }

    pub(super) fn take(
        &mut self,
        series: u32,
        rank: usize,
        time: &RangeInclusive<i64>,
        pieces: &mut Vec<Piece>,
    ) {
        let order = self.run.order().get(self.at..).unwrap_or_default();
        // A few skipped series are walked over, many are jumped over.
        let start = match order
            .iter()
            .take(8)
            .position(|&row| series_at(&self.run, row) >= series)
        {
            Some(start) => start,
            None => order.partition_point(|&row| series_at(&self.run, row) < series),
        };
        let rest = order.get(start..).unwrap_or_default();
        let length = rest
            .iter()
            .position(|&row| series_at(&self.run, row) != series)
            .unwrap_or(rest.len());
        let rows: Vec<u32> = rest
            .iter()
            .take(length)
            .copied()
            .filter(|&row| {
                let at = self.run.rows.times.get(row as usize);
                (row as usize) < self.visible && at.is_some_and(|at| time.contains(at))
            })
            .collect();
        self.at += start + length;
        if !rows.is_empty() {
            pieces.push(Piece {
                rank,
                data: Arc::clone(&self.data),
                rows: Rows::Picked(rows),
            });
        }
    }
}

fn series_at(run: &Run, row: u32) -> u32 {
    run.rows
        .series
        .get(row as usize)
        .copied()
        .unwrap_or(u32::MAX)
}

/// A group of a segment, its blocks taken in series order.
#[derive(Debug)]
pub(super) struct GroupCursor {
    reader: GroupReader,
    /// Position in the reader's blocks.
    at: usize,
    /// Of some blocks the rows that are wanted, ascending; of others all are.
    picked: BTreeMap<usize, Vec<u32>>,
}

/// Some blocks of a group, fetched in few reads, decoded one after another.
#[derive(Debug)]
pub(crate) struct GroupReader {
    pub(super) segment: Arc<Segment>,
    pub(super) directory: Arc<GroupDirectory>,
    /// Blocks to read, ascending; a series' blocks are neighbours.
    pub(super) blocks: Vec<usize>,
    /// Column numbers and types: time first, then the scan's fields.
    pub(super) columns: Vec<(u32, PhysicalType)>,
    /// By column of `columns` (the last is the series page): stretches of the file.
    pub(super) spans: Vec<Vec<Span>>,
    pub(super) given: Given,
    page: ColumnBuf,
    decoded: Option<Decoded>,
}

/// Columns of blocks that were decoded before the rest of their block, by block and by column of the reader.
pub(super) type Given = BTreeMap<(usize, usize), Column>;

/// A decoded block.
#[derive(Debug)]
pub(crate) struct Decoded {
    block: usize,
    /// Of a shared block: the series of each row.
    pub(crate) series: Option<Vec<u32>>,
    pub(crate) data: Arc<Data>,
}

/// Blocks of a group at most whose decoded pages are kept.
const NARROW_BLOCKS_MAX: usize = 16;

impl GroupCursor {
    pub(super) fn open(
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
        series: &[u32],
        time: &RangeInclusive<i64>,
        fields: &[(ColumnId, PhysicalType)],
    ) -> Result<Option<Self>, Error> {
        let blocks = needed_blocks(directory, series, time).collect();
        let reader = GroupReader::open(segment, directory, blocks, fields)?;
        Ok(Self::of(reader, BTreeMap::new()))
    }

    /// Of a reader; of some of its blocks only these rows are wanted. `None` = it has no blocks.
    pub(super) fn of(reader: GroupReader, picked: BTreeMap<usize, Vec<u32>>) -> Option<Self> {
        (!reader.blocks.is_empty()).then_some(Self {
            reader,
            at: 0,
            picked,
        })
    }

    /// What it has fetched, for EXPLAIN.
    pub(super) fn reads(&self) -> GroupRead {
        self.reader.reads()
    }

    fn take(
        &mut self,
        series: u32,
        rank: usize,
        time: &RangeInclusive<i64>,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Error> {
        let directory = Arc::clone(&self.reader.directory);
        while let Some(&at) = self.reader.blocks.get(self.at) {
            let Some(block) = directory.blocks.get(at) else {
                break;
            };
            if block.first_series > series {
                break;
            }
            if block.last_series >= series {
                let decoded = self.reader.decode(at)?;
                if let Some(rows) = decoded.rows_of(series, time) {
                    let rows = match self.picked.get(&at) {
                        None => Rows::Range(rows),
                        Some(picked) => {
                            let start = picked.partition_point(|&row| (row as usize) < rows.start);
                            let end = picked.partition_point(|&row| (row as usize) < rows.end);
                            Rows::Picked(picked.get(start..end).unwrap_or_default().to_vec())
                        }
                    };
                    if rows.len() > 0 {
                        pieces.push(Piece {
                            rank,
                            data: Arc::clone(&decoded.data),
                            rows,
                        });
                    }
                }
            }
            if block.last_series > series {
                // The next series may be in this block too.
                break;
            }
            self.at += 1;
        }
        Ok(())
    }
}

impl GroupReader {
    /// Fetches the time, the series and these fields of some blocks, which are positions in the directory, ascending.
    pub(crate) fn open(
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
        blocks: Vec<usize>,
        fields: &[(ColumnId, PhysicalType)],
    ) -> Result<Self, Error> {
        Self::open_given(segment, directory, blocks, fields, Given::new())
    }

    /// The same, without fetching columns of blocks that are decoded already.
    pub(super) fn open_given(
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
        blocks: Vec<usize>,
        fields: &[(ColumnId, PhysicalType)],
        given: Given,
    ) -> Result<Self, Error> {
        let mut columns = vec![(TIME_PAGE, PhysicalType::I64)];
        columns.extend(fields.iter().map(|(id, kind)| (id.0, *kind)));
        columns.push((SERIES_PAGE, PhysicalType::I64));
        Self::open_columns(segment, directory, blocks, columns, given)
    }

    /// Fetches only these fields of some blocks, for [`Self::field`].
    pub(super) fn open_fields(
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
        blocks: Vec<usize>,
        fields: &[(ColumnId, PhysicalType)],
    ) -> Result<Self, Error> {
        let columns = fields.iter().map(|(id, kind)| (id.0, *kind)).collect();
        Self::open_columns(segment, directory, blocks, columns, Given::new())
    }

    fn open_columns(
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
        blocks: Vec<usize>,
        columns: Vec<(u32, PhysicalType)>,
        given: Given,
    ) -> Result<Self, Error> {
        let mut spans = Vec::new();
        for (index, (column, _)) in columns.iter().enumerate() {
            let mut unread = blocks.clone();
            unread.retain(|&block| !given.contains_key(&(block, index)));
            spans.push(fetch(segment, directory, *column, &unread)?);
        }
        Ok(Self {
            segment: Arc::clone(segment),
            directory: Arc::clone(directory),
            blocks,
            columns,
            spans,
            given,
            page: ColumnBuf::default(),
            decoded: None,
        })
    }

    /// What it has fetched, for EXPLAIN.
    pub(super) fn reads(&self) -> GroupRead {
        let spans = self.spans.iter().flatten();
        let mut read = GroupRead {
            blocks: self.blocks.len() as u64,
            bytes: spans.map(|span| span.bytes.len() as u64).sum(),
            ..GroupRead::default()
        };
        for chunk in &self.directory.chunks {
            let index = self.columns.iter().position(|it| it.0 == chunk.column);
            for &block in &self.blocks {
                let has_page = chunk.lengths.get(block).is_some_and(|&length| length > 0);
                match index {
                    _ if !has_page => {}
                    None => read.pages_skipped += 1,
                    Some(index) if self.given.contains_key(&(block, index)) => {}
                    Some(_) => read.pages += 1,
                }
            }
        }
        read
    }

    /// Pages that it has fetched, and the block that it has decoded.
    fn held_bytes(&self) -> usize {
        let spans = self.spans.iter().flatten();
        let pages: usize = spans.map(|span| span.bytes.len()).sum();
        let given: usize = self.given.values().map(|it| it.values.bytes()).sum();
        let decoded = self.decoded.as_ref().map_or(0, |decoded| {
            let ids = decoded
                .series
                .as_ref()
                .map_or(0, |ids| ids.len() * size_of::<u32>());
            let DataSource::Block { times, columns } = &decoded.data.source else {
                return ids;
            };
            let columns = columns.iter().flatten().map(|column| column.values.bytes());
            ids + size_of_val(times.as_slice()) + columns.sum::<usize>()
        });
        pages + given + decoded
    }

    /// The blocks that it has fetched.
    pub(super) fn blocks(&self) -> &[usize] {
        &self.blocks
    }

    /// Whether it reads so few blocks that who asks again may find them decoded. One that reads many would push everything
    /// else out of the cache.
    pub(super) fn is_narrow(&self) -> bool {
        self.blocks.len() <= NARROW_BLOCKS_MAX
    }

    /// Rows of a block.
    pub(super) fn rows(&self, block: usize) -> usize {
        let block = self.directory.blocks.get(block);
        block.map_or(0, |block| block.rows as usize)
    }

    /// One of the fields of a reader of fields only.
    pub(super) fn field(&mut self, index: usize, block: usize) -> Result<Option<Column>, Error> {
        self.decode_column(index, block, self.rows(block))
    }

    pub(crate) fn directory(&self) -> &GroupDirectory {
        &self.directory
    }

    /// The pages of a block of one series as they are, checked; `None` = a page is of another type than asked for,
    /// cannot be read alone, or leaves values to the group.
    pub(crate) fn copy(&self, at: usize) -> Result<Option<CopiedBlock>, Error> {
        let Some(&entry) = self.directory.blocks.get(at) else {
            return Ok(None);
        };
        let mut pages = Vec::new();
        for (index, &(column, kind)) in self.columns.iter().enumerate() {
            let Some(chunk) = self.directory.chunk(column) else {
                continue;
            };
            if !self.directory.large_of(column, at).is_empty() {
                return Ok(None);
            }
            let Some((offset, length)) = chunk.page(at) else {
                continue;
            };
            if chunk.kind != kind {
                return Ok(None);
            }
            let bytes = stored(&self.segment, self.spans.get(index), offset, length)?;
            let rows = entry.rows as usize;
            let page = self.segment.check_page(chunk, rows, bytes, offset)?;
            if page.needs_header() {
                // Alone in another group it could not be read.
                return Ok(None);
            }
            let mut bytes = Vec::with_capacity(length as usize);
            let put = page.put(&mut bytes);
            put.map_err(|what| Malformed::from(what).at(self.segment.path(), offset))?;
            pages.push(CopiedPage {
                column,
                kind,
                bytes,
            });
        }
        Ok(Some(CopiedBlock { entry, pages }))
    }

    /// A block, which must be one of those fetched; the last one is kept.
    pub(crate) fn decode(&mut self, at: usize) -> Result<&Decoded, Error> {
        if self
            .decoded
            .as_ref()
            .is_none_or(|decoded| decoded.block != at)
        {
            self.decoded = Some(self.decode_block(at)?);
        }
        self.decoded
            .as_ref()
            .ok_or_else(|| Error::corrupt(self.segment.path(), 0, "no such block"))
    }

    fn decode_block(&mut self, at: usize) -> Result<Decoded, Error> {
        let block = self.directory.blocks.get(at);
        let rows = block.map_or(0, |block| block.rows as usize);
        let is_shared = block.is_some_and(|block| block.first_series != block.last_series);
        let mut columns = Vec::new();
        for index in 0..self.columns.len() {
            columns.push(self.decode_column(index, at, rows)?);
        }
        let series = columns.pop().flatten().map(|column| match column.values {
            Values::I64(ids) => ids
                .iter()
                .map(|&id| u32::try_from(id).unwrap_or(0))
                .collect(),
            _ => Vec::new(),
        });
        if is_shared && series.is_none() {
            return Err(Error::corrupt(
                self.segment.path(),
                0,
                "a block of several series does not say which row is whose",
            ));
        }
        let Some(Values::I64(times)) = columns.remove(0).map(|column| column.values) else {
            return Err(Error::corrupt(
                self.segment.path(),
                0,
                "a block has no times",
            ));
        };
        Ok(Decoded {
            block: at,
            series,
            data: Arc::new(Data {
                source: DataSource::Block { times, columns },
            }),
        })
    }

    /// The times of a block that has no page of them.
    fn even_times(&mut self, column: u32, block: usize) -> Option<Column> {
        let entry = self.directory.blocks.get(block);
        let entry = entry.filter(|_| column == TIME_PAGE)?;
        entry.fill_even(&mut self.page).then(|| Column {
            id: ColumnId(column),
            values: Values::from_page(&self.page),
            validity: Validity::from_bitmap(None, self.page.rows()),
        })
    }

    fn decode_column(
        &mut self,
        index: usize,
        block: usize,
        rows: usize,
    ) -> Result<Option<Column>, Error> {
        if let Some(given) = self.given.remove(&(block, index)) {
            return Ok(Some(given));
        }
        let Some(&(column, kind)) = self.columns.get(index) else {
            return Ok(None);
        };
        let chunk = self.directory.chunk(column);
        // A page of another type than the schema's is older or newer than a change of its field's type.
        let Some((chunk, (offset, length))) = chunk.and_then(|it| Some((it, it.page(block)?)))
        else {
            return Ok(self.even_times(column, block));
        };
        let stored_kind = chunk.kind;
        let bytes = stored(&self.segment, self.spans.get(index), offset, length)?;
        let of_rows = column != TIME_PAGE && column != SERIES_PAGE;
        let kept = if of_rows && self.is_narrow() && self.segment.keeps_pages(chunk) {
            let page = &mut self.page;
            Some(
                self.segment
                    .kept_page(chunk, bytes, offset, (rows, rows), page)?,
            )
        } else {
            self.segment
                .decode_page(chunk, rows, bytes, offset, &mut self.page)?;
            None
        };
        let page = kept.as_deref().unwrap_or(&self.page);
        if page.rows() != rows || page.physical_type() != stored_kind {
            return Err(Error::corrupt(
                self.segment.path(),
                offset,
                "a page has another type or row count than its directory says",
            ));
        }
        let mut values = Values::from_page(page);
        let large = self.directory.large_of(column, block);
        if !large.is_empty() {
            self.segment
                .put_large(&self.directory, large, &mut values)?;
        }
        let decoded = Column {
            id: ColumnId(column),
            values,
            validity: Validity::from_bitmap(page.validity(), rows),
        };
        Ok(Some(if of_rows && stored_kind != kind {
            cast(&decoded, kind)
        } else {
            decoded
        }))
    }
}

/// Positions of the blocks that may have a row of these series in a range of time.
pub(super) fn needed_blocks(
    directory: &GroupDirectory,
    series: &[u32],
    time: &RangeInclusive<i64>,
) -> impl Iterator<Item = usize> {
    let blocks = directory.blocks.iter().enumerate();
    blocks.filter_map(|(at, block)| needed(block, series, time).then_some(at))
}

fn needed(block: &BlockEntry, series: &[u32], time: &RangeInclusive<i64>) -> bool {
    if !block.overlaps(time) {
        return false;
    }
    let at = series.partition_point(|&id| id < block.first_series);
    series.get(at).is_some_and(|&id| id <= block.last_series)
}

impl Decoded {
    /// Rows of `series` in the time range; rows of a block are ordered by (series, time).
    pub(crate) fn rows_of(
        &self,
        series: u32,
        time: &RangeInclusive<i64>,
    ) -> Option<std::ops::Range<usize>> {
        let times = self.data.times();
        let all = match &self.series {
            None => 0..times.len(),
            Some(ids) => {
                ids.partition_point(|&id| id < series)..ids.partition_point(|&id| id <= series)
            }
        };
        let own = times.get(all.clone())?;
        let start = all.start + own.partition_point(|at| at < time.start());
        let end = all.start + own.partition_point(|at| at <= time.end());
        (start < end).then_some(start..end)
    }
}
