//! From a join with the marker in its condition to an [`AsofJoin`].
//!
//! The condition is equalities between the sides and one comparison of their times, all joined by AND. A filter above
//! the join that asks about the left side alone goes below it, since `DataFusion` pushes nothing through other
//! people's nodes; one about the right side must stay, for it would change what is nearest.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, Result, plan_err};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Extension, Filter, Join, JoinType, LogicalPlan, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::{AsofJoin, MARKER, Matching};
use crate::walk::{ExprWalk, PlanWalk};

const USAGE: &str = "ASOF JOIN ... ON: the condition is equalities of columns of both sides and one comparison of their times, joined by AND, such as a.host = b.host AND a.time >= b.time";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marker {
    signature: Signature,
}

/// The function that marks the condition.
pub(crate) fn marker() -> Arc<ScalarUDF> {
    let signature = Signature::exact(vec![DataType::Boolean], Volatility::Volatile);
    Arc::new(ScalarUDF::new_from_impl(Marker { signature }))
}

impl ScalarUDFImpl for Marker {
    fn name(&self) -> &'static str {
        MARKER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        plan_err!("{USAGE}")
    }
}

/// The rule. It comes after the one that settles types.
#[derive(Debug)]
pub(crate) struct FindAsofJoins;

impl AnalyzerRule for FindAsofJoins {
    fn name(&self) -> &'static str {
        "find_asof_joins"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !is_marked(&plan)? {
            return Ok(plan);
        }
        let found = plan.replace_up(&mut |node| match node {
            LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(holds_marker) => {
                asof(join).map(Transformed::yes)
            }
            LogicalPlan::Filter(filter) => push_left(filter),
            other => Ok(Transformed::no(other)),
        })?;
        if is_marked(&found.data)? {
            return plan_err!("{USAGE}");
        }
        Ok(found.data)
    }
}

fn is_marked(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.walk(&mut |node| {
        node.walk_expressions(&mut |expr| {
            found |= holds_marker(expr);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

fn holds_marker(expr: &Expr) -> bool {
    expr.has(&mut |inner| Ok(marked(inner).is_some()))
        .unwrap_or(false)
}

fn marked(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == MARKER => Some(args),
        _ => None,
    }
}

fn asof(join: Join) -> Result<LogicalPlan> {
    let keeps_left = match join.join_type {
        JoinType::Inner => false,
        JoinType::Left => true,
        other => return plan_err!("ASOF JOIN is inner or LEFT, not {other}"),
    };
    let mut on = join.on;
    let mut times = None;
    let mut conjuncts: Vec<Expr> = join
        .filter
        .into_iter()
        .flat_map(split_conjunction_owned)
        .collect();
    while let Some(conjunct) = conjuncts.pop() {
        if let Some(args) = marked(&conjunct) {
            let inner = args.iter().cloned().flat_map(split_conjunction_owned);
            let is_true = |expr: &Expr| *expr == datafusion::prelude::lit(true);
            conjuncts.extend(inner.filter(|expr| !is_true(expr)));
            continue;
        }
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = conjunct else {
            return plan_err!("{USAGE}");
        };
        // The left side's expression first.
        let (one, op, other) = if is_of(&left, &join.left) && is_of(&right, &join.right) {
            (left, Some(op), right)
        } else if is_of(&left, &join.right) && is_of(&right, &join.left) {
            (right, op.swap(), left)
        } else {
            return plan_err!("{USAGE}");
        };
        let (is_forward, is_strict) = match op {
            Some(Operator::Eq) => {
                on.push((*one, *other));
                continue;
            }
            Some(Operator::GtEq) => (false, false),
            Some(Operator::Gt) => (false, true),
            Some(Operator::LtEq) => (true, false),
            Some(Operator::Lt) => (true, true),
            _ => return plan_err!("{USAGE}"),
        };
        let kind = one.get_type(join.left.schema())?;
        if !(kind.is_temporal() || kind.is_integer()) {
            return plan_err!("ASOF JOIN compares times or integers, not {kind}");
        }
        let matching = Matching {
            is_forward,
            is_strict,
            keeps_left,
        };
        if times.replace(((*one, *other), matching)).is_some() {
            return plan_err!("{USAGE}; this one has two comparisons");
        }
    }
    let Some((pair, matching)) = times else {
        return plan_err!("{USAGE}; this one has no comparison");
    };
    on.push(pair);
    let node = AsofJoin::new(join.left, join.right, on, matching)?;
    Ok(LogicalPlan::Extension(Extension {
        node: Arc::new(node),
    }))
}

/// Whether an expression has columns, and all of them are of a side.
fn is_of(expr: &Expr, side: &LogicalPlan) -> bool {
    let columns = expr.column_refs();
    !columns.is_empty()
        && columns
            .iter()
            .all(|column: &&Column| side.schema().has_column(column))
}

fn push_left(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let unchanged = |filter| Ok(Transformed::no(LogicalPlan::Filter(filter)));
    let LogicalPlan::Extension(extension) = filter.input.as_ref() else {
        return unchanged(filter);
    };
    let Some(join) = extension.node.as_any().downcast_ref::<AsofJoin>() else {
        return unchanged(filter);
    };
    let conjuncts = split_conjunction_owned(filter.predicate.clone());
    let (below, above): (Vec<Expr>, Vec<Expr>) = conjuncts
        .into_iter()
        .partition(|expr| is_of(expr, &join.left) && !expr.is_volatile() && !expr.contains_outer());
    let Some(below) = conjunction(below) else {
        return unchanged(filter);
    };
    let left = LogicalPlan::Filter(Filter::try_new(below, Arc::clone(&join.left))?);
    let join = AsofJoin::new(
        Arc::new(left),
        Arc::clone(&join.right),
        join.on.clone(),
        join.matching,
    )?;
    let plan = LogicalPlan::Extension(Extension {
        node: Arc::new(join),
    });
    Ok(Transformed::yes(match conjunction(above) {
        Some(above) => LogicalPlan::Filter(Filter::try_new(above, Arc::new(plan))?),
        None => plan,
    }))
}
