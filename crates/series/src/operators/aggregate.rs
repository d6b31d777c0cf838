//! The operator `Aggregate`: one row for each group and bucket.
//!
//! Does: take what the engine knows of whole hours and blocks where that is what is asked, else read rows; add up in cells,
//! on several threads; fill, sort, cut, and make the columns of the answer. Does not: look for the newest buckets (`top`).

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use nilometer_engine::{Duplicates, Narrowing, Snapshot};

use super::accumulate::{Run, kind, selector};
use super::cells::{Cells, Grid};
use super::fill::{Frame, filled};
use super::project::Projection;
use super::stored::{self, Stored};
use super::{Ready, State, parallel, top};
use crate::bucket::Bucket;
use crate::context::{BATCH_ROWS, Charge, Context};
use crate::error::Error;
use crate::evaluate::{Name, Resolved, Slots, array_of, hoist, hoisted_name, resolve};
use crate::input::{Chunk, Inputs, RunNested, tag_column};
use crate::query::{Aggregate, Expr, Operator, OrderBy, Selector, SeriesQuery};
use crate::value::{Rules, Type};

/// Up to so many series it does not matter how many rows each has.
const SERIES_MANY: u64 = 1024;

/// Rows of a series from which on it has blocks of its own, which have statistics.
const ROWS_OF_SERIES_MIN: u64 = 128;

/// An aggregation whose columns and types are known.
pub(super) struct Plan<'a> {
    pub(super) query: &'a SeriesQuery,
    pub(super) snapshot: &'a Snapshot,
    pub(super) context: &'a Context,
    pub(super) inputs: Inputs,
    aggregates: Vec<Aggregate>,
    /// By aggregate.
    operands: Vec<Vec<Resolved>>,
    kinds: Vec<Option<Type>>,
    /// The columns, with fields in the places of aggregates.
    exprs: Vec<Expr>,
}

/// Cells in the order of groups and times, and what they take.
pub(super) type Sorted = (Frame, Charge);

pub(super) fn run(
    query: &SeriesQuery,
    (snapshot, context): (&Snapshot, &Context),
    shows_time: bool,
    run_nested: RunNested<'_>,
) -> Result<(SchemaRef, State), Error> {
    let plan = Plan::new(query, (snapshot, context), run_nested)?;
    let slots = plan.slots();
    let projection = Projection::new(query.shape(), &plan.exprs, &slots, shows_time)?;
    let (frame, mut charge) = match query.operator() {
        Operator::TopN => top::collect(&plan)?,
        _ => plan.collect((query.bound.first_ns, query.bound.last_ns))?,
    };
    let before = frame.bytes();
    let frame = filled(frame, query, &plan.kinds, context)?;
    charge.grow(frame.bytes().saturating_sub(before))?;
    let order = places(&frame, query);
    let mut batches = VecDeque::new();
    for part in order.chunks(BATCH_ROWS) {
        context.check()?;
        let chunk = plan.chunk(&frame, part, &slots);
        let batch = projection.batch(&chunk, &plan.inputs.groups)?;
        charge.grow(batch.get_array_memory_size())?;
        batches.push_back(batch);
    }
    Ok((
        Arc::clone(&projection.schema),
        State::Ready(Box::new(Ready {
            batches,
            _charge: charge,
        })),
    ))
}

/// The rows of the answer, in its order.
fn places(frame: &Frame, query: &SeriesQuery) -> Vec<usize> {
    let order = query.shape().order;
    let mut places: Vec<usize> = (0..frame.keys.len()).collect();
    let key = |at: &usize| frame.keys.get(*at).copied().unwrap_or_default();
    places.sort_by(|one, other| {
        let ((group, time), (other_group, other_time)) = (key(one), key(other));
        let by_time = time.cmp(&other_time);
        let by_time = if order.descending {
            by_time.reverse()
        } else {
            by_time
        };
        let by_group = group.cmp(&other_group);
        match order.by {
            OrderBy::Time => by_time.then(by_group),
            OrderBy::Group | OrderBy::Nothing => by_group.then(by_time),
        }
    });
    let per_group = query.bound.per_group;
    if !per_group.is_all() {
        let mut seen = rustc_hash::FxHashMap::default();
        places.retain(|at| {
            let place: &mut u64 = seen.entry(key(at).0).or_default();
            *place += 1;
            per_group.contains(*place - 1)
        });
    }
    let window = query.bound.overall;
    let skip = usize::try_from(window.skip).unwrap_or(usize::MAX);
    let rows = usize::try_from(window.rows).unwrap_or(usize::MAX);
    places.into_iter().skip(skip).take(rows).collect()
}

