//! Number of groups: what `count(DISTINCT tag)` asks, as a question around the groups of that tag.
//!
//! Does: count the groups that have a row, by their numbers alone. Does not: make the answer of the question within, with a text for
//! each group, nor put its groups in order.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use nilometer_engine::Snapshot;

use super::Plan;
use crate::context::{Context, Step};
use crate::error::Error;
use crate::evaluate::{Name, Scalar, Slots, array_of, hoisted_name};
use crate::input::{Chunk, Groups, RunNested};
use crate::operators::project::Projection;
use crate::operators::{Ready, State};
use crate::query::{Aggregate, Expr, Fill, SeriesQuery, Shape, Source, TagExpr};
use crate::value::{Rules, Type};

/// What is counted of the groups.
enum Counted {
    All,
    /// Those that have a tag, by its place in the grouping.
    With(usize),
}

/// The answer, if the query asks for numbers of groups and nothing else.
pub(super) fn run(
    query: &SeriesQuery,
    (snapshot, context): (&Snapshot, &Context),
    shows_time: bool,
    run_nested: RunNested<'_>,
) -> Result<Option<(SchemaRef, State)>, Error> {
    let Some((inner, counted)) = counted(query) else {
        return Ok(None);
    };
    let inner = SeriesQuery::new(inner.clone(), context.limits)?;
    let plan = Plan::new(&inner, (snapshot, context), false, run_nested)?;
    let cells = plan.collect((inner.bound.first_ns, inner.bound.last_ns))?;
    let _timed = context.timed(Step::Operate);
    let groups = || cells.keys.iter().map(|(group, _)| *group);
    let mut slots = vec![(Name::Time, Some(Type::Time))];
    let time = array_of(Type::Time, vec![Some(Scalar::Time(0))]);
    let mut columns: Vec<ArrayRef> = vec![time];
    let mut exprs = Vec::with_capacity(counted.len());
    for (at, counted) in counted.iter().enumerate() {
        let count = match counted {
            Counted::All => groups().count(),
            Counted::With(tag) => plan.inputs.groups.count_with(*tag, groups()),
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        slots.push((Name::Field(hoisted_name(at)), Some(Type::Int)));
        columns.push(array_of(Type::Int, vec![Some(Scalar::Int(count))]));
        exprs.push(Expr::Field(hoisted_name(at)));
    }
    let slots = Slots { all: slots };
    let projection = Projection::new(query.shape(), &exprs, &slots, shows_time)?;
    let chunk = Chunk {
        columns,
        times: vec![0],
        groups: vec![0],
        ties: Vec::new(),
    };
    let batch = projection.batch(&chunk, &Groups::default())?;
    let mut own = context.charge();
    own.grow(batch.get_array_memory_size())?;
    let ready = Ready {
        batches: VecDeque::from([batch]),
        _charge: own,
    };
    Ok(Some((
        Arc::clone(&projection.schema),
        State::Ready(Box::new(ready)),
    )))
}

/// The question for the groups, and what is counted of them for each column.
fn counted(query: &SeriesQuery) -> Option<(&Shape, Vec<Counted>)> {
    let shape = query.shape();
    let Source::Nested(inner) = &shape.source else {
        return None;
    };
    let is_plain = |shape: &Shape| {
        shape.rules == Rules::Postgres
            && shape.bucket.is_none()
            && shape.choice.is_none()
            && shape.fill == Fill::Absent
            && shape.fills.is_empty()
            && shape.limit_groups.is_none()
            && shape.limit_per_group.is_none()
            && shape.limit.is_none()
    };
    let is_all = shape.group.is_empty()
        && shape.rows.is_none()
        && shape.tags == TagExpr::All
        && !query.bound.has_first
        && !query.bound.has_last;
    // Whatever it calculates besides may fail.
    let is_of_groups = matches!(inner.source, Source::Tables(_))
        && !inner.columns.is_empty()
        && inner.columns.iter().all(|it| is_rows(&it.expr));
    if !is_all || !is_of_groups || !is_plain(shape) || !is_plain(inner) {
        return None;
    }
    let counted = shape.columns.iter().map(|column| match &column.expr {
        expr if is_rows(expr) => Some(Counted::All),
        Expr::Aggregate(aggregate) => match &**aggregate {
            Aggregate::Count(Expr::Tag(tag)) => {
                let place = inner.group.iter().position(|own| own == tag)?;
                Some(Counted::With(place))
            }
            _ => None,
        },
        _ => None,
    });
    let counted: Option<Vec<Counted>> = counted.collect();
    Some((inner, counted.filter(|counted| !counted.is_empty())?))
}

fn is_rows(expr: &Expr) -> bool {
    matches!(expr, Expr::Aggregate(aggregate) if **aggregate == Aggregate::Rows)
}
