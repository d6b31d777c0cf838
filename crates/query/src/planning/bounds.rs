//! Bounds of a logical plan: how many tables and joins the planner is given.

use datafusion::common::DataFusionError;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;

use crate::error::Error;
use crate::walk::PlanWalk;

/// Joins of one query. The planner compares the sides of each with all the others': 128 joins are planned in a second, 300
/// took fifteen, and nothing ends it meanwhile.
pub(crate) const JOINS_MAX: usize = 128;

/// Refuses more tables and joins than the planner can carry. A view counts as all that its query reads, wherever it is
/// named: the planner puts a copy there, and views of views double with each level.
pub(crate) fn bound_tables(plan: &LogicalPlan, tables_max: usize) -> Result<(), Error> {
    let mut left = Left {
        tables: tables_max,
        joins: JOINS_MAX + 1,
    };
    left.count(plan)?;
    if left.tables == 0 {
        return Err(Error::TooDeep {
            limit: tables_max,
            position: None,
        });
    }
    if left.joins == 0 {
        return Err(Error::TooManyJoins { limit: JOINS_MAX });
    }
    Ok(())
}

/// Counts down to nothing, and no further.
struct Left {
    tables: usize,
    joins: usize,
}

impl Left {
    fn count(&mut self, plan: &LogicalPlan) -> Result<(), DataFusionError> {
        plan.walk(&mut |node| {
            match node {
                LogicalPlan::TableScan(scan) => {
                    self.tables = self.tables.saturating_sub(1);
                    if let Some(view) = scan.source.get_logical_plan() {
                        self.count(&view)?;
                    }
                }
                LogicalPlan::Join(_) => self.joins = self.joins.saturating_sub(1),
                _ => {}
            }
            Ok(if self.tables == 0 || self.joins == 0 {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        Ok(())
    }
}
