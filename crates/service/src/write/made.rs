//! Tables that a surface makes for the rows that it is sent: columns, settings, and what is declared of them.
//!
//! Does: make such a table, with its database, for who may write there. Does not: change one that is there, or know what the
//! columns mean.

use nilometer_engine::{Declarations, DeclaredTable, NewColumn, TableSettings};

use crate::access::Principal;
use crate::define::{Column, DefineError, Part, create_database, view};
use crate::error::Error;
use crate::service::Service;
use crate::write::sessions::Scope;

/// A table to be made.
#[derive(Debug, Clone)]
pub struct NewTable {
    /// Its tags and fields, with what is declared of them.
    pub columns: Vec<Column>,
    /// Its settings.
    pub settings: TableSettings,
    /// What is declared of itself.
    pub declared: DeclaredTable,
}

impl Service {
    /// Makes a table unless it is there, and its database unless that is there; durable when this returns. Blocks.
    pub fn make_table(
        &self,
        principal: &Principal,
        scope: &Scope,
        table: &str,
        new: &NewTable,
    ) -> Result<(), Error> {
        self.check_write(principal, scope, Some(table), true)?;
        let engine = self.engine();
        create_database(engine, &scope.database)?;
        let snapshot = engine.snapshot();
        let default = || snapshot.default_schema(&scope.database).unwrap_or_default();
        let schema = scope.schema.clone().unwrap_or_else(default);
        if view(&snapshot, &scope.database, &schema, table).is_some() {
            let name = table.to_owned();
            return Err(Error::Define {
                part: Part::Start,
                source: DefineError::IsView { name },
            });
        }
        let columns: Vec<NewColumn<'_>> = new
            .columns
            .iter()
            .map(|column| NewColumn {
                name: &column.name,
                kind: column.kind,
            })
            .collect();
        let declared = Declarations {
            table: new.declared.clone(),
            columns: new.columns.iter().map(|it| it.declared.clone()).collect(),
        };
        engine.create_declared_table(
            &scope.database,
            &schema,
            table,
            &columns,
            new.settings,
            &declared,
        )?;
        Ok(())
    }
}
