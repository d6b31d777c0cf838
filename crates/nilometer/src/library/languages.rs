//! The languages that this build has.

use std::sync::Arc;

use nilometer_influxql::InfluxQl;
#[cfg(feature = "sql")]
use nilometer_query::Sql;
use nilometer_service::{Error, Language, LanguageContext, SessionChange};

/// All languages, for a [`Service`](nilometer_service::Service).
pub fn languages(context: &LanguageContext) -> Result<Vec<Arc<dyn Language>>, Error> {
    let influxql = Arc::new(InfluxQl::new(context));
    #[cfg(feature = "sql")]
    let languages: Vec<Arc<dyn Language>> = vec![influxql, Arc::new(Sql::among(context)?)];
    #[cfg(not(feature = "sql"))]
    let languages: Vec<Arc<dyn Language>> = vec![influxql];
    Ok(languages)
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
