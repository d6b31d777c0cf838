//! The memory budget at work: when to flush the head, when to hold writers back, how much to replay at once.
//!
//! Does: make writers help to flush when the head is full, refuse what does not fit even then, refuse new series when
//! the index has its share, and replay a log that holds more than the head may in rounds, with a flush after each. Does
//! not: count memory (the budget does) or decide about time (`flush.rs` does).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::budget::{Charge, MemoryBudget, MemoryUse};
use crate::catalogue::Catalogue;
use crate::definition::Definition;
use crate::engine::maintain::Jobs;
use crate::engine::sequencer::Sequencer;
use crate::error::{Error, Malformed};
use crate::head::Head;
use crate::idempotency::KeySet;
use crate::log::{RecordPlace, Visit};
use crate::record::Record;
use crate::relation::Relations;
use crate::replay_workers::{Ahead, Ready};
use crate::schema::Lsn;

/// Writers help to flush when the head holds this many times `flush_rows` or `flush_bytes`: memory stays bounded even when nobody
/// drives maintenance fast enough.
const HEAD_FULL_FACTOR: u64 = 4;

/// A head becomes a segment when it has this part of its share: while it is flushed it counts twice, and as much again
/// is left for the writers.
const FLUSH_PART: u64 = 4;
/// A round of replay has this part: all of the share, once its flush copies it.
const ROUND_PART: u64 = 2;
/// Series become a file when they have this part of the index's share: while they are written they count twice.
const SERIES_PART: u64 = 4;

/// What a tag's value costs in memory beside its text.
const VALUE_BYTES: usize = 32;
/// What a series adds to the index beside new tag values: its id, its place in a hash table twice its size, and a code
/// for each of a handful of tags.
pub(crate) const SERIES_BYTES: usize = 64;

impl Sequencer {
    /// The head becomes a segment at this many bytes.
    pub(in crate::engine) fn flush_bytes(&self) -> u64 {
        let share = self.site().budget().limit(MemoryUse::Head);
        self.site().options().flush_bytes.min(share / FLUSH_PART)
    }

    /// Memory of the rows that are not in segments, with the copy that their flush makes.
    pub(in crate::engine) fn report_head(&self) -> u64 {
        let (head, frozen) = self.versions().head_bytes();
        let bytes = head + 2 * frozen;
        self.site().budget().report(MemoryUse::Head, bytes);
        bytes
    }

    /// Memory of names, of series, of what writers remember of them, of the keys of batches, and of relations.
    pub(crate) fn report_index(&self) -> u64 {
        let (layers, names) = {
            let catalogue = self.catalogue();
            (Arc::clone(catalogue.layers()), catalogue.name_bytes())
        };
        let series = layers.bytes() + names;
        let memo = self.memo().read().bytes();
        let (_, _, relations) = self.relations().counts();
        let held = (series + memo + self.keys().bytes()) as u64 + relations;
        self.site().budget().report(MemoryUse::Index, held);
        held
    }

    /// Whether names that need about `bytes` more than was reported last fit the memory for them. Takes no lock.
    pub(crate) fn check_names(&self, bytes: u64) -> Result<(), Error> {
        let used = self.site().budget().used(MemoryUse::Index);
        self.site().budget().check(MemoryUse::Index, used, bytes)
    }

    /// Whether the series that are in no file have so much memory that a flush is worth it.
    pub(in crate::engine) fn series_are_many(&self) -> bool {
        let layers = Arc::clone(self.catalogue().layers());
        layers.recent_bytes() as u64 >= self.site().budget().limit(MemoryUse::Index) / SERIES_PART
    }
}

impl Jobs {
    /// Whether new series, or rows of relations, that need about `bytes` fit the memory for them.
    pub(crate) fn check_index(&self, bytes: u64) -> Result<(), Error> {
        if self.sequencer().report_index() + bytes > self.site().budget().limit(MemoryUse::Index)
            && self.sequencer().series_are_many()
        {
            // Series that are in a file need no memory of their own. Whoever held the lock before may have done it.
            let flushing = self.flushing();
            if self.sequencer().series_are_many() {
                self.flush_holding(&flushing)?;
            }
        }
        self.site()
            .budget()
            .check(MemoryUse::Index, self.sequencer().report_index(), bytes)
    }

