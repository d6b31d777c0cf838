//! Rows of a transaction that stand in files already: a COPY that is larger than a batch.
//!
//! Does: write each part of such a COPY as a file that nobody else sees, and publish all of them, with the rest of what the
//! transaction has written, by one edit of the manifest. Does not: change relations on the way: they are part of a log record, and a
//! log record and an edit are two steps.

use std::fmt;
use std::sync::Arc;

use super::{Transaction, Writes, open};
use crate::batch::{Batch, TableRows};
use crate::engine::Engine;
use crate::engine::invalidation::spans::spans;
use crate::engine::maintain::publish::{Placed, Publication};
use crate::engine::maintain::stage::StagedSegment;
use crate::error::Error;
use crate::schema::{Duplicates, Lsn, TableSchema};
use crate::segment::Segment;
use crate::state::State;
use crate::tombstone::{Deleted, Tombstone};

/// Times of staged rows are told apart for continuous aggregates where more lies between them: an hour.
const GAP_NS: i64 = 3_600_000_000_000;

/// Files that a transaction has written.
#[derive(Clone, Default)]
pub(super) struct StagedRows {
    files: Vec<Arc<StagedSegment>>,
}

impl fmt::Debug for StagedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagedRows")
            .field("files", &self.files.len())
            .finish()
    }
}

impl StagedRows {
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// In the order in which they were written.
    pub(super) fn segments(&self) -> Vec<Arc<Segment>> {
        let files = self.files.iter();
        files.map(|it| Arc::clone(&it.segment)).collect()
    }

    fn rows(&self) -> u64 {
        let rows = self.files.iter().flat_map(|it| &it.rows);
        rows.map(|(_, rows, _)| rows).sum()
    }
}

impl Transaction {
    /// Writes rows of a table into a file that becomes part of the store when the transaction commits. `looked` says where keys that
    /// must be free were looked for. False = something was dropped, renamed or retyped since `epoch`, at which the ids of the rows
    /// were looked up: they must be built again.
    pub(crate) fn stage(
        &self,
        table: &Arc<TableSchema>,
        rows: TableRows,
        looked: Option<Lsn>,
        epoch: u64,
    ) -> Result<bool, Error> {
        let engine = &self.engine;
        let mut held = self.writes.lock();
        let writes = open(&mut held)?;
        writes.is_asked = true;
        if !writes.relations.is_empty() {
            return Err(writes.refuse_relations(engine, rows.rows() as u64));
        }
        // Rows in memory count as newer than those in files; where all are kept that is the same.
        let keeps = table.settings.duplicates == Duplicates::Keep;
        if !keeps && !writes.head.runs(table.id, Lsn::MAX).is_empty() {
            return Err(Error::Limit {
                what: "the rows of one batch",
                limit: engine.options().batch_rows_max,
                needed: rows.rows() as u64,
                remedy: "a longer COPY comes first in its transaction, before other rows of its table",
            });
        }
        if rows.rows() == 0 {
            return Ok(true);
        }
        engine.site().check_space()?;
        let staging = engine.jobs.staging();
        // From here on no series goes, so those that the rows have stay.
        if engine.sequencer().catalogue_epoch() != epoch {
            return Ok(false);
        }
        // What is sorted is a copy.
        writes.grow(2 * rows.bytes() as u64)?;
        let spans = spans(&rows.times, GAP_NS, i64::MAX);
        let tables = vec![(rows, table.settings)];
        let lsn = writes.lsn + 1;
        let written = engine
            .jobs
            .write_staged(staging, tables, (lsn, looked), spans);
        let bytes = writes.bytes();
        writes.charge.set(bytes);
        writes.lsn = lsn;
        writes.staged.files.push(Arc::new(written?));
        writes.tables.insert(table.id, Arc::clone(table));
        Ok(true)
    }
}

impl Writes {
    /// Why relations are not changed in a transaction with staged rows.
    pub(super) fn refuse_relations(&self, engine: &Engine, more: u64) -> Error {
        Error::Limit {
            what: "the rows of one batch",
            limit: engine.options().batch_rows_max,
            needed: self.staged.rows() + more,
            remedy: "a transaction with a longer COPY changes no tables without time: COMMIT between the two",
        }
    }

    /// Publishes what was staged, with the rest of what was written: `batch` has its rows. `None` = it must be built again.
    pub(super) fn publish(
        &self,
        engine: &Engine,
        batch: Batch,
        epoch: u64,
        still_holds: impl FnOnce(&State) -> bool,
    ) -> Result<Option<Lsn>, Error> {
        let mut files = self.staged.files.clone();
        let rest: Vec<TableRows> = batch
            .tables
            .into_iter()
            .filter(|it| it.rows() > 0)
            .collect();
        if !rest.is_empty() {
            let times = rest.iter().flat_map(|rows| &rows.times);
            let times: Vec<i64> = times.copied().collect();
            let with_settings = rest.into_iter().map(|rows| {
                let table = self.tables.get(&rows.table);
                let settings = table.map(|it| it.settings).unwrap_or_default();
                (rows, settings)
            });
            let staged = engine.jobs.write_staged(
                engine.jobs.staging(),
                with_settings.collect(),
                (Lsn::MAX, None),
                spans(&times, GAP_NS, i64::MAX),
            )?;
            files.push(Arc::new(staged));
        }
        let publication = Publication::new(files, self.own_deletes());
        match engine
            .jobs
            .publish_staged(&publication, epoch, still_holds)?
        {
            Placed::At(lsn) => Ok(Some(lsn)),
            Placed::Again => Ok(None),
            Placed::Taken(table) => Err(Error::TransactionOvertaken {
                table: self.name_of(table),
            }),
        }
    }

    /// Deletes of rows that are in files, by its LSNs.
    fn own_deletes(&self) -> Vec<Arc<Tombstone>> {
        let all = self.head.tombstones(Lsn::MAX).into_iter();
        let all = all.filter_map(|tombstone| {
            let keys = tombstone.rows();
            let keys = keys.filter(|(id, _)| !crate::catalogue::is_own_series(*id));
            let (series, times): (Vec<u32>, Vec<i64>) = keys.unzip();
            let what = Deleted::Rows { series, times };
            let is_empty = matches!(&what, Deleted::Rows { series, .. } if series.is_empty());
            let (lsn, table) = (tombstone.lsn, tombstone.table);
            (!is_empty).then(|| Arc::new(Tombstone { lsn, table, what }))
        });
        all.collect()
    }
}

/// Where a table's keys have to be free, everything up to an LSN was looked at.
pub(crate) fn looked_for(table: &TableSchema, lsn: Lsn) -> Option<Lsn> {
    (table.settings.duplicates == Duplicates::Unique).then_some(lsn)
}
