//! Context of a statement: what it is given, and what it answers.
//!
//! Does: count the memory of what is gathered for an answer. Does not: know a statement.

use std::sync::{Arc, Mutex, PoisonError};

use nilometer_engine::Engine;
use nilometer_service::{
    Error as ServiceError, MemoryTaken, Place, Principal, Privilege, Running, Session, Set,
    Statements,
};

use crate::continuous::counts::Counts;

/// What a statement is given.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) engine: Arc<Engine>,
    pub(crate) statements: Arc<Statements>,
    /// Who asks.
    pub(crate) principal: Principal,
    /// How continuous queries have ended.
    pub(crate) continuous: Arc<Counts>,
    /// Where names without a database are; may be empty.
    pub(crate) database: String,
    /// The retention policy of names without one; `None` = the default of their database.
    pub(crate) policy: Option<String>,
    pub(crate) running: Running,
    /// Memory of what is gathered for the answer.
    gathered: Mutex<MemoryTaken>,
}

impl Context {
    pub(crate) fn new(
        engine: Arc<Engine>,
        (statements, continuous): (Arc<Statements>, Arc<Counts>),
        session: &Session,
        running: Running,
    ) -> Result<Self, ServiceError> {
        Ok(Self {
            engine,
            statements,
            continuous,
            principal: session.principal.clone(),
            database: session.database.clone(),
            policy: session.schema.clone(),
            gathered: Mutex::new(running.memory().take(0)?),
            running,
        })
    }

    /// Refuses whoever may not change a database. Asked before an answer says that there is no such thing in it: what is
    /// there is checked where it is changed.
    pub(super) fn may_define(&self, database: &str) -> Result<(), ServiceError> {
        let place = Place::database(database);
        self.principal.check(Privilege::Define, place)
    }

    /// Counts so many bytes more as the statement's until its answer has left, and ends one that has to end.
    pub(super) fn gather(&self, bytes: usize) -> Result<(), ServiceError> {
        if let Some(ended) = self.running.ended() {
            return Err(ended.into());
        }
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(gathered.grow(bytes)?)
    }

    /// Series as the answer, with the memory that they have.
    pub(super) fn answer(self, sets: Vec<Set>) -> (Answer, Running) {
        let gathered = self.gathered.into_inner();
        let gathered = gathered.unwrap_or_else(PoisonError::into_inner);
        (Answer::Sets(sets, gathered), self.running)
    }
}

/// What a statement answers.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It changed something, or found nothing to change.
    Done,
    /// Series, and the memory that they have.
    Sets(Vec<Set>, MemoryTaken),
}
