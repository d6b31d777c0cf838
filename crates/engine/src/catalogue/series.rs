//! Series that are in no index file yet: tag values, their codes, and which series have which.
//!
//! Does: find or add a series by its tags, give the series of a table as an index file takes them. Does not: know names
//! (`catalogue.rs` does), know series that are in files (`layers.rs` does), or select by predicates (`selection.rs` does).
//!
//! A *generation* begins empty when the one before is set aside for a flush, and ends when it is set aside itself.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::{PoisonError, RwLock};

use roaring::RoaringBitmap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::codes::CodeColumn;
use super::dictionary::TagDictionary;
use super::id_table::IdTable;
use super::postings::Postings;
use crate::error::Malformed;
use crate::index::{TableSeries, TagSeries};
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
    /// Ordinals by their set of tags.
    by_tags: IdTable,
}

/// What the series of a table have of one tag.
#[derive(Debug, Default)]
pub(super) struct Tag {
    pub(super) codes: CodeColumn,
    pub(super) postings: RwLock<Postings>,
}

impl Tag {
    fn bytes(&self) -> usize {
        let postings = self.postings.read().unwrap_or_else(PoisonError::into_inner);
        self.codes.bytes() + postings.bytes()
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

    /// The (tag, code) pairs of an ordinal, by tag id.
    fn tags_of(&self, ordinal: usize) -> impl Iterator<Item = (ColumnId, u32)> {
        self.tags
            .iter()
            .filter_map(move |(&id, tag)| Some((id, tag.codes.get(ordinal)?)))
    }

    /// The id of exactly these tags, which are sorted by tag id.
    fn find(&self, hash: u64, tags: &[(ColumnId, u32)]) -> Option<SeriesId> {
        let ordinal = self.by_tags.find(hash, |ordinal| {
            self.tags_of(ordinal as usize).eq(tags.iter().copied())
        })?;
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
            self.tags.entry(tag).or_default().codes.push(ordinal, code);
        }
        self.series.push(id);
        self.by_tags.insert(hash, short);
        Ok(())
    }

    fn bytes(&self) -> usize {
        let tags: usize = self.tags.values().map(Tag::bytes).sum();
        tags + self.series.capacity() * size_of::<u32>() + self.by_tags.bytes()
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

    /// Number of series of a table.
    pub(super) fn series_count(&self, table: TableId) -> usize {
        self.all_series(table).len()
    }

    /// Ids of all series of a table, ascending.
    pub(super) fn all_series(&self, table: TableId) -> &[u32] {
        self.table(table).map_or(&[], Table::series)
    }

    /// Memory of series and tag values, asked of each.
    pub(super) fn bytes(&self) -> usize {
        let dictionaries: usize = self.tags.values().map(TagDictionary::bytes).sum();
        dictionaries + self.tables.values().map(Table::bytes).sum::<usize>()
    }

    /// The series of a table with exactly these tags, which are sorted by tag id.
    pub(super) fn find(&self, table: TableId, tags: &[(ColumnId, &str)]) -> Option<SeriesId> {
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

    /// Appends the codes that series have of a tag; ids ascend.
    pub(super) fn codes_of(
        &self,
        table: TableId,
        tag: ColumnId,
        series: &[u32],
        out: &mut Vec<Option<u32>>,
    ) {
        let table = self.table(table);
        let Some((table, tag)) = table.and_then(|table| Some((table, table.tag(tag)?))) else {
            out.resize(out.len() + series.len(), None);
            return;
        };
        if series == table.series {
            out.extend((0..series.len()).map(|ordinal| tag.codes.get(ordinal)));
            return;
        }
        out.extend(series.iter().map(|id| {
            let ordinal = table.series.binary_search(id).ok()?;
            tag.codes.get(ordinal)
        }));
    }

    /// The series of a table as an index file takes them.
    pub(crate) fn filed(&self, id: TableId) -> Option<TableSeries> {
        let table = self.tables.get(&id)?;
        let tags = table.tags.iter().filter_map(|(&tag, known)| {
            let dictionary = self.tags.get(&tag)?;
            let (values, ranks) = dictionary.ranked();
            let rank = |ordinal| {
                let code = known.codes.get(ordinal)? as usize;
                ranks.get(code).copied()
            };
            let codes = (0..table.series.len()).map(|ordinal| rank(ordinal).unwrap_or(0));
            Some(TagSeries {
                tag,
                values,
                codes: codes.collect(),
            })
        });
        Some(TableSeries {
            table: id,
            tags: tags.collect(),
            ids: table.series.clone(),
        })
    }

    /// Tables with series, ascending.
    pub(crate) fn tables(&self) -> Vec<TableId> {
        let mut tables: Vec<TableId> = self.tables.keys().copied().collect();
        tables.sort_unstable();
        tables
    }
}
