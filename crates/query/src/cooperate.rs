//! Plans that let go of their thread: a query whose client went, or whose time is over, is stopped between two polls.
//!
//! Leaves of a plan give their thread back after a while by themselves. A join turns one batch of a leaf into thousands of
//! its own without asking a leaf again, and an aggregate above it takes them all in one poll; so joins are made to give it
//! back too.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

use crate::error::Error;

/// What makes many batches of one, by the ends of the operators' names.
const MULTIPLIERS: [&str; 3] = ["JoinExec", "UnnestExec", "RecursiveQueryExec"];

pub(crate) fn cooperate(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>, Error> {
    let wrapped = plan.transform_up(|node| {
        if MULTIPLIERS.iter().any(|end| node.name().ends_with(end)) {
            let node: Arc<dyn ExecutionPlan> = Arc::new(CooperativeExec::new(node));
            Ok(Transformed::yes(node))
        } else {
            Ok(Transformed::no(node))
        }
    })?;
    Ok(wrapped.data)
}
