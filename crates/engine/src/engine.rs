//! The store itself: one sequencer, one log, one head, one manifest.
//!
//! Does: open and recover, order batches, freeze and flush the head, hand out snapshots. Does not: spawn threads,
//! parse text, or know SQL: callers write from as many threads as they like and drive [`Engine::maintain`].
//!
//! Locks are taken in the order of their ranks: [`crate::ranked::Rank`] lists them.

mod change;
mod copies;
mod invalidation;
mod maintain;
mod names;
mod open;
mod repair;
mod rewrites;
mod sequencer;
mod site;
mod transaction;
mod versions;
mod watch;

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use crate::batch::Batch;
use crate::budget::{Charge, MemoryBudget};
use crate::catalogue::NAME_BYTES_MAX;
use crate::error::Error;
use crate::moment::Store;
use crate::ranked::Read;
use crate::relation::Relations;
use crate::retention::RetentionTime;
use crate::schema::{Lsn, TableId};
use crate::segment::Tier;
use crate::snapshot::Snapshot;
use crate::state::State;
use copies::Backups;
use maintain::Jobs;
use repair::Repair;
pub(crate) use sequencer::{Sequencer, Written};
pub(crate) use site::Site;

pub use crate::options::{OnDamage, Options};
pub use change::ddl::NewColumn;
pub(crate) use change::ddl::{find_schema, find_table};
pub use change::delete::DeleteRequest;
pub use change::from_relation::TableOfRelation;
pub(crate) use change::key_lookup::{Key, KeyLookup, Keys, Presence, Since, look_into_own};
pub use change::relations::{NewRelation, RelationChange};
pub use change::rows::RowKey;
pub(crate) use change::rows::{Refused, RowChange, add_survivors, batch_of};
pub use change::swap::{Beside, Swapped};
pub use copies::backup::BackupReport;
pub use copies::restore::RestoreReport;
pub use invalidation::{
    AGGREGATE_SOURCES, AggregateKey, AggregateSource, INVALIDATIONS, Invalidation, Refreshing,
};
pub use maintain::convert::Converted;
pub use maintain::expire::RetentionPause;
pub use maintain::flush::Maintained;
pub use repair::damaged::{Damage, DamagedSegment, Quarantined, QuarantinedTable};
pub(crate) use repair::quarantine::quarantine_note;
pub use repair::salvage_segment::Repaired;
pub use repair::scrub::{ScrubStep, Scrubbed};
pub use repair::verify::{Unordered, Verified};
pub use rewrites::RewriteReport;
pub(crate) use rewrites::{Rewriting, Unfinished};
pub(crate) use transaction::locks::{LockedRows, RowLocks};
pub(crate) use transaction::staged::looked_for;
pub use transaction::{Savepoint, Transaction};
pub(crate) use watch::memory::SERIES_BYTES;
pub use watch::metrics::Metrics;
pub use watch::report::JobsReport;

/// What has its place in the log, and is neither durable nor visible yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "nobody may hear of it before it is acknowledged"]
pub struct Sequenced {
    /// 0 = it changes nothing and has none.
    pub lsn: Lsn,
    /// Rows that are counted as written once it is durable.
    pub rows: u64,
}

/// An open store. Shared by reference between threads; everything in it is synchronous.
#[derive(Debug)]
pub struct Engine {
    backups: Backups,
    repair: Repair,
    jobs: Arc<Jobs>,
    sequencer: Arc<Sequencer>,
    /// Rows of relations that transactions change.
    locks: Arc<RowLocks>,
    /// Copies of tables that an earlier process has not finished.
    unfinished: Unfinished,
    /// The last to go: it holds the folder's lock.
    site: Arc<Site>,
}

impl Engine {
    /// A consistent view of everything that is acknowledged by now.
    pub fn snapshot(self: &Arc<Self>) -> Snapshot {
        let (moment, pin) = self.sequencer.moment(|| {
            let pins = self.sequencer.pins();
            let pin = pins.pin(|| self.sequencer.log().durable());
            (pin.lsn(), pin)
        });
        let store: Arc<dyn Store> = Arc::clone(self) as Arc<dyn Store>;
        Snapshot::new(store, moment, pin)
    }

    /// Makes a batch durable and visible, unless one with its key is already. Blocks until it is. `None` = nothing was
    /// written, because something was dropped, renamed or retyped since `epoch`, at which its ids were looked up: it
    /// must be built again.
    pub(crate) fn write(&self, batch: Batch, epoch: u64) -> Result<Option<Written>, Error> {
        self.write_if(batch, epoch, |_| true)
    }

    /// As [`Self::write`], if what the batch was made from still holds: that is asked under the sequencer, where
    /// nothing else gets an LSN. `None` also if it does not.
    pub(crate) fn write_if(
        &self,
        batch: Batch,
        epoch: u64,
        still_holds: impl FnOnce(&State) -> bool,
    ) -> Result<Option<Written>, Error> {
        self.make_room(&batch)?;
        self.sequencer.write_if(batch, epoch, still_holds)
    }

