//! Idempotency keys: a batch that is sent again is acknowledged and not written twice.
//!
//! Does: remember keys for some time and up to some number, say which files of keys a flush must write and which have
//! had their day, read them at open. Does not: wait for the log; whoever finds a key here syncs its LSN before
//! answering. Bytes: `docs/format/keys.md`.
//!
//! Keys expire by a time that no clock of the machine can turn back: wall time when the store was opened, but not before
//! the newest key it knows, and from then on as much as the monotonic clock has advanced.

mod file;
pub(crate) mod hostile;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use hashbrown::HashTable;

use crate::batch::BatchKey;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::{Error, Malformed};
use crate::manifest::FileMeta;
use crate::options::Options;
use crate::schema::Lsn;

pub(crate) use file::{KIND as FILE_KIND, read, write};

/// A batch that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) key: [u8; 16],
    pub(crate) lsn: Lsn,
    /// Rows that were kept of it.
    pub(crate) rows: u64,
    pub(crate) accepted_ns: i64,
}

/// The keys of the last while.
#[derive(Debug)]
pub(crate) struct KeySet {
    /// Ascending by LSN and by time of acceptance: the oldest goes first, for either reason.
    taken: VecDeque<Taken>,
    /// By key: the number of the entry, counted from the first one ever, modulo 2^32.
    index: HashTable<u32>,
    /// Keys come from strangers, so their hashes must not be theirs to choose.
    hasher: RandomState,
    /// Number of the first entry.
    first: u32,
    /// In LSN order.
    files: Vec<KeyFile>,
    /// Keys up to this LSN are in files.
    filed_lsn: Lsn,
    age_ns: i64,
    keys_max: usize,
    /// Wall time when the store was opened.
    opened_ns: i64,
    /// Monotonic time at that moment.
    opened_ms: u64,
}

/// A file of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeyFile {
    id: u64,
    last_lsn: Lsn,
    keys: usize,
}

/// What a flush must do to the files of keys, and what holds then.
#[derive(Debug)]
pub(crate) struct KeyCheckpoint {
    /// Goes to a new file, unless there is nothing.
    pub(crate) taken: Vec<Taken>,
    /// Ids of files that are not needed then.
    pub(crate) removed: Vec<u64>,
    lsn: Lsn,
}

/// Numbers of entries are counted in 32 bits, and differences of them must be told.
const KEYS_MAX: usize = 1 << 31;

impl KeySet {
    /// No keys; those of files and log are still to come.
    pub(crate) fn new(options: &Options, clock: &dyn Clock) -> Self {
        Self {
            taken: VecDeque::new(),
            index: HashTable::new(),
            hasher: RandomState::new(),
            first: 0,
            files: Vec::new(),
            filed_lsn: 0,
            age_ns: options.key_age_ns.max(0),
            keys_max: usize::try_from(options.keys_max)
                .unwrap_or(KEYS_MAX)
                .clamp(1, KEYS_MAX),
            opened_ns: clock.now_ns(),
            opened_ms: clock.monotonic_ms(),
        }
    }

    /// Adds the keys of a file that the manifest lists; they are read in its order.
    pub(crate) fn read(
        &mut self,
        disk: &dyn Disk,
        path: &Path,
        uuid: [u8; 16],
        meta: &FileMeta,
    ) -> Result<(), Error> {
        let taken = file::read(disk, path, uuid, meta.file_id)?;
        let (Some(first), Some(last)) = (taken.first(), taken.last()) else {
            return Ok(());
        };
        if first.lsn <= self.filed_lsn {
            let what = Malformed::new("its keys overlap those of the file before");
            return Err(what.at(path, 0));
        }
        self.files.push(KeyFile {
            id: meta.file_id,
            last_lsn: last.lsn,
            keys: taken.len(),
        });
        self.filed_lsn = last.lsn;
        for one in taken {
            self.push(one);
        }
        Ok(())
    }

    /// The files hold everything up to this LSN; what is added from now on is in the log.
    pub(crate) fn files_end_at(&mut self, flushed_lsn: Lsn) {
        self.filed_lsn = self.filed_lsn.max(flushed_lsn);
    }

    /// The time by which keys expire.
    pub(crate) fn now_ns(&self, monotonic_ms: u64) -> i64 {
        let passed = monotonic_ms.saturating_sub(self.opened_ms);
        let passed = i64::try_from(passed)
            .unwrap_or(i64::MAX)
            .saturating_mul(1_000_000);
        let now = self.opened_ns.saturating_add(passed);
        // A wall clock that was set back while the store was closed makes nothing younger than it is.
        let newest = self.taken.back().map_or(i64::MIN, |last| last.accepted_ns);
        now.max(newest)
    }

