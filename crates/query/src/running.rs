//! Which statements run: for `system.queries`, and for whoever ends one.
//!
//! Does: list a statement from its start until its answer is dropped. Does not: stop the work; an answer that was ended
//! gives an error when it is asked for more, and its reader drops it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::memory::QueryMemory;

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
    kill: Option<oneshot::Sender<()>>,
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

    /// Lists a statement that starts now.
    pub(crate) fn start(
        self: &Arc<Self>,
        database: &str,
        sql: &str,
        memory: Arc<QueryMemory>,
    ) -> Running {
        let started = Instant::now();
        let (kill, killed) = oneshot::channel();
        let mut listed = self.lock();
        listed.last_id += 1;
        let id = listed.last_id;
        let entry = Entry {
            database: database.to_owned(),
            sql: sql.to_owned(),
            started,
            memory: Arc::clone(&memory),
            kill: Some(kill),
        };
        listed.by_id.insert(id, entry);
        drop(listed);
        Running {
            id,
            started,
            memory,
            killed: Killed(killed),
            statements: Arc::clone(self),
        }
    }

    /// Ends a statement; false = none has this number.
    pub(crate) fn kill(&self, id: u64) -> bool {
        let mut listed = self.lock();
        let Some(entry) = listed.by_id.get_mut(&id) else {
            return false;
        };
        // Whoever was told already, or has ended, needs no second word.
        if let Some(kill) = entry.kill.take() {
            let _ = kill.send(());
        }
        true
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
    started: Instant,
    memory: Arc<QueryMemory>,
    killed: Killed,
    statements: Arc<Statements>,
}

/// Ready when somebody has ended the statement, and never else.
#[derive(Debug)]
pub(crate) struct Killed(oneshot::Receiver<()>);

impl Future for Killed {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match Pin::new(&mut self.0).poll(context) {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

impl Running {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    pub(crate) fn memory(&self) -> &Arc<QueryMemory> {
        &self.memory
    }

    pub(crate) fn killed(&mut self) -> &mut Killed {
        &mut self.killed
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.statements.lock().by_id.remove(&self.id);
    }
}
