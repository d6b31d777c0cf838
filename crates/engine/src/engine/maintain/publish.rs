//! Publication: rows that a transaction has staged in files become part of the store, by one edit of the manifest.
//!
//! Does: turn what is in memory into a segment with it, so that what was staged comes behind that and before what is written from
//! then on; see under the sequencer that keys are still free; list all files in one edit. Does not: write the files (`stage.rs` does).
//!
//! The edit is what makes a transaction that staged rows durable. The log has records for its LSNs that say nothing: without the
//! edit they change nothing, so a crash leaves all of it or none.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::batch::Batch;
use crate::compaction::balance::Balance;
use crate::engine::change::key_lookup::{Key, Keys, Presence, Since, is_in_files};
use crate::engine::maintain::Jobs;
use crate::engine::maintain::stage::StagedSegment;
use crate::error::Error;
use crate::manifest::Edit;
use crate::scan::source::GroupReader;
use crate::schema::{Lsn, TableId};
use crate::segment::Segment;
use crate::state::{Frozen, StagedFiles, State};
use crate::tombstone::{Deleted, Tombstone, joined};

/// Keys that are looked for at once.
const KEYS_OF_ONE_LOOK: usize = 64 << 10;

/// What a transaction publishes, in the order of its statements.
#[derive(Debug, Default)]
pub(in crate::engine) struct Publication {
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Deletes(Vec<Arc<Tombstone>>),
    Rows(Arc<StagedSegment>),
}

/// What became of a publication.
#[derive(Debug)]
pub(in crate::engine) enum Placed {
    At(Lsn),
    /// What it was built on changed meanwhile: it must be built again.
    Again,
    /// Somebody else has written a key that had to be free.
    Taken(TableId),
}

impl Publication {
    /// Rows, and deletes by key, each with the LSN that the transaction gave it.
    pub(in crate::engine) fn new(
        rows: Vec<Arc<StagedSegment>>,
        deletes: Vec<Arc<Tombstone>>,
    ) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        let mut deletes = deletes.into_iter().peekable();
        for rows in rows {
            let mut before = Vec::new();
            while let Some(delete) = deletes.next_if(|it| it.lsn < rows.lsn()) {
                before.push(delete);
            }
            steps.extend((!before.is_empty()).then_some(Step::Deletes(before)));
            steps.push(Step::Rows(rows));
        }
        let last: Vec<_> = deletes.collect();
        steps.extend((!last.is_empty()).then_some(Step::Deletes(last)));
        Self { steps }
    }

    fn rows(&self) -> impl Iterator<Item = &Arc<StagedSegment>> {
        self.steps.iter().filter_map(|step| match step {
            Step::Rows(rows) => Some(rows),
            Step::Deletes(_) => None,
        })
    }

    /// The same with the LSNs of the store from this one on.
    fn placed(&self, first: Lsn) -> StagedFiles {
        let mut placed = StagedFiles {
            segments: Vec::new(),
            deletes: Vec::new(),
            rows: Vec::new(),
            is_given_up: AtomicBool::new(false),
        };
        for (lsn, step) in (first..).zip(&self.steps) {
            match step {
                Step::Rows(rows) => {
                    placed.segments.push(Arc::new(rows.segment.at_lsn(lsn)));
                    placed.rows.extend_from_slice(&rows.rows);
                }
                Step::Deletes(deletes) => {
                    let joined = joined(deletes.clone()).into_iter();
                    placed.deletes.extend(joined.map(|it| {
                        Arc::new(Tombstone {
                            lsn,
                            ..it.as_ref().clone()
                        })
                    }));
                }
            }
        }
        placed
    }

    /// The ranges of time that it touches, as a batch that is there for nothing but to be looked at.
    fn noting(&self) -> Batch {
        let mut noting = Batch::default();
        for step in &self.steps {
            match step {
                Step::Deletes(deletes) => noting
                    .tombstones
                    .extend(deletes.iter().map(|it| it.as_ref().clone())),
                Step::Rows(rows) => {
                    for &(table, ..) in &rows.rows {
                        let of = |&(first, last): &(i64, i64)| Tombstone {
                            lsn: 0,
                            table,
                            what: Deleted::Range {
                                series: None,
                                time: first..=last,
                            },
                        };
                        noting.tombstones.extend(rows.spans.iter().map(of));
                    }
                }
            }
        }
        noting
    }

    /// Tables whose keys had to be free, and since when nobody has looked.
    fn looked(&self) -> Vec<(TableId, Lsn)> {
        let mut looked: Vec<(TableId, Lsn)> = Vec::new();
        for rows in self.rows() {
            for (&(table, ..), lsn) in rows.rows.iter().zip(rows.looked) {
                match looked.iter_mut().find(|(known, _)| *known == table) {
                    Some((_, first)) => *first = lsn.min(*first),
                    None => looked.push((table, lsn)),
                }
            }
        }
        looked
    }

    /// Its files with rows whose keys had to be free.
    fn unique_files(&self, table: TableId) -> Vec<Arc<Segment>> {
        let rows = self.rows().filter(|it| it.looked.is_some());
        let rows = rows.filter(|it| it.segment.groups(table).next().is_some());
        rows.map(|it| Arc::clone(&it.segment)).collect()
    }
}

impl StagedFiles {
    /// Adds the files to an edit, and what went into them to its balance.
    pub(super) fn join(&self, edit: &mut Edit, balance: &mut Balance) {
        let metas = self.segments.iter().map(|segment| segment.meta.clone());
        edit.added_segments.extend(metas);
        for &(table, read, merged) in &self.rows {
            let counts = balance.of(table);
            counts.read += read;
            counts.merged += merged;
        }
    }
}

