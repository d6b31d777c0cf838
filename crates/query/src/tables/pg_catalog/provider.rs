//! Tables of the catalogue as the planner sees them.
//!
//! Does: make the rows when a table is read, only those of one object where the conditions say which. Does not: know what is in
//! them (`rows.rs`, `standard.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::stream;
use nilometer_engine::nearest;
use nilometer_service::define::{INFORMATION_SCHEMA, TIMESCALEDB_INFORMATION};

use super::cells::Sink;
use super::objects::{Catalogue, Of};
use super::reading::Reading;
use super::relations::{self, CatalogTable};
use super::rows;
use super::source::{Source, Wanted, wanted_by};
use crate::error::Error;
use crate::statement::name::TableName;
use crate::tables::planned::scan_by;

/// A table of a schema of the catalogue; `None` = PostgreSQL has none of this name there.
pub(crate) fn table(
    reading: Arc<dyn Reading>,
    database: &str,
    schema: &str,
    name: &str,
) -> Option<Arc<dyn TableProvider>> {
    Some(Arc::new(Table {
        table: relations::find(schema, name)?,
        database: database.to_owned(),
        reading,
    }))
}

/// Whether a schema of the catalogue has a table of this name.
pub(crate) fn has(schema: &str, name: &str) -> bool {
    relations::find(schema, name).is_some()
}

/// The error for a table that a schema of the catalogue has not.
pub(crate) fn unknown_table(name: &TableName) -> Option<Error> {
    if has(&name.schema, &name.table) {
        return None;
    }
    Some(Error::UnknownTable {
        name: name.shown(),
        nearest: nearest(&name.table, names_of(&name.schema)),
        position: name.position,
    })
}

/// The names of the tables of a schema of the catalogue.
pub(crate) fn names_of(schema: &str) -> Vec<String> {
    let tables = relations::all().iter();
    tables
        .filter(|table| table.schema == schema)
        .map(|table| table.name.to_owned())
        .collect()
}

#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "what it is a table of")]
struct Table {
    table: &'static CatalogTable,
    database: String,
    reading: Arc<dyn Reading>,
}

impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.table.arrow)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let pushed = |filter: &&Expr| match wanted_by(filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(pushed).collect())
    }

    scan_by!(|provider, _session, projection, filters, limit| {
        let wanted = Wanted::of(filters);
        Box::pin(provider.plan_scan(projection, wanted, limit))
    });
}

impl Table {
    async fn plan_scan(
        &self,
        projection: Option<&Vec<usize>>,
        wanted: Wanted,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns: Vec<usize> = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.table.columns.len()).collect(),
        };
        let schema = Arc::new(self.table.arrow.project(&columns)?);
        let catalogue = self.reading.names_of_database(&self.database);
        let views = self.views(&catalogue, &wanted).await;
        let source = Source {
            table: self.table,
            columns,
            schema: Arc::clone(&schema),
            catalogue,
            wanted,
            views: Arc::new(views),
            reading: Arc::clone(&self.reading),
        };
        Ok(Arc::new(StreamingTableExec::try_new(
            schema,
            vec![Arc::new(source)],
            None,
            None,
            false,
            limit,
        )?))
    }

    /// The columns of the views that are asked for: each has to be planned. One that cannot be has none.
    async fn views(&self, catalogue: &Catalogue, wanted: &Wanted) -> HashMap<i64, SchemaRef> {
        let mut views = HashMap::new();
        let lists_columns = self.table.name == "pg_attribute"
            || (self.table.schema == INFORMATION_SCHEMA && self.table.name == "columns");
        if !lists_columns {
            return views;
        }
        for object in &catalogue.objects {
            if !matches!(object.of, Of::View(_)) || !wanted.has(object.oid) {
                continue;
            }
            let name = TableName {
                database: self.database.clone(),
                schema: catalogue.schema_of(object).to_owned(),
                table: object.name.clone(),
                position: None,
            };
            if let Some(provider) = self.reading.provider(&name).await {
                views.insert(object.oid, provider.schema());
            }
        }
        views
    }
}

impl PartitionStream for Source {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut sink = Sink::new(self.table, &self.columns, Arc::clone(&self.schema));
        let filled = if self.table.schema == INFORMATION_SCHEMA {
            rows::standard::fill(self, &mut sink)
        } else if self.table.schema == TIMESCALEDB_INFORMATION {
            rows::timescale::fill(self, &mut sink)
        } else {
            rows::fill(self, &mut sink)
        };
        let batches = match filled.and_then(|()| sink.finish()) {
            Ok(batches) => batches.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        };
        let schema = Arc::clone(&self.schema);
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches)))
    }
}
