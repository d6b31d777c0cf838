//! CREATE, ALTER and DROP: changes of names, carried out by the service.
//!
//! Does: say where in the statement the name stands that an error is about. Does not: look names up or call the engine (`nilometer_service::define` does).

use std::sync::Arc;

use nilometer_engine::Engine;
use nilometer_service::define::{self, Change, Part, TableChange};
use nilometer_service::{Class, Error as ServiceError, Principal, Scope};

use crate::error::Error;
use crate::statement::WrittenChange;
use crate::statement::name::{NameScope, TableName};
use crate::statement::settings;

/// The view that a change makes, and its query; `None` = it makes none.
pub(crate) fn new_view<'a>(
    place: &NameScope,
    written: &'a WrittenChange,
) -> Result<Option<(TableName, &'a str)>, Error> {
    let Change::CreateView { path, query, .. } = &written.change else {
        return Ok(None);
    };
    let start = written.position(Part::Start);
    let named = path.clone().table(&place.database, &place.schema);
    let name = TableName::at(start, named.map_err(|wrong| Error::of_name(wrong, start))?);
    Ok(Some((name, query)))
}

/// Carries a change out. Blocks for a sync of the log.
pub(crate) fn run(
    engine: &Arc<Engine>,
    principal: &Principal,
    place: NameScope,
    mut written: WrittenChange,
) -> Result<(), Error> {
    let scope = Scope::from(place);
    if let Change::AlterTable {
        path,
        if_exists,
        change: TableChange::Set(list),
        ..
    } = &mut written.change
    {
        match settings::of_table(&written.settings) {
            Ok(settings) => *list = settings,
            Err(wrong) => {
                let found = define::table_to_alter(engine, &scope, path.clone(), *if_exists);
                return match found.map_err(|error| placed(error, &written))? {
                    Some(_) => Err(wrong),
                    None => Ok(()),
                };
            }
        }
    }
    let change = written.change.clone();
    define::run(engine, principal, &scope, change).map_err(|error| placed(error, &written))
}

/// An error of the service, where it stands in the statement.
fn placed(error: ServiceError, written: &WrittenChange) -> Error {
    match error {
        ServiceError::Engine(error) => error.into(),
        ServiceError::Define { part, source } => Error::of_name(source, written.position(part)),
        denied if denied.class() == Class::Forbidden => Error::Denied(Box::new(denied)),
        other => Error::internal(other.to_string()),
    }
}
