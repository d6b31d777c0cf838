//! Rows in any order, read by several tasks.
//!
//! Does: let each task read a part of a series query, and gather their batches as they come. Does not: keep an order, or let a task
//! be more than a batch ahead of who reads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result, internal_err};
use nilometer_series::Batches;
use nilometer_service::Executor;
use tokio::sync::mpsc;

use super::stream::Errors;
use crate::Error;
use crate::limits::scope::{self, Scope};
use crate::planning::recognised::Columns;

/// Batches of a part that wait for who reads.
const AHEAD: usize = 1;

/// What a task says.
type Said = Option<Result<RecordBatch>>;

/// The batches of all tasks. Dropping it ends them.
pub(super) struct Parted {
    batches: mpsc::Receiver<Said>,
    /// Tasks that have not said that they are done.
    open: usize,
    cancel: Arc<AtomicBool>,
}

/// What a task reads, and what it needs for it.
struct Part {
    batches: Batches,
    columns: Columns,
    errors: Errors,
    scope: Scope,
    to: mpsc::Sender<Said>,
}

impl Parted {
    pub(super) fn begin(
        parts: Vec<Batches>,
        (columns, errors, cancel): (&Columns, &Errors, &Arc<AtomicBool>),
        (executor, scope): (&Arc<dyn Executor>, &Scope),
    ) -> Self {
        let open = parts.len();
        let (to, batches) = mpsc::channel(open * AHEAD);
        for batches in parts {
            let part = Part {
                batches,
                columns: columns.clone(),
                errors: errors.clone(),
                scope: scope.clone(),
                to: to.clone(),
            };
            executor.spawn(Box::pin(part.read()));
        }
        Self {
            batches,
            open,
            cancel: Arc::clone(cancel),
        }
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        while self.open > 0 {
            return match self.batches.poll_recv(context) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(Some(batch))) => Poll::Ready(Some(batch)),
                Poll::Ready(Some(None)) => {
                    self.open -= 1;
                    continue;
                }
                // Rows would be missing.
                Poll::Ready(None) => {
                    self.open = 0;
                    Poll::Ready(Some(internal_err!("a task of the query ended too early")))
                }
            };
        }
        Poll::Ready(None)
    }
}

impl Drop for Parted {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
    }
}

impl Part {
    async fn read(mut self) {
        loop {
            // A panic is this statement's, and nobody else's.
            let next = catch_unwind(AssertUnwindSafe(|| {
                self.scope.run(|| scope::aside(|| self.batches.next()))
            }));
            let said = match next {
                Ok(None) => None,
                Ok(Some(Ok(batch))) => Some(self.columns.of(&batch)),
                Ok(Some(Err(error))) => Some(Err(self.errors.of(error))),
                Err(panic) => {
                    let error = Error::of_panic(panic.as_ref());
                    Some(Err(DataFusionError::External(Box::new(error))))
                }
            };
            let is_last = !matches!(said, Some(Ok(_)));
            if self.to.send(said).await.is_err() || is_last {
                return;
            }
        }
    }
}
