//! Statements other than SELECT: SHOW, definitions, deletes.
//!
//! Does: choose what carries a statement out, say which change something. Does not: parse.
//!
//! Next: `show.rs` for lists, `define.rs` for databases and retention policies, `delete.rs` for rows, `users.rs` for users and what a statement needs; `names.rs` and
//! `selection.rs` for what names and conditions mean.

mod condition;
mod define;
mod delete;
mod error;
mod names;
mod selection;
mod sets;
mod show;
mod users;

use std::sync::{Arc, Mutex, PoisonError};

use nilometer_engine::Engine;
use nilometer_influxql_syntax::ast::Statement;
use nilometer_service::{
    Error as ServiceError, MemoryTaken, Principal, Running, Session, Set, Statements,
};

pub(crate) use error::Error;

/// What a statement is given.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) engine: Arc<Engine>,
    pub(crate) statements: Arc<Statements>,
    /// Who asks.
    pub(crate) principal: Principal,
    /// Where names without a database are; may be empty.
    pub(crate) database: String,
    pub(crate) running: Running,
    /// Memory of what is gathered for the answer.
    gathered: Mutex<MemoryTaken>,
}

impl Context {
    pub(crate) fn new(
        engine: Arc<Engine>,
        statements: Arc<Statements>,
        session: &Session,
        running: Running,
    ) -> Result<Self, ServiceError> {
        Ok(Self {
            engine,
            statements,
            principal: session.principal.clone(),
            database: session.database.clone(),
            gathered: Mutex::new(running.memory().take(0)?),
            running,
        })
    }

    /// Counts so many bytes more as the statement's until its answer has left, and ends one that has to end.
    fn gather(&self, bytes: usize) -> Result<(), ServiceError> {
        if let Some(ended) = self.running.ended() {
            return Err(ended.into());
        }
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(gathered.grow(bytes)?)
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

/// Whether a statement changes something.
pub(crate) fn changes(statement: &Statement) -> bool {
    match statement {
        Statement::Show(_) | Statement::Explain { .. } => false,
        Statement::Select(select) => select.target.is_some(),
        _ => true,
    }
}

/// Whether a client is warned that asks for it by GET. `DELETE` and the end of a query are not on `InfluxDB`'s list.
pub(crate) fn is_warned_of(statement: &Statement) -> bool {
    let is_silent = matches!(
        statement,
        Statement::Delete(_) | Statement::KillQuery { .. } | Statement::SetPassword(_)
    );
    changes(statement) && !is_silent
}

/// Carries a statement out; blocks for a sync of the log if it changes something.
pub(crate) fn run(
    context: Context,
    statement: &Statement,
) -> Result<(Answer, Running), ServiceError> {
    if users::run(&context, statement)? {
        return Ok((Answer::Done, context.running));
    }
    if let Statement::Show(show) = statement {
        let sets = show::run(&context, show)?;
        let gathered = context.gathered.into_inner();
        let gathered = gathered.unwrap_or_else(PoisonError::into_inner);
        return Ok((Answer::Sets(sets, gathered), context.running));
    }
    match statement {
        Statement::Delete(delete) => delete::rows(&context, delete)?,
        Statement::DropSeries(delete) => delete::series(&context, delete)?,
        Statement::DropMeasurement(name) => delete::measurement(&context, name)?,
        Statement::KillQuery { id, host } => kill(&context, *id, host.as_deref())?,
        other => define::run(&context, other)?,
    }
    Ok((Answer::Done, context.running))
}

fn kill(context: &Context, id: u64, host: Option<&str>) -> Result<(), Error> {
    if host.is_some() {
        return Err(Error::Unsupported(
            "KILL QUERY ... ON a host: there is one server",
        ));
    }
    if context.statements.kill(id) {
        return Ok(());
    }
    Err(Error::UnknownQuery { id })
}
