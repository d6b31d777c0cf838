//! Aggregates of fields by series and bucket of time, from as few decoded rows as possible.
//!
//! Does: take what rollups and statistics say of whole hours and blocks, decode the rows that are left, and say how
//! much came from where. Does not: join series, interpolate, or spawn threads; callers read morsels as those of a scan.
//!
//! What is stored of rows may stand for them only if all of them count, once: they lie in the range of time and in one
//! bucket, no delete touches them, and, unless the table keeps duplicates, no other source has rows of the series in their
//! time. Sums of integers are exact; those of floats are within 1e-12 of the sum of magnitudes, whatever they came from,
//! and everything else is exact. Rows with NaN or an infinity among them are decoded.

mod bucket;
mod cover;
mod fold;
mod group;
mod result;
mod shared;
mod view;

use std::ops::RangeInclusive;
use std::sync::Arc;

use nilometer_codec::PhysicalType;

use super::conflicts::{Conflicts, extent as extent_of};
use super::merge::{self, strictly_ascending};
use super::output::Output;
use super::plan::{
    MORSEL_ROWS, OutputColumn, Source, estimate, extent, find_sources, plan_columns,
};
use super::request::ScanRequest;
use super::series::find_series;
use super::source::{Piece, Rows, RunCursor};
use crate::batch::Column;
use crate::catalogue::TagColumn;
use crate::error::Error;
use crate::moment::Moment;
use crate::predicate::TagPredicate;
use crate::sabotage::Sabotage;
use crate::schema::{ColumnId, Duplicates, TableSchema};
use bucket::ByBucket;
use cover::{Step, cover};
use group::Group;
use view::{Viewer, strictly_ascending_times};

pub use fold::{Fold, FoldBlock, FoldRows, FoldRun, Stretch};
pub use result::{
    AggregateRow, AggregateSources, AggregateSum, AggregateValue, Aggregates, FieldAggregate,
};

/// A morsel has this many times the rows of a scan's, because most of them are not decoded.
const MORSEL_FACTOR: u64 = 4;

/// Series that are added up before others are looked at, where what is known of those may spare these; then twice as many.
const SERIES_FIRST: usize = 32;

/// What to aggregate.
#[derive(Debug, Clone)]
pub struct AggregateRequest {
    /// The table.
    pub table: Arc<TableSchema>,
    /// Positions of fields in [`TableSchema::arrow_schema`]; without any, rows are counted only.
    pub fields: Vec<usize>,
    /// First and last time in nanoseconds, both included.
    pub time: RangeInclusive<i64>,
    /// All of them must hold.
    pub tags: Vec<TagPredicate>,
    /// Width of the buckets, which start at multiples of it; `None` = one bucket of all time.
    pub bucket_ns: Option<i64>,
}

/// A planned aggregation. Clones share the plan.
#[derive(Debug, Clone)]
pub struct Aggregation {
    plan: Arc<Plan>,
}

#[derive(Debug)]
struct Plan {
    table: Arc<TableSchema>,
    duplicates: Duplicates,
    time: RangeInclusive<i64>,
    bucket_ns: Option<i64>,
    series: Vec<u32>,
    morsel_ends: Vec<usize>,
    sources: Vec<Source>,
    /// By source: whether it is a group of which shared blocks may be read block by block.
    apart: Vec<bool>,
    rows_estimate: u64,
    /// Field columns to read, each once.
    fields: Vec<(ColumnId, PhysicalType)>,
    /// By requested field: position in `fields`.
    slots: Vec<usize>,
    /// By tag of the table; `None` = nobody asks for it.
    tags: Vec<Option<Arc<TagColumn>>>,
    sabotage: Option<Sabotage>,
}

impl Aggregation {
    pub(crate) fn plan(
        moment: &Moment,
        request: &AggregateRequest,
        shown_tags: &[usize],
    ) -> Result<Self, Error> {
        let series = find_series(&moment.layers, &request.table, &request.tags)?;
        Self::plan_series(moment, request, series, shown_tags)
    }

