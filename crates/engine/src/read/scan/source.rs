//! Cursors: each hands out one source's rows of a series, for series asked for in ascending order.

mod hits;
mod reader;
mod spans;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use nilometer_codec::PhysicalType;

use super::counters::{Counters, GroupRead};
use crate::batch::Column;
use crate::cast::cast;
use crate::error::Error;
use crate::head::Run;
use crate::mask::Mask;
use crate::schema::ColumnId;
use crate::segment::{BlockEntry, GroupDirectory, Segment};
pub(super) use reader::Given;
pub(crate) use reader::{GroupReader, Wanted};
pub(super) use spans::stored;

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

impl GroupCursor {
    /// Of the blocks that may have rows of these series in a range of time; what is read of others is counted.
    pub(super) fn open(
        (segment, directory): (&Arc<Segment>, &Arc<GroupDirectory>),
        series: &[u32],
        time: &RangeInclusive<i64>,
        fields: &[(ColumnId, PhysicalType)],
        counters: &Counters,
    ) -> Result<Option<Self>, Error> {
        let mut blocks = needed_blocks(directory, series, time).collect();
        let mut given = Given::new();
        if !fields.is_empty() {
            let hits = hits::find(segment, directory, blocks, time)?;
            counters.add(hits.read);
            (blocks, given) = (hits.blocks, hits.given);
        }
        let reader = GroupReader::open_given(segment, directory, blocks, fields, given)?;
        Ok(Self::of(reader.wanting(series, time), BTreeMap::new()))
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
            // Nobody asks for it again, and the pieces hold what they need of it.
            self.reader.let_go();
            self.at += 1;
        }
        Ok(())
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
