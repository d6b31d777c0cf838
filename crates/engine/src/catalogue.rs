//! Every name, id and series of the data directory, in memory.
//!
//! Does: apply definitions, look names and series up, answer which series match tag predicates. Does not: log
//! anything; the sequencer decides when a definition exists. Rebuilt at open from definition files and the log.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::StringArray;
use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::definition::Definition;
use crate::error::Malformed;
use crate::schema::{
    ColumnDef, ColumnId, ColumnKind, DatabaseId, SchemaId, SeriesId, TableId, TableSchema,
};

/// Code of an absent tag in a series' row of codes.
const ABSENT: u32 = u32::MAX;

/// Longest name of a database, schema, table, tag or field in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    databases: BTreeMap<String, DatabaseId>,
    schemas: BTreeMap<(DatabaseId, String), SchemaId>,
    tables: BTreeMap<(SchemaId, String), TableId>,
    by_table: FxHashMap<TableId, Table>,
    tags: FxHashMap<ColumnId, TagDictionary>,
    next: NextIds,
}

/// The ids that the next definitions get.
#[derive(Debug, Clone, Copy)]
struct NextIds {
    database: u32,
    schema: u32,
    table: u32,
    column: u32,
    series: u32,
}

impl Default for NextIds {
    fn default() -> Self {
        // 0 is nobody's id, so that a zeroed field is never taken for one.
        Self {
            database: 1,
            schema: 1,
            table: 1,
            column: 1,
            series: 1,
        }
    }
}

#[derive(Debug)]
struct Table {
    schema: Arc<TableSchema>,
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

/// The id that follows `id`. The last one is nobody's, because nothing could follow it.
fn after(id: u32) -> Result<u32, Malformed> {
    id.checked_add(1)
        .ok_or_else(|| Malformed::new("there are no ids left"))
}

/// A tag as a write names it; sorted by tag id before look-up.
pub(crate) type TagCodes = Vec<(ColumnId, u32)>;

impl Catalogue {
    pub(crate) fn database(&self, name: &str) -> Option<DatabaseId> {
        self.databases.get(name).copied()
    }

    pub(crate) fn databases(&self) -> impl Iterator<Item = &str> {
        self.databases.keys().map(String::as_str)
    }

    pub(crate) fn schema(&self, database: DatabaseId, name: &str) -> Option<SchemaId> {
        self.schemas.get(&(database, name.to_owned())).copied()
    }

    pub(crate) fn schemas(&self, database: DatabaseId) -> impl Iterator<Item = &str> {
        self.schemas
            .keys()
            .filter(move |(owner, _)| *owner == database)
            .map(|(_, name)| name.as_str())
    }

    pub(crate) fn table_id(&self, schema: SchemaId, name: &str) -> Option<TableId> {
        self.tables.get(&(schema, name.to_owned())).copied()
    }

    pub(crate) fn tables(&self, schema: SchemaId) -> impl Iterator<Item = &str> {
        self.tables
            .keys()
            .filter(move |(owner, _)| *owner == schema)
            .map(|(_, name)| name.as_str())
    }

    pub(crate) fn table(&self, id: TableId) -> Option<&Arc<TableSchema>> {
        self.by_table.get(&id).map(|table| &table.schema)
    }

    pub(crate) fn tag_code(&self, tag: ColumnId, value: &str) -> Option<u32> {
        self.tags.get(&tag)?.codes.get(value).copied()
    }

    pub(crate) fn tag_dictionary(&self, tag: ColumnId) -> Option<&TagDictionary> {
        self.tags.get(&tag)
    }

    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let series = self.by_table.values().map(|table| table.series.len()).sum();
        (self.databases.len(), self.by_table.len(), series)
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

