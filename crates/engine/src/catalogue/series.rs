//! The series part of the catalogue: tag values, their codes, and which series have which.
//!
//! Does: apply tag values and series, find a series by its tags, answer which series match tag predicates. Does not:
//! know names of databases, schemas, tables or columns (`catalogue.rs` does).

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::StringArray;
use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::{Catalogue, after};
use crate::error::Malformed;
use crate::schema::{ColumnId, SeriesId, TableId, TableSchema};

/// Code of an absent tag in a series' row of codes.
const ABSENT: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Table {
    pub(super) schema: Arc<TableSchema>,
    /// Ids of the table's series, ascending; a position here is a series' ordinal.
    series: Vec<u32>,
    /// By tag: the code of each ordinal; shorter columns end in absent tags.
    codes: BTreeMap<ColumnId, Vec<u32>>,
    /// Ordinals by their set of tags.
    by_tags: HashTable<u32>,
}

/// The values of one tag, in the order of their codes.
#[derive(Debug, Default)]
pub(crate) struct TagDictionary {
    values: Vec<Arc<str>>,
    codes: FxHashMap<Arc<str>, u32>,
    arrow: Mutex<Option<Arc<StringArray>>>,
}

impl TagDictionary {
    /// The values as Arrow shows them; built again only after a value appeared.
    pub(crate) fn arrow(&self) -> Arc<StringArray> {
        let mut cached = self.arrow.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(array) = cached.as_ref()
            && arrow_array::Array::len(array.as_ref()) == self.values.len()
        {
            return Arc::clone(array);
        }
        let array = Arc::new(StringArray::from_iter_values(&self.values));
        *cached = Some(Arc::clone(&array));
        array
    }
}

impl Table {
    /// A table without series.
    pub(super) fn new(schema: TableSchema) -> Self {
        Self {
            schema: Arc::new(schema),
            series: Vec::new(),
            codes: BTreeMap::new(),
            by_tags: HashTable::new(),
        }
    }

    /// Makes room for a new tag.
    pub(super) fn add_tag(&mut self, tag: ColumnId) {
        self.codes.entry(tag).or_default();
    }

    /// Every tag that its series have, also those that were dropped.
    pub(super) fn tag_ids(&self) -> impl Iterator<Item = ColumnId> {
        self.codes.keys().copied()
    }

    /// Number of series.
    pub(super) fn series_count(&self) -> usize {
        self.series.len()
    }

    /// The (tag, code) pairs of an ordinal, by tag id.
    fn tags_of(&self, ordinal: usize) -> impl Iterator<Item = (ColumnId, u32)> {
        self.codes.iter().filter_map(move |(&tag, codes)| {
            let code = codes.get(ordinal).copied().unwrap_or(ABSENT);
            (code != ABSENT).then_some((tag, code))
        })
    }
}

fn hash_tags(tags: impl Iterator<Item = (ColumnId, u32)>) -> u64 {
    let mut hash = 0u64;
    for (tag, code) in tags {
        hash = FxBuildHasher.hash_one((hash, tag.0, code));
    }
    hash
}

/// A tag as a write names it; sorted by tag id before look-up.
pub(crate) type TagCodes = Vec<(ColumnId, u32)>;

impl Catalogue {
    pub(crate) fn tag_code(&self, tag: ColumnId, value: &str) -> Option<u32> {
        self.tags.get(&tag)?.codes.get(value).copied()
    }

    pub(crate) fn tag_dictionary(&self, tag: ColumnId) -> Option<&TagDictionary> {
        self.tags.get(&tag)
    }

    /// The series of a table with exactly these tags, which are sorted by tag id.
    pub(crate) fn series(&self, table: TableId, tags: &[(ColumnId, u32)]) -> Option<SeriesId> {
        let table = self.by_table.get(&table)?;
        let hash = hash_tags(tags.iter().copied());
        let ordinal = table.by_tags.find(hash, |&ordinal| {
            table.tags_of(ordinal as usize).eq(tags.iter().copied())
        })?;
        table.series.get(*ordinal as usize).map(|&id| SeriesId(id))
    }

