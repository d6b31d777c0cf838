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

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::LogicalPlanBuilder;
    use datafusion::optimizer::{Optimizer, OptimizerContext};
    use nilometer_engine::MemoryBudget;
    use nilometer_service::{CancellationToken, Statements, Threads};

    use super::*;
    use crate::SqlOptions;

    /// A statement whose time is over at once, or after an hour.
    fn running(query_ms_max: u64) -> Running {
        let options = SqlOptions {
            query_ms_max,
            ..SqlOptions::default()
        };
        let budget = MemoryBudget::new(1 << 30);
        let statements = Arc::new(Statements::new(&options, &budget, Threads::of_caller()));
        statements.start("d", "SELECT 1", &CancellationToken::new())
    }

    /// The planner's rules with ours, as statements are planned.
    fn optimize() -> Result<LogicalPlan> {
        let plan = LogicalPlanBuilder::empty(true).build()?;
        let rules = between(Optimizer::new().rules);
        Optimizer::with_rules(rules).optimize(plan, &OptimizerContext::new(), |_, _| {})
    }

    /// A join of 127 tables answered nine seconds after a limit of one: nobody looked before the plan was whole.
    #[tokio::test]
    async fn planning_ends_when_its_statement_has_to() {
        let late = running(0);
        let ended = within(&late, async { Ok(optimize()?) }).await;
        let ended = ended.map(drop).unwrap_err();
        assert!(matches!(ended, Error::Time { limit_ms: 0 }), "{ended}");
        assert!(
            EndInTime
                .analyze(optimize().unwrap(), &ConfigOptions::new())
                .is_ok()
        );

        let early = running(3_600_000);
        within(&early, async { Ok(optimize()?) }).await.unwrap();
        // A statement that was stopped leaves nothing behind for the next one on its thread.
        check().unwrap();
    }

    /// What is planned within a statement, such as a view, is within its time too, and so is what comes after.
    #[tokio::test]
    async fn the_outer_statement_goes_on_after_an_inner_one() {
        let (late, early) = (running(0), running(3_600_000));
        let ended = within(&late, async {
            within(&early, async { Ok(check()?) }).await?;
            Ok(check()?)
        });
        assert!(matches!(ended.await, Err(Error::Time { .. })));
    }
}