    /// The same of these series, ascending; the request's conditions on tags are not looked at.
    pub(crate) fn plan_series(
        moment: &Moment,
        request: &AggregateRequest,
        series: Vec<u32>,
        shown_tags: &[usize],
    ) -> Result<Self, Error> {
        let table = &request.table;
        let scan = ScanRequest {
            table: Arc::clone(table),
            // In the table's schema the time comes first, then the tags.
            projection: shown_tags
                .iter()
                .map(|tag| tag + 1)
                .chain(request.fields.iter().copied())
                .collect(),
            time: request.time.clone(),
            tags: request.tags.clone(),
            limit: None,
        };
        if moment.names.table(table.id).is_none() {
            return Err(Error::TableDropped {
                table: table.name.clone(),
            });
        }
        let (columns, fields) = plan_columns(&moment.layers, &scan, &series)?;
        let mut tags = vec![None; table.tags.len()];
        let mut slots = Vec::new();
        for (at, column) in columns.into_iter().enumerate() {
            match column {
                OutputColumn::Tag(tag) => {
                    if let Some(slot) = shown_tags.get(at).and_then(|&at| tags.get_mut(at)) {
                        *slot = Some(tag);
                    }
                }
                OutputColumn::Field(slot) => slots.push(slot),
                OutputColumn::Time | OutputColumn::Series | OutputColumn::Nth => {}
            }
        }
        let sources = find_sources(moment, &scan, &series)?;
        let rows = estimate(&sources, &series, &request.time);
        let apart = shared::apart(&sources, series.len())?;
        let morsels = usize::try_from(rows.div_ceil(MORSEL_FACTOR * MORSEL_ROWS));
        let morsels = morsels.unwrap_or(usize::MAX).clamp(1, series.len().max(1));
        Ok(Self {
            plan: Arc::new(Plan {
                table: Arc::clone(table),
                duplicates: table.settings.duplicates,
                time: request.time.clone(),
                bucket_ns: request.bucket_ns.map(|width| width.max(1)),
                morsel_ends: (1..=morsels).map(|n| series.len() * n / morsels).collect(),
                series,
                sources,
                apart,
                rows_estimate: rows,
                fields,
                slots,
                tags,
                sabotage: moment.sabotage,
            }),
        })
    }

    /// Number of morsels, at least 1.
    pub fn morsels(&self) -> usize {
        self.plan.morsel_ends.len()
    }

    /// Number of series that qualify.
    pub fn series(&self) -> usize {
        self.plan.series.len()
    }

    /// The value of a tag, by its position in the table's list of tags, of the series at a position; `None` = absent.
    pub fn tag(&self, tag: usize, position: usize) -> Option<&str> {
        self.plan.tags.get(tag)?.as_ref()?.value(position)
    }

    /// Rows that may be added up, counting duplicates and the whole of blocks at the edges.
    pub fn rows_estimate(&self) -> u64 {
        self.plan.rows_estimate
    }

    /// Of those, how many are likely to be read one series after another although each has few: those of blocks that several series
    /// share and that are not by themselves, and those in memory.
    pub fn rows_scattered(&self) -> u64 {
        shared::rows_scattered(&self.plan)
    }

    /// First and last time that its rows may have; `None` = there are none. Neither need have a row.
    pub fn extent(&self) -> Option<(i64, i64)> {
        extent(&self.plan.sources, &self.plan.series, &self.plan.time)
    }

    /// The types of the fields that are given to a [`Fold`]: those of the request, each once.
    pub fn kinds(&self) -> impl Iterator<Item = PhysicalType> {
        self.plan.fields.iter().map(|(_, kind)| *kind)
    }

    /// Gives the rows of one morsel, numbered from 0, to who adds them up. A number past the last gives nothing.
    pub fn fold<F: Fold>(&self, morsel: usize, fold: &mut F) -> Result<AggregateSources, F::Error> {
        let ends = &self.plan.morsel_ends;
        let end = ends.get(morsel).copied().unwrap_or(0);
        let start = match morsel {
            0 => 0,
            n => ends.get(n - 1).copied().unwrap_or(end),
        };
        Morsel::new(&self.plan, start..end.max(start), fold.wants_ends()).read(fold)
    }

    /// Aggregates one morsel, numbered from 0. A number past the last gives nothing.
    pub fn read(&self, morsel: usize) -> Result<Aggregates, Error> {
        let mut by_bucket = ByBucket::new(&self.plan);
        let used = self.fold(morsel, &mut by_bucket)?;
        Ok(Aggregates {
            rows: by_bucket.finish(),
            used,
        })
    }

    /// Aggregates all morsels, one after another.
    pub fn read_all(&self) -> Result<Aggregates, Error> {
        let mut all = Aggregates::default();
        for morsel in 0..self.morsels() {
            let part = self.read(morsel)?;
            all.rows.extend(part.rows);
            all.used.add(&part.used);
        }
        Ok(all)
    }
}

