//! The memory of queries: each has a limit of its own, and all of them share one.
//!
//! Does: count what operators reserve. Does not: count what the engine's caches hold, or spill; a query that needs
//! more than it may have ends with an error that names the limit.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};

use crate::error::OverMemory;

/// What all queries together have reserved.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    used: AtomicUsize,
    bytes_max: usize,
}

impl SharedMemory {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            bytes_max,
        }
    }
}

/// What one query has reserved, counted into the shared memory as well.
#[derive(Debug)]
pub(crate) struct QueryMemory {
    used: AtomicUsize,
    bytes_max: usize,
    shared: Arc<SharedMemory>,
}

impl QueryMemory {
    pub(crate) fn new(bytes_max: usize, shared: Arc<SharedMemory>) -> Self {
        Self {
            used: AtomicUsize::new(0),
            bytes_max,
            shared,
        }
    }
}

fn try_add(used: &AtomicUsize, additional: usize, bytes_max: usize) -> bool {
    used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        used.checked_add(additional).filter(|&sum| sum <= bytes_max)
    })
    .is_ok()
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &'static str {
        "query"
    }

    fn grow(&self, _reservation: &MemoryReservation, additional: usize) {
        self.used.fetch_add(additional, Ordering::Relaxed);
        self.shared.used.fetch_add(additional, Ordering::Relaxed);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        self.used.fetch_sub(shrink, Ordering::Relaxed);
        self.shared.used.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, _reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if !try_add(&self.used, additional, self.bytes_max) {
            return Err(DataFusionError::External(Box::new(OverMemory::Query {
                bytes_max: self.bytes_max,
            })));
        }
        if !try_add(&self.shared.used, additional, self.shared.bytes_max) {
            self.used.fetch_sub(additional, Ordering::Relaxed);
            let bytes_max = self.shared.bytes_max;
            return Err(DataFusionError::External(Box::new(OverMemory::Shared {
                bytes_max,
            })));
        }
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.bytes_max)
    }
}

impl fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "query({} of {} bytes)",
            self.used.load(Ordering::Relaxed),
            self.bytes_max
        )
    }
}
