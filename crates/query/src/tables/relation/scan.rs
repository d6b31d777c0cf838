//! The operator that reads a relation: one partition, whose rows are made into Arrow as they are asked for.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, RecordBatchStream,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::Stream;
use nilometer_engine::{RelationBatches, RelationReader, ShownColumns, Value};

/// What is to be read.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) reader: RelationReader,
    /// Positions of columns.
    pub(super) columns: Vec<usize>,
    /// How they are shown.
    pub(super) shown: Arc<ShownColumns>,
    /// The one row that has these values of the primary key, or of the unique key of this number.
    pub(super) key: Option<(Option<usize>, Vec<Value>)>,
}

#[derive(Debug)]
pub(super) struct RelationScan {
    wanted: Wanted,
    arrow: SchemaRef,
    name: String,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RelationScan {
    pub(super) fn new(wanted: Wanted, arrow: SchemaRef, name: String) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&arrow)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            wanted,
            arrow,
            name,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    fn rows_estimate(&self) -> usize {
        match &self.wanted.key {
            Some(_) => 1,
            None => self.wanted.reader.rows_estimate(),
        }
    }

    fn read(&self) -> RelationBatches {
        let Wanted {
            reader,
            columns,
            key,
            ..
        } = &self.wanted;
        match key {
            Some((unique, values)) => reader.read_key(*unique, values, columns),
            None => reader.read(columns),
        }
    }
}

impl DisplayAs for RelationScan {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if kind != DisplayFormatType::TreeRender {
            f.write_str("RelationScan: ")?;
        }
        let fields = self.arrow.fields().iter();
        let columns: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        write!(f, "table={}, columns=[{}]", self.name, columns.join(", "))?;
        match &self.wanted.key {
            None => write!(f, ", rows={}", self.rows_estimate()),
            Some((unique, values)) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                let key = match unique {
                    None => "primary key",
                    Some(_) => "unique key",
                };
                write!(f, ", {key}=({})", values.join(", "))
            }
        }
    }
}

impl ExecutionPlan for RelationScan {
    fn name(&self) -> &'static str {
        "RelationScan"
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

    /// A leaf has no children to replace, and reading it again starts afresh as it is.
    fn replace_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
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
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Ok(Box::pin(cooperative(Rows {
            arrow: Arc::clone(&self.arrow),
            batches: self.read(),
            shown: Arc::clone(&self.wanted.shown),
            columns: self.wanted.columns.clone(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        })))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let statistics = Statistics::new_unknown(&self.arrow);
        let rows = Precision::Inexact(self.rows_estimate());
        Ok(Arc::new(statistics.with_num_rows(rows)))
    }
}

struct Rows {
    arrow: SchemaRef,
    batches: RelationBatches,
    shown: Arc<ShownColumns>,
    columns: Vec<usize>,
    metrics: BaselineMetrics,
}

impl Rows {
    /// A batch as SQL shows it.
    fn show(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = batch.columns().iter().zip(&self.columns);
        let arrays = columns.map(|(array, at)| self.shown.show(*at, array));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let schema = Arc::clone(&self.arrow);
        let shown = RecordBatch::try_new_with_options(schema, arrays.collect(), &options);
        Ok(shown?)
    }
}

impl Stream for Rows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let elapsed = self.metrics.elapsed_compute().clone();
        let timer = elapsed.timer();
        let batch = self.batches.next().map(|batch| self.show(&batch));
        timer.done();
        self.metrics.record_poll(Poll::Ready(batch))
    }
}

impl RecordBatchStream for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.arrow)
    }
}
