//! The schema `system`: the store's state, as tables.
//!
//! Does: build each table's rows when it is read, as of the statement's snapshot. Does not: keep anything, or show rows
//! of users. Columns are listed in `docs/guide/sql.md`.

mod rows;
mod series;
mod store;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::TableType;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::stream;
use nilometer_engine::nearest;
use nilometer_service::{Place, Principal, Privilege};

use crate::error::Error;
use crate::shared::StoreState;
use crate::statement::name::TableName;
use crate::tables::planned::scan_at_once;
use rows::Rows;
use series::Wanted;

pub(crate) use store::setting_names;

/// The tables of the schema.
pub(crate) const TABLES: [&str; 10] = [
    "columns",
    "databases",
    "jobs",
    "metrics",
    "queries",
    "schemas",
    "segments",
    "series",
    "settings",
    "tables",
];

/// The store as who asks may see it: databases in which they may do something, and series of tables that they may read.
#[derive(Debug, Clone)]
struct Visible {
    store: StoreState,
    principal: Principal,
}

impl Visible {
    fn databases(&self) -> Vec<String> {
        let mut databases = self.store.snapshot.databases();
        databases.retain(|database| self.principal.sees(database));
        databases
    }

    fn may_read(&self, database: &str, schema: &str, table: &str) -> bool {
        let place = Place::table(database, schema, table);
        self.principal.check(Privilege::Read, place).is_ok()
    }
}

/// A table of the schema; `None` = it has none of this name.
pub(crate) fn table(
    store: StoreState,
    principal: Principal,
    name: &str,
) -> Option<Arc<dyn TableProvider>> {
    let name = TABLES.into_iter().find(|known| *known == name)?;
    Some(Arc::new(SystemTable {
        name,
        schema: schema(name)?,
        visible: Visible { store, principal },
    }))
}

/// The columns of a table of the schema.
pub(crate) fn schema(name: &str) -> Option<SchemaRef> {
    match name {
        "series" => Some(series::schema()),
        _ => Some(empty(name)?.schema()),
    }
}

/// The error for a table that the system's schema has not.
pub(crate) fn unknown_table(name: &TableName) -> Option<Error> {
    if TABLES.contains(&name.table.as_str()) {
        return None;
    }
    Some(Error::UnknownTable {
        name: name.shown(),
        nearest: nearest(&name.table, TABLES.map(str::to_owned)),
        position: name.position,
    })
}

/// The columns of a table, without rows.
fn empty(name: &str) -> Option<Rows> {
    Some(match name {
        "columns" => store::no_columns(),
        "databases" => store::no_databases(),
        "jobs" => store::no_jobs(),
        "metrics" => store::no_metrics(),
        "queries" => store::no_queries(),
        "schemas" => store::no_schemas(),
        "segments" => store::no_segments(),
        "settings" => store::no_settings(),
        "tables" => store::no_tables(),
        _ => return None,
    })
}

fn filled(name: &str, visible: &Visible) -> Option<Result<Rows>> {
    let store = &visible.store;
    Some(Ok(match name {
        "columns" => store::columns(visible),
        "databases" => store::databases(visible),
        "jobs" => store::jobs(store),
        "metrics" => store::metrics(store),
        "queries" => store::queries(store),
        "schemas" => store::schemas(visible),
        "segments" => store::segments(visible),
        "settings" => store::settings(store),
        "tables" => return Some(store::tables(visible).map_err(external)),
        _ => return None,
    }))
}

fn external(error: nilometer_engine::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[derive(Debug)]
struct SystemTable {
    name: &'static str,
    schema: SchemaRef,
    visible: Visible,
}

impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let pushed = |filter: &&Expr| {
            if self.name == "series" && Wanted::takes(filter) {
                TableProviderFilterPushDown::Exact
            } else {
                TableProviderFilterPushDown::Unsupported
            }
        };
        Ok(filters.iter().map(pushed).collect())
    }

    scan_at_once!();
}

impl SystemTable {
    fn plan_scan(
        &self,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // There may be millions of series: only those columns are made that are asked for. The others are small.
        let (schema, columns, left) = match projection {
            Some(columns) if self.name == "series" => (
                Arc::new(self.schema.project(columns)?),
                columns.clone(),
                None,
            ),
            projection => {
                let all = (0..self.schema.fields().len()).collect();
                (Arc::clone(&self.schema), all, projection)
            }
        };
        let source = SystemRows {
            name: self.name,
            schema: Arc::clone(&schema),
            visible: self.visible.clone(),
            wanted: Wanted::of(columns, filters, limit),
        };
        Ok(Arc::new(StreamingTableExec::try_new(
            schema,
            vec![Arc::new(source)],
            left,
            None,
            false,
            limit,
        )?))
    }
}

/// The rows of one table, made when they are asked for.
#[derive(Debug)]
struct SystemRows {
    name: &'static str,
    schema: SchemaRef,
    visible: Visible,
    wanted: Wanted,
}

impl PartitionStream for SystemRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        if self.name == "series" {
            let batches = series::batches(&self.visible, &self.wanted);
            return Box::pin(RecordBatchStreamAdapter::new(
                schema,
                stream::iter(batches.map(|batch| batch.map_err(external))),
            ));
        }
        let batch = filled(self.name, &self.visible).map(|rows| Ok(rows?.batch()));
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batch)))
    }
}
