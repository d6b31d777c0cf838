//! The operator that reads an engine scan.
//!
//! Its partitions share the scan's morsels: each takes the next one off a common counter when it is done with its
//! last, so a slow morsel holds up nobody. It declares no order: rows are sorted by (series, time) inside a morsel only.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Metric, MetricValue, MetricsSet,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, RecordBatchStream,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::Stream;
use nilometer_engine::{
    MorselReader, Narrowing, Scan, ScanRequest, ShownColumns, Snapshot, TableSchema,
};

use crate::limits::scope;
use crate::statement::name::TableName;

/// Rows that pay for one more thread. Below, starting it costs more than it saves.
pub(crate) const ROWS_PER_THREAD: u64 = 32_768;

#[derive(Debug)]
pub(crate) struct SeriesScan {
    scan: Scan,
    wanted: Arc<Wanted>,
    /// Rows after which a partition may stop.
    limit: Option<usize>,
    /// Table and pruning, for EXPLAIN.
    shown: String,
    /// How columns are shown that are not shown as they leave the engine.
    shown_as: Option<ShownAs>,
    /// As it is shown.
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    run: Mutex<Run>,
    metrics: ExecutionPlanMetricsSet,
}

/// What a scan was planned of, whatever snapshot it reads.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) name: TableName,
    pub(crate) schema: Arc<TableSchema>,
    /// Columns, by their places among those that SQL shows.
    pub(crate) projection: Vec<usize>,
    pub(crate) filters: Vec<Expr>,
    pub(crate) limit: Option<usize>,
}

/// How columns of a scan are shown whose table has declarations.
#[derive(Debug, Clone)]
pub(crate) struct ShownAs {
    /// What the scan shows.
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Arc<ShownColumns>,
    /// By column of the scan: its position among the shown ones; what is behind them is shown as it is.
    pub(crate) at: Vec<usize>,
}

impl ShownAs {
    fn show(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch.columns().iter().zip(&self.at);
        let arrays = columns.map(|(array, at)| self.columns.show(*at, array));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(
            schema,
            arrays.collect(),
            &options,
        )?)
    }
}

/// One execution of the plan: its counter, and which partitions have joined it.
#[derive(Debug)]
struct Run {
    next_morsel: Arc<AtomicUsize>,
    joined: Vec<bool>,
}

impl Run {
    fn new(partitions: usize) -> Self {
        Self {
            next_morsel: Arc::default(),
            joined: vec![false; partitions],
        }
    }

    /// The counter for a partition. A partition that comes a second time starts the next execution.
    fn join(&mut self, partition: usize) -> Option<Arc<AtomicUsize>> {
        if *self.joined.get(partition)? {
            *self = Self::new(self.joined.len());
        }
        *self.joined.get_mut(partition)? = true;
        Some(Arc::clone(&self.next_morsel))
    }
}

fn threads_worth(threads: usize, scan: &Scan) -> usize {
    let worth = usize::try_from(scan.rows_estimate() / ROWS_PER_THREAD + 1);
    threads.min(worth.unwrap_or(usize::MAX))
}

impl SeriesScan {
    /// Plans a scan on a snapshot; `threads` is how many partitions there may be.
    pub(crate) fn new(
        (snapshot, wanted): (&Snapshot, Wanted),
        (request, narrowing): (&ScanRequest, &Narrowing),
        threads: usize,
        shown: String,
        shown_as: Option<ShownAs>,
    ) -> Result<Self> {
        let scan = snapshot
            .scan_narrowed(request, narrowing)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let partitions = threads_worth(threads, &scan).min(scan.morsels()).max(1);
        let limit = request.limit;
        let schema = match &shown_as {
            Some(shown_as) => Arc::clone(&shown_as.schema),
            None => scan.schema(),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Ok(Self {
            scan,
            wanted: Arc::new(wanted),
            limit,
            shown,
            shown_as,
            schema,
            properties: Arc::new(properties),
            run: Mutex::new(Run::new(partitions)),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// What it was planned of.
    pub(crate) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Upper bound of the rows.
    pub(crate) fn rows_estimate(&self) -> u64 {
        self.scan.rows_estimate()
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }
}

impl DisplayAs for SeriesScan {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if kind != DisplayFormatType::TreeRender {
            f.write_str("SeriesScan: ")?;
        }
        let schema = &self.schema;
        let columns: Vec<&str> = schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        write!(
            f,
            "{}, columns=[{}], morsels={}, rows<={}",
            self.shown,
            columns.join(", "),
            self.scan.morsels(),
            self.scan.rows_estimate()
        )?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        let report = self.scan.report();
        write!(
            f,
            ", series={}, segments={} of {}, blocks={} of {}, rows in memory={}",
            report.series,
            report.segments,
            report.segments + report.segments_skipped,
            report.blocks,
            report.blocks + report.blocks_skipped,
            report.memory_rows,
        )
    }
}

impl ExecutionPlan for SeriesScan {
    fn name(&self) -> &'static str {
        "SeriesScan"
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

    /// A leaf has no children to replace; what is asked for is a plan that has not run yet.
    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            scan: self.scan.clone(),
            wanted: Arc::clone(&self.wanted),
            limit: self.limit,
            shown: self.shown.clone(),
            shown_as: self.shown_as.clone(),
            schema: Arc::clone(&self.schema),
            properties: Arc::clone(&self.properties),
            run: Mutex::new(Run::new(self.partitions())),
            metrics: self.metrics.clone(),
        }))
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
        let next_morsel = self
            .run
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .join(partition)
            .ok_or_else(|| {
                DataFusionError::Internal(format!(
                    "a scan of {} partitions has no {partition}",
                    self.partitions()
                ))
            })?;
        Ok(Box::pin(cooperative(MorselStream {
            schema: Arc::clone(&self.schema),
            shown_as: self.shown_as.clone(),
            scan: self.scan.clone(),
            next_morsel,
            reader: None,
            rows_left: self.limit.unwrap_or(usize::MAX),
            rows_max: context.session_config().batch_size(),
            rest: None,
            memory: MemoryConsumer::new("scan").register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        })))
    }

    /// The planner's own, and what the engine has counted.
    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        let report = self.scan.report();
        for (name, number) in [
            ("partitions", report.partitions),
            ("partitions_skipped", report.partitions_skipped),
            ("segments", report.segments),
            ("segments_skipped", report.segments_skipped),
            ("blocks_read", report.blocks_read),
            ("blocks_skipped", report.blocks_skipped),
            ("pages_read", report.pages_read),
            ("pages_skipped", report.pages_skipped),
            ("bytes_read", report.bytes_read),
            ("blocks_ruled_out", report.blocks_ruled_out),
            ("blocks_without_hit", report.blocks_without_hit),
            ("ends_from_statistics", report.ends_from_statistics),
            ("memory_rows", report.memory_rows),
        ] {
            let count = Count::new();
            count.add(usize::try_from(number).unwrap_or(usize::MAX));
            let value = MetricValue::Count {
                name: name.into(),
                count,
            };
            metrics.push(Arc::new(Metric::new(value, None)));
        }
        Some(metrics)
    }

    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut rows = usize::try_from(self.scan.rows_estimate()).unwrap_or(usize::MAX);
        if args.partition().is_some() {
            rows /= self.partitions();
        }
        let statistics = Statistics::new_unknown(&self.schema);
        Ok(Arc::new(statistics.with_num_rows(Precision::Inexact(rows))))
    }
}

