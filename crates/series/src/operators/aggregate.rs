//! The operator `Aggregate`: one row for each group and bucket.
//!
//! Does: have the engine add up tables where fields as they are is all that is asked, else read rows; add up in cells, on
//! several threads; fill, sort, cut, and make the columns of the answer. Does not: look for the newest buckets (`top`).

mod counted;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, NullArray};
use arrow_schema::SchemaRef;
use nilometer_engine::{Duplicates, Narrowing, Snapshot, Stretch, TableTotal};

use super::accumulate::kind;
use super::cells::{Cells, Grid, compare, within_limits};
use super::edges::Edges;
use super::fill::{Frame, filled};
use super::lanes::{self, Condition, Known, Lane, Operand, Run, Ties, When};
use super::project::Projection;
use super::stored::{self, Adding, Operands, Stored};
use super::{Ready, State, parallel, top};
use crate::bucket::Bucket;
use crate::context::{BATCH_ROWS, Charge, Context, Reads, Step};
use crate::error::Error;
use crate::evaluate::{Name, Resolved, Slots, array_of, hoist_from, hoisted_name, resolve};
use crate::input::{Chunk, Inputs, Needs, RunNested, Table};
use crate::long::{self, Asks};
use crate::query::{Aggregate, Expr, Fill, Operator, Order, OrderBy, Selector, SeriesQuery};
use crate::value::{Literal, Rules, Type, Value};

/// Up to so many series it does not matter how many rows each has.
const SERIES_MANY: u64 = 1024;

/// Rows of a series from which on it has blocks of its own.
const ROWS_OF_SERIES_MIN: u64 = 128;

/// Of series of few rows, this part of the rows may be read series by series; of more all rows are read as they come.
const SCATTERED_PART: u64 = 8;

/// An aggregation whose columns and types are known.
pub(super) struct Plan<'a> {
    pub(super) query: &'a SeriesQuery,
    pub(super) snapshot: &'a Snapshot,
    pub(super) context: &'a Context,
    pub(super) inputs: Inputs,
    /// All that is asked, if metadata say it.
    total: Option<TableTotal>,
    aggregates: Vec<Aggregate>,
    /// What aggregates are of, each once.
    distinct: Vec<Resolved>,
    /// By aggregate: which of those its operands are.
    places: Vec<Vec<usize>>,
    kinds: Vec<Option<Type>>,
    /// By aggregate.
    fills: Vec<&'a Fill>,
    /// The columns, with fields in the places of aggregates.
    exprs: Vec<Expr>,
    /// The condition on rows, if it is one that is looked at as rows are decoded.
    condition: Option<Condition>,
}

/// Cells in the order of groups and times, and what they take.
pub(super) type Sorted = (Frame, Charge);

pub(super) fn run(
    query: &SeriesQuery,
    (snapshot, context): (&Snapshot, &Context),
    shows_time: bool,
    run_nested: RunNested<'_>,
) -> Result<(SchemaRef, State), Error> {
    if let Some(answer) = counted::run(query, (snapshot, context), shows_time, run_nested)? {
        return Ok(answer);
    }
    let plan = Plan::new(query, (snapshot, context), true, run_nested)?;
    let slots = plan.slots();
    let projection = Projection::new(query.shape(), &plan.exprs, &slots, shows_time)?;
    let mut answer = match query.operator() {
        Operator::TopN => Answer::Frame(top::collect(&plan)?),
        _ => Answer::Cells(plan.collect((query.bound.first_ns, query.bound.last_ns))?),
    };
    if query.shape().fill != Fill::Absent {
        let (frame, mut charge) = match answer {
            Answer::Frame(sorted) => sorted,
            Answer::Cells(cells) => plan.frame(cells)?,
        };
        let _timed = context.timed(Step::Operate);
        let before = frame.bytes();
        let frame = filled(frame, query, (&plan.kinds, &plan.fills), context)?;
        charge.grow(frame.bytes().saturating_sub(before))?;
        answer = Answer::Frame((frame, charge));
    }
    let _timed = context.timed(Step::Operate);
    let order = match &answer {
        Answer::Cells(cells) => {
            let cells_in_order = cells.ordered(query.shape().order, context)?;
            within_limits(cells_in_order, &cells.keys, query, context)?
        }
        Answer::Frame((frame, _)) => {
            let places: Vec<u32> = (0..).take(frame.keys.len()).collect();
            let key = |at: &u32| frame.keys.get(*at as usize).copied().unwrap_or_default();
            let order = query.shape().order;
            let places = long::sorted(places, context, |one, other| {
                compare(key(one), key(other), order)
            })?;
            within_limits(places, &frame.keys, query, context)?
        }
    };
    let mut own = context.charge();
    let mut batches = VecDeque::new();
    for part in order.chunks(BATCH_ROWS) {
        context.check()?;
        let chunk = plan.chunk(&mut answer, part, &slots)?;
        let batch = projection.batch(&chunk, &plan.inputs.groups)?;
        own.grow(batch.get_array_memory_size())?;
        batches.push_back(batch);
    }
    // The cells are done with.
    drop(answer);
    Ok((
        Arc::clone(&projection.schema),
        State::Ready(Box::new(Ready {
            batches,
            _charge: own,
        })),
    ))
}

