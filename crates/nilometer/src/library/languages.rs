//! The languages that this build has.

use std::sync::Arc;

use nilometer_engine::Engine;
use nilometer_query::Sql;
use nilometer_service::{Error, Language, QueryOptions, Statements};

/// All languages over an engine, for a [`Service`](nilometer_service::Service).
pub fn languages(
    engine: &Arc<Engine>,
    options: &QueryOptions,
) -> Result<Vec<Arc<dyn Language>>, Error> {
    // One list, so that each shows and ends the statements of all.
    let statements = Arc::new(Statements::new(options, engine.budget()));
    let sql = Sql::among(statements, Arc::clone(engine), options.clone())?;
    Ok(vec![Arc::new(sql)])
}