impl<'a> Plan<'a> {
    fn new(
        query: &'a SeriesQuery,
        (snapshot, context): (&'a Snapshot, &'a Context),
        run_nested: RunNested<'_>,
    ) -> Result<Self, Error> {
        let shape = query.shape();
        let mut hoisted = Vec::new();
        let columns = shape.columns.iter();
        let exprs = columns
            .map(|column| hoist(&column.expr, &mut hoisted))
            .collect();
        let aggregates = hoisted.into_iter().filter_map(|expr| match expr {
            Expr::Aggregate(aggregate) => Some(*aggregate),
            _ => None,
        });
        let aggregates: Vec<Aggregate> = aggregates.collect();
        let used = aggregates.iter().flat_map(Aggregate::operands);
        let used: Vec<&Expr> = used.collect();
        let needs_ties = aggregates.iter().any(|aggregate| {
            matches!(
                aggregate,
                Aggregate::First(_)
                    | Aggregate::Last(_)
                    | Aggregate::Select { .. }
                    | Aggregate::Mode(_)
            )
        });
        let inputs = Inputs::plan(query, &used, needs_ties, (snapshot, context), run_nested)?;
        let mut operands = Vec::with_capacity(aggregates.len());
        let mut kinds = Vec::with_capacity(aggregates.len());
        for aggregate in &aggregates {
            let own = aggregate.operands().into_iter();
            let own: Vec<Resolved> = own
                .map(|of| resolve(of, &inputs.slots, shape.rules))
                .collect::<Result<_, Error>>()?;
            let types: Vec<Option<Type>> = own.iter().map(|of| of.kind).collect();
            kinds.push(kind(aggregate, &types)?);
            operands.push(own);
        }
        Ok(Self {
            query,
            snapshot,
            context,
            inputs,
            aggregates,
            operands,
            kinds,
            exprs,
        })
    }

