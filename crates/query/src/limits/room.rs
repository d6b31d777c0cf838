//! Memory reservations of operators for their output, made in advance.
//!
//! A window of all rows keeps its whole input until its last row has come, and then has a result for each. Joins and UNNEST write
//! a value once for each row that it meets: a text of a megabyte, a million times. None of them asks for memory first, and
//! what they take in one go is more than any machine has. Does: charge what they hold, and the largest batch that they may
//! make of what they were given. Does not: change what they answer.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::WindowFrameBound;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt};

use crate::limits::batch_size;
use crate::limits::sizes::{bytes_each, widest};

/// A batch of no more is a batch like others.
const BATCH_BYTES_FREE: usize = 1 << 20;

/// A number among results: once in its part of the rows, once in all of them.
const RESULT_BYTES: usize = 16;

/// Window functions that make all their results as one array.
const AS_ONE_ARRAY: [&str; 8] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
];

/// The plan in which operators that multiply or keep rows have taken room for that.
pub(crate) fn hold(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        let Some(needs) = needs(plan.as_ref())? else {
            return Ok(Transformed::no(plan));
        };
        let held = plan.children().into_iter().map(|input| {
            let held: Arc<dyn ExecutionPlan> = Arc::new(ReservedInput {
                input: Arc::clone(input),
                needs: needs.clone(),
            });
            held
        });
        let held = held.collect();
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        Ok(Transformed::yes(plan.replace_children(held, options)?))
    })
    .data()
}

/// What an operator makes of its rows.
#[derive(Debug, Clone)]
enum Needs {
    /// It keeps them all, twice because it puts a part's rows into one batch, and has so many bytes beside each, and so many
    /// values that are as wide as the widest.
    Kept { beside: usize, wide: usize },
    /// Of each batch and so many rows before it, it makes so many values that are as wide as the widest.
    Passed {
        rows: usize,
        beside: usize,
        wide: usize,
    },
    /// A batch in which each row is as wide as the widest.
    Repeated,
    /// The same, as long as the longest of these lists.
    Unnested { lists: Vec<usize> },
}

fn needs(plan: &dyn ExecutionPlan) -> Result<Option<Needs>> {
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        let [beside, wide] = of_windows(window.window_expr())?;
        return Ok(Some(Needs::Kept { beside, wide }));
    }
    if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        let [beside, wide] = of_windows(window.window_expr())?;
        let ahead = window
            .window_expr()
            .iter()
            .map(|it| rows_ahead(it.as_ref()));
        let rows = ahead.max().unwrap_or(0);
        return Ok(Some(Needs::Passed { rows, beside, wide }));
    }
    if let Some(unnest) = plan.downcast_ref::<UnnestExec>() {
        let lists = unnest.list_column_indices().iter();
        let lists = lists.map(|list| list.index_in_input_schema).collect();
        return Ok(Some(Needs::Unnested { lists }));
    }
    Ok(plan.name().ends_with("JoinExec").then_some(Needs::Repeated))
}

/// Bytes beside each row, and values as wide as any.
fn of_windows(windows: &[Arc<dyn WindowExpr>]) -> Result<[usize; 2]> {
    let mut all = [0, 0];
    for window in windows {
        let frame = window.get_window_frame();
        let is_whole = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
        let is_one_array = AS_ONE_ARRAY
            .iter()
            .any(|name| window.name().starts_with(name));
        all[0] += RESULT_BYTES;
        if !is_whole && !is_one_array {
            all[0] += size_of::<ScalarValue>();
        }
        for expr in window.expressions() {
            all[0] = all[0].saturating_add(batch_size::literals(&expr)?);
        }
        all[1] += usize::from(!window.field()?.data_type().is_primitive());
    }
    Ok(all)
}

/// Rows that wait for a frame's end.
fn rows_ahead(window: &dyn WindowExpr) -> usize {
    match &window.get_window_frame().end_bound {
        WindowFrameBound::Following(ScalarValue::UInt64(Some(rows))) => {
            usize::try_from(*rows).unwrap_or(usize::MAX)
        }
        _ => 0,
    }
}

/// What is below an operator that makes much of its rows.
#[derive(Debug)]
struct ReservedInput {
    input: Arc<dyn ExecutionPlan>,
    needs: Needs,
}

