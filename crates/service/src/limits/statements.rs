//! Running statements, whatever their language: listed, limited in time and memory, ended by whoever may.
//!
//! Does: list a statement from its start until it is dropped, say what ends it, count its memory. Does not: stop the work;
//! a language asks [`Stop::is_due`] where work is long, and gives the error of [`Running::ended`] when it is asked for more.
//!
//! Next: `memory.rs` for what a statement may take.

mod memory;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use nilometer_engine::MemoryBudget;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::memory::SharedMemory;
pub use self::memory::{MemoryTaken, OverMemory, QueryMemory};
use crate::executor::Executor;
use crate::language::timings::Timings;
use crate::options::QueryOptions;

/// All running statements. Languages that share one list and end each other's, and share the memory.
#[derive(Debug)]
pub struct Statements {
    ms_max: u64,
    memory_bytes_max: usize,
    memory: Arc<SharedMemory>,
    listed: Mutex<Listed>,
    executor: Arc<dyn Executor>,
}

#[derive(Debug, Default)]
struct Listed {
    last_id: u64,
    by_id: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    database: String,
    text: String,
    started: Instant,
    memory: Arc<QueryMemory>,
    cancelled: CancellationToken,
}

/// What is shown of a running statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownStatement {
    /// Its number, by which it is ended.
    pub id: u64,
    /// Where its names without a database are looked up.
    pub database: String,
    /// The statement as it was written.
    pub text: String,
    /// How long it has run, in milliseconds.
    pub ms: u64,
    /// The memory that it has now.
    pub memory_bytes: usize,
}

impl Statements {
    /// None yet, with these limits, within a store's budget, by an executor's clock.
    pub fn new(options: &QueryOptions, budget: &MemoryBudget, executor: Arc<dyn Executor>) -> Self {
        Self {
            ms_max: options.query_ms_max,
            memory_bytes_max: options.query_memory_bytes_max,
            memory: Arc::new(SharedMemory::new(options.queries_memory_bytes_max, budget)),
            listed: Mutex::default(),
            executor,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists a statement that starts now, and ends with its caller's token or when its time is over.
    pub fn start(
        self: &Arc<Self>,
        database: &str,
        text: &str,
        caller: &CancellationToken,
    ) -> Running {
        let memory = Arc::new(QueryMemory::new(
            self.memory_bytes_max,
            Arc::clone(&self.memory),
        ));
        let started = self.executor.now();
        let stop = Stop {
            cancelled: caller.child_token(),
            deadline: started + Duration::from_millis(self.ms_max),
            executor: Arc::clone(&self.executor),
        };
        let mut listed = self.lock();
        listed.last_id += 1;
        let id = listed.last_id;
        let entry = Entry {
            database: database.to_owned(),
            text: text.to_owned(),
            started,
            memory: Arc::clone(&memory),
            cancelled: stop.cancelled.clone(),
        };
        listed.by_id.insert(id, entry);
        drop(listed);
        Running {
            id,
            memory,
            stop,
            caller: caller.clone(),
            statements: Arc::clone(self),
            timings: None,
        }
    }

    /// Ends a statement; false = none has this number.
    pub fn kill(&self, id: u64) -> bool {
        // Told after the lock is let go: whoever is woken may end the statement on this very thread.
        let cancelled = self
            .lock()
            .by_id
            .get(&id)
            .map(|entry| entry.cancelled.clone());
        cancelled.inspect(CancellationToken::cancel).is_some()
    }

    /// All running statements, the oldest first.
    pub fn list(&self) -> Vec<ShownStatement> {
        let (now, listed) = (self.executor.now(), self.lock());
        let shown = listed.by_id.iter().map(|(id, entry)| ShownStatement {
            id: *id,
            database: entry.database.clone(),
            text: entry.text.clone(),
            ms: ms_between(entry.started, now),
            memory_bytes: entry.memory.bytes(),
        });
        shown.collect()
    }
}

fn ms_between(start: Instant, end: Instant) -> u64 {
    let time = end.saturating_duration_since(start);
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What ends a statement early: somebody, or the clock.
#[derive(Debug, Clone)]
pub struct Stop {
    /// Cancelled by the caller, or by whoever ends the statement.
    pub cancelled: CancellationToken,
    /// When its time is over.
    pub deadline: Instant,
    executor: Arc<dyn Executor>,
}

impl Stop {
    /// Costs a lock that nobody else holds and a look at the clock: next to nothing beside a batch of rows.
    pub fn is_due(&self) -> bool {
        self.cancelled.is_cancelled() || self.now() >= self.deadline
    }

    /// What time it is.
    pub fn now(&self) -> Instant {
        self.executor.now()
    }

    /// Does the statement's work.
    pub fn executor(&self) -> &Arc<dyn Executor> {
        &self.executor
    }

    /// Is over when the statement has to end.
    pub fn due(&self) -> BoxFuture<'static, ()> {
        let cancelled = self.cancelled.clone().cancelled_owned();
        let late = self.executor.sleep(self.time_left());
        let due = async move {
            tokio::select! {
                () = cancelled => {}
                () = late => {}
            }
        };
        // Whoever looks again after it is over finds that it does not wake.
        due.fuse().boxed()
    }

    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(self.now())
    }
}

/// What ended a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Its caller does not want the answer any more.
    Cancelled,
    /// Somebody ended it by its number.
    Killed {
        /// The number.
        id: u64,
    },
    /// It ran longer than it may.
    Time {
        /// The limit in force.
        limit_ms: u64,
    },
}

