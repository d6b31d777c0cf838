//! Series since the last flush, in no index file yet: tag values, their codes and their postings.
//!
//! Does: find or add a series by its tags, give the series of a table as an index file takes them. Does not: know names
//! (`catalogue.rs` does), know series that are in files (`layers.rs` does), or select by predicates (`selection.rs` does).
//!
//! A *generation* begins empty when the one before is set aside for a flush, and ends when it is set aside itself.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::OnceLock;

use roaring::RoaringBitmap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::codes::CodeColumn;
use super::dictionary::TagDictionary;
use super::id_table::IdTable;
use super::postings::Postings;
use crate::error::{Error, Malformed};
use crate::index::{Hashing, IndexWriter, TagSeries};
use crate::ranked::{Rank, RwLock};
use crate::schema::{ColumnId, SeriesId, TableId};
use crate::text_hash::TextHash;

/// Series of all tables that came between two flushes.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    tables: FxHashMap<TableId, Table>,
    tags: FxHashMap<ColumnId, TagDictionary>,
    /// Of tag values.
    text_hash: TextHash,
    /// Number of series.
    series: usize,
}

/// The series of a table.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Their ids, ascending; a position here is a series' ordinal.
    series: Vec<u32>,
    tags: BTreeMap<ColumnId, Tag>,
    /// By ordinal: how many tags it has.
    tag_counts: CodeColumn,
    /// Ordinals by their set of tags.
    by_tags: IdTable,
}

/// What the series of a table have of one tag.
#[derive(Debug, Default)]
pub(super) struct Tag {
    pub(super) codes: CodeColumn,
    /// Made when a reader first asks about the tag.
    postings: OnceLock<Box<RwLock<Postings>>>,
}

impl Tag {
    pub(super) fn postings(&self) -> &RwLock<Postings> {
        self.postings
            .get_or_init(|| Box::new(RwLock::new(Rank::Postings, Postings::default())))
    }

    fn bytes(&self) -> usize {
        let postings = self.postings.get().map_or(0, |postings| {
            let postings = postings.read();
            size_of::<RwLock<Postings>>() + postings.bytes()
        });
        size_of::<(ColumnId, Self)>() + self.codes.bytes() + postings
    }
}

impl Table {
    /// What its series have of a tag.
    pub(super) fn tag(&self, tag: ColumnId) -> Option<&Tag> {
        self.tags.get(&tag)
    }

    /// Ids of its series, ascending.
    pub(super) fn series(&self) -> &[u32] {
        &self.series
    }

    /// Number of series, as ordinals are counted.
    pub(super) fn ordinal_count(&self) -> u32 {
        u32::try_from(self.series.len()).unwrap_or(u32::MAX)
    }

    /// All ordinals.
    pub(super) fn ordinals(&self) -> RoaringBitmap {
        let mut all = RoaringBitmap::new();
        all.insert_range(0..self.ordinal_count());
        all
    }

    /// Whether an ordinal has exactly these tags. Looks at them alone, because the table may have many more.
    fn has_tags(&self, ordinal: usize, tags: &[(ColumnId, u32)]) -> bool {
        let has = |&(tag, code): &(ColumnId, u32)| {
            let known = self.tags.get(&tag);
            known.is_some_and(|known| known.codes.get(ordinal) == Some(code))
        };
        let count = self.tag_counts.get(ordinal).unwrap_or(0);
        count as usize == tags.len() && tags.iter().all(has)
    }

    /// The id of exactly these tags, which are sorted by tag id.
    fn find(&self, hash: u64, tags: &[(ColumnId, u32)]) -> Option<SeriesId> {
        let ordinal = self
            .by_tags
            .find(hash, |ordinal| self.has_tags(ordinal as usize, tags))?;
        self.series.get(ordinal as usize).map(|&id| SeriesId(id))
    }

    /// Adds a series whose id is above all others, with tags that are sorted by tag id.
    fn push(&mut self, id: u32, hash: u64, tags: &[(ColumnId, u32)]) -> Result<(), Malformed> {
        let ordinal = self.series.len();
        let short = u32::try_from(ordinal)
            .ok()
            .filter(|&ordinal| ordinal < u32::MAX)
            .ok_or_else(|| Malformed::new("more than 2^32 - 1 series in a table"))?;
        for &(tag, code) in tags {
            self.tags.entry(tag).or_default().codes.push(short, code);
        }
        let count = u32::try_from(tags.len()).unwrap_or(u32::MAX - 1);
        if count > 0 {
            self.tag_counts.push(short, count);
        }
        self.series.push(id);
        self.by_tags.insert(hash, short);
        Ok(())
    }

    fn bytes(&self) -> usize {
        let tags: usize = self.tags.values().map(Tag::bytes).sum();
        size_of::<(TableId, Self)>()
            + tags
            + self.series.capacity() * size_of::<u32>()
            + self.tag_counts.bytes()
            + self.by_tags.bytes()
    }
}

fn hash_tags(tags: &[(ColumnId, u32)]) -> u64 {
    let mut hash = 0u64;
    for (tag, code) in tags {
        hash = FxBuildHasher.hash_one((hash, tag.0, code));
    }
    hash
}

impl Generation {
    /// One whose tag values are hashed with `text_hash`.
    pub(super) fn new(text_hash: TextHash) -> Self {
        Self {
            text_hash,
            ..Self::default()
        }
    }

    pub(super) fn table(&self, table: TableId) -> Option<&Table> {
        self.tables.get(&table)
    }

