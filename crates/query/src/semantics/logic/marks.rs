//! `EXISTS` for a value: in the SELECT list, in what is grouped or added up, in windows.
//!
//! The planner joins subqueries only where rows are filtered. Here the node reads a join that marks its rows, as the planner
//! makes it for a condition with OR, and the mark takes the place of the subquery. `IN` has become `EXISTS` before
//! (`subqueries`). Does not: touch conditions, or subqueries that the planner cannot take apart.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::walk::{ExprWalk, PlanWalk};

/// The rule. It comes before the planner's own that joins subqueries.
#[derive(Debug)]
pub(crate) struct MarkSubqueries;

/// The name of the planner's rule.
pub(crate) const DECORRELATE: &str = "decorrelate_predicate_subquery";

impl OptimizerRule for MarkSubqueries {
    fn name(&self) -> &'static str {
        "mark_subqueries"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let is_ours = matches!(
            plan,
            LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)
        );
        if !is_ours || !has_exists(&plan)? {
            return Ok(Transformed::no(plan));
        }
        let Some(mut input) = plan.inputs().first().map(|input| (*input).clone()) else {
            return Ok(Transformed::no(plan));
        };
        let names = NamePreserver::new(&plan);
        let mut is_marked = false;
        let mut exprs = Vec::new();
        for expr in plan.expressions() {
            let name = names.save(&expr);
            let marked = expr.replace_down(&mut |part| match part {
                Expr::Exists(_) => match mark(&part, &input, config)? {
                    Some((joined, mark)) => {
                        input = joined;
                        is_marked = true;
                        Ok(Transformed::yes(mark))
                    }
                    None => Ok(Transformed::no(part)),
                },
                part => Ok(Transformed::no(part)),
            })?;
            exprs.push(name.restore(marked.data));
        }
        if !is_marked {
            return Ok(Transformed::no(plan));
        }
        let marked = plan.with_new_exprs(exprs, vec![input])?;
        Ok(Transformed::yes(marked))
    }
}

fn has_exists(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.walk_expressions(&mut |expr| {
        found |= expr.has(&mut |part| Ok(matches!(part, Expr::Exists(_))))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The rows with a mark, and what the mark says of a row.
fn mark(
    exists: &Expr,
    rows: &LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Option<(LogicalPlan, Expr)>> {
    // As a part of a condition, which the planner's rule makes a join with a mark, a condition on that and the columns that
    // there were; without the last two it is what is asked for.
    let condition = Expr::IsTrue(Box::new(exists.clone()));
    let filter = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(rows.clone()))?);
    let joined = DecorrelatePredicateSubquery::new().rewrite(filter, config)?;
    let LogicalPlan::Projection(columns) = joined.data else {
        return Ok(None);
    };
    let LogicalPlan::Filter(filter) = Arc::unwrap_or_clone(columns.input) else {
        return Ok(None);
    };
    match filter.predicate {
        Expr::IsTrue(mark) => Ok(Some((Arc::unwrap_or_clone(filter.input), *mark))),
        _ => Ok(None),
    }
}