impl Jobs {
    /// Makes what was staged durable and visible, or nothing of it, if it was built at `epoch` and `still_holds` says so where
    /// nothing else gets an LSN.
    pub(in crate::engine) fn publish_staged(
        &self,
        staged: &Publication,
        epoch: u64,
        still_holds: impl FnOnce(&State) -> bool,
    ) -> Result<Placed, Error> {
        self.site.check_space()?;
        let noting = staged.noting();
        // Not with the lock of flushes, which those who hold writers up may wait for.
        self.sequencer.rewrites().wait(&noting);
        let flushing = self.flushing.lock();
        // An earlier, failed flush may have left rows aside.
        if self.sequencer.versions().now().frozen.is_some() {
            self.flush_holding(&flushing)?;
        }
        let looked = staged.looked();
        for &(table, since) in &looked {
            if !self.are_free(staged, table, since)? {
                return Ok(Placed::Taken(table));
            }
        }
        let mut taken = Ok(None);
        let holds = |state: &State| {
            taken = newly_taken(staged, &looked, state);
            matches!(taken, Ok(None)) && still_holds(state)
        };
        let placing = (staged.steps.len(), |first| staged.placed(first));
        let frozen = self
            .sequencer
            .freeze_with(placing, (epoch, &noting), holds)?;
        let Some(frozen) = frozen else {
            return Ok(taken?.map_or(Placed::Again, Placed::Taken));
        };
        let synced = self.sequencer.log().sync(frozen.lsn);
        if let Err(error) = synced.and_then(|()| self.write_files(&frozen)) {
            frozen.give_up_staged();
            return Err(error);
        }
        for rows in staged.rows() {
            rows.published();
        }
        // The rows are there, whatever becomes of what follows: the next flush trims too, and a log that does not take the note
        // takes nothing more.
        drop(self.trim_after(&frozen));
        drop(self.note_published(&noting));
        Ok(Placed::At(frozen.lsn))
    }

    /// Waits until rows that are being published are there, or are given up.
    pub(in crate::engine) fn wait_for_staged(&self) {
        let is_under_way = |frozen: &Arc<Frozen>| frozen.staged().is_some();
        if self
            .sequencer
            .versions()
            .now()
            .frozen
            .as_ref()
            .is_some_and(is_under_way)
        {
            drop(self.flushing.lock());
        }
    }

    /// Notes again which stored answers are wrong now: a refresh may have met the first note before the rows were there.
    fn note_published(&self, noting: &Batch) -> Result<(), Error> {
        loop {
            let epoch = self.sequencer.catalogue_epoch();
            let mut noted = noting.clone();
            self.sequencer.note(&mut noted);
            let batch = Batch {
                relations: noted.relations,
                ..Batch::default()
            };
            if batch.is_empty() || self.sequencer.write_if(batch, epoch, |_| true)?.is_some() {
                return Ok(());
            }
        }
    }

    /// Whether the store has none of the staged keys of a table, of which everything up to `since` was looked at.
    fn are_free(&self, staged: &Publication, table: TableId, since: Lsn) -> Result<bool, Error> {
        let version = self.sequencer.versions().version();
        let is_new = |it: &&Arc<Segment>| it.meta.max_lsn > since;
        let mut newer = version.segments_of(table).filter(is_new);
        if !newer.any(|it| it.groups(table).next().is_some()) {
            return Ok(true);
        }
        for segment in staged.unique_files(table) {
            let mut is_free = true;
            keys_of(&segment, table, &mut |keys| {
                let look = self
                    .sequencer
                    .look_up(Keys { table, keys }, Since::default())?;
                is_free = look.found.iter().all(|it| *it == Presence::Absent);
                Ok(is_free)
            })?;
            if !is_free {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The table of a staged key that a row in memory has which nobody has looked at.
fn newly_taken(
    staged: &Publication,
    looked: &[(TableId, Lsn)],
    state: &State,
) -> Result<Option<TableId>, Error> {
    for &(table, since) in looked {
        let keys = state.new_keys(table, since);
        let asked = Keys { table, keys: &keys };
        if !keys.is_empty() && is_in_files(&staged.unique_files(table), asked)? {
            return Ok(Some(table));
        }
    }
    Ok(None)
}

/// Hands out the keys of a file's rows of a table, some at a time, ascending, until `take` says that it has had enough.
fn keys_of(
    segment: &Arc<Segment>,
    table: TableId,
    take: &mut dyn FnMut(&[Key]) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut keys: Vec<Key> = Vec::new();
    let mut give = |keys: &mut Vec<Key>| {
        keys.sort_unstable();
        keys.dedup();
        let goes_on = take(keys);
        keys.clear();
        goes_on
    };
    let groups: Vec<usize> = segment.groups(table).map(|(at, _)| at).collect();
    for at in groups {
        let directory = segment.directory(at)?;
        for block in 0..directory.blocks.len() {
            let mut reader = GroupReader::open(segment, &directory, vec![block], &[])?;
            let first = directory.blocks.get(block).map_or(0, |it| it.first_series);
            keys.extend(reader.decode(block)?.keys(first));
            if keys.len() >= KEYS_OF_ONE_LOOK && !give(&mut keys)? {
                return Ok(());
            }
        }
    }
    if !keys.is_empty() {
        give(&mut keys)?;
    }
    Ok(())
}
