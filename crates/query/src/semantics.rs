//! Semantics of `PostgreSQL` where the library's differ: NULL, floats, integers, numbers, times, joins, subqueries.
//!
//! Does: rewrite plans, each file for one subject, before types are settled or after. Does not: make plans faster (`planning`
//! does), or read syntax (`statement/rewrite` does).

pub(crate) mod casts;
pub(crate) mod checked;
pub(crate) mod clocks;
pub(crate) mod distinct_on;
pub(crate) mod float_key;
pub(crate) mod intervals;
pub(crate) mod lateral;
pub(crate) mod logic;
pub(crate) mod merged;
pub(crate) mod numbers;
pub(crate) mod outer;
pub(crate) mod set_all;
pub(crate) mod times;
pub(crate) mod values;
pub(crate) mod windows;
pub(crate) mod zone;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr_rewriter::NamePreserver;

/// Changes an expression of a node and leaves it the name that it had. Each member of a grouping set keeps its own: a set with
/// a name around it would be a column to group by.
pub(crate) fn with_names_kept(
    names: &NamePreserver,
    expr: Expr,
    mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let mut keep = |expr: Expr| {
        let name = names.save(&expr);
        Ok(change(expr)?.update_data(|expr| name.restore(expr)))
    };
    if matches!(expr, Expr::GroupingSet(_)) {
        return expr.map_children(keep);
    }
    keep(expr)
}
