//! Blocks that were read, checked and decoded: the recent ones, up to so many bytes of the memory budget.

use std::sync::Arc;

use roaring::RoaringBitmap;

use super::block::Dictionary;
use crate::budget::{Charge, MemoryBudget, MemoryUse};
use crate::catalogue::CodeColumn;
use crate::ranked::{Locked, Mutex, Rank};
use crate::segment::Bounded;

/// File id and offset.
type Key = (u64, u64);

/// What a block is once it is decoded.
#[derive(Debug, Clone)]
pub(super) enum Decoded {
    /// Ids, or hashes and after them their ordinals.
    Numbers(Arc<Vec<u32>>),
    /// Codes of a tag, counted from 0.
    Codes(Arc<CodeColumn>),
    Dictionary(Arc<Dictionary>),
    /// Ordinals that have a value.
    List(Arc<RoaringBitmap>),
}

impl Decoded {
    fn bytes(&self) -> usize {
        let own = match self {
            Self::Numbers(numbers) => numbers.capacity() * size_of::<u32>(),
            Self::Codes(codes) => codes.bytes(),
            Self::Dictionary(dictionary) => dictionary.bytes(),
            Self::List(list) => {
                let of = list.statistics();
                let bytes = of.n_bytes_array_containers
                    + of.n_bytes_run_containers
                    + of.n_bytes_bitset_containers;
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }
        };
        // The entry, its place in the order and the counters of the shared pointer.
        own + 2 * size_of::<(Key, Self)>() + 64
    }
}

/// Shared by all index files of a store.
#[derive(Debug)]
pub(crate) struct BlockCache {
    budget: MemoryBudget,
    bytes_max: u64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    blocks: Bounded<Key, Decoded>,
    charge: Charge,
}

impl BlockCache {
    /// Room for so many bytes of decoded blocks, if half of what the budget leaves for caches is as much.
    pub(crate) fn new(bytes_max: u64, budget: &MemoryBudget) -> Self {
        Self {
            budget: budget.clone(),
            bytes_max,
            inner: Mutex::new(
                Rank::IndexBlocks,
                Inner {
                    blocks: Bounded::new(bytes_max),
                    charge: budget.take(MemoryUse::Cache, 0),
                },
            ),
        }
    }

    pub(super) fn get(&self, key: Key) -> Option<Decoded> {
        self.lock().blocks.get(key)
    }

    pub(super) fn insert(&self, key: Key, block: Decoded) {
        let inner = &mut *self.lock();
        let half = self.budget.limit(MemoryUse::Cache) / 2;
        inner.blocks.limit(self.bytes_max.min(half));
        let bytes = block.bytes() as u64;
        inner.blocks.insert(key, block, bytes);
        inner.charge.set(inner.blocks.weight());
    }

    /// Forgets the blocks of a file.
    pub(super) fn forget(&self, file_id: u64) {
        let inner = &mut *self.lock();
        inner.blocks.forget(|key| key.0 == file_id);
        inner.charge.set(inner.blocks.weight());
    }

    /// Memory of the blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().blocks.weight()
    }

    fn lock(&self) -> Locked<'_, Inner> {
        self.inner.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Decoded {
        Decoded::Numbers(Arc::new(vec![0; 100]))
    }

    #[test]
    fn keeps_what_is_asked_for_within_its_limit_and_the_budget_knows() {
        let budget = MemoryBudget::new(64 << 20);
        let cache = BlockCache::new(10_000, &budget);
        for n in 0..1000 {
            cache.insert((1, n), block());
            assert!(cache.bytes() <= 10_000, "{} bytes", cache.bytes());
            assert_eq!(budget.used(MemoryUse::Cache), cache.bytes());
            let kept = cache.get((1, 0)).is_some();
            assert!(kept, "block 0 was asked for before block {n}");
        }
        assert!(cache.get((1, 500)).is_none());
        cache.forget(1);
        assert_eq!((cache.bytes(), budget.used(MemoryUse::Cache)), (0, 0));
    }

    #[test]
    fn gives_way_to_what_else_needs_memory() {
        let budget = MemoryBudget::new(8 << 20);
        let cache = BlockCache::new(1 << 20, &budget);
        cache.insert((1, 0), block());
        assert!(cache.get((1, 0)).is_some());
        let _head = budget.take(MemoryUse::Head, 8 << 20);
        cache.insert((1, 1), block());
        assert_eq!((cache.bytes(), budget.used(MemoryUse::Cache)), (0, 0));
    }
}
