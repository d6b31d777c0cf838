//! The operator: morsels of an engine's aggregation, added up by group.
//!
//! Its one partition starts a task for each thread. They share the morsels as the partitions of a scan do; each adds up
//! groups of its own, and at the end those are added up. What groups take is charged to the query's memory.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::JoinSet;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use futures::{TryStreamExt, stream};
use nilometer_engine::{AggregateRow, Aggregation, FieldAggregate};

use super::Output;
use super::groups::{GroupTags, Groups};

/// Rows of one batch of the answer.
const BATCH_ROWS: usize = 8192;

#[derive(Debug)]
pub(super) struct TsAggregate {
    aggregation: Aggregation,
    outputs: Vec<Output>,
    bucket_ns: Option<i64>,
    threads: usize,
    /// Table and pruning, for EXPLAIN.
    shown: String,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl TsAggregate {
    pub(super) fn new(
        aggregation: Aggregation,
        outputs: Vec<Output>,
        schema: SchemaRef,
        bucket_ns: Option<i64>,
        threads: usize,
        shown: String,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            aggregation,
            outputs,
            bucket_ns,
            threads,
            shown,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn field_count(&self) -> usize {
        let fields = self.outputs.iter().filter_map(|output| match output {
            Output::Count(field)
            | Output::Sum(field)
            | Output::Average(field)
            | Output::Min(field)
            | Output::Max(field) => Some(field + 1),
            Output::Tag(_) | Output::Bucket | Output::Rows => None,
        });
        fields.max().unwrap_or(0)
    }
}

/// Positions of the tags that rows are grouped by.
pub(super) fn group_tags(outputs: &[Output]) -> Vec<usize> {
    let tags = outputs.iter().filter_map(|output| match output {
        Output::Tag(tag) => Some(*tag),
        _ => None,
    });
    tags.collect()
}

impl DisplayAs for TsAggregate {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if kind != DisplayFormatType::TreeRender {
            f.write_str("TsAggregate: ")?;
        }
        write!(f, "{}, ", self.shown)?;
        if let Some(width) = self.bucket_ns {
            write!(f, "bucket={}s, ", width / 1_000_000_000)?;
        }
        write!(
            f,
            "series={}, morsels={}",
            self.aggregation.series(),
            self.aggregation.morsels()
        )
    }
}

impl ExecutionPlan for TsAggregate {
    fn name(&self) -> &'static str {
        "TsAggregate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return Err(DataFusionError::Internal(format!(
                "an aggregation of one partition has no {partition}"
            )));
        }
        let schema = self.schema();
        let work = Work {
            aggregation: self.aggregation.clone(),
            outputs: self.outputs.clone(),
            group_tags: group_tags(&self.outputs),
            fields: self.field_count(),
            threads: self.threads,
            schema: Arc::clone(&schema),
            reservation: MemoryConsumer::new("TsAggregate").register(context.memory_pool()),
            counters: Counters::new(&self.metrics),
            baseline: BaselineMetrics::new(&self.metrics, 0),
        };
        let batches = stream::once(work.run())
            .map_ok(|batches| stream::iter(batches.into_iter().map(Ok)))
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// How much came from where, for EXPLAIN ANALYZE.
#[derive(Debug, Clone)]
struct Counters {
    rollups: Count,
    statistics: Count,
    rows: Count,
}

impl Counters {
    fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        Self {
            rollups: MetricBuilder::new(metrics).counter("rollups_used", 0),
            statistics: MetricBuilder::new(metrics).counter("block_statistics_used", 0),
            rows: MetricBuilder::new(metrics).counter("rows_decoded", 0),
        }
    }
}

/// One execution.
struct Work {
    aggregation: Aggregation,
    outputs: Vec<Output>,
    group_tags: Vec<usize>,
    fields: usize,
    threads: usize,
    schema: SchemaRef,
    reservation: MemoryReservation,
    counters: Counters,
    baseline: BaselineMetrics,
}

