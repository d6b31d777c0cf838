//! The operator of series queries: a part of a plan that `nilometer_series` answers. It is a leaf, unless another query chooses
//! the values of a tag first.
//!
//! Does: run a query that was recognised (`planning::recognise`) with the memory, the threads and the stop conditions of its
//! statement, and give its columns as the plan has them. Does not: recognise, or answer anything itself.

mod context;
mod parted;
mod stream;

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::datasource::TableType;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, Partitioning,
    PlanProperties, SendableRecordBatchStream,
};
use nilometer_engine::{Narrowing, Snapshot};
use nilometer_series::SeriesQuery;

use crate::limits::scope::{self, Scope};
use crate::planning::recognised::{BoundSeries, Chosen, Columns, Recognised, TableRead, limits};
use crate::tables::planned::{Planned, scan_by};
use context::Observed;
pub(crate) use stream::SeriesStream;

/// What is recognised, as a table that the planner scans.
#[derive(Debug)]
pub(crate) struct SeriesTable {
    query: Arc<SeriesQuery>,
    columns: Columns,
    table: TableRead,
    chosen: Option<Chosen>,
}

impl SeriesTable {
    pub(crate) fn new(found: Recognised) -> Result<Self> {
        let query = SeriesQuery::new(found.shape, limits());
        let query = query.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(Self {
            query: Arc::new(query),
            columns: Columns {
                schema: found.schema,
                outputs: found.outputs.into(),
            },
            table: found.table,
            chosen: found.chosen,
        })
    }
}

impl TableProvider for SeriesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    scan_by!(|table, session, projection, _filters, _limit| {
        let columns = match projection {
            None => Ok(table.columns.clone()),
            Some(projection) => table.columns.project(projection),
        };
        let query = Arc::clone(&table.query);
        let read = table.table.clone();
        let choosing = table.chosen.as_ref();
        let choosing = choosing.map(|chosen| Choosing::new(chosen, session));
        Box::pin(async move {
            let chosen = match choosing {
                None => None,
                Some(choosing) => Some(choosing?.planned().await?),
            };
            let exec = SeriesExec::new(query, columns?, read, chosen);
            Ok(Arc::new(exec) as Arc<dyn ExecutionPlan>)
        })
    });
}

/// A [`Choice`] that is being planned.
struct Choosing<'a> {
    by: ChosenBy,
    input: Planned<'a>,
}

impl<'a> Choosing<'a> {
    fn new(chosen: &'a Chosen, session: &'a dyn Session) -> Result<Self> {
        let Some(session) = session.as_any().downcast_ref::<SessionState>() else {
            return internal_err!("queries are planned in sessions");
        };
        // Its rules have seen it as a part of the whole.
        let planner = session.query_planner();
        Ok(Self {
            by: ChosenBy {
                tag: Arc::from(chosen.tag.as_str()),
                column: chosen.column,
                is_of_now: chosen.is_of_now,
            },
            input: planner.create_physical_plan(&chosen.plan, session),
        })
    }

    async fn planned(self) -> Result<Choice> {
        Ok(Choice {
            by: self.by,
            input: self.input.await?,
        })
    }
}

/// What chooses the values of a tag.
#[derive(Debug, Clone)]
struct Choice {
    by: ChosenBy,
    input: Arc<dyn ExecutionPlan>,
}

/// By which column of its input the values of which tag are chosen.
#[derive(Debug, Clone)]
pub(crate) struct ChosenBy {
    pub(crate) tag: Arc<str>,
    pub(crate) column: usize,
    /// That they are is known of the values that there are now.
    pub(crate) is_of_now: bool,
}

/// The operator. It has one partition: the query itself has several threads read.
#[derive(Debug)]
pub(crate) struct SeriesExec {
    query: Arc<SeriesQuery>,
    columns: Columns,
    table: TableRead,
    chosen: Option<Choice>,
    properties: Arc<PlanProperties>,
    observed: Arc<Observed>,
    metrics: ExecutionPlanMetricsSet,
}

