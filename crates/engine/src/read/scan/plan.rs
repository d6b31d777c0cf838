//! Plan of a scan before it reads: which series, from where, which columns.
//!
//! Does: find segments and runs that may hold a row, estimate how many there are, number the fields to read. Does not: read
//! pages, or know how cursors work.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, SchemaRef};
use nilometer_codec::PhysicalType;

use super::counters::Counters;
use super::request::{Narrowing, ScanRequest};
use crate::catalogue::{Layers, TagColumn};
use crate::error::Error;
use crate::head::Run;
use crate::mask::{Deletes, Mask};
use crate::moment::Moment;
use crate::predicate::FieldMatch;
use crate::schema::{ColumnId, ColumnKind, ColumnSource, Duplicates, TableId};
use crate::segment::{BlockEntry, GroupDirectory, Segment, Window};
use crate::state::State;

/// Rows that a morsel aims at.
pub(super) const MORSEL_ROWS: u64 = 64 * 1024;
/// Rows of a record batch, unless one series' stretch is longer.
const BATCH_ROWS: usize = 8192;
/// Values of a record batch: with very many columns it has fewer rows, because every one has a place in every column.
const BATCH_VALUES: usize = 1 << 20;

/// Rows of a record batch of so many columns.
pub(super) fn batch_rows(columns: usize) -> usize {
    (BATCH_VALUES / columns.max(1)).clamp(1, BATCH_ROWS)
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) schema: SchemaRef,
    pub(super) duplicates: Duplicates,
    pub(super) time: RangeInclusive<i64>,
    pub(super) limit: Option<usize>,
    /// Ids of the series that qualify, ascending.
    pub(super) series: Vec<u32>,
    /// Positions in `series`: where each morsel ends.
    pub(super) morsel_ends: Vec<usize>,
    pub(super) sources: Vec<Source>,
    /// Field columns to read, each once.
    pub(super) fields: Vec<(ColumnId, PhysicalType)>,
    pub(super) columns: Vec<OutputColumn>,
    pub(super) narrowed: Narrowed,
    pub(super) rows_estimate: u64,
    pub(super) whole: Whole,
    pub(super) counters: Counters,
}

/// Where rows come from, in LSN order: a later source wins.
#[derive(Debug)]
pub(crate) enum Source {
    Group {
        segment: Arc<Segment>,
        /// Its position in the segment.
        group: usize,
        directory: Arc<GroupDirectory>,
        mask: Mask,
    },
    Run {
        run: Arc<Run>,
        visible: usize,
        mask: Mask,
    },
}

/// How a column of the answer is made.
#[derive(Debug, Clone)]
pub(super) enum OutputColumn {
    Time,
    Series,
    Nth,
    /// By position in `Plan::series`.
    Tag(Arc<TagColumn>),
    /// Position in `Plan::fields`.
    Field(usize),
}

/// What of it is looked at while a morsel is read.
#[derive(Debug, Default)]
pub(super) enum Narrowed {
    #[default]
    Nothing,
    Fields(Vec<Condition>),
    Ends {
        first: usize,
        last: usize,
    },
}

/// What must hold for a field.
#[derive(Debug)]
pub(super) struct Condition {
    /// Position among the fields of the plan.
    pub(super) slot: usize,
    pub(super) matches: Vec<FieldMatch>,
}

impl Narrowed {
    /// Adds the fields that are looked at to those that are read.
    pub(super) fn of(narrowing: &Narrowing, request: &ScanRequest, fields: &mut Fields) -> Self {
        match narrowing {
            Narrowing::None | Narrowing::Top { .. } => Self::Nothing,
            Narrowing::Ends { first, last } => Self::Ends {
                first: *first,
                last: *last,
            },
            Narrowing::Fields(predicates) => {
                let counts_rows = request.projection.contains(&ScanRequest::NTH)
                    && request.table.settings.duplicates == Duplicates::Keep;
                // The place of a row among those of its key is known only where all of them are.
                if counts_rows {
                    return Self::Nothing;
                }
                let mut conditions: Vec<Condition> = Vec::new();
                for predicate in predicates {
                    let Some(ColumnSource::Field(at)) = request.table.source(predicate.column)
                    else {
                        continue;
                    };
                    let Some(field) = request.table.fields.get(at) else {
                        continue;
                    };
                    let ColumnKind::Field(kind) = field.kind else {
                        continue;
                    };
                    let known = fields.iter().position(|(id, _)| *id == field.id);
                    let slot = known.unwrap_or_else(|| {
                        fields.push((field.id, kind));
                        fields.len() - 1
                    });
                    let matches = predicate.matches.clone();
                    match conditions.iter_mut().find(|it| it.slot == slot) {
                        Some(known) => known.matches.push(matches),
                        None => conditions.push(Condition {
                            slot,
                            matches: vec![matches],
                        }),
                    }
                }
                if conditions.is_empty() {
                    Self::Nothing
                } else {
                    Self::Fields(conditions)
                }
            }
        }
    }
}

