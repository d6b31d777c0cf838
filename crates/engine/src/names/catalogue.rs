//! The catalogue: all names and ids of the data directory, in memory, and the places of their series.
//!
//! Does: apply definitions of new things, look names up; `names/catalogue/changes.rs` applies drops, renames and settings,
//! `names/catalogue/define.rs` makes series, `names/catalogue/layers.rs` finds them. Does not: log anything; the sequencer decides when a
//! definition exists. Rebuilt at open from definition files, the footers of index files and the log.

mod changes;
mod codes;
mod define;
mod dictionary;
mod id_table;
mod layers;
mod names;
mod postings;
mod selection;
mod series;
mod shared_map;
mod tag_column;
#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::definition::Definition;
use crate::error::Malformed;
use crate::sabotage::Sabotage;
use crate::schema::{
    ColumnDef, ColumnId, ColumnKind, DatabaseId, SchemaId, TableId, TableSchema, column_bytes,
};
pub(crate) use codes::CodeColumn;
pub(crate) use define::{Entries, OWN_SERIES_FIRST, SetAside, is_own_series};
pub(crate) use id_table::IdTable;
pub(crate) use layers::{Layers, Shared};
pub(crate) use names::{Names, UNFINISHED, is_unfinished};
pub(crate) use selection::{Condition, FEW, in_order};
pub(crate) use tag_column::TagColumn;

use names::{Database, Schema};
use shared_map::SharedMap;

/// Longest name of a database, schema, table, tag or field in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 1024;

/// What is there now, by name and by id, and what changes it.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    names: Names,
    /// Tags, also dropped ones, of tables that are there.
    tags: FxHashMap<ColumnId, TableId>,
    layers: Arc<Layers>,
    /// By tag: codes in the generation of the values that the log record at hand lists.
    listed: FxHashMap<ColumnId, Vec<u32>>,
    dropped: Dropped,
    next: NextIds,
    epoch: u64,
    /// Memory of tables and columns, about.
    name_bytes: usize,
    /// A planted bug: ids of what was dropped last are given out again.
    reuses_ids: bool,
}

/// Whatever can be asked of names can be asked of the catalogue, which has those of now.
impl Deref for Catalogue {
    type Target = Names;

    fn deref(&self) -> &Names {
        &self.names
    }
}

/// What was there once. Entries that name such a thing change nothing.
#[derive(Debug, Default)]
struct Dropped {
    databases: FxHashSet<DatabaseId>,
    schemas: FxHashSet<SchemaId>,
    tables: FxHashSet<TableId>,
    /// Also those of dropped tables.
    columns: FxHashSet<ColumnId>,
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
    /// An empty one. `sabotage` is a planted bug.
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Self {
        Self {
            reuses_ids: sabotage == Some(Sabotage::SeriesIdReused),
            ..Self::default()
        }
    }

    /// The names of now, and the series: what stays as it is for whoever has them.
    pub(crate) fn as_of_now(&self) -> (Names, Arc<Layers>) {
        let layers = self.layers.up_to(self.next.series);
        (self.names.clone(), Arc::new(layers))
    }

    /// Whether there was such a table once. Its drop is durable by the time that this says so, so its rows may go.
    pub(crate) fn is_dropped(&self, table: TableId) -> bool {
        self.dropped.tables.contains(&table)
    }

    /// Whether a tag of a table was dropped: its series are as distinct as before.
    pub(crate) fn has_dropped_tag(&self, table: TableId) -> bool {
        let mut own = self.tags.iter().filter(|(_, of)| **of == table);
        own.any(|(tag, _)| self.dropped.columns.contains(tag))
    }

