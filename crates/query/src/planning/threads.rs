//! Plans for one thread over few rows: to hand some thousand rows from thread to thread takes longer than the work.
//!
//! Does: look at what a plan reads, and have the other rules plan for one thread where that is little. They are inside this
//! one because rules take the number of threads from the settings, which no rule can change for the next. Does not: judge
//! joins, which make many rows of few.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::limits::cooperate::multiplies;
use crate::limits::plan_time;
use crate::operators::scan::{ROWS_PER_THREAD, SeriesScan};
use crate::operators::series::SeriesExec;

/// All physical rules, and the settings for one thread.
#[derive(Debug)]
pub(crate) struct ThreadsByRows {
    rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
    one_thread: ConfigOptions,
}

impl ThreadsByRows {
    pub(crate) fn new(
        rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
        config: &ConfigOptions,
    ) -> Self {
        let mut one_thread = config.clone();
        one_thread.execution.target_partitions = 1;
        Self { rules, one_thread }
    }
}

impl PhysicalOptimizerRule for ThreadsByRows {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let config = if reads_few_rows(&plan)? {
            &self.one_thread
        } else {
            config
        };
        self.rules.iter().try_fold(plan, |plan, rule| {
            plan_time::check()?;
            rule.optimize(plan, config)
        })
    }

    fn name(&self) -> &'static str {
        "ThreadsByRows"
    }

    fn schema_check(&self) -> bool {
        self.rules.iter().all(|rule| rule.schema_check())
    }
}

/// Whether all of a plan's leaves are scans of what is not worth a second thread.
fn reads_few_rows(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut rows = 0;
    plan.apply(|node| {
        if multiplies(node.as_ref()) {
            rows = u64::MAX;
        } else if node.children().is_empty() {
            // Groups, or the first of some rows: few of what a series query answers become work for several.
            let is_series = node.downcast_ref::<SeriesExec>().is_some();
            let scan = node.downcast_ref::<SeriesScan>();
            let own = scan.map_or(
                if is_series { 0 } else { u64::MAX },
                SeriesScan::rows_estimate,
            );
            rows = own.saturating_add(rows);
        }
        Ok(if rows > ROWS_PER_THREAD {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(rows <= ROWS_PER_THREAD)
}
