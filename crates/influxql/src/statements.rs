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

use std::sync::Arc;

use nilometer_engine::Engine;
use nilometer_influxql_syntax::ast::Statement;
use nilometer_service::{Error as ServiceError, Principal, Running, Set, Statements};

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
    /// The retention policy of names without one; `None` = the default.
    pub(crate) schema: Option<String>,
    pub(crate) running: Running,
}

/// What a statement answers.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It changed something, or found nothing to change.
    Done,
    Sets(Vec<Set>),
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
    users::check(&context, statement)?;
    if users::run(&context, statement)? {
        return Ok((Answer::Done, context.running));
    }
    let answer = match statement {
        Statement::Show(show) => Answer::Sets(show::run(&context, show)?),
        Statement::Delete(delete) => {
            delete::rows(&context, delete)?;
            Answer::Done
        }
        Statement::DropSeries(delete) => {
            delete::series(&context, delete)?;
            Answer::Done
        }
        Statement::DropMeasurement(name) => {
            delete::measurement(&context, name)?;
            Answer::Done
        }
        Statement::KillQuery { id, host } => {
            kill(&context, *id, host.as_deref())?;
            Answer::Done
        }
        other => {
            define::run(&context, other)?;
            Answer::Done
        }
    };
    Ok((answer, context.running))
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
