//! `x NOT IN (1) OR x NOT IN (2)`: `DataFusion` 55.2 makes TRUE of it, and FALSE of `x IN (1, 2) AND x IN (3)`. For a `x` that
//! is NULL both are NULL, and so they are for a list with a NULL in it, which matters under NOT, IS NULL and in SELECT.
//!
//! Does: give each list of such an expression a name of its own for its value, so that the library's rule sees different
//! values, and take the names away again behind it. Does not: touch an expression with one list of each value, nor a chain of
//! `x = 1 OR x = 2`, of which the library rightly makes one list.

use std::collections::HashMap;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, TableReference};
use datafusion::logical_expr::expr::{BinaryExpr, InList};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::split_binary;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, lit};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::walk::{ExprWalk, PlanWalk};

/// The relation of names that are given here; no statement can write one.
const HIDDEN: &str = "__list\u{0}";

/// Lists of up to so many values become comparisons, `THRESHOLD_INLINE_INLIST` of the library.
const SPELLED_OUT_MAX: usize = 3;

/// The library's rule, with lists hidden from it that it would mistake.
#[derive(Debug, Default)]
pub(crate) struct KeepLists {
    inner: SimplifyExpressions,
}

impl OptimizerRule for KeepLists {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.inner.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let mut is_mistaken = false;
        plan.walk_expressions(&mut |expr| {
            is_mistaken |= has_several_lists(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !is_mistaken {
            return self.inner.rewrite(plan, config);
        }
        let names = NamePreserver::new(&plan);
        let mut saved = Vec::new();
        let kind = std::mem::discriminant(&plan);
        let asked = plan.clone();
        let hidden = plan.replace_expressions(&mut |expr| {
            saved.push(names.save(&expr));
            hide(expr)
        })?;
        let mut simplified = self.inner.rewrite(hidden.data, config)?;
        if std::mem::discriminant(&simplified.data) != kind {
            // An aggregation that became a projection of another: it stays what it was.
            return Ok(Transformed::no(asked));
        }
        let mut saved = saved.into_iter();
        let shown = simplified.data.replace_expressions(&mut |expr| {
            let shown = show(expr)?;
            Ok(match saved.next() {
                Some(name) => shown.update_data(|expr| name.restore(expr)),
                None => shown,
            })
        })?;
        simplified.data = shown.data;
        Ok(simplified)
    }
}

/// A value without casts around it, which the library takes away where it can.
fn bare(mut value: &Expr) -> &Expr {
    loop {
        value = match value {
            Expr::Cast(cast) => &cast.expr,
            Expr::TryCast(cast) => &cast.expr,
            value => return value,
        };
    }
}

/// What a list is of: of `IN`, or of comparisons that are made into one.
fn listed(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::InList(list) => Some(bare(&list.expr)),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) => match (bare(left), bare(right)) {
            (column @ Expr::Column(_), Expr::Literal(..))
            | (Expr::Literal(..), column @ Expr::Column(_)) => Some(column),
            _ => None,
        },
        _ => None,
    }
}

/// Whether there are two lists of one value, a chain of OR counted as one.
fn has_several_lists(expr: &Expr) -> Result<bool> {
    let mut lists: HashMap<&Expr, usize> = HashMap::new();
    count(expr, &mut lists)?;
    Ok(lists.values().any(|&count| count > 1))
}

fn count<'a>(expr: &'a Expr, lists: &mut HashMap<&'a Expr, usize>) -> Result<()> {
    match expr {
        Expr::InList(list) => *lists.entry(bare(&list.expr)).or_default() += 1,
        Expr::BinaryExpr(BinaryExpr {
            op: Operator::Or, ..
        }) => {
            // Comparisons in the chain, and whether it has a list.
            let mut chain: HashMap<&Expr, (usize, bool)> = HashMap::new();
            for member in split_binary(expr, Operator::Or) {
                match (listed(member), member) {
                    (Some(value), Expr::InList(InList { negated: false, .. })) => {
                        chain.entry(value).or_default().1 = true;
                    }
                    (Some(value), Expr::BinaryExpr(_)) => chain.entry(value).or_default().0 += 1,
                    _ => count(member, lists)?,
                }
            }
            for (value, (comparisons, has_list)) in chain {
                if has_list || comparisons > 1 {
                    *lists.entry(value).or_default() += 1;
                }
            }
        }
        _ => {
            expr.apply_children(|child| {
                count(child, lists)?;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
    }
    Ok(())
}

/// Gives each list its own name for its value.
fn hide(expr: Expr) -> Result<Transformed<Expr>> {
    if !has_several_lists(&expr)? {
        return Ok(Transformed::no(expr));
    }
    let mut lists = 0usize;
    expr.replace_up(&mut |mut inner| {
        let value = match &mut inner {
            Expr::InList(list) => &mut list.expr,
            Expr::BinaryExpr(binary) if binary.op == Operator::Eq => {
                match (bare(&binary.left), bare(&binary.right)) {
                    (Expr::Column(_), Expr::Literal(..)) => &mut binary.left,
                    (Expr::Literal(..), Expr::Column(_)) => &mut binary.right,
                    _ => return Ok(Transformed::no(inner)),
                }
            }
            _ => return Ok(Transformed::no(inner)),
        };
        lists += 1;
        // A cast around it stays where the library looks for one.
        let named = std::mem::take(value.as_mut()).replace_up(&mut |part| {
            Ok(match part {
                Expr::Column(_) => Transformed::yes(
                    part.alias_qualified(Some(TableReference::bare(HIDDEN)), lists.to_string()),
                ),
                part => Transformed::no(part),
            })
        })?;
        **value = named.data;
        Ok(Transformed::yes(inner))
    })
}

/// Takes the names away again, and spells short lists out as the library does when it sees a column.
fn show(expr: Expr) -> Result<Transformed<Expr>> {
    expr.replace_up(&mut |inner| match inner {
        Expr::Alias(alias)
            if alias
                .relation
                .as_ref()
                .is_some_and(|relation| relation.table() == HIDDEN) =>
        {
            Ok(Transformed::yes(*alias.expr))
        }
        Expr::InList(list) => {
            let is_column = matches!(list.expr.as_ref(), Expr::Column(_));
            if list.list.len() > SPELLED_OUT_MAX || !is_column {
                return Ok(Transformed::no(Expr::InList(list)));
            }
            let (value, negated) = (*list.expr, list.negated);
            let items = list.list.into_iter();
            let spelled = if negated {
                let unequal = items.map(|item| value.clone().not_eq(item));
                unequal.reduce(Expr::and).unwrap_or_else(|| lit(true))
            } else {
                let equal = items.map(|item| value.clone().eq(item));
                equal.reduce(Expr::or).unwrap_or_else(|| lit(false))
            };
            Ok(Transformed::yes(spelled))
        }
        other => Ok(Transformed::no(other)),
    })
}
