//! Rows that a client streams into a table that is there: all of them, or none.
//!
//! Does: find the table and its columns, refuse who may not write, store the rows as one batch. Does not: read a format; a
//! surface brings a record batch. What one batch may hold bounds a stream.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use nilometer_engine::ingest::{OnConflict, SeenKeys, Session as IngestSession, Target};
use nilometer_engine::{Duplicates, RelationChange, RelationSchema, TIME_COLUMN, Transaction};

use super::RowTarget;
use super::sessions::Scope;
use crate::define::{DefineError, Part, TableName, is_reserved, unknown_table};
use crate::error::Error;
use crate::language::Session;
use crate::service::Service;

/// A table that rows are streamed into.
#[derive(Debug, Clone)]
pub struct CopyTarget {
    rows: RowTarget,
    columns: SchemaRef,
    /// What it is, if it is a relation.
    relation: Option<Arc<RelationSchema>>,
    /// What the rows are part of.
    transaction: Option<Arc<Transaction>>,
}

impl CopyTarget {
    /// The table that a name of one to three parts means in a session.
    pub fn find(service: &Service, session: &Session, path: &[String]) -> Result<Self, Error> {
        let refused = |source| Error::Define {
            part: Part::Start,
            source,
        };
        let snapshot = service.snapshot();
        let (database, schema, table) = match path {
            [table] => (&session.database, session.schema.as_ref(), table),
            [schema, table] => (&session.database, Some(schema), table),
            [database, schema, table] => (database, Some(schema), table),
            _ => {
                return Err(refused(DefineError::TooManyParts {
                    remedy: "write table, schema.table or database.schema.table",
                }));
            }
        };
        let default = snapshot.default_schema(database);
        let schema = schema.cloned().or(default).unwrap_or_default();
        if is_reserved(&schema) {
            return Err(refused(DefineError::Reserved { schema }));
        }
        let scope = Scope {
            database: database.clone(),
            schema: Some(schema.clone()),
        };
        service.check_write(&session.principal, &scope, Some(table), false)?;
        let of = |duplicates| RowTarget {
            principal: session.principal.clone(),
            scope: scope.clone(),
            creates: false,
            table: table.clone(),
            tags: None,
            adds_columns: false,
            guesses_tags: false,
            duplicates,
            on_conflict: match duplicates {
                Duplicates::Unique => OnConflict::Error,
                Duplicates::Last | Duplicates::Keep => OnConflict::Replace,
            },
        };
        if let Some(found) = snapshot.table(database, &schema, table) {
            let schema = found.arrow_schema();
            let fields = schema.fields().iter().map(|field| {
                let field = field.as_ref().clone();
                let is_time = field.name() == TIME_COLUMN;
                field.with_nullable(!is_time)
            });
            let columns: Vec<Field> = fields.collect();
            return Ok(Self {
                rows: of(found.settings.duplicates),
                columns: Arc::new(Schema::new(columns)),
                relation: None,
                transaction: session.transaction.clone(),
            });
        }
        if let Some(found) = snapshot.relation(database, &schema, table) {
            let relation = Arc::clone(found.schema());
            return Ok(Self {
                rows: of(Duplicates::default()),
                columns: relation.arrow_schema(),
                relation: Some(relation),
                transaction: session.transaction.clone(),
            });
        }
        let name = TableName {
            database: database.clone(),
            schema,
            table: table.clone(),
        };
        Err(refused(unknown_table(&snapshot, &name)))
    }

    /// The table's name, without those of what it is in.
    pub fn name(&self) -> &str {
        &self.rows.table
    }

    /// Names and types of its columns, in their order.
    pub fn columns(&self) -> &Schema {
        &self.columns
    }
}

impl Service {
    /// Refuses more rows and columns than one batch may have.
    pub fn check_rows(&self, rows: usize, columns: usize) -> Result<(), Error> {
        Ok(self.engine().check_batch(rows, columns)?)
    }

    /// Stores all rows of a stream, as one batch. Blocks, so it belongs into [`Service::write`].
    pub fn copy_in(&self, target: &CopyTarget, batch: &RecordBatch) -> Result<(), Error> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let rows = &target.rows;
        if let (None, Some(transaction)) = (&target.relation, &target.transaction) {
            self.check_write(&rows.principal, &rows.scope, Some(&rows.table), false)?;
            let (database, schema) = (&rows.scope.database, rows.scope.schema.as_deref());
            let engine = Arc::clone(self.engine());
            let session = IngestSession::in_schema(engine, database, schema)?;
            let to = Target {
                schema,
                table: &rows.table,
            };
            let mut session = session.within(transaction);
            session.write_arrow(to, batch, rows.on_conflict)?;
            return Ok(());
        }
        let Some(relation) = &target.relation else {
            let mut seen = SeenKeys::new(0);
            self.store_rows(&target.rows, batch, (0, None), &mut seen)?;
            return Ok(());
        };
        // Whoever was allowed to begin may not be any more.
        self.check_write(&rows.principal, &rows.scope, Some(&rows.table), false)?;
        self.check_rows(batch.num_rows(), batch.num_columns())?;
        let values = relation.rows_of(batch)?;
        let change = RelationChange::Insert(Arc::clone(relation), values);
        match &target.transaction {
            Some(transaction) => transaction.write_relations(None, &[change])?,
            None => {
                self.engine().write_relations(&[change])?;
            }
        }
        Ok(())
    }
}
