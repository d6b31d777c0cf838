//! Ingest sessions between writes. A session remembers the series it has seen, which makes the next write cheaper.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Error};

/// Idle sessions that are kept for one database; each holds memory for its series.
const IDLE_PER_DATABASE_MAX: usize = 32;

/// Databases for which sessions are kept.
const DATABASES_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Sessions {
    engine: Arc<Engine>,
    idle: Mutex<HashMap<String, Vec<Session>>>,
}

impl Sessions {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            idle: Mutex::default(),
        }
    }

    /// A session for a database, which is created if there is none of that name. Blocks.
    pub(crate) fn take(&self, database: &str) -> Result<Session, Error> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(database)
            .and_then(Vec::pop);
        if let Some(session) = idle {
            return Ok(session);
        }
        match Session::new(Arc::clone(&self.engine), database) {
            Err(Error::UnknownDatabase { .. }) => {
                self.engine.create_database(database)?;
                Session::new(Arc::clone(&self.engine), database)
            }
            result => result,
        }
    }

    /// Keeps a session for the next write.
    pub(crate) fn put_back(&self, database: &str, session: Session) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sessions) = idle.get_mut(database) {
            if sessions.len() < IDLE_PER_DATABASE_MAX {
                sessions.push(session);
            }
        } else if idle.len() < DATABASES_MAX {
            idle.insert(database.to_owned(), vec![session]);
        }
    }
}
