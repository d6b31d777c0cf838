//! The rows of one relation in versions, found by their keys.
//!
//! Does: add and end versions, answer which row has a key as of an LSN, forget versions that nobody can see any more.
//! Does not: decide about LSNs or who holds them.
//!
//! A version is visible from the LSN that made it up to, and without, the one that ended it. Indexes have all
//! versions, so a look-up as of any LSN is one probe; of those with equal keys at most one is visible as of any LSN.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

use super::RelationSchema;
use super::value::{Row, Value};
use crate::schema::Lsn;

/// End of a version that is still there.
pub(super) const LIVE: Lsn = Lsn::MAX;

/// A row from one change to the next.
#[derive(Debug, Clone)]
struct Version {
    row: Row,
    from: Lsn,
    to: Lsn,
}

impl Version {
    fn is_visible(&self, lsn: Lsn) -> bool {
        self.from <= lsn && lsn < self.to
    }
}

/// The versions of one relation's rows.
#[derive(Debug, Clone)]
pub(super) struct Versions {
    slots: Vec<Option<Version>>,
    free: Vec<u32>,
    /// The primary key's first, then those of the unique keys in their order.
    indexes: Vec<Index>,
    /// By the LSN that ended them, ascending.
    ended: VecDeque<(Lsn, u32)>,
    live: usize,
    /// Of rows, without slots and indexes.
    row_bytes: usize,
    /// Keys come from strangers, so their hashes must not be theirs to choose.
    hasher: RandomState,
}

#[derive(Debug, Clone)]
struct Index {
    columns: Vec<u32>,
    slots: HashTable<u32>,
}

/// A row's values at the positions of a key; `None` = one is null, so the key equals nothing.
fn key_of<'a>(
    columns: &'a [u32],
    row: &'a [Value],
) -> Option<impl Iterator<Item = &'a Value> + 'a> {
    let values = || columns.iter().filter_map(|&at| row.get(at as usize));
    let has_null = values().any(|value| matches!(value, Value::Null));
    (!has_null).then(values)
}

fn hash_of<'a>(hasher: &RandomState, key: impl Iterator<Item = &'a Value>) -> u64 {
    let mut state = hasher.build_hasher();
    for value in key {
        value.hash_key(&mut state);
    }
    state.finish()
}

fn version(slots: &[Option<Version>], slot: u32) -> Option<&Version> {
    slots.get(slot as usize)?.as_ref()
}

