//! Aggregates whose sources are written to, in memory: what a batch has to note.
//!
//! Does: find the ranges that a batch touches, and add them to it. Does not: read what was noted.
//!
//! Behind the last bucket that was computed nothing is noted, because the range of what was never computed is there already.
//! While a refresh runs that does not hold, so it raises the generation, under the sequencer; a batch that was built at
//! another one is built again.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};

use nilometer_codec::PhysicalType;

use super::source::{AggregateSource, range_row};
use super::spans::{RANGES_MAX, join, spans};
use crate::batch::Batch;
use crate::error::Error;
use crate::ranked::{Rank, RwLock};
use crate::relation::{Change, RelationId, Rows};
use crate::schema::TableId;
use crate::tombstone::{Deleted, Tombstone};

/// All aggregates of a store.
#[derive(Debug)]
pub(crate) struct Noted {
    watched: RwLock<Watched>,
    last_number: AtomicI64,
}

#[derive(Debug, Default)]
struct Watched {
    generation: u64,
    aggregates: Vec<Watch>,
}

/// What has to be known of an aggregate to note a change.
#[derive(Debug)]
pub(super) struct Watch {
    /// The id of the table of its stored answers.
    pub(super) number: i64,
    /// Where its ranges are kept.
    pub(super) relation: RelationId,
    pub(super) width_ns: i64,
    pub(super) sources: BTreeSet<AggregateSource>,
    /// From when on nothing need be noted; `None` = everything is.
    pub(super) open_from: Option<i64>,
    pub(super) is_refreshing: bool,
    /// Ranges that are kept, about.
    pub(super) rows: usize,
}

impl Default for Noted {
    fn default() -> Self {
        Self {
            watched: RwLock::new(Rank::Invalidations, Watched::default()),
            last_number: AtomicI64::new(0),
        }
    }
}

impl Noted {
    /// Adds to a batch the ranges that it touches. Returns the generation at which that is so. `is_there` says whether a
    /// relation is: that of a schema that was dropped is not; `kept_id` under which id aggregates know a table.
    pub(in crate::engine) fn note(
        &self,
        batch: &mut Batch,
        is_there: impl Fn(RelationId) -> bool,
        kept_id: impl Fn(TableId) -> TableId,
    ) -> u64 {
        let watched = self.watched.read();
        let mut added = Vec::new();
        for watch in &watched.aggregates {
            let ranges = watch.touched(batch, &kept_id);
            if ranges.is_empty() || !is_there(watch.relation) {
                continue;
            }
            let rows: Vec<_> = ranges
                .iter()
                .map(|(first, last)| {
                    range_row(watch.number, self.next_number(), (*first, *last, false))
                })
                .collect();
            let kinds = (0..5).map(|at| (at, PhysicalType::I64));
            let rows = Rows::of(kinds, rows.iter().map(Vec::as_slice));
            added.push((
                watch.number,
                ranges.len(),
                Change::Insert(watch.relation, rows),
            ));
        }
        let generation = watched.generation;
        drop(watched);
        if !added.is_empty() {
            let mut watched = self.watched.write();
            for (number, ranges, change) in added {
                watched.change(number, |watch| watch.rows += ranges);
                batch.relations.push(change);
            }
        }
        generation
    }

    /// Asked under the sequencer.
    pub(in crate::engine) fn generation(&self) -> u64 {
        self.watched.read().generation
    }

    /// Whether a table has the stored answers of an aggregate, which only a refresh writes.
    pub(crate) fn has_stored_answers(&self, table: TableId) -> bool {
        let watched = self.watched.read();
        let mut all = watched.aggregates.iter();
        all.any(|it| it.number == i64::from(table.0))
    }

