//! The operators `Rows`, `Last` and `TopN` of rows: each row for itself.
//!
//! Does: read rows in units, several at once, make the columns of the answer of them, and sort and cut them as the query says;
//! ask the engine for the ends of series, or of time, where that is all that is wanted. Does not: aggregate.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take;
use nilometer_engine::{Narrowing, Snapshot};

use super::State;
use super::parallel;
use super::project::Projection;
use super::slices::{SlicedStream, Slices};
use super::sort::{Ordered, Sorter};
use super::steps;
use super::stream::{RowSource, RowStream};
use crate::context::{BATCH_ROWS, Context, Step};
use crate::error::Error;
use crate::evaluate::{Name, Resolved, Slots, hoist, hoisted_name, resolve};
use crate::input::{Chunk, Inputs, Needs, Reading, RunNested, Which};
use crate::query::{Expr, Operator, OrderBy, SeriesQuery, TOP_ROWS_MAX, Transform};

/// Rows at the end of each series that are worth being looked for.
const END_ROWS_MAX: u64 = 1000;

pub(super) fn run(
    query: &SeriesQuery,
    (snapshot, context): (&Snapshot, &Context),
    shows_time: bool,
    run_nested: RunNested<'_>,
) -> Result<(SchemaRef, State), Error> {
    let shape = query.shape();
    let exprs: Vec<&Expr> = shape.columns.iter().map(|column| &column.expr).collect();
    let is_streamed = shape.order.by == OrderBy::Nothing && !shape.has_neighbours();
    let needs = Needs::all(!is_streamed);
    let inputs = Inputs::plan(query, &exprs, needs, (snapshot, context), run_nested)?;
    let narrowing = narrowing(query);
    let (per_group, overall) = (query.bound.per_group, query.bound.overall);
    let is_whole = shape.rows.is_none() && per_group.is_all() && is_streamed;
    let limit = usize::try_from(overall.end()).ok().filter(|_| is_whole);
    let range = (query.bound.first_ns, query.bound.last_ns);
    let limit = limit.filter(|_| !overall.is_all());
    let which = (limit, Which::All);
    let reading = inputs.read(snapshot, range, &narrowing, which, context)?;
    let slice_rows = context.memory.slice_rows().max(1);
    let is_long = narrowing == Narrowing::None && reading.rows_estimate > slice_rows;
    let is_limited = shape.rows.is_some() && !per_group.is_all();
    if is_limited && !is_streamed && !shape.has_neighbours() {
        let exprs: Vec<Expr> = exprs.iter().copied().cloned().collect();
        let projection = Projection::new(shape, &exprs, &inputs.slots, shows_time)?;
        let by = (&inputs, &reading, &projection);
        if let Some(ordered) = steps::run(query, by, (snapshot, context))? {
            return Ok((projection.schema, State::Ordered(Box::new(ordered))));
        }
    }
    if is_long
        && !is_streamed
        && let Some(slices) = Slices::of(query, &inputs, (snapshot, context))?
    {
        let exprs: Vec<Expr> = exprs.into_iter().cloned().collect();
        let projection = Projection::new(shape, &exprs, &inputs.slots, shows_time)?;
        let schema = Arc::clone(&projection.schema);
        let stream = SlicedStream::new(query, inputs, projection, slices);
        return Ok((schema, State::Sliced(Box::new(stream))));
    }
    if shape.has_neighbours() {
        return with_neighbours(query, (&inputs, &reading), context, shows_time);
    }
    let exprs: Vec<Expr> = exprs.into_iter().cloned().collect();
    let projection = Projection::new(shape, &exprs, &inputs.slots, shows_time)?;
    let schema = Arc::clone(&projection.schema);
    let portions = if is_long && is_streamed {
        inputs.portions(snapshot, range, slice_rows)?
    } else {
        None
    };
    let stream = RowStream::new(
        query,
        RowSource::new(snapshot, (inputs, projection), (reading, portions), limit),
        context,
    )?;
    if is_streamed {
        return Ok((schema, State::Stream(Box::new(stream))));
    }
    let ordered = stream.sorted(Sorter::of(query, context), context)?;
    Ok((schema, State::Ordered(Box::new(ordered))))
}

/// What the engine may leave out.
fn narrowing(query: &SeriesQuery) -> Narrowing {
    let order = query.shape().order;
    let rows = |rows: u64, most: u64| usize::try_from(rows).ok().filter(|_| rows <= most);
    let found = match query.operator() {
        Operator::Last => rows(query.bound.per_group.end(), END_ROWS_MAX).map(|rows| {
            let (first, last) = if order.descending {
                (0, rows)
            } else {
                (rows, 0)
            };
            Narrowing::Ends { first, last }
        }),
        Operator::TopN => {
            rows(query.bound.overall.end(), TOP_ROWS_MAX).map(|rows| Narrowing::Top {
                rows,
                newest: order.descending,
                // Which of the rows of the last time count is seen when all of them are there.
                ties: true,
            })
        }
        Operator::Rows | Operator::Aggregate | Operator::Choose => None,
    };
    // An end of no rows is no end.
    let is_some = |narrowing: &Narrowing| {
        !matches!(
            narrowing,
            Narrowing::Ends { first: 0, last: 0 } | Narrowing::Top { rows: 0, .. }
        )
    };
    found.filter(is_some).unwrap_or_default()
}