    /// Takes memory for new series that are in no index yet. Where there is none, a flush makes room once: rows and series
    /// that are in files need none.
    pub(crate) fn charge_batch(&self, charge: &mut Charge, bytes: u64) -> Result<(), Error> {
        if charge.limit() < charge.bytes() + bytes {
            self.flush_holding(&self.flushing())?;
            self.sequencer().report_head();
            self.sequencer().report_index();
        }
        charge.grow(bytes)
    }

    /// Whether whoever writes so many bytes has to make room first.
    pub(in crate::engine) fn is_head_full(&self, bytes: u64) -> bool {
        let (head, options) = (self.sequencer().versions().head(), self.site().options());
        head.rows() >= options.flush_rows.saturating_mul(HEAD_FULL_FACTOR)
            || head.bytes() >= options.flush_bytes.saturating_mul(HEAD_FULL_FACTOR)
            || self.sequencer().report_head() + bytes > self.site().budget().limit(MemoryUse::Head)
    }

    /// Makes room for `bytes` of rows, or says that there is none.
    pub(in crate::engine) fn help_when_full(&self, bytes: u64) -> Result<(), Error> {
        // What would not fit an empty head is not worth a flush.
        self.site().budget().check(MemoryUse::Head, 0, bytes)?;
        let is_full = || self.is_head_full(bytes);
        if !is_full() {
            return Ok(());
        }
        // A head that an earlier flush could not write comes first, so it may take two.
        for _ in 0..2 {
            let flushing = self.flushing();
            // Whoever held the lock before may have done it.
            if !is_full() {
                return Ok(());
            }
            self.flush_holding(&flushing)?;
        }
        self.site()
            .budget()
            .check(MemoryUse::Head, self.sequencer().report_head(), bytes)
    }

    /// Replays what is left of the log after `applied`, up to `last`. Before each round, what the one before has
    /// brought becomes a segment. Called while the store is opened: nobody else has it yet.
    pub(in crate::engine) fn replay_rest(
        &self,
        mut applied: Lsn,
        last: Lsn,
        ahead: &mut Ahead<'_>,
    ) -> Result<(), Error> {
        self.sequencer().report_head();
        while applied < last {
            self.flush_holding(&self.flushing())?;
            let mut sequencer = self.sequencer().lock();
            let mut catalogue = self.sequencer().catalogue_mut();
            let mut relations = self.sequencer().relations_mut();
            let head = self.sequencer().versions().head();
            let mut keys = self.sequencer().keys();
            let mut round = Round::new(self.site().budget());
            let to = Replayed {
                catalogue: &mut catalogue,
                relations: &mut relations,
                keys: &mut keys,
                head: &head,
                unfiled: &mut sequencer.unfiled,
            };
            let mut replay = Replay {
                round: &mut round,
                to,
                ahead: &mut *ahead,
            };
            self.sequencer().log().replay(applied, last, &mut replay)?;
            self.sequencer()
                .counters()
                .log_bytes
                .fetch_add(round.log_bytes, Ordering::Relaxed);
            // An empty head takes at least one record, so this ends.
            applied = round.applied;
            sequencer.next_lsn = applied + 1;
            // The state comes before the keys in the order of locks.
            drop((keys, relations, catalogue, sequencer));
            self.sequencer().report_head();
        }
        Ok(())
    }
}

/// One round of replay: it applies records until the head has its part of the budget, and leaves the rest.
#[derive(Debug)]
pub(in crate::engine) struct Round {
    bytes_max: u64,
    full: bool,
    /// The last LSN that was applied; 0 = none.
    pub(in crate::engine) applied: Lsn,
    /// Bytes of the records that were applied.
    pub(in crate::engine) log_bytes: u64,
    /// About what the series have that they defined.
    series_bytes: u64,
}

