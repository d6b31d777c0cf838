//! The languages that this build has.

use std::sync::Arc;

use nilometer_engine::Engine;
use nilometer_service::{Error, Language, QueryOptions};

/// All languages over an engine, for a [`Service`](nilometer_service::Service).
#[cfg(feature = "sql")]
pub fn languages(
    engine: &Arc<Engine>,
    options: &QueryOptions,
) -> Result<Vec<Arc<dyn Language>>, Error> {
    let sql = nilometer_query::Sql::new(Arc::clone(engine), options.clone())?;
    Ok(vec![Arc::new(sql)])
}

/// None.
#[cfg(not(feature = "sql"))]
pub fn languages(_: &Arc<Engine>, _: &QueryOptions) -> Result<Vec<Arc<dyn Language>>, Error> {
    Ok(Vec::new())
}