impl DisplayAs for ReservedInput {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReservedInput")
    }
}

impl ExecutionPlan for ReservedInput {
    fn name(&self) -> &'static str {
        "ReservedInput"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children).map_err(|_| {
            DataFusionError::Internal("what is held comes from one operator".to_owned())
        })?;
        let needs = self.needs.clone();
        Ok(Arc::new(Self { input, needs }))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows_max = context.session_config().batch_size();
        let memory = MemoryConsumer::new("what is made of rows").register(context.memory_pool());
        Ok(Box::pin(ReservedStream {
            input: self.input.execute(partition, context)?,
            needs: self.needs.clone(),
            rows_max,
            rows: 0,
            kept: 0,
            widest: 0,
            memory,
        }))
    }
}

/// Passes batches on, and gives the memory back when the operator above is done with them and lets it go.
struct ReservedStream {
    input: SendableRecordBatchStream,
    needs: Needs,
    /// Rows of a batch that a join makes.
    rows_max: usize,
    rows: usize,
    kept: usize,
    widest: usize,
    memory: MemoryReservation,
}

impl ReservedStream {
    fn take_room(&mut self, batch: &RecordBatch) -> Result<()> {
        let columns = batch.columns();
        let rows = batch.num_rows();
        let room = match &self.needs {
            Needs::Kept { beside, wide } => {
                self.rows += rows;
                self.kept += batch.get_array_memory_size().saturating_mul(2);
                if *wide > 0 {
                    self.widest = columns.iter().map(widest).fold(self.widest, usize::max);
                }
                let each = wide.saturating_mul(self.widest).saturating_add(*beside);
                self.kept.saturating_add(self.rows.saturating_mul(each))
            }
            Needs::Passed {
                rows: ahead,
                beside,
                wide,
            } => {
                let rows = rows.saturating_add((*ahead).min(self.rows));
                self.rows = self.rows.saturating_add(batch.num_rows());
                if *wide > 0 {
                    self.widest = columns.iter().map(widest).fold(self.widest, usize::max);
                }
                let each = wide.saturating_mul(self.widest).saturating_add(*beside);
                rows.saturating_mul(each)
            }
            Needs::Repeated => {
                let row: usize = columns.iter().map(widest).sum();
                self.rows_max.saturating_mul(row)
            }
            Needs::Unnested { lists } => {
                let is_list = |at: &usize| lists.contains(at);
                let others = (0..columns.len()).filter(|at| !is_list(at));
                let row: usize = others.filter_map(|at| columns.get(at)).map(widest).sum();
                let lists = lists.iter().filter_map(|at| columns.get(*at));
                let longest = lists.map(longest).max().unwrap_or(0);
                // The list's own values, and the numbers of the rows that they came from.
                longest
                    .max(self.rows_max)
                    .saturating_mul(row + RESULT_BYTES)
            }
        };
        // What is free is not counted again for each batch.
        if room > BATCH_BYTES_FREE && room > self.memory.size() {
            self.memory.try_resize(room)?;
        }
        Ok(())
    }
}

/// Elements of the longest list of a column, those of lists within lists counted each.
fn longest(column: &ArrayRef) -> usize {
    let depths =
        |kind: &DataType| matches!(kind, DataType::List(item) if item.data_type().is_nested());
    if depths(column.data_type()) {
        // Four bytes are what an element takes at least, its place in the list counted.
        return bytes_each(column).into_iter().max().unwrap_or(0) / 4;
    }
    match column.data_type() {
        DataType::List(_) => {
            let offsets = column.as_list::<i32>().value_offsets();
            let lengths = offsets.windows(2).filter_map(|pair| match pair {
                [from, to] => usize::try_from(to - from).ok(),
                _ => None,
            });
            lengths.max().unwrap_or(0)
        }
        _ => bytes_each(column).into_iter().max().unwrap_or(0),
    }
}

impl Stream for ReservedStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.input.poll_next_unpin(context));
        Poll::Ready(match item {
            Some(Ok(batch)) => Some(self.take_room(&batch).map(|()| batch)),
            other => other,
        })
    }
}

impl RecordBatchStream for ReservedStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
