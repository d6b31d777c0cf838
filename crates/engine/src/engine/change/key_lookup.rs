//! Key look-up: which rows of given keys exist. Needed by writes to `unique` tables, UPDATE and DELETE.
//!
//! Does: look keys up in head and segments, newest rows first, reading only the blocks that can hold one, and say under
//! the sequencer whether anything happened to a key since. Does not: hold a lock while it reads; who finds that something
//! happened looks again. Does not: know values, or what a conflict means (`write/ingest/typed.rs` does).
//!
//! A look is at *everything up to an LSN*, durable or not, because what is on its way decides too.

use std::ops::Range;
use std::sync::Arc;

use crate::engine::sequencer::Sequencer;
use crate::error::Error;
use crate::head::{Head, Run};
use crate::scan::source::GroupReader;
use crate::schema::{Lsn, TableId};
use crate::segment::{GroupDirectory, Segment};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::tombstone::{Deleted, Tombstone};

/// Series and time of a row.
pub(crate) type Key = (u32, i64);

/// What is known of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// There is no such row.
    Absent,
    /// There is, and a snapshot sees its newest version, if one was given.
    Old,
    /// There is, and its newest version is newer, or may be: after two flushes the LSNs of rows are forgotten, and a
    /// file says only between which ones they are.
    New,
}

/// What was found when everything up to an LSN was looked at.
#[derive(Debug)]
pub(crate) struct KeyLookup {
    pub(crate) lsn: Lsn,
    /// By key.
    pub(crate) found: Vec<Presence>,
    /// The same without what a transaction has written itself, if one asked.
    pub(crate) committed: Vec<Presence>,
}

/// What the asker knows already.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Since<'a> {
    /// Where he has read, if that matters; without a state he does not have its rows any more.
    pub(crate) snapshot: Option<(Option<&'a State>, Lsn)>,
}

impl<'a> Since<'a> {
    pub(crate) fn snapshot(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot: Some((Some(&snapshot.moment().state), snapshot.lsn())),
        }
    }

    /// Of a snapshot that is gone.
    pub(crate) fn lsn_of(lsn: Lsn) -> Self {
        Self {
            snapshot: Some((None, lsn)),
        }
    }

    fn lsn(self) -> Lsn {
        self.snapshot.map_or(Lsn::MAX, |(_, lsn)| lsn)
    }

    /// The heads that became segments since, in which rows still have their LSNs, newest first. `None` = there were
    /// others, which are gone.
    fn heads(self, state: &State) -> Option<Vec<&'a Arc<Head>>> {
        let Some((read, lsn)) = self.snapshot else {
            return Some(Vec::new());
        };
        let Some(read) = read else {
            return (state.version.flushed_lsn <= lsn).then(Vec::new);
        };
        let now: Vec<&Arc<Head>> = heads(state).collect();
        let is_gone = |head: &&Arc<Head>| !now.iter().any(|it| Arc::ptr_eq(it, head));
        let gone: Vec<&Arc<Head>> = heads(read).filter(is_gone).collect();
        let ends = gone.iter().filter_map(|head| head.end());
        let covered = ends.max().unwrap_or(0).max(lsn);
        (state.version.flushed_lsn <= covered).then_some(gone)
    }
}

/// Newest first.
fn heads(state: &State) -> impl Iterator<Item = &Arc<Head>> {
    let frozen = state.frozen.as_ref().map(|frozen| &frozen.head);
    std::iter::once(&state.head).chain(frozen)
}

/// Keys of one table: ascending, each once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys<'a> {
    pub(crate) table: TableId,
    pub(crate) keys: &'a [Key],
}

