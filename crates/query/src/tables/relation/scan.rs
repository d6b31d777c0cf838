//! The operator that reads a relation: one partition, whose rows are made into Arrow as they are asked for.
//!
//! Does: leave out rows that do not meet its conditions, and look rows up by a key that these name. Does not: keep anything of
//! what it reads.

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

use super::condition::Condition;
use crate::statement::name::TableName;

/// Rows of which a share meets conditions, as far as the planner knows.
const SHARE_OF_ROWS: usize = 5;

/// What is to be read.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) reader: RelationReader,
    /// Positions of columns.
    pub(crate) columns: Vec<usize>,
    /// How they are shown.
    pub(crate) shown: Arc<ShownColumns>,
    /// All of which each row meets.
    pub(crate) conditions: Vec<Condition>,
}

/// Keys that are looked up in the place of a reading of all rows.
#[derive(Debug)]
struct Keys<'a> {
    /// Of the primary key, or of the unique key of this number.
    unique: Option<usize>,
    /// The values of each.
    keys: Vec<Vec<&'a Value>>,
}

impl Wanted {
    /// The keys that the conditions name: of one column any of some values, of several one each.
    fn keys(&self) -> Option<Keys<'_>> {
        let schema = self.reader.schema();
        let values_of = |column: u32| {
            let mut conditions = self.conditions.iter();
            conditions.find_map(|of| of.values_of(column as usize))
        };
        let unique = schema.unique.iter().enumerate();
        let known = std::iter::once((None, &schema.primary_key))
            .chain(unique.map(|(at, key)| (Some(at), key)));
        for (unique, key) in known {
            let keys = match key.as_slice() {
                [column] => values_of(*column).map(|all| all.iter().map(|one| vec![one]).collect()),
                key => {
                    let each = key.iter().map(|&column| match values_of(column)? {
                        [one] => Some(one),
                        _ => None,
                    });
                    each.collect::<Option<Vec<&Value>>>().map(|one| vec![one])
                }
            };
            if let Some(keys) = keys {
                return Some(Keys { unique, keys });
            }
        }
        None
    }

    fn read(&self) -> RelationBatches {
        let mut rows = match self.keys() {
            Some(Keys { unique, keys }) => {
                let found = keys.into_iter().filter_map(|key| {
                    let key: Vec<Value> = key.into_iter().cloned().collect();
                    match unique {
                        None => self.reader.get(&key),
                        Some(unique) => self.reader.get_unique(unique, &key),
                    }
                });
                found.collect()
            }
            None => self.reader.rows(),
        };
        if !self.conditions.is_empty() {
            rows.retain(|row| self.conditions.iter().all(|it| it.holds(row)));
        }
        self.reader.schema().batches(rows, &self.columns)
    }
}

/// Keys that are looked up on the thread of a connection.
const FEW_KEYS: usize = 16;

/// The rows of a plan that does nothing but look up a few keys: they are read without the planner's machinery, and at once.
/// `None` = it does more.
pub(crate) fn few_rows(plan: &dyn ExecutionPlan) -> Option<SendableRecordBatchStream> {
    let scan = plan.downcast_ref::<RelationScan>()?;
    let keys = scan.wanted.keys()?;
    (keys.keys.len() <= FEW_KEYS).then(|| scan.rows(0))
}

#[derive(Debug)]
pub(crate) struct RelationScan {
    wanted: Wanted,
    arrow: SchemaRef,
    name: TableName,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl RelationScan {
    pub(crate) fn new(wanted: Wanted, arrow: SchemaRef, name: TableName) -> Self {
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

    /// The same with properties that are known.
    pub(crate) fn with_properties(self, properties: &Arc<PlanProperties>) -> Self {
        Self {
            properties: Arc::clone(properties),
            ..self
        }
    }

    pub(crate) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    pub(crate) fn table(&self) -> &TableName {
        &self.name
    }

    fn rows(&self, partition: usize) -> SendableRecordBatchStream {
        Box::pin(cooperative(Rows {
            arrow: Arc::clone(&self.arrow),
            batches: self.wanted.read(),
            shown: Arc::clone(&self.wanted.shown),
            columns: self.wanted.columns.clone(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn rows_estimate(&self) -> usize {
        let all = self.wanted.reader.rows_estimate();
        match self.wanted.keys() {
            Some(keys) => keys.keys.len(),
            None if self.wanted.conditions.is_empty() => all,
            None => all.div_ceil(SHARE_OF_ROWS),
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
        write!(
            f,
            "table={}, columns=[{}]",
            self.name.shown(),
            columns.join(", ")
        )?;
        let schema = self.wanted.reader.schema();
        match self.wanted.keys() {
            None => {
                write!(f, ", rows={}", self.wanted.reader.rows_estimate())?;
            }
            Some(Keys { unique, keys }) => {
                let key = match unique {
                    None => "primary key",
                    Some(_) => "unique key",
                };
                let shown = |key: &Vec<&Value>| {
                    let values: Vec<String> = key.iter().map(ToString::to_string).collect();
                    format!("({})", values.join(", "))
                };
                let keys: Vec<String> = keys.iter().map(shown).collect();
                write!(f, ", {key}={}", keys.join(" or "))?;
            }
        }
        let conditions = self.wanted.conditions.iter();
        let shown: Vec<String> = conditions.map(|it| it.shown(schema).to_string()).collect();
        if !shown.is_empty() {
            write!(f, ", where {}", shown.join(" and "))?;
        }
        Ok(())
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
        Ok(self.rows(partition))
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
