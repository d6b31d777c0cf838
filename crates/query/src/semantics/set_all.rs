//! `EXCEPT ALL` and `INTERSECT ALL`, with PostgreSQL's counts of equal rows.
//!
//! The library (55.2) plans them as an anti and a semi join, which drop or keep all three. Does: give the rows that are alike
//! a number, on both sides, and join by it too. Does not: touch `EXCEPT` and `INTERSECT`, whose left rows are distinct.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, ExprSchemable, Join, JoinType, LogicalPlan,
    LogicalPlanBuilder, Operator, cast,
};
use datafusion::optimizer::AnalyzerRule;

use crate::walk::PlanWalk;

/// Counts rows where a set operation says ALL. It comes before types are settled, when a join that takes NULL for equal to
/// NULL is a set operation's and nothing else.
#[derive(Debug)]
pub(crate) struct CountRows;

impl AnalyzerRule for CountRows {
    fn name(&self) -> &'static str {
        "count_rows_of_sets"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.replace_up(&mut |node| match node {
            LogicalPlan::Join(join) if is_all(&join) => Ok(Transformed::yes(counted(join)?)),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn is_all(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull
        && matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(Distinct::All(_)))
}

/// The join by the rows' numbers too, without the numbers in what it returns.
fn counted(join: Join) -> Result<LogicalPlan> {
    let (mut left_keys, mut right_keys) = (Vec::new(), Vec::new());
    for (left, right) in &join.on {
        // What the join will compare: values that differ may be the same in the other side's type.
        let kinds = (
            left.get_type(join.left.schema())?,
            right.get_type(join.right.schema())?,
        );
        let common = BinaryTypeCoercer::new(&kinds.0, &Operator::Eq, &kinds.1).get_input_types();
        let (left_kind, right_kind) = common.unwrap_or_else(|_| kinds.clone());
        left_keys.push(as_kind(left, &kinds.0, left_kind));
        right_keys.push(as_kind(right, &kinds.1, right_kind));
    }
    let columns: Vec<Expr> = join.left.schema().iter().map(Expr::from).collect();
    let left = numbered(&join.left, left_keys, "number on the left")?;
    let right = numbered(&join.right, right_keys, "number on the right")?;
    let (mut left_on, mut right_on): (Vec<Expr>, Vec<Expr>) = join.on.into_iter().unzip();
    left_on.push(last(&left));
    right_on.push(last(&right));
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        left_on.into_iter().zip(right_on).collect(),
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(joined))
        .project(columns)?
        .build()
}

fn as_kind(key: &Expr, kind: &DataType, common: DataType) -> Expr {
    if *kind == common {
        key.clone()
    } else {
        cast(key.clone(), common)
    }
}

/// The plan with one more column: the number of each row among those of the same keys.
fn numbered(plan: &LogicalPlan, keys: Vec<Expr>, name: &str) -> Result<LogicalPlan> {
    let mut columns: Vec<Expr> = plan.schema().iter().map(Expr::from).collect();
    let number = row_number().partition_by(keys).build()?;
    let calculated = Column::new_unqualified(number.schema_name().to_string());
    columns.push(Expr::Column(calculated).alias(name));
    LogicalPlanBuilder::from(plan.clone())
        .window([number])?
        .project(columns)?
        .build()
}

fn last(plan: &LogicalPlan) -> Expr {
    let schema = plan.schema();
    let at = schema.fields().len().saturating_sub(1);
    let (qualifier, field) = schema.qualified_field(at);
    Expr::from((qualifier, field))
}
