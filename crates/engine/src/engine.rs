//! The store itself: one sequencer, one log, one head, one manifest.
//!
//! Does: open and recover, order batches, freeze and flush the head, hand out snapshots. Does not: spawn threads,
//! parse text, or know SQL: callers write from as many threads as they like and drive [`Engine::maintain`].
//!
//! Locks are taken in the order of their ranks: [`crate::ranked::Rank`] lists them.

mod change;
mod copies;
mod maintain;
mod names;
mod open;
mod repair;
mod versions;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::batch::{Batch, BatchKey};
use crate::budget::MemoryBudget;
use crate::catalogue::{Catalogue, Entries, NAME_BYTES_MAX};
use crate::clock::{Clock, SystemClock};
use crate::definition::Definition;
use crate::disk::{Disk, DiskLock, RealDisk};
use crate::error::Error;
use crate::idempotency::KeySet;
use crate::index::BlockCache;
use crate::ingest::SeriesMemo;
use crate::log::Log;
use crate::manifest::{FileKind, Manifest};
use crate::moment::{Moment, Store};
use crate::ranked::{Locked, Mutex, Read, RwLock};
use crate::record;
use crate::relation::{Pins, Relations};
use crate::retention::Retention;
use crate::sabotage::Sabotage;
use crate::schema::Lsn;
use crate::segment::SegmentCache;
use crate::snapshot::Snapshot;
use crate::state::{Frozen, State, Version};
use maintain::jobs::Jobs;
use names::{Changing, SharedCatalogue};
use repair::scrub::Scrub;
use versions::Versions;
use watch::space::Space;

pub use crate::options::{OnDamage, Options};
pub use change::ddl::NewColumn;
pub(crate) use change::ddl::find_table;
pub use change::delete::DeleteRequest;
pub(crate) use change::key_lookup::{Key, Keys, Presence, Since};
pub use change::relations::{NewRelation, RelationChange};
pub use change::rows::RowKey;
pub(crate) use change::rows::{Refused, RowChange};
pub use copies::backup::BackupReport;
pub use copies::restore::RestoreReport;
pub use maintain::expire::RetentionPause;
pub use maintain::flush::Maintained;
pub use repair::damaged::{Damage, DamagedSegment, Quarantined, QuarantinedTable};
pub(crate) use repair::quarantine::quarantine_note;
pub use repair::salvage_segment::Repaired;
pub use repair::scrub::{ScrubStep, Scrubbed};
pub use repair::verify::{Unordered, Verified};
pub(crate) use watch::memory::SERIES_BYTES;
pub use watch::metrics::Metrics;
pub use watch::report::JobsReport;

/// An open store. Shared by reference between threads; everything in it is synchronous.
#[derive(Debug)]
pub struct Engine {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    dir: PathBuf,
    options: Options,
    uuid: [u8; 16],
    log: Log,
    segment_cache: Arc<SegmentCache>,
    index_cache: Arc<BlockCache>,
    names: SharedCatalogue,
    memo: RwLock<SeriesMemo>,
    sequencer: Mutex<Sequencer>,
    versions: Versions,
    /// Held by whoever turns a head into a segment.
    flushing: Mutex<()>,
    jobs: Mutex<Jobs>,
    /// Held for one edit.
    manifest: Mutex<Manifest>,
    keys: Mutex<KeySet>,
    retention: Mutex<Retention>,
    relations: RwLock<Relations>,
    /// What relations must remember.
    pins: Pins,
    /// Side files that the last flush replaced; the next one removes them.
    replaced: Mutex<Vec<(FileKind, u64)>>,
    counters: Counters,
    space: Space,
    budget: MemoryBudget,
    /// Damaged files that were put aside, now or earlier.
    quarantined: Vec<Quarantined>,
    /// Pairs of segment files that were in no order when the store was opened.
    unordered: Vec<(u64, u64)>,
    /// Damaged index files that were put aside since.
    mended: Mutex<Vec<Quarantined>>,
    /// Held by whoever merges or mends index files.
    indexing: Mutex<()>,
    /// Held by a backup: there is one at a time.
    backups: Mutex<()>,
    /// Held by a step of the scrub.
    scrub: Mutex<Scrub>,
    /// What it has found; never held while anything is read.
    scrubbed: Mutex<Scrubbed>,
    /// Held until the last reference is gone.
    _lock: Box<dyn DiskLock>,
}

/// Who decides about order.
#[derive(Debug)]
struct Sequencer {
    next_lsn: Lsn,
    /// Definitions that are not in the log yet; they go there before the next batch.
    unlogged: Entries,
    /// Encoded definitions that are not in a definition file yet, logged or not; series go into index files.
    unfiled: Vec<u8>,
}

/// What became of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// 0 = it changes nothing and has none.
    pub(crate) lsn: Lsn,
    pub(crate) rows: u64,
    /// A batch with its key was taken before; this is what became of that one.
    pub(crate) repeated: bool,
}

