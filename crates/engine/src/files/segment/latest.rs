//! The last row of each series of a group: where it is, and its values.
//!
//! Does: find them once, from the directory, statistics and, where those do not say, pages. Does not: know deletes or other
//! sources; whoever asks looks at those. It never changes, as its file does not, and is kept in the segment cache.

mod runs;

use nilometer_codec::stats::PageStatistics;
use nilometer_codec::{ColumnBuf, PhysicalType, ValuesRef};

use super::directory::{BlockEntry, GroupDirectory};
use super::{SERIES_PAGE, Segment, TIME_PAGE};
use crate::error::Error;
pub(crate) use runs::{GroupRuns, SharedRun};

/// The last rows of a group, by series, ascending.
#[derive(Debug)]
pub(crate) struct Latest {
    pub(crate) series: Vec<u32>,
    pub(crate) times: Vec<i64>,
    /// Block and row.
    places: Vec<(u32, u32)>,
    /// Whether another row of the series may have the same time.
    tied: Vec<Tie>,
    /// Two rows of the group may have one series and time.
    pub(crate) has_ties: bool,
}

/// Whether rows of a series may have the time of its last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tie {
    No,
    /// In its block, where the one that was written last stands last.
    InBlock,
    /// In another block.
    Across,
}

/// What these rows have in a column. Integers and floats as their 64 bits, booleans as 0 or 1.
#[derive(Debug)]
pub(crate) struct LatestColumn {
    bits: Vec<u64>,
    /// Which of them are there.
    valid: Vec<bool>,
}

impl Latest {
    pub(super) fn of(
        segment: &Segment,
        directory: &GroupDirectory,
        has_duplicates: bool,
    ) -> Result<Self, Error> {
        let mut latest = Self {
            series: Vec::new(),
            times: Vec::new(),
            places: Vec::new(),
            tied: Vec::new(),
            has_ties: has_duplicates,
        };
        // By series, the times of its rows in blocks so far.
        let mut spans: Vec<(i64, i64)> = Vec::new();
        for (number, block) in (0..).zip(&directory.blocks) {
            if !block.is_shared() {
                let last = (block.max_time, block.rows.saturating_sub(1));
                let span = (block.min_time, block.max_time);
                latest.add(&mut spans, block.first_series, number, last, span);
                continue;
            }
            for run in shared_runs(segment, directory, number as usize, block)? {
                latest.has_ties |= run.has_ties;
                let place = (run.last, run.row);
                latest.add(&mut spans, run.series, number, place, (run.first, run.last));
            }
        }
        let mut order: Vec<usize> = (0..latest.series.len()).collect();
        order.sort_by_key(|&at| latest.series.get(at));
        Ok(latest.picked(&order))
    }

    /// Adds rows of a series: the last one's block, time and row, and the first and last time.
    fn add(
        &mut self,
        spans: &mut Vec<(i64, i64)>,
        series: u32,
        block: u32,
        (time, row): (i64, u32),
        span: (i64, i64),
    ) {
        // Blocks stand in the order of their series, but those that several share may come in between.
        let mut known = self.series.iter().rev().take(NEAR_SERIES);
        let at = known.position(|known| *known == series);
        let at = at.map(|back| self.series.len() - 1 - back).or_else(|| {
            let is_new = self.series.last().is_none_or(|last| *last < series);
            (!is_new).then(|| self.series.iter().position(|known| *known == series))?
        });
        let Some(at) = at else {
            self.series.push(series);
            self.times.push(time);
            self.places.push((block, row));
            self.tied.push(Tie::No);
            spans.push(span);
            return;
        };
        if let Some(known) = spans.get_mut(at) {
            self.has_ties |= span.0 <= known.1 && known.0 <= span.1;
            *known = (known.0.min(span.0), known.1.max(span.1));
        }
        let (Some(known), Some(place), Some(tied)) = (
            self.times.get_mut(at),
            self.places.get_mut(at),
            self.tied.get_mut(at),
        ) else {
            return;
        };
        if *known == time {
            *tied = Tie::Across;
        }
        if time > *known {
            (*known, *place, *tied) = (time, (block, row), Tie::No);
        }
    }

    fn picked(&self, order: &[usize]) -> Self {
        fn pick<T: Copy>(list: &[T], order: &[usize]) -> Vec<T> {
            let values = order.iter().filter_map(|at| list.get(*at).copied());
            values.collect()
        }
        Self {
            series: pick(&self.series, order),
            times: pick(&self.times, order),
            places: pick(&self.places, order),
            // Of rows of one time it is not noted whose they are.
            tied: pick(&self.tied, order)
                .into_iter()
                .map(|tied| {
                    let least = if self.has_ties { Tie::InBlock } else { Tie::No };
                    tied.max(least)
                })
                .collect(),
            has_ties: self.has_ties,
        }
    }

    /// Whether it is not sure that this is the last row of a series, by place in the list: another one may have its time.
    /// Of a table that `keeps` such rows the one that was written last is.
    pub(crate) fn is_tied(&self, at: usize, keeps: bool) -> bool {
        let sure = if keeps { Tie::InBlock } else { Tie::No };
        self.tied.get(at).is_none_or(|tied| *tied > sure)
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.series.len() * (4 + 8 + 8 + 1)
    }
}

/// So many series back a block's is looked for first.
const NEAR_SERIES: usize = 4;

/// Rows of one series in a block that several share.
struct Run {
    series: u32,
    first: i64,
    last: i64,
    /// The last one.
    row: u32,
    /// Rows of one time, or times that do not ascend.
    has_ties: bool,
    /// Times that do not ascend.
    is_unordered: bool,
}