impl SeriesExec {
    fn new(
        query: Arc<SeriesQuery>,
        columns: Columns,
        table: TableRead,
        chosen: Option<Choice>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&columns.schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self {
            query,
            columns,
            table,
            chosen,
            properties: Arc::new(properties),
            observed: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The operator of a template, whose properties are known.
    pub(crate) fn bound(
        query: Arc<SeriesQuery>,
        columns: Columns,
        table: TableRead,
        chosen: Option<(ChosenBy, Arc<dyn ExecutionPlan>)>,
        properties: Arc<PlanProperties>,
    ) -> Self {
        Self {
            query,
            columns,
            table,
            chosen: chosen.map(|(by, input)| Choice { by, input }),
            properties,
            observed: Arc::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    pub(crate) fn query(&self) -> &SeriesQuery {
        &self.query
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(crate) fn table(&self) -> &TableRead {
        &self.table
    }

    pub(crate) fn chosen_by(&self) -> Option<ChosenBy> {
        self.chosen.as_ref().map(|chosen| chosen.by.clone())
    }
}

/// Starts the query of a template in a statement.
pub(crate) fn start(asked: BoundSeries, snapshot: Arc<Snapshot>, scope: &Scope) -> SeriesStream {
    let with = context::context(asked.threads, Some(scope), Arc::default());
    SeriesStream::new(asked.query, snapshot, asked.columns, with, Some(scope))
}

/// A query as text in one line, whatever is nested in it.
pub(crate) fn one_line(query: &SeriesQuery) -> String {
    let text = query.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.join("; ")
}

impl DisplayAs for SeriesExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if kind != DisplayFormatType::TreeRender {
            f.write_str("SeriesExec: ")?;
        }
        f.write_str(&one_line(&self.query))?;
        if let Some(chosen) = &self.chosen {
            write!(f, "; tags {} in (the input)", chosen.by.tag)?;
        }
        let (request, narrowing) = self.table.scan();
        let schema = self.table.schema.arrow_schema();
        let shown = self.table.pushdown.describe(&schema);
        write!(f, "; table={}, {shown}", self.table.name.shown())?;
        let columns = request.projection.iter();
        let columns = columns.filter_map(|at| schema.fields().get(*at));
        let columns: Vec<&str> = columns.map(|field| field.name().as_str()).collect();
        write!(f, ", columns=[{}]", columns.join(", "))?;
        if let Some(limit) = request.limit {
            write!(f, ", limit={limit}")?;
        }
        match narrowing {
            Narrowing::None | Narrowing::Fields(_) => {}
            Narrowing::Ends { first, last } => {
                write!(f, ", of each series first={first} last={last}")?;
            }
            Narrowing::Top { rows, newest, .. } => {
                let end = if newest { "newest" } else { "oldest" };
                write!(f, ", {end}={rows}")?;
            }
        }
        // What it would read now; a plan that cannot be shown is shown without.
        let Ok(scan) = self.table.snapshot.scan_narrowed(&request, &narrowing) else {
            return Ok(());
        };
        let report = scan.report();
        write!(
            f,
            ", morsels={}, rows<={}, series={}, segments={} of {}, blocks={} of {}, rows in memory={}",
            scan.morsels(),
            scan.rows_estimate(),
            report.series,
            report.segments,
            report.segments + report.segments_skipped,
            report.blocks,
            report.blocks + report.blocks_skipped,
            report.memory_rows,
        )
    }
}

impl ExecutionPlan for SeriesExec {
    fn name(&self) -> &'static str {
        "SeriesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.chosen.iter().map(|chosen| &chosen.input).collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let inputs = self.chosen.iter();
        let single = inputs.map(|_| Distribution::SinglePartition).collect();
        InputDistributionRequirements::new(single)
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.chosen.iter().map(|_| false).collect()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut children = children.into_iter();
        let chosen = match (&self.chosen, children.next()) {
            (Some(chosen), Some(input)) => Some(Choice {
                input,
                ..chosen.clone()
            }),
            (None, None) => return Ok(self),
            _ => return internal_err!("a series query has the input that it was made with"),
        };
        Ok(Arc::new(Self::new(
            Arc::clone(&self.query),
            self.columns.clone(),
            self.table.clone(),
            chosen,
        )))
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return Err(DataFusionError::Internal(format!(
                "a series query of one partition has no {partition}"
            )));
        }
        let scope = scope::current();
        let observed = Arc::clone(&self.observed);
        let with = context::context(self.table.threads, scope.as_ref(), observed);
        let mut stream = SeriesStream::new(
            Arc::clone(&self.query),
            Arc::clone(&self.table.snapshot),
            self.columns.clone(),
            with,
            scope.as_ref(),
        );
        if let Some(chosen) = &self.chosen {
            let input = chosen.input.execute(0, task)?;
            stream = stream.choosing(input, Arc::clone(&chosen.by.tag), chosen.by.column);
        }
        Ok(Box::pin(
            stream.measured(BaselineMetrics::new(&self.metrics, partition)),
        ))
    }

    /// The planner's own, and what the engine has counted.
    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        self.observed.add_to(&mut metrics);
        Some(metrics)
    }
}
