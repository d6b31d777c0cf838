//! The store itself: one sequencer, one log, one head, one manifest.
//!
//! Does: open and recover, order batches, freeze and flush the head, hand out snapshots. Does not: spawn threads,
//! parse text, or know SQL: callers write from as many threads as they like and drive [`Engine::maintain`].
//!
//! Locks, in the order in which they may be taken: scrub, memo, flushing, manifest, jobs, sequencer, catalogue, relations,
//! state, keys, retention, replaced, holds, then the log's own.

mod backup;
mod checkpoint;
mod compact;
mod ddl;
mod delete;
mod expire;
mod flush;
mod index;
mod limits;
mod memory;
mod mend;
mod metrics;
mod open;
mod presence;
mod quarantine;
mod relations;
mod report;
mod rescue;
mod restore;
mod rows;
mod scrub;
mod space;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustc_hash::FxHashSet;

use crate::batch::{Batch, BatchKey};
use crate::budget::MemoryBudget;
use crate::catalogue::{Catalogue, Entries, NAME_BYTES_MAX, SetAside};
use crate::clock::{Clock, SystemClock};
use crate::compaction::CompactionOptions;
use crate::definition::Definition;
use crate::disk::{Disk, DiskLock, RealDisk};
use crate::error::Error;
use crate::head::Head;
use crate::idempotency::KeySet;
use crate::index::{BlockCache, Index};
use crate::ingest::SeriesMemo;
use crate::log::Log;
use crate::manifest::{Contents, FileKind, Manifest};
use crate::record;
use crate::relation::{Hold, Holds, Relations};
use crate::sabotage::Sabotage;
use crate::schema::{Lsn, TableId};
use crate::segment::{Segment, SegmentCache, Window};
use crate::snapshot::Snapshot;
use crate::tombstone::Tombstone;
use expire::Retention;
use scrub::Scrub;
use space::Space;

use compact::Answered;

pub use backup::BackupReport;
pub use compact::DamagedSegment;
pub use ddl::NewColumn;
pub(crate) use ddl::find_table;
pub use delete::DeleteRequest;
pub use expire::RetentionPause;
pub use flush::Maintained;
pub(crate) use memory::SERIES_BYTES;
pub use metrics::Metrics;
pub(crate) use open::{read_definitions, segment_dir, segment_name};
pub(crate) use presence::{Key, Keys, Presence, Since};
pub(crate) use quarantine::quarantine_note;
pub use quarantine::{OnDamage, Quarantined, QuarantinedTable};
pub use relations::{NewRelation, RelationChange};
pub use report::{JobsReport, SegmentReport};
pub use rescue::Repaired;
pub use restore::RestoreReport;
pub use rows::RowKey;
pub(crate) use rows::{Refused, RowChange};
pub use scrub::{ScrubStep, Scrubbed};
pub use verify::{Damage, Unordered, Verified};

