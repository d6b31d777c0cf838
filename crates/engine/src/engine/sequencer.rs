//! The sequencer: one order of batches, in the log and in the head.
//!
//! Does: give a batch its LSN, put it into head and log, wait until it is durable; give names and series their ids; take the
//! head aside for a flush; say what can be seen at one moment. Does not: write files other than the log's, or make room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::batch::{Batch, BatchKey};
use crate::catalogue::{Catalogue, Entries};
use crate::definition::Definition;
use crate::engine::invalidation::noted::Noted;
use crate::engine::names::{Changing, SharedCatalogue};
use crate::engine::rewrites::Rewrites;
use crate::engine::site::Site;
use crate::engine::versions::Versions;
use crate::error::Error;
use crate::head::Head;
use crate::idempotency::KeySet;
use crate::ingest::SeriesMemo;
use crate::log::Log;
use crate::moment::Moment;
use crate::ranked::{Locked, Mutex, Rank, Read, RwLock, Write};
use crate::record;
use crate::relation::{Pins, Relations};
use crate::sabotage::Sabotage;
use crate::schema::{Lsn, TableSchema};
use crate::state::{Frozen, StagedFiles, State, Version};

/// Log, head and names of a store.
#[derive(Debug)]
pub(crate) struct Sequencer {
    site: Arc<Site>,
    log: Log,
    names: SharedCatalogue,
    memo: RwLock<SeriesMemo>,
    order: Mutex<Order>,
    versions: Versions,
    keys: Mutex<KeySet>,
    relations: RwLock<Relations>,
    /// What relations must remember.
    pins: Pins,
    /// Aggregates whose sources are written to.
    noted: Noted,
    /// Tables that are written anew.
    rewrites: Rewrites,
    counters: Counters,
}

/// What decides about order, under its lock.
#[derive(Debug)]
pub(in crate::engine) struct Order {
    pub(in crate::engine) next_lsn: Lsn,
    /// Definitions that are not in the log yet; they go there before the next batch.
    pub(in crate::engine) unlogged: Entries,
    /// Encoded definitions that are not in a definition file yet, logged or not; series go into index files.
    pub(in crate::engine) unfiled: Vec<u8>,
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
pub(in crate::engine) struct Counters {
    pub(in crate::engine) rows: AtomicU64,
    pub(in crate::engine) batches: AtomicU64,
    /// Rows that flushes merged with others.
    pub(in crate::engine) merged: AtomicU64,
    pub(in crate::engine) last_write_ms: AtomicU64,
    pub(in crate::engine) log_bytes: AtomicU64,
    /// Edits that were not applied because rows were not accounted for, or files not in order.
    pub(in crate::engine) refused_edits: AtomicU64,
}

/// What opening a store has read.
#[derive(Debug)]
pub(in crate::engine) struct Recovered {
    pub(in crate::engine) catalogue: Catalogue,
    pub(in crate::engine) keys: KeySet,
    pub(in crate::engine) relations: Relations,
    pub(in crate::engine) version: Version,
    pub(in crate::engine) head: Head,
    /// As [`Order`] has them.
    pub(in crate::engine) unfiled: Vec<u8>,
    /// The last LSN whose record is in the head or in files.
    pub(in crate::engine) applied: Lsn,
    /// Bytes of the log that the head is from.
    pub(in crate::engine) log_bytes: u64,
}

impl Sequencer {
    /// Goes on after what was read.
    pub(in crate::engine) fn new(site: Arc<Site>, log: Log, recovered: Recovered) -> Self {
        let counters = Counters::default();
        let log_bytes = recovered.log_bytes;
        counters.log_bytes.store(log_bytes, Ordering::Relaxed);
        let order = Order {
            next_lsn: recovered.applied + 1,
            unlogged: Entries::default(),
            unfiled: recovered.unfiled,
        };
        let memo = SeriesMemo::new(site.options().memo_bytes_max);
        Self {
            site,
            log,
            names: SharedCatalogue::new(recovered.catalogue),
            memo: RwLock::new(Rank::Memo, memo),
            order: Mutex::new(Rank::Sequencer, order),
            versions: Versions::new(recovered.version, recovered.head),
            keys: Mutex::new(Rank::Keys, recovered.keys),
            relations: RwLock::new(Rank::Relations, recovered.relations),
            pins: Pins::default(),
            noted: Noted::default(),
            rewrites: Rewrites::default(),
            counters,
        }
    }

