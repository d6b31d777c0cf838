//! Reading a table: from a request to record batches. Where Arrow leaves the engine.
//!
//! Does: find series by tags, prune, cut the work into morsels, merge what segments and head hold of a series, and
//! build batches. Does not: spawn threads; callers read as many morsels at once as they like.
//!
//! A *morsel* is a range of series with about [`MORSEL_ROWS`] rows. Its rows come out ordered by (series, time), with
//! what deletes hide left out, and duplicates treated as the table says.

mod aggregate;
mod choose;
mod conflicts;
mod ends;
mod loss;
pub(crate) mod merge;
mod narrow;
pub(crate) mod output;
mod report;
pub(crate) mod series;
pub(crate) mod source;
mod top;

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use nilometer_codec::{BLOCK_ROWS_MAX, PhysicalType};

use crate::batch::TableRows;
use crate::catalogue::{Layers, TagColumn};
use crate::error::Error;
use crate::head::Run;
use crate::mask::{Deletes, Mask};
use crate::moment::Moment;
use crate::predicate::TagPredicate;
use crate::schema::{ColumnId, ColumnKind, ColumnSource, Duplicates, TableId, TableSchema};
use crate::segment::{BlockEntry, GroupDirectory, Segment};
use narrow::{Narrowed, Survey};
use output::Output;
pub(crate) use output::field_array;
use source::{Cursor, GroupCursor, RunCursor};

pub use aggregate::{
    AggregateRequest, AggregateRow, AggregateSources, AggregateSum, AggregateValue, Aggregates,
    Aggregation, FieldAggregate,
};
pub(crate) use loss::first_loss;
pub use narrow::Narrowing;
pub use report::ScanReport;
pub(crate) use series::find_series;

/// Rows that a morsel aims at.
const MORSEL_ROWS: u64 = 64 * 1024;
/// Rows of a record batch, unless one series' stretch is longer.
const BATCH_ROWS: usize = 8192;
/// Values of a record batch: with very many columns it has fewer rows, because every one has a place in every column.
const BATCH_VALUES: usize = 1 << 20;

/// Rows of a record batch of so many columns.
fn batch_rows(columns: usize) -> usize {
    (BATCH_VALUES / columns.max(1)).clamp(1, BATCH_ROWS)
}

/// What to read.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// The table.
    pub table: Arc<TableSchema>,
    /// Positions in [`TableSchema::arrow_schema`], or [`Self::SERIES`] or [`Self::NTH`], in the order in which they shall
    /// come out.
    pub projection: Vec<usize>,
    /// First and last time in nanoseconds, both included.
    pub time: RangeInclusive<i64>,
    /// All of them must hold.
    pub tags: Vec<TagPredicate>,
    /// More rows than this are not needed; a scan may still return more.
    pub limit: Option<usize>,
}

impl ScanRequest {
    /// A position for the projection beside those of the schema: the id of the row's series, as `_series` of type `UInt32`.
    pub const SERIES: usize = usize::MAX;
    /// Another: the row's place among those of the same series and time, from 0, as `_nth` of type `UInt32`. With the
    /// series and the time it makes a [`crate::RowKey`].
    pub const NTH: usize = usize::MAX - 1;
}

