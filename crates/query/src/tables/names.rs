//! Name resolution in a snapshot; a missing name is an error with the nearest existing one.

use std::sync::Arc;

use arrow::datatypes::Schema;
use nilometer_engine::{Snapshot, TIME_COLUMN, TableSchema, nearest};

use crate::error::{Error, Position};
use crate::statement::name::{INFORMATION_SCHEMA, Name, SYSTEM_SCHEMA, TableName};
use crate::tables::relation;
use crate::tables::view;

pub(crate) fn unknown_database(
    snapshot: &Snapshot,
    name: &str,
    position: Option<Position>,
) -> Error {
    Error::UnknownName {
        what: "database",
        name: name.to_owned(),
        nearest: nearest(name, snapshot.databases()),
        position,
    }
}

pub(crate) fn find_database(
    snapshot: &Snapshot,
    name: &str,
    position: Option<Position>,
) -> Result<(), Error> {
    match snapshot.schemas(name) {
        Some(_) => Ok(()),
        None => Err(unknown_database(snapshot, name, position)),
    }
}

pub(crate) fn find_schema(
    snapshot: &Snapshot,
    database: &str,
    name: &str,
    position: Option<Position>,
) -> Result<(), Error> {
    let Some(schemas) = snapshot.schemas(database) else {
        return Err(unknown_database(snapshot, database, position));
    };
    if schemas.iter().any(|schema| schema == name) {
        return Ok(());
    }
    let own = [SYSTEM_SCHEMA, INFORMATION_SCHEMA].map(str::to_owned);
    Err(Error::UnknownName {
        what: "schema",
        name: format!("{database}.{name}"),
        nearest: nearest(name, schemas.into_iter().chain(own)),
        position,
    })
}

/// The error for a table or view that is not there.
pub(crate) fn unknown_table(snapshot: &Snapshot, name: &TableName) -> Error {
    if let Err(missing) = find_schema(snapshot, &name.database, &name.schema, name.position) {
        return missing;
    }
    let (database, schema) = (&name.database, &name.schema);
    let mut known = snapshot.tables(database, schema).unwrap_or_default();
    known.extend(relation::list(snapshot, database, schema));
    known.extend(view::list(snapshot, database, schema));
    Error::UnknownTable {
        name: name.shown(),
        nearest: nearest(&name.table, known),
        position: name.position,
    }
}

/// A table over time; a view is none, and neither is a relation.
pub(crate) fn find_table(snapshot: &Snapshot, name: &TableName) -> Result<Arc<TableSchema>, Error> {
    if let Some(table) = snapshot.table(&name.database, &name.schema, &name.table) {
        return Ok(table);
    }
    if relation::find(snapshot, name).is_some() {
        return Err(Error::Plan {
            message: format!(
                "\"{}\" is a relation: it has no time, no tags and no series, and its columns stay as they were made",
                name.table
            ),
            position: name.position,
        });
    }
    if view::definition(snapshot, &name.database, &name.schema, &name.table).is_some() {
        return Err(Error::Plan {
            message: format!(
                "\"{}\" is a view; change what it reads, or make it again with CREATE OR REPLACE VIEW",
                name.table
            ),
            position: name.position,
        });
    }
    Err(unknown_table(snapshot, name))
}

/// A tag or field that can be changed.
pub(crate) fn find_column(table: &TableSchema, name: &Name) -> Result<(), Error> {
    if name.text == TIME_COLUMN {
        return Err(Error::Plan {
            message: "the column time cannot be changed".to_owned(),
            position: name.position,
        });
    }
    if table.shown(&name.text).is_some() {
        return Ok(());
    }
    Err(unknown_column(table, name))
}

pub(crate) fn unknown_column(table: &TableSchema, name: &Name) -> Error {
    unknown_column_of(&table.arrow_schema(), name)
}

/// The error for a column that is none of these.
pub(crate) fn unknown_column_of(columns: &Schema, name: &Name) -> Error {
    let names = columns.fields().iter().map(|field| field.name().clone());
    Error::UnknownColumn {
        name: name.text.clone(),
        nearest: nearest(&name.text, names),
        position: name.position,
    }
}
