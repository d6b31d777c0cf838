//! Ingest sessions between writes. A session remembers the series it has seen, which makes the next write cheaper.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Error};

use crate::write::Target;

/// Idle sessions that are kept for one schema; each holds memory for its series.
const IDLE_PER_SCHEMA_MAX: usize = 32;

/// Schemas for which sessions are kept.
const SCHEMAS_MAX: usize = 64;

/// A database, and a schema if it is not the default one.
type Key = (String, Option<String>);

#[derive(Debug)]
pub(crate) struct Sessions {
    engine: Arc<Engine>,
    idle: Mutex<HashMap<Key, Vec<Session>>>,
}

impl Sessions {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            idle: Mutex::default(),
        }
    }

    /// A session for a schema of a database. Blocks. `check` refuses what the database is not to be made for.
    pub(crate) fn take(
        &self,
        target: &Target,
        check: impl FnOnce(&Arc<Engine>) -> Result<(), Error>,
    ) -> Result<Session, Error> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_mut(&key(target))
            .and_then(Vec::pop);
        if let Some(session) = idle {
            return Ok(session);
        }
        let new = || {
            let engine = Arc::clone(&self.engine);
            Session::in_schema(engine, &target.database, target.schema.as_deref())
        };
        match new() {
            Err(Error::UnknownDatabase { .. }) if target.creates => {
                check(&self.engine)?;
                self.engine.create_database(&target.database)?;
                new()
            }
            result => result,
        }
    }

    /// Drops the sessions of a schema, which know one that is gone.
    pub(crate) fn forget(&self, target: &Target) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.remove(&key(target));
    }

    /// Keeps a session for the next write.
    pub(crate) fn put_back(&self, target: &Target, session: Session) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(target);
        if let Some(sessions) = idle.get_mut(&key) {
            if sessions.len() < IDLE_PER_SCHEMA_MAX {
                sessions.push(session);
            }
        } else if idle.len() < SCHEMAS_MAX {
            idle.insert(key, vec![session]);
        }
    }
}

fn key(target: &Target) -> Key {
    (target.database.clone(), target.schema.clone())
}