    /// Makes a batch durable and visible, if it was made at `epoch` and `still_holds` says so under the order's lock, where
    /// nothing else gets an LSN; `None` if not. The caller has seen that there is room for it.
    pub(in crate::engine) fn write_if(
        &self,
        batch: Batch,
        epoch: u64,
        still_holds: impl FnOnce(&State) -> bool,
    ) -> Result<Option<Written>, Error> {
        let written = self.sequence_if(batch, epoch, still_holds)?;
        match &written {
            // Another has counted the rows of a batch that was taken before, which may not be durable yet.
            Some(taken) if taken.repeated => self.log.sync(taken.lsn)?,
            Some(written) => self.acknowledge(written.lsn, written.rows)?,
            None => {}
        }
        Ok(written)
    }

    /// Waits until everything up to an LSN is durable, and counts the rows that were written there. LSN 0 = nothing was.
    pub(in crate::engine) fn acknowledge(&self, lsn: Lsn, rows: u64) -> Result<(), Error> {
        if lsn == 0 {
            return Ok(());
        }
        self.log.sync(lsn)?;
        self.counters.rows.fetch_add(rows, Ordering::Relaxed);
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        self.counters
            .last_write_ms
            .store(self.site.clock().monotonic_ms(), Ordering::Relaxed);
        Ok(())
    }