/// The batches of the morsels that one partition gets hold of.
struct MorselStream {
    schema: SchemaRef,
    shown_as: Option<ShownAs>,
    scan: Scan,
    next_morsel: Arc<AtomicUsize>,
    reader: Option<MorselReader>,
    rows_left: usize,
    /// Rows of a batch.
    rows_max: usize,
    /// What is left of a batch that had more.
    rest: Option<RecordBatch>,
    /// For what the reader holds, and the last batch.
    memory: MemoryReservation,
    metrics: BaselineMetrics,
}

impl MorselStream {
    /// Reads and decodes here and now: the runtime that polls this is for computing, not for sockets.
    fn next_batch(&mut self) -> Option<Result<RecordBatch>> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let _timer = elapsed.timer();
        if let Some(rest) = self.rest.take() {
            return Some(Ok(self.first_of(rest)));
        }
        while self.rows_left > 0 {
            if let Err(over) = scope::check() {
                self.rows_left = 0;
                return Some(Err(over));
            }
            let reader = match &mut self.reader {
                Some(reader) => reader,
                none => {
                    let morsel = self.next_morsel.fetch_add(1, Ordering::Relaxed);
                    if morsel >= self.scan.morsels() {
                        return None;
                    }
                    none.insert(scope::aside(|| self.scan.read(morsel)))
                }
            };
            match scope::aside(|| reader.next()) {
                Some(Ok(batch)) if batch.num_rows() == 0 => {}
                Some(Ok(batch)) => {
                    let rows = batch.num_rows().min(self.rows_left);
                    self.rows_left -= rows;
                    let held = reader.held_bytes() + batch.get_array_memory_size();
                    if let Err(over) = self.memory.try_resize(held) {
                        self.rows_left = 0;
                        return Some(Err(over));
                    }
                    let batch = if rows < batch.num_rows() {
                        batch.slice(0, rows)
                    } else {
                        batch
                    };
                    let batch = match &self.shown_as {
                        None => batch,
                        Some(shown_as) => match shown_as.show(&batch) {
                            Ok(shown) => shown,
                            Err(error) => return Some(Err(error)),
                        },
                    };
                    return Some(Ok(self.first_of(batch)));
                }
                Some(Err(error)) => {
                    self.rows_left = 0;
                    return Some(Err(DataFusionError::External(Box::new(error))));
                }
                None => self.reader = None,
            }
        }
        self.memory.free();
        None
    }

    /// So many rows as a batch may have; the others come next.
    fn first_of(&mut self, batch: RecordBatch) -> RecordBatch {
        if batch.num_rows() <= self.rows_max {
            return batch;
        }
        let left = batch.num_rows() - self.rows_max;
        self.rest = Some(batch.slice(self.rows_max, left));
        batch.slice(0, self.rows_max)
    }
}

impl Stream for MorselStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if scope::is_turn_over() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let batch = self.next_batch();
        self.metrics.record_poll(Poll::Ready(batch))
    }
}

impl RecordBatchStream for MorselStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_one_execution_share_a_counter_and_the_next_execution_has_its_own() {
        let mut run = Run::new(2);
        let first = run.join(0).unwrap();
        assert!(Arc::ptr_eq(&first, &run.join(1).unwrap()));
        let second = run.join(0).unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &run.join(1).unwrap()));
        assert!(run.join(2).is_none());
    }
}