/// How much of the table there is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Whole {
    pub(super) segments: u64,
    pub(super) partitions: u64,
}

impl Whole {
    pub(super) fn of(state: &State, table: TableId) -> Self {
        let segments = state.version.segments_of(table);
        let with_rows = segments.filter(|segment| segment.groups(table).next().is_some());
        let edge = |time| Window {
            table,
            start: time,
            end: time,
        };
        let windows = state.version.windows.range(edge(i64::MIN)..=edge(i64::MAX));
        Self {
            segments: with_rows.count() as u64,
            partitions: windows.count() as u64,
        }
    }
}

pub(super) fn hidden_field(name: &str) -> FieldRef {
    Arc::new(Field::new(name, DataType::UInt32, false))
}

/// Field columns to read, each once.
pub(super) type Fields = Vec<(ColumnId, PhysicalType)>;

pub(super) fn plan_columns(
    layers: &Layers,
    request: &ScanRequest,
    series: &[u32],
) -> Result<(Vec<OutputColumn>, Fields), Error> {
    let table = &request.table;
    let mut fields = Fields::new();
    // By position in the table, because one may be asked for twice.
    let mut slots = vec![None; table.fields.len()];
    let mut columns = Vec::new();
    for &position in &request.projection {
        match table.source(position) {
            None if position == ScanRequest::SERIES => columns.push(OutputColumn::Series),
            None if position == ScanRequest::NTH => columns.push(OutputColumn::Nth),
            None => {}
            Some(ColumnSource::Time) => columns.push(OutputColumn::Time),
            Some(ColumnSource::Tag(at)) => {
                let Some(tag) = table.tags.get(at) else {
                    continue;
                };
                let column = layers.tag_column(table.id, tag.id, series)?;
                columns.push(OutputColumn::Tag(Arc::new(column)));
            }
            Some(ColumnSource::Field(at)) => {
                let Some(field) = table.fields.get(at) else {
                    continue;
                };
                let ColumnKind::Field(kind) = field.kind else {
                    continue;
                };
                let Some(slot) = slots.get_mut(at) else {
                    continue;
                };
                let slot = *slot.get_or_insert_with(|| {
                    fields.push((field.id, kind));
                    fields.len() - 1
                });
                columns.push(OutputColumn::Field(slot));
            }
        }
    }
    Ok((columns, fields))
}

/// Groups and runs that may hold a row of the answer, oldest first.
pub(crate) fn find_sources(
    moment: &Moment,
    request: &ScanRequest,
    series: &[u32],
) -> Result<Vec<Source>, Error> {
    let mut sources = Vec::new();
    let (Some(&first), Some(&last)) = (series.first(), series.last()) else {
        return Ok(sources);
    };
    let table = request.table.id;
    let (state, visible) = (&moment.state, moment.visible);
    let deletes = Deletes::new(&state.tombstones(table, visible));
    let mut own = Vec::new();
    for segment in state.version.segments_of(table) {
        // What the transaction that reads has staged is newer than what is in memory of others.
        let is_own = state.own.as_ref().is_some_and(|own| own.has(segment));
        let sources = if is_own { &mut own } else { &mut sources };
        for (at, group) in segment.groups(table) {
            let apart = group.max_time < *request.time.start()
                || group.min_time > *request.time.end()
                || group.last_series < first
                || group.first_series > last;
            if !apart {
                let mask = Mask::of_segment(
                    &deletes,
                    segment.meta.applied_lsn,
                    group.first_series..=group.last_series,
                    group.min_time..=group.max_time,
                );
                sources.push(Source::Group {
                    segment: Arc::clone(segment),
                    group: at,
                    directory: segment.directory(at)?,
                    mask,
                });
            }
        }
    }
    for (head, visible) in state.heads(visible) {
        let is_own = state
            .own
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(&own.head, head));
        if is_own {
            sources.append(&mut own);
        }
        for (run, visible) in head.runs(table, visible) {
            let mask = Mask::of_run(&deletes, &run);
            sources.push(Source::Run { run, visible, mask });
        }
    }
    Ok(sources)
}

/// Blocks that are looked at in the time that one series is looked up among them.
const BLOCKS_PER_SEARCH: usize = 8;