impl Work {
    async fn run(self) -> Result<Vec<RecordBatch>> {
        let compute = self.baseline.elapsed_compute().clone();
        let grouping = Arc::new(self.group_series()?);
        let next_morsel = Arc::new(AtomicUsize::new(0));
        let task = || Task {
            aggregation: self.aggregation.clone(),
            next_morsel: Arc::clone(&next_morsel),
            group_of: Arc::clone(&grouping),
            groups: Groups::new(self.fields),
            fields: self.fields,
            reservation: self.reservation.new_empty(),
            counters: self.counters.clone(),
            baseline: self.baseline.clone(),
        };
        let mut groups = Groups::new(self.fields);
        let mut reservations = Vec::new();
        let mut add = |(part, reservation)| {
            groups.append(part);
            // The sum is no larger than its parts, which stay charged until the answer is made.
            reservations.push(reservation);
        };
        let threads = self.threads.min(self.aggregation.morsels());
        if threads <= 1 {
            add(task().run().await?);
        } else {
            // Aborts what still runs when the answer is not wanted any more.
            let mut tasks = JoinSet::new();
            for _ in 0..threads {
                tasks.spawn(task().run());
            }
            while let Some(ended) = tasks.join_next().await {
                add(ended.map_err(|error| DataFusionError::External(Box::new(error)))??);
            }
        }
        let _timer = compute.timer();
        if self
            .outputs
            .iter()
            .all(|output| !matches!(output, Output::Tag(_) | Output::Bucket))
        {
            groups.ensure_one();
        }
        let mut batches = Vec::new();
        for start in (0..groups.len()).step_by(BATCH_ROWS) {
            let range = start..(start + BATCH_ROWS).min(groups.len());
            let batch = groups.batch(range, &grouping.tags, &self.outputs, &self.schema)?;
            self.reservation.try_grow(batch.get_array_memory_size())?;
            self.baseline.record_output(batch.num_rows());
            batches.push(batch);
        }
        Ok(batches)
    }

    /// Which group each series belongs to.
    fn group_series(&self) -> Result<Grouping> {
        let series = self.aggregation.series();
        if self.group_tags.is_empty() {
            return Ok(Grouping {
                by_series: None,
                tags: vec![Vec::new()],
            });
        }
        self.reservation.try_grow(series * size_of::<u32>())?;
        let mut places: HashMap<Vec<Option<&str>>, u32> = HashMap::new();
        let mut by_series = Vec::with_capacity(series);
        let mut tags: Vec<GroupTags> = Vec::new();
        for position in 0..series {
            let own: Vec<Option<&str>> = self
                .group_tags
                .iter()
                .map(|&tag| self.aggregation.tag(tag, position))
                .collect();
            if let Some(&group) = places.get(&own) {
                by_series.push(group);
                continue;
            }
            let text: usize = own.iter().flatten().map(|value| value.len()).sum();
            let per_tag = size_of::<Option<&str>>() + size_of::<Option<String>>();
            self.reservation
                .try_grow(text + own.len() * per_tag + 2 * size_of::<GroupTags>())?;
            // There are no more groups than series, whose ids have 32 bits.
            let group = u32::try_from(tags.len()).unwrap_or(u32::MAX);
            tags.push(own.iter().map(|tag| tag.map(str::to_owned)).collect());
            by_series.push(group);
            places.insert(own, group);
        }
        Ok(Grouping {
            by_series: Some(by_series),
            tags,
        })
    }
}

/// Groups of series.
struct Grouping {
    /// By position of the series; `None` = all are one group.
    by_series: Option<Vec<u32>>,
    /// By group.
    tags: Vec<GroupTags>,
}

impl Grouping {
    fn group(&self, row: &AggregateRow) -> u32 {
        let groups = self.by_series.as_ref();
        groups
            .and_then(|groups| groups.get(row.position).copied())
            .unwrap_or(0)
    }
}

/// What one thread does.
struct Task {
    aggregation: Aggregation,
    next_morsel: Arc<AtomicUsize>,
    group_of: Arc<Grouping>,
    groups: Groups,
    fields: usize,
    reservation: MemoryReservation,
    counters: Counters,
    baseline: BaselineMetrics,
}

impl Task {
    async fn run(mut self) -> Result<(Groups, MemoryReservation)> {
        loop {
            let morsel = self.next_morsel.fetch_add(1, Ordering::Relaxed);
            if morsel >= self.aggregation.morsels() {
                return Ok((self.groups, self.reservation));
            }
            self.add(morsel)?;
            // Where the task ends if nobody waits for it any more.
            tokio::task::yield_now().await;
        }
    }

    fn add(&mut self, morsel: usize) -> Result<()> {
        let compute = self.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        let part = self
            .aggregation
            .read(morsel)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let row = size_of::<AggregateRow>() + self.fields * size_of::<Option<FieldAggregate>>();
        self.reservation
            .try_resize(self.groups.bytes() + part.rows.len() * row)?;
        self.counters.rollups.add(to_usize(part.used.rollups));
        self.counters.statistics.add(to_usize(part.used.statistics));
        self.counters.rows.add(to_usize(part.used.rows));
        for row in part.rows {
            let group = self.group_of.group(&row);
            self.groups.add(group, row);
        }
        self.reservation.try_resize(self.groups.bytes())
    }
}

fn to_usize(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
