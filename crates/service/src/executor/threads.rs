//! The runtime for queries: threads that compute, so that whoever asks, a socket or a program's own task, never waits for them.

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};

use crate::error::Error;
use crate::executor::{self, Executor};

/// Stack of a thread. Planning recurses as deep as the statement's longest chain of operators; what is not used costs
/// address space only.
const STACK_BYTES: usize = 64 << 20;

/// Threads for each that a query is spread over. Most of a query's work lets others have their turn; a sort of all that there
/// is memory for does not, and then the system shares the cores out.
const WORKERS_EACH: usize = 2;

/// Threads for queries; they end with it, whatever they are at.
#[derive(Debug)]
pub struct QueryRuntime(Runs);

#[derive(Debug)]
enum Runs {
    /// Taken when dropped.
    OnThreads(Option<Runtime>),
    /// On the one thread of a simulation.
    By(Arc<dyn Executor>),
}

impl QueryRuntime {
    /// Starts threads enough for queries that are each spread over so many.
    pub fn start(threads: usize) -> Result<Self, Error> {
        if let Some(executor) = executor::current() {
            return Ok(Self(Runs::By(executor)));
        }
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
        Ok(Self(Runs::OnThreads(Some(runtime))))
    }

    /// Runs a task on these threads.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.0 {
            Runs::OnThreads(Some(runtime)) => drop(runtime.spawn(task)),
            Runs::OnThreads(None) => {}
            Runs::By(executor) => executor.spawn(Box::pin(task)),
        }
    }

    /// Ends the threads, whatever they are at, and waits for none. What is spawned from here on is dropped.
    pub fn stop(&mut self) {
        // The plain drop would block, which is not allowed on a thread of another runtime.
        if let Runs::OnThreads(runtime) = &mut self.0
            && let Some(runtime) = runtime.take()
        {
            runtime.shutdown_background();
        }
    }
}

impl Drop for QueryRuntime {
    fn drop(&mut self) {
        self.stop();
    }
}
