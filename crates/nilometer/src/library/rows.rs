//! Rows on their way out of a query: as an iterator for threads, as a stream for tasks.
//!
//! The query runs on the database's own runtime and hands batches over through a short queue, so it waits for a reader
//! that is slow and ends when the reader is gone.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::SchemaRef;
use futures::{Stream, StreamExt};
use nilometer_service::{Error as ServiceError, Language, Params, Service, Session};
use tokio::sync::{mpsc, oneshot};

use crate::library::error::Error;

/// Batches that wait for a slow reader.
const BATCHES_WAITING_MAX: usize = 4;

/// The language of [`Database::sql`](crate::Database::sql).
pub(crate) const LANGUAGE: &str = "sql";

/// What the queue carries; `None` = that was all. A queue that ends without it belonged to a query that broke off.
type Message = Option<Result<RecordBatch, Error>>;

/// Rows of an answer, for a thread that may wait.
#[derive(Debug)]
pub struct Rows(RowStream);

impl Rows {
    /// Names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.ended {
            return None;
        }
        let received = self.0.batches.blocking_recv();
        self.0.accept(received)
    }
}

/// Rows of an answer, for a task. A [`Stream`] of record batches.
#[derive(Debug)]
pub struct RowStream {
    schema: SchemaRef,
    batches: mpsc::Receiver<Message>,
    ended: bool,
}

impl RowStream {
    fn new(schema: SchemaRef, batches: mpsc::Receiver<Message>) -> Self {
        Self {
            schema,
            batches,
            ended: false,
        }
    }

    /// What a reader gets for what was received.
    fn accept(&mut self, received: Option<Message>) -> Option<Result<RecordBatch, Error>> {
        let item = received.unwrap_or(Some(Err(Error::Stopped)));
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

impl Stream for RowStream {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match self.batches.poll_recv(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(received) => Poll::Ready(self.accept(received)),
        }
    }
}

/// A query that is being planned.
pub(crate) struct Begun {
    planned: oneshot::Receiver<Result<SchemaRef, Error>>,
    batches: mpsc::Receiver<Message>,
}

impl Begun {
    pub(crate) fn wait(self) -> Result<Rows, Error> {
        let planned = self.planned.blocking_recv();
        let schema = planned.map_err(|_| Error::Stopped)??;
        Ok(Rows(RowStream::new(schema, self.batches)))
    }

    pub(crate) async fn wait_async(self) -> Result<RowStream, Error> {
        let schema = self.planned.await.map_err(|_| Error::Stopped)??;
        Ok(RowStream::new(schema, self.batches))
    }
}

/// What is done already, and wrote no rows.
pub(crate) fn done() -> Begun {
    let (plan, planned) = oneshot::channel();
    let (sender, batches) = mpsc::channel(BATCHES_WAITING_MAX);
    let count = Arc::new(Int64Array::from(vec![0])) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("rows", count)]);
    let batch = batch.expect("one column of one row");
    // Both ends are here, and the queue has room for two.
    let _ = plan.send(Ok(batch.schema()));
    let _ = sender.try_send(Some(Ok(batch)));
    let _ = sender.try_send(None);
    Begun { planned, batches }
}

/// Starts a query; on a runtime that was stopped there is no answer.
pub(crate) fn begin(service: &Service, session: Session, statement: &str) -> Begun {
    let (plan, planned) = oneshot::channel();
    let (sender, batches) = mpsc::channel(BATCHES_WAITING_MAX);
    // Without the service: threads end with the database, whatever its queries are at.
    let language = service.language(LANGUAGE).map(Arc::clone);
    let statement = statement.to_owned();
    service.spawn(async move {
        let answer = tokio::select! {
            () = sender.closed() => return,
            answer = answer(language, &session, &statement) => answer,
        };
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // Whoever does not listen any more does not need the error either.
                let _ = plan.send(Err(Error::of_query(error)));
                return;
            }
        };
        if plan.send(Ok(answer.schema())).is_err() {
            return;
        }
        loop {
            let batch = tokio::select! {
                () = sender.closed() => return,
                batch = answer.next() => batch,
            };
            let is_last = batch.is_none();
            let message = batch.map(|batch| batch.map_err(Error::of_query));
            if sender.send(message).await.is_err() || is_last {
                return;
            }
        }
    });
    Begun { planned, batches }
}

async fn answer(
    language: Result<Arc<dyn Language>, ServiceError>,
    session: &Session,
    statement: &str,
) -> Result<nilometer_service::RowStream, ServiceError> {
    let outcome = session.run(&*language?, statement, &Params::new()).await?;
    outcome.into_rows()
}
