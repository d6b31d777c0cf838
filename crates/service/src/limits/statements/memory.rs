//! The memory of queries: a limit for each, one for all, both within the store's budget.
//!
//! Does: count what a language reserves for a query, and what the threads of a query allocate where the program counts
//! that: the larger of both is what a query has. Does not: count what the engine's caches hold, or spill; a query that needs
//! more than it may have ends with an error that names the limit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nilometer_engine::{Charge, Error as EngineError, MemoryBudget, MemoryUse};
use tokio::sync::Notify;

use crate::error::Class;

/// A limit of the queries' memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverMemory {
    /// The query's own.
    #[error(
        "the query needs more memory than the {bytes_max} bytes one query may use; narrow it or raise query-memory-bytes-max"
    )]
    Query {
        /// The limit in force.
        bytes_max: usize,
    },
    /// That of all queries together.
    #[error(
        "the running queries need more memory than the {bytes_max} bytes they may use together; try again later or raise queries-memory-bytes-max"
    )]
    Shared {
        /// The limit in force.
        bytes_max: usize,
    },
    /// What the store's memory budget leaves to queries.
    #[error(
        "the running queries need more memory than the {limit} bytes that a budget of {total} leaves them now; try again later, narrow them or raise memory-bytes-max"
    )]
    Budget {
        /// What queries may have now, in bytes.
        limit: u64,
        /// The whole budget.
        total: u64,
    },
}

impl OverMemory {
    /// What it means for whoever asked.
    pub fn class(&self) -> Class {
        match self {
            Self::Query { .. } => Class::TooLarge,
            Self::Shared { .. } | Self::Budget { .. } => Class::Busy,
        }
    }

    /// The setting whose limit was reached.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::Query { .. } => "query-memory-bytes-max",
            Self::Shared { .. } => "queries-memory-bytes-max",
            Self::Budget { .. } => "memory-bytes-max",
        }
    }
}

/// What a query has before it begins, of the memory of all: what a scan of a few columns takes. Those that find less left wait,
/// so that a small question is not refused because large ones came before.
const SHARE_BYTES: usize = 4 << 20;

/// So many shares there are at least, however small the memory is.
const SHARES_MIN: usize = 16;

/// What all queries together have reserved.
#[derive(Debug)]
pub(super) struct SharedMemory {
    bytes_max: usize,
    budget: MemoryBudget,
    reserved: Mutex<Reserved>,
    /// Of those that wait to begin, the one whose turn it is.
    first: tokio::sync::Mutex<()>,
    /// Something was given back.
    freed: Notify,
}

#[derive(Debug)]
struct Reserved {
    bytes: usize,
    /// Of these bytes, those that the store's budget knows of: all but what could not be refused and did not fit it.
    charge: Charge,
}

impl SharedMemory {
    pub(super) fn new(bytes_max: usize, budget: &MemoryBudget) -> Self {
        let nothing = budget.charge(MemoryUse::Query, 0);
        Self {
            bytes_max,
            budget: budget.clone(),
            reserved: Mutex::new(Reserved {
                bytes: 0,
                charge: nothing.expect("nothing fits every budget"),
            }),
            first: tokio::sync::Mutex::default(),
            freed: Notify::new(),
        }
    }

    /// What a query gets to begin with.
    fn share(&self, budget: u64) -> usize {
        let all = usize::try_from(budget).unwrap_or(usize::MAX);
        (self.bytes_max.min(all) / SHARES_MIN).min(SHARE_BYTES)
    }

