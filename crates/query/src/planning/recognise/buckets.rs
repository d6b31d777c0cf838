//! Groups by buckets within buckets, below what no series query answers.
//!
//! A group by a day and by ten minutes is one by ten minutes. Where all around it is recognised, the question around it says the day
//! (`nested.rs`); where it is not, the day is calculated of the few rows that the groups are. Does: leave the coarser buckets of an
//! aggregate to a projection above it. Does not: anything where the groups that are left are no series query.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use nilometer_series::Bucket;

use super::group::{self, divides};
use super::part;
use super::view::View;
use crate::walk::ExprWalk;

/// The same plan grouped by the finest of its buckets; `None` = there are not several, or it is no series query.
pub(super) fn within(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return Ok(None);
    };
    if aggregate.group_expr.len() < 2 {
        return Ok(None);
    }
    let Some(view) = View::of(&aggregate.input, &[])? else {
        return Ok(None);
    };
    let input = aggregate.input.schema();
    let groups = aggregate.group_expr.iter();
    let buckets: Vec<Option<Bucket>> = groups.map(|it| group::bucket(it, &view, input)).collect();
    let Some(finest) = finest(&buckets) else {
        return Ok(None);
    };
    let is_kept = |at: usize| at == finest || buckets.get(at).is_none_or(Option::is_none);
    let kept = aggregate.group_expr.iter().enumerate();
    let kept = kept.filter(|(at, _)| is_kept(*at));
    let fine = Aggregate::try_new(
        Arc::clone(&aggregate.input),
        kept.map(|(_, expr)| expr.clone()).collect(),
        aggregate.aggr_expr.clone(),
    )?;
    let fine = Arc::new(LogicalPlan::Aggregate(fine));
    if part(&fine)?.is_none() {
        return Ok(None);
    }
    // Those that are left stand in the order that they had.
    let mut columns = fine.schema().iter();
    let start = (0..finest).filter(|at| is_kept(*at)).count();
    let start = Expr::Column(Column::from(fine.schema().qualified_field(start)));
    let mut shown = Vec::with_capacity(aggregate.schema.fields().len());
    for (at, (qualifier, field)) in aggregate.schema.iter().enumerate() {
        let coarse = aggregate.group_expr.get(at).filter(|_| !is_kept(at));
        let expr = match coarse {
            Some(coarse) => of_start(coarse, &start, input)?,
            None => match columns.next() {
                Some(column) => Expr::Column(Column::from(column)),
                None => return Ok(None),
            },
        };
        shown.push(expr.alias_qualified(qualifier.cloned(), field.name()));
    }
    let shown = Projection::try_new(shown, Arc::clone(&fine))?;
    Ok(Some(LogicalPlan::Projection(shown)))
}

/// The place of the buckets that lie in all others, which are others.
fn finest(buckets: &[Option<Bucket>]) -> Option<usize> {
    let all = || buckets.iter().flatten();
    let (at, finest) = buckets.iter().enumerate().find_map(|(at, bucket)| {
        let bucket = bucket.as_ref()?;
        all()
            .all(|other| divides(bucket, other))
            .then_some((at, bucket))
    })?;
    all().any(|other| other != finest).then_some(at)
}

/// The bucket of a time, of the start of the finer one that the time is in.
fn of_start(coarse: &Expr, start: &Expr, input: &DFSchema) -> Result<Expr> {
    let of = coarse.clone().unalias().replace_up(&mut |part| {
        let is_time = matches!(&part, Expr::Column(column) if input.has_column(column));
        Ok(if is_time {
            Transformed::yes(start.clone())
        } else {
            Transformed::no(part)
        })
    })?;
    Ok(of.data)
}