    /// Definitions that make the database and its default schema exist; none when it does.
    pub(crate) fn plan_database(&self, name: &str, schema: &str) -> Vec<Definition> {
        if self.databases.contains_key(name) {
            return Vec::new();
        }
        let id = DatabaseId(self.next.database);
        vec![
            Definition::Database {
                id,
                name: name.to_owned(),
            },
            Definition::Schema {
                id: SchemaId(self.next.schema),
                database: id,
                name: schema.to_owned(),
            },
        ]
    }

    /// The definition of a new table.
    pub(crate) fn plan_table(&self, schema: SchemaId, name: &str) -> Definition {
        Definition::Table {
            id: TableId(self.next.table),
            schema,
            name: name.to_owned(),
        }
    }

    /// The definition of a new column.
    pub(crate) fn plan_column(&self, table: TableId, kind: ColumnKind, name: &str) -> Definition {
        Definition::Column {
            id: ColumnId(self.next.column),
            table,
            kind,
            name: name.to_owned(),
        }
    }

    /// The definition of a new series.
    pub(crate) fn plan_series(&self, table: TableId, tags: TagCodes) -> Definition {
        Definition::Series {
            id: SeriesId(self.next.series),
            table,
            tags,
        }
    }

    /// Makes a definition hold. The same entry again is fine: replay may meet what a definition file already had.
    pub(crate) fn apply(&mut self, definition: &Definition) -> Result<(), Malformed> {
        match definition {
            Definition::Database { id, name } => {
                self.databases.insert(name.clone(), *id);
                self.next.database = self.next.database.max(after(id.0)?);
            }
            Definition::Schema { id, database, name } => {
                self.schemas.insert((*database, name.clone()), *id);
                self.next.schema = self.next.schema.max(after(id.0)?);
            }
            Definition::Table { id, schema, name } => self.apply_table(*id, *schema, name)?,
            Definition::Column {
                id,
                table,
                kind,
                name,
            } => self.apply_column(*id, *table, *kind, name)?,
            Definition::TagValue { tag, value } => {
                let dictionary = self
                    .tags
                    .get_mut(tag)
                    .ok_or_else(|| Malformed::new(format!("value of unknown tag {}", tag.0)))?;
                if !dictionary.codes.contains_key(value.as_str()) {
                    let code = u32::try_from(dictionary.values.len())
                        .map_err(|_| Malformed::new("more than 2^32 values of a tag"))?;
                    let value: Arc<str> = value.as_str().into();
                    dictionary.codes.insert(Arc::clone(&value), code);
                    dictionary.values.push(value);
                }
            }
            Definition::Series { id, table, tags } => self.apply_series(*id, *table, tags)?,
        }
        Ok(())
    }

    fn apply_table(&mut self, id: TableId, schema: SchemaId, name: &str) -> Result<(), Malformed> {
        self.tables.insert((schema, name.to_owned()), id);
        self.next.table = self.next.table.max(after(id.0)?);
        self.by_table.entry(id).or_insert_with(|| Table {
            schema: Arc::new(TableSchema::new(id, schema, name.to_owned())),
            series: Vec::new(),
            codes: BTreeMap::new(),
            by_tags: HashTable::new(),
        });
        Ok(())
    }

    fn apply_column(
        &mut self,
        id: ColumnId,
        table: TableId,
        kind: ColumnKind,
        name: &str,
    ) -> Result<(), Malformed> {
        let table = self
            .by_table
            .get_mut(&table)
            .ok_or_else(|| Malformed::new(format!("column of unknown table {}", table.0)))?;
        self.next.column = self.next.column.max(after(id.0)?);
        let known = match kind {
            ColumnKind::Tag => table.schema.tag(name),
            ColumnKind::Field(_) => table.schema.field(name),
        };
        if known.is_none() {
            table.schema = Arc::new(table.schema.with_column(ColumnDef {
                id,
                name: name.to_owned(),
                kind,
            }));
        }
        if kind == ColumnKind::Tag {
            self.tags.entry(id).or_default();
            table.codes.entry(id).or_default();
        }
        Ok(())
    }

    fn apply_series(
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