/// A planned read. Clones share the plan.
#[derive(Debug, Clone)]
pub struct Scan {
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Plan {
    schema: SchemaRef,
    duplicates: Duplicates,
    time: RangeInclusive<i64>,
    limit: Option<usize>,
    /// Ids of the series that qualify, ascending.
    series: Vec<u32>,
    /// Positions in `series`: where each morsel ends.
    morsel_ends: Vec<usize>,
    sources: Vec<Source>,
    /// Field columns to read, each once.
    fields: Vec<(ColumnId, PhysicalType)>,
    columns: Vec<OutputColumn>,
    narrowed: Narrowed,
    rows_estimate: u64,
    whole: report::Whole,
    counters: report::Counters,
}

/// Where rows come from, in LSN order: a later source wins.
#[derive(Debug)]
enum Source {
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
enum OutputColumn {
    Time,
    Series,
    Nth,
    /// By position in `Plan::series`.
    Tag(Arc<TagColumn>),
    /// Position in `Plan::fields`.
    Field(usize),
}

impl Scan {
    pub(crate) fn plan(
        moment: &Moment,
        request: &ScanRequest,
        narrowing: &Narrowing,
    ) -> Result<Self, Error> {
        let series = find_series(&moment.layers, &request.table, &request.tags)?;
        let &Narrowing::Top { rows, newest, ties } = narrowing else {
            return Self::narrowed(moment, request, series, narrowing);
        };
        let sources = find_sources(moment, request, &series)?;
        let wanted = top::Wanted { rows, newest, ties };
        let duplicates = request.table.settings.duplicates;
        let left = top::find(&sources, &series, &request.time, duplicates, wanted)?;
        let series = left.series.unwrap_or(series);
        let request = ScanRequest {
            time: left.time,
            ..request.clone()
        };
        Self::narrowed(moment, &request, series, narrowing)
    }

    /// A scan of these series, ascending; the request's conditions on tags are not looked at.
    pub(crate) fn of_series(
        moment: &Moment,
        request: &ScanRequest,
        series: Vec<u32>,
    ) -> Result<Self, Error> {
        let narrowing = Narrowing::None;
        Self::narrowed(moment, request, series, &narrowing)
    }

    fn narrowed(
        moment: &Moment,
        request: &ScanRequest,
        series: Vec<u32>,
        narrowing: &Narrowing,
    ) -> Result<Self, Error> {
        let table = &request.table;
        if moment.names.table(table.id).is_none() {
            return Err(Error::TableDropped {
                table: table.name.clone(),
            });
        }
        let (columns, mut fields) = plan_columns(&moment.layers, request, &series)?;
        let narrowed = Narrowed::of(narrowing, request, &mut fields);
        let sources = find_sources(moment, request, &series)?;
        let mut rows_estimate = estimate(&sources, &series, &request.time);
        if let Narrowed::Ends { first, last } = narrowed {
            // One block or two of each series are read, and the rest is not.
            let rows = (first + last).max(BLOCK_ROWS_MAX) * series.len();
            rows_estimate = rows_estimate.min(rows as u64);
        }
        let arrow = table.arrow_schema();
        let kept = request.projection.iter().filter_map(|&at| match at {
            ScanRequest::SERIES => Some(hidden_field("_series")),
            ScanRequest::NTH => Some(hidden_field("_nth")),
            at => arrow.fields().get(at).cloned(),
        });
        let schema = Arc::new(Schema::new(kept.collect::<Vec<_>>()));
        let morsels = usize::try_from(rows_estimate.div_ceil(MORSEL_ROWS)).unwrap_or(usize::MAX);
        let morsels = morsels.clamp(1, series.len().max(1));
        let morsel_ends = (1..=morsels).map(|n| series.len() * n / morsels).collect();
        Ok(Self {
            plan: Arc::new(Plan {
                schema,
                duplicates: table.settings.duplicates,
                time: request.time.clone(),
                limit: request.limit,
                series,
                morsel_ends,
                sources,
                fields,
                columns,
                narrowed,
                rows_estimate,
                whole: report::Whole::of(&moment.state, table.id),
                counters: report::Counters::default(),
            }),
        })
    }

    /// Columns of the batches.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }

    /// Number of morsels, at least 1.
    pub fn morsels(&self) -> usize {
        self.plan.morsel_ends.len()
    }

    /// Number of series that qualify.
    pub fn series(&self) -> usize {
        self.plan.series.len()
    }

    /// What it reads and what it leaves alone.
    pub fn report(&self) -> ScanReport {
        report::report(&self.plan)
    }

