//! Types of casts: that which is cast to, and no longer the one that the column was declared with.
//!
//! `DataFusion` (55.2) hands on what the field under a cast says beside its type. A column of a declared type says there which
//! one it is: a `date` cast to a timestamp was still described to clients as a `date`, and they read its bits as one.
//!
//! Does: say in such a cast that its field has nothing of the one below. Does not: touch casts of values that say nothing, or
//! those by which nothing is put out, such as in conditions.
//!
//! The rule comes before types are settled, so that it sees what the statement says and no cast of the planner's own.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast};
use datafusion::optimizer::AnalyzerRule;
use nilometer_engine::SQL_TYPE;

use crate::semantics::with_names_kept;
use crate::walk::{ExprWalk, PlanWalk};

/// The name of a cast's field. A field that has one stands for itself; no answer shows it.
const NAME: &str = "cast";

/// The rule.
#[derive(Debug)]
pub(crate) struct TypedCasts;

impl AnalyzerRule for TypedCasts {
    fn name(&self) -> &'static str {
        "typed_casts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // Most statements have no such cast, and looking is cheaper than taking them apart.
        if !has_some(&plan)? {
            return Ok(plan);
        }
        let typed = plan.replace_up(&mut |node| {
            let node = if puts_out(&node) {
                let schema = merge_schema(&node.inputs());
                let names = NamePreserver::new(&node);
                node.replace_expressions(&mut |expr| {
                    with_names_kept(&names, expr, |expr| {
                        expr.replace_up(&mut |part| Ok(typed(part, &schema)))
                    })
                })?
            } else {
                Transformed::no(node)
            };
            // What stands above a changed node sees other fields.
            node.map_data(LogicalPlan::recompute_schema)
        })?;
        Ok(typed.data)
    }
}

/// Whether the expressions of a node become columns of what it puts out.
fn puts_out(node: &LogicalPlan) -> bool {
    matches!(
        node,
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_)
    )
}

fn has_some(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.walk(&mut |node| {
        if puts_out(node) {
            let schema = merge_schema(&node.inputs());
            node.walk_expressions(&mut |expr| {
                found = found || expr.has(&mut |part| Ok(is_untyped(part, &schema)))?;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

/// Whether it is a cast of a value that says its type, and says none itself.
fn is_untyped(part: &Expr, schema: &DFSchema) -> bool {
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = part else {
        return false;
    };
    let below = || expr.to_field(schema);
    field.name().is_empty()
        && field.metadata().is_empty()
        && below().is_ok_and(|(_, below)| below.metadata().contains_key(SQL_TYPE))
}

fn typed(part: Expr, schema: &DFSchema) -> Transformed<Expr> {
    if !is_untyped(&part, schema) {
        return Transformed::no(part);
    }
    let named = |field: &FieldRef| Arc::new(Field::clone(field).with_name(NAME));
    Transformed::yes(match part {
        Expr::Cast(Cast { expr, field }) => {
            let field = named(&field);
            Expr::Cast(Cast { expr, field })
        }
        Expr::TryCast(TryCast { expr, field }) => {
            let field = named(&field);
            Expr::TryCast(TryCast { expr, field })
        }
        part => part,
    })
}