/// Some series, first looked at to know which blocks must be decoded, then added up.
struct Morsel<'a> {
    plan: &'a Plan,
    positions: std::ops::Range<usize>,
    /// By source; `None` = a run, or a group without rows of these series.
    groups: Vec<Option<Group<'a>>>,
    used: AggregateSources,
    stretches: Vec<Stretch>,
}

impl<'a> Morsel<'a> {
    fn new(plan: &'a Plan, positions: std::ops::Range<usize>, ends: bool) -> Self {
        let series = plan.series.get(positions.clone()).unwrap_or_default();
        let span = series.first().zip(series.last());
        let groups = plan.sources.iter().map(|source| match source {
            Source::Group {
                segment,
                group,
                directory,
                mask,
            } => {
                let (first, last) = span?;
                let blocks = &directory.blocks;
                let is_apart = blocks
                    .first()
                    .is_none_or(|block| block.first_series > *last)
                    || blocks.last().is_none_or(|block| block.last_series < *first);
                let group = || Group::new(segment, *group, directory, mask, &plan.fields, ends);
                (!is_apart).then(group)
            }
            Source::Run { .. } => None,
        });
        Self {
            plan,
            positions,
            groups: groups.collect(),
            used: AggregateSources::default(),
            stretches: Vec::new(),
        }
    }

    fn read<F: Fold>(mut self, fold: &mut F) -> Result<AggregateSources, F::Error> {
        let is_part = fold.takes_runs() && self.read_shared(fold)?;
        let all = self.plan.series.get(self.positions.clone());
        let all = self
            .positions
            .clone()
            .zip(all.unwrap_or_default().iter().copied());
        let all: Vec<(usize, u32)> = if is_part {
            let is_left = self.left();
            all.zip(is_left)
                .filter_map(|(series, is_left)| is_left.then_some(series))
                .collect()
        } else {
            all.collect()
        };
        let mut rest = all.as_slice();
        let mut series = if fold.may_pass_over() {
            SERIES_FIRST
        } else {
            usize::MAX
        };
        while !rest.is_empty() {
            let (part, after) = rest.split_at(series.min(rest.len()));
            self.read_part(part, fold)?;
            series = series.saturating_mul(2);
            rest = after;
        }
        fold.hold(0)?;
        Ok(self.used)
    }

    /// Adds up some of the series: position and id.
    fn read_part<F: Fold>(
        &mut self,
        series: &[(usize, u32)],
        fold: &mut F,
    ) -> Result<(), F::Error> {
        let plan = self.plan;
        let steps = self.plan_steps(series, fold)?;
        let groups = self.groups.iter().flatten();
        fold.hold(groups.map(|group| group.bytes_needed(&plan.fields)).sum())?;
        let mut readers = Vec::new();
        for group in &mut self.groups {
            let reader = match group {
                Some(group) => group.open_reader(&plan.fields)?.map(Viewer::new),
                None => None,
            };
            readers.push(reader);
        }
        for (&(position, id), steps) in series.iter().zip(steps) {
            self.add_up((position, id), steps, &mut readers, fold)?;
        }
        Ok(())
    }

