//! Values of enumerations in the order in which their labels were declared.
//!
//! Does: sort by the place of a label, and compare places, where a column of a table is seen to be of such a type; take a text that it
//! is compared with for a label. Does not: look through calculations and aggregates, which have texts.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, LogicalPlan, Operator, ScalarUDF, lit};
use nilometer_engine::{ENUM_TYPE, SQL_TYPE};

use crate::semantics::with_names_kept;
use crate::walk::{ExprWalk, PlanWalk};

/// The type that a value is of, if it is a column of an enumeration.
fn type_of<'a>(expr: &Expr, schema: &'a DFSchema) -> Option<&'a str> {
    match expr {
        Expr::Alias(alias) => type_of(&alias.expr, schema),
        Expr::Column(column) => {
            let (_, field) = schema.qualified_field_from_column(column).ok()?;
            field.metadata().get(SQL_TYPE)?.strip_prefix(ENUM_TYPE)
        }
        _ => None,
    }
}

/// The plan with places in the places of labels; `None` = it has none.
pub(crate) fn settled(
    plan: &LogicalPlan,
    place: impl FnOnce() -> Option<Arc<ScalarUDF>>,
) -> Result<Option<LogicalPlan>> {
    let mut has_some = false;
    plan.walk(&mut |node| {
        if let LogicalPlan::TableScan(scan) = node {
            let mut fields = scan.projected_schema.fields().iter();
            has_some |= fields.any(|field| {
                let of = field.metadata().get(SQL_TYPE);
                of.is_some_and(|of| of.starts_with(ENUM_TYPE))
            });
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !has_some {
        return Ok(None);
    }
    let Some(place) = place() else {
        return Ok(None);
    };
    let settled = plan.clone().replace_up(&mut |node| {
        if matches!(node, LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        if let LogicalPlan::Sort(mut sort) = node {
            let mut is_changed = false;
            for key in &mut sort.expr {
                if let Some(of) = type_of(&key.expr, &schema) {
                    key.expr = place_of(&place, of, std::mem::take(&mut key.expr));
                    is_changed = true;
                }
            }
            return Ok(Transformed::new_transformed(
                LogicalPlan::Sort(sort),
                is_changed,
            ));
        }
        let names = NamePreserver::new(&node);
        node.replace_expressions(&mut |expr| {
            with_names_kept(&names, expr, |expr| {
                expr.replace_up(&mut |part| Ok(compared(part, &schema, &place)))
            })
        })
    })?;
    Ok(settled.transformed.then_some(settled.data))
}

fn place_of(place: &Arc<ScalarUDF>, of: &str, value: Expr) -> Expr {
    let arguments = vec![lit(of), value];
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(place), arguments))
}

fn compared(part: Expr, schema: &DFSchema, place: &Arc<ScalarUDF>) -> Transformed<Expr> {
    match part {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(
                op,
                Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
            ) =>
        {
            let of = type_of(&left, schema).or_else(|| type_of(&right, schema));
            let Some(of) = of.map(str::to_owned) else {
                return Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right }));
            };
            let placed = |side: Box<Expr>| Box::new(place_of(place, &of, *side));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr {
                left: placed(left),
                op,
                right: placed(right),
            }))
        }
        Expr::Between(Between {
            expr,
            negated,
            low,
            high,
        }) => {
            let Some(of) = type_of(&expr, schema).map(str::to_owned) else {
                return Transformed::no(Expr::Between(Between {
                    expr,
                    negated,
                    low,
                    high,
                }));
            };
            let placed = |side: Box<Expr>| Box::new(place_of(place, &of, *side));
            Transformed::yes(Expr::Between(Between {
                expr: placed(expr),
                negated,
                low: placed(low),
                high: placed(high),
            }))
        }
        part => Transformed::no(part),
    }
}
