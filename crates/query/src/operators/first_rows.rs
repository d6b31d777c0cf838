//! The first row of each group: what `DISTINCT ON` asks for.
//!
//! Does: take the place of an aggregation of nothing but `first_value`s in one order, as the library makes of `DISTINCT ON`, which
//! keeps each value of each group's first row by itself: of twenty columns, twenty times the comparisons and copies. Does not:
//! look for such rows in series (`planning/recognise` has done so before).
//!
//! Where next: `exec.rs` keeps the rows.

mod exec;

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, Expr, Extension, LogicalPlan, SortExpr, UserDefinedLogicalNodeCore,
};

use crate::walk::PlanWalk;

pub(crate) use exec::{FirstRowsExec, Keys};

/// The node of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FirstRows {
    input: Arc<LogicalPlan>,
    groups: Vec<Expr>,
    values: Vec<Expr>,
    order: Vec<SortExpr>,
    /// Groups, then values.
    schema: DFSchemaRef,
}

impl FirstRows {
    /// What an aggregation is in one operator; `None` = it asks for something else too.
    fn of(aggregate: &Aggregate) -> Option<Self> {
        let is_set = |group: &Expr| matches!(group, Expr::GroupingSet(_));
        if aggregate.group_expr.is_empty() || aggregate.group_expr.iter().any(is_set) {
            return None;
        }
        let firsts: Option<Vec<&AggregateFunction>> =
            aggregate.aggr_expr.iter().map(first_value).collect();
        let firsts = firsts?;
        let order = &firsts.first()?.params.order_by;
        if firsts.iter().any(|first| first.params.order_by != *order) {
            return None;
        }
        let values = firsts.iter().flat_map(|first| &first.params.args);
        Some(Self {
            input: Arc::clone(&aggregate.input),
            groups: aggregate.group_expr.clone(),
            values: values.cloned().collect(),
            order: order.clone(),
            schema: Arc::clone(&aggregate.schema),
        })
    }

    pub(crate) fn groups(&self) -> &[Expr] {
        &self.groups
    }

    pub(crate) fn values(&self) -> &[Expr] {
        &self.values
    }

    pub(crate) fn order(&self) -> &[SortExpr] {
        &self.order
    }
}

/// A first value of one argument, nulls among them.
fn first_value(expr: &Expr) -> Option<&AggregateFunction> {
    let expr = match expr {
        Expr::Alias(alias) => alias.expr.as_ref(),
        expr => expr,
    };
    let Expr::AggregateFunction(call) = expr else {
        return None;
    };
    let params = &call.params;
    let is_plain = params.filter.is_none() && !params.distinct && params.null_treatment.is_none();
    (is_plain && call.func.name() == "first_value" && params.args.len() == 1).then_some(call)
}

/// The plan with such aggregations as one operator each. When all rules are done: they know aggregations, and no node of ours.
pub(crate) fn settle(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.replace_up(&mut |node| {
        let first = match &node {
            LogicalPlan::Aggregate(aggregate) => FirstRows::of(aggregate),
            _ => None,
        };
        Ok(match first {
            Some(first) => Transformed::yes(LogicalPlan::Extension(Extension {
                node: Arc::new(first),
            })),
            None => Transformed::no(node),
        })
    })
    .data()
}

impl Hash for FirstRows {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.groups.hash(state);
        self.values.hash(state);
        self.order.hash(state);
    }
}

impl PartialOrd for FirstRows {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        // An order is only asked for to have one.
        match self.input.partial_cmp(&other.input) {
            Some(Ordering::Equal) => (self == other).then_some(Ordering::Equal),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for FirstRows {
    fn name(&self) -> &'static str {
        "FirstRows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let order = self.order.iter().map(|key| &key.expr);
        let all = self.groups.iter().chain(&self.values).chain(order);
        all.cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let groups: Vec<String> = self.groups.iter().map(ToString::to_string).collect();
        let order: Vec<String> = self.order.iter().map(ToString::to_string).collect();
        let (groups, order) = (groups.join(", "), order.join(", "));
        write!(f, "FirstRows: groups=[{groups}], order=[{order}]")
    }

    fn with_exprs_and_inputs(
        &self,
        exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<Self> {
        let mut exprs = exprs.into_iter();
        let groups = exprs.by_ref().take(self.groups.len()).collect();
        let values = exprs.by_ref().take(self.values.len()).collect();
        let order = self.order.iter().zip(exprs).map(|(key, expr)| SortExpr {
            expr,
            ..key.clone()
        });
        Ok(Self {
            groups,
            values,
            order: order.collect(),
            input: inputs
                .pop()
                .map_or_else(|| Arc::clone(&self.input), Arc::new),
            schema: Arc::clone(&self.schema),
        })
    }
}