    /// By series, what to do in the order of sources; blocks that must be decoded are noted.
    fn plan_steps(
        &mut self,
        series: &[(usize, u32)],
        fold: &mut impl Fold,
    ) -> Result<Vec<Vec<Step>>, Error> {
        let plan = self.plan;
        let mut runs = Vec::new();
        for (rank, source) in plan.sources.iter().enumerate() {
            if let Source::Run { run, visible, mask } = source {
                let first: Vec<u32> = series.first().map(|(_, id)| *id).into_iter().collect();
                let cursor = RunCursor::open(run, *visible, &first, &plan.fields);
                runs.extend(cursor.map(|cursor| (rank, cursor, mask)));
            }
        }
        let mut all = Vec::with_capacity(series.len());
        for &(position, id) in series {
            let mut pieces: Vec<Piece> = Vec::new();
            for (rank, cursor, mask) in &mut runs {
                let before = pieces.len();
                cursor.take(id, *rank, &plan.time, &mut pieces);
                if !mask.is_empty() {
                    let mut new = pieces.split_off(before);
                    new.retain_mut(|piece| piece.hide(id, mask));
                    pieces.append(&mut new);
                }
            }
            let conflicts = match plan.duplicates {
                Duplicates::Keep => Conflicts::default(),
                Duplicates::Last | Duplicates::Unique => self.conflicts(id, &pieces),
            };
            let mut pieces = pieces.into_iter().peekable();
            let mut steps = Vec::new();
            for (rank, group) in self.groups.iter_mut().enumerate() {
                if let Some(group) = group {
                    cover(id, rank, (plan, &*fold), group, &conflicts, &mut steps)?;
                } else if let Some(piece) = pieces.next_if(|piece| piece.rank == rank) {
                    let is_alone = plan.duplicates == Duplicates::Keep
                        || (strictly_ascending(&piece)
                            && extent_of(&piece)
                                .is_some_and(|(first, last)| !conflicts.touches(first, last)));
                    steps.push(Step::Piece { piece, is_alone });
                }
            }
            if fold.may_pass_over() {
                let mut needed = Vec::with_capacity(steps.len());
                for step in steps {
                    if !self.passes_over(position, &step, fold)? {
                        needed.push(step);
                    }
                }
                steps = needed;
            }
            for step in &steps {
                if let Step::Rows { source, block, .. } = step
                    && let Some(Some(group)) = self.groups.get_mut(*source)
                {
                    self.used.blocks += u64::from(group.need(*block));
                }
            }
            all.push(steps);
        }
        Ok(all)
    }

    /// Where several sources may have rows of one time of a series.
    fn conflicts(&self, series: u32, pieces: &[Piece]) -> Conflicts {
        let groups = self.groups.iter().enumerate();
        let groups = groups.filter_map(|(rank, group)| Some((rank, group.as_ref()?)));
        let groups = groups.filter(|(_, group)| !group.blocks_of(series).is_empty());
        if groups.clone().count() + pieces.len() < 2 {
            return Conflicts::default();
        }
        let blocks = groups.flat_map(|(rank, group)| {
            let blocks = group.blocks_of(series).filter_map(|at| group.block(at));
            blocks.map(move |block| (rank, block))
        });
        Conflicts::of(&self.plan.time, blocks, pieces)
    }

    fn add_up<F: Fold>(
        &mut self,
        (position, series): (usize, u32),
        steps: Vec<Step>,
        readers: &mut [Option<Viewer>],
        fold: &mut F,
    ) -> Result<(), F::Error> {
        let plan = self.plan;
        // Rows of all sources, which may have to be merged.
        let mut together = Vec::new();
        for step in steps {
            match step {
                Step::Hours { source, entries } => {
                    let Some(Some(group)) = self.groups.get(source) else {
                        continue;
                    };
                    self.used.rollups += entries.len() as u64;
                    let hours = group.hour_entries().get(entries.clone());
                    self.stretches.clear();
                    let hours = hours.unwrap_or_default().iter();
                    self.stretches.extend(hours.map(|hour| Stretch {
                        first_ns: hour.min_time,
                        last_ns: hour.max_time,
                        rows: hour.rows,
                    }));
                    let mut fields = Vec::with_capacity(plan.fields.len());
                    group.of_hours(&entries, &mut fields);
                    self.used.rows_known += rows_of(&self.stretches);
                    fold.stored(position, &self.stretches, &fields)?;
                }
                Step::Blocks { source, blocks } => {
                    let Some(Some(group)) = self.groups.get(source) else {
                        continue;
                    };
                    self.used.statistics += blocks.len() as u64;
                    let own = group.directory.blocks.get(blocks.clone());
                    self.stretches.clear();
                    let own = own.unwrap_or_default().iter();
                    self.stretches.extend(own.map(|block| Stretch {
                        first_ns: block.min_time,
                        last_ns: block.max_time,
                        rows: block.rows,
                    }));
                    let mut fields = Vec::with_capacity(plan.fields.len());
                    group.of_blocks(&blocks, &mut fields);
                    self.used.rows_known += rows_of(&self.stretches);
                    fold.stored(position, &self.stretches, &fields)?;
                }
                Step::Rows {
                    source,
                    block,
                    rows,
                    is_alone,
                } => {
                    let (Some(Some(group)), Some(Some(reader))) =
                        (self.groups.get(source), readers.get_mut(source))
                    else {
                        continue;
                    };
                    if is_alone
                        && let Some(view) =
                            reader.view(block, rows.as_ref().map(|rows| rows.end))?
                        && let Some(mut range) = view.rows_of(series, &plan.time)
                    {
                        if let Some(rows) = &rows {
                            range = range.start.max(rows.start)..range.end.min(rows.end);
                        }
                        let own = view.times.get(range.clone()).unwrap_or_default();
                        let keeps = plan.duplicates == Duplicates::Keep;
                        if keeps || strictly_ascending_times(own) {
                            self.used.rows += range.len() as u64;
                            let rows = FoldRows {
                                times: view.times,
                                columns: &view.columns,
                                range,
                            };
                            fold.rows(position, rows)?;
                            continue;
                        }
                    }
                    let reader = &mut reader.reader;
                    let piece = group.decode(reader, block, series, &plan.time, rows, source)?;
                    self.give_or_keep(piece, position, &mut together, fold)?;
                }
                Step::Piece { piece, is_alone } if is_alone => {
                    self.give(vec![piece], position, fold)?;
                }
                Step::Piece { piece, .. } => {
                    self.give_or_keep(Some(piece), position, &mut together, fold)?;
                }
            }
        }
        if !together.is_empty() {
            self.give(together, position, fold)?;
        }
        Ok(())
    }