fn shared_runs(
    segment: &Segment,
    directory: &GroupDirectory,
    number: usize,
    block: &BlockEntry,
) -> Result<Vec<Run>, Error> {
    let (mut ids, mut times) = (ColumnBuf::default(), ColumnBuf::default());
    let rows = block.rows as usize;
    let is_there = page(segment, directory, SERIES_PAGE, number, &mut ids)?
        && page(segment, directory, TIME_PAGE, number, &mut times)?;
    if !is_there || ids.i64s().len() != rows || times.i64s().len() != rows {
        let reason = "a block of several series does not say which row is whose";
        return Err(Error::corrupt(segment.path(), 0, reason));
    }
    let mut runs = Vec::new();
    let mut row = 0;
    for own in ids.i64s().chunk_by(|one, other| one == other) {
        let times = times.i64s().get(row..row + own.len()).unwrap_or_default();
        row += own.len();
        let (Some(&series), Some(&first), Some(&last)) = (own.first(), times.first(), times.last())
        else {
            continue;
        };
        runs.push(Run {
            series: u32::try_from(series).unwrap_or(u32::MAX),
            first,
            last,
            row: u32::try_from(row).unwrap_or(u32::MAX).saturating_sub(1),
            has_ties: !times.is_sorted_by(|one, other| one < other),
            is_unordered: !times.is_sorted(),
        });
    }
    Ok(runs)
}

/// Decodes a page, or times that have none; false = there is none.
fn page(
    segment: &Segment,
    directory: &GroupDirectory,
    column: u32,
    block: usize,
    to: &mut ColumnBuf,
) -> Result<bool, Error> {
    let Some(entry) = directory.blocks.get(block) else {
        return Ok(false);
    };
    let chunk = directory.chunk(column);
    let Some((chunk, (offset, length))) = chunk.and_then(|it| Some((it, it.page(block)?))) else {
        return Ok(column == TIME_PAGE && entry.fill_even(to));
    };
    let bytes = segment.read_span(offset, u64::from(length))?;
    segment.decode_page(chunk, entry.rows as usize, &bytes, offset, to)?;
    Ok(true)
}

impl LatestColumn {
    /// Of a column of a number type, which `pages` are known of.
    pub(super) fn of(
        segment: &Segment,
        directory: &GroupDirectory,
        latest: &Latest,
        column: u32,
        pages: &[Option<PageStatistics>],
    ) -> Result<Self, Error> {
        let rows = latest.series.len();
        let mut found = Self {
            bits: vec![0; rows],
            valid: vec![false; rows],
        };
        let chunk = directory.chunk(column);
        let mut decoded: Option<u32> = None;
        let mut buffer = ColumnBuf::default();
        // Block by block, so that one that several share is decoded once.
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by_key(|&at| latest.places.get(at));
        for at in order {
            let Some(&(block, row)) = latest.places.get(at) else {
                continue;
            };
            let length = chunk.and_then(|chunk| chunk.lengths.get(block as usize));
            if length.is_none_or(|&length| length == 0) {
                continue;
            }
            let known = pages.get(block as usize).and_then(Option::as_ref);
            let is_own = directory
                .blocks
                .get(block as usize)
                .is_some_and(|it| !it.is_shared());
            let value = if let Some(page) = known.filter(|_| is_own) {
                let last = page.last.filter(|last| u32::from(last.row) == row);
                last.map(|last| last.bits)
            } else {
                if decoded != Some(block) {
                    page(segment, directory, column, block as usize, &mut buffer)?;
                    decoded = Some(block);
                }
                value_at(&buffer, row as usize)
            };
            if let (Some(value), Some(bits), Some(valid)) =
                (value, found.bits.get_mut(at), found.valid.get_mut(at))
            {
                (*bits, *valid) = (value, true);
            }
        }
        Ok(found)
    }

    /// Of a column that none of these rows has a value in; `None` = one may have.
    pub(super) fn absent(directory: &GroupDirectory, latest: &Latest, column: u32) -> Option<Self> {
        let rows = latest.series.len();
        let chunk = directory.chunk(column);
        let has_page = |&(block, _): &(u32, u32)| {
            let length = chunk.and_then(|chunk| chunk.lengths.get(block as usize));
            length.is_some_and(|&length| length > 0)
        };
        (!latest.places.iter().any(has_page)).then(|| Self {
            bits: vec![0; rows],
            valid: vec![false; rows],
        })
    }

    /// The value of the series at a place in the list; `None` = null.
    pub(crate) fn get(&self, at: usize) -> Option<u64> {
        let is_valid = self.valid.get(at).copied().unwrap_or(false);
        self.bits.get(at).copied().filter(|_| is_valid)
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.bits.len() * 9
    }
}

fn value_at(page: &ColumnBuf, row: usize) -> Option<u64> {
    let column = page.as_column();
    if row >= column.rows() || !column.is_present(row) {
        return None;
    }
    Some(match column.values {
        ValuesRef::I64(values) => values.get(row)?.cast_unsigned(),
        ValuesRef::U64(values) => *values.get(row)?,
        ValuesRef::F64(values) => values.get(row)?.to_bits(),
        ValuesRef::Bool(values) => u64::from(*values.get(row)?),
        ValuesRef::Text { .. } | ValuesRef::Bytes { .. } => return None,
    })
}

/// Whether a type's values are bits.
pub(super) fn is_bits(kind: PhysicalType) -> bool {
    !matches!(kind, PhysicalType::Text | PhysicalType::Bytes)
}
