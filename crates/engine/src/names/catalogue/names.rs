//! Names and ids of databases, schemas and tables as of one moment.
//!
//! Does: look them up; copy itself at once, for a snapshot. Does not: change them (`catalogue.rs` and
//! `names/catalogue/changes.rs` do) or know series.

use std::sync::Arc;

use super::shared_map::SharedMap;
use crate::declared::TimeKind;
use crate::schema::{DatabaseId, SchemaId, TableId, TableSchema};

/// With this the names of copies begin that have not taken the place of their tables: no name that anybody may give does.
pub(crate) const UNFINISHED: char = '\u{1}';

/// Whether a table is a copy that has not taken the place of its table.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED)
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    pub(super) databases: SharedMap<String, DatabaseId>,
    pub(super) schemas: SharedMap<(DatabaseId, String), SchemaId>,
    pub(super) tables: SharedMap<(SchemaId, String), TableId>,
    pub(super) by_database: SharedMap<DatabaseId, Database>,
    pub(super) by_schema: SharedMap<SchemaId, Schema>,
    pub(super) by_table: SharedMap<TableId, Arc<TableSchema>>,
}

#[derive(Debug, Clone)]
pub(super) struct Database {
    pub(super) name: String,
    /// What a name without a schema means.
    pub(super) default_schema: Option<SchemaId>,
}

#[derive(Debug, Clone)]
pub(super) struct Schema {
    pub(super) database: DatabaseId,
    pub(super) name: String,
    /// Of its tables that do not say otherwise; `None` = for ever.
    pub(super) retention_ns: Option<i64>,
}

impl Names {
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
        let keys = self.schemas.keys_from(&(database, String::new()));
        keys.take_while(move |(owner, _)| *owner == database)
            .map(|(_, name)| name.as_str())
    }

    pub(crate) fn table_id(&self, schema: SchemaId, name: &str) -> Option<TableId> {
        self.tables.get(&(schema, name.to_owned())).copied()
    }

    pub(crate) fn tables(&self, schema: SchemaId) -> impl Iterator<Item = &str> {
        let keys = self.tables.keys_from(&(schema, String::new()));
        keys.take_while(move |(owner, _)| *owner == schema)
            .map(|(_, name)| name.as_str())
            .filter(|name| !is_unfinished(name))
    }

    /// The table that belongs to an id under which others keep things.
    pub(crate) fn kept_as(&self, id: TableId) -> Option<&Arc<TableSchema>> {
        let own = self.by_table.get(&id);
        own.or_else(|| self.by_table.values().find(|it| it.kept_id() == id))
    }

    /// Every table that was not dropped.
    pub(crate) fn live_tables(&self) -> impl Iterator<Item = &Arc<TableSchema>> {
        self.by_table.values()
    }

    pub(crate) fn table(&self, id: TableId) -> Option<&Arc<TableSchema>> {
        self.by_table.get(&id)
    }

    /// The schema that a name without one means.
    pub(crate) fn default_schema(&self, database: DatabaseId) -> Option<SchemaId> {
        self.by_database.get(&database)?.default_schema
    }

    /// The name of a schema.
    pub(crate) fn schema_name(&self, id: SchemaId) -> Option<&str> {
        self.by_schema.get(&id).map(|schema| schema.name.as_str())
    }

    /// What a schema says of how long its tables' rows are kept.
    pub(crate) fn schema_retention_ns(&self, schema: SchemaId) -> Option<i64> {
        self.by_schema.get(&schema)?.retention_ns
    }

    /// How long rows of a table are kept in nanoseconds; `None` = for ever.
    pub(crate) fn retention_ns(&self, table: TableId) -> Option<i64> {
        let table = self.kept_as(table)?;
        // An integer says how old a row is to nobody but who counts it.
        if matches!(table.time().1, TimeKind::Integer { .. }) {
            return None;
        }
        let schema = self.by_schema.get(&table.schema);
        let inherited = schema.and_then(|schema| schema.retention_ns);
        let kept = table.settings.retention_ns.or(inherited);
        kept.filter(|&kept| kept < i64::MAX)
    }

    /// Names of a table's database and schema, and its own.
    pub(crate) fn full_name(&self, id: TableId) -> Option<[String; 3]> {
        let table = self.table(id)?;
        let schema = self.by_schema.get(&table.schema)?;
        let database = self.by_database.get(&schema.database)?;
        Some([&database.name, &schema.name, &table.name].map(Clone::clone))
    }
}