/// Settings of a store. [`Default`] is what a server runs with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The head becomes a segment at this many rows.
    pub flush_rows: u64,
    /// The head becomes a segment at this many bytes, whatever its rows: a row of text may have a megabyte.
    pub flush_bytes: u64,
    /// The head becomes a segment when nobody has written for this long, in milliseconds; 0 = never for this reason.
    pub flush_idle_ms: u64,
    /// An idle head with fewer rows stays in memory, so that a trickle of rows does not become a trickle of files.
    pub flush_idle_rows_min: u64,
    /// Bytes of log files; the head becomes a segment when half of it is in use.
    pub log_bytes_max: u64,
    /// Rows of one batch.
    pub batch_rows_max: u64,
    /// Columns of one batch: the fields that it writes, of all its tables together, and the tags of series that writers
    /// do not remember.
    pub batch_columns_max: u64,
    /// Series that one batch makes.
    pub batch_series_max: u64,
    /// Tags of one table. Each costs a block in the index for every 1024 series of the table.
    pub table_tags_max: u64,
    /// How segments are compacted.
    pub compaction: CompactionOptions,
    /// Bytes of the disk that writes leave free, for what makes room again; `None` = as much as the log and one
    /// compaction may need, at most a twentieth of the disk, at least 64 MiB.
    pub disk_reserve_bytes: Option<u64>,
    /// Memory for rows, caches, names, compaction and queries together; 0 = half of what the machine, or the control
    /// group that the process is in, has. See [`MemoryBudget`] for who gets how much.
    pub memory_bytes_max: u64,
    /// The key of a batch is remembered for this long, in nanoseconds.
    pub key_age_ns: i64,
    /// So many keys are remembered at most; the oldest go first.
    pub keys_max: u64,
    /// Memory of what writers remember of series texts, about 40 bytes each; with less they look series up again.
    pub memo_bytes_max: usize,
    /// Memory for directories, statistics and rollups of segments.
    pub directory_cache_bytes_max: u64,
    /// Memory for blocks of index files, which series are found in.
    pub index_cache_bytes_max: u64,
    /// Segment files that are open at once.
    pub open_files_max: u64,
    /// What becomes of damaged segments, index files and files of keys.
    pub on_damage: OnDamage,
    /// What becomes of a damaged log. Put aside, it takes every batch with it that came after the damage.
    pub on_log_damage: OnDamage,
    /// All bytes of the store are read and checked once in so many days, by [`Engine::maintain`]; 0 = never.
    pub scrub_days: u32,
    /// A planted bug, for the simulation only.
    #[doc(hidden)]
    pub sabotage: Option<Sabotage>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            flush_rows: 512 * 1024,
            flush_bytes: 256 << 20,
            flush_idle_ms: 2_000,
            flush_idle_rows_min: 32 * 1024,
            log_bytes_max: 256 << 20,
            batch_rows_max: 4 << 20,
            batch_columns_max: 100_000,
            batch_series_max: 250_000,
            table_tags_max: 4096,
            compaction: CompactionOptions::default(),
            disk_reserve_bytes: None,
            memory_bytes_max: 0,
            key_age_ns: 24 * 3600 * 1_000_000_000,
            keys_max: 1_000_000,
            memo_bytes_max: 256 << 20,
            directory_cache_bytes_max: 64 << 20,
            index_cache_bytes_max: 128 << 20,
            open_files_max: 512,
            on_damage: OnDamage::Quarantine,
            on_log_damage: OnDamage::Refuse,
            scrub_days: 7,
            sabotage: None,
        }
    }
}

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
    catalogue: RwLock<Catalogue>,
    /// The catalogue's, set while it is locked for the change: who has seen the change sees the new number.
    epoch: AtomicU64,
    memo: RwLock<SeriesMemo>,
    sequencer: Mutex<Sequencer>,
    state: Mutex<State>,
    /// Held by whoever turns a head into a segment.
    flushing: Mutex<()>,
    jobs: Mutex<Jobs>,
    /// Held for one edit.
    manifest: Mutex<Manifest>,
    keys: Mutex<KeySet>,
    retention: Mutex<Retention>,
    relations: RwLock<Relations>,
    /// What relations must remember.
    holds: Holds,
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

/// What maintenance is doing, and what it has left to do.
#[derive(Debug, Default)]
struct Jobs {
    /// The id that the next file gets. An id whose file the manifest never listed may be given away again by a later
    /// life.
    next_file_id: u64,
    /// Segments that a compaction reads, by file id.
    compacting: FxHashSet<u64>,
    /// A job is deciding where partitions begin and end.
    windows_busy: bool,
    /// Segments that a compaction could not read, by file id: they stay as they are.
    damaged: BTreeMap<u64, DamagedSegment>,
    /// Segments whose removal did not balance: no job touches them any more.
    left_alone: FxHashSet<u64>,
    /// When there was nothing to compact.
    idle_at: Option<Answered>,
    /// Segments that are in no manifest any more; each file goes when its last snapshot does.
    removed: Vec<Arc<Segment>>,
    /// An index job is at work.
    indexing: bool,
    /// The catalogue's epoch and the newest index file, when no index file had mostly series of dropped tables.
    index_kept_at: Option<(u64, Option<u64>)>,
    /// Index files that could not be read, by file id: they stay as they are.
    damaged_index: FxHashSet<u64>,
    /// Index files that are in no manifest any more; each file goes when its last reader does.
    removed_index: Vec<Arc<Index>>,
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

/// What a snapshot reads together.
#[derive(Debug, Clone)]
pub(crate) struct State {
    pub(crate) version: Arc<Version>,
    /// Rows on their way into a segment.
    pub(crate) frozen: Option<Arc<Frozen>>,
    pub(crate) head: Arc<Head>,
}

/// The immutable part of the store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Version {
    /// Counts up from version to version.
    number: u64,
    /// In the order in which their rows count: [`crate::segment::SegmentMeta::place`].
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) flushed_lsn: Lsn,
    /// Deletes that rows in segments still wait for, in LSN order.
    pub(crate) tombstones: Vec<Arc<Tombstone>>,
    pub(crate) windows: BTreeSet<Window>,
    written_bytes: u64,
    definition_bytes: u64,
}

