//! Reading a table: from a request to record batches. Where Arrow leaves the engine.
//!
//! Does: find series by tags, prune, cut the work into morsels, merge what segments and head hold of a series, and
//! build batches. Does not: spawn threads; callers read as many morsels at once as they like.
//!
//! A *morsel* is a range of series with about [`plan::MORSEL_ROWS`] rows. Its rows come out ordered by (series, time), with
//! what deletes hide left out, and duplicates treated as the table says.

mod aggregate;
mod checks;
mod choose;
mod conflicts;
mod counters;
mod ends;
pub(crate) mod merge;
mod narrow;
pub(crate) mod output;
pub(crate) mod plan;
mod report;
mod request;
pub(crate) mod series;
pub(crate) mod source;
mod top;

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use nilometer_codec::BLOCK_ROWS_MAX;

use crate::batch::TableRows;
use crate::error::Error;
use crate::mask::Mask;
use crate::moment::Moment;
use crate::schema::{TableId, TableSchema};
use counters::Counters;
use narrow::Survey;
use output::Output;
pub(crate) use output::field_array;
use plan::{
    MORSEL_ROWS, Narrowed, Plan, Source, Whole, batch_rows, estimate, find_sources, hidden_field,
    plan_columns,
};
use source::{Cursor, GroupCursor, RunCursor};

pub use aggregate::{
    AggregateRequest, AggregateRow, AggregateSources, AggregateSum, AggregateValue, Aggregates,
    Aggregation, FieldAggregate, Fold, FoldBlock, FoldRows, FoldRun, Stretch,
};
pub(crate) use checks::{first_loss, has_rows, has_unmerged};
pub use report::ScanReport;
pub use request::{Narrowing, ScanRequest};
pub(crate) use series::find_series;

/// First and last time that rows of some series of a table in a range may have, to the block; `None` = there are none.
pub(crate) fn extent(
    moment: &Moment,
    table: &Arc<TableSchema>,
    series: &[u32],
    time: &RangeInclusive<i64>,
) -> Result<Option<(i64, i64)>, Error> {
    let request = ScanRequest {
        table: Arc::clone(table),
        projection: Vec::new(),
        time: time.clone(),
        tags: Vec::new(),
        limit: None,
    };
    let sources = find_sources(moment, &request, series)?;
    Ok(plan::extent(&sources, series, time))
}

/// Bytes of text from which on rows begin another batch: an array of it holds less than 2 GiB.
const TEXT_BYTES_MAX: usize = 512 << 20;

/// A planned read. Clones share the plan.
#[derive(Debug, Clone)]
pub struct Scan {
    plan: Arc<Plan>,
}

impl Scan {
    pub(crate) fn plan(
        moment: &Moment,
        request: &ScanRequest,
        narrowing: &Narrowing,
    ) -> Result<Self, Error> {
        let series = find_series(&moment.layers, &request.table, &request.tags)?;
        Self::plan_series(moment, request, series, narrowing)
    }

    /// The same of these series, ascending; the request's conditions on tags are not looked at.
    pub(crate) fn plan_series(
        moment: &Moment,
        request: &ScanRequest,
        series: Vec<u32>,
        narrowing: &Narrowing,
    ) -> Result<Self, Error> {
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
                whole: Whole::of(&moment.state, table.id),
                counters: Counters::default(),
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

    /// Blocks that were read so far, and those that were not because of what statistics say of fields. Costs no look at
    /// directories, as [`Self::report`] does.
    pub fn blocks_so_far(&self) -> (u64, u64) {
        self.plan.counters.blocks_so_far()
    }

    /// Rows that may come out, counting duplicates and the whole of blocks at the edges.
    pub fn rows_estimate(&self) -> u64 {
        self.plan.rows_estimate
    }

    /// Bytes of large values that may come out, about. Other texts are not counted: a block has little of them.
    pub fn large_bytes_estimate(&self) -> u64 {
        let plan = &self.plan;
        plan::large_bytes(&plan.sources, &plan.series, &plan.time, &plan.fields)
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
        let output = reading.output.all_rows() * self.plan.columns.len() * size_of::<u64>();
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
            while reading.output.all_rows() >= batch_rows(plan.columns.len()) {
                reading.ready.push_back(reading.output.take(plan));
            }
        }
        if let Some(batch) = reading.ready.pop_front() {
            return Ok(Some(batch));
        }
        if reading.output.all_rows() > 0 {
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
                            let group = (segment, directory);
                            let (time, counters) = (&plan.time, &plan.counters);
                            GroupCursor::open(group, series, time, &plan.fields, counters)?
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
            output: Output::in_parts(&plan.fields, TEXT_BYTES_MAX),
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
            let before = self.output.all_rows();
            merge::append(pieces, position, plan.duplicates, &mut self.output);
            self.rows += self.output.all_rows() - before;
        }
        Ok(())
    }
}
