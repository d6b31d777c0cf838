//! Statements other than SELECT: SHOW, definitions, deletes.
//!
//! Does: choose what carries a statement out, say which change something. Does not: parse.
//!
//! Next: `show.rs` for lists, `define.rs` for databases and retention policies, `continuous.rs` for continuous queries, `delete.rs` for rows, `users.rs` for users and what a statement needs; `names.rs` and
//! `selection.rs` for what names and conditions mean.

mod condition;
mod context;
pub(crate) mod continuous;
mod define;
mod delete;
mod error;
mod names;
mod selection;
mod sets;
mod shards;
mod show;
mod users;

use nilometer_influxql_syntax::ast::Statement;
use nilometer_service::{Error as ServiceError, Running, Set};

pub(crate) use context::{Answer, Context};
pub(crate) use error::Error;

/// A table of one column of texts.
pub(crate) fn one_column(name: &str, lines: Vec<String>) -> Set {
    sets::Table::default().texts(name, lines).set()
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
        return Ok(context.answer(sets));
    }
    match statement {
        Statement::Delete(delete) => delete::rows(&context, delete)?,
        Statement::DropSeries(delete) => delete::series(&context, delete)?,
        Statement::DropMeasurement(name) => delete::measurement(&context, name)?,
        // InfluxDB alone, which is no cluster, does not look at the host either.
        Statement::KillQuery { id, .. } => kill(&context, *id)?,
        other => define::run(&context, other)?,
    }
    Ok((Answer::Done, context.running))
}

fn kill(context: &Context, id: u64) -> Result<(), Error> {
    if context.statements.kill(id) {
        return Ok(());
    }
    Err(Error::UnknownQuery { id })
}