    /// The batch of this key, if it was taken lately.
    pub(crate) fn find(&mut self, key: &BatchKey) -> Option<Taken> {
        self.expire(key.accepted_ns);
        let hash = self.hasher.hash_one(key.key);
        let number = *self.index.find(hash, |&number| {
            entry(&self.taken, self.first, number).is_some_and(|it| it.key == key.key)
        })?;
        entry(&self.taken, self.first, number).copied()
    }

    /// Remembers a batch. It has a higher LSN than all before; its key is not known.
    pub(crate) fn insert(&mut self, key: &BatchKey, lsn: Lsn, rows: u64) {
        self.expire(key.accepted_ns);
        self.push(Taken {
            key: key.key,
            lsn,
            rows,
            accepted_ns: key.accepted_ns,
        });
    }

    fn push(&mut self, mut one: Taken) {
        // Writers read the clock before they queue for their LSN, so times may come a little out of order.
        if let Some(last) = self.taken.back() {
            one.accepted_ns = one.accepted_ns.max(last.accepted_ns);
        }
        while self.taken.len() >= self.keys_max {
            self.forget_first();
        }
        if self.taken.len() == self.taken.capacity() {
            // An eighth at a time: twice as much at once would be most of the memory that keys may have.
            self.taken.reserve_exact((self.taken.len() / 8).max(64));
        }
        let offset = u32::try_from(self.taken.len()).expect("fewer than 2^31 keys are kept");
        let number = self.first.wrapping_add(offset);
        let hash = self.hasher.hash_one(one.key);
        self.taken.push_back(one);
        let (taken, first, hasher) = (&self.taken, self.first, &self.hasher);
        self.index.insert_unique(hash, number, |&number| {
            entry(taken, first, number).map_or(0, |it| hasher.hash_one(it.key))
        });
    }

    fn expire(&mut self, now_ns: i64) {
        while let Some(oldest) = self.taken.front()
            && now_ns.saturating_sub(oldest.accepted_ns) > self.age_ns
        {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        let Some(oldest) = self.taken.front() else {
            return;
        };
        let hash = self.hasher.hash_one(oldest.key);
        let first = self.first;
        if let Ok(found) = self.index.find_entry(hash, |&number| number == first) {
            found.remove();
        }
        self.taken.pop_front();
        self.first = self.first.wrapping_add(1);
    }

    /// What must become of the files so that they hold every key up to `lsn`.
    pub(crate) fn checkpoint(&mut self, lsn: Lsn, now_ns: i64) -> KeyCheckpoint {
        self.expire(now_ns);
        let oldest = self.taken.front().map_or(Lsn::MAX, |it| it.lsn);
        let gone = self.files.iter().filter(|file| file.last_lsn < oldest);
        let mut removed: Vec<u64> = gone.map(|file| file.id).collect();
        let up_to = |lsn: Lsn| self.taken.partition_point(|it| it.lsn <= lsn);
        let end = up_to(lsn);
        let mut start = up_to(self.filed_lsn).min(end);
        if start < end {
            // Files of similar size become one, so that many flushes with few keys leave few files.
            let kept = self.files.iter().enumerate().rev();
            for (at, file) in kept.filter(|(_, file)| file.last_lsn >= oldest) {
                if file.keys > 2 * (end - start) {
                    break;
                }
                let before = at.checked_sub(1).and_then(|at| self.files.get(at));
                start = before.map_or(0, |before| up_to(before.last_lsn));
                removed.push(file.id);
            }
        }
        KeyCheckpoint {
            taken: self.taken.range(start..end).copied().collect(),
            removed,
            lsn,
        }
    }

    /// The manifest says what the checkpoint asked for; `file_id` is that of the new file, if there is one.
    pub(crate) fn checkpointed(&mut self, done: &KeyCheckpoint, file_id: Option<u64>) {
        self.files.retain(|file| !done.removed.contains(&file.id));
        if let (Some(id), Some(last)) = (file_id, done.taken.last()) {
            self.files.push(KeyFile {
                id,
                last_lsn: last.lsn,
                keys: done.taken.len(),
            });
        }
        self.filed_lsn = self.filed_lsn.max(done.lsn);
    }

    /// Number of keys.
    pub(crate) fn len(&self) -> usize {
        self.taken.len()
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.taken.capacity() * size_of::<Taken>() + self.index.allocation_size()
    }
}

fn entry(taken: &VecDeque<Taken>, first: u32, number: u32) -> Option<&Taken> {
    taken.get(number.wrapping_sub(first) as usize)
}

#[cfg(test)]
mod tests;