impl Versions {
    pub(super) fn new(schema: &RelationSchema) -> Self {
        let keys = std::iter::once(&schema.primary_key).chain(&schema.unique);
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            indexes: keys
                .map(|columns| Index {
                    columns: columns.clone(),
                    slots: HashTable::new(),
                })
                .collect(),
            ended: VecDeque::new(),
            live: 0,
            row_bytes: 0,
            hasher: RandomState::new(),
        }
    }

    /// The slot of the row whose key of this number has these values, as of an LSN; [`LIVE`] - 1 = the newest.
    pub(super) fn find(&self, index: usize, key: &[Value], lsn: Lsn) -> Option<u32> {
        let index = self.indexes.get(index)?;
        if key.len() != index.columns.len() {
            return None;
        }
        let hash = hash_of(&self.hasher, key.iter());
        let found = index.slots.find(hash, |&slot| {
            version(&self.slots, slot).is_some_and(|version| {
                version.is_visible(lsn)
                    && key_of(&index.columns, &version.row)
                        .is_some_and(|own| own.zip(key).all(|(own, value)| own.matches(value)))
            })
        });
        found.copied()
    }

    /// The slot of the live row that shares the key of this number with `row`.
    pub(super) fn find_same(&self, index: usize, row: &[Value]) -> Option<u32> {
        let Index { columns, slots } = self.indexes.get(index)?;
        let hash = hash_of(&self.hasher, key_of(columns, row)?);
        let found = slots.find(hash, |&slot| {
            let live = version(&self.slots, slot).filter(|version| version.to == LIVE);
            let other = live.and_then(|live| key_of(columns, &live.row));
            let both = other.zip(key_of(columns, row));
            both.is_some_and(|(other, own)| other.zip(own).all(|(a, b)| a.matches(b)))
        });
        found.copied()
    }

    /// The number of the first key that a live row shares with this one, and its values.
    pub(super) fn conflict(&self, row: &[Value]) -> Option<(usize, Vec<Value>)> {
        let at = (0..self.indexes.len()).find(|&at| self.find_same(at, row).is_some())?;
        let key = key_of(&self.indexes.get(at)?.columns, row)?;
        Some((at, key.cloned().collect()))
    }

    /// Adds a row, visible from `lsn` on. Its keys are those of no live row.
    pub(super) fn add(&mut self, row: &Row, lsn: Lsn) -> u32 {
        self.row_bytes += row_bytes(row);
        self.live += 1;
        let new = Some(Version {
            row: Arc::clone(row),
            from: lsn,
            to: LIVE,
        });
        let slot = if let Some(slot) = self.free.pop() {
            if let Some(place) = self.slots.get_mut(slot as usize) {
                *place = new;
            }
            slot
        } else {
            self.slots.push(new);
            u32::try_from(self.slots.len() - 1).expect("memory ends before 2^32 rows of a relation")
        };
        let (slots, hasher) = (&self.slots, &self.hasher);
        for Index { columns, slots: to } in &mut self.indexes {
            let hash = |row: &[Value]| key_of(columns, row).map(|key| hash_of(hasher, key));
            if let Some(own) = hash(row) {
                to.insert_unique(own, slot, |&other| {
                    let other = version(slots, other);
                    other.and_then(|other| hash(&other.row)).unwrap_or(0)
                });
            }
        }
        slot
    }

    /// Ends a live row: it is not visible from `lsn` on.
    pub(super) fn end(&mut self, slot: u32, lsn: Lsn) {
        if let Some(Some(version)) = self.slots.get_mut(slot as usize) {
            version.to = lsn;
            self.live -= 1;
            self.ended.push_back((lsn, slot));
        }
    }

    /// Takes back [`Self::add`]; what was done after it is taken back already.
    pub(super) fn unadd(&mut self, slot: u32) {
        self.live -= 1;
        self.forget(slot);
    }

    /// Takes back [`Self::end`]; what was done after it is taken back already.
    pub(super) fn unend(&mut self, slot: u32) {
        self.ended.pop_back();
        if let Some(Some(version)) = self.slots.get_mut(slot as usize) {
            version.to = LIVE;
            self.live += 1;
        }
    }

    /// Forgets what no LSN from `lowest` up sees.
    pub(super) fn prune(&mut self, lowest: Lsn) {
        while let Some(&(to, slot)) = self.ended.front()
            && to <= lowest
        {
            self.ended.pop_front();
            self.forget(slot);
        }
        if self.free.len() == self.slots.len() {
            // Nothing is left, so the memory goes too.
            self.slots = Vec::new();
            self.free = Vec::new();
            for index in &mut self.indexes {
                index.slots = HashTable::new();
            }
        }
    }

    /// A planted bug: nobody finds the row by its unique keys any more.
    pub(super) fn forget_unique_keys(&mut self, slot: u32) {
        let Some(version) = version(&self.slots, slot) else {
            return;
        };
        for index in self.indexes.iter_mut().skip(1) {
            let hash = key_of(&index.columns, &version.row).map(|key| hash_of(&self.hasher, key));
            let found = hash.and_then(|hash| index.slots.find_entry(hash, |it| *it == slot).ok());
            if let Some(found) = found {
                found.remove();
            }
        }
    }

    fn forget(&mut self, slot: u32) {
        let Some(version) = self.slots.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        self.row_bytes -= row_bytes(&version.row);
        for index in &mut self.indexes {
            let Some(key) = key_of(&index.columns, &version.row) else {
                continue;
            };
            let hash = hash_of(&self.hasher, key);
            if let Ok(found) = index.slots.find_entry(hash, |&other| other == slot) {
                found.remove();
            }
        }
        self.free.push(slot);
    }

    /// The rows as of an LSN.
    pub(super) fn visible(&self, lsn: Lsn) -> Vec<Row> {
        let versions = self.slots.iter().flatten();
        let seen = versions.filter(|version| version.is_visible(lsn));
        seen.map(|version| Arc::clone(&version.row)).collect()
    }

    pub(super) fn row(&self, slot: u32) -> Option<&Row> {
        version(&self.slots, slot).map(|version| &version.row)
    }

    /// The LSN that made a row what it is.
    pub(super) fn since(&self, slot: u32) -> Option<Lsn> {
        version(&self.slots, slot).map(|version| version.from)
    }

    /// Number of rows that are not ended.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Number of rows that are kept, ended ones included.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Memory in use, roughly.
    pub(super) fn bytes(&self) -> usize {
        let indexes = self.indexes.iter().map(|it| it.slots.allocation_size());
        self.row_bytes
            + self.slots.capacity() * size_of::<Option<Version>>()
            + self.free.capacity() * size_of::<u32>()
            + self.ended.capacity() * size_of::<(Lsn, u32)>()
            + indexes.sum::<usize>()
    }
}

/// Memory of a row: its counters, its values and what they point to.
fn row_bytes(row: &Row) -> usize {
    let heap: usize = row.iter().map(Value::heap_bytes).sum();
    2 * size_of::<usize>() + size_of_val::<[Value]>(row) + heap
}
