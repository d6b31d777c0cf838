//! Stop conditions of a statement while it is planned: the planner yields to nobody, and some plans take it seconds.
//!
//! Does: end planning between two of the planner's rules once the statement has to end. Does not: interrupt a rule, or the
//! reading of the text; what bounds them is in `statement/bounds.rs` and `planning/bounds.rs`.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use nilometer_service::{Running, Stop};

use crate::error::Error;

thread_local! {
    /// Of the statement that this thread plans.
    static STOP: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// Plans, until the statement has to end.
pub(crate) async fn within<T>(
    running: &Running,
    planning: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    // On the heap: what plans is large, and so would be whatever waits for it.
    let mut planning = Box::pin(planning);
    let planned = poll_fn(|context| {
        // Views are planned within the statements that name them.
        let outer = STOP.replace(Some(running.stop().clone()));
        let polled = planning.as_mut().poll(context);
        STOP.set(outer);
        polled
    })
    .await;
    // The error of one that was stopped says nothing.
    planned.map_err(|error| running.ended().map_or(error, Error::from))
}

/// Fails when the statement that this thread plans has to end.
pub(crate) fn check() -> Result<()> {
    let is_due = STOP.with_borrow(|stop| stop.as_ref().is_some_and(Stop::is_due));
    if is_due {
        return Err(DataFusionError::Execution(
            "the statement has to end".to_owned(),
        ));
    }
    Ok(())
}

/// A rule that changes nothing and fails when the statement has to end.
#[derive(Debug)]
pub(crate) struct EndInTime;

impl AnalyzerRule for EndInTime {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        check()?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "end_in_time"
    }
}

impl OptimizerRule for EndInTime {
    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        check()?;
        Ok(Transformed::no(plan))
    }

    fn name(&self) -> &'static str {
        "end_in_time"
    }
}

/// The planner's rules with ours after each.
pub(crate) fn between(
    rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let ours: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(EndInTime);
    let with_ours = |rule| [rule, Arc::clone(&ours)];
    rules.into_iter().flat_map(with_ours).collect()
}
