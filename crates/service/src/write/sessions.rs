//! The pool of ingest sessions. A session caches the series that it has seen.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Error};

use crate::define::create_database;

/// Idle sessions that are kept for one schema; each holds memory for its series.
const IDLE_PER_SCHEMA_MAX: usize = 32;

/// Schemas for which sessions are kept.
const SCHEMAS_MAX: usize = 64;

/// The schema that a write goes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Its database.
    pub database: String,
    /// `None` = the default one.
    pub schema: Option<String>,
}

impl Scope {
    /// The default schema of a database.
    pub fn of_database(database: &str) -> Self {
        Self {
            database: database.to_owned(),
            schema: None,
        }
    }
}

/// Refuses what a database is not to be made for.
pub type Check<'a> = &'a dyn Fn() -> Result<(), Error>;

/// What becomes of a write to a database that is not there.
#[derive(Clone, Copy)]
pub enum WhenMissing<'a> {
    /// It is refused.
    Refuse,
    /// The database is made, unless the check refuses.
    Create(Check<'a>),
}

impl fmt::Debug for WhenMissing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refuse => "Refuse",
            Self::Create(_) => "Create",
        })
    }
}

/// The sessions of a store that are between two writes.
#[derive(Debug)]
pub struct Sessions {
    engine: Arc<Engine>,
    idle: Mutex<HashMap<Scope, Vec<Session>>>,
}

impl Sessions {
    /// None yet.
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self {
            engine,
            idle: Mutex::default(),
        }
    }

    /// Writes with a session of this schema. Blocks. What failed is tried once more if the session may have known what
    /// is no longer there, so `write` starts from the beginning whenever it is called.
    pub fn write<T>(
        &self,
        scope: &Scope,
        when_missing: WhenMissing<'_>,
        mut write: impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.write_once(scope, when_missing, &mut write) {
            // A session that waited knows a database that was dropped since; a new one finds or makes its successor.
            Err(Error::UnknownDatabase { .. } | Error::NotFound { .. }) => {
                self.idle().remove(scope);
                self.write_once(scope, when_missing, &mut write)
            }
            result => result,
        }
    }

    /// Drops all that are idle.
    pub fn clear(&self) {
        self.idle().clear();
    }

    fn write_once<T>(
        &self,
        scope: &Scope,
        when_missing: WhenMissing<'_>,
        write: &mut impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut session = self.take(scope, when_missing)?;
        let written = write(&mut session)?;
        self.put_back(scope, session);
        Ok(written)
    }

    fn take(&self, scope: &Scope, when_missing: WhenMissing<'_>) -> Result<Session, Error> {
        let idle = self.idle().get_mut(scope).and_then(Vec::pop);
        if let Some(session) = idle {
            return Ok(session);
        }
        let new = || {
            let engine = Arc::clone(&self.engine);
            Session::in_schema(engine, &scope.database, scope.schema.as_deref())
        };
        match (new(), when_missing) {
            (Err(Error::UnknownDatabase { .. }), WhenMissing::Create(check)) => {
                check()?;
                create_database(&self.engine, &scope.database)?;
                new()
            }
            (result, _) => result,
        }
    }

    /// Keeps a session for the next write.
    fn put_back(&self, scope: &Scope, session: Session) {
        let mut idle = self.idle();
        if let Some(sessions) = idle.get_mut(scope) {
            if sessions.len() < IDLE_PER_SCHEMA_MAX {
                sessions.push(session);
            }
        } else if idle.len() < SCHEMAS_MAX {
            idle.insert(scope.clone(), vec![session]);
        }
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<Scope, Vec<Session>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_engine::disk::MemoryDisk;
    use nilometer_engine::{Options, SystemClock};
    use nilometer_lineproto::Precision;
    use std::path::Path;

    const CREATE: WhenMissing<'_> = WhenMissing::Create(&|| Ok(()));

    fn sessions() -> Sessions {
        let (disk, clock) = (Arc::new(MemoryDisk::default()), Arc::new(SystemClock));
        let engine = Engine::open(disk, clock, Path::new("/data"), Options::default()).unwrap();
        Sessions::new(Arc::new(engine))
    }

    fn write(sessions: &Sessions, when_missing: WhenMissing<'_>) -> Result<u64, Error> {
        let scope = Scope::of_database("d");
        let write = |session: &mut Session| session.write_lines(b"m v=1 1", Precision::Second);
        Ok(sessions.write(&scope, when_missing, write)?.rows)
    }

    #[test]
    fn a_database_is_made_only_if_that_is_wanted_and_nothing_refuses_it() {
        let sessions = sessions();
        let refused = write(&sessions, WhenMissing::Refuse).unwrap_err();
        assert!(
            matches!(refused, Error::UnknownDatabase { .. }),
            "{refused}"
        );
        let check: Check<'_> = &|| sessions.engine.check_batch(usize::MAX, 1);
        let refused = write(&sessions, WhenMissing::Create(check)).unwrap_err();
        assert!(matches!(refused, Error::Limit { .. }), "{refused}");
        assert!(sessions.engine.snapshot().schemas("d").is_none());
        assert_eq!(write(&sessions, CREATE).unwrap(), 1);
    }

    #[test]
    fn a_session_that_knows_a_dropped_database_is_replaced() {
        let sessions = sessions();
        assert_eq!(write(&sessions, CREATE).unwrap(), 1);
        sessions.engine.drop_database("d").unwrap();
        assert_eq!(write(&sessions, CREATE).unwrap(), 1);
        sessions.engine.drop_database("d").unwrap();
        let refused = write(&sessions, WhenMissing::Refuse).unwrap_err();
        assert!(
            matches!(refused, Error::UnknownDatabase { .. }),
            "{refused}"
        );
    }

    #[test]
    fn a_session_waits_for_the_next_write_unless_its_own_failed() {
        let sessions = sessions();
        let scope = Scope::of_database("d");
        assert_eq!(write(&sessions, CREATE).unwrap(), 1);
        assert_eq!(sessions.idle()[&scope].len(), 1);
        let failing = |_: &mut Session| -> Result<(), Error> {
            Err(Error::TableDropped { table: "m".into() })
        };
        sessions.write(&scope, CREATE, failing).unwrap_err();
        assert_eq!(sessions.idle()[&scope].len(), 0);
        let nested = sessions.write(&scope, CREATE, |_| write(&sessions, CREATE));
        assert_eq!(nested.unwrap(), 1);
        assert_eq!(sessions.idle()[&scope].len(), 2);
        sessions.clear();
        assert!(sessions.idle().is_empty());
    }
}