#[derive(Debug, Default)]
struct Counters {
    rows: AtomicU64,
    batches: AtomicU64,
    /// Rows that flushes merged with others.
    merged: AtomicU64,
    last_write_ms: AtomicU64,
    log_bytes: AtomicU64,
    /// Edits that were not applied because rows were not accounted for, or files not in order.
    refused_edits: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
    mutex.lock()
}

impl Engine {
    /// Opens the store in `dir` on the machine's disk, or starts one if the folder is empty or absent.
    pub fn open_dir(dir: &Path, options: Options) -> Result<Self, Error> {
        Self::open(Arc::new(RealDisk), Arc::new(SystemClock), dir, options)
    }

    /// A consistent view of everything that is acknowledged by now.
    pub fn snapshot(self: &Arc<Self>) -> Snapshot {
        let (moment, pin) = self.moment(|| {
            let pin = self.pins.pin(|| self.log.durable());
            (pin.lsn(), pin)
        });
        let store: Arc<dyn Store> = Arc::clone(self) as Arc<dyn Store>;
        Snapshot::new(store, moment, pin)
    }

    /// Everything up to the LSN that `visible` says, with the names of now.
    fn moment<T>(&self, visible: impl FnOnce() -> (Lsn, T)) -> (Moment, T) {
        // Names stand still until the LSN is known: what has an LSN up to it was named before, and what is named later is
        // not seen.
        let catalogue = self.catalogue();
        // The state and the visible LSN are read under one lock, and freezing takes it too: so every row up to the
        // visible LSN is in what this moment holds, once.
        let (state, (visible, with)) = self.versions.now_with(visible);
        let moment = Moment::new(&catalogue, state, visible, self.options.sabotage);
        (moment, with)
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
        mut batch: Batch,
        epoch: u64,
        still_holds: impl FnOnce(&State) -> bool,
    ) -> Result<Option<Written>, Error> {
        let rows = batch.rows() as u64;
        self.check_batch_rows(rows)?;
        if !batch.only_removes() {
            self.space
                .check(self.disk.as_ref(), &self.dir, self.clock.monotonic_ms())?;
        }
        self.help_when_full(batch.bytes())?;
        self.check_relations(&batch.relations)?;
        let mut payload = record::encode_batch(&batch).map_err(|what| what.at(&self.dir, 0))?;
        self.space.wrote(payload.len() as u64);
        let lsn = {
            let mut sequencer = lock(&self.sequencer);
            if let Some(taken) = self.taken(&batch) {
                drop(sequencer);
                // It may have been taken a moment ago and not be durable yet.
                self.log.sync(taken.lsn)?;
                return Ok(Some(taken));
            }
            self.check_poisoned()?;
            // What changes the epoch holds the sequencer, so from here to the log it stays what it is. An empty batch is
            // no exception: its rows may have been left out because their table was dropped.
            if self.catalogue_epoch() != epoch {
                return Ok(None);
            }
            let state = self.versions.now();
            let asks = self.options.sabotage != Some(Sabotage::KeysNotCheckedAgain);
            if asks && !still_holds(&state) {
                return Ok(None);
            }
            if batch.is_empty() {
                return Ok(Some(Written::default()));
            }
            self.log_definitions(&mut sequencer)?;
            if self.options.sabotage == Some(Sabotage::PartialBatchVisible) {
                self.sequence_first_table(&mut sequencer, &mut batch, &mut payload)?;
            }
            let lsn = sequencer.next_lsn;
            if let Err(refused) = self.apply_relations(lsn, &batch.relations) {
                drop(sequencer);
                // What it was refused for must not be lost after the refusal was heard.
                self.log.sync(lsn - 1)?;
                return Err(refused);
            }
            self.sequence(&mut sequencer, batch, payload)
        };
        self.log.sync(lsn)?;
        self.counters.rows.fetch_add(rows, Ordering::Relaxed);
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        self.counters
            .last_write_ms
            .store(self.clock.monotonic_ms(), Ordering::Relaxed);
        Ok(Some(Written {
            lsn,
            rows,
            repeated: false,
        }))
    }

    /// Waits until everything up to an LSN is durable, and so visible.
    pub(crate) fn wait_for(&self, lsn: Lsn) -> Result<(), Error> {
        self.log.sync(lsn)
    }

    /// What became of the batch that was taken under a key, once that is durable.
    pub(crate) fn taken_under(&self, key: &BatchKey) -> Result<Option<Written>, Error> {
        // Bound first: the guard must be gone before the log is waited for.
        let taken = lock(&self.keys).find(key);
        let Some(taken) = taken else {
            return Ok(None);
        };
        self.log.sync(taken.lsn)?;
        Ok(Some(Written {
            lsn: taken.lsn,
            rows: taken.rows,
            repeated: true,
        }))
    }

    /// What became of the batch when it was taken before. The caller holds the sequencer.
    fn taken(&self, batch: &Batch) -> Option<Written> {
        let taken = lock(&self.keys).find(batch.key.as_ref()?)?;
        Some(Written {
            lsn: taken.lsn,
            rows: taken.rows,
            repeated: true,
        })
    }

