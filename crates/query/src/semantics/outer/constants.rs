//! A column that is the same in all rows of one side of an outer join is not so above the join: rows that the side has nothing
//! for have NULL there.
//!
//! `DataFusion` (55.2) takes such a constant for one above the join too, and drops it from what rows are sorted or grouped by.
//!
//! Does: put an operator around such a side that says nothing of constants and equal columns. Does not: touch its rows, their
//! order, or sides that have no constants.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, JoinType, Result, Statistics};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions, replace_children_if_necessary,
};

/// The rule. It comes before those that drop sorts.
#[derive(Debug)]
pub(crate) struct NullSides;

impl PhysicalOptimizerRule for NullSides {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let with_nulls = null_sides(plan.as_ref());
            let is_wrong = |(child, has_nulls): (&Arc<dyn ExecutionPlan>, bool)| {
                has_nulls && !child.equivalence_properties().constants().is_empty()
            };
            if !plan.children().into_iter().zip(with_nulls).any(is_wrong) {
                return Ok(Transformed::no(plan));
            }
            let sides = plan.children().into_iter().zip(with_nulls).map(|side| {
                if is_wrong(side) {
                    Arc::new(NullSide::new(Arc::clone(side.0))) as Arc<dyn ExecutionPlan>
                } else {
                    Arc::clone(side.0)
                }
            });
            let sides = sides.collect();
            replace_children_if_necessary(plan, sides).map(Transformed::yes)
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "null_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Which inputs of a join may have NULLs in place of their rows above it.
fn null_sides(plan: &dyn ExecutionPlan) -> [bool; 2] {
    let kind = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        join.join_type()
    } else {
        return [false; 2];
    };
    match kind {
        JoinType::Left => [false, true],
        JoinType::Right => [true, false],
        JoinType::Full => [true, true],
        _ => [false, false],
    }
}

/// The operator around such a side.
#[derive(Debug)]
struct NullSide {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl NullSide {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let mut known = EquivalenceProperties::new(input.schema());
        known.add_orderings(input.equivalence_properties().oeq_class().clone());
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(known);
        Self {
            input,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for NullSide {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NullSide")
    }
}

impl ExecutionPlan for NullSide {
    fn name(&self) -> &'static str {
        "NullSide"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children).map_err(|_| {
            DataFusionError::Internal("a side of a join is one operator".to_owned())
        })?;
        Ok(Arc::new(match options.children_properties {
            ChildrenPropertiesMode::Keep => Self {
                input,
                properties: Arc::clone(&self.properties),
            },
            ChildrenPropertiesMode::Recompute => Self::new(input),
        }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match input {
            [input] => Ok(Arc::clone(input)),
            _ => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
        }
    }
}