impl Version {
    /// The part of it that may hold rows above `lsn`.
    fn since(&self, lsn: Lsn) -> Self {
        let newer = self.segments.iter().filter(|s| s.meta.max_lsn > lsn);
        Self {
            segments: newer.cloned().collect(),
            ..self.clone()
        }
    }

    fn new(number: u64, mut segments: Vec<Arc<Segment>>, contents: &Contents) -> Self {
        segments.sort_by_key(|segment| segment.meta.place());
        Self {
            number,
            segments,
            flushed_lsn: contents.flushed_lsn,
            tombstones: contents.tombstones.clone(),
            windows: contents.windows.clone(),
            written_bytes: contents.written_bytes,
            definition_bytes: name_bytes(contents),
        }
    }

    /// The same with other files beside the segments.
    fn with_files(&self, contents: &Contents) -> Self {
        Self {
            definition_bytes: name_bytes(contents),
            ..self.clone()
        }
    }
}

/// Bytes of the files that say what has which name.
fn name_bytes(contents: &Contents) -> u64 {
    let kinds = [FileKind::Definitions, FileKind::Index].into_iter();
    let files = kinds.flat_map(|kind| contents.files_of(kind));
    files.map(|file| file.bytes).sum()
}

impl State {
    /// Deletes up to `visible`, in LSN order.
    fn all_tombstones(&self, visible: Lsn) -> Vec<Arc<Tombstone>> {
        let frozen = self.frozen.as_ref();
        let frozen = frozen.map(|frozen| frozen.head.tombstones(visible));
        let filed = self.version.tombstones.iter();
        let filed = filed.filter(|tombstone| tombstone.lsn <= visible).cloned();
        filed
            .chain(frozen.into_iter().flatten())
            .chain(self.head.tombstones(visible))
            .collect()
    }

    /// Deletes in a table up to `visible`, in LSN order.
    pub(crate) fn tombstones(&self, table: TableId, visible: Lsn) -> Vec<Arc<Tombstone>> {
        let mut all = self.all_tombstones(visible);
        all.retain(|tombstone| tombstone.table == table);
        all
    }
}

/// A head that takes no more rows.
#[derive(Debug)]
pub(crate) struct Frozen {
    pub(crate) head: Arc<Head>,
    /// The last LSN that it may hold; the head after it starts above.
    lsn: Lsn,
    min_lsn: Lsn,
    definitions: Vec<u8>,
    series: Option<SetAside>,
    /// Keeps what relations were at `lsn`.
    _hold: Arc<Hold>,
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

/// Nobody panics while holding one of the engine's locks with half-made state behind it: what is changed under them
/// is changed in one assignment. So a poisoned mutex is still good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Opens the store in `dir` on the machine's disk, or starts one if the folder is empty or absent.
    pub fn open_dir(dir: &Path, options: Options) -> Result<Self, Error> {
        Self::open(Arc::new(RealDisk), Arc::new(SystemClock), dir, options)
    }

    /// A consistent view of everything that is acknowledged by now.
    pub fn snapshot(self: &Arc<Self>) -> Snapshot {
        // The state and the visible LSN are read under one lock, and freezing takes it too: so every row up to the
        // visible LSN is in what this snapshot holds, once.
        let state = lock(&self.state);
        let hold = self.holds.hold(|| self.log.durable());
        Snapshot::new(Arc::clone(self), state.clone(), hold)
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
            let state = lock(&self.state).clone();
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
        BatchKey {
            key,
            accepted_ns: lock(&self.keys).now_ns(self.clock.as_ref()),
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
        let head = Arc::clone(&lock(&self.state).head);
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
        self.epoch.load(Ordering::Acquire)
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

    pub(crate) fn catalogue(&self) -> RwLockReadGuard<'_, Catalogue> {
        self.catalogue
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn catalogue_mut(&self) -> RwLockWriteGuard<'_, Catalogue> {
        self.catalogue
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The planted bug, if there is one.
    pub(crate) fn sabotage(&self) -> Option<Sabotage> {
        self.options.sabotage
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
