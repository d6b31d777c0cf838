//! The runtime for queries: threads that compute, so that sockets never wait for them.

use std::future::Future;

use tokio::runtime::{Builder, Runtime};

use crate::error::Error;

/// Stack of a thread. Planning recurses as deep as the statement's longest chain of operators; what is not used costs
/// address space only.
const STACK_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct QueryRuntime {
    /// Taken when dropped.
    runtime: Option<Runtime>,
}

impl QueryRuntime {
    pub(crate) fn start(threads: usize) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .enable_time()
            .build()
            .map_err(|source| Error::Threads {
                what: "queries",
                source,
            })?;
        Ok(Self {
            runtime: Some(runtime),
        })
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }
}

impl Drop for QueryRuntime {
    fn drop(&mut self) {
        // The plain drop would block, which is not allowed on a thread of another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
