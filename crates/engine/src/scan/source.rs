//! Cursors: each hands out one source's rows of a series, for series asked for in ascending order.

use std::ops::RangeInclusive;
use std::sync::Arc;

use nilometer_codec::{ColumnBuf, PhysicalType};

use crate::batch::{Column, Validity, Values};
use crate::cast::cast;
use crate::error::Error;
use crate::head::Run;
use crate::schema::ColumnId;
use crate::segment::{BlockEntry, GroupDirectory, SERIES_PAGE, Segment, TIME_PAGE};

/// Rows of one series from one source, ascending in time.
#[derive(Debug)]
pub(super) struct Piece {
    /// Position of the source; the higher one's values are newer.
    pub(super) rank: usize,
    pub(super) data: Arc<Data>,
    pub(super) rows: Rows,
}

/// Which rows of `data`.
#[derive(Debug)]
pub(super) enum Rows {
    Range(std::ops::Range<usize>),
    Picked(Vec<u32>),
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Picked(rows) => rows.len(),
        }
    }

    pub(super) fn get(&self, at: usize) -> usize {
        match self {
            Self::Range(range) => range.start + at,
            Self::Picked(rows) => rows.get(at).map_or(0, |&row| row as usize),
        }
    }
}

/// Decoded rows. `columns` are parallel to the scan's fields; `None` = null in every row.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) source: DataSource,
}

#[derive(Debug)]
pub(super) enum DataSource {
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
pub(super) enum RunColumn {
    /// Its position there.
    At(usize),
    /// It is older than its field's type.
    Cast(Column),
}

impl Data {
    pub(super) fn times(&self) -> &[i64] {
        match &self.source {
            DataSource::Block { times, .. } => times,
            DataSource::Run { run, .. } => &run.rows.times,
        }
    }

