//! Transactions: what several statements write, as one batch at their end.
//!
//! Does: keep rows, deletes and changes of relations until the end, show them to the transaction's own reads and to nobody else, and
//! hand their net effect to `Engine::write_if`. Does not: log anything before the end, keep a snapshot from one statement to the
//! next, or wait for locks. A transaction that is dropped has never been.
//!
//! Next: docs/decisions/0018-transactions.md for what holds between transactions.

pub(crate) mod locks;
mod pages;
mod series;
pub(crate) mod staged;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::batch::{Batch, TableRows};
use crate::budget::{Charge, MemoryUse};
use crate::catalogue::is_own_series;
use crate::engine::{
    Engine, Key, KeyLookup, Keys, Presence, Refused, RelationChange, RowChange, RowKey, Since,
    add_survivors, batch_of, look_into_own,
};
use crate::error::Error;
use crate::head::{Head, append_rows};
use crate::mask::{Deletes, Mask};
use crate::ranked::{Locked, Mutex, Rank};
use crate::record;
use crate::relation::OwnRelations;
use crate::schema::{ColumnDef, ColumnId, Duplicates, Lsn, SeriesId, TableId, TableSchema};
use crate::snapshot::Snapshot;
use crate::state::{OwnHead, State};
use crate::tombstone::{Deleted, Tombstone, joined};
use locks::{Owner, RowLocks};
use series::OwnSeries;
use staged::StagedRows;
use watched::{KEY_BYTES, Known, Watched};

/// LSNs from here on count a transaction's statements: they are above all of the store's.
const OWN_LSN: Lsn = 1 << 62;

/// Memory of a lock.
const LOCK_BYTES: u64 = 40;

/// An open transaction. What it has written goes when it is dropped.
pub struct Transaction {
    engine: Arc<Engine>,
    owner: Owner,
    /// `None` = it has ended.
    writes: Mutex<Option<Writes>>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("number", &self.owner)
            .finish_non_exhaustive()
    }
}

/// What it has written so far.
struct Writes {
    /// Of the last statement that has written rows.
    lsn: Lsn,
    head: Arc<Head>,
    relations: Arc<OwnRelations>,
    /// Rows that are in files already; those of the head are newer.
    staged: StagedRows,
    series: OwnSeries,
    /// Tables that it has written to, as they were then.
    tables: BTreeMap<TableId, Arc<TableSchema>>,
    watched: Watched,
    /// The catalogue's epoch when it began: every series that it has found was there then, or came since.
    epoch: u64,
    /// Whether something was asked of it that changes rows, with effect or without.
    is_asked: bool,
    /// Of locks.
    lock_bytes: u64,
    charge: Charge,
    /// The last to go: whoever waits for a row sees what became of it.
    _held: HeldLocks,
}

/// A place in a transaction to which it can be taken back.
#[derive(Debug, Clone)]
pub struct Savepoint {
    head: Arc<Head>,
    relations: Arc<OwnRelations>,
    staged: StagedRows,
}

impl Engine {
    /// Begins a transaction.
    pub fn begin(self: &Arc<Self>) -> Result<Arc<Transaction>, Error> {
        let charge = self.site.budget().charge(MemoryUse::Query, 0)?;
        let owner = self.locks.begin();
        let writes = Writes {
            lsn: OWN_LSN,
            head: Arc::default(),
            relations: Arc::default(),
            staged: StagedRows::default(),
            series: OwnSeries::new(self.sequencer.catalogue().layers()),
            tables: BTreeMap::new(),
            watched: Watched::default(),
            epoch: self.sequencer.catalogue_epoch(),
            is_asked: false,
            lock_bytes: 0,
            charge,
            _held: HeldLocks {
                locks: Arc::clone(&self.locks),
                owner,
            },
        };
        Ok(Arc::new(Transaction {
            engine: Arc::clone(self),
            owner,
            writes: Mutex::new(Rank::Transaction, Some(writes)),
        }))
    }
}

