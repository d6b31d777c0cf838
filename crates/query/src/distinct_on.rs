//! `DISTINCT ON (a, a)` is `DISTINCT ON (a)`. The planner counts what stands there and then looks for as many columns, where
//! a grouping has each only once.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::{Distinct, DistinctOn, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// Leaves each expression of DISTINCT ON there once.
#[derive(Debug)]
pub(crate) struct DistinctOnce;

impl AnalyzerRule for DistinctOnce {
    fn name(&self) -> &'static str {
        "distinct_on_once"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Distinct(Distinct::On(on)) => once(on),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn once(mut on: DistinctOn) -> Result<Transformed<LogicalPlan>> {
    let mut each = Vec::with_capacity(on.on_expr.len());
    for expr in std::mem::take(&mut on.on_expr) {
        if !each.contains(&expr) {
            each.push(expr);
        }
    }
    on.on_expr = each;
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
}
