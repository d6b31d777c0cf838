//! The operator that keeps the first row of each group.
//!
//! Does: find the group of each row by the bytes of its keys, compare rows by the bytes of what they are ordered by, and keep
//! where the first of each group is; batches in which few of those are left are gathered anew. Does not: sort what it answers.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties, RecordBatchStream,
    ReplaceChildrenOptions, SendableRecordBatchStream, apply_expression_roots,
};
use futures::{Stream, StreamExt};
use rustc_hash::FxHashMap;

/// What a group takes beside its keys and its row: two boxes of bytes, its place, and room that the table keeps free.
const GROUP_BYTES: usize = 128;

/// What the operator is made of.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) groups: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) values: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) order: Vec<PhysicalSortExpr>,
}

#[derive(Debug)]
pub(crate) struct FirstRowsExec {
    input: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    keys: Keys,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FirstRowsExec {
    /// `schema`: groups, then values.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, schema: SchemaRef, keys: Keys) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            input.boundedness(),
        );
        Self {
            input,
            schema,
            keys,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl DisplayAs for FirstRowsExec {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.keys.groups.iter().map(ToString::to_string);
        let order = self.keys.order.iter().map(ToString::to_string);
        let (groups, order) = (groups.collect::<Vec<_>>(), order.collect::<Vec<_>>());
        let (groups, order) = (groups.join(", "), order.join(", "));
        write!(f, "FirstRowsExec: groups=[{groups}], order=[{order}]")
    }
}

impl ExecutionPlan for FirstRowsExec {
    fn name(&self) -> &'static str {
        "FirstRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let groups = Distribution::KeyPartitioned(self.keys.groups.clone());
        InputDistributionRequirements::new(vec![groups])
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let order = self.keys.order.iter().map(|key| &key.expr);
        let all = self.keys.groups.iter().chain(&self.keys.values);
        apply_expression_roots(all.chain(order), f)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else {
            return internal_err!("first rows of no input");
        };
        let (schema, keys) = (Arc::clone(&self.schema), self.keys.clone());
        Ok(Arc::new(Self::new(input, schema, keys)))
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
        let consumer = MemoryConsumer::new(format!("FirstRows[{partition}]"));
        let reservation = consumer.register(context.memory_pool());
        let input = self.input.execute(partition, Arc::clone(&context))?;
        Ok(Box::pin(FirstRowsStream {
            kept: Kept::new(
                self.keys.clone(),
                &input.schema(),
                Arc::clone(&self.schema),
                context.session_config().batch_size(),
            )?,
            input: Some(input),
            given: 0,
            reservation,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The first row of a group so far.
#[derive(Debug)]
struct First {
    order: Box<[u8]>,
    batch: usize,
    row: usize,
}

/// First rows, and the batches that they are in.
struct Kept {
    keys: Keys,
    schema: SchemaRef,
    by_group: RowConverter,
    by_order: RowConverter,
    places: FxHashMap<Box<[u8]>, usize>,
    firsts: Vec<First>,
    batches: Vec<RecordBatch>,
    rows: usize,
    batch_rows: usize,
    /// Of keys.
    key_bytes: usize,
}

fn evaluated<'a>(
    exprs: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>,
    batch: &RecordBatch,
) -> Result<Vec<ArrayRef>> {
    exprs
        .map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows()))
        .collect()
}

impl Kept {
    fn new(keys: Keys, input: &SchemaRef, schema: SchemaRef, batch_rows: usize) -> Result<Self> {
        let group = |expr: &Arc<dyn PhysicalExpr>| Ok(SortField::new(expr.data_type(input)?));
        let groups = keys.groups.iter().map(group).collect::<Result<_>>()?;
        let key = |key: &PhysicalSortExpr| {
            let of = key.expr.data_type(input)?;
            Ok(SortField::new_with_options(of, key.options))
        };
        let order = keys.order.iter().map(key).collect::<Result<_>>()?;
        Ok(Self {
            keys,
            schema,
            by_group: RowConverter::new(groups)?,
            by_order: RowConverter::new(order)?,
            places: FxHashMap::default(),
            firsts: Vec::new(),
            batches: Vec::new(),
            rows: 0,
            batch_rows: batch_rows.max(1),
            key_bytes: 0,
        })
    }

    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let groups = evaluated(self.keys.groups.iter(), batch)?;
        let group_rows = self.by_group.convert_columns(&groups)?;
        let order = evaluated(self.keys.order.iter().map(|key| &key.expr), batch)?;
        // Where rows have no order the first is the one that was read first.
        let order_rows = (!order.is_empty())
            .then(|| self.by_order.convert_columns(&order))
            .transpose()?;
        let number = self.batches.len();
        let mut is_kept = false;
        for row in 0..batch.num_rows() {
            let group = group_rows.row(row);
            let order = order_rows.as_ref().map(|rows| rows.row(row));
            let order: &[u8] = order.as_ref().map_or(&[], AsRef::as_ref);
            let place = self.places.get(group.as_ref()).copied();
            match place.and_then(|place| self.firsts.get_mut(place)) {
                Some(first) if *order < *first.order => {
                    self.key_bytes = self.key_bytes + order.len() - first.order.len();
                    (first.order, first.batch, first.row) = (order.into(), number, row);
                }
                Some(_) => continue,
                None => {
                    self.key_bytes += group.as_ref().len() + order.len();
                    self.places.insert(group.as_ref().into(), self.firsts.len());
                    self.firsts.push(First {
                        order: order.into(),
                        batch: number,
                        row,
                    });
                }
            }
            is_kept = true;
        }
        if is_kept {
            let values = evaluated(self.keys.values.iter(), batch)?;
            let columns = groups.into_iter().chain(values).collect();
            let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
            self.rows += batch.num_rows();
            self.batches.push(batch);
            if self.rows > 2 * self.firsts.len() + 4 * self.batch_rows {
                self.gather()?;
            }
        }
        Ok(())
    }

