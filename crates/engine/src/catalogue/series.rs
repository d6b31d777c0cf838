//! The series part of the catalogue: tag values, their codes, and which series have which.
//!
//! Does: apply tag values and series, find or make a series by its tags. Does not: know names of databases, schemas, tables
//! or columns (`catalogue.rs` does), or select series by predicates (`selection.rs` does).

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::{Arc, PoisonError, RwLock};

use roaring::RoaringBitmap;
use rustc_hash::FxBuildHasher;

use super::codes::CodeColumn;
use super::dictionary::TagDictionary;
use super::id_table::IdTable;
use super::postings::Postings;
use super::{Catalogue, after};
use crate::definition;
use crate::error::Malformed;
use crate::schema::{ColumnId, SeriesId, TableId, TableSchema};

#[derive(Debug)]
pub(super) struct Table {
    pub(super) schema: Arc<TableSchema>,
    /// Ids of the table's series, ascending; a position here is a series' ordinal.
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
    /// A table without series.
    pub(super) fn new(schema: TableSchema) -> Self {
        Self {
            schema: Arc::new(schema),
            series: Vec::new(),
            tags: BTreeMap::new(),
            by_tags: IdTable::default(),
        }
    }

    /// Makes room for a new tag.
    pub(super) fn add_tag(&mut self, tag: ColumnId) {
        self.tags.entry(tag).or_default();
    }

    /// What its series have of a tag.
    pub(super) fn tag(&self, tag: ColumnId) -> Option<&Tag> {
        self.tags.get(&tag)
    }

    /// Every tag that its series have, also those that were dropped.
    pub(super) fn tag_ids(&self) -> impl Iterator<Item = ColumnId> {
        self.tags.keys().copied()
    }

    /// Number of series.
    pub(super) fn series_count(&self) -> usize {
        self.series.len()
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

    /// The ordinal of a series.
    pub(super) fn ordinal(&self, series: SeriesId) -> Option<usize> {
        self.series.binary_search(&series.0).ok()
    }

    /// The (tag, code) pairs of an ordinal, by tag id.
    fn tags_of(&self, ordinal: usize) -> impl Iterator<Item = (ColumnId, u32)> {
        self.tags
            .iter()
            .filter_map(move |(&id, tag)| Some((id, tag.codes.get(ordinal)?)))
    }

    /// The ordinal of exactly these tags, which are sorted by tag id.
    fn find(&self, hash: u64, tags: &[(ColumnId, u32)]) -> Option<u32> {
        self.by_tags.find(hash, |ordinal| {
            self.tags_of(ordinal as usize).eq(tags.iter().copied())
        })
    }

    /// Adds a series whose id is above all others, with tags that are sorted by tag id and known.
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

impl Catalogue {
    pub(crate) fn tag_dictionary(&self, tag: ColumnId) -> Option<&TagDictionary> {
        self.tags.get(&tag)
    }

    /// Memory of series and tag values, asked of each.
    pub(crate) fn series_bytes(&self) -> usize {
        let dictionaries: usize = self.tags.values().map(TagDictionary::bytes).sum();
        dictionaries + self.by_table.values().map(Table::bytes).sum::<usize>()
    }

    /// The series of a table with exactly these tags, which are sorted by tag id.
    pub(crate) fn series(&self, table: TableId, tags: &[(ColumnId, &str)]) -> Option<SeriesId> {
        let table = self.by_table.get(&table)?;
        let mut codes = Vec::with_capacity(tags.len());
        for (tag, value) in tags {
            codes.push((*tag, self.tags.get(tag)?.code(&self.text_hash, value)?));
        }
        let ordinal = table.find(hash_tags(&codes), &codes)?;
        table.series.get(ordinal as usize).map(|&id| SeriesId(id))
    }

    /// The same, and makes it if there is none; the entries of what it made are appended to `made`.
    pub(crate) fn define_series(
        &mut self,
        table: TableId,
        tags: &[(ColumnId, &str)],
        made: &mut Vec<u8>,
    ) -> Result<SeriesId, Malformed> {
        let mut codes = Vec::with_capacity(tags.len());
        for &(tag, value) in tags {
            let dictionary = self.tags.get_mut(&tag).ok_or_else(|| unknown_tag(tag))?;
            let (code, new) = dictionary.insert(&self.text_hash, value)?;
            if new {
                definition::encode_tag_value(tag, value, made);
            }
            codes.push((tag, code));
        }
        let id = self.next.series;
        let next = after(id)?;
        let table_id = table;
        let table = self.table_mut(table)?;
        let hash = hash_tags(&codes);
        if let Some(known) = table.find(hash, &codes) {
            let id = table.series.get(known as usize).copied().unwrap_or(0);
            return Ok(SeriesId(id));
        }
        table.push(id, hash, &codes)?;
        self.next.series = next;
        definition::encode_series(SeriesId(id), table_id, &codes, made);
        Ok(SeriesId(id))
    }

    /// Ids of all series of a table, ascending.
    pub(crate) fn all_series(&self, table: TableId) -> &[u32] {
        self.by_table.get(&table).map_or(&[], |table| &table.series)
    }

    /// The code of a series' tag, `None` when absent.
    pub(crate) fn codes_of(
        &self,
        table: TableId,
        tag: ColumnId,
        series: &[u32],
    ) -> Vec<Option<u32>> {
        let Some(table) = self.by_table.get(&table) else {
            return vec![None; series.len()];
        };
        let codes = table.tag(tag).map(|tag| &tag.codes);
        series
            .iter()
            .map(|id| {
                let ordinal = table.series.binary_search(id).ok()?;
                codes?.get(ordinal)
            })
            .collect()
    }

    pub(super) fn apply_tag_value(&mut self, tag: ColumnId, value: &str) -> Result<(), Malformed> {
        let hash = &self.text_hash;
        let dictionary = self.tags.get_mut(&tag).ok_or_else(|| unknown_tag(tag))?;
        dictionary.insert(hash, value).map(|_| ())
    }

    fn table_mut(&mut self, table: TableId) -> Result<&mut Table, Malformed> {
        self.by_table
            .get_mut(&table)
            .ok_or_else(|| Malformed::new(format!("series of unknown table {}", table.0)))
    }

    pub(super) fn apply_series(
        &mut self,
        id: SeriesId,
        table: TableId,
        tags: &[(ColumnId, u32)],
    ) -> Result<(), Malformed> {
        let known = tags.iter().all(|(tag, code)| {
            self.tags
                .get(tag)
                .is_some_and(|dictionary| (*code as usize) < dictionary.len())
        });
        self.next.series = self.next.series.max(after(id.0)?);
        let table = self.table_mut(table)?;
        if table.series.last().is_some_and(|&last| last >= id.0) {
            if table.series.binary_search(&id.0).is_ok() {
                return Ok(());
            }
            return Err(Malformed::new(format!(
                "series id {} is out of order",
                id.0
            )));
        }
        if !known || !tags.iter().all(|(tag, _)| table.tags.contains_key(tag)) {
            return Err(Malformed::new(format!(
                "series {} has an undefined tag value",
                id.0
            )));
        }
        if !tags.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Malformed::new(format!(
                "the tags of series {} are out of order",
                id.0
            )));
        }
        table.push(id.0, hash_tags(tags), tags)
    }
}

fn unknown_tag(tag: ColumnId) -> Malformed {
    Malformed::new(format!("value of unknown tag {}", tag.0))
}