/// A statement that runs; dropping it takes it off the list.
#[derive(Debug)]
pub struct Running {
    id: u64,
    memory: Arc<QueryMemory>,
    stop: Stop,
    caller: CancellationToken,
    statements: Arc<Statements>,
    timings: Option<Arc<Timings>>,
}

impl Running {
    /// The same, its times added up for somebody.
    #[must_use]
    pub fn timed(mut self, timings: Option<&Arc<Timings>>) -> Self {
        self.timings = timings.cloned();
        self
    }

    /// Where its times are added up; `None` = nobody shows them.
    pub fn timings(&self) -> Option<&Arc<Timings>> {
        self.timings.as_ref()
    }

    /// Its memory.
    pub fn memory(&self) -> &Arc<QueryMemory> {
        &self.memory
    }

    /// What ends it early.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Waits for memory to begin with, until the statement has to end.
    pub async fn begin(&self) -> Result<(), Ended> {
        let (executor, time_left) = (self.stop.executor(), self.stop.time_left());
        let begun = self.memory.begin();
        let begun = self.stop.cancelled.run_until_cancelled(begun);
        match executor.within(time_left, begun).await {
            Some(Some(())) => Ok(()),
            _ => Err(self.ended().unwrap_or(Ended::Cancelled)),
        }
    }

    /// What ends it now, if anything does.
    pub fn ended(&self) -> Option<Ended> {
        if !self.stop.is_due() {
            None
        } else if self.caller.is_cancelled() {
            Some(Ended::Cancelled)
        } else if self.stop.cancelled.is_cancelled() {
            Some(Ended::Killed { id: self.id })
        } else {
            Some(Ended::Time {
                limit_ms: self.statements.ms_max,
            })
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.memory.end();
        self.statements.lock().by_id.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use nilometer_engine::MemoryUse;

    use super::*;
    use crate::executor::Threads;
    use crate::{Class, Error};

    fn statements(options: &QueryOptions) -> Arc<Statements> {
        let budget = MemoryBudget::new(80 << 20);
        Arc::new(Statements::new(options, &budget, Threads::of_caller()))
    }

    /// Before, SQL had a list of its own: what another language ran was in nobody's `SHOW QUERIES`, and nobody's `KILL`
    /// ended it.
    #[test]
    fn a_statement_of_any_language_is_listed_and_ended_by_its_number() {
        let statements = statements(&QueryOptions::default());
        let caller = CancellationToken::new();
        let first = statements.start("d", "SELECT mean(v) FROM m GROUP BY *", &caller);
        let second = statements.start("e", "select 1", &caller);
        let listed = statements.list();
        let shown: Vec<_> = listed.iter().map(|it| (&*it.database, &*it.text)).collect();
        assert_eq!(
            shown,
            [("d", "SELECT mean(v) FROM m GROUP BY *"), ("e", "select 1")]
        );
        let (first_id, second_id) = (listed[0].id, listed[1].id);
        assert!(statements.kill(first_id));
        assert_eq!(first.ended(), Some(Ended::Killed { id: first_id }));
        assert_eq!(second.ended(), None);
        drop(first);
        assert!(!statements.kill(first_id));
        caller.cancel();
        assert_eq!(second.ended(), Some(Ended::Cancelled));
        assert_eq!(statements.list()[0].id, second_id);
        drop(second);
        assert!(statements.list().is_empty());
    }

    #[test]
    fn a_statement_over_its_time_says_which_limit_that_is() {
        let options = QueryOptions {
            query_ms_max: 0,
            ..QueryOptions::default()
        };
        let running = statements(&options).start("d", "", &CancellationToken::new());
        let ended = running.ended().unwrap();
        assert_eq!(ended, Ended::Time { limit_ms: 0 });
        let error = Error::from(ended);
        assert_eq!(error.class(), Class::Time);
        assert_eq!(error.setting(), Some("query-ms-max"));
    }

    #[tokio::test]
    async fn memory_that_a_statement_has_is_shown_and_given_back_at_its_end() {
        let budget = MemoryBudget::new(80 << 20);
        let statements = Statements::new(&QueryOptions::default(), &budget, Threads::of_caller());
        let statements = Arc::new(statements);
        let running = statements.start("d", "", &CancellationToken::new());
        running.begin().await.unwrap();
        let taken = running.memory().take(3 << 20).unwrap();
        assert_eq!(statements.list()[0].memory_bytes, 3 << 20);
        let refused = Error::from(running.memory().take(1 << 30).unwrap_err());
        assert_eq!(refused.class(), Class::TooLarge);
        assert_eq!(refused.setting(), Some("query-memory-bytes-max"));
        drop((taken, running));
        assert_eq!(budget.used(MemoryUse::Query), 0);
    }
}