impl Sequencer {
    /// Looks keys up among all rows that have an LSN by now. A row that a snapshot does not see is new.
    pub(crate) fn look_up(&self, keys: Keys<'_>, since: Since<'_>) -> Result<KeyLookup, Error> {
        let (state, lsn) = {
            // Rows enter the head under the sequencer, so here the state has every row up to the last LSN.
            let sequencer = self.lock();
            let state = self.versions().now();
            (state, sequencer.next_lsn - 1)
        };
        let mut search = Search::new(since.lsn(), keys);
        // Of a row in a segment nobody knows when it was written, of one that is still in a head somebody does.
        let before = since.heads(&state);
        search.new_after = match &before {
            Some(_) => Lsn::MAX,
            None => since.lsn(),
        };
        let heads: Vec<&Arc<Head>> = heads(&state).chain(before.unwrap_or_default()).collect();
        let of_table = |it: &&Arc<Tombstone>| it.table == keys.table;
        for head in &heads {
            for tombstone in head.tombstones(lsn).iter().filter(of_table) {
                search.note_deleted(tombstone);
            }
        }
        let staged = state.frozen.as_ref().and_then(|it| it.staged());
        for tombstone in staged.iter().flat_map(|it| &it.deletes).filter(of_table) {
            search.note_deleted(tombstone);
        }
        for (at, head) in heads.into_iter().enumerate() {
            for (run, visible) in head.runs(keys.table, lsn).iter().rev() {
                search.look_into_run(run, *visible);
            }
            // What is about to be published is newer than what is on its way into files, and older than the rest.
            let between = staged.filter(|_| at == 0);
            for segment in between.iter().flat_map(|it| it.segments.iter().rev()) {
                search.look_into_segment(segment)?;
            }
        }
        // Only now: a flush joins deletes under the last one's LSN, which is not what its head's rows go by.
        for tombstone in state.version.tombstones.iter().filter(of_table) {
            search.note_deleted(tombstone);
        }
        for segment in state.version.segments_of(keys.table).rev() {
            search.look_into_segment(segment)?;
        }
        Ok(KeyLookup {
            lsn,
            found: search.finish(),
            committed: Vec::new(),
        })
    }
}

/// What a transaction has made of keys itself, [`Presence::Old`] or [`Presence::Absent`]; `None` = nothing.
pub(crate) fn look_into_own(
    (head, staged): (&Head, &[Arc<Segment>]),
    keys: Keys<'_>,
) -> Result<Vec<Option<Presence>>, Error> {
    let mut search = Search::new(Lsn::MAX, keys);
    let tombstones = head.tombstones(Lsn::MAX);
    for tombstone in tombstones.iter().filter(|it| it.table == keys.table) {
        search.note_deleted(tombstone);
    }
    for (run, rows) in head.runs(keys.table, Lsn::MAX).iter().rev() {
        search.look_into_run(run, *rows);
    }
    for segment in staged.iter().rev() {
        search.look_into_segment(segment)?;
    }
    let found = search.met.into_iter().zip(search.deleted);
    Ok(found
        .map(|(met, deleted)| met.or((deleted > 0).then_some(Presence::Absent)))
        .collect())
}

/// Whether a row of one of these keys is in some files.
pub(crate) fn is_in_files(segments: &[Arc<Segment>], keys: Keys<'_>) -> Result<bool, Error> {
    let mut search = Search::new(Lsn::MAX, keys);
    for segment in segments {
        search.look_into_segment(segment)?;
    }
    Ok(search.missing < keys.keys.len())
}

