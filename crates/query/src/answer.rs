//! The result of a query: a schema, then a stream of batches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, stream};
use nilometer_service::{Ended, Running};

use crate::limits::memory::pool;
use crate::limits::scope::{self, Scope};
use crate::statement::headings::Names;
use crate::{Error, SqlOptions};

/// Memory of a query that its answer's reader has taken over, given back when dropped.
#[derive(Debug)]
pub struct AnswerMemory(
    #[expect(dead_code, reason = "it is there to be dropped")] MemoryReservation,
);

/// The rows of an answer, batch by batch. Dropping it stops the query.
///
/// Operators start tasks where it is polled, so poll it on the runtime that is for computing.
pub struct Answer {
    schema: SchemaRef,
    batches: SendableRecordBatchStream,
    scope: Scope,
    /// Wakes it when its statement has to end; there is none before it waits.
    due: Option<BoxFuture<'static, ()>>,
    memory_bytes_max: usize,
    running: Running,
    /// What its reader holds of it.
    held: MemoryReservation,
    ended: bool,
    is_renamed: bool,
    /// How many rows the statement wrote; `None` = it only read.
    written: Option<u64>,
}

impl Answer {
    pub(crate) fn new(
        batches: SendableRecordBatchStream,
        running: Running,
        options: &SqlOptions,
    ) -> Self {
        let held = MemoryConsumer::new("answer").register(&pool(&running));
        Self {
            schema: batches.schema(),
            batches,
            scope: Scope::of(&running),
            due: None,
            memory_bytes_max: options.query_memory_bytes_max,
            running,
            held,
            ended: false,
            is_renamed: false,
            written: None,
        }
    }

    /// The same with other names for its columns.
    pub(crate) fn headed(mut self, names: Option<&Names>) -> Self {
        let Some(names) = names.filter(|names| names.len() == self.schema.fields().len()) else {
            return self;
        };
        let fields = self.schema.fields().iter().zip(names.iter());
        let fields: Vec<Field> = fields
            .map(|(field, name)| field.as_ref().clone().with_name(name))
            .collect();
        let metadata = self.schema.metadata().clone();
        self.schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        self.is_renamed = true;
        self
    }

    /// A batch under the names of the answer.
    fn named(&self, batch: RecordBatch) -> Result<RecordBatch, Error> {
        if !self.is_renamed {
            return Ok(batch);
        }
        let (schema, columns, rows) = batch.into_parts();
        let mut fields = schema.fields().iter().zip(self.schema.fields());
        let is_same = fields.all(|(field, named)| {
            field.data_type() == named.data_type() && field.is_nullable() == named.is_nullable()
        });
        let schema = if is_same {
            SchemaRef::clone(&self.schema)
        } else {
            // A batch may know better than its plan which of its columns have all their values.
            let fields = schema.fields().iter().zip(self.schema.fields());
            let fields: Vec<Field> = fields
                .map(|(field, named)| field.as_ref().clone().with_name(named.name()))
                .collect();
            Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, columns, &options)
            .map_err(|error| Error::internal(error.to_string()))
    }

    /// The answer of a statement that is done: what it answers is there.
    pub(crate) fn of_batch(batch: RecordBatch, running: Running, options: &SqlOptions) -> Self {
        let schema = batch.schema();
        let batches = RecordBatchStreamAdapter::new(schema, stream::iter([Ok(batch)]));
        Self::new(Box::pin(batches), running, options)
    }

    /// The answer of a statement that wrote: how many rows.
    pub(crate) fn of_rows(count: u64, running: Running, options: &SqlOptions) -> Self {
        let schema = Schema::new(vec![Field::new("rows", DataType::Int64, false)]);
        let rows = Int64Array::from(vec![i64::try_from(count).unwrap_or(i64::MAX)]);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(rows)])
            .expect("one column of the type that the schema says");
        Self {
            written: Some(count),
            ..Self::of_batch(batch, running, options)
        }
    }

    /// How many rows the statement wrote; `None` = it only read.
    pub(crate) fn written(&self) -> Option<u64> {
        self.written
    }

    /// The statement, to go on with.
    pub(crate) fn into_running(self) -> Running {
        self.running
    }

    /// Says how many bytes the reader holds of rows that it has taken, such as those that wait to be written: they count
    /// as the query's. An error = it may not hold so many.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        let held = self.held.try_resize(bytes);
        held.map_err(|error| Error::of_run(error, self.memory_bytes_max))
    }

    /// The first bytes of what is held, for who takes them along: they count as the query's until this is dropped.
    pub fn hand_over(&mut self, bytes: usize) -> AnswerMemory {
        let bytes = bytes.min(self.held.size());
        AnswerMemory(self.held.split(bytes))
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// What the plan gives next, charged to the statement until the reader has it.
    fn next_batch(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch, DataFusionError>>> {
        let Self { scope, batches, .. } = self;
        // A panic is this statement's, and nobody else's: what it has touched is dropped with it.
        let item = catch_unwind(AssertUnwindSafe(|| {
            scope.run(|| match scope::check() {
                Ok(()) => batches.poll_next_unpin(context),
                Err(error) => Poll::Ready(Some(Err(error))),
            })
        }));
        let item = item.unwrap_or_else(|panic| {
            let error = Error::of_panic(panic.as_ref());
            Poll::Ready(Some(Err(DataFusionError::External(Box::new(error)))))
        });
        if let Poll::Ready(Some(Ok(batch))) = &item {
            scope.memory.handed_over(batch.get_array_memory_size());
        }
        item
    }

    /// Whether its statement has to end; if not, the task is woken when it has.
    fn is_due(&mut self, context: &mut Context<'_>) -> bool {
        let Self { due, running, .. } = self;
        let due = due.get_or_insert_with(|| running.stop().due());
        due.as_mut().poll(context).is_ready()
    }

    /// All batches, for answers known to be small.
    pub async fn collect(mut self) -> Result<Vec<RecordBatch>, Error> {
        let mut batches = Vec::new();
        while let Some(batch) = self.next().await {
            batches.push(batch?);
        }
        Ok(batches)
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl Stream for Answer {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        // What ends it comes first: a query that always has a batch ready would never be stopped otherwise.
        let item = match self.running.ended() {
            Some(ended) => Some(Err(ended.into())),
            None => match self.next_batch(context) {
                Poll::Pending if !self.is_due(context) => return Poll::Pending,
                Poll::Pending => Some(Err(self.running.ended().unwrap_or(Ended::Cancelled).into())),
                // What ended the work within the poll is what is wrong, and not what the work said of it.
                Poll::Ready(Some(Err(error))) => Some(Err(match self.running.ended() {
                    Some(ended) => ended.into(),
                    None => Error::of_run(error, self.memory_bytes_max),
                })),
                Poll::Ready(item) => item.map(|batch| self.named(batch?)),
            },
        };
        self.ended = !matches!(item, Some(Ok(_)));
        Poll::Ready(item)
    }
}