    /// Whether a step is to read rows of a block of one series that need not be read.
    fn passes_over(
        &mut self,
        position: usize,
        step: &Step,
        fold: &mut impl Fold,
    ) -> Result<bool, Error> {
        let Step::Rows {
            source,
            block,
            rows: Some(_),
            is_alone: true,
        } = step
        else {
            return Ok(false);
        };
        let Some(Some(group)) = self.groups.get_mut(*source) else {
            return Ok(false);
        };
        let known = group.block(*block);
        let Some((times, rows)) = known.map(|it| ((it.min_time, it.max_time), it.rows)) else {
            return Ok(false);
        };
        if !group.block_is_usable(*block)? {
            return Ok(false);
        }
        let asked = &self.plan.time;
        let times = (times.0.max(*asked.start()), times.1.min(*asked.end()));
        let mut fields = Vec::with_capacity(self.plan.fields.len());
        group.of_blocks(&(*block..*block + 1), &mut fields);
        let is_passed = fold.passes_over(position, times, &fields);
        self.used.statistics += u64::from(is_passed);
        self.used.rows_known += if is_passed { u64::from(rows) } else { 0 };
        Ok(is_passed)
    }

    /// Gives rows that are not merged with others, and puts those aside that are.
    fn give_or_keep<F: Fold>(
        &mut self,
        piece: Option<Piece>,
        position: usize,
        together: &mut Vec<Piece>,
        fold: &mut F,
    ) -> Result<(), F::Error> {
        match piece {
            None => Ok(()),
            Some(piece) if self.plan.duplicates == Duplicates::Keep => {
                self.give(vec![piece], position, fold)
            }
            Some(piece) => {
                together.push(piece);
                Ok(())
            }
        }
    }

    /// Gives rows, merged as the table says.
    fn give<F: Fold>(
        &mut self,
        pieces: Vec<Piece>,
        position: usize,
        fold: &mut F,
    ) -> Result<(), F::Error> {
        let plan = self.plan;
        self.used.rows += pieces.iter().map(|it| it.rows.len() as u64).sum::<u64>();
        if let [
            Piece {
                data,
                rows: Rows::Range(range),
                ..
            },
        ] = pieces.as_slice()
        {
            let times = data.times();
            let own = times.get(range.clone()).unwrap_or_default();
            if plan.duplicates == Duplicates::Keep || strictly_ascending_times(own) {
                let fields = 0..plan.fields.len();
                let columns = fields.map(|at| Some(data.column(at)?.as_ref()));
                let rows = FoldRows {
                    times,
                    columns: &columns.collect::<Vec<_>>(),
                    range: range.clone(),
                };
                return fold.rows(position, rows);
            }
        }
        let mut output = Output::new(&plan.fields);
        merge::append(pieces, 0, plan.duplicates, &mut output);
        let merged = output.take_rows(plan.table.id, &[0]);
        let columns = plan.fields.iter().map(|(id, _)| {
            let column = merged.columns.iter().find(|column| column.id == *id);
            column.map(Column::as_ref)
        });
        let rows = FoldRows {
            times: &merged.times,
            columns: &columns.collect::<Vec<_>>(),
            range: 0..merged.rows(),
        };
        fold.rows(position, rows)
    }
}

fn rows_of(stretches: &[Stretch]) -> u64 {
    stretches.iter().map(|it| u64::from(it.rows)).sum()
}