impl State {
    /// The keys of a table's rows in memory that were written after `lsn`, ascending.
    pub(crate) fn new_keys(&self, table: TableId, lsn: Lsn) -> Vec<Key> {
        let mut keys = Vec::new();
        for head in heads(self) {
            for (run, rows) in head.runs(table, Lsn::MAX) {
                let new = run.visible_rows(lsn)..rows;
                let series = run.rows.series.get(new.clone()).unwrap_or_default();
                let times = run.rows.times.get(new).unwrap_or_default();
                keys.extend(series.iter().copied().zip(times.iter().copied()));
            }
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Whether a row of one of these keys was written or deleted after `lsn`, or may have been. Asked under the sequencer
    /// it holds until the asker's own batch has its LSN.
    pub(crate) fn has_news(&self, keys: Keys<'_>, lsn: Lsn) -> bool {
        if keys.keys.is_empty() {
            return false;
        }
        // Rows above the LSN may be in a segment already, where nobody looks for them here.
        if self.version.flushed_lsn > lsn {
            return true;
        }
        let staged = self.frozen.as_ref().filter(|it| it.lsn > lsn);
        if staged
            .and_then(|it| it.staged())
            .is_some_and(|it| it.concerns(keys.table))
        {
            return true;
        }
        let is_key = |key: &Key| keys.keys.binary_search(key).is_ok();
        heads(self).any(|head| {
            let deleted = head.tombstones_after(lsn).into_iter();
            let mut deleted = deleted.filter(|it| it.table == keys.table);
            let written = |(run, rows): &(Arc<Run>, usize)| {
                let new = run.visible_rows(lsn)..*rows;
                let series = run.rows.series.get(new.clone()).unwrap_or_default();
                let times = run.rows.times.get(new).unwrap_or_default();
                series
                    .iter()
                    .copied()
                    .zip(times.iter().copied())
                    .any(|key| is_key(&key))
            };
            head.runs(keys.table, Lsn::MAX).iter().any(written)
                || deleted.any(|it| {
                    keys.keys
                        .iter()
                        .any(|&(series, time)| it.hides(series, time))
                })
        })
    }
}

/// A look at some keys while it goes on, from the newest rows to the oldest.
struct Search<'a> {
    keys: &'a [Key],
    table: TableId,
    /// Rows of a head above this LSN are new.
    since: Lsn,
    /// Rows of a segment with an LSN above this one may be new.
    new_after: Lsn,
    /// By key: rows below this LSN are deleted.
    deleted: Vec<Lsn>,
    /// By key; `None` = not met yet.
    met: Vec<Option<Presence>>,
    missing: usize,
    /// First and last time of the keys.
    first: i64,
    last: i64,
}

impl<'a> Search<'a> {
    fn new(since: Lsn, keys: Keys<'a>) -> Self {
        let times = keys.keys.iter().map(|(_, time)| *time);
        Self {
            keys: keys.keys,
            table: keys.table,
            since,
            new_after: Lsn::MAX,
            deleted: vec![0; keys.keys.len()],
            met: vec![None; keys.keys.len()],
            missing: keys.keys.len(),
            first: times.clone().min().unwrap_or(i64::MAX),
            last: times.max().unwrap_or(i64::MIN),
        }
    }

    fn finish(self) -> Vec<Presence> {
        let met = self.met.into_iter();
        met.map(|met| met.unwrap_or(Presence::Absent)).collect()
    }

    fn note_deleted(&mut self, tombstone: &Tombstone) {
        if let Deleted::Rows { series, times } = &tombstone.what
            && series.len() < self.keys.len()
        {
            for (&series, &time) in series.iter().zip(times) {
                if let Ok(at) = self.keys.binary_search(&(series, time))
                    && let Some(deleted) = self.deleted.get_mut(at)
                {
                    *deleted = tombstone.lsn.max(*deleted);
                }
            }
            return;
        }
        for (&(series, time), deleted) in self.keys.iter().zip(&mut self.deleted) {
            if tombstone.hides(series, time) {
                *deleted = tombstone.lsn.max(*deleted);
            }
        }
    }

    /// A row of the key `at` was met, older ones do not matter any more.
    fn meet(&mut self, at: usize, is_deleted: bool, is_new: bool) {
        if let Some(met @ None) = self.met.get_mut(at) {
            *met = Some(match (is_deleted, is_new) {
                (true, _) => Presence::Absent,
                (false, true) => Presence::New,
                (false, false) => Presence::Old,
            });
            self.missing -= 1;
        }
    }

    fn overlaps(&self, min_time: i64, max_time: i64) -> bool {
        self.missing > 0 && min_time <= self.last && self.first <= max_time
    }

