//! A table of a snapshot, for the planner: columns, and the filters that the scan takes over.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use nilometer_engine::{Narrowing, ScanRequest, Snapshot, TableSchema};

use crate::operators::scan::{SeriesScan, ShownAs, Wanted};
use crate::planning::filter::{Coverage, FieldCondition, Pushdown};
use crate::statement::name::TableName;
use crate::tables::planned::scan_at_once;

/// Columns that say which row it is, for statements that change rows: its series, its time as the store has it, and its
/// place among equals.
pub(crate) const ROW_COLUMNS: [&str; 3] = ["_series", "_time", "_nth"];

#[derive(Clone)]
pub(crate) struct Table {
    snapshot: Arc<Snapshot>,
    schema: Arc<TableSchema>,
    name: TableName,
    threads: usize,
    /// With [`ROW_COLUMNS`] after its own.
    arrow: SchemaRef,
    /// The continuous aggregate whose stored answers it has, where these stand for rows of another table.
    aggregate: Option<String>,
}

impl Table {
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        schema: Arc<TableSchema>,
        name: TableName,
        threads: usize,
    ) -> Self {
        Self {
            snapshot,
            arrow: Arc::clone(&schema.shown_columns().schema),
            schema,
            name,
            threads,
            aggregate: None,
        }
    }

    /// The same, said to have the stored answers of a continuous aggregate.
    pub(crate) fn of_aggregate(self, view: &str) -> Self {
        Self {
            aggregate: Some(view.to_owned()),
            ..self
        }
    }

    /// What a plan calls it.
    fn shown(&self) -> String {
        let name = self.name.shown();
        match &self.aggregate {
            Some(view) => format!("{name} of the continuous aggregate \"{view}\""),
            None => name,
        }
    }

    /// What the engine calls it.
    pub(crate) fn table_schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    pub(crate) fn name(&self) -> &TableName {
        &self.name
    }

    /// How many threads may read it at once.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// The same table, with the columns that say which row it is.
    pub(crate) fn with_row_columns(self) -> Self {
        let own = self.arrow.fields().iter().cloned();
        let engine = self.schema.arrow_schema();
        let time = engine.fields().first().map(|time| time.data_type().clone());
        let [series, time_name, nth] = ROW_COLUMNS;
        let more = [
            Field::new(series, DataType::UInt32, false),
            Field::new(time_name, time.unwrap_or(DataType::Null), false),
            Field::new(nth, DataType::UInt32, false),
        ];
        let more = more.map(Arc::new);
        let arrow = Arc::new(Schema::new(own.chain(more).collect::<Vec<_>>()));
        Self { arrow, ..self }
    }

    /// A column as a scan is asked for it.
    fn position(&self, at: usize) -> usize {
        let columns = self.schema.shown_columns();
        match at.checked_sub(columns.len()) {
            None => columns.position(at).unwrap_or(at),
            Some(0) => ScanRequest::SERIES,
            // The time, as it leaves the engine.
            Some(1) => 0,
            Some(_) => ScanRequest::NTH,
        }
    }

    /// How a scan of these columns shows what leaves the engine; `None` = as it is.
    fn shown_as(&self, projection: &[usize]) -> Result<Option<ShownAs>> {
        let columns = self.schema.shown_columns();
        // The time of [`ROW_COLUMNS`] leaves the engine under the name that it has there.
        let is_renamed = projection.contains(&(columns.len() + 1));
        if columns.is_plain() && !is_renamed {
            return Ok(None);
        }
        Ok(Some(ShownAs {
            schema: Arc::new(self.arrow.project(projection)?),
            columns: Arc::clone(columns),
            at: projection.to_vec(),
        }))
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name.shown())
            .finish_non_exhaustive()
    }
}

impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.arrow)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match Pushdown::of(filter, &self.schema).1 {
                Coverage::Exact => TableProviderFilterPushDown::Exact,
                Coverage::Inexact => TableProviderFilterPushDown::Inexact,
                Coverage::None => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    scan_at_once!();
}

impl Table {
    fn plan_scan(
        &self,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.arrow.fields().len()).collect();
        self.planned_scan(&Wanted {
            name: self.name.clone(),
            schema: Arc::clone(&self.schema),
            projection: projection.cloned().unwrap_or_else(all),
            filters: filters.to_vec(),
            limit,
        })
    }

    /// The scan that another one of the table was planned as, maybe with other values in its filters.
    pub(crate) fn planned_scan(&self, wanted: &Wanted) -> Result<Arc<dyn ExecutionPlan>> {
        let arrow_schema = &self.arrow;
        let Wanted {
            projection,
            filters,
            limit,
            ..
        } = wanted;
        let pushdown = filters.iter().fold(Pushdown::everything(), |all, filter| {
            all.and(Pushdown::of(filter, &self.schema).0)
        });
        if pushdown.is_nothing() {
            return Ok(Arc::new(EmptyExec::new(Arc::new(
                arrow_schema.project(projection)?,
            ))));
        }
        let shown = pushdown.describe(&self.schema.arrow_schema());
        let shown_as = self.shown_as(projection)?;
        let request = ScanRequest {
            table: Arc::clone(&self.schema),
            projection: projection.iter().map(|at| self.position(*at)).collect(),
            time: pushdown.time,
            tags: pushdown.tags,
            limit: *limit,
        };
        let narrowing = match pushdown.fields.as_slice() {
            [] => Narrowing::None,
            fields => Narrowing::Fields(fields.iter().map(FieldCondition::predicate).collect()),
        };
        let shown = format!("table={}, {shown}", self.shown());
        let scan = SeriesScan::new(
            (self.snapshot.as_ref(), wanted.clone()),
            (&request, &narrowing),
            self.threads,
            shown,
            shown_as,
        )?;
        Ok(Arc::new(scan))
    }
}
