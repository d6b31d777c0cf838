//! What a session remembers: series text to id, and which series came after which.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::schema::SeriesId;

/// Text that a memo holds before it starts anew; a session of more series than this is slower, never wrong.
const TEXT_BYTES_MAX: usize = 256 << 20;

#[derive(Debug, Default)]
pub(super) struct SeriesMemo {
    text: Vec<u8>,
    entries: Vec<Entry>,
    by_text: HashTable<u32>,
    /// The entry found last.
    last: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u32,
    length: u32,
    slot: u32,
    series: SeriesId,
    /// The entry that was asked for after this one last time.
    next: u32,
}

fn hash(text: &[u8]) -> u64 {
    FxBuildHasher.hash_one(text)
}

fn text_of<'a>(text: &'a [u8], entry: &Entry) -> &'a [u8] {
    let start = entry.start as usize;
    text.get(start..start + entry.length as usize)
        .unwrap_or_default()
}

impl SeriesMemo {
    /// The table slot and the id of a series text, if it was seen.
    #[inline]
    pub(super) fn find(&mut self, text: &[u8]) -> Option<(usize, SeriesId)> {
        let predicted = self.entries.get(self.last)?.next;
        if let Some(entry) = self.entries.get(predicted as usize)
            && text_of(&self.text, entry) == text
        {
            self.last = predicted as usize;
            return Some((entry.slot as usize, entry.series));
        }
        self.search(text)
    }

    fn search(&mut self, text: &[u8]) -> Option<(usize, SeriesId)> {
        let at = *self.by_text.find(hash(text), |&at| {
            let entry = self.entries.get(at as usize);
            entry.is_some_and(|entry| text_of(&self.text, entry) == text)
        })?;
        let found = *self.entries.get(at as usize)?;
        if let Some(before) = self.entries.get_mut(self.last) {
            before.next = at;
        }
        self.last = at as usize;
        Some((found.slot as usize, found.series))
    }

    pub(super) fn insert(&mut self, text: &[u8], slot: usize, series: SeriesId) {
        if self.text.len() + text.len() > TEXT_BYTES_MAX {
            *self = Self::default();
        }
        let (Ok(start), Ok(length), Ok(slot), Ok(at)) = (
            u32::try_from(self.text.len()),
            u32::try_from(text.len()),
            u32::try_from(slot),
            u32::try_from(self.entries.len()),
        ) else {
            return;
        };
        self.text.extend_from_slice(text);
        self.entries.push(Entry {
            start,
            length,
            slot,
            series,
            next: 0,
        });
        if let Some(before) = self.entries.get_mut(self.last) {
            before.next = at;
        }
        self.last = at as usize;
        let (entries, texts) = (&self.entries, &self.text);
        self.by_text.insert_unique(hash(text), at, |&at| {
            let entry = entries.get(at as usize);
            hash(entry.map_or(&[], |entry| text_of(texts, entry)))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_inserted_in_any_order() {
        let mut memo = SeriesMemo::default();
        let name = |n: u32| format!("cpu,host={n}").into_bytes();
        for n in 0..1000 {
            assert_eq!(memo.find(&name(n)), None);
            memo.insert(&name(n), 1, SeriesId(n + 1));
        }
        for n in (0..1000).chain((0..1000).rev()).chain([5, 5, 5, 999, 0]) {
            assert_eq!(memo.find(&name(n)), Some((1, SeriesId(n + 1))));
        }
        assert_eq!(memo.find(b"cpu"), None);
    }
}
