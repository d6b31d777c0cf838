//! Grants follow the schemas, tables and views that they are about: away with a drop, along with a rename.
//!
//! Does: say what a definition does to names, and do the same to the grants of them once it is done. Does not: know databases
//! (`define/databases.rs` has theirs).
//!
//! A definition and the grants are two records of the log, so the store may stop between the two. What is left then is of a
//! name that nothing has, and a definition that makes something of that name forgets it first.

use std::sync::Arc;

use nilometer_engine::{Engine, Error as EngineError};

use super::privilege::Place;
use super::store;
use crate::define::TableName;

/// A schema (its table is empty), or a table or view.
type Name = TableName;

/// What a definition does to a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Followed {
    /// Something of this name is made, unless it is there.
    Made(Name),
    /// It is there no more.
    Gone(Name),
    /// It has another name.
    Renamed(Name, String),
}

fn place(name: &Name) -> Place<'_> {
    if name.table.is_empty() {
        Place::schema(&name.database, &name.schema)
    } else {
        Place::table(&name.database, &name.schema, &name.table)
    }
}

impl Followed {
    /// Of a schema.
    pub(crate) fn schema((database, schema): (String, String)) -> Name {
        TableName {
            database,
            schema,
            table: String::new(),
        }
    }

    /// Before the definition. `is_there` = something has the name.
    pub(crate) fn begin(
        &self,
        engine: &Arc<Engine>,
        is_there: impl FnOnce(&Name) -> bool,
    ) -> Result<(), EngineError> {
        match self {
            Self::Made(name) if !is_there(name) => store::forget_grants(engine, place(name)),
            _ => Ok(()),
        }
    }

    /// After it.
    pub(crate) fn end(&self, engine: &Arc<Engine>) -> Result<(), EngineError> {
        match self {
            Self::Made(_) => Ok(()),
            Self::Gone(name) => store::forget_grants(engine, place(name)),
            Self::Renamed(name, to) => store::move_grants(engine, place(name), to),
        }
    }
}