    fn bucket(&self) -> Option<&'a Bucket> {
        self.query.shape().bucket.as_ref()
    }

    fn rules(&self) -> Rules {
        self.query.shape().rules
    }

    /// The columns that the answer's are made of: time, tags of the group, aggregates.
    fn slots(&self) -> Slots {
        let mut all = vec![(Name::Time, Some(Type::Time))];
        let group = self.query.shape().group.iter();
        all.extend(group.map(|tag| (Name::Tag(tag.clone()), Some(Type::Text))));
        let aggregates = self.kinds.iter().enumerate();
        all.extend(aggregates.map(|(at, kind)| (Name::Field(hoisted_name(at)), *kind)));
        Slots { all }
    }

    fn grid(&self, (first, last): (i64, i64)) -> Grid<'a> {
        let is_known = first != i64::MIN && last != i64::MAX;
        Grid {
            groups: self.inputs.groups.keys.len(),
            bucket: self.bucket(),
            range: is_known.then_some((first, last)),
            buckets_max: self.context.limits.buckets,
        }
    }

    /// When the one bucket of a query without buckets starts.
    fn only_start(&self) -> i64 {
        let bound = &self.query.bound;
        if bound.has_first { bound.first_ns } else { 0 }
    }

    /// Adds up the rows of a range of time.
    pub(super) fn collect(&self, range: (i64, i64)) -> Result<Sorted, Error> {
        let parts = self.parts(range)?;
        let mut parts = parts.into_iter();
        let mut whole = match parts.next() {
            Some(first) => first,
            None => self.cells(range)?,
        };
        for part in parts {
            whole.join(part, &self.aggregates, self.rules())?;
        }
        let shape = self.query.shape();
        let is_one = shape.group.is_empty() && shape.bucket.is_none();
        if is_one && self.rules() == Rules::Postgres {
            // The aggregates of no rows are a row too.
            whole.cell(0, self.only_start())?;
        }
        let (cells, charge) = whole.finish();
        let mut frame = Frame {
            keys: Vec::with_capacity(cells.len()),
            columns: vec![Vec::with_capacity(cells.len()); self.aggregates.len()],
        };
        for (key, states) in cells {
            frame.keys.push(key);
            let known = states.into_iter().zip(&self.aggregates).zip(&self.kinds);
            for (column, ((state, aggregate), kind)) in frame.columns.iter_mut().zip(known) {
                column.push(state.finish(aggregate, *kind, self.rules())?);
            }
        }
        Ok((frame, charge))
    }

    fn cells(&self, range: (i64, i64)) -> Result<Cells, Error> {
        Cells::new(&self.grid(range), &self.aggregates, self.context.charge())
    }

    /// What each thread has added up.
    fn parts(&self, range: (i64, i64)) -> Result<Vec<Cells>, Error> {
        if range.0 > range.1 {
            return Ok(Vec::new());
        }
        let reading = self.inputs.read(self.snapshot, range, &self.ends(), None)?;
        if let Some(stored) = self.stored(range, reading.rows_estimate)? {
            let units = stored.iter().enumerate().flat_map(|(number, stored)| {
                let morsels = stored.aggregation.morsels();
                (0..morsels).map(move |morsel| (number, morsel))
            });
            let units: Vec<(usize, usize)> = units.collect();
            let workers = self.context.workers(reading.rows_estimate, units.len());
            let parts = parallel::fold(
                self.context,
                workers,
                units.len(),
                || self.cells(range),
                |cells, unit| {
                    let cells = cells.as_mut().map_err(taken)?;
                    let Some(&(number, morsel)) = units.get(unit) else {
                        return Ok(());
                    };
                    match stored.get(number) {
                        Some(stored) => self.add_stored(cells, stored, morsel),
                        None => Ok(()),
                    }
                },
            )?;
            return parts.into_iter().collect();
        }
        let workers = self.context.workers(reading.rows_estimate, reading.units());
        let parts = parallel::fold(
            self.context,
            workers,
            reading.units(),
            || self.cells(range),
            |cells, unit| {
                let cells = cells.as_mut().map_err(taken)?;
                self.inputs
                    .visit(&reading, unit, self.context, &mut |chunk| {
                        self.add_chunk(cells, &chunk)?;
                        Ok(true)
                    })
            },
        )?;
        parts.into_iter().collect()
    }

    /// The rows that are needed of each series: those at its ends, where nothing else is asked for.
    fn ends(&self) -> Narrowing {
        let shape = self.query.shape();
        if self.bucket().is_some() || shape.rows.is_some() || self.inputs.tables().is_none() {
            return Narrowing::None;
        }
        let (mut first, mut last) = (0, 0);
        for aggregate in &self.aggregates {
            match aggregate {
                Aggregate::Select {
                    selector: Selector::First,
                    by: Expr::Time,
                    ..
                }
                | Aggregate::Min(Expr::Time) => first = 1,
                Aggregate::Select {
                    selector: Selector::Last,
                    by: Expr::Time,
                    ..
                }
                | Aggregate::Max(Expr::Time) => last = 1,
                _ => return Narrowing::None,
            }
        }
        if first + last == 0 {
            return Narrowing::None;
        }
        Narrowing::Ends { first, last }
    }

    /// The aggregations of the tables, if that is all that is asked and the engine is quicker than the rows.
    fn stored(
        &self,
        (first, last): (i64, i64),
        rows: u64,
    ) -> Result<Option<Vec<Stored<'_>>>, Error> {
        let shape = self.query.shape();
        let is_counted = self
            .bucket()
            .is_none_or(|bucket| bucket.multiples().is_some());
        let mut aggregates = self.aggregates.iter();
        let are_known = aggregates.all(stored::is_known);
        let Some(tables) = self.inputs.tables() else {
            return Ok(None);
        };
        // The greatest of several values of one series and time is no value that is stored of them.
        let picks_greatest = self.rules() == Rules::Influx
            && self
                .aggregates
                .iter()
                .any(|aggregate| selector(aggregate).is_some())
            && tables
                .iter()
                .any(|table| table.schema.settings.duplicates == Duplicates::Keep);
        let series: u64 = tables.iter().map(|table| table.series.len() as u64).sum();
        // Series of few rows share blocks, which have no statistics: one by one they would only cost more.
        let is_thin = series > SERIES_MANY && rows / series < ROWS_OF_SERIES_MIN;
        if shape.rows.is_some() || !is_counted || !are_known || is_thin || picks_greatest {
            return Ok(None);
        }
        let stored = tables.into_iter().map(|table| {
            let range = first..=last;
            Stored::plan(self.snapshot, table, &self.aggregates, range, self.bucket())
        });
        stored.collect::<Result<Vec<_>, Error>>().map(Some)
    }

    fn add_stored(
        &self,
        cells: &mut Cells,
        stored: &Stored<'_>,
        morsel: usize,
    ) -> Result<(), Error> {
        let known = stored.aggregation.read(morsel)?;
        self.context.watch.has_aggregated(&known.used);
        for row in known.rows {
            let group = stored.table.group(row.position);
            let start = if self.bucket().is_some() {
                row.bucket
            } else {
                self.only_start()
            };
            let tie = stored.table.tie(row.position);
            let cell = cells.cell(group, start)?.iter_mut().zip(&self.aggregates);
            for (at, (accumulator, aggregate)) in cell.enumerate() {
                let field = (row.rows, stored.field(at, &row.fields));
                stored::add(accumulator, aggregate, self.rules(), field, tie);
            }
        }
        Ok(())
    }

    fn add_chunk(&self, cells: &mut Cells, chunk: &Chunk) -> Result<(), Error> {
        let rows = chunk.rows();
        let mut operands: Vec<Vec<ArrayRef>> = Vec::with_capacity(self.operands.len());
        for own in &self.operands {
            let columns = own.iter().map(|of| of.column(&chunk.columns, rows));
            operands.push(columns.collect::<Result<_, Error>>()?);
        }
        let run = Run {
            times: &chunk.times,
            ties: &chunk.ties,
        };
        let mut row = 0;
        while let (Some(&group), Some(&time)) = (chunk.groups.get(row), chunk.times.get(row)) {
            let (start, until) = match self.bucket() {
                Some(bucket) => bucket.around(time),
                None => (self.only_start(), i64::MAX),
            };
            let is_same = |at: &usize| {
                let later = chunk.times.get(*at).copied();
                chunk.groups.get(*at) == Some(&group)
                    && later.is_some_and(|later| time <= later && (later < until || later == time))
            };
            let end = row + 1 + (row + 1..rows).take_while(is_same).count();
            let mut grown = 0;
            let cell = cells.cell(group, start)?;
            for ((accumulator, aggregate), operands) in
                cell.iter_mut().zip(&self.aggregates).zip(&operands)
            {
                grown += accumulator.add(aggregate, self.rules(), operands, row..end, run);
            }
            cells.charge(grown)?;
            row = end;
        }
        Ok(())
    }

    /// Some rows of a frame.
    fn chunk(&self, frame: &Frame, rows: &[usize], slots: &Slots) -> Chunk {
        let keys = rows.iter().filter_map(|at| frame.keys.get(*at).copied());
        let keys: Vec<(u32, i64)> = keys.collect();
        let times: Vec<i64> = keys.iter().map(|key| key.1).collect();
        let groups: Vec<u32> = keys.iter().map(|key| key.0).collect();
        let shown = times
            .iter()
            .map(|time| Some(crate::evaluate::Scalar::Time(*time)));
        let mut columns = vec![array_of(Type::Time, shown.collect())];
        let width = self.query.shape().group.len();
        for tag in 0..width {
            columns.push(tag_column(groups.iter().map(|group| {
                let key = self.inputs.groups.keys.get(*group as usize)?;
                key.get(tag)?.as_deref()
            })));
        }
        for (values, (_, kind)) in frame.columns.iter().zip(slots.all.iter().skip(1 + width)) {
            let own = rows.iter().map(|at| values.get(*at).cloned().flatten());
            columns.push(array_of(kind.unwrap_or(Type::Bool), own.collect()));
        }
        Chunk {
            columns,
            ties: vec![0; times.len()],
            times,
            groups,
        }
    }
}

/// An error that is met a second time: it was returned when it was made.
fn taken(error: &mut Error) -> Error {
    std::mem::replace(error, Error::Cancelled)
}
