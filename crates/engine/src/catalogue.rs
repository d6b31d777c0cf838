//! Every name, id and series of the data directory, in memory.
//!
//! Does: apply definitions, look names up; `catalogue/series.rs` has tag values and series. Does not: log anything;
//! the sequencer decides when a definition exists. Rebuilt at open from definition files and the log.

mod codes;
mod dictionary;
mod id_table;
mod postings;
mod selection;
mod series;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::definition::Definition;
use crate::error::Malformed;
use crate::schema::{ColumnDef, ColumnId, ColumnKind, DatabaseId, SchemaId, TableId, TableSchema};
use crate::text_hash::TextHash;
pub(crate) use dictionary::TagDictionary;
pub(crate) use id_table::IdTable;
pub(crate) use selection::{Condition, Selection};
use series::Table;

/// Longest name of a database, schema, table, tag or field in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    databases: BTreeMap<String, DatabaseId>,
    schemas: BTreeMap<(DatabaseId, String), SchemaId>,
    tables: BTreeMap<(SchemaId, String), TableId>,
    by_table: FxHashMap<TableId, Table>,
    tags: FxHashMap<ColumnId, TagDictionary>,
    /// Of tag values.
    text_hash: TextHash,
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

/// The id that follows `id`. The last one is nobody's, because nothing could follow it.
fn after(id: u32) -> Result<u32, Malformed> {
    id.checked_add(1)
        .ok_or_else(|| Malformed::new("there are no ids left"))
}

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

    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let series = self.by_table.values().map(Table::series_count).sum();
        (self.databases.len(), self.by_table.len(), series)
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
            Definition::TagValue { tag, value } => self.apply_tag_value(*tag, value)?,
            Definition::Series { id, table, tags } => self.apply_series(*id, *table, tags)?,
        }
        Ok(())
    }

    fn apply_table(&mut self, id: TableId, schema: SchemaId, name: &str) -> Result<(), Malformed> {
        self.tables.insert((schema, name.to_owned()), id);
        self.next.table = self.next.table.max(after(id.0)?);
        self.by_table
            .entry(id)
            .or_insert_with(|| Table::new(TableSchema::new(id, schema, name.to_owned())));
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
            table.add_tag(id);
        }
        Ok(())
    }
}