/// What was added up.
enum Answer {
    Cells(Cells),
    /// A value at a time: for buckets that are filled, and those of several steps.
    Frame(Sorted),
}

impl<'a> Plan<'a> {
    /// Finds what is read; groups are numbered in any order unless they have to be `in_order`.
    fn new(
        query: &'a SeriesQuery,
        (snapshot, context): (&'a Snapshot, &'a Context),
        in_order: bool,
        run_nested: RunNested<'_>,
    ) -> Result<Self, Error> {
        let shape = query.shape();
        let mut hoisted = Vec::new();
        let mut fills = Vec::new();
        let mut exprs = vec![Expr::Time; shape.columns.len()];
        // An aggregate that is filled in two ways is two.
        for (at, fill) in shape.all_fills().enumerate() {
            let from = hoisted.len();
            for (column, expr) in shape.columns.iter().zip(&mut exprs) {
                if shape.fill_place(&column.name) == at {
                    *expr = hoist_from(&column.expr, from, &mut hoisted);
                }
            }
            fills.resize(hoisted.len(), fill);
        }
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
        let total = total(query, &aggregates, snapshot)?;
        let needs = Needs {
            ties: needs_ties,
            series: total.is_none(),
            order: in_order,
        };
        let inputs = Inputs::plan(query, &used, needs, (snapshot, context), run_nested)?;
        let mut known: Vec<&Expr> = Vec::new();
        let mut distinct: Vec<Resolved> = Vec::new();
        let mut places = Vec::with_capacity(aggregates.len());
        let mut kinds = Vec::with_capacity(aggregates.len());
        for aggregate in &aggregates {
            let mut own = Vec::new();
            let mut types = Vec::new();
            for of in aggregate.operands() {
                let known_at = known.iter().position(|known| is_same(known, of));
                let place = known_at.unwrap_or(known.len());
                if known_at.is_none() {
                    known.push(of);
                    distinct.push(resolve(of, &inputs.slots, shape.rules)?);
                }
                types.push(distinct.get(place).and_then(|of| of.kind));
                own.push(place);
            }
            kinds.push(kind(aggregate, &types)?);
            places.push(own);
        }
        let rows = shape.rows.as_ref();
        let condition = rows.and_then(|rows| Condition::of(rows, &inputs.slots, shape.rules));
        Ok(Self {
            query,
            snapshot,
            context,
            inputs,
            total,
            aggregates,
            distinct,
            places,
            kinds,
            fills,
            exprs,
            condition,
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
            groups: self.inputs.groups.len(),
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
    pub(super) fn collect(&self, range: (i64, i64)) -> Result<Cells, Error> {
        if let Some(total) = self.total {
            return self.of_total(total);
        }
        let pruning = self.context.timed(Step::Prune);
        let extent = self.inputs.extent(self.snapshot, range)?;
        drop(pruning);
        // Where the rows are not those of tables, they may be anywhere.
        let range = match (extent, self.inputs.tables()) {
            (Some(extent), Some(_)) => extent,
            (None, Some(_)) => (0, -1),
            (_, None) => range,
        };
        let mut parts = self.parts(range)?.into_iter();
        let _timed = self.context.timed(Step::Operate);
        let mut whole = match parts.next() {
            Some(first) => first,
            None => self.cells(range)?,
        };
        for part in parts {
            whole.join(part, self.context)?;
        }
        let shape = self.query.shape();
        let is_one = shape.group.is_empty() && shape.bucket.is_none();
        if is_one && self.rules() == Rules::Postgres && self.query.bound.groups.contains(0) {
            // The aggregates of no rows are a row too.
            whole.cell(0, self.only_start())?;
        }
        Ok(whole)
    }

    /// The one cell of a query that metadata answer.
    fn of_total(&self, total: TableTotal) -> Result<Cells, Error> {
        let mut cells = self.cells((i64::MIN, i64::MAX))?;
        let Some((first_ns, last_ns)) = total.span else {
            if self.rules() == Rules::Postgres {
                cells.cell(0, self.only_start())?;
            }
            return Ok(cells);
        };
        let cell = cells.cell(0, self.only_start())?;
        self.context.watch.has_read(&Reads {
            rows_skipped: total.rows,
            ..Reads::default()
        });
        let mut rows = total.rows;
        while rows > 0 {
            let part = u32::try_from(rows).unwrap_or(u32::MAX);
            let stretch = Stretch {
                first_ns,
                last_ns,
                rows: part,
            };
            for lane in &mut cells.lanes {
                lane.add_stored(&[cell], &[stretch], Known::Time, 0);
            }
            rows -= u64::from(part);
        }
        Ok(cells)
    }

    /// Cells as values, in the order of groups and times.
    pub(super) fn frame(&self, mut cells: Cells) -> Result<Sorted, Error> {
        let _timed = self.context.timed(Step::Operate);
        let by_group = Order {
            by: OrderBy::Group,
            descending: false,
        };
        let order = cells.ordered(by_group, self.context)?;
        let mut charge = cells.take_charge(self.context.charge());
        let mut frame = Frame::default();
        let keys = order
            .iter()
            .filter_map(|cell| cells.keys.get(*cell as usize));
        frame.keys.extend(keys.copied());
        let values = size_of::<Option<crate::evaluate::Scalar>>() * cells.lanes.len();
        charge.grow(order.len() * (values + size_of::<(u32, i64)>()))?;
        for lane in &mut cells.lanes {
            let mut values = Vec::with_capacity(order.len());
            for part in order.chunks(BATCH_ROWS) {
                self.context.check()?;
                values.extend(lane.scalars(part, self.context)?);
            }
            frame.columns.push(values);
        }
        Ok((frame, charge))
    }

    fn cells(&self, range: (i64, i64)) -> Result<Cells, Error> {
        let lanes = self.aggregates.iter().zip(&self.places).zip(&self.kinds);
        let lanes = lanes.map(|((aggregate, places), kind)| {
            let operands = places.iter();
            let operands = operands.map(|place| self.distinct.get(*place)?.kind);
            Lane::new(
                aggregate,
                *kind,
                &operands.collect::<Vec<_>>(),
                self.rules(),
            )
        });
        Cells::new(&self.grid(range), lanes.collect(), self.context.charge())
    }

    /// What each thread has added up.
    fn parts(&self, range: (i64, i64)) -> Result<Vec<Cells>, Error> {
        if range.0 > range.1 {
            return Ok(Vec::new());
        }
        let edges = Edges::new(self.bucket(), self.only_start());
        if let Some(stored) = self.stored(range)? {
            return self.add_stored(range, &stored, &edges);
        }
        parallel::chunks(
            &self.inputs,
            (self.snapshot, self.context),
            (range, &self.ends()),
            || self.cells(range),
            |cells, chunk| self.add_chunk(cells, &edges, &chunk),
        )
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

    /// The aggregations of the tables, if fields as they are, or calculations with them, are all that is asked.
    fn stored(&self, (first, last): (i64, i64)) -> Result<Option<Vec<Stored<'_>>>, Error> {
        let slots = &self.inputs.slots;
        let is_known = |aggregate| stored::is_known(aggregate, slots, self.rules());
        let are_known = self.aggregates.iter().all(is_known);
        let tables = self.inputs.tables().filter(|_| are_known);
        let is_known = self.query.shape().rows.is_none() || self.condition.is_some();
        let Some(tables) = tables.filter(|_| is_known) else {
            return Ok(None);
        };
        let _timed = self.context.timed(Step::Prune);
        let series: u64 = tables.iter().map(|table| table.series.len() as u64).sum();
        let operands = Operands {
            aggregates: &self.aggregates,
            places: &self.places,
            distinct: &self.distinct,
            slots,
            condition: self.condition.as_ref(),
        };
        let mut all = Vec::with_capacity(tables.len());
        for table in tables {
            let range = first..=last;
            all.push(Stored::plan(self.snapshot, table, &operands, range)?);
        }
        let rows: u64 = all.iter().map(|it| it.aggregation.rows_estimate()).sum();
        if series <= SERIES_MANY || rows / series >= ROWS_OF_SERIES_MIN {
            return Ok(Some(all));
        }
        // Series of few rows share blocks: one by one they would only cost more. Where rows of one time are kept, their order
        // counts for what asks for more than sums and extremes, and then blocks are not read as wholes.
        let scattered = all.iter().map(|it| it.aggregation.rows_scattered());
        let has_kept = all.iter().any(|it| is_kept(it.table)) && self.stands() != Some(false);
        let is_thin = has_kept || scattered.sum::<u64>() > rows / SCATTERED_PART;
        Ok((!is_thin).then_some(all))
    }

    /// Whether what is stored of rows may stand for them; with first and last values or without.
    fn stands(&self) -> Option<bool> {
        // Nobody knows how many of them meet a condition.
        if self.condition.is_some() {
            return None;
        }
        let has_kept = self.inputs.tables()?.iter().any(|it| is_kept(it));
        let mut needs_ends = false;
        for aggregate in &self.aggregates {
            if has_kept && lanes::picks_greatest(aggregate, self.rules()) {
                return None;
            }
            if !stored::has_stored(aggregate) {
                return None;
            }
            needs_ends |= lanes::is_stored(aggregate)?;
        }
        Some(needs_ends)
    }

    fn add_stored(
        &self,
        range: (i64, i64),
        stored: &[Stored<'_>],
        edges: &Edges<'_>,
    ) -> Result<Vec<Cells>, Error> {
        let units = stored.iter().flat_map(|stored| {
            let morsels = stored.aggregation.morsels();
            (0..morsels).map(move |morsel| (stored, morsel))
        });
        let units: Vec<(&Stored<'_>, usize)> = units.collect();
        let rows = stored.iter().map(|it| it.aggregation.rows_estimate());
        let workers = self.context.workers(rows.sum(), units.len())?;
        let stands = self.stands();
        let parts = parallel::fold(
            self.context,
            workers,
            units.len(),
            || self.cells(range),
            |cells, unit| {
                let cells = cells.as_mut().map_err(parallel::taken)?;
                let Some(&(stored, morsel)) = units.get(unit) else {
                    return Ok(());
                };
                let mut adding = Adding {
                    stored,
                    cells,
                    edges,
                    condition: self.condition.as_ref(),
                    stands,
                    context: self.context,
                    held: self.context.charge(),
                    runs: Vec::new(),
                    numbers: Vec::new(),
                    stretches: Vec::new(),
                    met: Vec::new(),
                    asks: Asks::of(self.context),
                    spent: Duration::ZERO,
                };
                let watch = &self.context.watch;
                let before = watch.now();
                let fold = || stored.aggregation.fold(morsel, &mut adding);
                let Some(used) = self.context.reading(fold).transpose()? else {
                    return Ok(());
                };
                if let (Some(before), Some(now)) = (before, before.and_then(|_| watch.now())) {
                    let decoding = now.saturating_sub(before).saturating_sub(adding.spent);
                    watch.has_spent(Step::Decode, decoding);
                    watch.has_spent(Step::Operate, adding.spent);
                }
                watch.has_aggregated(&used);
                watch.has_read(&Reads {
                    rows: used.rows,
                    rows_skipped: used.rows_known,
                    blocks: used.blocks,
                    blocks_skipped: used.statistics,
                });
                Ok(())
            },
        )?;
        parts.into_iter().collect()
    }

    fn add_chunk(&self, cells: &mut Cells, edges: &Edges<'_>, chunk: &Chunk) -> Result<(), Error> {
        let rows = chunk.rows();
        let mut operands: Vec<ArrayRef> = Vec::with_capacity(self.distinct.len());
        for of in &self.distinct {
            operands.push(of.column(&chunk.columns, rows)?);
        }
        let mut runs = Vec::new();
        for ((group, start), rows) in edges.runs(&chunk.groups, &chunk.times) {
            runs.push(Run {
                cell: cells.cell(group, start)?,
                start: u32::try_from(rows.start).unwrap_or(u32::MAX),
                end: u32::try_from(rows.end).unwrap_or(u32::MAX),
            });
        }
        let when = When {
            times: &chunk.times,
            ties: Ties::Each(&chunk.ties),
        };
        let mut grown = 0;
        for (lane, places) in cells.lanes.iter_mut().zip(&self.places) {
            let own = places.iter().filter_map(|place| operands.get(*place));
            let own: Vec<Operand<'_>> = own.map(Operand::Array).collect();
            grown += lane.add(&runs, &own, &when);
        }
        cells.charge(grown)
    }

    /// Some rows of the answer.
    fn chunk(&self, answer: &mut Answer, rows: &[u32], slots: &Slots) -> Result<Chunk, Error> {
        let all = match answer {
            Answer::Cells(cells) => &cells.keys,
            Answer::Frame((frame, _)) => &frame.keys,
        };
        let keys = rows.iter().filter_map(|at| all.get(*at as usize).copied());
        let (groups, times): (Vec<u32>, Vec<i64>) = keys.unzip();
        let mut columns = Vec::with_capacity(slots.all.len());
        for (at, (name, kind)) in slots.all.iter().enumerate() {
            let is_named = self.exprs.iter().any(|expr| expr.has(|it| is_of(it, name)));
            columns.push(match name {
                _ if !is_named => Arc::new(NullArray::new(times.len())),
                Name::Time => {
                    let shown = times.iter();
                    let shown = shown.map(|time| Some(crate::evaluate::Scalar::Time(*time)));
                    array_of(Type::Time, shown.collect())
                }
                // The time comes first, then the tags of the group.
                Name::Tag(_) => self.inputs.groups.column(at - 1, &groups),
                Name::Field(_) => {
                    let lane = at - 1 - self.query.shape().group.len();
                    let kind = kind.unwrap_or(Type::Bool);
                    match answer {
                        Answer::Cells(cells) => match cells.lanes.get_mut(lane) {
                            Some(lane) => lane.column(rows, self.context)?,
                            None => Arc::new(NullArray::new(times.len())),
                        },
                        Answer::Frame((frame, _)) => {
                            let values = frame.columns.get(lane);
                            let value = |at: &u32| values?.get(*at as usize).cloned().flatten();
                            array_of(kind, rows.iter().map(value).collect())
                        }
                    }
                }
            });
        }
        Ok(Chunk {
            columns,
            ties: Vec::new(),
            times,
            groups,
        })
    }
}

/// How many rows a table has, and from when to when, if that is all that is asked and metadata say it.
fn total(
    query: &SeriesQuery,
    aggregates: &[Aggregate],
    snapshot: &Snapshot,
) -> Result<Option<TableTotal>, Error> {
    let shape = query.shape();
    let is_known = |aggregate: &Aggregate| match aggregate {
        Aggregate::Rows => true,
        Aggregate::Count(of) | Aggregate::Min(of) | Aggregate::Max(of) => *of == Expr::Time,
        _ => false,
    };
    let is_whole = shape.group.is_empty() && shape.bucket.is_none() && shape.limit_groups.is_none();
    if !is_whole || !aggregates.iter().all(is_known) {
        return Ok(None);
    }
    let bound = &query.bound;
    let table = Inputs::only_table(query, snapshot)?;
    match table.filter(|_| bound.first_ns <= bound.last_ns) {
        Some(table) => Ok(snapshot.total(&table.schema, &(bound.first_ns..=bound.last_ns))?),
        None => Ok(None),
    }
}

/// Whether a table keeps all rows of one series and time.
fn is_kept(table: &Table) -> bool {
    table.schema.settings.duplicates == Duplicates::Keep
}

/// Whether two expressions have the same values. The two zeros are equal, and what is made of them is not.
fn is_same(one: &Expr, other: &Expr) -> bool {
    let is_zero = |expr: &Expr| matches!(expr, Expr::Literal(Literal::Value(Value::Float(value))) if *value == 0.0);
    one == other && !one.has(is_zero)
}

/// Whether an expression is a column.
fn is_of(expr: &Expr, name: &Name) -> bool {
    match (expr, name) {
        (Expr::Time, Name::Time) => true,
        (Expr::Tag(one), Name::Tag(other)) | (Expr::Field(one), Name::Field(other)) => one == other,
        _ => false,
    }
}