    pub(super) fn column(&self, field: usize) -> Option<&Column> {
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

    fn take(
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

/// A group of a segment: the blocks that the morsel needs, fetched in few reads, decoded one after another.
#[derive(Debug)]
pub(super) struct GroupCursor {
    segment: Arc<Segment>,
    directory: Arc<GroupDirectory>,
    /// Blocks to read, ascending; a series' blocks are neighbours.
    blocks: Vec<usize>,
    /// Position in `blocks`.
    at: usize,
    /// Column numbers and types: time first, then the scan's fields.
    columns: Vec<(u32, PhysicalType)>,
    /// By column of `columns` (the last is the series page): stretches of the file.
    spans: Vec<Vec<Span>>,
    page: ColumnBuf,
    decoded: Option<Decoded>,
}

/// Bytes of neighbouring pages.
#[derive(Debug)]
struct Span {
    offset: u64,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct Decoded {
    block: usize,
    /// Of a shared block: the series of each row.
    series: Option<Vec<u32>>,
    data: Arc<Data>,
}

/// Pages with no more than this between them are read at once: a read call costs more than the bytes.
const GAP_BYTES_MAX: u64 = 4096;

impl GroupCursor {
    pub(super) fn open(
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
        series: &[u32],
        time: &RangeInclusive<i64>,
        fields: &[(ColumnId, PhysicalType)],
    ) -> Result<Option<Self>, Error> {
        let blocks: Vec<usize> = (0..directory.blocks.len())
            .filter(|&at| {
                directory
                    .blocks
                    .get(at)
                    .is_some_and(|block| needed(block, series, time))
            })
            .collect();
        if blocks.is_empty() {
            return Ok(None);
        }
        let mut columns = vec![(TIME_PAGE, PhysicalType::I64)];
        columns.extend(fields.iter().map(|(id, kind)| (id.0, *kind)));
        columns.push((SERIES_PAGE, PhysicalType::I64));
        let mut spans = Vec::new();
        for (column, _) in &columns {
            spans.push(fetch(segment, directory, *column, &blocks)?);
        }
        Ok(Some(Self {
            segment: Arc::clone(segment),
            directory: Arc::clone(directory),
            blocks,
            at: 0,
            columns,
            spans,
            page: ColumnBuf::default(),
            decoded: None,
        }))
    }

    fn take(
        &mut self,
        series: u32,
        rank: usize,
        time: &RangeInclusive<i64>,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Error> {
        let directory = Arc::clone(&self.directory);
        while let Some(&at) = self.blocks.get(self.at) {
            let Some(block) = directory.blocks.get(at) else {
                break;
            };
            if block.first_series > series {
                break;
            }
            if block.last_series >= series {
                let decoded = self.decode(at)?;
                if let Some(rows) = rows_of(decoded, series, time) {
                    pieces.push(Piece {
                        rank,
                        data: Arc::clone(&decoded.data),
                        rows: Rows::Range(rows),
                    });
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

    fn decode(&mut self, at: usize) -> Result<&Decoded, Error> {
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

    fn decode_column(
        &mut self,
        index: usize,
        block: usize,
        rows: usize,
    ) -> Result<Option<Column>, Error> {
        let Some(&(column, kind)) = self.columns.get(index) else {
            return Ok(None);
        };
        let chunk = self.directory.chunk(column);
        // A page of another type than the schema's is older or newer than a change of its field's type.
        let Some((stored, (offset, length))) = chunk.and_then(|c| Some((c.kind, c.page(block)?)))
        else {
            return Ok(None);
        };
        let missing = || Error::corrupt(self.segment.path(), offset, "a page is outside the file");
        let span = self.spans.get(index).and_then(|spans| {
            let at = spans.partition_point(|span| span.offset <= offset);
            spans.get(at.checked_sub(1)?)
        });
        let span = span.ok_or_else(missing)?;
        let start = usize::try_from(offset - span.offset).unwrap_or(usize::MAX);
        let bytes = span.bytes.get(start..start.saturating_add(length as usize));
        self.segment
            .decode_page(bytes.ok_or_else(missing)?, offset, &mut self.page)?;
        if self.page.rows() != rows || self.page.physical_type() != stored {
            return Err(Error::corrupt(
                self.segment.path(),
                offset,
                "a page has another type or row count than its directory says",
            ));
        }
        let decoded = Column {
            id: ColumnId(column),
            values: Values::from_page(&self.page),
            validity: Validity::from_bitmap(self.page.validity(), rows),
        };
        let of_rows = column != TIME_PAGE && column != SERIES_PAGE;
        Ok(Some(if of_rows && stored != kind {
            cast(&decoded, kind)
        } else {
            decoded
        }))
    }
}

fn needed(block: &BlockEntry, series: &[u32], time: &RangeInclusive<i64>) -> bool {
    if block.max_time < *time.start() || block.min_time > *time.end() {
        return false;
    }
    let at = series.partition_point(|&id| id < block.first_series);
    series.get(at).is_some_and(|&id| id <= block.last_series)
}

/// Rows of `series` in the time range; rows of a block are ordered by (series, time).
fn rows_of(
    decoded: &Decoded,
    series: u32,
    time: &RangeInclusive<i64>,
) -> Option<std::ops::Range<usize>> {
    let times = decoded.data.times();
    let all = match &decoded.series {
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

/// Reads the pages of a column for some blocks, neighbours in one call.
fn fetch(
    segment: &Segment,
    directory: &GroupDirectory,
    column: u32,
    blocks: &[usize],
) -> Result<Vec<Span>, Error> {
    let Some(chunk) = directory.chunk(column) else {
        return Ok(Vec::new());
    };
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &block in blocks {
        let Some((offset, length)) = chunk.page(block) else {
            continue;
        };
        let end = offset + u64::from(length);
        match ranges.last_mut() {
            Some((_, last_end)) if offset <= *last_end + GAP_BYTES_MAX => *last_end = end,
            _ => ranges.push((offset, end)),
        }
    }
    ranges
        .into_iter()
        .map(|(offset, end)| {
            let bytes = segment.read_span(offset, end - offset)?;
            Ok(Span { offset, bytes })
        })
        .collect()
}