    /// Ids of all series of a table, ascending.
    pub(crate) fn all_series(&self, table: TableId) -> &[u32] {
        self.by_table.get(&table).map_or(&[], |table| &table.series)
    }

    /// Ids, ascending, of the series whose tag has (or, negated, has not) one of `values`; `None` = absent.
    pub(crate) fn filter_series(
        &self,
        table: TableId,
        candidates: &[u32],
        tag: ColumnId,
        values: &[Option<String>],
        negated: bool,
    ) -> Vec<u32> {
        let mut wanted: Vec<u32> = values
            .iter()
            .filter_map(|value| match value {
                None => Some(ABSENT),
                Some(value) => self.tag_code(tag, value),
            })
            .collect();
        wanted.sort_unstable();
        let Some(table) = self.by_table.get(&table) else {
            return Vec::new();
        };
        let no_codes = Vec::new();
        let codes = table.codes.get(&tag).unwrap_or(&no_codes);
        let matches = |ordinal: usize| {
            let code = codes.get(ordinal).copied().unwrap_or(ABSENT);
            wanted.binary_search(&code).is_ok() != negated
        };
        // Both lists ascend, so one walk pairs them.
        let mut kept = Vec::new();
        let mut ordinal = 0;
        for &candidate in candidates {
            while table.series.get(ordinal).is_some_and(|&id| id < candidate) {
                ordinal += 1;
            }
            if table.series.get(ordinal) == Some(&candidate) && matches(ordinal) {
                kept.push(candidate);
            }
        }
        kept
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
        let codes = table.codes.get(&tag);
        series
            .iter()
            .map(|id| {
                let ordinal = table.series.binary_search(id).ok()?;
                let code = codes?.get(ordinal).copied()?;
                (code != ABSENT).then_some(code)
            })
            .collect()
    }

    pub(super) fn apply_tag_value(&mut self, tag: ColumnId, value: &str) -> Result<(), Malformed> {
        let dictionary = self
            .tags
            .get_mut(&tag)
            .ok_or_else(|| Malformed::new(format!("value of unknown tag {}", tag.0)))?;
        if !dictionary.codes.contains_key(value) {
            let code = u32::try_from(dictionary.values.len())
                .map_err(|_| Malformed::new("more than 2^32 values of a tag"))?;
            let value: Arc<str> = value.into();
            dictionary.codes.insert(Arc::clone(&value), code);
            dictionary.values.push(value);
        }
        Ok(())
    }

    pub(super) fn apply_series(
        &mut self,
        id: SeriesId,
        table: TableId,
        tags: &[(ColumnId, u32)],
    ) -> Result<(), Malformed> {
        self.next.series = self.next.series.max(after(id.0)?);
        let table = self
            .by_table
            .get_mut(&table)
            .ok_or_else(|| Malformed::new(format!("series of unknown table {}", table.0)))?;
        match table.series.last() {
            Some(&last) if last >= id.0 => {
                if table.series.binary_search(&id.0).is_ok() {
                    return Ok(());
                }
                return Err(Malformed::new(format!(
                    "series id {} is out of order",
                    id.0
                )));
            }
            _ => {}
        }
        let ordinal = table.series.len();
        for &(tag, code) in tags {
            let known = self
                .tags
                .get(&tag)
                .is_some_and(|d| (code as usize) < d.values.len());
            let codes = table.codes.get_mut(&tag).filter(|_| known);
            let codes = codes.ok_or_else(|| {
                Malformed::new(format!("series {} has an undefined tag value", id.0))
            })?;
            codes.resize(ordinal, ABSENT);
            codes.push(code);
        }
        table.series.push(id.0);
        let ordinal = u32::try_from(ordinal)
            .map_err(|_| Malformed::new("more than 2^32 series in a table"))?;
        let hash = hash_tags(tags.iter().copied());
        let codes = &table.codes;
        table.by_tags.insert_unique(hash, ordinal, |&other| {
            hash_tags(codes.iter().filter_map(|(&tag, codes)| {
                let code = codes.get(other as usize).copied().unwrap_or(ABSENT);
                (code != ABSENT).then_some((tag, code))
            }))
        });
        Ok(())
    }
}