    /// As [`Self::write_if`], but the batch is durable and visible only once it is acknowledged ([`Self::acknowledge`]), and
    /// before that nobody may hear of it: for who acknowledges several batches at once.
    pub(crate) fn sequence_if(
        &self,
        batch: Batch,
        epoch: u64,
        still_holds: impl FnOnce(&State) -> bool,
    ) -> Result<Option<Written>, Error> {
        self.make_room(&batch)?;
        self.sequencer.sequence_if(batch, epoch, still_holds)
    }

    /// Makes what was written at an LSN, and everything before it, durable and visible, and counts its rows. Blocks until it is.
    /// An error = it may be there after the store is opened again, or not.
    pub fn acknowledge(&self, put: Sequenced) -> Result<(), Error> {
        self.sequencer.acknowledge(put.lsn, put.rows)
    }

    /// Whether a small write may have to wait for more than the log: for a flush that makes room, or for a table that is
    /// written anew.
    pub fn holds_up_writers(&self) -> bool {
        self.sequencer.rewrites().are_running() || self.jobs.is_head_full(0)
    }

    fn make_room(&self, batch: &Batch) -> Result<(), Error> {
        self.site.check_batch_rows(batch.rows() as u64)?;
        if !batch.only_removes() {
            self.site.check_space()?;
        }
        self.jobs.help_when_full(batch.bytes())?;
        self.check_relations(&batch.relations)
    }

    /// The wall clock, in nanoseconds since 1970; negative before that.
    pub fn wall_ns(&self) -> i64 {
        self.site.clock().now_ns()
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        self.site.dir()
    }

    /// Settings in force.
    pub fn options(&self) -> &Options {
        self.site.options()
    }

    /// The memory that everything shares.
    pub fn budget(&self) -> &MemoryBudget {
        self.site.budget()
    }

    /// Refuses a batch of more rows or columns than one may have.
    pub fn check_batch(&self, rows: usize, columns: usize) -> Result<(), Error> {
        self.site.check_batch(rows, columns)
    }

    /// Deletes every row of the request that was acknowledged before, and none that is written later. Durable and visible
    /// on return, at the LSN returned; `None` = no series matches, so nothing was written.
    pub fn delete(&self, request: &DeleteRequest) -> Result<Option<Lsn>, Error> {
        self.sequencer.delete(request, true)
    }

    /// As [`Self::delete`], for who drops rows because they are old: answers that continuous aggregates have stored of them stay.
    pub fn delete_old(&self, request: &DeleteRequest) -> Result<Option<Lsn>, Error> {
        self.sequencer.delete(request, false)
    }

    /// Does one job if one is due: a flush, a compaction, a step of the scrub, or what is left of a former one. Callers call it again and
    /// again, from one thread or several; each call does another job.
    pub fn maintain(&self) -> Result<Maintained, Error> {
        self.jobs.remove_files();
        self.drop_unfinished()?;
        let flushed = self.flush_if_due()?;
        if flushed != Maintained::Idle {
            return Ok(flushed);
        }
        self.join_invalidations()?;
        let indexed = self.tidy_index(false)?;
        if indexed != Maintained::Idle {
            return Ok(indexed);
        }
        let scrubbed = self.repair.scrub_if_due()?;
        if scrubbed != Maintained::Idle {
            return Ok(scrubbed);
        }
        match self.jobs.compact_one(false, None)? {
            Maintained::Idle => self.jobs.expire(),
            done => Ok(done),
        }
    }

    /// Mends an index file that was found damaged, or merges some if that is due.
    fn tidy_index(&self, settle: bool) -> Result<Maintained, Error> {
        match self.repair.mend_index()? {
            Maintained::Idle => self.jobs.merge_index(settle),
            mended => Ok(mended),
        }
    }

    /// Turns the head into a segment if that is due, and does nothing else: for a thread that shall not be busy with a
    /// compaction when the head is full. Not needed where [`Self::maintain`] is called often enough.
    pub fn flush_if_due(&self) -> Result<Maintained, Error> {
        self.jobs.flush_if_due()
    }

    /// Turns the head into a segment now, whatever its size.
    pub fn flush(&self) -> Result<(), Error> {
        self.jobs.flush()
    }

    /// Flushes, and compacts whatever can be compacted, as if nobody had written for a while. A damaged segment is left
    /// alone and the rest is compacted; the error then is the first damage that was found.
    pub fn settle(&self) -> Result<(), Error> {
        self.settle_for(None)
    }

    /// The same, and every partition is written for `tier` if one is given, whatever its table says of its age. Maintenance
    /// goes by the table again: see `cold_after_ns` of [`crate::TableSettings`].
    pub fn settle_for(&self, tier: Option<Tier>) -> Result<(), Error> {
        self.flush()?;
        let damage = self.jobs.compact_all(tier)?;
        while self.tidy_index(true)? != Maintained::Idle {}
        self.jobs.merge_definitions()?;
        self.jobs.remove_files();
        damage.map_or(Ok(()), Err)
    }

