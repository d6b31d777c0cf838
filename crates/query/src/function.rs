//! Functions of time series that `DataFusion` does not have, under the names that `TimescaleDB` gave them.

mod bookend;
mod bucket;
mod time_bucket;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::functions_aggregate::variance::var_samp_udaf;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

pub(crate) use bucket::ORIGIN_NS as BUCKET_ORIGIN_NS;
pub(crate) use time_bucket::NAME as TIME_BUCKET;

/// Makes the functions known to a session.
pub(crate) fn register(session: &mut SessionState) -> Result<()> {
    session.register_udf(Arc::new(ScalarUDF::new_from_impl(
        time_bucket::TimeBucket::new(),
    )))?;
    for bookend in [bookend::Bookend::first(), bookend::Bookend::last()] {
        session.register_udaf(Arc::new(AggregateUDF::new_from_impl(bookend)))?;
    }
    // PostgreSQL's name for it.
    let variance = var_samp_udaf().as_ref().clone().with_aliases(["variance"]);
    session.register_udaf(Arc::new(variance))?;
    Ok(())
}
