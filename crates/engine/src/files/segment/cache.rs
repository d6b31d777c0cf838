//! The segment cache: open files, decoded group parts and pages of cold columns, bounded, shared by all segments.
//!
//! Does: open a file when it is read, decode a directory when it is asked for, and let go of what was not asked for
//! lately. Does not: hold anything open or decoded that a reader relies on; whoever reads has a reference of its own.

use std::collections::VecDeque;
use std::hash::Hash;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nilometer_codec::{ColumnBuf, PhysicalType};
use rustc_hash::FxHashMap;

use super::directory::{GroupDirectory, UnitPages};
use super::latest::{GroupRuns, Latest, LatestColumn};
use super::rollup::GroupRollups;
use super::statistics::GroupStatistics;
use super::unpacked::Unpacked;
use crate::budget::{Charge, MemoryBudget, MemoryUse};
use crate::disk::{Disk, DiskFile, read_exact_at};
use crate::error::Error;
use crate::options::Options;
use crate::ranked::{Locked, Mutex, Rank};

/// The caches of a store.
#[derive(Debug)]
pub(crate) struct SegmentCache {
    disk: Arc<dyn Disk>,
    budget: MemoryBudget,
    /// Whatever the budget leaves.
    bytes_max: u64,
    /// By file id.
    files: Mutex<Bounded<u64, Arc<dyn DiskFile>>>,
    parts: Mutex<Bounded<PartKey, CachedPart>>,
    charge: Mutex<Charge>,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// File id, group, and which part of it.
pub(super) type PartKey = (u64, u32, PartKind);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PartKind {
    Directory,
    Statistics,
    Rollups,
    /// Of a column, by its number and type, what is known of each block; with first and last values or without.
    Blocks(u32, PhysicalType, bool),
    /// The same of each hour.
    Hours(u32, PhysicalType, bool),
    /// A page that cannot be read alone, by its place in the file, and so many of its rows.
    Page(u64, u32),
    /// Where the last row of each series is.
    Latest,
    /// What those have in a column.
    LatestColumn(u32, PhysicalType),
    /// Which rows of shared blocks are whose.
    Runs,
    /// The pages of a device's, by its place in the file; of no group.
    Unit(u64),
}

/// A decoded part of a group.
#[derive(Debug, Clone)]
pub(super) enum CachedPart {
    Directory(Arc<GroupDirectory>),
    Statistics(Arc<GroupStatistics>),
    Rollups(Arc<GroupRollups>),
    Page(Arc<ColumnBuf>),
    /// `None` = nothing is stored.
    Unpacked(Option<Arc<Unpacked>>),
    Latest(Arc<Latest>),
    /// `None` = the group has it as another type.
    LatestColumn(Option<Arc<LatestColumn>>),
    Runs(Arc<GroupRuns>),
    Unit(Arc<UnitPages>),
}

impl CachedPart {
    fn memory(&self) -> usize {
        match self {
            Self::Directory(directory) => directory.memory(),
            Self::Statistics(statistics) => statistics.memory(),
            Self::Rollups(rollups) => rollups.memory(),
            Self::Page(page) => page.memory_bytes(),
            Self::Latest(latest) => latest.memory(),
            Self::LatestColumn(column) => column.as_ref().map_or(0, |it| it.memory()),
            Self::Runs(runs) => runs.memory(),
            Self::Unit(pages) => pages.memory(),
            Self::Unpacked(unpacked) => unpacked.as_ref().map_or(0, |it| it.memory()),
        }
    }
}

/// How the caches do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CacheCounters {
    /// Decoded parts that were there.
    pub(crate) hits: u64,
    /// Decoded parts that were read from a file.
    pub(crate) misses: u64,
    /// Memory of decoded parts.
    pub(crate) bytes: u64,
    /// Files that are open.
    pub(crate) files: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
    mutex.lock()
}

