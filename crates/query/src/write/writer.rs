//! Destination of a statement's rows: the store at once, or the transaction that it is part of.
//!
//! Does: give both one face. Does not: know statements.

use std::sync::Arc;

use nilometer_engine::ingest::Session;
use nilometer_engine::{
    Engine, Error as EngineError, RelationChange, RowKey, Snapshot, TableSchema, Transaction,
};
use nilometer_service::write_relations;

use crate::statement::name::TableName;

/// Takes the rows of a statement.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub(crate) engine: Arc<Engine>,
    pub(crate) transaction: Option<Arc<Transaction>>,
}

impl Writer {
    /// A writer of typed rows.
    pub(crate) fn session(&self, database: &str) -> Result<Session, EngineError> {
        let session = Session::new(Arc::clone(&self.engine), database)?;
        Ok(match &self.transaction {
            Some(transaction) => session.within(transaction),
            None => session,
        })
    }

    /// Deletes rows that were read.
    pub(crate) fn delete_rows(
        &self,
        snapshot: &Snapshot,
        table: &TableSchema,
        keys: &[RowKey],
    ) -> Result<(), EngineError> {
        match &self.transaction {
            Some(transaction) => transaction.delete_rows(snapshot, table, keys),
            None => self.engine.delete_rows(snapshot, table, keys).map(drop),
        }
    }

    /// Changes relations of a schema, with what their foreign keys ask for; with a snapshot, if the rows still are what it shows.
    pub(crate) fn write_relations(
        &self,
        name: &TableName,
        snapshot: Option<&Snapshot>,
        changes: &[RelationChange],
    ) -> Result<(), EngineError> {
        let within = (name.database.as_str(), name.schema.as_str());
        let transaction = self.transaction.as_ref();
        write_relations(&self.engine, transaction, snapshot, within, changes)
    }
}