pub(super) fn estimate(sources: &[Source], series: &[u32], time: &RangeInclusive<i64>) -> u64 {
    let touches = |first: u32, last: u32| {
        let at = series.partition_point(|&id| id < first);
        series.get(at).is_some_and(|&id| id <= last)
    };
    sources
        .iter()
        .map(|source| match source {
            // All rows of a run, of whatever series, counted for each: a read in slices of about so many rows cut a table whose rows
            // were in memory down to single series, and each of those by its times.
            Source::Run { run, visible, .. } => run.rows_of(*visible, series) as u64,
            Source::Group { directory, .. } => {
                let blocks = &directory.blocks;
                let is_in_time = |block: &&BlockEntry| {
                    block.min_time <= *time.end() && block.max_time >= *time.start()
                };
                let rows = |block: &BlockEntry| u64::from(block.rows);
                if series.len() * BLOCKS_PER_SEARCH < blocks.len() {
                    let mut next = 0;
                    let own = series.iter().flat_map(|&id| {
                        let own = directory.blocks_of(id);
                        // Series may share a block, which counts once.
                        let new = own.start.max(next)..own.end;
                        next = next.max(own.end);
                        new
                    });
                    let own = own.filter_map(|at| blocks.get(at));
                    own.filter(is_in_time).map(rows).sum()
                } else {
                    let own = blocks.iter().filter(is_in_time);
                    let own = own.filter(|block| touches(block.first_series, block.last_series));
                    own.map(rows).sum::<u64>()
                }
            }
        })
        .sum()
}

/// Bytes of large values that rows of these series in a range may have, about: what blocks keep outside of their pages, and
/// texts in memory that are large on average. Those of a block, or of a run, are taken to be spread evenly over its times, since of
/// large values only those are read that are asked for.
pub(super) fn large_bytes(
    sources: &[Source],
    series: &[u32],
    time: &RangeInclusive<i64>,
    fields: &[(ColumnId, PhysicalType)],
) -> u64 {
    let is_asked = |column: ColumnId| fields.iter().any(|(field, _)| *field == column);
    let of_source = |source: &Source| match source {
        Source::Run { run, visible, .. } => {
            let bytes = run.large_bytes(run.rows_of(*visible, series), is_asked);
            if bytes == 0 {
                return 0;
            }
            let times = run.times();
            share(bytes, (*times.start(), *times.end()), time)
        }
        Source::Group { directory, .. } => {
            let large = directory.large.iter();
            let read = large.filter_map(|it| {
                let block = directory.blocks.get(it.block as usize)?;
                let is_read = is_asked(ColumnId(it.column)) && has_one(series, block);
                let span = (block.min_time, block.max_time);
                is_read.then(|| share(u64::from(it.bytes), span, time))
            });
            read.sum()
        }
    };
    sources.iter().map(of_source).sum()
}

/// What a range of time has of bytes that are spread evenly over a span of it.
fn share(bytes: u64, (first, last): (i64, i64), time: &RangeInclusive<i64>) -> u64 {
    let (start, end) = (first.max(*time.start()), last.min(*time.end()));
    if start > end {
        return 0;
    }
    let length = |first: i64, last: i64| i128::from(last) - i128::from(first) + 1;
    let part = i128::from(bytes) * length(start, end) / length(first, last).max(1);
    u64::try_from(part).unwrap_or(bytes)
}

/// Whether a block may have rows of one of these series.
pub(crate) fn has_one(series: &[u32], block: &BlockEntry) -> bool {
    let at = series.partition_point(|&id| id < block.first_series);
    series.get(at).is_some_and(|&id| id <= block.last_series)
}

/// First and last time that rows of these series in a range may have, to the block; `None` = there are none.
pub(super) fn extent(
    sources: &[Source],
    series: &[u32],
    time: &RangeInclusive<i64>,
) -> Option<(i64, i64)> {
    let mut extent: Option<(i64, i64)> = None;
    let mut add = |first: i64, last: i64| {
        if first <= *time.end() && last >= *time.start() {
            let (first, last) = (first.max(*time.start()), last.min(*time.end()));
            let known = extent.unwrap_or((first, last));
            extent = Some((known.0.min(first), known.1.max(last)));
        }
    };
    for source in sources {
        match source {
            Source::Run { run, .. } => {
                let times = run.times();
                add(*times.start(), *times.end());
            }
            Source::Group { directory, .. } => {
                let blocks = &directory.blocks;
                if series.len() * BLOCKS_PER_SEARCH < blocks.len() {
                    let own = series.iter().flat_map(|&id| directory.blocks_of(id));
                    let own = own.filter_map(|at| blocks.get(at));
                    own.for_each(|block| add(block.min_time, block.max_time));
                } else {
                    let all = blocks.iter();
                    all.for_each(|block| add(block.min_time, block.max_time));
                }
            }
        }
    }
    extent
}

/// Whether a block's statistics say what its values are, bit for bit.
pub(super) fn is_number(kind: PhysicalType) -> bool {
    !matches!(kind, PhysicalType::Text | PhysicalType::Bytes)
}
