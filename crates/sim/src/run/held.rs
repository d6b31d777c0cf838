//! A reader who has taken a snapshot and reads it slowly, whatever happens to the store meanwhile.
//!
//! Does: plan a scan of every table, read a few batches now and then, and compare all of it with the rows of then: what a
//! flush, a compaction, retention, a delete, a drop or a rename do must not be seen. Does not: survive its process.

use nilometer_engine::Snapshot;

use super::Run;
use crate::model::{Moment, Name, Table, difference, same_rows};
use crate::read::SlowReader;
use crate::world::{read_all, slow_readers};

/// Readers at once.
const HELD_MAX: usize = 3;
/// More batches than any reader has.
const TO_THE_END: u32 = u32::MAX;

/// Somebody who reads.
pub(super) struct Held {
    /// To be read whole again.
    snapshot: Snapshot,
    moment: Moment,
    scans: Vec<Slow>,
}

/// A table that is being read, and what it must be.
struct Slow {
    name: Name,
    reader: SlowReader,
    want: Table,
}

impl Run {
    /// Whether a snapshot keeps the store open.
    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes a snapshot, and plans to read it.
    pub(super) fn hold(&mut self) -> Result<(), String> {
        if self.held.len() == HELD_MAX {
            self.let_go()?;
        }
        let snapshot = self.engine()?.snapshot();
        let moment = self.model.moment();
        let mut scans = Vec::new();
        for (name, reader) in slow_readers(&snapshot)? {
            // A table that only a refused write has named has no rows.
            let want = moment.rows(&name).unwrap_or_default();
            scans.push(Slow { name, reader, want });
        }
        self.held.push(Held {
            snapshot,
            moment,
            scans,
        });
        Ok(())
    }

    /// Every reader reads so many batches of each table more.
    pub(super) fn read_on(&mut self, batches: u32) -> Result<(), String> {
        for slow in self.held.iter_mut().flat_map(|held| &mut held.scans) {
            slow.read_on(batches)?;
        }
        Ok(())
    }

    /// Whoever has read for longest goes: one half has seen everything, the other has not.
    pub(super) fn let_go(&mut self) -> Result<(), String> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut held = self.held.remove(0);
        let half = held.scans.len().div_ceil(2);
        for slow in held.scans.iter_mut().take(half) {
            slow.read_on(TO_THE_END)?;
        }
        self.counts.slow_reads += half as u64;
        Ok(())
    }

    /// Everybody reads to the end, and goes.
    pub(super) fn let_all_go(&mut self) -> Result<(), String> {
        if !self.world.disk().crashed() {
            self.read_on(TO_THE_END)?;
            let scans = self.held.iter().map(|held| held.scans.len() as u64);
            self.counts.slow_reads += scans.sum::<u64>();
        }
        self.held.clear();
        Ok(())
    }

    /// Reads again what snapshots show, under the names of then.
    pub(super) fn compare_held(&self) -> Result<(), String> {
        for held in &self.held {
            let found = read_all(&held.snapshot)?;
            held.moment
                .check(&found)
                .map_err(|what| format!("a held snapshot changed: {what}"))?;
        }
        Ok(())
    }
}

impl Slow {
    fn read_on(&mut self, batches: u32) -> Result<(), String> {
        let name = &self.name;
        let told = |what: String| format!("a slow reader of {}.{}: {what}", name.0, name.1);
        let Some(found) = self.reader.read_on(batches).map_err(told)? else {
            return Ok(());
        };
        if *found == self.want || same_rows(&self.want, found) {
            return Ok(());
        }
        Err(told(difference(name, &self.want, found)))
    }
}