    /// Takes what a query begins with, as soon as those that run leave it. Where none runs there is nothing to wait for.
    async fn take_share(&self) -> usize {
        let _first = self.first.lock().await;
        loop {
            let freed = self.freed.notified();
            let (is_idle, budget) = {
                let reserved = self.lock();
                (reserved.bytes == 0, reserved.charge.limit())
            };
            let share = self.share(budget);
            if self.try_grow(share).is_ok() {
                return share;
            }
            if is_idle {
                return 0;
            }
            freed.await;
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
        drop(reserved);
        self.freed.notify_waiters();
    }
}

/// What one query has reserved, counted into the shared memory as well.
#[derive(Debug)]
pub struct QueryMemory {
    own: Mutex<Own>,
    bytes_max: usize,
    shared: Arc<SharedMemory>,
}

/// What a query has reserved, and its share, which is its own whether it needs it or not: the shared memory counts the larger.
#[derive(Debug, Default)]
struct Own {
    used: usize,
    share: usize,
    /// What its threads have taken and not given back.
    allocated: usize,
    /// The limit that what it took has met, when nobody could refuse it any more.
    over: Option<OverMemory>,
    /// Nothing that its threads take counts any more: a task that is aborted may be in the middle of its last poll.
    has_ended: bool,
}

impl Own {
    fn counted(&self) -> usize {
        self.used.max(self.share).max(self.allocated)
    }
}

/// Memory that a query has taken for a while; dropping it gives it back.
#[derive(Debug)]
pub struct MemoryTaken {
    memory: Arc<QueryMemory>,
    bytes: usize,
}

impl MemoryTaken {
    /// Takes or gives back until it is this much.
    pub fn resize(&mut self, bytes: usize) -> Result<(), OverMemory> {
        if bytes > self.bytes {
            self.memory.try_take(bytes - self.bytes)?;
        } else {
            self.memory.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Takes more.
    pub fn grow(&mut self, bytes: usize) -> Result<(), OverMemory> {
        self.memory.try_take(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// A part of it, no more than there is, to be given back on its own.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            memory: Arc::clone(&self.memory),
            bytes,
        }
    }
}

impl Drop for MemoryTaken {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

impl QueryMemory {
    pub(super) fn new(bytes_max: usize, shared: Arc<SharedMemory>) -> Self {
        Self {
            own: Mutex::default(),
            bytes_max,
            shared,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is memory to begin with. What a query then needs beyond that it gets or not.
    pub(super) async fn begin(&self) {
        let share = self.shared.take_share().await;
        self.lock().share = share;
    }

    /// From here on it counts only what it has reserved, such as what is on its way to a slow client.
    pub(super) fn end(&self) {
        let mut own = self.lock();
        let before = own.counted();
        own.share = 0;
        own.allocated = 0;
        own.has_ended = true;
        let over = before - own.counted();
        drop(own);
        self.shared.shrink(over);
    }

    /// What it has now: what it has reserved, or what its threads took, if that is more.
    pub fn bytes(&self) -> usize {
        let own = self.lock();
        own.used.max(own.allocated)
    }

    /// Counts what its threads have taken, less what they gave back. It is taken already, so what is over a limit is told to
    /// whoever asks next, and from then on for good.
    pub fn allocated(&self, bytes: i64) -> Option<OverMemory> {
        let mut own = self.lock();
        if bytes == 0 || own.over.is_some() || own.has_ended {
            return own.over;
        }
        let before = own.counted();
        let allocated = (own.allocated as i64).saturating_add(bytes);
        own.allocated = usize::try_from(allocated).unwrap_or(0);
        let after = own.counted();
        if after == before {
            return None;
        }
        if after < before {
            self.shared.shrink(before - after);
        } else if own.allocated > self.bytes_max {
            self.shared.grow(after - before);
            own.over = Some(OverMemory::Query {
                bytes_max: self.bytes_max,
            });
        } else if let Err(over) = self.shared.try_grow(after - before) {
            self.shared.grow(after - before);
            own.over = Some(over);
        }
        own.over
    }

    /// Counts out what somebody else has from now on.
    pub fn handed_over(&self, bytes: usize) {
        self.allocated(i64::try_from(bytes).map_or(i64::MIN, |bytes| -bytes));
    }

    /// Takes memory until what is returned is dropped.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Result<MemoryTaken, OverMemory> {
        self.try_take(bytes)?;
        Ok(MemoryTaken {
            memory: Arc::clone(self),
            bytes,
        })
    }

    /// What the store keeps in memory of what it has read.
    pub fn kept_by_store(&self) -> u64 {
        self.shared.budget.used(MemoryUse::Cache)
    }

    /// Takes memory until it is given back.
    pub fn try_take(&self, additional: usize) -> Result<(), OverMemory> {
        let mut own = self.lock();
        let used = own.used.checked_add(additional);
        let Some(used) = used.filter(|&used| used <= self.bytes_max) else {
            return Err(OverMemory::Query {
                bytes_max: self.bytes_max,
            });
        };
        let before = own.counted();
        let more = before.max(used) - before;
        if more > 0 {
            self.shared.try_grow(more)?;
        }
        own.used = used;
        Ok(())
    }

    /// Gives memory back that was taken.
    pub fn give_back(&self, bytes: usize) {
        let mut own = self.lock();
        let before = own.counted();
        own.used = own.used.saturating_sub(bytes);
        self.shared.shrink(before - own.counted());
    }

    /// Takes memory that cannot be refused, for what is there already.
    pub fn take_anyway(&self, additional: usize) {
        let mut own = self.lock();
        let before = own.counted();
        own.used = own.used.saturating_add(additional);
        self.shared.grow(own.counted() - before);
    }

    /// How much it may have.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
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
