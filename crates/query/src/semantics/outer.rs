//! Subqueries that speak of the outer row where `DataFusion` (55.2) cannot take them apart: in what they select, without a table,
//! or in conditions other than equality below an aggregate.
//!
//! Does: put the outer row's columns where they are spoken of, above the join (`lateral`) or in place of the subquery
//! (`values`). Does not: join anything by itself but the rows of an aggregate; the planner joins what is left.

pub(crate) mod constants;
mod lateral;
mod only;
mod values;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::{ExprWalk, PlanWalk};

/// The table of the inner columns while they are joined.
const INNER: &str = "__inner";

/// Whether there is an inner row.
const FOUND: &str = "__found";

/// The rule. It comes before the others that look at subqueries, and before types are settled.
#[derive(Debug)]
pub(crate) struct OuterRows;

impl AnalyzerRule for OuterRows {
    fn name(&self) -> &'static str {
        "outer_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut speaks = false;
        plan.walk(&mut |node| {
            speaks |= matches!(node, LogicalPlan::Subquery(_));
            node.walk_expressions(&mut |expr| {
                speaks |= expr.has(&mut |part| Ok(values::outer_scalar(part).is_some()))?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        if !speaks {
            return Ok(plan);
        }
        let mut tables = 0usize;
        let apart = plan.replace_up(&mut |node| {
            if let LogicalPlan::Join(join) = &node
                && let Some(joined) = lateral::joined(join, &mut tables)?
            {
                return Ok(Transformed::yes(joined));
            }
            values::placed(node, &mut tables)
        })?;
        Ok(apart.data)
    }
}

/// An expression of a subquery as one beside the outer row, where the row has the columns that it speaks of.
fn beside(expr: Expr, outer: &DFSchema) -> Result<Expr> {
    let placed = expr.replace_up(&mut |part| {
        Ok(match part {
            Expr::OuterReferenceColumn(_, column) if outer.has_column(&column) => {
                Transformed::yes(Expr::Column(column))
            }
            part => Transformed::no(part),
        })
    })?;
    Ok(placed.data)
}

fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.has(&mut |part| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    })
}

/// An expression with other ones for its columns, which are those of `schema`.
fn replaced(
    expr: Expr,
    schema: &DFSchema,
    mut by: impl FnMut(usize, &Column) -> Result<Expr>,
) -> Result<Expr> {
    let replaced = expr.replace_up(&mut |part| match &part {
        Expr::Column(column) => match schema.maybe_index_of_column(column) {
            Some(place) => Ok(Transformed::yes(by(place, column)?)),
            None => Ok(Transformed::no(part)),
        },
        _ => Ok(Transformed::no(part)),
    })?;
    Ok(replaced.data)
}

/// What a plan selects, and from what: the projections on top of it as one.
fn selected(plan: &LogicalPlan) -> Result<Option<(Vec<Expr>, &LogicalPlan)>> {
    let LogicalPlan::Projection(projection) = plan else {
        return Ok(None);
    };
    let Some((below, input)) = selected(&projection.input)? else {
        let exprs = projection.expr.iter().cloned().map(Expr::unalias);
        return Ok(Some((exprs.collect(), projection.input.as_ref())));
    };
    Ok(Some((through(projection, &below)?, input)))
}

fn through(upper: &Projection, below: &[Expr]) -> Result<Vec<Expr>> {
    let schema = upper.input.schema();
    let exprs = upper.expr.iter().map(|expr| {
        replaced(expr.clone().unalias(), schema, |place, column| {
            let below = below.get(place).cloned();
            Ok(below.unwrap_or_else(|| Expr::Column(column.clone())))
        })
    });
    exprs.collect()
}
