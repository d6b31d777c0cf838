//! Batch size by row width, so that a batch stays a few MiB.
//!
//! Operators work on batches of thousands of rows, and nobody counts the one that they work on. Of rows with a thousand columns,
//! or with a text of megabytes that the statement itself has, that one is more than there is memory. Does: find the widest row
//! that a plan makes. Does not: know what is in the tables; what values there are long is bounded where it is written.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::{InListExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;

use crate::function::row_bytes;

/// What a batch should have.
const BATCH_BYTES: usize = 4 << 20;

/// Of a column whose values nobody has seen.
const VALUE_BYTES: usize = 8;

/// Of a value whose length is another value's to say.
const UNKNOWN_BYTES: usize = 4096;

/// Of a value of text or a list in a join, which writes it once for each row that it meets.
const REPEATED_BYTES: usize = 4096;

/// What a group of `approx_distinct` has from its first value on.
const SKETCH_BYTES: usize = 16 << 10;

/// A literal of no more is a value like others.
const LITERAL_BYTES_FREE: usize = 256;

/// The plan with batches of so many rows, where there are fewer than by default.
pub(crate) fn with_rows(
    plan: Arc<dyn ExecutionPlan>,
    rows: usize,
    default: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    if rows == default {
        return Ok(plan);
    }
    // Filters have been told when they were planned.
    let plan = plan.transform_up(|plan| {
        let Some(filter) = plan.downcast_ref::<FilterExec>() else {
            return Ok(Transformed::no(plan));
        };
        let fit: Arc<dyn ExecutionPlan> = Arc::new(filter.with_batch_size(rows)?);
        Ok(Transformed::yes(fit))
    })?;
    Ok(plan.data)
}

/// How many rows a plan's batches have, at most as many as there are by default.
pub(crate) fn batch_rows(plan: &Arc<dyn ExecutionPlan>, default: usize) -> Result<usize> {
    let mut widest = VALUE_BYTES;
    plan.apply(|node| {
        let mut bytes = node.schema().fields().len() * VALUE_BYTES;
        if node.name().ends_with("JoinExec") {
            bytes += REPEATED_BYTES * repeated(node.as_ref());
        }
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>()
            && !aggregate.group_expr().is_empty()
        {
            let aggregates = aggregate.aggr_expr().iter();
            let sketches = aggregates.filter(|it| it.fun().name() == "approx_distinct");
            bytes += SKETCH_BYTES * sketches.count();
        }
        let mut exprs = 0;
        node.apply_expressions(&mut |expr| {
            exprs += VALUE_BYTES;
            bytes = bytes.saturating_add(literals(expr)?);
            Ok(TreeNodeRecursion::Jump)
        })?;
        widest = widest.max(bytes.saturating_add(exprs));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok((BATCH_BYTES / widest).clamp(1, default))
}

/// Whether there is text or a list in what is joined. Tags are numbers of texts.
fn repeated(plan: &dyn ExecutionPlan) -> usize {
    let is_long = |kind: &DataType| {
        !kind.is_primitive() && !matches!(kind, DataType::Dictionary(..) | DataType::Boolean)
    };
    let schema = plan.schema();
    let is_repeated = schema.fields().iter().any(|it| is_long(it.data_type()));
    usize::from(is_repeated)
}

/// Bytes of the long literals that stand in each row, and of values whose length nobody knows.
pub(crate) fn literals(expr: &Arc<dyn PhysicalExpr>) -> Result<usize> {
    let mut bytes = 0usize;
    expr.apply(|expr| {
        // A list to compare with is there once.
        if expr.downcast_ref::<InListExpr>().is_some() {
            return Ok(TreeNodeRecursion::Jump);
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            bytes = bytes.saturating_add(row_bytes(call.fun(), UNKNOWN_BYTES));
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            let size = literal.value().size();
            bytes += if size > LITERAL_BYTES_FREE { size } else { 0 };
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes)
}
