//! A statement that writes, on its way: its table, what it reads, and the rows that it keeps until all are there.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use nilometer_engine::{Error as EngineError, TableSchema};
use nilometer_service::define::{is_reserved, refuse_stored_answers};
use nilometer_service::{Executor, Privilege, Running, elsewhere};

use super::returning::Returning;
use super::rows::{execution, plain};
use super::writer::Writer;
use crate::answer::Answer;
use crate::error::Error;
use crate::execution::Queries;
use crate::limits::memory::pool;
use crate::planning::plan::plan;
use crate::shared::StoreState;
use crate::statement::name::{NameScope, TableName};
use crate::tables::catalogue::ReadContext;
use crate::tables::names;

/// How often an UPDATE or DELETE starts again when somebody else changed one of its rows meanwhile.
pub(crate) const TRIES_MAX: usize = 10;

/// One statement that writes, on its way.
pub(crate) struct Writing<'a> {
    pub(crate) queries: &'a Queries,
    pub(crate) reading: ReadContext,
    pub(crate) place: NameScope,
    pub(crate) running: Running,
    /// What it answers of its rows; `None` = how many there are.
    pub(crate) returning: Option<Returning>,
    pub(crate) writer: Writer,
}

impl Writing<'_> {
    /// Refuses a write to what its sender may not write to.
    pub(crate) fn allow(&self, name: &TableName) -> Result<(), Error> {
        self.reading.allow(Privilege::Write, name)
    }

    /// The table that is written to.
    pub(crate) fn table(&self, name: &TableName) -> Result<Arc<TableSchema>, Error> {
        if is_reserved(&name.schema) {
            return Err(Error::Plan {
                message: format!(
                    "the schema \"{}\" is what the store says of itself and cannot be written to",
                    name.schema
                ),
                position: name.position,
            });
        }
        let snapshot = &self.reading.snapshot;
        if !self.reading.is_computing() {
            refuse_stored_answers(snapshot, &name.database, &name.schema, &name.table)
                .map_err(|refused| Error::of_name(refused, name.position))?;
        }
        names::find_table(snapshot, name)
    }

    /// What takes the rows.
    pub(crate) fn writer(&self) -> Writer {
        self.writer.clone()
    }

    /// Lets go of what was read, so that a transaction need not copy for it what it has written.
    pub(crate) fn release(&mut self) {
        if self.writer.transaction.is_some() {
            self.reading.snapshot = Arc::new(self.writer.engine.snapshot());
        }
    }

    /// Does the work that waits for the disk.
    pub(crate) fn executor(&self) -> Arc<dyn Executor> {
        Arc::clone(&self.queries.shared.executor)
    }

    /// Plans a query in the place of the statement.
    pub(crate) async fn plan(
        &self,
        reading: &ReadContext,
        query: ast::Query,
    ) -> Result<(SessionState, LogicalPlan), Error> {
        elsewhere().await;
        let session = reading.session(&self.place);
        let statement = DfStatement::Statement(Box::new(ast::Statement::Query(Box::new(query))));
        let plan = plan(reading, &session, &self.place, &statement).await?;
        Ok((session, plan))
    }

    /// Runs a plan, and gives each batch to `take`. The limits of the statement hold.
    pub(crate) async fn run(
        self,
        session: &SessionState,
        plan: &LogicalPlan,
        mut take: impl FnMut(RecordBatch) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let batches = self.queries.run(session, plan, &self.running).await?;
        let Self {
            queries,
            reading,
            place,
            running,
            returning,
            writer,
        } = self;
        let mut answer = Answer::new(batches, running, &queries.shared.options);
        while let Some(batch) = answer.next().await {
            take(batch?)?;
        }
        Ok(Self {
            queries,
            reading,
            place,
            running: answer.into_running(),
            returning,
            writer,
        })
    }

    /// The same statement, on the newest snapshot.
    pub(crate) fn again(self) -> Self {
        let transaction = self.writer.transaction.as_ref();
        let store = StoreState::newest(&self.queries.shared, transaction);
        let reading = self.reading.at(store);
        Self { reading, ..self }
    }

    /// A reservation in the memory of the statement.
    pub(crate) fn reserve(&self) -> MemoryReservation {
        let pool = pool(&self.running);
        MemoryConsumer::new("rows to write").register(&pool)
    }
}

/// Batches that are kept until all of them are there.
pub(crate) struct Kept {
    batches: Vec<RecordBatch>,
    memory: MemoryReservation,
}

impl Kept {
    pub(crate) fn new(memory: MemoryReservation) -> Self {
        Self {
            batches: Vec::new(),
            memory,
        }
    }

    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let batch = plain(batch)?;
        // Twice: they are put together before they are written.
        self.memory.try_grow(batch.get_array_memory_size() * 2)?;
        self.batches.push(batch);
        Ok(())
    }

    /// All of them as one, with the memory that they are held in; `empty` = the columns, if there is none.
    pub(crate) fn together(
        self,
        empty: &SchemaRef,
    ) -> Result<(RecordBatch, MemoryReservation), Error> {
        let schema = self
            .batches
            .first()
            .map_or_else(|| Arc::clone(empty), RecordBatch::schema);
        let all = concat_batches(&schema, &self.batches).map_err(execution)?;
        Ok((all, self.memory))
    }
}

/// Whether a statement that changes rows may start again: somebody else was faster.
pub(crate) fn is_overtaken(error: &Error) -> bool {
    matches!(
        error,
        Error::Engine(
            EngineError::ChangedMeanwhile { .. }
                | EngineError::RelationChanged { .. }
                | EngineError::TableRewritten { .. }
        )
    )
}