    pub(super) fn dictionary(&self, tag: ColumnId) -> Option<&TagDictionary> {
        self.tags.get(&tag)
    }

    pub(super) fn text_hash(&self) -> &TextHash {
        &self.text_hash
    }

    /// Number of series of all tables.
    pub(super) fn len(&self) -> usize {
        self.series
    }

    /// Ids of all series of a table, ascending.
    pub(super) fn all_series(&self, table: TableId) -> &[u32] {
        self.table(table).map_or(&[], Table::series)
    }

    /// Memory of series and tag values, asked of each.
    pub(crate) fn bytes(&self) -> usize {
        let dictionaries: usize = self.tags.values().map(TagDictionary::bytes).sum();
        dictionaries + self.tables.values().map(Table::bytes).sum::<usize>()
    }

    /// The series of a table with exactly these tags, which are sorted by tag id.
    pub(crate) fn find(&self, table: TableId, tags: &[(ColumnId, &str)]) -> Option<SeriesId> {
        let table = self.tables.get(&table)?;
        let mut codes = Vec::with_capacity(tags.len());
        for (tag, value) in tags {
            codes.push((*tag, self.tags.get(tag)?.code(&self.text_hash, value)?));
        }
        table.find(hash_tags(&codes), &codes)
    }

    /// The dictionary of a tag, made if there is none.
    pub(super) fn dictionary_mut(&mut self, tag: ColumnId) -> (&mut TagDictionary, &TextHash) {
        (self.tags.entry(tag).or_default(), &self.text_hash)
    }

    /// Finds a series by codes of this generation, sorted by tag id, or adds it as `id`; returns its id.
    pub(super) fn find_or_push(
        &mut self,
        table: TableId,
        id: SeriesId,
        codes: &[(ColumnId, u32)],
    ) -> Result<SeriesId, Malformed> {
        let hash = hash_tags(codes);
        let table = self.tables.entry(table).or_default();
        if let Some(known) = table.find(hash, codes) {
            return Ok(known);
        }
        table.push(id.0, hash, codes)?;
        self.series += 1;
        Ok(id)
    }

    /// Adds a series of a transaction, whose id is above all others; its tags are sorted by tag id.
    pub(crate) fn push_own(
        &mut self,
        table: TableId,
        id: SeriesId,
        tags: &[(ColumnId, &str)],
    ) -> Result<(), Malformed> {
        let mut codes = Vec::with_capacity(tags.len());
        for &(tag, value) in tags {
            let (dictionary, hash) = self.dictionary_mut(tag);
            codes.push((tag, dictionary.insert(hash, value)?.0));
        }
        self.find_or_push(table, id, &codes).map(drop)
    }

    /// Appends the codes that series have of a tag, each behind the position of its series, counted from `first`; ids
    /// ascend.
    pub(super) fn codes_of(
        &self,
        table: TableId,
        tag: ColumnId,
        series: &[u32],
        first: u32,
        out: &mut Vec<(u32, u32)>,
    ) {
        let table = self.table(table);
        let Some((table, tag)) = table.and_then(|table| Some((table, table.tag(tag)?))) else {
            return;
        };
        if series == table.series {
            out.reserve(tag.codes.present());
            tag.codes
                .each_from(0, |ordinal, code| out.push((first + ordinal, code)));
            return;
        }
        if tag.codes.present() < series.len() {
            tag.codes.each_from(0, |ordinal, code| {
                let id = table.series.get(ordinal as usize);
                let at = id.and_then(|id| series.binary_search(id).ok());
                let at = at.and_then(|at| u32::try_from(at).ok());
                out.extend(at.map(|at| (first + at, code)));
            });
            return;
        }
        for (at, id) in (first..).zip(series) {
            let ordinal = table.series.binary_search(id).ok();
            let code = ordinal.and_then(|ordinal| tag.codes.get(ordinal));
            out.extend(code.map(|code| (at, code)));
        }
    }

    /// Writes the series of a table to an index file. Of its tags one at a time is held as the file takes it, because a
    /// table may have thousands that few series have.
    pub(crate) fn write(&self, id: TableId, to: &mut IndexWriter) -> Result<(), Error> {
        let Some(table) = self.tables.get(&id) else {
            return Ok(());
        };
        let known = |tag: &ColumnId| self.tags.get(tag);
        let mut hashes = Hashing::new(table.series.len());
        for (tag, own) in &table.tags {
            let Some(dictionary) = known(tag) else {
                continue;
            };
            own.codes.each_from(0, |ordinal, code| {
                if let Some(value) = dictionary.value(code) {
                    hashes.add(ordinal, *tag, value);
                }
            });
        }
        let mut out = to.begin_table(id, &table.series, hashes)?;
        for (&tag, own) in &table.tags {
            let Some(dictionary) = known(&tag) else {
                continue;
            };
            let (values, ranks) = dictionary.ranked();
            let mut codes = vec![0; table.series.len()];
            own.codes.each_from(0, |ordinal, code| {
                let rank = ranks.get(code as usize);
                if let (Some(slot), Some(&rank)) = (codes.get_mut(ordinal as usize), rank) {
                    *slot = rank;
                }
            });
            to.write_tag(&mut out, &TagSeries { tag, values, codes })?;
        }
        to.end_table(out)
    }

    /// Tables with series, ascending.
    pub(crate) fn tables(&self) -> Vec<TableId> {
        let mut tables: Vec<TableId> = self.tables.keys().copied().collect();
        tables.sort_unstable();
        tables
    }
}
