//! Postings of one tag: the series that have each value.
//!
//! Does: turn codes into sets of ordinals. Built when a reader first asks about the tag, and brought up to date when one
//! asks again, so that writers pay nothing for it. Does not: know values (`dictionary.rs` does).

use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;

use super::codes::CodeColumn;

/// In place of the first ordinal of a code that has none.
const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Postings {
    /// Ordinals that are in.
    ordinals: u32,
    /// By code: its first ordinal. Most codes of a tag that has many have no other.
    first: Vec<u32>,
    /// By code that has several ordinals: all of them.
    several: FxHashMap<u32, RoaringBitmap>,
    absent: RoaringBitmap,
}

impl Postings {
    /// Whether all of so many ordinals are in.
    pub(super) fn is_current(&self, ordinals: u32) -> bool {
        self.ordinals >= ordinals
    }

    /// Takes in the ordinals that are new.
    pub(super) fn catch_up(&mut self, codes: &CodeColumn, ordinals: u32) {
        let mut next = self.ordinals;
        codes.each_from(self.ordinals, |ordinal, code| {
            self.absent.insert_range(next..ordinal);
            next = ordinal.saturating_add(1);
            self.add(code, ordinal);
        });
        self.absent.insert_range(next..ordinals.max(next));
        self.ordinals = self.ordinals.max(ordinals);
    }

    fn add(&mut self, code: u32, ordinal: u32) {
        let at = code as usize;
        if at >= self.first.len() {
            self.first.resize(at + 1, NONE);
        }
        let Some(first) = self.first.get_mut(at) else {
            return;
        };
        if *first == NONE {
            *first = ordinal;
            return;
        }
        let first = *first;
        let all = self.several.entry(code).or_insert_with(|| {
            let mut all = RoaringBitmap::new();
            all.insert(first);
            all
        });
        all.insert(ordinal);
    }

    /// The ordinals that have one of some codes, or no code if `absent`.
    pub(super) fn union(&self, codes: &[u32], absent: bool) -> RoaringBitmap {
        let mut single = Vec::new();
        let mut set = if absent {
            self.absent.clone()
        } else {
            RoaringBitmap::new()
        };
        for &code in codes {
            match self.several.get(&code) {
                Some(all) => set |= all,
                None => single.extend(self.first.get(code as usize).filter(|&&at| at != NONE)),
            }
        }
        // Many codes in their order have ordinals nearly in theirs, and a bitmap is built fastest from ascending numbers.
        single.sort_unstable();
        single.dedup();
        set |= RoaringBitmap::from_sorted_iter(single).expect("they are sorted, each once");
        set
    }

    /// Memory in use at most: a set takes no more than two bytes a member.
    pub(super) fn bytes(&self) -> usize {
        let entry = size_of::<(u32, RoaringBitmap)>();
        self.ordinals as usize * 2
            + self.several.capacity() * entry
            + self.first.capacity() * size_of::<u32>()
    }
}
