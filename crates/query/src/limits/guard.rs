//! The guard operator: cancellation checks between batches, and a bound on their rows.
//!
//! Does: end a statement that has to end, by its time, its memory or whoever ends it; give the thread to others when a poll
//! has had its time; cut batches, so that what stands above never works on more rows at once than the plan's batches have: a
//! window hands on all its rows as one batch, and a series of numbers has batches of its own size. Does not: look into a
//! batch.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{Stream, StreamExt};

use crate::limits::scope::{self, Scope};

/// The operator around another.
#[derive(Debug)]
pub(crate) struct Guard {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    scope: Scope,
}

impl Guard {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, scope: &Scope) -> Self {
        let properties = PlanProperties::clone(input.properties())
            .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            input,
            properties: Arc::new(properties),
            scope: scope.clone(),
        }
    }
}

impl DisplayAs for Guard {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

impl ExecutionPlan for Guard {
    fn name(&self) -> &'static str {
        "Guard"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = <[_; 1]>::try_from(children)
            .map_err(|_| DataFusionError::Internal("a guard is around one operator".to_owned()))?;
        Ok(Arc::new(match options.children_properties {
            ChildrenPropertiesMode::Keep => Self {
                input,
                properties: Arc::clone(&self.properties),
                scope: self.scope.clone(),
            },
            ChildrenPropertiesMode::Recompute => Self::new(input, &self.scope),
        }))
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
        Ok(Box::pin(GuardStream {
            input: self.input.execute(partition, context)?,
            scope: self.scope.clone(),
            rows_max,
            rest: None,
        }))
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match input {
            [input] => Ok(Arc::clone(input)),
            _ => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
        }
    }
}

struct GuardStream {
    input: SendableRecordBatchStream,
    scope: Scope,
    rows_max: usize,
    /// What is left of a batch that had more rows, and how many of them are gone.
    rest: Option<(RecordBatch, usize)>,
}

impl GuardStream {
    fn next_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if let Err(error) = scope::check() {
            self.rest = None;
            return Poll::Ready(Some(Err(error)));
        }
        if scope::is_turn_over() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some((rest, from)) = self.rest.take() {
            return Poll::Ready(Some(self.cut(rest, from)));
        }
        Poll::Ready(match ready!(self.input.poll_next_unpin(context)) {
            Some(Ok(batch)) if batch.num_rows() > self.rows_max => Some(self.cut(batch, 0)),
            other => other,
        })
    }

    /// The next rows of a batch, as a batch of their own: one that shares its memory with all of them would count as large
    /// as all of them wherever it is held.
    fn cut(&mut self, batch: RecordBatch, from: usize) -> Result<RecordBatch> {
        let to = batch.num_rows().min(from + self.rows_max);
        let numbers = |row: usize| u32::try_from(row).unwrap_or(u32::MAX);
        let rows = UInt32Array::from_iter_values(numbers(from)..numbers(to));
        let cut = if batch.num_columns() == 0 || u32::try_from(to).is_err() {
            batch.slice(from, to - from)
        } else {
            take_record_batch(&batch, &rows)?
        };
        if to < batch.num_rows() {
            self.rest = Some((batch, to));
        }
        Ok(cut)
    }
}

impl Stream for GuardStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let scope = self.scope.clone();
        scope.run(|| self.next_batch(context))
    }
}

impl RecordBatchStream for GuardStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