    /// Rises whenever something is dropped, renamed or retyped: what was looked up before may be wrong after.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Memory of tables and columns, about; that of their series is not in it.
    pub(crate) fn name_bytes(&self) -> usize {
        self.name_bytes
    }

    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let tables = self.names.by_table.keys();
        let series: u64 = tables.map(|table| self.layers.series_count(*table)).sum();
        let series = usize::try_from(series).unwrap_or(usize::MAX);
        (
            self.names.databases.len(),
            self.names.by_table.len(),
            series,
        )
    }

    /// Definitions that make the database and its default schema exist; none when it does.
    pub(crate) fn plan_database(&self, name: &str, schema: &str) -> Vec<Definition> {
        if self.names.databases.contains_key(name) {
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

    /// The definition of a new schema.
    pub(crate) fn plan_schema(&self, database: DatabaseId, name: &str) -> Definition {
        Definition::Schema {
            id: SchemaId(self.next.schema),
            database,
            name: name.to_owned(),
        }
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
        self.plan_nth_column(0, table, kind, name)
    }

    /// The definition of a new column that others, `nth` of them, are planned together with and before.
    pub(crate) fn plan_nth_column(
        &self,
        nth: u32,
        table: TableId,
        kind: ColumnKind,
        name: &str,
    ) -> Definition {
        Definition::Column {
            id: ColumnId(self.next.column.saturating_add(nth)),
            table,
            kind,
            name: name.to_owned(),
        }
    }

    /// Makes a definition hold. What is there already, or was dropped, is not made again.
    pub(crate) fn apply(&mut self, definition: &Definition) -> Result<(), Malformed> {
        match definition {
            Definition::Database { id, name } => self.apply_database(*id, name),
            Definition::Schema { id, database, name } => self.apply_schema(*id, *database, name),
            Definition::Table { id, schema, name } => self.apply_table(*id, *schema, name),
            Definition::Column {
                id,
                table,
                kind,
                name,
            } => self.apply_column(*id, *table, *kind, name),
            Definition::TagValue { tag, .. } if self.dropped.columns.contains(tag) => Ok(()),
            Definition::TagValue { tag, value } => self.apply_tag_value(*tag, value),
            Definition::Series { id, table, .. } if self.is_dropped(*table) => {
                self.next.series = self.next.series.max(after(id.0)?);
                Ok(())
            }
            Definition::Series { id, table, tags } => self.apply_series(*id, *table, tags),
            change => self.apply_change(change),
        }
    }

    fn apply_database(&mut self, id: DatabaseId, name: &str) -> Result<(), Malformed> {
        self.next.database = self.next.database.max(after(id.0)?);
        if self.names.by_database.contains_key(&id) || self.dropped.databases.contains(&id) {
            return Ok(());
        }
        take_name(&mut self.names.databases, name.to_owned(), id, name)?;
        let entry = Database {
            name: name.to_owned(),
            default_schema: None,
        };
        self.names.by_database.insert(id, entry);
        Ok(())
    }

    fn apply_schema(
        &mut self,
        id: SchemaId,
        database: DatabaseId,
        name: &str,
    ) -> Result<(), Malformed> {
        self.next.schema = self.next.schema.max(after(id.0)?);
        let gone = self.dropped.schemas.contains(&id) || self.dropped.databases.contains(&database);
        if gone || self.names.by_schema.contains_key(&id) {
            return Ok(());
        }
        let owner = self
            .names
            .by_database
            .get_mut(&database)
            .ok_or_else(|| unknown("schema of", "database", database.0))?;
        take_name(
            &mut self.names.schemas,
            (database, name.to_owned()),
            id,
            name,
        )?;
        owner.default_schema.get_or_insert(id);
        let entry = Schema {
            database,
            name: name.to_owned(),
            retention_ns: None,
        };
        self.names.by_schema.insert(id, entry);
        Ok(())
    }

    fn apply_table(&mut self, id: TableId, schema: SchemaId, name: &str) -> Result<(), Malformed> {
        self.next.table = self.next.table.max(after(id.0)?);
        let gone = self.dropped.tables.contains(&id) || self.dropped.schemas.contains(&schema);
        if gone || self.names.by_table.contains_key(&id) {
            return Ok(());
        }
        if !self.names.by_schema.contains_key(&schema) {
            return Err(unknown("table of", "schema", schema.0));
        }
        take_name(&mut self.names.tables, (schema, name.to_owned()), id, name)?;
        let table = TableSchema::new(id, schema, name.to_owned());
        self.name_bytes += table.name_bytes();
        self.names.by_table.insert(id, Arc::new(table));
        Ok(())
    }

    fn apply_column(
        &mut self,
        id: ColumnId,
        table: TableId,
        kind: ColumnKind,
        name: &str,
    ) -> Result<(), Malformed> {
        // Ids rise, so one that was not given away yet need not be looked for.
        let is_new = id.0 >= self.next.column;
        self.next.column = self.next.column.max(after(id.0)?);
        if self.is_dropped(table) {
            self.dropped.columns.insert(id);
        }
        if self.dropped.columns.contains(&id) {
            return Ok(());
        }
        let schema = self
            .names
            .by_table
            .get_mut(&table)
            .ok_or_else(|| unknown("column of", "table", table.0))?;
        if !is_new && schema.column(id).is_some() {
            return Ok(());
        }
        if schema.column_like(kind, name).is_some() {
            return Err(taken(name));
        }
        let column = ColumnDef {
            id,
            name: name.to_owned(),
            kind,
            declared: None,
        };
        self.name_bytes += column_bytes(name);
        // A copy for each of a hundred thousand columns would take minutes; nobody sees the table but whoever asked for it.
        match Arc::get_mut(schema) {
            Some(own) => own.push_column(column),
            None => *schema = Arc::new(schema.with_column(column)),
        }
        if kind == ColumnKind::Tag {
            self.tags.insert(id, table);
        }
        Ok(())
    }
}

/// Gives a name to what has none yet; two things of one name are damage.
fn take_name<K: Ord + Clone, V: Clone>(
    names: &mut SharedMap<K, V>,
    key: K,
    id: V,
    name: &str,
) -> Result<(), Malformed> {
    if names.insert(key, id) {
        Ok(())
    } else {
        Err(taken(name))
    }
}

fn taken(name: &str) -> Malformed {
    Malformed::new(format!("the name \"{name}\" is given twice"))
}

fn unknown(role: &str, what: &str, id: u32) -> Malformed {
    Malformed::new(format!("{role} the unknown {what} {id}"))
}
