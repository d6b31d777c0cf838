//! The registry of running statements: for `system.queries` and KILL.
//!
//! Does: list a statement from its start until its answer is dropped. Does not: stop the work; an answer that was ended
//! gives an error when it is asked for more, and its reader drops it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nilometer_service::executor;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::limits::memory::QueryMemory;
use crate::limits::scope::Scope;
use crate::limits::stop::Stop;

/// All running statements.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    listed: Mutex<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    last_id: u64,
    by_id: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    database: String,
    sql: String,
    started: Instant,
    memory: Arc<QueryMemory>,
    cancelled: CancellationToken,
}

/// What is shown of a running statement.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) id: u64,
    pub(crate) database: String,
    pub(crate) sql: String,
    pub(crate) ms: u64,
    pub(crate) memory_bytes: usize,
}

impl Statements {
    fn lock(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists a statement that starts now, and ends with its caller's token or after so many milliseconds.
    pub(crate) fn start(
        self: &Arc<Self>,
        database: &str,
        sql: &str,
        memory: Arc<QueryMemory>,
        caller: CancellationToken,
        ms_max: u64,
    ) -> Running {
        let started = executor::now();
        let stop = Stop {
            cancelled: caller.child_token(),
            deadline: started + Duration::from_millis(ms_max),
        };
        let mut listed = self.lock();
        listed.last_id += 1;
        let id = listed.last_id;
        let entry = Entry {
            database: database.to_owned(),
            sql: sql.to_owned(),
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
            caller,
            statements: Arc::clone(self),
        }
    }

    /// Ends a statement; false = none has this number.
    pub(crate) fn kill(&self, id: u64) -> bool {
        // Told after the lock is let go: whoever is woken may end the statement on this very thread.
        let cancelled = self
            .lock()
            .by_id
            .get(&id)
            .map(|entry| entry.cancelled.clone());
        cancelled.inspect(CancellationToken::cancel).is_some()
    }

    /// All running statements, the oldest first.
    pub(crate) fn list(&self) -> Vec<Shown> {
        let listed = self.lock();
        let shown = listed.by_id.iter().map(|(id, entry)| Shown {
            id: *id,
            database: entry.database.clone(),
            sql: entry.sql.clone(),
            ms: u64::try_from(entry.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            memory_bytes: entry.memory.bytes(),
        });
        shown.collect()
    }
}

/// A statement that runs; dropping it takes it off the list.
#[derive(Debug)]
pub(crate) struct Running {
    id: u64,
    memory: Arc<QueryMemory>,
    stop: Stop,
    caller: CancellationToken,
    statements: Arc<Statements>,
}

impl Running {
    pub(crate) fn memory(&self) -> &Arc<QueryMemory> {
        &self.memory
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// What its threads have to know.
    pub(crate) fn scope(&self) -> Scope {
        Scope {
            memory: Arc::clone(&self.memory),
            stop: self.stop.clone(),
        }
    }

    /// What ends it now, if anything does; `ms_max` is the limit that it was started with.
    pub(crate) fn ended(&self, ms_max: u64) -> Option<Error> {
        if !self.stop.is_due() {
            None
        } else if self.caller.is_cancelled() {
            Some(Error::Cancelled)
        } else if self.stop.cancelled.is_cancelled() {
            Some(Error::Killed { id: self.id })
        } else {
            Some(Error::Time { limit_ms: ms_max })
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.memory.end();
        self.statements.lock().by_id.remove(&self.id);
    }
}
