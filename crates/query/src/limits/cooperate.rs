//! Cancellation between polls: a plan ends when its client has gone or its time is over.
//!
//! Scans give their thread back after a while by themselves. Other leaves make as many rows as they are asked for; a join
//! turns one batch of a leaf into thousands of its own without asking a leaf again, and an aggregate above it takes them all
//! in one poll; a window or a sort hands on what it holds. So there is a guard around each of these. Where a join has a
//! condition it may work long and have no batch at all; so its condition looks out as well.

use std::sync::Arc;

use datafusion::common::Result as PlanResult;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use nilometer_service::Stop;

use crate::error::Error;
use crate::limits::guard::Guard;
use crate::limits::scope::Scope;
use crate::limits::stop::watch_condition;
use crate::operators::scan::SeriesScan;

/// What makes many batches of one, by the ends of the operators' names.
const MULTIPLIERS: [&str; 3] = ["JoinExec", "UnnestExec", "RecursiveQueryExec"];

/// What hands on what it holds, however many rows these are.
const HOLDERS: [&str; 4] = [
    "WindowAggExec",
    "BoundedWindowAggExec",
    "SortExec",
    "PartialSortExec",
];

pub(crate) fn cooperate(
    plan: Arc<dyn ExecutionPlan>,
    scope: &Scope,
) -> Result<Arc<dyn ExecutionPlan>, Error> {
    Ok(wrap(plan, scope)?)
}

/// Whether an operator makes many rows of few.
pub(crate) fn multiplies(plan: &dyn ExecutionPlan) -> bool {
    MULTIPLIERS.iter().any(|end| plan.name().ends_with(end))
}

/// Whether there is a guard around it.
fn is_guarded(plan: &dyn ExecutionPlan) -> bool {
    let is_other_leaf = plan.children().is_empty() && plan.downcast_ref::<SeriesScan>().is_none();
    is_other_leaf || multiplies(plan) || HOLDERS.contains(&plan.name())
}

fn wrap(plan: Arc<dyn ExecutionPlan>, scope: &Scope) -> PlanResult<Arc<dyn ExecutionPlan>> {
    let is_guarded = is_guarded(plan.as_ref());
    let children: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().cloned().collect();
    let wrapped: PlanResult<Vec<_>> = children
        .into_iter()
        .map(|child| wrap(child, scope))
        .collect();
    let plan = watch(replace_children_if_necessary(plan, wrapped?)?, &scope.stop)?;
    Ok(if is_guarded {
        Arc::new(Guard::new(plan, scope))
    } else {
        plan
    })
}

/// A join with the condition that looks out; anything else as it is.
fn watch(plan: Arc<dyn ExecutionPlan>, stop: &Stop) -> PlanResult<Arc<dyn ExecutionPlan>> {
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        let join =
            NestedLoopJoinExecBuilder::from(join).with_filter(Some(watch_condition(stop, filter)));
        return Ok(Arc::new(join.build()?));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        return join
            .builder()
            .with_filter(Some(watch_condition(stop, filter)))
            .build_exec();
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>()
        && let Some(filter) = join.filter()
    {
        return Ok(Arc::new(SortMergeJoinExec::try_new(
            Arc::clone(join.left()),
            Arc::clone(join.right()),
            join.on().to_vec(),
            Some(watch_condition(stop, filter)),
            join.join_type(),
            join.sort_options().to_vec(),
            join.null_equality(),
        )?));
    }
    Ok(plan)
}
