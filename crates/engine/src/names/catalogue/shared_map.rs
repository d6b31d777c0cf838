//! A sorted map whose copies share what they have in common.
//!
//! Does: copy itself in the time of one pointer, however large it is; who changes a copy copies a list of parts and the one
//! part that is changed, and the next change of it is free. Does not: join parts that became small.

use std::borrow::Borrow;
use std::sync::Arc;

/// Most entries of a part: copying so many names takes about as long as copying the pointers to the parts of a hundred
/// thousand.
const PART_ENTRIES_MAX: usize = 256;

#[derive(Debug, Clone)]
pub(super) struct SharedMap<K, V> {
    /// Each sorted and above the one before, none empty.
    parts: Arc<Vec<Part<K, V>>>,
    len: usize,
}

type Part<K, V> = Arc<Vec<(K, V)>>;

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self {
            parts: Arc::default(),
            len: 0,
        }
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let part = self.parts.get(self.part_of(key))?;
        let at = place_in(part, key).ok()?;
        part.get(at).map(|(_, value)| value)
    }

    pub(super) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.part_of(key);
        // Asked first, because nothing is copied for a key that is not there.
        let place = place_in(self.parts.get(at)?, key).ok()?;
        let part = Arc::make_mut(&mut self.parts).get_mut(at)?;
        let entry = Arc::make_mut(part).get_mut(place)?;
        Some(&mut entry.1)
    }

    /// Adds an entry; false = its key is there, and nothing was changed.
    pub(super) fn insert(&mut self, key: K, value: V) -> bool {
        let at = self.part_of(&key);
        let Some(part) = self.parts.get(at) else {
            Arc::make_mut(&mut self.parts).push(Arc::new(vec![(key, value)]));
            self.len += 1;
            return true;
        };
        let Err(place) = place_in(part, &key) else {
            return false;
        };
        self.len += 1;
        let parts = Arc::make_mut(&mut self.parts);
        let Some(part) = parts.get_mut(at).map(Arc::make_mut) else {
            return false;
        };
        part.insert(place, (key, value));
        if part.len() > PART_ENTRIES_MAX {
            // Keys that ascend, as ids do, leave full parts behind.
            let cut = if place == PART_ENTRIES_MAX {
                place
            } else {
                PART_ENTRIES_MAX / 2
            };
            let upper = part.split_off(cut);
            parts.insert(at + 1, Arc::new(upper));
        }
        true
    }

    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.part_of(key);
        let place = place_in(self.parts.get(at)?, key).ok()?;
        let parts = Arc::make_mut(&mut self.parts);
        let part = Arc::make_mut(parts.get_mut(at)?);
        let (_, value) = part.remove(place);
        if part.is_empty() {
            parts.remove(at);
        }
        self.len -= 1;
        Some(value)
    }

    /// All entries, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let parts = self.parts.iter();
        parts.flat_map(|part| part.iter().map(|(key, value)| (key, value)))
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// Keys from this one on, ascending.
    pub(super) fn keys_from<'a>(
        &'a self,
        first: &K,
    ) -> impl Iterator<Item = &'a K> + use<'a, K, V> {
        let at = self.part_of(first);
        let mut parts = self.parts.iter().skip(at);
        let part = parts.next().map(|part| part.as_slice());
        let part = part.unwrap_or_default();
        let below = part.partition_point(|(key, _)| key < first);
        let rest = part.get(below..).unwrap_or_default();
        let entries = rest.iter().chain(parts.flat_map(|part| part.iter()));
        entries.map(|(key, _)| key)
    }

    /// The part that has a key if one does.
    fn part_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let starts_below = |part: &Part<K, V>| {
            let first = part.first();
            first.is_some_and(|(first, _)| first.borrow() <= key)
        };
        self.parts.partition_point(starts_below).saturating_sub(1)
    }
}

fn place_in<K: Borrow<Q>, V, Q: Ord + ?Sized>(part: &[(K, V)], key: &Q) -> Result<usize, usize> {
    part.binary_search_by(|(own, _)| own.borrow().cmp(key))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(u16, u8),
        Remove(u16),
        Change(u16, u8),
        Copy,
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few keys, so that they meet, and more than a part has.
        let key = || 0u16..600;
        prop_oneof![
            6 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Insert(key, value)),
            3 => key().prop_map(Step::Remove),
            3 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Change(key, value)),
            1 => Just(Step::Copy),
        ]
    }

    fn entries(map: &SharedMap<u16, u8>) -> Vec<(u16, u8)> {
        map.iter().map(|(key, value)| (*key, *value)).collect()
    }

    fn listed(map: &BTreeMap<u16, u8>) -> Vec<(u16, u8)> {
        map.iter().map(|(key, value)| (*key, *value)).collect()
    }

    proptest! {
        #[test]
        fn a_map_and_its_copies_are_what_the_standard_map_is(
            first in 0u16..900,
            steps in proptest::collection::vec(step(), 0..600),
        ) {
            let (mut map, mut want) = (SharedMap::default(), BTreeMap::new());
            for key in 0..first {
                map.insert(key, 0);
                want.insert(key, 0);
            }
            let mut copies = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(key, value) => {
                        let is_new = !want.contains_key(&key);
                        want.entry(key).or_insert(value);
                        prop_assert_eq!(map.insert(key, value), is_new);
                    }
                    Step::Remove(key) => prop_assert_eq!(map.remove(&key), want.remove(&key)),
                    Step::Change(key, to) => {
                        prop_assert_eq!(map.get(&key), want.get(&key));
                        if let Some(value) = map.get_mut(&key) {
                            *value = to;
                            want.insert(key, to);
                        }
                    }
                    Step::Copy => copies.push((map.clone(), want.clone())),
                }
            }
            copies.push((map, want));
            for (map, want) in &copies {
                prop_assert_eq!(entries(map), listed(want));
                prop_assert_eq!(map.len(), want.len());
                for from in [0, 1, 255, 256, 300, 599, 1000] {
                    let found: Vec<u16> = map.keys_from(&from).copied().collect();
                    let keys: Vec<u16> = want.range(from..).map(|(key, _)| *key).collect();
                    prop_assert_eq!(found, keys);
                }
                for part in map.parts.iter() {
                    prop_assert!((1..=PART_ENTRIES_MAX).contains(&part.len()));
                }
            }
        }
    }

    /// A hundred thousand tables and a query after each new one would copy ten billion names.
    #[test]
    fn a_change_after_a_copy_copies_one_part() {
        let mut map = SharedMap::default();
        for key in 0..10_000u32 {
            map.insert(key, ());
        }
        let copy = map.clone();
        map.insert(10_001, ());
        let shared = copy.parts.iter().zip(map.parts.iter());
        let copied = shared.filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        assert!(copied <= 1, "{copied} of {} parts", copy.parts.len());
        assert_eq!(copy.len() + 1, map.len());
    }
}
