//! Arguments of aggregates with FILTER: calculated for the rows alone that it lets in.
//!
//! `DataFusion` (55.2) calculates it for all rows where there are groups, and a division by zero that the filter was there to
//! avoid ended the statement.
//!
//! Does: put a CASE with the filter around arguments that are calculated. Does not: touch columns and constants, or filters that
//! would not answer the same twice.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::expr::{AggregateFunction, Case};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use crate::semantics::with_names_kept;
use crate::walk::{ExprWalk, PlanWalk};

/// The rule. It comes when types are settled, and before what is calculated in CASE is checked.
#[derive(Debug)]
pub(crate) struct FilterFirst;

impl AnalyzerRule for FilterFirst {
    fn name(&self) -> &'static str {
        "filter_first"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.walk(&mut |node| {
            if is_grouped(node) {
                node.walk_expressions(&mut |expr| {
                    found = found || expr.has(&mut has_some)?;
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !found {
            return Ok(plan);
        }
        let filtered = plan.replace_up(&mut |node| {
            if !is_grouped(&node) {
                return Ok(Transformed::no(node));
            }
            let names = NamePreserver::new(&node);
            node.replace_expressions(&mut |expr| {
                with_names_kept(&names, expr, |expr| expr.replace_up(&mut filtered))
            })
        })?;
        Ok(filtered.data)
    }
}

fn is_grouped(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Aggregate(aggregate) if !aggregate.group_expr.is_empty())
}

/// Whether a value is calculated, and a calculation can fail.
fn is_calculated(argument: &Expr) -> Result<bool> {
    argument.has(&mut |part| {
        Ok(!matches!(
            part,
            Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_)
        ))
    })
}

/// Whether an expression is an aggregate with a filter and something calculated.
fn has_some(part: &Expr) -> Result<bool> {
    let Expr::AggregateFunction(AggregateFunction { params, .. }) = part else {
        return Ok(false);
    };
    let Some(filter) = &params.filter else {
        return Ok(false);
    };
    let is_twice = filter.has(&mut |part| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_)
        ))
    })?;
    if is_twice || filter.is_volatile() {
        return Ok(false);
    }
    for argument in &params.args {
        if is_calculated(argument)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn filtered(part: Expr) -> Result<Transformed<Expr>> {
    if !has_some(&part)? {
        return Ok(Transformed::no(part));
    }
    let Expr::AggregateFunction(mut function) = part else {
        return Ok(Transformed::no(part));
    };
    let Some(filter) = function.params.filter.clone() else {
        return Ok(Transformed::no(Expr::AggregateFunction(function)));
    };
    for argument in &mut function.params.args {
        // What is the same for all rows, such as the share of a percentile, has no column.
        if argument.any_column_refs() && is_calculated(argument)? {
            let value = Box::new(std::mem::take(argument));
            let case = Case::new(None, vec![(filter.clone(), value)], None);
            *argument = Expr::Case(case);
        }
    }
    Ok(Transformed::yes(Expr::AggregateFunction(function)))
}
