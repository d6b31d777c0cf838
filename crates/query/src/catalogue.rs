//! One snapshot's databases, schemas and tables, as the planner asks for them: by name, one at a time.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use nilometer_engine::Snapshot;

use crate::table::Table;

/// All databases of a snapshot.
pub(crate) struct Databases {
    snapshot: Arc<Snapshot>,
    /// What one scan may use, passed down to the tables.
    threads: usize,
}

impl Databases {
    pub(crate) fn new(snapshot: Arc<Snapshot>, threads: usize) -> Self {
        Self { snapshot, threads }
    }
}

impl std::fmt::Debug for Databases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.snapshot.databases()).finish()
    }
}

impl CatalogProviderList for Databases {
    /// Nothing registers itself in a snapshot; the planner never asks.
    fn register_catalog(
        &self,
        _name: String,
        _catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        self.snapshot.databases()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        self.snapshot.schemas(name)?;
        Some(Arc::new(Database {
            snapshot: Arc::clone(&self.snapshot),
            threads: self.threads,
            name: name.to_owned(),
        }))
    }
}

struct Database {
    snapshot: Arc<Snapshot>,
    threads: usize,
    name: String,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl CatalogProvider for Database {
    fn schema_names(&self) -> Vec<String> {
        self.snapshot.schemas(&self.name).unwrap_or_default()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.snapshot.tables(&self.name, name)?;
        Some(Arc::new(Schema {
            snapshot: Arc::clone(&self.snapshot),
            threads: self.threads,
            database: self.name.clone(),
            name: name.to_owned(),
        }))
    }
}

struct Schema {
    snapshot: Arc<Snapshot>,
    threads: usize,
    database: String,
    name: String,
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schema")
            .field("database", &self.database)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        self.snapshot
            .tables(&self.database, &self.name)
            .unwrap_or_default()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let schema = self.snapshot.table(&self.database, &self.name, name);
        Ok(schema.map(|schema| {
            let shown = format!("{}.{}.{name}", self.database, self.name);
            Arc::new(Table::new(
                Arc::clone(&self.snapshot),
                schema,
                shown,
                self.threads,
            )) as _
        }))
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.table_exist(name).then_some(TableType::Base))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.snapshot
            .table(&self.database, &self.name, name)
            .is_some()
    }
}
