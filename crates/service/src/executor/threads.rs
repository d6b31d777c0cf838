//! Threads as the executor: tokio's, so that whoever asks, a socket or a program's own task, never waits for a query.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::Instant;

use super::Executor;
use crate::error::Error;

/// Stack of a thread. Planning recurses as deep as the statement's longest chain of operators; what is not used costs
/// address space only.
const STACK_BYTES: usize = 64 << 20;

/// Threads for each that a query is spread over. Most of a query's work lets others have their turn; a sort of all that there
/// is memory for does not, and then the system shares the cores out.
const WORKERS_EACH: usize = 2;

/// Threads for queries, and the machine's clock. The threads end with it, whatever they are at. What waits for the disk
/// waits on a thread of the runtime that asks.
#[derive(Debug)]
pub struct Threads {
    /// Taken when they are stopped.
    runtime: Mutex<Option<Runtime>>,
    /// `None` = tasks go to the runtime that asks.
    own: Option<Handle>,
}

impl Threads {
    /// Starts threads enough for queries that are each spread over so many.
    pub fn start(threads: usize) -> Result<Arc<dyn Executor>, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1).saturating_mul(WORKERS_EACH))
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .enable_time()
            .build()
            .map_err(|source| Error::Threads {
                what: "queries",
                source,
            })?;
        Ok(Arc::new(Self {
            own: Some(runtime.handle().clone()),
            runtime: Mutex::new(Some(runtime)),
        }))
    }

    /// Starts none: tasks go to the runtime that asks, which must be one of tokio's.
    pub fn of_caller() -> Arc<dyn Executor> {
        Arc::new(Self {
            runtime: Mutex::default(),
            own: None,
        })
    }
}

impl Executor for Threads {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        match &self.own {
            Some(own) => drop(own.spawn(task)),
            None => drop(tokio::spawn(task)),
        }
    }

    fn spawn_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        match (Handle::try_current(), &self.own) {
            (Err(_), Some(own)) => drop(own.spawn_blocking(work)),
            _ => drop(tokio::task::spawn_blocking(work)),
        }
    }

    fn threads(&self, wanted: usize) -> usize {
        wanted.max(1)
    }

    fn run_together(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|threads| {
            for part in 1..count {
                threads.spawn(move || work(part));
            }
            if count > 0 {
                work(0);
            }
        });
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn stop(&self) {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        // The plain drop would block, which is not allowed on a thread of another runtime.
        if let Some(runtime) = runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop();
    }
}
