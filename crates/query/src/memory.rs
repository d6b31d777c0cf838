//! The memory of queries: each has a limit of its own, all of them share one, and both end where the store's memory
//! budget does.
//!
//! Does: count what operators reserve. Does not: count what the engine's caches hold, or spill; a query that needs
//! more than it may have ends with an error that names the limit.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::Result as PoolResult;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use nilometer_engine::{Charge, Error as EngineError, MemoryBudget, MemoryUse};

use crate::error::OverMemory;

/// What all queries together have reserved.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    bytes_max: usize,
    reserved: Mutex<Reserved>,
}

#[derive(Debug)]
struct Reserved {
    bytes: usize,
    /// Of these bytes, those that the store's budget knows of: all but what could not be refused and did not fit it.
    charge: Charge,
}

impl SharedMemory {
    pub(crate) fn new(bytes_max: usize, budget: &MemoryBudget) -> Self {
        let nothing = budget.charge(MemoryUse::Query, 0);
        Self {
            bytes_max,
            reserved: Mutex::new(Reserved {
                bytes: 0,
                charge: nothing.expect("nothing fits every budget"),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Reserved> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_grow(&self, additional: usize) -> Result<(), OverMemory> {
        let bytes_max = self.bytes_max;
        let mut reserved = self.lock();
        let bytes = reserved.bytes.saturating_add(additional);
        if bytes > bytes_max {
            return Err(OverMemory::Shared { bytes_max });
        }
        if let Err(EngineError::Memory { limit, total, .. }) =
            reserved.charge.grow(additional as u64)
        {
            return Err(OverMemory::Budget { limit, total });
        }
        reserved.bytes = bytes;
        Ok(())
    }

    /// For what cannot be refused.
    fn grow(&self, additional: usize) {
        let mut reserved = self.lock();
        reserved.bytes = reserved.bytes.saturating_add(additional);
        drop(reserved.charge.grow(additional as u64));
    }

    fn shrink(&self, bytes: usize) {
        let mut reserved = self.lock();
        reserved.bytes = reserved.bytes.saturating_sub(bytes);
        let over = reserved
            .charge
            .bytes()
            .saturating_sub(reserved.bytes as u64);
        reserved.charge.shrink(over);
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

    /// What it has reserved now.
    pub(crate) fn bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
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
        self.shared.grow(additional);
    }

    fn shrink(&self, _reservation: &MemoryReservation, shrink: usize) {
        self.used.fetch_sub(shrink, Ordering::Relaxed);
        self.shared.shrink(shrink);
    }

    fn try_grow(&self, _reservation: &MemoryReservation, additional: usize) -> PoolResult<()> {
        if !try_add(&self.used, additional, self.bytes_max) {
            return Err(DataFusionError::External(Box::new(OverMemory::Query {
                bytes_max: self.bytes_max,
            })));
        }
        self.shared.try_grow(additional).map_err(|over| {
            self.used.fetch_sub(additional, Ordering::Relaxed);
            DataFusionError::External(Box::new(over))
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_share_their_part_of_the_stores_budget_and_give_it_back() {
        let budget = MemoryBudget::new(80 << 20);
        let share = budget.limit(MemoryUse::Query);
        assert_eq!(share, 20 << 20);
        let shared = SharedMemory::new(1 << 30, &budget);
        shared.try_grow(15 << 20).unwrap();
        let refused = shared.try_grow(6 << 20).unwrap_err();
        assert!(
            refused.to_string().contains("memory-bytes-max") && shared.lock().bytes == 15 << 20,
            "{refused}"
        );
        // What cannot be refused is counted as far as the budget goes, and never given back twice.
        shared.grow(6 << 20);
        assert_eq!(budget.used(MemoryUse::Query), 15 << 20);
        shared.shrink(6 << 20);
        assert_eq!(budget.used(MemoryUse::Query), 15 << 20);
        shared.shrink(15 << 20);
        assert_eq!(budget.used(MemoryUse::Query), 0);
        let small = SharedMemory::new(10, &budget);
        let refused = small.try_grow(11).unwrap_err();
        assert!(
            refused.to_string().contains("queries-memory-bytes-max"),
            "{refused}"
        );
    }
}
