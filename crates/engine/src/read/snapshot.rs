//! A consistent view of the store.

mod relations;
mod segments;
mod series;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::catalogue::Shared;
use crate::error::Error;
use crate::moment::{Moment, Store};
use crate::read::latest::LastRows;
use crate::read::pieces::TablePiece;
use crate::read::slices::RowWeights;
use crate::read::total::TableTotal;
use crate::relation::{OwnRelations, Pin};
use crate::scan::{AggregateRequest, Aggregation, Narrowing, Scan, ScanRequest};
use crate::schema::{DatabaseId, Lsn, SchemaId, SeriesId, TableId, TableSchema};
use crate::state::OwnHead;

pub use segments::SegmentReport;
pub use series::SeriesTag;

/// What was acknowledged when it was taken, unchanged by what comes later: rows, series, and names, types and settings too.
/// Cheap to take, to clone and to share; it keeps the files and rows it sees alive, so drop it when the query is done.
#[derive(Debug, Clone)]
pub struct Snapshot {
    store: Arc<dyn Store>,
    moment: Moment,
    /// Keeps what relations were at that moment.
    pin: Arc<Pin>,
    /// What the transaction that reads has changed of relations.
    own: Option<Arc<OwnRelations>>,
}

impl Snapshot {
    pub(crate) fn new(store: Arc<dyn Store>, moment: Moment, pin: Arc<Pin>) -> Self {
        Self {
            store,
            moment,
            pin,
            own: None,
        }
    }

    /// The same with what a transaction has written.
    pub(crate) fn with_own(
        mut self,
        head: OwnHead,
        series: &Shared,
        relations: Arc<OwnRelations>,
    ) -> Self {
        self.moment.layers = Arc::new(self.moment.layers.with_own(series));
        if !head.staged.is_empty() {
            let version = self.moment.state.version.with_own(&head.staged);
            self.moment.state.version = Arc::new(version);
        }
        self.moment.state.own = Some(head);
        self.own = Some(relations);
        self
    }

    pub(crate) fn moment(&self) -> &Moment {
        &self.moment
    }

    /// The last LSN that it sees.
    pub fn lsn(&self) -> Lsn {
        self.moment.visible
    }

    /// Names of all databases, sorted.
    pub fn databases(&self) -> Vec<String> {
        self.moment.names.databases().map(str::to_owned).collect()
    }

    /// Names of a database's schemas, sorted; `None` = no such database.
    pub fn schemas(&self, database: &str) -> Option<Vec<String>> {
        let names = &self.moment.names;
        let id = names.database(database)?;
        Some(names.schemas(id).map(str::to_owned).collect())
    }

    /// The schema that a name without one means; `None` = no such database.
    pub fn default_schema(&self, database: &str) -> Option<String> {
        let names = &self.moment.names;
        let id = names.default_schema(names.database(database)?)?;
        names.schema_name(id).map(str::to_owned)
    }

    /// The id of a database; those that were made later have higher ones.
    pub fn database_id(&self, name: &str) -> Option<DatabaseId> {
        self.moment.names.database(name)
    }

    /// The id of a schema; those that were made later have higher ones.
    pub fn schema_id(&self, database: &str, schema: &str) -> Option<SchemaId> {
        let names = &self.moment.names;
        names.schema(names.database(database)?, schema)
    }

    /// How long the rows of a table are kept in nanoseconds, by its own settings or its schema's; `None` = for ever.
    pub fn retention_ns(&self, table: TableId) -> Option<i64> {
        self.moment.names.retention_ns(table)
    }

    /// How long the tables of a schema are kept in nanoseconds, for those that do not say it themselves; `None` = for
    /// ever, or no such schema.
    pub fn schema_retention_ns(&self, database: &str, schema: &str) -> Option<i64> {
        let id = self.schema_id(database, schema)?;
        self.moment.names.schema_retention_ns(id)
    }

    /// Names of a schema's tables, sorted; `None` = no such schema.
    pub fn tables(&self, database: &str, schema: &str) -> Option<Vec<String>> {
        let id = self.schema_id(database, schema)?;
        Some(self.moment.names.tables(id).map(str::to_owned).collect())
    }

    /// A table by its name.
    pub fn table(&self, database: &str, schema: &str, table: &str) -> Option<Arc<TableSchema>> {
        let names = &self.moment.names;
        let id = names.table_id(self.schema_id(database, schema)?, table)?;
        names.table(id).cloned()
    }

