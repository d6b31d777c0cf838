//! The series memo: hash of a series text to its id, shared by all writers.
//!
//! Does: find the id of a series text at about 40 bytes a series, for all sessions together. Does not: keep the text; it
//! keeps 128 bits of a keyed hash, and two texts have the same with a probability of 10^-21 when there are a thousand
//! million of them. Does not: know about tags; what it forgot is found in the catalogue again.
//!
//! What it knows was looked up at one epoch of the catalogue. Writers of an older one find nothing and teach nothing, and
//! what they write will be refused; the first of a newer one makes it forget.

use crate::catalogue::IdTable;
use crate::schema::{SchemaId, SeriesId, TableId};
use crate::text_hash::TextHash;

/// A series text, as a memo knows it.
pub(super) type Fingerprint = u128;

/// Series texts to ids. Shared by the sessions of an engine.
#[derive(Debug)]
pub(crate) struct SeriesMemo {
    hash: TextHash,
    /// In the order in which they first came, which is the order in which they tend to come again.
    entries: Vec<Entry>,
    by_text: IdTable,
    bytes_max: usize,
    /// Of the catalogue, when all of it was looked up.
    epoch: u64,
}

/// 24 bytes, which the alignment of a `u128` would make 32.
#[derive(Debug, Clone, Copy)]
struct Entry {
    upper: u64,
    lower: u64,
    table: TableId,
    series: SeriesId,
}

impl Entry {
    #[inline]
    fn is(&self, text: Fingerprint) -> bool {
        self.upper == upper(text) && self.lower == lower(text)
    }
}

fn upper(text: Fingerprint) -> u64 {
    (text >> 64) as u64
}

#[expect(clippy::cast_possible_truncation, reason = "the other half is `upper`")]
fn lower(text: Fingerprint) -> u64 {
    text as u64
}

impl SeriesMemo {
    /// A memo that forgets everything when it would take more memory than this.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            hash: TextHash::default(),
            entries: Vec::new(),
            by_text: IdTable::default(),
            bytes_max,
            epoch: 0,
        }
    }

    /// Forgets everything if it was looked up before this epoch.
    pub(super) fn follow(&mut self, epoch: u64) {
        if self.epoch < epoch {
            self.clear();
            self.epoch = epoch;
        }
    }

    /// What stands for a series text of a schema.
    #[inline]
    pub(super) fn fingerprint(&self, schema: SchemaId, text: &[u8]) -> Fingerprint {
        self.hash.long(text) ^ u128::from(schema.0)
    }

    /// The table and the id of a series text, if it is remembered. `expected` is where it would be if the texts came in
    /// the same order as before; it moves on.
    #[inline]
    pub(super) fn find(
        &self,
        text: Fingerprint,
        epoch: u64,
        expected: &mut usize,
    ) -> Option<(TableId, SeriesId)> {
        if self.epoch != epoch {
            return None;
        }
        let entry = match self.entries.get(*expected) {
            Some(entry) if entry.is(text) => entry,
            _ => self.search(text, expected)?,
        };
        *expected += 1;
        Some((entry.table, entry.series))
    }

    fn search(&self, text: Fingerprint, expected: &mut usize) -> Option<&Entry> {
        let at = self.by_text.find(lower(text), |at| {
            let entry = self.entries.get(at as usize);
            entry.is_some_and(|entry| entry.is(text))
        })?;
        *expected = at as usize;
        self.entries.get(*expected)
    }

    /// Remembers a text, unless it does already.
    pub(super) fn insert(
        &mut self,
        text: Fingerprint,
        epoch: u64,
        table: TableId,
        series: SeriesId,
    ) {
        if self.epoch != epoch || self.search(text, &mut 0).is_some() {
            return;
        }
        if self.bytes() >= self.bytes_max {
            self.clear();
        }
        let Ok(at) = u32::try_from(self.entries.len()) else {
            return;
        };
        self.entries.push(Entry {
            upper: upper(text),
            lower: lower(text),
            table,
            series,
        });
        self.by_text.insert(lower(text), at);
    }

    /// Forgets everything.
    fn clear(&mut self) {
        self.entries = Vec::new();
        self.by_text = IdTable::default();
    }

    /// Memory in use.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len() * size_of::<Entry>() + self.by_text.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u32) -> Vec<u8> {
        format!("cpu,host={n}").into_bytes()
    }

    #[test]
    fn finds_what_was_inserted_in_any_order_and_by_schema() {
        let mut memo = SeriesMemo::new(usize::MAX);
        let schema = SchemaId(1);
        for n in 0..1000 {
            let text = memo.fingerprint(schema, &name(n));
            assert_eq!(memo.find(text, 0, &mut 0), None);
            memo.insert(text, 0, TableId(7), SeriesId(n + 1));
            memo.insert(text, 0, TableId(7), SeriesId(n + 1));
        }
        let mut expected = 0;
        for n in (0..1000).chain((0..1000).rev()).chain([5, 5, 5, 999, 0]) {
            let text = memo.fingerprint(schema, &name(n));
            let found = memo.find(text, 0, &mut expected);
            assert_eq!(found, Some((TableId(7), SeriesId(n + 1))));
        }
        let elsewhere = memo.fingerprint(SchemaId(2), &name(5));
        assert_eq!(memo.find(elsewhere, 0, &mut expected), None);
    }

    #[test]
    fn takes_no_more_memory_than_allowed_and_goes_on_working() {
        let mut memo = SeriesMemo::new(100_000);
        for n in 0..100_000 {
            let text = memo.fingerprint(SchemaId(1), &name(n));
            memo.insert(text, 0, TableId(1), SeriesId(n));
            assert_eq!(memo.find(text, 0, &mut 0), Some((TableId(1), SeriesId(n))));
            // One doubling of the table may come before the next check.
            assert!(memo.bytes() < 200_000, "{} bytes", memo.bytes());
        }
    }

    #[test]
    fn a_change_of_the_catalogue_makes_it_forget_and_older_writers_learn_nothing() {
        let mut memo = SeriesMemo::new(usize::MAX);
        let text = memo.fingerprint(SchemaId(1), &name(1));
        memo.insert(text, 0, TableId(1), SeriesId(1));
        memo.follow(3);
        assert_eq!(memo.find(text, 3, &mut 0), None);
        memo.insert(text, 3, TableId(2), SeriesId(2));
        memo.follow(1);
        memo.insert(text, 1, TableId(1), SeriesId(1));
        assert_eq!(memo.find(text, 1, &mut 0), None);
        assert_eq!(memo.find(text, 3, &mut 0), Some((TableId(2), SeriesId(2))));
    }
}
