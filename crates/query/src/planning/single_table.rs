//! The planner's rules for statements of one table: rows filtered, grouped, sorted, cut off, here called plain. They are what
//! dashboards ask all day. A statement whose shape has a template meets no rule at all; the first of each shape does, and each of
//! those that no template can be made of, and most of their time is planning.
//!
//! So they are planned with fewer of the planner's rules, once. The rules that are left out are about joins, subqueries,
//! unions and windows, which a plain query has none of; each of them would walk through the plan all the same. One round
//! of the others is enough: what makes a second worthwhile is a plan in which one rule uncovers work for an earlier one
//! further up. Does not: change what is answered. A test compares the plans of every statement in the tests' files with
//! those that all rules make.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::OptimizerRule;
use datafusion::physical_optimizer::PhysicalOptimizerRule;

use crate::walk::PlanWalk;

/// Rules of the logical plan that find nothing to do in a plain one.
const LOGICAL_LEFT_OUT: [&str; 14] = [
    "rewrite_set_comparison",
    "optimize_unions",
    "unions_to_filter",
    "eliminate_join",
    "mark_subqueries",
    "decorrelate_predicate_subquery",
    "scalar_subquery_to_join",
    "decorrelate_lateral_join",
    "extract_equijoin_predicate",
    "eliminate_cross_join",
    "filter_null_join_keys",
    "eliminate_outer_join",
    // About parts of structs, which no table has.
    "extract_leaf_expressions",
    "push_down_leaf_projections",
];

/// The same of the physical plan.
const PHYSICAL_LEFT_OUT: [&str; 6] = [
    // A plain query joins nothing.
    "null_sides",
    "join_selection",
    "HashJoinBuffering",
    "WindowTopN",
    "LimitPushPastWindows",
    // Checks the work of the others.
    "SanityCheckPlan",
];

/// Rounds of the logical rules.
pub(crate) const PASSES: usize = 1;

pub(crate) fn logical_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = crate::planning::planner::logical_rules();
    rules.retain(|rule| !LOGICAL_LEFT_OUT.contains(&rule.name()));
    rules
}

pub(crate) fn physical_rules(
    mut all: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    all.retain(|rule| !PHYSICAL_LEFT_OUT.contains(&rule.name()));
    all
}

/// Whether a plan, before any rule has seen it, is one of a plain query.
pub(crate) fn is_plain(query: &LogicalPlan) -> Result<bool> {
    let mut plain = true;
    query.apply(|node| {
        plain = is_plain_node(node) && has_plain_expressions(node)?;
        Ok(go_on(plain))
    })?;
    Ok(plain)
}

fn go_on(plain: bool) -> TreeNodeRecursion {
    if plain {
        TreeNodeRecursion::Continue
    } else {
        TreeNodeRecursion::Stop
    }
}

fn is_plain_node(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::TableScan(scan) => scan.source.get_logical_plan().is_none(),
        LogicalPlan::SubqueryAlias(alias) => is_table(&alias.input),
        // Of rows, and not of groups.
        LogicalPlan::Filter(filter) => match filter.input.as_ref() {
            LogicalPlan::SubqueryAlias(alias) => is_table(&alias.input),
            input => is_table(input),
        },
        // Of groups or of what is sorted. One that goes down to the rows has to wait for the filters: two rounds.
        LogicalPlan::Limit(limit) => match limit.input.as_ref() {
            LogicalPlan::Projection(projection) => is_whole(&projection.input),
            input => is_whole(input),
        },
        LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_) => true,
        _ => false,
    }
}

fn is_table(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::TableScan(_))
}

/// Whether all rows are there before the first comes out.
fn is_whole(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Sort(_) | LogicalPlan::Aggregate(_))
}

/// Whether no expression has a query inside, or something that is simple only after it was simplified twice.
fn has_plain_expressions(node: &LogicalPlan) -> Result<bool> {
    let mut plain = true;
    node.walk_expressions(&mut |expr| {
        expr.apply(|expr| {
            plain = match expr {
                Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _) => false,
                // A value that is there twice is taken out in the second round.
                Expr::InList(list) => {
                    let mut seen = HashSet::new();
                    has_column(&list.expr)
                        && list.list.iter().all(|it| is_value(it) && seen.insert(it))
                }
                Expr::Between(between) => {
                    has_column(&between.expr)
                        && !has_column(&between.low)
                        && !has_column(&between.high)
                }
                Expr::Like(like) | Expr::SimilarTo(like) => has_column(&like.expr),
                Expr::IsNull(inner) | Expr::IsNotNull(inner) => has_column(inner),
                // `1 < a` is turned around only when all around it is simple.
                Expr::BinaryExpr(binary) if binary.op.supports_propagation() => {
                    has_column(&binary.left)
                }
                _ => true,
            };
            Ok(go_on(plain))
        })
    })?;
    Ok(plain)
}

fn has_column(expr: &Expr) -> bool {
    expr.any_column_refs()
}

fn is_value(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if !value.is_null())
}