    /// Writes the rows of a table in a range of time for a tier, each window of the table's interval that has some as a
    /// partition of its own. Rows that are written later are as they are anyway; of a table with `cold_after_ns` maintenance
    /// goes by their age again.
    pub fn convert(
        &self,
        table: TableId,
        time: RangeInclusive<i64>,
        tier: Tier,
    ) -> Result<Converted, Error> {
        self.jobs.convert(table, time, tier)
    }

    /// Flushes for a graceful stop, so that the next start has nothing to replay.
    pub fn close(&self) -> Result<(), Error> {
        self.flush()?;
        self.jobs.remove_files();
        self.repair.save_scrub();
        Ok(())
    }

    /// What maintenance is doing now.
    pub fn jobs(&self) -> JobsReport {
        self.jobs.report()
    }

    /// Segments that compactions found damaged since the store was opened.
    pub fn damaged_segments(&self) -> Vec<DamagedSegment> {
        self.jobs.damaged_segments()
    }

    /// What retention takes the time to be; `None` = it had no reason to look yet.
    pub fn retention_time(&self) -> Option<RetentionTime> {
        self.jobs.retention_time()
    }

    /// Whether retention waits for the wall clock to be right again, or for [`Self::accept_clock`]; `None` = it goes on, or
    /// had no reason to look yet.
    pub fn retention_pause(&self) -> Option<RetentionPause> {
        self.jobs.retention_pause()
    }

    /// Looks at the clock as retention does: a time that is further ahead than time can have passed is not believed. For who
    /// deletes by age where nobody looks on.
    pub fn guarded_time(&self) -> Result<RetentionTime, Error> {
        self.jobs.guarded_time()
    }

    /// Lets retention believe the wall clock as it is now: the command of somebody who has looked at it.
    pub fn accept_clock(&self) {
        self.jobs.accept_clock();
    }

    /// Files that were put aside because they are damaged, when the store was opened or before, oldest first. The rows
    /// that they held are in no answer, nor are rows of series whose tags they held and nothing else has. Index files
    /// that were put aside since are in [`Self::mended_index_files`].
    pub fn quarantined(&self) -> &[Quarantined] {
        self.repair.quarantined()
    }

    /// Index files that were found damaged and put aside while the store is open, oldest first.
    /// [`Self::quarantined`] lists them once it is opened again.
    pub fn mended_index_files(&self) -> Vec<Quarantined> {
        self.repair.mended_index_files()
    }

    /// Reads every index file and mends those that are damaged; returns how many were. Does nothing if damage is to be
    /// refused: then reading what is damaged fails and says so.
    pub fn mend_index_files(&self) -> Result<usize, Error> {
        self.repair.mend_index_files()
    }

    /// Whether it is worth trying again what failed with `error`, because it was a damaged index file and that is mended
    /// now.
    pub(crate) fn mend_after(&self, error: Error) -> Result<(), Error> {
        self.repair.mend_after(error)
    }

    /// Reads and checks about so many bytes more of the store, from where the last step stopped. After an error that is
    /// not about damage, such as a disk that does not answer, the next step goes on behind it.
    pub fn scrub_step(&self, bytes_max: u64) -> Result<ScrubStep, Error> {
        self.repair.scrub_step(bytes_max)
    }

    /// What the scrub has read and found.
    pub fn scrubbed(&self) -> Scrubbed {
        self.repair.scrubbed()
    }

    /// Backs the store up into `dest`: an empty or absent folder, or one with an earlier backup of this store, to which
    /// then only what is new is added. Writers and readers go on meanwhile.
    pub fn backup(&self, dest: &Path) -> Result<BackupReport, Error> {
        self.backups.backup(dest, self.repair.quarantined())
    }

    /// The order of batches, and names.
    pub(crate) fn sequencer(&self) -> &Sequencer {
        &self.sequencer
    }

    /// Whether series that are new fit the memory for them.
    pub(crate) fn check_index(&self, bytes: u64) -> Result<(), Error> {
        self.jobs.check_index(bytes)
    }

    /// Takes memory for new series of a body, or says that there is none.
    pub(crate) fn charge_batch(&self, charge: &mut Charge, bytes: u64) -> Result<(), Error> {
        self.jobs.charge_batch(charge, bytes)
    }

    /// Limits, clock and folder.
    pub(crate) fn site(&self) -> &Site {
        &self.site
    }
}

impl Store for Engine {
    fn relations(&self) -> Read<'_, Relations> {
        self.sequencer.relations()
    }

    fn is_damaged(&self, file_id: u64) -> bool {
        self.jobs.list().damaged.contains_key(&file_id)
    }
}

/// Refuses names that no surface could ask for again.
pub(crate) fn check_name(what: &'static str, name: &str) -> Result<(), Error> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > NAME_BYTES_MAX {
        "it is longer than 1024 bytes"
    } else if name.chars().any(char::is_control) {
        "it has a control character"
    } else {
        return Ok(());
    };
    Err(Error::InvalidName {
        what,
        name: name.to_owned(),
        reason,
    })
}
