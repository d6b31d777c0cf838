//! The languages that this build has.

use std::sync::Arc;

use nilometer_engine::Engine;
#[cfg(feature = "sql")]
use nilometer_query::Sql;
#[cfg(feature = "sql")]
use nilometer_service::Statements;
use nilometer_service::{Error, Language, QueryOptions, SessionChange};

/// All languages over an engine, for a [`Service`](nilometer_service::Service).
#[cfg(feature = "sql")]
pub fn languages(
    engine: &Arc<Engine>,
    options: &QueryOptions,
) -> Result<Vec<Arc<dyn Language>>, Error> {
    // One list, so that each shows and ends the statements of all.
    let statements = Arc::new(Statements::new(options, engine.budget()));
    let sql = Sql::among(statements, Arc::clone(engine), options.clone())?;
    Ok(vec![Arc::new(sql)])
}

/// None.
#[cfg(not(feature = "sql"))]
pub fn languages(_: &Arc<Engine>, _: &QueryOptions) -> Result<Vec<Arc<dyn Language>>, Error> {
    Ok(Vec::new())
}

/// What a statement of SQL sets of its session; `None` = nothing, it is to be run.
#[cfg(feature = "sql")]
pub fn session_change(sql: &str) -> Result<Option<SessionChange>, Error> {
    Ok(nilometer_query::session_change(sql)?)
}

/// Nothing: without SQL no statement is one, and whoever runs it says so.
#[cfg(not(feature = "sql"))]
pub fn session_change(_: &str) -> Result<Option<SessionChange>, Error> {
    Ok(None)
}