impl SegmentCache {
    /// Room for so many bytes of decoded parts, if the budget leaves them, and so many open files.
    pub(crate) fn new(disk: Arc<dyn Disk>, budget: MemoryBudget, options: &Options) -> Self {
        Self {
            disk,
            bytes_max: options.directory_cache_bytes_max,
            charge: Mutex::new(Rank::SegmentCharge, budget.take(MemoryUse::Cache, 0)),
            budget,
            files: Mutex::new(Rank::SegmentFiles, Bounded::new(options.open_files_max)),
            parts: Mutex::new(
                Rank::SegmentParts,
                Bounded::new(options.directory_cache_bytes_max),
            ),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// The file, opened if it is not.
    pub(super) fn file(&self, file_id: u64, path: &Path) -> Result<Arc<dyn DiskFile>, Error> {
        if let Some(file) = lock(&self.files).get(file_id) {
            return Ok(file);
        }
        // Opened outside the lock: two readers may both open it, and one of the two is kept.
        let file = self.disk.open(path).map_err(Error::io("open", path))?;
        lock(&self.files).insert(file_id, Arc::clone(&file), 1);
        Ok(file)
    }

    /// The part, read with `read` if it is not there.
    pub(super) fn part(
        &self,
        key: PartKey,
        read: impl FnOnce() -> Result<CachedPart, Error>,
    ) -> Result<CachedPart, Error> {
        if let Some(part) = lock(&self.parts).get(key) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(part);
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        let part = read()?;
        let bytes = part.memory() + size_of::<Slot<CachedPart>>() + 2 * size_of::<PartKey>();
        let mut parts = lock(&self.parts);
        let mut charge = lock(&self.charge);
        // What other caches have is not this one's.
        let others = self
            .budget
            .used(MemoryUse::Cache)
            .saturating_sub(charge.bytes());
        let limit = self.budget.limit(MemoryUse::Cache).saturating_sub(others);
        parts.limit(self.bytes_max.min(limit));
        parts.insert(key, part.clone(), bytes as u64);
        charge.set(parts.weight);
        Ok(part)
    }

    /// Closes the file and drops its parts: a removed file takes its room on the disk until it is closed.
    pub(super) fn forget(&self, file_id: u64) {
        lock(&self.files).forget(|key| *key == file_id);
        let mut parts = lock(&self.parts);
        parts.forget(|key| key.0 == file_id);
        lock(&self.charge).set(parts.weight);
    }

    pub(crate) fn counters(&self) -> CacheCounters {
        // One lock after the other: within one expression both would be held to its end.
        let files = lock(&self.files).weight;
        let bytes = lock(&self.parts).weight;
        CacheCounters {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            bytes,
            files,
        }
    }
}

/// Bytes of a file of `size` bytes; a place outside it takes no memory.
pub(super) fn read(
    file: &dyn DiskFile,
    path: &Path,
    size: u64,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, Error> {
    let inside = offset.checked_add(length).is_some_and(|end| end <= size);
    let length = usize::try_from(length).ok().filter(|_| inside);
    let length =
        length.ok_or_else(|| Error::corrupt(path, offset, "a place is outside the file"))?;
    let mut bytes = vec![0; length];
    read_exact_at(file, &mut bytes, offset).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::corrupt(path, offset, "the file ends early"),
        _ => Error::io("read", path)(error),
    })?;
    Ok(bytes)
}

/// A map of limited weight. When it is full, what was not asked for since the clock's hand last passed goes first.
#[derive(Debug)]
pub(crate) struct Bounded<K, V> {
    slots: FxHashMap<K, Slot<V>>,
    /// Every key once, in the order in which the hand meets them.
    clock: VecDeque<K>,
    weight: u64,
    weight_max: u64,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    weight: u64,
    was_used: bool,
}

impl<K: Copy + Eq + Hash, V: Clone> Bounded<K, V> {
    pub(crate) fn new(weight_max: u64) -> Self {
        Self {
            slots: FxHashMap::default(),
            clock: VecDeque::new(),
            weight: 0,
            weight_max,
        }
    }

    pub(crate) fn get(&mut self, key: K) -> Option<V> {
        let slot = self.slots.get_mut(&key)?;
        slot.was_used = true;
        Some(slot.value.clone())
    }

    /// Adds a value unless it is there or heavier than everything may be together.
    pub(crate) fn insert(&mut self, key: K, value: V, weight: u64) {
        if self.slots.contains_key(&key) {
            return;
        }
        let is_kept = weight <= self.weight_max;
        // What is not kept makes no room for itself, but the limit may have come down.
        let needed = if is_kept { weight } else { 0 };
        while self.weight + needed > self.weight_max {
            let Some(oldest) = self.clock.pop_front() else {
                break;
            };
            match self.slots.get_mut(&oldest) {
                Some(slot) if slot.was_used => {
                    slot.was_used = false;
                    self.clock.push_back(oldest);
                }
                _ => self.remove(&oldest),
            }
        }
        if !is_kept {
            return;
        }
        self.weight += weight;
        self.clock.push_back(key);
        let slot = Slot {
            value,
            weight,
            was_used: false,
        };
        self.slots.insert(key, slot);
    }

    /// From the next insert on, everything together weighs at most this.
    pub(crate) fn limit(&mut self, weight_max: u64) {
        self.weight_max = weight_max;
    }

    /// What everything weighs together.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    fn remove(&mut self, key: &K) {
        if let Some(slot) = self.slots.remove(key) {
            self.weight -= slot.weight;
        }
    }

    pub(crate) fn forget(&mut self, is_gone: impl Fn(&K) -> bool) {
        let before = self.slots.len();
        let mut freed = 0;
        self.slots.retain(|key, slot| {
            let is_kept = !is_gone(key);
            freed += if is_kept { 0 } else { slot.weight };
            is_kept
        });
        self.weight -= freed;
        if self.slots.len() < before {
            self.clock.retain(|key| !is_gone(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_map_lets_go_of_what_was_not_asked_for() {
        let mut map = Bounded::new(10);
        for key in 0..5 {
            map.insert(key, key * 10, 2);
        }
        assert_eq!(map.get(0), Some(0));
        assert_eq!(map.get(3), Some(30));
        map.insert(5, 50, 3);
        assert!(map.weight <= 10);
        let kept: Vec<i32> = (0..6).filter_map(|key| map.get(key)).collect();
        assert_eq!(kept, [0, 30, 40, 50]);
    }

    #[test]
    fn weights_add_up_whatever_comes_and_goes() {
        let mut map = Bounded::new(100);
        let mut state = 88_172_645_463_325_252_u64;
        for _ in 0..10_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let key = state % 60;
            match state >> 32 & 7 {
                0 => map.forget(|known| *known == key),
                1..4 => drop(map.get(key)),
                _ => map.insert(key, key, 1 + state % 30),
            }
            let weight: u64 = map.slots.values().map(|slot| slot.weight).sum();
            assert_eq!(map.weight, weight);
            assert!(weight <= 100);
            assert_eq!(map.clock.len(), map.slots.len());
        }
    }

    #[test]
    fn what_is_heavier_than_the_limit_is_not_kept() {
        let mut map = Bounded::new(10);
        map.insert(1, 1, 4);
        map.insert(2, 2, 11);
        assert_eq!((map.get(1), map.get(2)), (Some(1), None));
        map.weight_max = 3;
        map.insert(3, 3, 9);
        assert_eq!((map.get(1), map.get(3), map.weight), (None, None, 0));
    }
}
