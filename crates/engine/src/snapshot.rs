//! A consistent view of the store.

mod series;

use std::sync::Arc;

use crate::engine::{Engine, State};
use crate::error::Error;
use crate::relation::Hold;
use crate::scan::{AggregateRequest, Aggregation, Narrowing, Scan, ScanRequest};
use crate::schema::{Lsn, TableId, TableSchema};

/// What was acknowledged when it was taken, unchanged by what comes later. Cheap to take, to clone and to share; it
/// keeps the files and rows it sees alive, so drop it when the query is done.
#[derive(Debug, Clone)]
pub struct Snapshot {
    engine: Arc<Engine>,
    state: State,
    visible: Lsn,
    /// Keeps what relations were at `visible`.
    hold: Arc<Hold>,
}

impl Snapshot {
    pub(crate) fn new(engine: Arc<Engine>, state: State, hold: Arc<Hold>) -> Self {
        Self {
            engine,
            state,
            visible: hold.lsn(),
            hold,
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// The last LSN that it sees.
    pub fn lsn(&self) -> Lsn {
        self.visible
    }

    /// Names of all databases, sorted.
    pub fn databases(&self) -> Vec<String> {
        let catalogue = self.engine.catalogue();
        catalogue.databases().map(str::to_owned).collect()
    }

    /// Names of a database's schemas, sorted; `None` = no such database.
    pub fn schemas(&self, database: &str) -> Option<Vec<String>> {
        let catalogue = self.engine.catalogue();
        let id = catalogue.database(database)?;
        Some(catalogue.schemas(id).map(str::to_owned).collect())
    }

    /// The schema that a name without one means; `None` = no such database.
    pub fn default_schema(&self, database: &str) -> Option<String> {
        let catalogue = self.engine.catalogue();
        let id = catalogue.default_schema(catalogue.database(database)?)?;
        catalogue.schema_name(id).map(str::to_owned)
    }

    /// How long the rows of a table are kept in nanoseconds, by its own settings or its schema's; `None` = for ever.
    pub fn retention_ns(&self, table: TableId) -> Option<i64> {
        self.engine.catalogue().retention_ns(table)
    }

    /// Names of a schema's tables, sorted; `None` = no such schema.
    pub fn tables(&self, database: &str, schema: &str) -> Option<Vec<String>> {
        let catalogue = self.engine.catalogue();
        let id = catalogue.schema(catalogue.database(database)?, schema)?;
        Some(catalogue.tables(id).map(str::to_owned).collect())
    }

    /// A table by its name.
    pub fn table(&self, database: &str, schema: &str, table: &str) -> Option<Arc<TableSchema>> {
        let catalogue = self.engine.catalogue();
        let schema = catalogue.schema(catalogue.database(database)?, schema)?;
        let id = catalogue.table_id(schema, table)?;
        catalogue.table(id).cloned()
    }

    /// Plans a read: finds the series, prunes segments, blocks and runs. Reads directories, no pages. A table that was
    /// dropped since its schema was asked for is an error, because its series are gone; a scan that is planned already
    /// goes on to its end.
    pub fn scan(&self, request: &ScanRequest) -> Result<Scan, Error> {
        self.scan_narrowed(request, &Narrowing::None)
    }

    /// Plans a read of some of the rows: at least those that `narrowing` says, and maybe more. For rows at an end of time
    /// it reads pages of times.
    pub fn scan_narrowed(
        &self,
        request: &ScanRequest,
        narrowing: &Narrowing,
    ) -> Result<Scan, Error> {
        Scan::plan(&self.engine, &self.state, self.visible, request, narrowing)
    }

    /// Plans aggregates of fields by series and bucket of time. Reads directories and tags, no pages; see [`Self::scan`].
    pub fn aggregate(&self, request: &AggregateRequest) -> Result<Aggregation, Error> {
        let tags: Vec<usize> = (0..request.table.tags.len()).collect();
        self.aggregate_showing(request, &tags)
    }

    /// The same, of which only some tags will be asked for, by their positions among the table's tags: those of a million
    /// series take longer to look up than their aggregates.
    pub fn aggregate_showing(
        &self,
        request: &AggregateRequest,
        tags: &[usize],
    ) -> Result<Aggregation, Error> {
        Aggregation::plan(&self.engine, &self.state, self.visible, request, tags)
    }
}