    /// As [`Self::write_if`], up to the batch's place in head and log. It is neither durable nor visible before the log was synced
    /// up to there.
    pub(in crate::engine) fn sequence_if(
        &self,
        mut batch: Batch,
        epoch: u64,
        still_holds: impl FnOnce(&State) -> bool,
    ) -> Result<Option<Written>, Error> {
        let rows = batch.rows() as u64;
        let generation = self.note(&mut batch);
        let mut payload =
            record::encode_batch(&batch).map_err(|what| what.at(self.site.dir(), 0))?;
        self.site.space().wrote(payload.len() as u64);
        let lsn = {
            let mut sequencer = self.lock_for(&batch);
            if let Some(taken) = self.taken(&batch) {
                return Ok(Some(taken));
            }
            self.check_poisoned()?;
            // What changes the epoch holds the sequencer, so from here to the log it stays what it is. An empty batch is
            // no exception: its rows may have been left out because their table was dropped.
            if self.catalogue_epoch() != epoch || self.noted.generation() != generation {
                return Ok(None);
            }
            let state = self.versions.now();
            let asks = self.site.options().sabotage != Some(Sabotage::KeysNotCheckedAgain);
            if asks && !still_holds(&state) {
                return Ok(None);
            }
            if batch.is_empty() {
                return Ok(Some(Written::default()));
            }
            self.log_definitions(&mut sequencer)?;
            if self.site.options().sabotage == Some(Sabotage::PartialBatchVisible) {
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
        Ok(Some(Written {
            lsn,
            rows,
            repeated: false,
        }))
    }

    /// Makes a batch of changes of relations durable and visible that is made at its LSN, where nothing else gets one: for what
    /// depends on all rows of a relation, or names it by the id that it gets. `build` holds up every writer.
    pub(in crate::engine) fn write_at(
        &self,
        build: impl FnOnce(Lsn) -> Result<Batch, Error>,
    ) -> Result<Lsn, Error> {
        let lsn = {
            let mut sequencer = self.lock();
            self.check_poisoned()?;
            self.log_definitions(&mut sequencer)?;
            let lsn = sequencer.next_lsn;
            let made = build(lsn).and_then(|mut batch| {
                self.note(&mut batch);
                let payload =
                    record::encode_batch(&batch).map_err(|what| what.at(self.site.dir(), 0))?;
                self.apply_relations(lsn, &batch.relations)?;
                Ok((batch, payload))
            });
            match made {
                Ok((batch, payload)) => {
                    self.site.space().wrote(payload.len() as u64);
                    self.sequence(&mut sequencer, batch, payload)
                }
                Err(refused) => {
                    drop(sequencer);
                    // What it was refused for must not be lost after the refusal was heard.
                    self.log.sync(lsn - 1)?;
                    return Err(refused);
                }
            }
        };
        self.log.sync(lsn)?;
        Ok(lsn)
    }

    /// Adds to a batch the ranges of time in which it makes stored answers of aggregates wrong; returns the generation at
    /// which that is so.
    pub(in crate::engine) fn note(&self, batch: &mut Batch) -> u64 {
        let is_there = |id| self.relations().schema(id).is_some();
        let kept_id = |id| {
            let catalogue = self.catalogue();
            catalogue.table(id).map_or(id, |table| table.kept_id())
        };
        self.noted.note(batch, is_there, kept_id)
    }

    /// The lock under which a batch gets its LSN, once the writers of its tables are not held up.
    pub(in crate::engine) fn lock_for(&self, batch: &Batch) -> Locked<'_, Order> {
        loop {
            self.rewrites.wait(batch);
            let order = self.lock();
            if !self.rewrites.holds(batch) {
                return order;
            }
        }
    }

    /// Why a table is not there any more.
    pub(in crate::engine) fn gone(&self, table: &TableSchema) -> Error {
        let catalogue = self.catalogue();
        let now = catalogue.kept_as(table.kept_id());
        let is_rewritten = now.is_some_and(|now| now.id != table.id);
        let table = table.name.clone();
        if is_rewritten {
            Error::TableRewritten { table }
        } else {
            Error::TableDropped { table }
        }
    }

    pub(in crate::engine) fn rewrites(&self) -> &Rewrites {
        &self.rewrites
    }

    pub(crate) fn noted(&self) -> &Noted {
        &self.noted
    }

    /// Everything up to the LSN that `visible` says, with the names of now.
    pub(in crate::engine) fn moment<T>(&self, visible: impl FnOnce() -> (Lsn, T)) -> (Moment, T) {
        // Names stand still until the LSN is known: what has an LSN up to it was named before, and what is named later is
        // not seen.
        let catalogue = self.catalogue();
        // The state and the visible LSN are read under one lock, and freezing takes it too: so every row up to the
        // visible LSN is in what this moment holds, once.
        let (state, (visible, with)) = self.versions.now_with(visible);
        let moment = Moment::new(&catalogue, state, visible, self.site.options().sabotage);
        (moment, with)
    }

    /// Waits until everything up to an LSN is durable, and so visible.
    pub(crate) fn wait_for(&self, lsn: Lsn) -> Result<(), Error> {
        self.log.sync(lsn)
    }

    /// What became of the batch that was taken under a key, once that is durable.
    pub(crate) fn taken_under(&self, key: &BatchKey) -> Result<Option<Written>, Error> {
        // Bound first: the guard must be gone before the log is waited for.
        let taken = self.keys.lock().find(key);
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
        let taken = self.keys.lock().find(batch.key.as_ref()?)?;
        Some(Written {
            lsn: taken.lsn,
            rows: taken.rows,
            repeated: true,
        })
    }

    /// A key as a batch carries it.
    pub(crate) fn batch_key(&self, key: [u8; 16]) -> BatchKey {
        let now_ms = self.site.clock().monotonic_ms();
        BatchKey {
            key,
            accepted_ns: self.keys.lock().now_ns(now_ms),
        }
    }

    /// Gives a batch its place in the one order. Durable, and visible, once the log is synced up to the LSN returned.
    pub(in crate::engine) fn sequence(
        &self,
        sequencer: &mut Order,
        mut batch: Batch,
        payload: Vec<u8>,
    ) -> Lsn {
        let lsn = sequencer.next_lsn;
        sequencer.next_lsn += 1;
        record::sequence(&mut batch, lsn);
        if let Some(key) = &batch.key {
            self.keys.lock().insert(key, lsn, batch.rows() as u64);
        }
        self.rewrites.touch(&batch);
        self.count_log_bytes(payload.len());
        // The head comes first: as soon as the log has the batch another thread may make it durable, and what is
        // durable is visible, so the rows must all be there by then.
        let head = self.versions.head();
        let out_of_order = self.site.options().sabotage == Some(Sabotage::HeadOutOfLogOrder);
        head.insert(lsn, batch, out_of_order);
        self.log.append(lsn, payload);
        lsn
    }

    /// A planted bug: the first table of several goes ahead as a batch of its own.
    fn sequence_first_table(
        &self,
        sequencer: &mut Order,
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
        let encode =
            |batch| record::encode_batch(batch).map_err(|what| what.at(self.site.dir(), 0));
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
        let mut sequencer = self.lock();
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
        let mut sequencer = self.lock();
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

    fn define(&self, sequencer: &mut Order, definition: &Definition) {
        definition.encode(&mut sequencer.unlogged.bytes);
        definition.encode(&mut sequencer.unfiled);
        self.catalogue_mut()
            .apply(definition)
            .expect("a definition planned from the catalogue fits it");
    }

    /// Puts definitions into the log, before anything that uses their ids.
    pub(in crate::engine) fn log_definitions(&self, sequencer: &mut Order) -> Result<(), Error> {
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

    pub(in crate::engine) fn check_poisoned(&self) -> Result<(), Error> {
        match self.log.poisoned() {
            Some(reason) => Err(Error::Poisoned { reason }),
            None => Ok(()),
        }
    }

    pub(crate) fn catalogue(&self) -> Read<'_, Catalogue> {
        self.names.read()
    }

    pub(in crate::engine) fn catalogue_mut(&self) -> Changing<'_> {
        self.names.change()
    }

    pub(crate) fn memo(&self) -> &RwLock<SeriesMemo> {
        &self.memo
    }

    /// Takes the head aside, or the one that an earlier, failed flush took; `None` = nothing to flush.
    pub(in crate::engine) fn freeze(&self) -> Result<Option<Arc<Frozen>>, Error> {
        let mut sequencer = self.lock();
        self.log_definitions(&mut sequencer)?;
        let rows_lsn = sequencer.next_lsn - 1;
        let flushed_lsn = {
            let state = self.versions.now();
            if let Some(frozen) = state.frozen {
                return Ok(Some(frozen));
            }
            state.version.flushed_lsn
        };
        if rows_lsn == flushed_lsn {
            return Ok(None);
        }
        let pages_lsn = self.lsn_of_pages(&mut sequencer);
        let lsn = sequencer.next_lsn - 1;
        // Every series that is defined by now is in the log up to here.
        let series = self.catalogue_mut().set_aside();
        let frozen = self.versions.freeze(|head| {
            head.freeze(lsn);
            Frozen {
                head,
                lsn,
                rows_lsn,
                pages_lsn,
                min_lsn: flushed_lsn + 1,
                definitions: std::mem::take(&mut sequencer.unfiled),
                series,
                _pin: self.pins.pin(|| lsn),
                staged: None,
            }
        });
        self.counters.log_bytes.store(0, Ordering::Relaxed);
        Ok(Some(frozen))
    }

    /// Takes the head aside with what a transaction has staged, which comes right behind it, if `still_holds` says so where nothing
    /// else gets an LSN; `None` if not, or if something was dropped, renamed or retyped since `epoch`. What was staged takes
    /// `steps` LSNs, from the one that `place` is given on, whose records say nothing: only the manifest makes it part of the
    /// store. `noting` are the times that it touches. The caller holds the lock of flushes and has left no head aside.
    pub(in crate::engine) fn freeze_with(
        &self,
        (steps, place): (usize, impl FnOnce(Lsn) -> StagedFiles),
        (epoch, noting): (u64, &Batch),
        still_holds: impl FnOnce(&State) -> bool,
    ) -> Result<Option<Arc<Frozen>>, Error> {
        let mut sequencer = self.lock();
        self.check_poisoned()?;
        let state = self.versions.now();
        let is_held = self.rewrites.holds(noting);
        let is_other = self.catalogue_epoch() != epoch || state.frozen.is_some();
        if is_held || is_other || !still_holds(&state) {
            return Ok(None);
        }
        self.log_definitions(&mut sequencer)?;
        self.log_noted(&mut sequencer, noting)?;
        self.rewrites.touch(noting);
        let rows_lsn = sequencer.next_lsn - 1;
        let pages_lsn = self.lsn_of_pages(&mut sequencer);
        let placed = place(sequencer.next_lsn);
        for _ in 0..steps {
            self.lsn_of_file(&mut sequencer);
        }
        let lsn = sequencer.next_lsn - 1;
        let series = self.catalogue_mut().set_aside();
        let frozen = self.versions.freeze(|head| {
            head.freeze(pages_lsn.unwrap_or(rows_lsn));
            Frozen {
                head,
                lsn,
                rows_lsn,
                pages_lsn,
                min_lsn: state.version.flushed_lsn + 1,
                definitions: std::mem::take(&mut sequencer.unfiled),
                series,
                _pin: self.pins.pin(|| lsn),
                staged: Some(placed),
            }
        });
        self.counters.log_bytes.store(0, Ordering::Relaxed);
        Ok(Some(frozen))
    }

    /// An LSN for a file whose rows have none of their own, by a record that says nothing.
    fn lsn_of_file(&self, sequencer: &mut Order) -> Lsn {
        let payload = record::encode_definitions(&[]);
        let lsn = sequencer.next_lsn;
        sequencer.next_lsn += 1;
        self.count_log_bytes(payload.len());
        self.log.append(lsn, payload);
        lsn
    }

    /// The LSN of the file with flash pages of the head, above those of its rows: two files of one flush have an order too.
    fn lsn_of_pages(&self, sequencer: &mut Order) -> Option<Lsn> {
        let has_some = self.site.keeps_pages() && self.versions.head().has_pages();
        has_some.then(|| self.lsn_of_file(sequencer))
    }

    /// Logs the ranges of time in which rows that come make stored answers wrong, before the rows are there.
    fn log_noted(&self, sequencer: &mut Order, noting: &Batch) -> Result<(), Error> {
        let mut noted = noting.clone();
        self.note(&mut noted);
        let batch = Batch {
            relations: noted.relations,
            ..Batch::default()
        };
        if batch.is_empty() {
            return Ok(());
        }
        let payload = record::encode_batch(&batch).map_err(|what| what.at(self.site.dir(), 0))?;
        self.apply_relations(sequencer.next_lsn, &batch.relations)?;
        self.sequence(sequencer, batch, payload);
        Ok(())
    }

    /// Milliseconds since the last write.
    pub(in crate::engine) fn idle_ms(&self) -> u64 {
        let now = self.site.clock().monotonic_ms();
        now.saturating_sub(self.counters.last_write_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn relations(&self) -> Read<'_, Relations> {
        self.relations.read()
    }

    pub(in crate::engine) fn relations_mut(&self) -> Write<'_, Relations> {
        self.relations.write()
    }

    pub(in crate::engine) fn site(&self) -> &Site {
        &self.site
    }

    pub(in crate::engine) fn lock(&self) -> Locked<'_, Order> {
        self.order.lock()
    }

    pub(in crate::engine) fn log(&self) -> &Log {
        &self.log
    }

    pub(in crate::engine) fn versions(&self) -> &Versions {
        &self.versions
    }

    pub(in crate::engine) fn keys(&self) -> Locked<'_, KeySet> {
        self.keys.lock()
    }

    pub(in crate::engine) fn pins(&self) -> &Pins {
        &self.pins
    }

    pub(in crate::engine) fn counters(&self) -> &Counters {
        &self.counters
    }
}
