//! The first and the last rows of series, from as few blocks as possible.
//!
//! Does: find out which blocks may have them, and take a row at the edge of a block from its statistics where those know
//! every field. Does not: read pages.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use nilometer_codec::PhysicalType;
use nilometer_codec::stats::{Edge, PageStatistics};

use super::conflicts::extent;
use super::plan::{Plan, Source, is_number};
use super::source::{Data, DataSource, Piece, Rows};
use crate::batch::{Column, Values};
use crate::error::Error;
use crate::mask::Mask;
use crate::schema::{ColumnId, Duplicates};
use crate::segment::{BlockEntry, GroupDirectory, Segment};

/// A group with rows of a morsel.
pub(super) struct Group<'a> {
    rank: usize,
    segment: &'a Segment,
    number: usize,
    directory: &'a GroupDirectory,
    mask: &'a Mask,
    /// It has at most one row of a key, or all of them are kept.
    is_plain: bool,
    has_duplicates: bool,
    statistics: Statistics,
}

/// What is stored of blocks, unpacked when first asked for.
enum Statistics {
    Unread,
    /// Not of every field.
    Missing,
    /// By field of the plan.
    Known(Vec<FieldPages>),
}

/// What is known of a field's pages.
struct FieldPages {
    id: ColumnId,
    kind: PhysicalType,
    pages: Vec<Option<PageStatistics>>,
}

impl<'a> Group<'a> {
    /// `None` = it has no row of these series.
    pub(super) fn of(
        rank: usize,
        source: &'a Source,
        plan: &Plan,
        series: &[u32],
    ) -> Result<Option<Self>, Error> {
        let Source::Group {
            segment,
            group,
            directory,
            mask,
        } = source
        else {
            return Ok(None);
        };
        let (Some(&first), Some(&last)) = (series.first(), series.last()) else {
            return Ok(None);
        };
        let meta = segment.group(*group)?;
        let is_apart = meta.last_series < first || meta.first_series > last;
        Ok((!is_apart).then_some(Self {
            rank,
            segment,
            number: *group,
            directory,
            mask,
            is_plain: plan.duplicates == Duplicates::Keep || !meta.has_duplicates,
            has_duplicates: meta.has_duplicates,
            statistics: Statistics::Unread,
        }))
    }

    /// Blocks that may have rows of a series, with the group's place among the sources.
    pub(super) fn blocks_of(&self, series: u32) -> impl Iterator<Item = (usize, &'a BlockEntry)> {
        let rank = self.rank;
        let blocks = self.directory.blocks.get(self.directory.blocks_of(series));
        let blocks = blocks.unwrap_or_default().iter();
        blocks.map(move |block| (rank, block))
    }

    fn unpack(&self, plan: &Plan) -> Result<Option<Vec<FieldPages>>, Error> {
        let Some(statistics) = self.segment.statistics(self.number)? else {
            return Ok(None);
        };
        let offset = self.segment.group(self.number)?.statistics_offset();
        let mut all = Vec::new();
        for &(id, kind) in &plan.fields {
            let chunk = self.directory.chunk(id.0);
            if !is_number(kind) || chunk.is_some_and(|chunk| chunk.kind != kind) {
                return Ok(None);
            }
            let column = statistics.column(id.0, kind, self.directory.blocks.len());
            let column = column.map_err(|what| what.at(self.segment.path(), offset))?;
            let pages = column.unwrap_or_default();
            all.push(FieldPages { id, kind, pages });
        }
        Ok(Some(all))
    }

    /// The first or the last row of a block of one series, if its statistics know it.
    fn row(&mut self, plan: &Plan, at: usize, is_last: bool) -> Result<Option<Piece>, Error> {
        if matches!(self.statistics, Statistics::Unread) {
            let fields = self.unpack(plan)?;
            self.statistics = fields.map_or(Statistics::Missing, Statistics::Known);
        }
        let (Statistics::Known(fields), Some(block)) =
            (&self.statistics, self.directory.blocks.get(at))
        else {
            return Ok(None);
        };
        let row = if is_last {
            block.rows.saturating_sub(1)
        } else {
            0
        };
        let mut columns = Vec::new();
        for field in fields {
            let chunk = self.directory.chunk(field.id.0);
            let length = chunk.and_then(|chunk| chunk.lengths.get(at));
            if length.is_none_or(|&length| length == 0) {
                columns.push(None);
                continue;
            }
            let Some(Some(page)) = field.pages.get(at) else {
                return Ok(None);
            };
            let edge = if is_last { page.last } else { page.first };
            let edge = edge.filter(|edge| u32::from(edge.row) == row);
            columns.push(edge.map(|edge| one_value(field.id, field.kind, edge)));
        }
        let time = if is_last {
            block.max_time
        } else {
            block.min_time
        };
        let source = DataSource::Block {
            times: vec![time],
            columns,
        };
        Ok(Some(Piece {
            rank: self.rank,
            data: Arc::new(Data { source }),
            rows: Rows::Range(0..1),
        }))
    }
}

