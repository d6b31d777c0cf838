//! Ids found by a hash of what they stand for.
//!
//! Does: keep 32 bits of each hash beside the id, so that growing reads nothing else and a wrong candidate is rarely looked
//! at; cut itself into parts when it is large, so that no insert moves more than a part. Does not: know what an id
//! stands for; the caller compares.

use hashbrown::HashTable;

/// Entries at which the one part becomes [`PARTS`].
const ENTRIES_OF_ONE_PART: usize = 1 << 16;
/// A power of two: a part is chosen by the upper bits of a hash.
const PARTS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct IdTable {
    /// All entries while they are few: most tables have a handful of series, and a list of parts would be larger.
    one: HashTable<Slot>,
    /// None or [`PARTS`].
    parts: Vec<HashTable<Slot>>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u32,
    id: u32,
}

/// All bits of a hash in 32.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the upper half was mixed in before it is cut off"
)]
fn fold(hash: u64) -> u32 {
    (hash ^ (hash >> 32)) as u32
}

/// 32 bits over 64, because the hash table looks at both ends.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The part of a hash, where there are parts.
fn part_of(hash: u32) -> usize {
    (hash >> (u32::BITS - PARTS.ilog2())) as usize
}

impl IdTable {
    /// The id with this hash that `is` takes for the right one.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        let hash = fold(hash);
        let part = self.parts.get(part_of(hash)).unwrap_or(&self.one);
        part.find(spread(hash), |slot| slot.hash == hash && is(slot.id))
            .map(|slot| slot.id)
    }

    /// Adds an id that is not there.
    pub(crate) fn insert(&mut self, hash: u64, id: u32) {
        if self.parts.is_empty() && self.one.len() >= ENTRIES_OF_ONE_PART {
            self.cut();
        }
        self.put(Slot {
            hash: fold(hash),
            id,
        });
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.parts().map(HashTable::len).sum()
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.parts().map(HashTable::allocation_size).sum()
    }

    fn parts(&self) -> impl Iterator<Item = &HashTable<Slot>> {
        std::iter::once(&self.one).chain(&self.parts)
    }

    fn put(&mut self, slot: Slot) {
        let part = self.parts.get_mut(part_of(slot.hash));
        let part = part.unwrap_or(&mut self.one);
        part.insert_unique(spread(slot.hash), slot, |slot| spread(slot.hash));
    }

    #[cold]
    fn cut(&mut self) {
        self.parts = vec![HashTable::new(); PARTS];
        for slot in std::mem::take(&mut self.one) {
            self.put(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_every_id_also_when_hashes_are_equal_or_few() {
        for spread_over in [1u64, 1000, u64::MAX] {
            let entries = if spread_over == 1 { 500 } else { 200_000 };
            let hash = |id: u32| (u64::from(id) % spread_over).wrapping_mul(0xD6E8_FEB8_6659_FD93);
            let mut table = IdTable::default();
            assert_eq!(table.find(hash(1), |_| true), None);
            for id in 0..entries {
                table.insert(hash(id), id);
            }
            for id in (0..entries).step_by(97) {
                assert_eq!(table.find(hash(id), |found| found == id), Some(id));
            }
            assert_eq!(table.find(hash(entries), |found| found == entries), None);
            assert_eq!(table.len(), entries as usize);
        }
    }
}