impl Transaction {
    /// What was acknowledged by now, with what the transaction has written on top.
    pub fn snapshot(&self) -> Snapshot {
        let snapshot = self.engine.snapshot();
        let mut held = self.writes.lock();
        let Some(writes) = held.as_mut().filter(|writes| !writes.is_empty()) else {
            return snapshot;
        };
        // What cannot be read now is an error at the latest when the series are made.
        let layers = &snapshot.moment().layers;
        if matches!(writes.series.find_made(&self.engine, layers), Ok(true)) {
            writes.follow_series();
        }
        let own = OwnHead {
            head: Arc::clone(&writes.head),
            lsn: writes.lsn,
            staged: writes.staged.segments(),
        };
        let relations = Arc::clone(&writes.relations);
        snapshot.with_own(own, &writes.series.generation, relations)
    }

    /// Makes all that was written durable and visible, as one batch, or nothing of it. Returns its LSN; 0 = nothing was written.
    /// The transaction has ended then, whatever came of it.
    pub fn commit(&self) -> Result<Lsn, Error> {
        // Taken out first, so that nobody has to wait for the disk to see that it has ended.
        let writes = self.writes.lock().take();
        self.write_all(&writes.ok_or(Error::TransactionEnded)?)
    }

    /// Forgets all that was written.
    pub fn rollback(&self) {
        let writes = self.writes.lock().take();
        drop(writes);
    }

    /// What is there now, for [`Self::rollback_to`].
    pub fn savepoint(&self) -> Result<Savepoint, Error> {
        let mut held = self.writes.lock();
        let writes = open(&mut held)?;
        Ok(Savepoint {
            head: Arc::clone(&writes.head),
            relations: Arc::clone(&writes.relations),
            staged: writes.staged.clone(),
        })
    }

    /// Forgets what was written since; rows that were locked stay locked.
    pub fn rollback_to(&self, place: &Savepoint) -> Result<(), Error> {
        let mut held = self.writes.lock();
        let writes = open(&mut held)?;
        writes.head = Arc::clone(&place.head);
        writes.relations = Arc::clone(&place.relations);
        writes.staged = place.staged.clone();
        if writes.series.has_real() {
            writes.follow_series();
        }
        let bytes = writes.bytes();
        writes.charge.set(bytes);
        Ok(())
    }

    /// Changes relations as a statement wants it that has read `snapshot`, if it matters which rows it has read. Rows are locked
    /// until the end. An error about rows that others have changed goes with a new snapshot.
    pub fn write_relations(
        &self,
        snapshot: Option<&Snapshot>,
        changes: &[RelationChange],
    ) -> Result<(), Error> {
        let engine = &self.engine;
        let encoded = engine.encode_relations(changes)?;
        let mut held = self.writes.lock();
        let writes = open(&mut held)?;
        writes.is_asked = true;
        let rows: usize = changes.iter().map(RelationChange::rows).sum();
        if !writes.staged.is_empty() && rows > 0 {
            return Err(writes.refuse_relations(engine, 0));
        }
        let added: usize = encoded.iter().map(crate::relation::Change::memory).sum();
        // Twice: a row stands here, and in the batch at the end.
        writes.grow(2 * added as u64 + rows as u64 * LOCK_BYTES)?;
        let locked = engine.locks.take(self.owner, changes)?;
        writes.lock_bytes += locked as u64 * LOCK_BYTES;
        let seen = snapshot.map_or(Lsn::MAX - 1, Snapshot::lsn);
        let (outcome, overtaken) = {
            let committed = engine.sequencer().relations();
            let overtaken = snapshot.and_then(|_| {
                let own = &writes.relations;
                own.overtaken_by(&committed, &encoded, seen)
            });
            let mut outcome = Ok(());
            if overtaken.is_none() {
                // Who inserts without having read has seen what is there now.
                let seen = seen.min(committed.last_lsn());
                let relations = Arc::make_mut(&mut writes.relations);
                outcome = relations.apply(&committed, &encoded, seen);
            }
            (outcome, overtaken)
        };
        if let Some((relation, lsn)) = overtaken {
            // Only what is durable is in a snapshot.
            engine.sequencer().wait_for(lsn)?;
            return Err(Error::RelationChanged { relation });
        }
        if let Err(refused) = outcome {
            // What it was refused for must not be lost after the refusal was heard.
            let lsn = engine.sequencer().relations().last_lsn();
            engine.sequencer().wait_for(lsn)?;
            return Err(refused.into());
        }
        let bytes = writes.bytes();
        writes.charge.set(bytes);
        Ok(())
    }

