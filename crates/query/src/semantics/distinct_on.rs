//! `DISTINCT ON (a, a)` is `DISTINCT ON (a)`, and `ORDER BY a, a` within an aggregate is `ORDER BY a`. The library counts what
//! stands there, and then finds fewer: a grouping has each column once, and an order each key.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, SortExpr};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::{ExprWalk, PlanWalk};

/// Leaves each expression of DISTINCT ON, and each key of an aggregate's order, there once.
#[derive(Debug)]
pub(crate) struct DistinctOnce;

impl AnalyzerRule for DistinctOnce {
    fn name(&self) -> &'static str {
        "distinct_on_once"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.replace_up(&mut |node| match node {
            LogicalPlan::Distinct(Distinct::On(mut on)) => {
                keep_first(&mut on.on_expr, |expr| expr);
                if let Some(keys) = &mut on.sort_expr {
                    keep_first(keys, key);
                }
                let on = LogicalPlan::Distinct(Distinct::On(on));
                Ok(Transformed::yes(on))
            }
            LogicalPlan::Aggregate(_) => {
                let names = NamePreserver::new(&node);
                node.replace_expressions(&mut |expr| {
                    let name = names.save(&expr);
                    let once = expr.replace_up(&mut |expr| Ok(ordered_once(expr)))?;
                    Ok(once.update_data(|expr| name.restore(expr)))
                })
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn ordered_once(mut expr: Expr) -> Transformed<Expr> {
    let Expr::AggregateFunction(call) = &mut expr else {
        return Transformed::no(expr);
    };
    let before = call.params.order_by.len();
    keep_first(&mut call.params.order_by, key);
    let is_changed = call.params.order_by.len() < before;
    Transformed::new_transformed(expr, is_changed)
}

fn key(sort: &SortExpr) -> &Expr {
    &sort.expr
}

/// Drops what is there already. Lists are as short as somebody writes them.
fn keep_first<T>(all: &mut Vec<T>, part: impl Fn(&T) -> &Expr) {
    let mut kept: Vec<T> = Vec::with_capacity(all.len());
    for one in std::mem::take(all) {
        if !kept.iter().any(|other| part(other) == part(&one)) {
            kept.push(one);
        }
    }
    *all = kept;
}
