//! `VALUES` with subqueries: rows of their own, since the rows of `VALUES` are computed before any subquery is.
//!
//! `DataFusion` 55.2 computes them while it plans. `INSERT INTO readings VALUES (now(), (SELECT id FROM devices WHERE ...), 1.5)` was
//! an internal error.
//!
//! Does: write each row as `SELECT ...`, in order. Does not: touch `VALUES` without subqueries, or those that speak of an outer row.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, Values, col, ident, lit,
};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::{ExprWalk, PlanWalk};

/// The place of a row among the others, while they are put together.
const PLACE: &str = "__place";

/// The rule. It comes before those that spell subqueries.
#[derive(Debug)]
pub(crate) struct SelectRows;

impl AnalyzerRule for SelectRows {
    fn name(&self) -> &'static str {
        "select_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_asked = false;
        plan.walk(&mut |node| {
            if let LogicalPlan::Values(values) = node {
                is_asked |= has_subquery(values)?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !is_asked {
            return Ok(plan);
        }
        let selected = plan.replace_up(&mut |node| match node {
            LogicalPlan::Values(values) if has_subquery(&values)? => {
                selected(values).map(Transformed::yes)
            }
            node => Ok(Transformed::no(node)),
        })?;
        Ok(selected.data)
    }
}

/// Whether one of the values is a subquery, and none speaks of an outer row.
fn has_subquery(values: &Values) -> Result<bool> {
    let mut is_found = false;
    for expr in values.values.iter().flatten() {
        if expr.contains_outer() {
            return Ok(false);
        }
        is_found |= expr.has(&mut |part| {
            Ok(match part {
                Expr::ScalarSubquery(query) => query.outer_ref_columns.is_empty(),
                Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_) => true,
                _ => false,
            })
        })?;
    }
    Ok(is_found)
}

fn selected(values: Values) -> Result<LogicalPlan> {
    let names: Vec<String> = values
        .schema
        .fields()
        .iter()
        .map(|field| field.name().clone())
        .collect();
    let is_one = values.values.len() == 1;
    let mut rows = (0_u64..).zip(values.values).map(|(place, row)| {
        let mut row: Vec<Expr> = row
            .into_iter()
            .zip(&names)
            .map(|(expr, name)| expr.alias(name))
            .collect();
        if !is_one {
            row.push(lit(place).alias(PLACE));
        }
        LogicalPlanBuilder::empty(true).project(row)
    });
    let Some(first) = rows.next().transpose()? else {
        return internal_err!("VALUES has no row");
    };
    if is_one {
        return first.build();
    }
    let mut all = first;
    for row in rows {
        all = all.union(row?.build()?)?;
    }
    let columns = names.iter().map(ident);
    all.sort([SortExpr::new(col(PLACE), true, false)])?
        .project(columns)?
        .build()
}