    /// Rows that may come out, counting duplicates and the whole of blocks at the edges.
    pub fn rows_estimate(&self) -> u64 {
        self.plan.rows_estimate
    }

    /// Reads everything as rows of a table: series, times and the fields of the request.
    pub(crate) fn read_rows(
        &self,
        table: TableId,
        mut visit: impl FnMut(TableRows),
    ) -> Result<(), Error> {
        for morsel in 0..self.morsels() {
            let reader = self.read(morsel);
            let mut reading = reader.open()?;
            while reading.at < reader.end {
                reading.add_series(&self.plan)?;
            }
            visit(reading.output.take_rows(table, &self.plan.series));
        }
        Ok(())
    }

    /// Reads one morsel, numbered from 0. A number past the last gives no batch.
    pub fn read(&self, morsel: usize) -> MorselReader {
        let ends = &self.plan.morsel_ends;
        let end = ends.get(morsel).copied().unwrap_or(0);
        let start = match morsel {
            0 => 0,
            n => ends.get(n - 1).copied().unwrap_or(end),
        };
        MorselReader {
            plan: Arc::clone(&self.plan),
            start,
            end: end.max(start),
            state: ReaderState::Planned,
        }
    }
}

fn hidden_field(name: &str) -> FieldRef {
    Arc::new(Field::new(name, DataType::UInt32, false))
}

/// Field columns to read, each once.
type Fields = Vec<(ColumnId, PhysicalType)>;

fn plan_columns(
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
fn find_sources(
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
    for segment in &state.version.segments {
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
    let frozen = state.frozen.as_ref().map(|frozen| &frozen.head);
    for head in frozen.into_iter().chain([&state.head]) {
        for (run, visible) in head.runs(table, visible) {
            let mask = Mask::of_run(&deletes, &run);
            sources.push(Source::Run { run, visible, mask });
        }
    }
    Ok(sources)
}

/// Blocks that are looked at in the time that one series is looked up among them.
const BLOCKS_PER_SEARCH: usize = 8;

fn estimate(sources: &[Source], series: &[u32], time: &RangeInclusive<i64>) -> u64 {
    let touches = |first: u32, last: u32| {
        let at = series.partition_point(|&id| id < first);
        series.get(at).is_some_and(|&id| id <= last)
    };
    sources
        .iter()
        .map(|source| match source {
            Source::Run { visible, .. } => *visible as u64,
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

/// The batches of one morsel.
#[derive(Debug)]
pub struct MorselReader {
    plan: Arc<Plan>,
    /// Positions in `Plan::series`.
    start: usize,
    end: usize,
    state: ReaderState,
}

#[derive(Debug)]
enum ReaderState {
    Planned,
    Reading(Box<Reading>),
    Done,
}

#[derive(Debug)]
struct Reading {
    cursors: Vec<Opened>,
    survey: Option<Survey>,
    output: Output,
    ready: VecDeque<RecordBatch>,
    /// Position of the next series.
    at: usize,
    rows: usize,
}

/// A source while it is read.
#[derive(Debug)]
struct Opened {
    cursor: Cursor,
    /// What is hidden of its rows.
    mask: Mask,
    /// It has at most one row of a key.
    is_plain: bool,
}

impl Iterator for MorselReader {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        match next {
            Ok(Some(batch)) => Some(Ok(batch)),
            Ok(None) => {
                self.state = ReaderState::Done;
                None
            }
            Err(error) => {
                self.state = ReaderState::Done;
                Some(Err(error))
            }
        }
    }
}

impl MorselReader {
    /// What it holds of the rows that it is about to give: pages, blocks that are decoded, batches. Roughly.
    pub fn held_bytes(&self) -> usize {
        let ReaderState::Reading(reading) = &self.state else {
            return 0;
        };
        let cursors = reading.cursors.iter();
        let cursors: usize = cursors.map(|opened| opened.cursor.held_bytes()).sum();
        let ready = reading.ready.iter().map(RecordBatch::get_array_memory_size);
        let output = reading.output.rows() * self.plan.columns.len() * size_of::<u64>();
        cursors + ready.sum::<usize>() + output
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>, Error> {
        if matches!(self.state, ReaderState::Planned) {
            self.state = ReaderState::Reading(Box::new(self.open()?));
        }
        let ReaderState::Reading(reading) = &mut self.state else {
            return Ok(None);
        };
        let plan = &self.plan;
        while reading.ready.is_empty() && reading.at < self.end {
            if plan.limit.is_some_and(|limit| reading.rows >= limit) {
                reading.at = self.end;
                break;
            }
            reading.add_series(plan)?;
            while reading.output.rows() >= batch_rows(plan.columns.len()) {
                reading.ready.push_back(reading.output.take(plan));
            }
        }
        if let Some(batch) = reading.ready.pop_front() {
            return Ok(Some(batch));
        }
        if reading.output.rows() > 0 {
            return Ok(Some(reading.output.take(plan)));
        }
        Ok(None)
    }

    fn open(&self) -> Result<Reading, Error> {
        let plan = &self.plan;
        let series = plan.series.get(self.start..self.end).unwrap_or_default();
        let survey = Survey::of(plan, self.start..self.end)?;
        let mut cursors = Vec::new();
        for source in &plan.sources {
            let (cursor, mask, is_plain) = match source {
                Source::Run { run, visible, mask } => {
                    let cursor = RunCursor::open(run, *visible, series, &plan.fields);
                    // Whether a piece has one key twice is seen when it is there.
                    (cursor.map(Cursor::Run), mask, true)
                }
                Source::Group {
                    segment,
                    group,
                    directory,
                    mask,
                } => {
                    let cursor = match &survey {
                        None => {
                            let time = &plan.time;
                            GroupCursor::open(segment, directory, series, time, &plan.fields)?
                        }
                        Some(survey) => survey.open(plan, segment, *group, directory)?,
                    };
                    if let Some(cursor) = &cursor {
                        plan.counters.add(cursor.reads());
                    }
                    let is_plain = !segment.group(*group)?.has_duplicates;
                    let cursor = cursor.map(|cursor| Cursor::Group(Box::new(cursor)));
                    (cursor, mask, is_plain)
                }
            };
            cursors.extend(cursor.map(|cursor| Opened {
                cursor,
                mask: mask.clone(),
                is_plain,
            }));
        }
        Ok(Reading {
            cursors,
            survey,
            output: Output::new(&plan.fields),
            ready: VecDeque::new(),
            at: self.start,
            rows: 0,
        })
    }
}

impl Reading {
    /// Adds the rows of the next series.
    fn add_series(&mut self, plan: &Plan) -> Result<(), Error> {
        let position = self.at;
        self.at += 1;
        let Some(&series) = plan.series.get(position) else {
            return Ok(());
        };
        let mut pieces = Vec::new();
        for (rank, source) in self.cursors.iter_mut().enumerate() {
            let before = pieces.len();
            let (cursor, mask) = (&mut source.cursor, &source.mask);
            cursor.take(series, rank, &plan.time, &mut pieces)?;
            if !mask.is_empty() || self.survey.is_some() {
                let mut new = pieces.split_off(before);
                new.retain_mut(|piece| {
                    if let Some(survey) = &self.survey {
                        survey.narrow_piece(plan, position, source.is_plain, piece);
                    }
                    piece.rows.len() > 0 && (mask.is_empty() || piece.hide(series, mask))
                });
                pieces.append(&mut new);
            }
        }
        if let Some(survey) = &self.survey {
            survey.narrow_series(plan, position, &mut pieces);
        }
        if !pieces.is_empty() {
            let before = self.output.rows();
            merge::append(pieces, position, plan.duplicates, &mut self.output);
            self.rows += self.output.rows() - before;
        }
        Ok(())
    }
}
