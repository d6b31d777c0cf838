//! Plans that let go of their thread: a query whose client went, or whose time is over, is stopped between two polls.
//!
//! Leaves of a plan give their thread back after a while by themselves. A join turns one batch of a leaf into thousands of
//! its own without asking a leaf again, and an aggregate above it takes them all in one poll; so joins are made to give it
//! back too.

use std::sync::Arc;

use datafusion::common::Result as PlanResult;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::error::Error;

/// What makes many batches of one, by the ends of the operators' names.
const MULTIPLIERS: [&str; 3] = ["JoinExec", "UnnestExec", "RecursiveQueryExec"];

/// How many of them, from the root on. Each takes one of the 128 turns that a task has in one poll before it asks the
/// next: were there more than that above each other, the last would never get its turn.
const WRAPPED_MAX: usize = 32;

pub(crate) fn cooperate(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, Error> {
    let mut left = WRAPPED_MAX;
    Ok(wrap(plan, &mut left)?)
}

fn wrap(plan: Arc<dyn ExecutionPlan>, left: &mut usize) -> PlanResult<Arc<dyn ExecutionPlan>> {
    let multiplies = MULTIPLIERS.iter().any(|end| plan.name().ends_with(end)) && *left > 0;
    *left -= usize::from(multiplies);
    let children: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().cloned().collect();
    let wrapped: PlanResult<Vec<_>> = children
        .into_iter()
        .map(|child| wrap(child, left))
        .collect();
    let plan = replace_children_if_necessary(plan, wrapped?)?;
    Ok(if multiplies {
        Arc::new(CooperativeExec::new(plan))
    } else {
        plan
    })
}
