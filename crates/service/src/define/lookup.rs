//! Names in a snapshot. A missing name is an error with the nearest one that is there.

use std::sync::Arc;

use arrow_schema::Schema;
use nilometer_engine::{RelationReader, Snapshot, TableSchema, nearest};

use super::change::name::TableName;
use super::error::{DefineError, Object};
use super::sequences::sequences;
use super::views;
use crate::define::own_relations::is_hidden;

/// The schema of what the store says of itself.
pub const SYSTEM_SCHEMA: &str = "system";
/// Its counterpart in the SQL standard. No language can make a schema of this name, so that every store can be asked in SQL.
pub const INFORMATION_SCHEMA: &str = "information_schema";
/// The catalogue that clients of PostgreSQL read. No language can make a schema of this name, for the same reason.
pub const PG_CATALOG: &str = "pg_catalog";

/// What `TimescaleDB`'s users ask for the names and settings of their hypertables. Reserved for the same reason.
pub const TIMESCALEDB_INFORMATION: &str = "timescaledb_information";

/// Whether nothing can be made or changed in a schema.
pub fn is_reserved(schema: &str) -> bool {
    let own = [SYSTEM_SCHEMA, INFORMATION_SCHEMA, PG_CATALOG];
    own.contains(&schema) || schema == TIMESCALEDB_INFORMATION
}

/// The error for a database that is not there.
pub fn unknown_database(snapshot: &Snapshot, name: &str) -> DefineError {
    DefineError::Unknown {
        what: Object::Database,
        name: name.to_owned(),
        nearest: nearest(name, snapshot.databases()),
    }
}

/// Fails where there is no such database.
pub fn find_database(snapshot: &Snapshot, name: &str) -> Result<(), DefineError> {
    match snapshot.schemas(name) {
        Some(_) => Ok(()),
        None => Err(unknown_database(snapshot, name)),
    }
}

/// Fails where there is no such schema.
pub fn find_schema(snapshot: &Snapshot, database: &str, name: &str) -> Result<(), DefineError> {
    let Some(schemas) = snapshot.schemas(database) else {
        return Err(unknown_database(snapshot, database));
    };
    if schemas.iter().any(|schema| schema == name) {
        return Ok(());
    }
    let own = [SYSTEM_SCHEMA, INFORMATION_SCHEMA, PG_CATALOG].map(str::to_owned);
    Err(DefineError::Unknown {
        what: Object::Schema,
        name: format!("{database}.{name}"),
        nearest: nearest(name, schemas.into_iter().chain(own)),
    })
}

/// The error for a table, relation or view that is not there.
pub fn unknown_table(snapshot: &Snapshot, name: &TableName) -> DefineError {
    let (database, schema) = (&name.database, &name.schema);
    if let Err(missing) = find_schema(snapshot, database, schema) {
        return missing;
    }
    let mut known = snapshot.tables(database, schema).unwrap_or_default();
    known.extend(relations(snapshot, database, schema));
    known.extend(views::views(snapshot, database, schema));
    DefineError::Unknown {
        what: Object::Table,
        name: name.shown(),
        nearest: nearest(&name.table, known),
    }
}

/// A table over time; a view is none, and neither is a relation.
pub fn find_table(snapshot: &Snapshot, name: &TableName) -> Result<Arc<TableSchema>, DefineError> {
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    if let Some(table) = snapshot.table(database, schema, table) {
        return Ok(table);
    }
    if find_relation(snapshot, database, schema, table).is_some() {
        let name = table.clone();
        return Err(DefineError::IsRelation { name });
    }
    if views::view(snapshot, database, schema, table).is_some() {
        let name = table.clone();
        return Err(DefineError::IsView { name });
    }
    Err(unknown_table(snapshot, name))
}

/// A relation by its name. Those that views and users are kept in are nobody else's.
pub fn find_relation(
    snapshot: &Snapshot,
    database: &str,
    schema: &str,
    name: &str,
) -> Option<RelationReader> {
    if is_hidden(name) {
        return None;
    }
    snapshot.relation(database, schema, name)
}

/// Names of the relations of a schema, sorted.
pub fn relations(snapshot: &Snapshot, database: &str, schema: &str) -> Vec<String> {
    let mut names = snapshot.relations(database, schema).unwrap_or_default();
    names.retain(|name| !is_hidden(name));
    names
}

/// Whether a schema (its table is empty), a table, a view or a sequence has this name.
pub(super) fn is_taken(snapshot: &Snapshot, name: &TableName) -> bool {
    let (database, schema, table) = (&name.database, &name.schema, &name.table);
    if table.is_empty() {
        return find_schema(snapshot, database, schema).is_ok();
    }
    snapshot.table(database, schema, table).is_some()
        || snapshot.relation(database, schema, table).is_some()
        || views::view(snapshot, database, schema, table).is_some()
        || sequences(snapshot, database, schema)
            .iter()
            .any(|sequence| sequence.name == *table)
}

/// Fails where a table has no such tag or field that can be changed.
pub fn find_column(table: &TableSchema, name: &str) -> Result<(), DefineError> {
    if name == table.time().0 {
        return Err(DefineError::TimeColumn);
    }
    if table.shown(name).is_some() {
        return Ok(());
    }
    Err(unknown_column(&table.shown_columns().schema, name))
}

/// The error for a column that is none of these.
pub fn unknown_column(columns: &Schema, name: &str) -> DefineError {
    let names = columns.fields().iter().map(|field| field.name().clone());
    DefineError::Unknown {
        what: Object::Column,
        name: name.to_owned(),
        nearest: nearest(name, names),
    }
}