    pub(super) fn next_number(&self) -> i64 {
        self.last_number.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn count_from(&self, last: i64) {
        self.last_number.fetch_max(last, Ordering::Relaxed);
    }

    pub(super) fn watch(&self, watch: Watch) {
        let mut watched = self.watched.write();
        watched.generation += 1;
        watched.aggregates.retain(|it| it.number != watch.number);
        watched.aggregates.push(watch);
    }

    pub(super) fn forget(&self, number: i64) {
        let mut watched = self.watched.write();
        watched.generation += 1;
        watched.aggregates.retain(|it| it.number != number);
    }

    pub(super) fn relation_of(&self, number: i64) -> Option<RelationId> {
        let watched = self.watched.read();
        let mut own = watched.aggregates.iter();
        own.find(|it| it.number == number).map(|it| it.relation)
    }

    /// Everything is noted from here on. The caller holds the sequencer.
    pub(super) fn begin_refresh(&self, number: i64) -> Result<(), Error> {
        let mut watched = self.watched.write();
        let mut own = watched.aggregates.iter_mut();
        let Some(watch) = own.find(|it| it.number == number) else {
            return Err(Error::NotFound {
                what: "continuous aggregate",
                name: number.to_string(),
                place: "this store".to_owned(),
                hint: "it was dropped meanwhile".to_owned(),
            });
        };
        if watch.is_refreshing {
            return Err(Error::RefreshRunning);
        }
        watch.is_refreshing = true;
        watch.open_from = None;
        watched.generation += 1;
        Ok(())
    }

    pub(super) fn refreshed(&self, number: i64, open_from: Option<i64>) {
        self.watched.write().change(number, |watch| {
            watch.is_refreshing = false;
            watch.open_from = open_from;
        });
    }

    /// An aggregate with more ranges than that, which nobody refreshes.
    pub(super) fn crowded(&self, rows_max: usize) -> Option<(i64, RelationId)> {
        let watched = self.watched.read();
        let mut crowded = watched.aggregates.iter();
        let found = crowded.find(|it| it.rows > rows_max && !it.is_refreshing);
        found.map(|it| (it.number, it.relation))
    }

    /// As many are kept now.
    pub(super) fn joined(&self, number: i64, rows: usize) {
        self.watched
            .write()
            .change(number, |watch| watch.rows = rows);
    }
}

impl Watched {
    fn change(&mut self, number: i64, change: impl FnOnce(&mut Watch)) {
        let mut own = self.aggregates.iter_mut();
        if let Some(watch) = own.find(|it| it.number == number) {
            change(watch);
        }
    }
}

impl Watch {
    /// The ranges of time that a batch touches and that have to be noted.
    fn touched(&self, batch: &Batch, kept_id: &dyn Fn(TableId) -> TableId) -> Vec<(i64, i64)> {
        let all = || self.noted(vec![(i64::MIN, i64::MAX)]);
        let Some(last) = self.last_noted() else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for rows in &batch.tables {
            let table = kept_id(rows.table);
            if self.sources.contains(&AggregateSource::Table(table)) {
                return all();
            }
            if self.sources.contains(&AggregateSource::Times(table)) {
                found.extend(spans(&rows.times, self.width_ns, last));
            }
        }
        for tombstone in &batch.tombstones {
            let table = kept_id(tombstone.table);
            if self.sources.contains(&AggregateSource::Table(table)) {
                return all();
            }
            if self.sources.contains(&AggregateSource::Times(table)) {
                found.extend(of_tombstone(tombstone, self.width_ns));
            }
        }
        let changes = batch.relations.iter().filter_map(|change| match change {
            Change::Create(_) | Change::Declare(..) => None,
            Change::Drop(id)
            | Change::Insert(id, _)
            | Change::Replace(id, _)
            | Change::Delete(id, _) => Some(*id),
        });
        for id in changes {
            if self.sources.contains(&AggregateSource::Relation(id)) {
                return all();
            }
        }
        self.noted(found)
    }

    /// The last time at which something may be stored; `None` = nothing is.
    fn last_noted(&self) -> Option<i64> {
        match self.open_from {
            None => Some(i64::MAX),
            Some(open) => open.checked_sub(1),
        }
    }

    /// Without what lies where nothing is stored.
    fn noted(&self, ranges: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
        let Some(last) = self.last_noted() else {
            return Vec::new();
        };
        let below = ranges.into_iter().filter(|(first, _)| *first <= last);
        join(
            below.map(|(first, end)| (first, end.min(last))).collect(),
            RANGES_MAX,
        )
    }
}

/// The ranges that a delete touches.
pub(in crate::engine) fn of_tombstone(tombstone: &Tombstone, gap: i64) -> Vec<(i64, i64)> {
    match &tombstone.what {
        Deleted::Range { time, .. } => vec![(*time.start(), *time.end())],
        Deleted::Rows { times, .. } => spans(times, gap, i64::MAX),
    }
}
