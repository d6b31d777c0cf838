//! Name resolution in a snapshot, with the places of names in the statement.
//!
//! Does: say where a missing name stands. Does not: look it up (`nilometer_service::define` does).

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use nilometer_engine::{Snapshot, TableSchema};
use nilometer_service::define;

use crate::error::{Error, Position};
use crate::statement::name::{Name, TableName};
use crate::tables::relation;

pub(crate) fn find_database(
    snapshot: &Snapshot,
    name: &str,
    position: Option<Position>,
) -> Result<(), Error> {
    define::find_database(snapshot, name).map_err(|missing| Error::of_name(missing, position))
}

pub(crate) fn find_schema(
    snapshot: &Snapshot,
    database: &str,
    name: &str,
    position: Option<Position>,
) -> Result<(), Error> {
    let found = define::find_schema(snapshot, database, name);
    found.map_err(|missing| Error::of_name(missing, position))
}

/// The error for a table or view that is not there.
pub(crate) fn unknown_table(snapshot: &Snapshot, name: &TableName) -> Error {
    Error::of_name(define::unknown_table(snapshot, &name.name()), name.position)
}

/// A table over time; a view is none, and neither is a relation.
pub(crate) fn find_table(snapshot: &Snapshot, name: &TableName) -> Result<Arc<TableSchema>, Error> {
    let found = define::find_table(snapshot, &name.name());
    found.map_err(|missing| Error::of_name(missing, name.position))
}

/// The columns of a table or a relation as they are shown.
pub(crate) fn shown_schema(snapshot: &Snapshot, name: &TableName) -> Result<SchemaRef, Error> {
    if let Some(reader) = relation::find(snapshot, name) {
        return Ok(reader.schema().shown_columns().schema);
    }
    let table = find_table(snapshot, name)?;
    Ok(Arc::clone(&table.shown_columns().schema))
}

/// The error for a column that is none of these.
pub(crate) fn unknown_column_of(columns: &Schema, name: &Name) -> Error {
    Error::of_name(define::unknown_column(columns, &name.text), name.position)
}