impl Round {
    pub(in crate::engine) fn new(budget: &MemoryBudget) -> Self {
        Self {
            bytes_max: budget.limit(MemoryUse::Head) / ROUND_PART,
            full: false,
            applied: 0,
            log_bytes: 0,
            series_bytes: 0,
        }
    }

    /// Whether the round is over: what follows belongs to the next one.
    fn is_full(&mut self, to: &Replayed<'_>) -> bool {
        let waiting = to.head.bytes() + to.unfiled.len() as u64 + self.series_bytes;
        self.full = self.full || waiting >= self.bytes_max;
        self.full
    }

    /// Applies a record, unless the round is over.
    fn apply(&mut self, ready: Ready, to: &mut Replayed<'_>) -> Result<(), Error> {
        if self.is_full(to) {
            return Ok(());
        }
        let place = ready.place;
        self.log_bytes += ready.payload_bytes as u64;
        self.applied = ready.lsn;
        let record = ready.record.map_err(|what| place.refuse(what))?;
        self.record(ready.lsn, record, to)
            .map_err(|what| place.refuse(what))
    }

    fn record(&mut self, lsn: Lsn, record: Record, to: &mut Replayed<'_>) -> Result<(), Malformed> {
        match record {
            Record::Definitions(definitions) => {
                let epoch = to.catalogue.epoch();
                to.catalogue.begin_record();
                for definition in &definitions {
                    to.catalogue.apply(definition)?;
                    match definition {
                        Definition::TagValue { value, .. } => {
                            self.series_bytes += (VALUE_BYTES + value.len()) as u64;
                        }
                        Definition::Series { .. } => self.series_bytes += SERIES_BYTES as u64,
                        definition => definition.encode(to.unfiled),
                    }
                }
                // Only what takes something away makes an epoch.
                if to.catalogue.epoch() != epoch {
                    let catalogue = &*to.catalogue;
                    to.relations.drop_displaced(lsn, |relation| {
                        catalogue.schema_name(relation.schema).is_some()
                            && catalogue
                                .table_id(relation.schema, &relation.name)
                                .is_none()
                    });
                }
            }
            Record::Batch(batch) => {
                to.relations.replay(lsn, &batch.relations)?;
                if let Some(key) = &batch.key {
                    to.keys.insert(key, lsn, batch.rows() as u64);
                }
                to.head.insert(lsn, batch, false);
            }
        }
        Ok(())
    }
}

/// Replays a round: whatever decodes the records, they are applied in their order.
#[derive(Debug)]
pub(in crate::engine) struct Replay<'a, 'l> {
    pub(in crate::engine) round: &'a mut Round,
    pub(in crate::engine) to: Replayed<'a>,
    pub(in crate::engine) ahead: &'a mut Ahead<'l>,
}

impl Visit for Replay<'_, '_> {
    fn record(&mut self, lsn: Lsn, payload: &[u8], place: &RecordPlace) -> Result<(), Error> {
        if self.round.is_full(&self.to) {
            return Ok(());
        }
        let (round, to) = (&mut *self.round, &mut self.to);
        self.ahead
            .push(lsn, payload, place, &mut |ready| round.apply(ready, to))
    }

    fn end(&mut self) -> Result<(), Error> {
        let (round, to) = (&mut *self.round, &mut self.to);
        self.ahead.finish(&mut |ready| round.apply(ready, to))
    }
}

/// What replay fills.
#[derive(Debug)]
pub(in crate::engine) struct Replayed<'a> {
    pub(in crate::engine) catalogue: &'a mut Catalogue,
    pub(in crate::engine) relations: &'a mut Relations,
    pub(in crate::engine) keys: &'a mut KeySet,
    pub(in crate::engine) head: &'a Head,
    /// Definitions of other things than series that are in no file yet.
    pub(in crate::engine) unfiled: &'a mut Vec<u8>,
}
