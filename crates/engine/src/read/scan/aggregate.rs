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
mod group;

use std::ops::RangeInclusive;
use std::sync::Arc;

use nilometer_codec::PhysicalType;

use super::conflicts::Conflicts;
use super::merge;
use super::plan::{MORSEL_ROWS, OutputColumn, Source, estimate, find_sources, plan_columns};
use super::request::ScanRequest;
use super::series::find_series;
use super::source::{GroupReader, Piece, RunCursor};
use crate::catalogue::TagColumn;
use crate::error::Error;
use crate::moment::Moment;
use crate::predicate::TagPredicate;
use crate::sabotage::Sabotage;
use crate::schema::{ColumnId, Duplicates, SeriesId, TableSchema};
use bucket::Buckets;
use cover::{Step, cover};
use group::Group;

/// A morsel has this many times the rows of a scan's, because most of them are not decoded.
const MORSEL_FACTOR: u64 = 4;

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
    /// Field columns to read, each once.
    fields: Vec<(ColumnId, PhysicalType)>,
    /// By requested field: position in `fields`.
    slots: Vec<usize>,
    /// By tag of the table; `None` = nobody asks for it.
    tags: Vec<Option<Arc<TagColumn>>>,
    sabotage: Option<Sabotage>,
}

/// Aggregates of some series, ordered by (series, bucket). A bucket without rows is not there.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Aggregates {
    /// One for each series and bucket.
    pub rows: Vec<AggregateRow>,
    /// Where they came from.
    pub used: AggregateSources,
}

/// Aggregates of one series and bucket.
#[derive(Debug, Clone, PartialEq)]
pub struct AggregateRow {
    /// The series.
    pub series: SeriesId,
    /// Its position among the series of the aggregation.
    pub position: usize,
    /// When the bucket starts; `i64::MIN` = it has all time, or started before there was time.
    pub bucket: i64,
    /// Number of rows.
    pub rows: u64,
    /// By requested field; `None` = no row has a value.
    pub fields: Vec<Option<FieldAggregate>>,
}

/// Aggregates of the values of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldAggregate {
    /// Number of values.
    pub count: u64,
    /// The smallest value. Of floats -0.0 is below 0.0 and NaN above everything, text by its bytes, and false is below true.
    pub min: AggregateValue,
    /// The largest value.
    pub max: AggregateValue,
    /// The sum of numbers, the number of true booleans; `None` for text and bytes.
    pub sum: Option<AggregateSum>,
    /// Time and value of the first value. Of several at one time, the one that was written first.
    pub first: (i64, AggregateValue),
    /// Time and value of the last value. Of several at one time, the one that was written last.
    pub last: (i64, AggregateValue),
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum AggregateValue {
    /// Of an integer field.
    Int(i64),
    /// Of an unsigned field.
    Unsigned(u64),
    /// Of a float field.
    Float(f64),
    /// Of a boolean field.
    Bool(bool),
    /// Of a text field, UTF-8.
    Text(Vec<u8>),
    /// Of a bytes field.
    Bytes(Vec<u8>),
}

/// A sum, wide enough never to overflow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AggregateSum {
    /// Of integers.
    Int(i128),
    /// Of unsigned integers and of booleans.
    Unsigned(u128),
    /// Of floats.
    Float(f64),
}

/// Where aggregates came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AggregateSources {
    /// Hours that a rollup stood for.
    pub rollups: u64,
    /// Blocks that statistics stood for.
    pub statistics: u64,
    /// Rows that were looked at.
    pub rows: u64,
}

impl AggregateSources {
    /// Adds another part's.
    pub fn add(&mut self, other: &Self) {
        self.rollups += other.rollups;
        self.statistics += other.statistics;
        self.rows += other.rows;
    }
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

    /// Aggregates one morsel, numbered from 0. A number past the last gives nothing.
    pub fn read(&self, morsel: usize) -> Result<Aggregates, Error> {
        let ends = &self.plan.morsel_ends;
        let end = ends.get(morsel).copied().unwrap_or(0);
        let start = match morsel {
            0 => 0,
            n => ends.get(n - 1).copied().unwrap_or(end),
        };
        Morsel::new(&self.plan, start..end.max(start)).read()
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
    /// By source; `None` = a run.
    groups: Vec<Option<Group<'a>>>,
    used: AggregateSources,
}

impl<'a> Morsel<'a> {
    fn new(plan: &'a Plan, positions: std::ops::Range<usize>) -> Self {
        let series = plan.series.get(positions.clone()).unwrap_or_default();
        let groups = plan.sources.iter().map(|source| match source {
            Source::Group {
                segment,
                group,
                directory,
                mask,
            } => Some(Group::new(
                segment,
                *group,
                directory,
                mask,
                series,
                &plan.fields,
            )),
            Source::Run { .. } => None,
        });
        Self {
            plan,
            positions,
            groups: groups.collect(),
            used: AggregateSources::default(),
        }
    }

