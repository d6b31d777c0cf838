//! Blocks that were read and checked, the recent ones, up to so many bytes.
//!
//! Two generations: what is asked for moves to the young one; when that is half of the limit it becomes the old one and
//! the old one goes. So what was not asked for lately goes first, at no cost for what stays.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

/// File id and offset.
type Key = (u64, u64);

/// Shared by all index files of a store.
#[derive(Debug)]
pub(crate) struct BlockCache {
    bytes_max: usize,
    generations: Mutex<Generations>,
}

#[derive(Debug, Default)]
struct Generations {
    young: FxHashMap<Key, Arc<Vec<u8>>>,
    young_bytes: usize,
    old: FxHashMap<Key, Arc<Vec<u8>>>,
    old_bytes: usize,
}

impl BlockCache {
    /// A cache of at most so many bytes and one block.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            generations: Mutex::default(),
        }
    }

    pub(super) fn get(&self, key: Key) -> Option<Arc<Vec<u8>>> {
        let mut generations = self.lock();
        if let Some(found) = generations.young.get(&key) {
            return Some(Arc::clone(found));
        }
        let found = generations.old.remove(&key)?;
        generations.old_bytes -= found.len();
        generations.insert(key, Arc::clone(&found), self.bytes_max);
        Some(found)
    }

    pub(super) fn insert(&self, key: Key, block: Arc<Vec<u8>>) {
        self.lock().insert(key, block, self.bytes_max);
    }

    /// Forgets the blocks of a file.
    pub(super) fn forget(&self, file_id: u64) {
        let generations = &mut *self.lock();
        generations.young.retain(|key, _| key.0 != file_id);
        generations.old.retain(|key, _| key.0 != file_id);
        let bytes = |blocks: &FxHashMap<Key, Arc<Vec<u8>>>| blocks.values().map(|b| b.len()).sum();
        generations.young_bytes = bytes(&generations.young);
        generations.old_bytes = bytes(&generations.old);
    }

    /// Memory of the blocks.
    pub(crate) fn bytes(&self) -> usize {
        let generations = self.lock();
        generations.young_bytes + generations.old_bytes
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        self.generations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn insert(&mut self, key: Key, block: Arc<Vec<u8>>, bytes_max: usize) {
        let bytes = block.len();
        if let Some(before) = self.young.insert(key, block) {
            self.young_bytes -= before.len();
        }
        self.young_bytes += bytes;
        if self.young_bytes > bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.old_bytes = std::mem::take(&mut self.young_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_is_asked_for_and_stays_below_its_limit() {
        let cache = BlockCache::new(1000);
        for n in 0..1000 {
            cache.insert((1, n), Arc::new(vec![0; 10]));
            assert!(cache.bytes() <= 1010, "{} bytes", cache.bytes());
            assert!(
                cache.get((1, 0)).is_some(),
                "block 0 was asked for before block {n}"
            );
        }
        assert!(cache.get((1, 500)).is_none());
        cache.forget(1);
        assert_eq!(cache.bytes(), 0);
    }
}