    /// Positions of the keys of some series.
    fn of_series(&self, first: u32, last: u32) -> Range<usize> {
        let start = self.keys.partition_point(|key| key.0 < first);
        let length = self.keys.get(start..).unwrap_or_default();
        start..start + length.partition_point(|key| key.0 <= last)
    }

    /// Whether one of these keys was not met yet and has a time between those.
    fn wants(&self, keys: Range<usize>, min_time: i64, max_time: i64) -> bool {
        let met = self.met.get(keys.clone()).unwrap_or_default();
        let keys = self.keys.get(keys).unwrap_or_default();
        let mut open = keys.iter().zip(met).filter(|(_, met)| met.is_none());
        open.any(|((_, time), _)| (min_time..=max_time).contains(time))
    }

    fn look_into_run(&mut self, run: &Run, visible: usize) {
        let times = run.times();
        if !self.overlaps(*times.start(), *times.end()) {
            return;
        }
        let order = run.order();
        let key_of = |row: u32| -> Option<Key> {
            let series = *run.rows.series.get(row as usize)?;
            Some((series, *run.rows.times.get(row as usize)?))
        };
        let new_from = run.visible_rows(self.since);
        let mut from = 0;
        for at in 0..self.keys.len() {
            let (Some(&key), Some(None)) = (self.keys.get(at), self.met.get(at)) else {
                continue;
            };
            let rest = order.get(from..).unwrap_or_default();
            from += rest.partition_point(|&row| key_of(row) < Some(key));
            let rest = order.get(from..).unwrap_or_default();
            // Of equal keys the later row stands later.
            let same = rest.iter().take_while(|&&row| key_of(row) == Some(key));
            let newest = same.filter(|&&row| (row as usize) < visible).last();
            if let Some(&newest) = newest {
                let newest = newest as usize;
                let deleted = self.deleted.get(at).copied().unwrap_or(0);
                let is_deleted = newest < run.visible_rows(deleted.saturating_sub(1));
                self.meet(at, is_deleted, newest >= new_from);
            }
        }
    }

    fn look_into_segment(&mut self, segment: &Arc<Segment>) -> Result<(), Error> {
        for (at, group) in segment.groups(self.table) {
            if !self.overlaps(group.min_time, group.max_time) {
                continue;
            }
            let keys = self.of_series(group.first_series, group.last_series);
            if self.wants(keys, group.min_time, group.max_time) {
                self.look_into_group(segment, &segment.directory(at)?)?;
            }
        }
        Ok(())
    }

    fn look_into_group(
        &mut self,
        segment: &Arc<Segment>,
        directory: &Arc<GroupDirectory>,
    ) -> Result<(), Error> {
        let mut blocks = Vec::new();
        for (at, block) in directory.blocks.iter().enumerate() {
            if self.overlaps(block.min_time, block.max_time) {
                let keys = self.of_series(block.first_series, block.last_series);
                if self.wants(keys.clone(), block.min_time, block.max_time) {
                    blocks.push((at, keys));
                }
            }
        }
        if blocks.is_empty() {
            return Ok(());
        }
        let positions = blocks.iter().map(|(at, _)| *at).collect();
        // Without fields: only the pages of times and series are read.
        let mut reader = GroupReader::open(segment, directory, positions, &[])?;
        for (block, keys) in blocks {
            let decoded = reader.decode(block)?;
            for at in keys {
                let (Some(&(series, time)), Some(None)) = (self.keys.get(at), self.met.get(at))
                else {
                    continue;
                };
                if decoded.rows_of(series, &(time..=time)).is_some() {
                    let deleted = self.deleted.get(at).copied().unwrap_or(0);
                    let is_deleted = deleted > segment.meta.applied_lsn;
                    self.meet(at, is_deleted, segment.meta.max_lsn > self.new_after);
                }
            }
        }
        Ok(())
    }
}