    /// Locks the rows that changes name, until the end, and writes nothing.
    pub fn lock_rows(&self, changes: &[RelationChange]) -> Result<(), Error> {
        let mut held = self.writes.lock();
        let writes = open(&mut held)?;
        let rows: usize = changes.iter().map(RelationChange::rows).sum();
        writes.grow(rows as u64 * LOCK_BYTES)?;
        let locked = self.engine.locks.take(self.owner, changes)?;
        writes.lock_bytes += locked as u64 * LOCK_BYTES;
        let bytes = writes.bytes();
        writes.charge.set(bytes);
        Ok(())
    }

    /// Deletes rows that a snapshot of this transaction has shown. If others have written or deleted one of them since, nothing is
    /// done and the error says so: then take a new snapshot and read again.
    pub fn delete_rows(
        &self,
        snapshot: &Snapshot,
        table: &TableSchema,
        rows: &[RowKey],
    ) -> Result<(), Error> {
        let table = self.engine.current(table)?;
        let change = RowChange {
            snapshot,
            table: &table,
            gone: rows,
            new: None,
            unwanted: &[],
        };
        match self.change_rows(change) {
            Ok(()) | Err(Refused::Unwanted(_)) => Ok(()),
            Err(Refused::Error(error)) => Err(error),
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// As [`Engine::change_rows`], among what the transaction has written too.
    pub(crate) fn change_rows(&self, change: RowChange<'_>) -> Result<(), Refused> {
        let engine = &self.engine;
        let table = change.table;
        engine.site().check_batch_rows(change.gone.len() as u64)?;
        let mut gone = change.gone.to_vec();
        gone.sort_unstable();
        gone.dedup();
        let mut keys: Vec<Key> = gone.iter().map(|row| (row.series.0, row.time)).collect();
        keys.dedup();
        let mut held = self.writes.lock();
        let writes = open(&mut held)?;
        writes.is_asked = true;
        let asked = |keys| Keys {
            table: table.id,
            keys,
        };
        let since = Since::snapshot(change.snapshot);
        let look = engine.sequencer().look_up(asked(&keys), since)?;
        let own = writes.look_into_own(asked(&keys))?;
        let is_news = |(committed, own): (&Presence, &Option<Presence>)| match (committed, own) {
            (Presence::New, _) | (_, Some(Presence::Absent)) => true,
            (Presence::Absent, own) => own.is_none(),
            (Presence::Old, _) => false,
        };
        if let Some(at) = look.found.iter().zip(&own).position(is_news) {
            // So that a new snapshot shows what has changed.
            engine.sequencer().wait_for(look.lsn)?;
            let (series, time) = keys.get(at).copied().unwrap_or_default();
            return Err(Refused::Error(Error::ChangedMeanwhile {
                table: table.name.clone(),
                tags: writes.shown_tags(engine, table, SeriesId(series)),
                time,
            }));
        }
        let there = self.look(writes, asked(change.unwanted), Since::default())?;
        let mut unwanted = there.found.iter().zip(change.unwanted);
        let is_in_the_way = |(found, key): (&Presence, &Key)| {
            *found != Presence::Absent && keys.binary_search(key).is_err()
        };
        if let Some(at) = unwanted.position(is_in_the_way) {
            engine.sequencer().wait_for(there.lsn)?;
            return Err(Refused::Unwanted(at));
        }
        let mut rows = change.new;
        add_survivors(change.snapshot, table, &gone, &keys, &mut rows)?;
        let seen = change.snapshot.lsn();
        let known = |lsn| {
            move |(key, found): (&Key, &Presence)| {
                let is_there = *found != Presence::Absent;
                (*key, Known { lsn, is_there })
            }
        };
        let of_gone = keys.iter().zip(&look.found).map(known(seen));
        let of_new = change.unwanted.iter().zip(&there.committed);
        let watched: Vec<(Key, Known)> = of_gone.chain(of_new.map(known(there.lsn))).collect();
        let batch = batch_of(table.id, &keys, rows);
        Ok(self.add(writes, table, batch, watched)?)
    }

    /// As `Sequencer::look_up`, among what the transaction has written too.
    pub(crate) fn look_up(&self, keys: Keys<'_>) -> Result<KeyLookup, Error> {
        let mut held = self.writes.lock();
        let writes = open(&mut held)?;
        self.look(writes, keys, Since::default())
    }

    fn look(&self, writes: &Writes, keys: Keys<'_>, since: Since<'_>) -> Result<KeyLookup, Error> {
        let mut look = self.engine.sequencer().look_up(keys, since)?;
        look.committed.clone_from(&look.found);
        let own = writes.look_into_own(keys)?;
        for (found, own) in look.found.iter_mut().zip(own) {
            *found = own.unwrap_or(*found);
        }
        Ok(look)
    }

    /// Adds rows of a table. Of `free` the store had what the `committed` say at `looked`, and nobody else may have written them
    /// by the end.
    pub(crate) fn add_rows(
        &self,
        table: &Arc<TableSchema>,
        rows: TableRows,
        free: impl Iterator<Item = (Key, Presence)>,
        looked: Lsn,
    ) -> Result<(), Error> {
        let mut held = self.writes.lock();
        let writes = open(&mut held)?;
        writes.is_asked = true;
        let free = free.map(|(key, committed)| {
            let is_there = committed != Presence::Absent;
            let lsn = looked;
            (key, Known { lsn, is_there })
        });
        let batch = batch_of(table.id, &[], Some(rows));
        self.add(writes, table, batch, free.collect())
    }

    fn add(
        &self,
        writes: &mut Writes,
        table: &Arc<TableSchema>,
        mut batch: Batch,
        watched: Vec<(Key, Known)>,
    ) -> Result<(), Error> {
        let site = self.engine.site();
        site.check_batch_rows(writes.head.rows() + batch.rows() as u64)?;
        // Twice: a row stands here, and in the batch at the end.
        writes.grow(2 * batch.bytes() + (watched.len() * KEY_BYTES) as u64)?;
        if batch.is_empty() && watched.is_empty() {
            return Ok(());
        }
        writes.watched.add(table.id, watched.into_iter());
        writes.tables.insert(table.id, Arc::clone(table));
        writes.lsn += 1;
        record::sequence(&mut batch, writes.lsn);
        if Arc::strong_count(&writes.head) > 1 {
            // A savepoint or an open cursor has it, and must not see more.
            writes.head = Arc::new(writes.head.copied());
        }
        writes.head.insert(writes.lsn, batch, false);
        Ok(())
    }

    /// The id of a series that the store does not have.
    pub(crate) fn own_series(
        &self,
        table: TableId,
        tags: &[(ColumnId, &str)],
    ) -> Result<SeriesId, Error> {
        let mut held = self.writes.lock();
        let writes = open(&mut held)?;
        let count = writes.series.count() as u64;
        self.engine.site().check_batch_series(count + 1)?;
        let before = writes.series.bytes();
        let id = writes.series.id_of(table, tags)?;
        let more = writes.series.bytes() - before;
        writes.grow(more as u64)?;
        Ok(id)
    }

    /// The tags of a series for a person.
    pub(crate) fn shown_tags(&self, table: &TableSchema, series: SeriesId) -> String {
        let mut held = self.writes.lock();
        match open(&mut held) {
            Ok(writes) => writes.shown_tags(&self.engine, table, series),
            Err(_) => self.engine.shown_tags(table, series),
        }
    }

    fn write_all(&self, writes: &Writes) -> Result<Lsn, Error> {
        let engine = &self.engine;
        let sequencer = engine.sequencer();
        if writes.is_empty() {
            // A store that has stopped acknowledges no change, one without effect neither; reads go on.
            if writes.is_asked {
                sequencer.check_poisoned()?;
            }
            return Ok(0);
        }
        let name_of = |id: TableId| writes.name_of(id);
        let tables = writes.net_rows();
        let series = tables.iter().flat_map(|rows| &rows.series).copied();
        let used: BTreeSet<u32> = series.filter(|id| is_own_series(*id)).collect();
        let used: Vec<u32> = used.into_iter().collect();
        loop {
            let epoch = sequencer.catalogue_epoch();
            self.check_tables(writes)?;
            if epoch != writes.epoch {
                self.check_series(writes, &tables)?;
            }
            let mut looked = writes.watched.look_again(sequencer, None, name_of)?;
            let Some((made, had_one)) = writes.series.make(engine, epoch, &used)? else {
                continue;
            };
            let id_of = |id: u32| made.get(&id).copied().unwrap_or(id);
            looked.extend(
                writes
                    .watched
                    .look_again(sequencer, Some(&id_of), name_of)?,
            );
            let mut batch = Batch {
                tables: tables.clone(),
                tombstones: writes.net_deletes(),
                relations: writes.relations.net(),
                key: None,
                pages: writes.net_pages(&id_of),
            };
            for rows in &mut batch.tables {
                rows.series.iter_mut().for_each(|id| *id = id_of(*id));
            }
            if had_one || writes.series.has_real() {
                writes.check_unique(&batch)?;
            }
            if batch.is_empty() && writes.staged.is_empty() {
                sequencer.check_poisoned()?;
                return Ok(0);
            }
            let mut overtaken = None;
            let still_holds = |state: &State| {
                overtaken = writes.relations.overtaken(&sequencer.relations());
                let news = |it: &watched::LookedAgain| {
                    let (keys, lsn) = it.keys();
                    state.has_news(keys, lsn)
                };
                overtaken.is_none() && !looked.iter().any(news)
            };
            let written = if writes.staged.is_empty() {
                let written = engine.write_if(batch, epoch, still_holds)?;
                written.map(|written| written.lsn)
            } else {
                writes.publish(engine, batch, epoch, still_holds)?
            };
            if let Some(lsn) = written {
                return Ok(lsn);
            }
            if let Some((relation, lsn)) = overtaken {
                sequencer.wait_for(lsn)?;
                return Err(Error::TransactionOvertaken { table: relation });
            }
        }
    }

    /// Whether the store still has the series of these rows: one whose rows were all deleted may have left the index.
    fn check_series(&self, writes: &Writes, tables: &[TableRows]) -> Result<(), Error> {
        let engine = &self.engine;
        for rows in tables {
            let select = || {
                engine
                    .sequencer()
                    .catalogue()
                    .layers()
                    .select(rows.table, &[])
            };
            let there = select().or_else(|error| {
                // A damaged index file is mended first.
                engine.mend_after(error)?;
                select()
            })?;
            let mut used = rows.series.iter().filter(|id| !is_own_series(**id));
            if !used.all(|id| there.binary_search(id).is_ok()) {
                return Err(Error::TransactionOvertaken {
                    table: writes.name_of(rows.table),
                });
            }
        }
        Ok(())
    }

    /// Whether the tables that were written are what they were: names do not matter, as ids are written.
    fn check_tables(&self, writes: &Writes) -> Result<(), Error> {
        for (id, known) in &writes.tables {
            let now = self.engine.sequencer().catalogue().table(*id).cloned();
            let overtaken = || Error::TransactionOvertaken {
                table: known.name.clone(),
            };
            let now = now.ok_or_else(overtaken)?;
            let mut columns = known.tags.iter().chain(&known.fields);
            let stays = |column: &ColumnDef| {
                let is_same =
                    |it: &ColumnDef| it.kind == column.kind && it.declared == column.declared;
                now.column(column.id).is_some_and(is_same)
            };
            let is_new = |column: &&ColumnDef| known.column(column.id).is_none();
            let mut new = now.tags.iter().chain(&now.fields).filter(is_new);
            let is_same = columns.all(stays)
                && !new.any(ColumnDef::is_not_null)
                && now.declared == known.declared
                && now.settings.duplicates == known.settings.duplicates;
            if !is_same {
                return Err(overtaken());
            }
        }
        Ok(())
    }
}

/// What was written, while the transaction is open.
fn open<'a>(held: &'a mut Locked<'_, Option<Writes>>) -> Result<&'a mut Writes, Error> {
    held.as_mut().ok_or(Error::TransactionEnded)
}

/// Gives locks back.
struct HeldLocks {
    locks: Arc<RowLocks>,
    owner: Owner,
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        self.locks.end(self.owner);
    }
}

impl Writes {
    /// Somebody else has made series that the transaction has made too: rows that were of two series may be of one now.
    fn check_unique(&self, batch: &Batch) -> Result<(), Error> {
        for rows in &batch.tables {
            let duplicates = self.tables.get(&rows.table);
            let duplicates = duplicates.map(|table| table.settings.duplicates);
            if duplicates != Some(Duplicates::Unique) {
                continue;
            }
            let mut keys: Vec<Key> = rows
                .series
                .iter()
                .copied()
                .zip(rows.times.iter().copied())
                .collect();
            keys.sort_unstable();
            if keys.windows(2).any(|pair| pair.first() == pair.last()) {
                return Err(Error::TransactionOvertaken {
                    table: self.name_of(rows.table),
                });
            }
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.relations.is_empty()
    }

    /// What the transaction has made of keys itself.
    fn look_into_own(&self, keys: Keys<'_>) -> Result<Vec<Option<Presence>>, Error> {
        look_into_own((&self.head, &self.staged.segments()), keys)
    }

    /// Memory in use, roughly.
    fn bytes(&self) -> u64 {
        let held = self.relations.bytes() + self.series.bytes() + self.watched.bytes();
        2 * self.head.bytes() + held as u64 + self.lock_bytes
    }

    fn grow(&mut self, bytes: u64) -> Result<(), Error> {
        self.charge.grow(bytes).map_err(|error| match error {
            Error::Memory { limit, needed, .. } => Error::TransactionMemory { limit, needed },
            other => other,
        })
    }

    /// Series of the transaction have become series of the store.
    fn follow_series(&mut self) {
        let series = &self.series;
        self.head = Arc::new(self.head.with_series(|id| series.now(id)));
        self.watched.with_series(|id| series.now(id));
    }

    fn name_of(&self, id: TableId) -> String {
        let table = self.tables.get(&id);
        table.map_or_else(String::new, |table| table.name.clone())
    }

    fn shown_tags(&self, engine: &Engine, table: &TableSchema, series: SeriesId) -> String {
        let Some(own) = self.series.tags_of(series.0) else {
            return engine.shown_tags(table, series);
        };
        let shown = own.iter().filter_map(|(tag, value)| {
            let name = &table.column(*tag)?.name;
            Some(format!("{name}={value}"))
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    fn tombstones_of(&self, table: TableId) -> Vec<Arc<Tombstone>> {
        let mut all = self.head.tombstones(Lsn::MAX);
        all.retain(|it| it.table == table);
        all
    }

    /// The rows that no later statement has deleted.
    fn net_rows(&self) -> Vec<TableRows> {
        let mut tables = Vec::new();
        for id in self.head.tables() {
            let deletes = Deletes::new(&self.tombstones_of(id));
            let mut all: Option<TableRows> = None;
            for (run, count) in self.head.runs(id, Lsn::MAX) {
                let mask = Mask::of_run(&deletes, &run);
                let keys = run.rows.series.iter().zip(&run.rows.times);
                let kept = keys.take(count).enumerate();
                let kept = kept.filter(|(row, (series, time))| !mask.hides(*row, **series, **time));
                let kept: Vec<u32> = kept
                    .filter_map(|(row, _)| u32::try_from(row).ok())
                    .collect();
                if kept.is_empty() {
                    continue;
                }
                let rows = run.rows.picked(&kept);
                match &mut all {
                    Some(all) => append_rows(all, &rows),
                    None => all = Some(rows),
                }
            }
            tables.extend(all);
        }
        tables
    }

    /// Keys whose rows in the store go. Of series that it does not have there are none.
    fn net_deletes(&self) -> Vec<Tombstone> {
        let all = joined(self.head.tombstones(Lsn::MAX)).into_iter();
        let all = all.filter_map(|tombstone| {
            let keys = tombstone.rows().filter(|(id, _)| !is_own_series(*id));
            let (series, times): (Vec<u32>, Vec<i64>) = keys.unzip();
            (!series.is_empty()).then_some(Tombstone {
                lsn: 0,
                table: tombstone.table,
                what: Deleted::Rows { series, times },
            })
        });
        all.collect()
    }
}