    /// A key as a batch carries it.
    pub(crate) fn batch_key(&self, key: [u8; 16]) -> BatchKey {
        let now_ms = self.clock.monotonic_ms();
        BatchKey {
            key,
            accepted_ns: lock(&self.keys).now_ns(now_ms),
        }
    }

    /// Gives a batch its place in the one order. Durable, and visible, once the log is synced up to the LSN returned.
    fn sequence(&self, sequencer: &mut Sequencer, mut batch: Batch, payload: Vec<u8>) -> Lsn {
        let lsn = sequencer.next_lsn;
        sequencer.next_lsn += 1;
        record::sequence(&mut batch, lsn);
        if let Some(key) = &batch.key {
            lock(&self.keys).insert(key, lsn, batch.rows() as u64);
        }
        self.count_log_bytes(payload.len());
        // The head comes first: as soon as the log has the batch another thread may make it durable, and what is
        // durable is visible, so the rows must all be there by then.
        let head = self.versions.head();
        let out_of_order = self.options.sabotage == Some(Sabotage::HeadOutOfLogOrder);
        head.insert(lsn, batch, out_of_order);
        self.log.append(lsn, payload);
        lsn
    }

    /// A planted bug: the first table of several goes ahead as a batch of its own.
    fn sequence_first_table(
        &self,
        sequencer: &mut Sequencer,
        batch: &mut Batch,
        payload: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if batch.tables.len() < 2 {
            return Ok(());
        }
        let first = Batch {
            tables: vec![batch.tables.remove(0)],
            ..Batch::default()
        };
        let encode = |batch| record::encode_batch(batch).map_err(|what| what.at(&self.dir, 0));
        *payload = encode(batch)?;
        let ahead = encode(&first)?;
        self.sequence(sequencer, first, ahead);
        Ok(())
    }

    /// Gives names their ids: `plan` sees the catalogue and says what is missing; it is asked again until nothing is.
    pub(crate) fn define_missing<T>(
        &self,
        mut plan: impl FnMut(&Catalogue) -> Result<T, Definition>,
    ) -> T {
        if let Ok(found) = plan(&self.catalogue()) {
            return found;
        }
        let mut sequencer = lock(&self.sequencer);
        loop {
            let planned = plan(&self.catalogue());
            match planned {
                Ok(found) => return found,
                Err(missing) => self.define(&mut sequencer, &missing),
            }
        }
    }

    /// Gives series their ids under one lock: `make` changes the catalogue and appends the entries of what it made. What was made before an error stays. False = nothing was done, because something was dropped, renamed or retyped
    /// since `epoch`.
    pub(crate) fn define_together(
        &self,
        epoch: u64,
        make: impl FnOnce(&mut Catalogue, &mut Entries) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let mut sequencer = lock(&self.sequencer);
        // What changes the epoch holds the sequencer.
        if self.catalogue_epoch() != epoch {
            return Ok(false);
        }
        make(&mut self.catalogue_mut(), &mut sequencer.unlogged).map(|()| true)
    }

    /// Rises whenever something is dropped, renamed or retyped. Read it before looking ids up.
    pub(crate) fn catalogue_epoch(&self) -> u64 {
        self.names.epoch()
    }

    fn define(&self, sequencer: &mut Sequencer, definition: &Definition) {
        definition.encode(&mut sequencer.unlogged.bytes);
        definition.encode(&mut sequencer.unfiled);
        self.catalogue_mut()
            .apply(definition)
            .expect("a definition planned from the catalogue fits it");
    }

    /// Puts definitions into the log, before anything that uses their ids.
    fn log_definitions(&self, sequencer: &mut Sequencer) -> Result<(), Error> {
        self.check_poisoned()?;
        if sequencer.unlogged.bytes.is_empty() {
            return Ok(());
        }
        let payload = record::encode_definitions(&sequencer.unlogged.bytes);
        sequencer.unlogged.clear();
        let lsn = sequencer.next_lsn;
        sequencer.next_lsn += 1;
        self.count_log_bytes(payload.len());
        self.log.append(lsn, payload);
        Ok(())
    }

    fn count_log_bytes(&self, bytes: usize) {
        self.counters
            .log_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn check_poisoned(&self) -> Result<(), Error> {
        match self.log.poisoned() {
            Some(reason) => Err(Error::Poisoned { reason }),
            None => Ok(()),
        }
    }

    pub(crate) fn catalogue(&self) -> Read<'_, Catalogue> {
        self.names.read()
    }

    fn catalogue_mut(&self) -> Changing<'_> {
        self.names.change()
    }

    pub(crate) fn memo(&self) -> &RwLock<SeriesMemo> {
        &self.memo
    }

    /// The wall clock, in nanoseconds since 1970; negative before that.
    pub fn wall_ns(&self) -> i64 {
        self.clock.now_ns()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Store for Engine {
    fn relations(&self) -> Read<'_, Relations> {
        self.relations.read()
    }

    fn is_damaged(&self, file_id: u64) -> bool {
        lock(&self.jobs).damaged.contains_key(&file_id)
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
