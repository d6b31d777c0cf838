//! Place of a change, and the checks before every change: who may, which schemas are the store's own, what is there.
//!
//! Does: resolve names, check privileges on them, say which of the change's names an error is about. Does not: change anything.

use std::sync::Arc;

use nilometer_engine::{DEFAULT_SCHEMA, Engine, Error as EngineError, TableSchema};

use super::change::name::{Path, TableName};
use super::change::{Change, TableChange};
use super::error::{DefineError, Part};
use super::lookup;
use crate::access::{self, Followed, INTERNAL_DATABASE, Principal, Privilege};
use crate::error::Error;
use crate::write::sessions::Scope;

/// Where names without database or schema are.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) database: String,
    pub(super) schema: String,
}

impl Place {
    /// Where a database is not there, whoever looks for its schema says so.
    pub(super) fn of(engine: &Arc<Engine>, scope: &Scope) -> Self {
        let database = scope.database.clone();
        let own = scope.schema.clone();
        let schema = own.or_else(|| engine.snapshot().default_schema(&database));
        Self {
            schema: schema.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned()),
            database,
        }
    }

    pub(super) fn table(&self, path: Path) -> Result<TableName, Error> {
        let named = path.table(&self.database, &self.schema);
        named.map_err(|wrong| wrong.about(Part::Start))
    }

    /// What a change does to the names of schemas, tables and views; names that cannot be are refused later.
    pub(super) fn followed(&self, change: &Change) -> Vec<Followed> {
        let table = |path: &Path| path.clone().table(&self.database, &self.schema).ok();
        let schema = |path: &Path| {
            let named = path.clone().schema(&self.database).ok();
            named.map(Followed::schema)
        };
        match change {
            Change::CreateSchema { path, .. } => schema(path).map(Followed::Made),
            Change::CreateTable { path, .. }
            | Change::CreateRelation { path, .. }
            | Change::CreateView { path, .. }
            | Change::CreateSequence { path, .. } => table(path).map(Followed::Made),
            Change::DropSchema { path, .. } => schema(path).map(Followed::Gone),
            Change::DropTable { path, .. } | Change::DropView { path, .. } => {
                table(path).map(Followed::Gone)
            }
            Change::DropTables { paths, .. } | Change::DropSequences { paths, .. } => {
                return paths.iter().filter_map(table).map(Followed::Gone).collect();
            }
            Change::RenameSchema { path, to } => {
                schema(path).map(|name| Followed::Renamed(name, to.clone()))
            }
            Change::AlterTable {
                path,
                change: TableChange::Rename { to },
                ..
            } => table(path).map(|name| Followed::Renamed(name, to.clone())),
            _ => None,
        }
        .into_iter()
        .collect()
    }

    /// The names of a database and of a schema in it that somebody may change.
    pub(super) fn schema_to_change(&self, path: Path) -> Result<(String, String), Error> {
        let named = path.schema(&self.database);
        let (database, name) = named.map_err(|wrong| wrong.about(Part::Start))?;
        refuse_reserved(&name).map_err(|reserved| reserved.about(Part::Name))?;
        Ok((database, name))
    }
}

pub(super) fn check_table(principal: &Principal, place: &Place, path: &Path) -> Result<(), Error> {
    let name = place.table(path.clone())?;
    refuse_internal(&name.database)?;
    let about = access::Place::table(&name.database, &name.schema, &name.table);
    principal.check(Privilege::Define, about)
}

pub(super) fn refuse_internal(database: &str) -> Result<(), Error> {
    if database == INTERNAL_DATABASE {
        return Err(Error::InternalDatabase);
    }
    Ok(())
}

pub(super) fn existing_table(
    engine: &Arc<Engine>,
    name: TableName,
    if_exists: bool,
) -> Result<Option<(TableName, Arc<TableSchema>)>, Error> {
    refuse_reserved(&name.schema).map_err(|reserved| reserved.about(Part::Name))?;
    match lookup::find_table(&engine.snapshot(), &name) {
        Ok(table) => Ok(Some((name, table))),
        // What is there but cannot be changed so is not missing.
        Err(DefineError::Unknown { .. }) if if_exists => Ok(None),
        Err(missing) => Err(missing.about(Part::Start)),
    }
}

impl DefineError {
    /// As an error about one of the change's names.
    pub fn about(self, part: Part) -> Error {
        Error::Define { part, source: self }
    }
}

pub(super) fn must_be_new(
    is_new: bool,
    what: &'static str,
    name: &str,
    place: &str,
) -> Result<(), EngineError> {
    if is_new {
        return Ok(());
    }
    Err(EngineError::ExistsAlready {
        what,
        name: name.to_owned(),
        place: place.to_owned(),
    })
}

pub(super) fn refuse_reserved(schema: &str) -> Result<(), DefineError> {
    if !lookup::is_reserved(schema) {
        return Ok(());
    }
    let schema = schema.to_owned();
    Err(DefineError::Reserved { schema })
}