    /// Whether a delete in a table is carried out only in part: rows are hidden that are still in files or in memory.
    pub fn has_deletes(&self, table: TableId) -> bool {
        let deletes = self.moment.state.tombstones(table, self.lsn());
        !deletes.is_empty()
    }

    /// Plans a read: finds the series, prunes segments, blocks and runs. Reads directories, no pages. The table is one of
    /// this snapshot, whatever became of it since; that of a newer or a much older one may be unknown here, which is an error.
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
        Scan::plan(&self.moment, request, narrowing)
    }

    /// The same for some series of the table, ascending, whatever the request says of tags.
    pub fn scan_series(
        &self,
        request: &ScanRequest,
        series: &[SeriesId],
        narrowing: &Narrowing,
    ) -> Result<Scan, Error> {
        let series = series.iter().map(|series| series.0).collect();
        Scan::plan_series(&self.moment, request, series, narrowing)
    }

    /// How many rows a table has in a range of time, and from when to when, if metadata say it; `None` = they do not.
    pub fn total(
        &self,
        table: &TableSchema,
        time: &RangeInclusive<i64>,
    ) -> Result<Option<TableTotal>, Error> {
        if self.moment.names.table(table.id).is_none() {
            return Ok(None);
        }
        crate::read::total::total(&self.moment, table, time)
    }

    /// What files hold of a table, in their order.
    pub fn pieces(&self, table: TableId) -> Vec<TablePiece> {
        crate::read::pieces::pieces(&self.moment, table)
    }

    /// About how many rows a table has, by metadata alone: those of one key count each, and so do those whose delete is not
    /// carried out yet.
    pub fn about_rows(&self, table: TableId) -> u64 {
        crate::read::pieces::rows(&self.moment, table)
    }

    /// The slots of a width, counted from time 0, in which a table has rows. Reads times where metadata do not say it.
    pub fn slots(&self, table: &Arc<TableSchema>, width: i64) -> Result<BTreeSet<i64>, Error> {
        if self.moment.names.table(table.id).is_none() {
            return Ok(BTreeSet::new());
        }
        crate::read::pieces::slots(&self.moment, table, width)
    }

    /// How the rows of some series of a table are spread over a range of time, about. Reads directories, no pages.
    pub fn weights(
        &self,
        table: &Arc<TableSchema>,
        series: &[SeriesId],
        time: &RangeInclusive<i64>,
    ) -> Result<RowWeights, Error> {
        let series: Vec<u32> = series.iter().map(|series| series.0).collect();
        crate::read::slices::weights(&self.moment, table, &series, time)
    }

    /// The series of some of a table that alone have more than so many rows on disk in a range of time: their positions, and how
    /// their rows are spread. Reads directories, no pages.
    pub fn long_series(
        &self,
        table: &Arc<TableSchema>,
        series: &[SeriesId],
        time: &RangeInclusive<i64>,
        rows: u64,
    ) -> Result<Vec<(usize, RowWeights)>, Error> {
        let series: Vec<u32> = series.iter().map(|series| series.0).collect();
        crate::read::slices::long_series(&self.moment, table, &series, time, rows)
    }

    /// The last rows of some series of a table in a range of time, without reading those before them; `fields` are positions
    /// in its schema. `None` = one of those is text.
    pub fn last_rows(
        &self,
        table: &Arc<TableSchema>,
        series: &[SeriesId],
        fields: &[usize],
        time: &RangeInclusive<i64>,
    ) -> Result<Option<LastRows>, Error> {
        if self.moment.names.table(table.id).is_none() {
            return Ok(None);
        }
        let series: Vec<u32> = series.iter().map(|series| series.0).collect();
        crate::read::latest::last_rows(&self.moment, table, &series, fields, time)
    }

    /// First and last time that rows of some series of a table in a range may have: neither need have a row, and none lies
    /// outside. `None` = there are no rows. Reads directories, no pages.
    pub fn extent(
        &self,
        table: &Arc<TableSchema>,
        series: &[SeriesId],
        time: &RangeInclusive<i64>,
    ) -> Result<Option<(i64, i64)>, Error> {
        let series: Vec<u32> = series.iter().map(|series| series.0).collect();
        crate::scan::extent(&self.moment, table, &series, time)
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
        Aggregation::plan(&self.moment, request, tags)
    }

    /// The same for some series of the table, ascending, whatever the request says of tags; none of their tags is shown.
    pub fn aggregate_series(
        &self,
        request: &AggregateRequest,
        series: &[SeriesId],
    ) -> Result<Aggregation, Error> {
        let series = series.iter().map(|series| series.0).collect();
        Aggregation::plan_series(&self.moment, request, series, &[])
    }
}