    fn read(mut self) -> Result<Aggregates, Error> {
        let plan = self.plan;
        let series = plan.series.get(self.positions.clone()).unwrap_or_default();
        let steps = self.plan_steps(series)?;
        let mut readers = Vec::new();
        for group in &mut self.groups {
            let reader = match group {
                Some(group) => group.open_reader(&plan.fields)?,
                None => None,
            };
            readers.push(reader);
        }
        let mut rows = Vec::new();
        let is_as_asked = plan.slots.iter().copied().eq(0..plan.fields.len());
        for ((position, &id), steps) in self.positions.clone().zip(series).zip(steps) {
            let mut buckets = Buckets::new(&plan.fields, plan.bucket_ns);
            self.add_up(id, steps, &mut readers, &mut buckets)?;
            for (bucket, count, fields) in buckets.finish() {
                let fields = if is_as_asked {
                    fields
                } else {
                    let slots = plan.slots.iter();
                    slots.map(|&slot| fields.get(slot)?.clone()).collect()
                };
                rows.push(AggregateRow {
                    series: SeriesId(id),
                    position,
                    bucket,
                    rows: count,
                    fields,
                });
            }
        }
        Ok(Aggregates {
            rows,
            used: self.used,
        })
    }

    /// By series, what to do in the order of sources.
    fn plan_steps(&mut self, series: &[u32]) -> Result<Vec<Vec<Step>>, Error> {
        let plan = self.plan;
        let mut runs = Vec::new();
        for (rank, source) in plan.sources.iter().enumerate() {
            if let Source::Run { run, visible, mask } = source {
                let cursor = RunCursor::open(run, *visible, series, &plan.fields);
                runs.extend(cursor.map(|cursor| (rank, cursor, mask)));
            }
        }
        let mut all = Vec::with_capacity(series.len());
        for &id in series {
            let mut pieces: Vec<Piece> = Vec::new();
            for (rank, cursor, mask) in &mut runs {
                let before = pieces.len();
                cursor.take(id, *rank, &plan.time, &mut pieces);
                let mut new = pieces.split_off(before);
                new.retain_mut(|piece| mask.is_empty() || piece.hide(id, mask));
                pieces.append(&mut new);
            }
            let conflicts = match plan.duplicates {
                Duplicates::Keep => Conflicts::default(),
                Duplicates::Last | Duplicates::Unique => {
                    let groups = self.groups.iter().enumerate();
                    let groups = groups.filter_map(|(rank, group)| Some((rank, group.as_ref()?)));
                    let blocks = groups.flat_map(|(rank, group)| {
                        let blocks = group.blocks_of(id).filter_map(|at| group.block(at));
                        blocks.map(move |block| (rank, block))
                    });
                    Conflicts::of(&plan.time, blocks, &pieces)
                }
            };
            let mut pieces = pieces.into_iter().peekable();
            let mut steps = Vec::new();
            for (rank, group) in self.groups.iter_mut().enumerate() {
                if let Some(group) = group {
                    cover(id, rank, plan, group, &conflicts, &mut steps)?;
                } else if let Some(piece) = pieces.next_if(|piece| piece.rank == rank) {
                    steps.push(Step::Piece(piece));
                }
            }
            all.push(steps);
        }
        Ok(all)
    }

    fn add_up(
        &mut self,
        series: u32,
        steps: Vec<Step>,
        readers: &mut [Option<GroupReader>],
        buckets: &mut Buckets,
    ) -> Result<(), Error> {
        let plan = self.plan;
        // Rows of all sources, which may have to be merged.
        let mut together = Vec::new();
        for step in steps {
            let piece = match step {
                Step::Hour { source, entry } => {
                    if let Some(Some(group)) = self.groups.get(source) {
                        self.used.rollups += 1;
                        group.add_hour(entry, buckets);
                    }
                    continue;
                }
                Step::Block { source, block } => {
                    if let Some(Some(group)) = self.groups.get(source) {
                        self.used.statistics += 1;
                        group.add_block(block, buckets);
                    }
                    continue;
                }
                Step::Rows {
                    source,
                    block,
                    rows,
                } => {
                    let (Some(Some(group)), Some(Some(reader))) =
                        (self.groups.get(source), readers.get_mut(source))
                    else {
                        continue;
                    };
                    match group.decode(reader, block, series, &plan.time, rows, source)? {
                        Some(piece) => piece,
                        None => continue,
                    }
                }
                Step::Piece(piece) => piece,
            };
            if plan.duplicates == Duplicates::Keep {
                self.used.rows += buckets.add_pieces(vec![piece], plan);
            } else {
                together.push(piece);
            }
        }
        if !together.is_empty() {
            self.used.rows += buckets.add_pieces(together, plan);
        }
        Ok(())
    }
}
