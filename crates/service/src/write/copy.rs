//! Rows that a client streams into a table that is there: all of them, or none.
//!
//! Does: find the table and its columns, refuse who may not write, store the rows as one batch; stage the parts of a longer stream
//! in a transaction. Does not: read a format; a surface brings record batches. What is staged of a relation is in memory until the
//! commit, as its rows are after it.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use nilometer_engine::ingest::{OnConflict, SeenKeys, Session as IngestSession, Target};
use nilometer_engine::{
    Declared, Duplicates, Error as EngineError, RelationChange, RelationSchema, Transaction,
};

use super::RowTarget;
use super::references::write_relations;
use super::sessions::Scope;
use crate::define::{
    DefineError, Part, TableName, is_reserved, refuse_stored_answers, unknown_table,
};
use crate::error::Error;
use crate::language::Session;
use crate::service::Service;

/// A table that rows are streamed into.
#[derive(Debug, Clone)]
pub struct CopyTarget {
    rows: RowTarget,
    columns: SchemaRef,
    name: TableName,
    /// Columns that have a default.
    defaults: Vec<String>,
    has_checks: bool,
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
        refuse_stored_answers(&snapshot, database, &schema, table).map_err(refused)?;
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
            has_checked: true,
            guesses_tags: false,
            duplicates,
            on_conflict: match duplicates {
                Duplicates::Unique => OnConflict::Error,
                Duplicates::Last | Duplicates::Keep => OnConflict::Replace,
            },
        };
        let name = TableName {
            database: database.clone(),
            schema: schema.clone(),
            table: table.clone(),
        };
        if let Some(found) = snapshot.table(database, &schema, table) {
            let shown = found.shown_columns();
            let fields = shown.schema.fields().iter().enumerate();
            let columns: Vec<Field> = fields
                .map(|(at, field)| {
                    let position = shown.position(at).unwrap_or(at);
                    let never_null = found.is_not_null(position);
                    field.as_ref().clone().with_nullable(!never_null)
                })
                .collect();
            let declared = found.declared.as_ref();
            let time = declared.and_then(|it| it.time.as_ref());
            let time = time.map(|it| (it.name.as_str(), &it.column));
            let others = found.tags.iter().chain(&found.fields);
            let others = others.filter_map(|it| Some((it.name.as_str(), it.declared.as_deref()?)));
            return Ok(Self {
                defaults: defaults_of(time.into_iter().chain(others)),
                has_checks: declared.is_some_and(|it| !it.checks.is_empty()),
                name,
                rows: of(found.settings.duplicates),
                columns: Arc::new(Schema::new(columns)),
                relation: None,
                transaction: session.transaction.clone(),
            });
        }
        if let Some(found) = snapshot.relation(database, &schema, table) {
            let relation = Arc::clone(found.schema());
            let declared = relation.declared.as_ref();
            let names = relation.columns.iter().map(|column| column.name.as_str());
            let said = declared.into_iter().flat_map(|it| &it.columns);
            return Ok(Self {
                defaults: defaults_of(names.zip(said)),
                has_checks: declared.is_some_and(|it| !it.table.checks.is_empty()),
                name,
                rows: of(Duplicates::default()),
                columns: relation.shown_columns().schema,
                relation: Some(relation),
                transaction: session.transaction.clone(),
            });
        }
        Err(refused(unknown_table(&snapshot, &name)))
    }

    /// What the rows are part of.
    pub fn transaction(&self) -> Option<&Arc<Transaction>> {
        self.transaction.as_ref()
    }

    /// The table's name, without those of what it is in.
    pub fn name(&self) -> &str {
        &self.rows.table
    }

    /// The table's name with those of what it is in.
    pub fn full_name(&self) -> &TableName {
        &self.name
    }

    /// Whether a column has a default, so that rows may leave it out.
    pub fn has_default(&self, column: &str) -> bool {
        self.defaults.iter().any(|name| name == column)
    }

    /// Whether rows that fill these columns are to be completed by a language ([`crate::Language::complete`]) before they are stored.
    pub fn is_completed(&self, fills: impl Fn(&str) -> bool) -> bool {
        let mut defaults = self.defaults.iter();
        self.has_checks || defaults.any(|name| !fills(name))
    }

    /// Names and types of its columns, in their order.
    pub fn columns(&self) -> &Schema {
        &self.columns
    }
}

/// The columns that have a default.
fn defaults_of<'a>(columns: impl Iterator<Item = (&'a str, &'a Declared)>) -> Vec<String> {
    let having = columns.filter(|(_, declared)| declared.default.is_some());
    having.map(|(name, _)| name.to_owned()).collect()
}

impl Service {
    /// Refuses more rows and columns than one batch may have.
    pub fn check_rows(&self, rows: usize, columns: usize) -> Result<(), Error> {
        Ok(self.engine().check_batch(rows, columns)?)
    }

    /// Rows that one batch may have.
    pub fn batch_rows_max(&self) -> usize {
        let most = self.engine().options().batch_rows_max;
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Writes some rows of a stream into a file that becomes part of the store when a transaction commits; those of a relation into the
    /// transaction itself. Blocks.
    pub fn stage(
        &self,
        target: &CopyTarget,
        own: &Arc<Transaction>,
        batch: &RecordBatch,
    ) -> Result<(), Error> {
        let rows = &target.rows;
        self.check_write(&rows.principal, &rows.scope, Some(&rows.table), false)?;
        if let Some(relation) = &target.relation {
            return Ok(self.copy_into_relation(target, relation, Some(own), batch)?);
        }
        let (database, schema) = (&rows.scope.database, rows.scope.schema.as_deref());
        let mut session = IngestSession::in_schema(Arc::clone(self.engine()), database, schema)?;
        session.have_checked(rows.has_checked);
        let to = Target {
            schema,
            table: &rows.table,
        };
        session.stage_arrow(own, to, batch, rows.on_conflict)?;
        Ok(())
    }

    /// Stores all rows of a stream, as one batch, once they are complete ([`CopyTarget::is_completed`]). Blocks, so it belongs into [`Service::write`].
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
            session.have_checked(rows.has_checked);
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
        let transaction = target.transaction.as_ref();
        Ok(self.copy_into_relation(target, relation, transaction, batch)?)
    }

    fn copy_into_relation(
        &self,
        target: &CopyTarget,
        relation: &Arc<RelationSchema>,
        transaction: Option<&Arc<Transaction>>,
        batch: &RecordBatch,
    ) -> Result<(), EngineError> {
        let values = relation.rows_of(batch)?;
        let changes = [RelationChange::Insert(Arc::clone(relation), values)];
        let (database, schema) = (&target.name.database, &target.name.schema);
        let within = (database.as_str(), schema.as_str());
        write_relations(self.engine(), transaction, None, within, &changes)
    }
}
