//! Plans that let go of their thread: a query whose client went, or whose time is over, is stopped between two polls.
//!
//! Leaves of a plan give their thread back after a while by themselves. A join turns one batch of a leaf into thousands of
//! its own without asking a leaf again, and an aggregate above it takes them all in one poll; so joins are made to give it
//! back too. Where a join has a condition it may work long and have no batch at all; so its condition looks out as well.

use std::sync::Arc;

use datafusion::common::Result as PlanResult;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::error::Error;
use crate::stop::Stop;

/// What makes many batches of one, by the ends of the operators' names.
const MULTIPLIERS: [&str; 3] = ["JoinExec", "UnnestExec", "RecursiveQueryExec"];

/// How many of them, from the root on. Each takes one of the 128 turns that a task has in one poll before it asks the
/// next: were there more than that above each other, the last would never get its turn.
const WRAPPED_MAX: usize = 32;

pub(crate) fn cooperate(
    plan: Arc<dyn ExecutionPlan>,
    stop: &Stop,
) -> Result<Arc<dyn ExecutionPlan>, Error> {
    let mut left = WRAPPED_MAX;
    Ok(wrap(plan, stop, &mut left)?)
}

/// Whether an operator makes many rows of few.
pub(crate) fn multiplies(plan: &dyn ExecutionPlan) -> bool {
    MULTIPLIERS.iter().any(|end| plan.name().ends_with(end))
}

fn wrap(
    plan: Arc<dyn ExecutionPlan>,
    stop: &Stop,
    left: &mut usize,
) -> PlanResult<Arc<dyn ExecutionPlan>> {
    let is_wrapped = multiplies(plan.as_ref()) && *left > 0;
    *left -= usize::from(is_wrapped);
    let children: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().cloned().collect();
    let wrapped: PlanResult<Vec<_>> = children
        .into_iter()
        .map(|child| wrap(child, stop, left))
        .collect();
    let plan = watch(replace_children_if_necessary(plan, wrapped?)?, stop)?;
    Ok(if is_wrapped {
        Arc::new(CooperativeExec::new(plan))
    } else {
        plan
    })
}

/// A join with the condition that looks out; anything else as it is.
fn watch(plan: Arc<dyn ExecutionPlan>, stop: &Stop) -> PlanResult<Arc<dyn ExecutionPlan>> {
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter()
    {
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(stop.watch(filter)));
        return Ok(Arc::new(join.build()?));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter()
    {
        return join
            .builder()
            .with_filter(Some(stop.watch(filter)))
            .build_exec();
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>()
        && let Some(filter) = join.filter()
    {
        return Ok(Arc::new(SortMergeJoinExec::try_new(
            Arc::clone(join.left()),
            Arc::clone(join.right()),
            join.on().to_vec(),
            Some(stop.watch(filter)),
            join.join_type(),
            join.sort_options().to_vec(),
            join.null_equality(),
        )?));
    }
    Ok(plan)
}