/// Rows of which some columns are made of their neighbours: all rows come together first, group by group.
fn with_neighbours(
    query: &SeriesQuery,
    (inputs, reading): (&Inputs, &Reading),
    context: &Context,
    shows_time: bool,
) -> Result<(SchemaRef, State), Error> {
    let shape = query.shape();
    let mut hoisted = Vec::new();
    let columns = shape.columns.iter();
    let exprs: Vec<Expr> = columns
        .map(|column| hoist(&column.expr, &mut hoisted))
        .collect();
    let mut slots = inputs.slots.clone();
    let mut neighbours = Vec::new();
    for (number, expr) in hoisted.iter().enumerate() {
        let Expr::Neighbour(which, of) = expr else {
            continue;
        };
        let resolved = resolve(of, &inputs.slots, shape.rules)?;
        slots
            .all
            .push((Name::Field(hoisted_name(number)), resolved.kind));
        neighbours.push((*which, resolved));
    }
    let projection = Projection::new(shape, &exprs, &slots, shows_time)?;
    let schema = Arc::clone(&projection.schema);
    let carried = carried_schema(&inputs.slots);
    let workers = context.workers(reading.rows_estimate, reading.units())?;
    let units = parallel::each(context, workers, 0..reading.units(), |unit| {
        let mut chunks = Vec::new();
        inputs.visit(reading, unit, context, &mut |chunk| {
            chunks.push(chunk);
            Ok(true)
        })?;
        Ok(chunks)
    })?;
    let mut whole = Sorter::whole(context);
    for chunk in units.into_iter().flatten() {
        let keys = chunk.groups.iter().zip(&chunk.times).zip(&chunk.ties);
        let keys = keys.map(|((group, time), tie)| (*group, *time, *tie));
        let batch = RecordBatch::try_new(Arc::clone(&carried), chunk.columns.clone());
        whole.push(batch.expect("the columns are those of the slots"), keys)?;
    }
    let whole = whole.finish()?;
    let mut sorter = Sorter::of(query, context);
    for start in (0..whole.keys.len()).step_by(BATCH_ROWS) {
        context.check()?;
        let timed = context.timed(Step::Operate);
        let own = start..(start + BATCH_ROWS).min(whole.keys.len());
        let chunk = beside_neighbours(&whole, &own, &neighbours)?;
        let batch = projection.batch(&chunk, &inputs.groups)?;
        drop(timed);
        let keys = chunk.groups.iter().zip(&chunk.times).zip(&chunk.ties);
        sorter.push(
            batch,
            keys.map(|((group, time), tie)| (*group, *time, *tie)),
        )?;
    }
    Ok((schema, State::Ordered(Box::new(sorter.finish()?))))
}

fn carried_schema(slots: &Slots) -> SchemaRef {
    use arrow_schema::{DataType, Field, Schema};
    let fields = slots.all.iter().enumerate().map(|(at, (name, kind))| {
        let kind = match (name, kind) {
            (Name::Tag(_), _) => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
            (_, Some(kind)) => kind.arrow(),
            (_, None) => DataType::Boolean,
        };
        Field::new(at.to_string(), kind, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Some rows, with what is made of the row before or after each.
fn beside_neighbours(
    whole: &Ordered,
    own: &Range<usize>,
    neighbours: &[(Transform, Resolved)],
) -> Result<Chunk, Error> {
    // With the row before the first and that after the last.
    let first = own.start.saturating_sub(1);
    let wide = first..(own.end + 1).min(whole.keys.len());
    let batch = whole.some(wide.clone());
    let keys = whole.keys.get(wide).unwrap_or_default();
    let groups: Vec<u32> = keys.iter().map(|key| key.group).collect();
    let inner = own.start - first..own.end - first;
    let columns = batch.columns().iter();
    let mut columns: Vec<ArrayRef> = columns
        .map(|column| column.slice(inner.start, inner.len()))
        .collect();
    for (which, of) in neighbours {
        let values = of.column(batch.columns(), batch.num_rows())?;
        let places = neighbour_places(*which, &groups, inner.clone());
        let moved = take(&values, &places, None);
        columns.push(moved.expect("every place is a row"));
    }
    let keys = keys.get(inner).unwrap_or_default();
    Ok(Chunk {
        columns,
        times: keys.iter().map(|key| key.time).collect(),
        groups: keys.iter().map(|key| key.group).collect(),
        ties: keys.iter().map(|key| key.tie).collect(),
    })
}

/// Of some rows the row before or after each, in the same group.
fn neighbour_places(which: Transform, groups: &[u32], rows: Range<usize>) -> UInt32Array {
    let places = rows.map(|row| {
        let place = match which {
            Transform::Previous => row.checked_sub(1)?,
            Transform::Next => row + 1,
        };
        let is_same = groups.get(place) == groups.get(row);
        u32::try_from(place).ok().filter(|_| is_same)
    });
    places.collect()
}
