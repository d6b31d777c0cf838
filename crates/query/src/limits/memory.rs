//! The memory of a statement as the planner's library takes it.
//!
//! Does: hand what operators reserve on to the statement's memory. Does not: count (`nilometer_service::QueryMemory` does).

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result as PoolResult;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use nilometer_service::{QueryMemory, Running};

/// The memory of a running statement.
pub(crate) fn pool(running: &Running) -> Arc<dyn MemoryPool> {
    Arc::new(Pool(Arc::clone(running.memory())))
}

#[derive(Debug)]
struct Pool(Arc<QueryMemory>);

impl MemoryPool for Pool {
    fn name(&self) -> &'static str {
        "query"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        self.0.take_anyway(additional);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        self.0.give_back(shrink);
    }

    fn try_grow(&self, _reservation: &MemoryReservation, additional: usize) -> PoolResult<()> {
        self.0
            .try_take(additional)
            .map_err(|over| DataFusionError::External(Box::new(over)))
    }

    fn reserved(&self) -> usize {
        self.0.bytes()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.0.bytes_max())
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, bytes_max) = (self.0.bytes(), self.0.bytes_max());
        write!(f, "query({bytes} of {bytes_max} bytes)")
    }
}
