//! The operator that fills gaps.
//!
//! Asks for its rows grouped and by time, and keeps those of one group until the next begins; what it adds leaves in
//! batches of the usual size. So it holds a group's rows and a batch of its answer, whatever the range.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{ArrayRef, DynComparator, RecordBatch, RecordBatchOptions, make_comparator};
use arrow::compute::{SortOptions, concat_batches};
use arrow::datatypes::{Schema, SchemaRef};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr,
    PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, RecordBatchStream, ReplaceChildrenOptions,
    SendableRecordBatchStream, apply_expression_roots,
};
use futures::{Stream, StreamExt};

use super::Layout;
use super::fill::{Cursor, Filler};

/// Order within the groups, and of the groups: that of `ORDER BY` without further words.
pub(super) const SORT: SortOptions = SortOptions {
    descending: false,
    nulls_first: false,
};

#[derive(Debug)]
pub(crate) struct GapFillExec {
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    layout: Layout,
    ordering: LexOrdering,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GapFillExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        exprs: Vec<Arc<dyn PhysicalExpr>>,
        layout: Layout,
    ) -> Result<Self> {
        let sort = layout.groups().chain([layout.bucket]).map(|place| {
            let name = schema.field(place).name();
            PhysicalSortExpr::new(Arc::new(Column::new(name, place)), SORT)
        });
        let Some(ordering) = LexOrdering::new(sort) else {
            return internal_err!("gap filling without a bucket");
        };
        let mut equivalence = EquivalenceProperties::new(Arc::clone(&schema));
        equivalence.add_ordering(ordering.clone());
        let properties = PlanProperties::new(
            equivalence,
            input.output_partitioning().clone(),
            EmissionType::Incremental,
            input.boundedness(),
        );
        Ok(Self {
            input,
            schema,
            exprs,
            layout,
            ordering,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl DisplayAs for GapFillExec {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bucket = self.schema.field(self.layout.bucket).name();
        let groups: Vec<&str> = self
            .layout
            .groups()
            .map(|place| self.schema.field(place).name().as_str())
            .collect();
        write!(
            f,
            "GapFillExec: bucket={bucket}, groups=[{}]",
            groups.join(", ")
        )
    }
}

impl ExecutionPlan for GapFillExec {
    fn name(&self) -> &'static str {
        "GapFillExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let groups: Vec<Arc<dyn PhysicalExpr>> = self
            .layout
            .groups()
            .map(|place| Arc::new(Column::new(self.schema.field(place).name(), place)) as _)
            .collect();
        InputDistributionRequirements::new(vec![if groups.is_empty() {
            Distribution::SinglePartition
        } else {
            Distribution::KeyPartitioned(groups)
        }])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(OrderingRequirements::from(self.ordering.clone()))]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(&self.exprs, f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else {
            return internal_err!("gap filling has no input");
        };
        Ok(Arc::new(Self::new(
            input,
            Arc::clone(&self.schema),
            self.exprs.clone(),
            self.layout.clone(),
        )?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(
            children,
            ReplaceChildrenOptions::new(
                datafusion::physical_plan::ChildrenPropertiesMode::Recompute,
            ),
        )
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let reservation =
            MemoryConsumer::new(format!("GapFill[{partition}]")).register(context.memory_pool());
        Ok(Box::pin(GapFillStream {
            input: Some(self.input.execute(partition, Arc::clone(&context))?),
            schema: Arc::clone(&self.schema),
            exprs: self.exprs.clone(),
            layout: self.layout.clone(),
            filler: None,
            pending: Vec::new(),
            cursor: None,
            has_rows: false,
            batch_rows: context.session_config().batch_size(),
            reservation,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

struct GapFillStream {
    /// `None` when it has ended.
    input: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    layout: Layout,
    /// What the constants say; made at the first row, when sub-selects have their values.
    filler: Option<Filler>,
    /// Rows of the last group so far, which may have more.
    pending: Vec<RecordBatch>,
    /// Whole groups, and how far they are written.
    cursor: Option<Cursor>,
    has_rows: bool,
    batch_rows: usize,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
}

impl GapFillStream {
    fn filler(&mut self) -> Result<&Filler> {
        match &mut self.filler {
            Some(filler) => Ok(filler),
            none => {
                let values = self
                    .exprs
                    .iter()
                    .map(constant)
                    .collect::<Result<Vec<_>>>()?;
                Ok(none.insert(Filler::new(
                    &values,
                    &self.layout,
                    Arc::clone(&self.schema),
                )?))
            }
        }
    }

    /// Takes a batch of the input; groups that end in it become the next to be written.
    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        self.has_rows = true;
        let starts = self.starts(&batch)?;
        let Some(&last) = starts.last() else {
            self.pending.push(batch);
            return self.charge();
        };
        let mut whole: VecDeque<RecordBatch> = std::mem::take(&mut self.pending).into();
        // Groups start at 0 of the rows kept, unless there are none, and where the batch says.
        let kept: usize = whole.iter().map(RecordBatch::num_rows).sum();
        let mut bounds = Vec::with_capacity(starts.len() + 1);
        if kept > 0 || starts.first() != Some(&0) {
            bounds.push(0);
        }
        let ended = starts.iter().take(starts.len() - 1);
        bounds.extend(ended.map(|start| kept + start));
        whole.push_back(batch.slice(0, last));
        self.pending
            .push(batch.slice(last, batch.num_rows() - last));
        self.start(whole.make_contiguous(), bounds)?;
        self.charge()
    }

    /// Counts what is held as the query's memory.
    fn charge(&mut self) -> Result<()> {
        let pending = self.pending.iter().map(RecordBatch::get_array_memory_size);
        let written = self.cursor.as_ref().map_or(0, Cursor::bytes);
        let grid = self.filler.as_ref().map_or(0, Filler::bytes);
        self.reservation
            .try_resize(pending.sum::<usize>() + written + grid)
    }

    fn start(&mut self, batches: &[RecordBatch], bounds: Vec<usize>) -> Result<()> {
        let schema = batches.first().map_or_else(
            || Arc::new(Schema::empty()),
            |batch: &RecordBatch| batch.schema(),
        );
        let rows = concat_batches(&schema, batches)?;
        if rows.num_rows() > 0 || !self.has_rows {
            self.cursor = Some(self.filler()?.cursor(rows, bounds)?);
        }
        Ok(())
    }

    /// Rows of a batch that are of another group than the row before.
    fn starts(&self, batch: &RecordBatch) -> Result<Vec<usize>> {
        let mut starts = Vec::new();
        if let (Some(before), true) = (self.pending.last(), batch.num_rows() > 0)
            && self.differ(before, before.num_rows() - 1, batch, 0)?
        {
            starts.push(0);
        }
        let groups: Vec<ArrayRef> = self
            .layout
            .groups()
            .map(|place| Arc::clone(batch.column(place)))
            .collect();
        if !groups.is_empty() && batch.num_rows() > 1 {
            let ranges = arrow::compute::partition(&groups)?.ranges();
            starts.extend(ranges.iter().skip(1).map(|range| range.start));
        }
        Ok(starts)
    }

    fn differ(
        &self,
        one: &RecordBatch,
        row: usize,
        other: &RecordBatch,
        other_row: usize,
    ) -> Result<bool> {
        for place in self.layout.groups() {
            let compare: DynComparator =
                make_comparator(one.column(place), other.column(place), SORT)?;
            if compare(row, other_row).is_ne() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The input has ended: what is kept is whole. Without other groups than the buckets there is always one group,
    /// even of no rows.
    fn end(&mut self) -> Result<()> {
        self.input = None;
        let pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            self.start(&pending, vec![0])?;
        } else if !self.has_rows && self.layout.groups().next().is_none() {
            let empty = RecordBatch::try_new_with_options(
                Arc::clone(&self.schema),
                self.schema
                    .fields()
                    .iter()
                    .map(|field| arrow::array::new_empty_array(field.data_type()))
                    .collect(),
                &RecordBatchOptions::new().with_row_count(Some(0)),
            )?;
            self.start(&[empty], vec![0])?;
        }
        self.has_rows = true;
        self.charge()
    }

    fn next_written(&mut self) -> Result<Option<RecordBatch>> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let _timer = elapsed.timer();
        let (Some(cursor), Some(filler)) = (&mut self.cursor, &self.filler) else {
            return Ok(None);
        };
        let batch = filler.write(cursor, self.batch_rows)?;
        if batch.is_none() {
            self.cursor = None;
        }
        Ok(batch)
    }
}

/// What an expression without columns is.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> Result<ScalarValue> {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
    match expr.evaluate(&row)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
    }
}

impl Stream for GapFillStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let item = loop {
            match this.next_written() {
                Ok(None) => {}
                Ok(Some(batch)) => break Some(Ok(batch)),
                Err(error) => break Some(Err(error)),
            }
            let Some(input) = &mut this.input else {
                break None;
            };
            let taken = match ready!(input.poll_next_unpin(context)) {
                Some(Ok(batch)) if batch.num_rows() == 0 => Ok(()),
                Some(Ok(batch)) => this.take(batch),
                Some(Err(error)) => Err(error),
                None => this.end(),
            };
            if let Err(error) = taken {
                break Some(Err(error));
            }
        };
        if matches!(item, Some(Err(_)) | None) {
            this.input = None;
            this.cursor = None;
        }
        this.metrics.record_poll(Poll::Ready(item))
    }
}

impl RecordBatchStream for GapFillStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