    /// Leaves rows out that are not the first any more.
    fn gather(&mut self) -> Result<()> {
        let mut batches = Vec::new();
        for start in (0..self.firsts.len()).step_by(self.batch_rows) {
            batches.push(self.some(start)?);
        }
        self.rows = self.firsts.len();
        self.batches = batches;
        for (place, first) in self.firsts.iter_mut().enumerate() {
            (first.batch, first.row) = (place / self.batch_rows, place % self.batch_rows);
        }
        Ok(())
    }

    /// The rows of as many groups as a batch has, from one on.
    fn some(&self, start: usize) -> Result<RecordBatch> {
        let end = self.firsts.len().min(start + self.batch_rows);
        let firsts = self.firsts.get(start..end).unwrap_or_default();
        let places: Vec<(usize, usize)> = firsts
            .iter()
            .map(|first| (first.batch, first.row))
            .collect();
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        Ok(interleave_record_batch(&batches, &places)?)
    }

    fn bytes(&self) -> usize {
        let batches = self.batches.iter().map(RecordBatch::get_array_memory_size);
        batches.sum::<usize>() + self.key_bytes + self.firsts.len() * GROUP_BYTES
    }
}

struct FirstRowsStream {
    /// `None` when it has ended.
    input: Option<SendableRecordBatchStream>,
    kept: Kept,
    /// Groups that have left.
    given: usize,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
}

impl FirstRowsStream {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let _timer = elapsed.timer();
        self.kept.take(batch)?;
        self.reservation.try_resize(self.kept.bytes())
    }

    fn give(&mut self) -> Option<Result<RecordBatch>> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let _timer = elapsed.timer();
        if self.given >= self.kept.firsts.len() {
            return None;
        }
        let batch = self.kept.some(self.given);
        self.given += self.kept.batch_rows;
        Some(batch)
    }
}

impl Stream for FirstRowsStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let item = loop {
            let Some(input) = &mut this.input else {
                break this.give();
            };
            let taken = match ready!(input.poll_next_unpin(context)) {
                Some(Ok(batch)) => this.take(&batch),
                Some(Err(error)) => Err(error),
                None => {
                    this.input = None;
                    Ok(())
                }
            };
            if let Err(error) = taken {
                (this.input, this.given) = (None, usize::MAX);
                break Some(Err(error));
            }
        };
        this.metrics.record_poll(Poll::Ready(item))
    }
}

impl RecordBatchStream for FirstRowsStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.kept.schema)
    }
}