fn one_value(id: ColumnId, kind: PhysicalType, edge: Edge) -> Column {
    let values = match kind {
        PhysicalType::I64 => Values::I64(vec![edge.bits.cast_signed()]),
        PhysicalType::U64 => Values::U64(vec![edge.bits]),
        PhysicalType::F64 => Values::F64(vec![f64::from_bits(edge.bits)]),
        PhysicalType::Bool => Values::Bool(vec![edge.bits != 0]),
        PhysicalType::Text | PhysicalType::Bytes => Values::new(kind),
    };
    let mut column = Column::new(id, kind);
    let rows = values.len();
    column.values = values;
    column.validity.extend(true, rows);
    column
}

/// Which blocks a series needs, and rows at its ends that are known without reading one.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// Blocks that begin up to here may have one of the first rows.
    first: Option<i64>,
    /// Blocks that end from here on may have one of the last rows.
    last: Option<i64>,
    /// The rows at its ends, if all of them are known.
    known: Vec<Piece>,
}

impl Bounds {
    pub(super) fn of(
        series: u32,
        plan: &Plan,
        first: usize,
        last: usize,
        groups: &mut [Group<'_>],
        pieces: &[Piece],
    ) -> Result<Self, Error> {
        let keeps = plan.duplicates == Duplicates::Keep;
        let bound = |count: usize, is_last: bool| {
            (count > 0).then(|| {
                let blocks = groups.iter().flat_map(|group| {
                    let blocks = group.blocks_of(series);
                    blocks.map(move |(_, block)| (group, block))
                });
                let blocks = blocks.filter_map(|(group, block)| {
                    let is_certain = !block.is_shared()
                        && !group
                            .mask
                            .touches(&(series..=series), &(block.min_time..=block.max_time));
                    is_certain.then(|| end_of(block, plan, count, is_last, group.is_plain))?
                });
                let pieces = pieces
                    .iter()
                    .filter_map(|piece| nth(std::slice::from_ref(piece), count, is_last, keeps));
                let all = blocks.chain(pieces);
                // Nothing is certain: everything is needed.
                if is_last {
                    all.max().unwrap_or(i64::MIN)
                } else {
                    all.min().unwrap_or(i64::MAX)
                }
            })
        };
        let mut bounds = Self {
            first: bound(first, false),
            last: bound(last, true),
            known: Vec::new(),
        };
        if first <= 1 && last <= 1 {
            bounds.known = bounds.find_known(series, plan, groups, pieces)?;
        }
        if !bounds.known.is_empty() {
            (bounds.first, bounds.last) = (None, None);
        }
        Ok(bounds)
    }

    /// Whether a block may have a row that is wanted.
    pub(super) fn needs(&self, block: &BlockEntry) -> bool {
        self.first.is_some_and(|first| block.min_time <= first)
            || self.last.is_some_and(|last| block.max_time >= last)
    }

    /// The rows that need not be read.
    pub(super) fn known(&self) -> impl Iterator<Item = Piece> {
        self.known.iter().map(|piece| Piece {
            rank: piece.rank,
            data: Arc::clone(&piece.data),
            rows: Rows::Range(0..piece.rows.len()),
        })
    }

    fn find_known(
        &self,
        series: u32,
        plan: &Plan,
        groups: &mut [Group<'_>],
        pieces: &[Piece],
    ) -> Result<Vec<Piece>, Error> {
        let mut known = Vec::new();
        let mut places = Vec::new();
        for (bound, is_last) in [(self.first, false), (self.last, true)] {
            let Some(bound) = bound else { continue };
            let Some(place) = only_block(series, plan, groups, pieces, bound, is_last) else {
                return Ok(Vec::new());
            };
            places.push((place, is_last));
        }
        for &(place, is_last) in &places {
            let (group, block) = place;
            let Some(group) = groups.get_mut(group) else {
                return Ok(Vec::new());
            };
            let rows = group.directory.blocks.get(block).map_or(0, |it| it.rows);
            // The one row of a block is its first and its last.
            if rows == 1 && is_last && places.first() == Some(&(place, false)) {
                continue;
            }
            match group.row(plan, block, is_last)? {
                Some(piece) => known.push(piece),
                None => return Ok(Vec::new()),
            }
        }
        Ok(known)
    }
}

/// The group and the block that alone can have the row at an end of a series, which is the one at the block's end.
fn only_block(
    series: u32,
    plan: &Plan,
    groups: &[Group<'_>],
    pieces: &[Piece],
    bound: i64,
    is_last: bool,
) -> Option<(usize, usize)> {
    let beyond = |min: i64, max: i64| if is_last { max >= bound } else { min <= bound };
    let mut found = None;
    for (at, group) in groups.iter().enumerate() {
        let places: Range<usize> = group.directory.blocks_of(series);
        for place in places {
            let block = group.directory.blocks.get(place)?;
            if !block.overlaps(&plan.time) || !beyond(block.min_time, block.max_time) {
                continue;
            }
            let end = if is_last {
                block.max_time
            } else {
                block.min_time
            };
            let times = block.min_time..=block.max_time;
            let is_sure = end == bound
                && !block.is_shared()
                // Of rows of one time all are wanted.
                && !group.has_duplicates
                && !group.mask.touches(&(series..=series), &times);
            if !is_sure || found.replace((at, place)).is_some() {
                return None;
            }
        }
    }
    let mut extents = pieces.iter().filter_map(extent);
    found.filter(|_| !extents.any(|(min, max)| beyond(min, max)))
}

/// A time from which on a block has `count` rows that count; `None` = not known.
fn end_of(
    block: &BlockEntry,
    plan: &Plan,
    count: usize,
    is_last: bool,
    is_plain: bool,
) -> Option<i64> {
    let time: &RangeInclusive<i64> = &plan.time;
    let (end, start) = if is_last {
        (block.max_time, block.min_time)
    } else {
        (block.min_time, block.max_time)
    };
    if count == 1 && time.contains(&end) {
        return Some(end);
    }
    let is_inside = time.contains(&end) && time.contains(&start);
    let has_enough = is_inside && is_plain && block.rows as usize >= count;
    (has_enough || (count == 1 && time.contains(&start))).then_some(start)
}

/// The time of the `count`th row from an end; `None` = there are fewer.
fn nth(pieces: &[Piece], count: usize, is_last: bool, keeps: bool) -> Option<i64> {
    let mut times: Vec<i64> = Vec::new();
    for piece in pieces {
        let all = piece.data.times();
        let rows = piece.rows.len();
        let mut distinct = 0;
        let mut before = None;
        for at in 0..rows {
            let at = if is_last { rows - 1 - at } else { at };
            let Some(&time) = all.get(piece.rows.get(at)) else {
                continue;
            };
            if keeps || before != Some(time) {
                distinct += 1;
                if distinct > count {
                    break;
                }
                times.push(time);
            }
            before = Some(time);
        }
    }
    times.sort_unstable();
    if !keeps {
        times.dedup();
    }
    let at = if is_last {
        times.len().checked_sub(count)?
    } else {
        count.checked_sub(1)?
    };
    times.get(at).copied()
}

/// Leaves the rows at the ends of a series, whose pieces these are.
pub(super) fn trim(pieces: &mut Vec<Piece>, first: usize, last: usize, keeps: bool) {
    let bound = |count: usize, is_last: bool, all: i64, none: i64| match count {
        0 => none,
        count => nth(pieces, count, is_last, keeps).unwrap_or(all),
    };
    let first = bound(first, false, i64::MAX, i64::MIN);
    let last = bound(last, true, i64::MIN, i64::MAX);
    pieces.retain_mut(|piece| {
        let times = piece.data.times();
        let rows = (0..piece.rows.len()).map(|at| piece.rows.get(at));
        let kept = rows.filter(|&row| {
            let time = times.get(row).copied();
            time.is_some_and(|time| time <= first || time >= last)
        });
        let kept: Vec<u32> = kept.filter_map(|row| u32::try_from(row).ok()).collect();
        if kept.len() < piece.rows.len() {
            piece.rows = Rows::Picked(kept);
        }
        piece.rows.len() > 0
    });
}
