//! The languages that this build has.

use std::sync::Arc;

use nilometer_engine::Engine;
use nilometer_influxql::InfluxQl;
#[cfg(feature = "sql")]
use nilometer_query::Sql;
use nilometer_service::{Error, Language, QueryOptions, SessionChange, Statements};

/// All languages over an engine, for a [`Service`](nilometer_service::Service).
pub fn languages(
    engine: &Arc<Engine>,
    options: &QueryOptions,
) -> Result<Vec<Arc<dyn Language>>, Error> {
    // One list, so that each shows and ends the statements of all.
    let statements = Arc::new(Statements::new(options, engine.budget()));
    let influxql = InfluxQl::among(Arc::clone(&statements), Arc::clone(engine), options.clone());
    let mut languages: Vec<Arc<dyn Language>> = vec![Arc::new(influxql)];
    languages.extend(sql(statements, engine, options)?);
    Ok(languages)
}

#[cfg(feature = "sql")]
fn sql(
    statements: Arc<Statements>,
    engine: &Arc<Engine>,
    options: &QueryOptions,
) -> Result<Option<Arc<dyn Language>>, Error> {
    let sql = Sql::among(statements, Arc::clone(engine), options.clone())?;
    Ok(Some(Arc::new(sql)))
}

#[cfg(not(feature = "sql"))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "as the one of a build with SQL, which may fail"
)]
fn sql(
    _: Arc<Statements>,
    _: &Arc<Engine>,
    _: &QueryOptions,
) -> Result<Option<Arc<dyn Language>>, Error> {
    Ok(None)
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
