//! SHOW.
//!
//! Does: answer from names, settings and the tag index of one snapshot. Does not: read rows, except to find out which
//! series a delete has left.
//!
//! Next: `series.rs` for measurements, series, tags and fields, `cardinality.rs` and `grouped.rs` for how many there are, `catalogue.rs`
//! for databases and policies, `server.rs` for what runs.

mod cardinality;
mod catalogue;
mod duration;
mod grouped;
mod lists;
mod server;
mod values;

use nilometer_influxql_syntax::ast::Show;
use nilometer_service::{Error as ServiceError, Set};

use super::context::Context;
use super::users;

/// Answers a statement.
pub(super) fn run(context: &Context, show: &Show) -> Result<Vec<Set>, ServiceError> {
    match show {
        Show::Databases => Ok(catalogue::databases(context)),
        Show::RetentionPolicies(on) => Ok(catalogue::policies(context, on.as_deref())?),
        Show::Shards => Ok(catalogue::shards(context)),
        Show::ShardGroups => Ok(catalogue::shard_groups(context)),
        Show::ContinuousQueries => Ok(catalogue::continuous_queries(context)),
        Show::Users => Ok(users::users(context)),
        Show::GrantsFor(user) => Ok(users::grants(context, user)?),
        // There are none, in any database.
        Show::Subscriptions => Ok(Vec::new()),
        Show::Queries => Ok(server::queries(context)),
        Show::Stats(module) => Ok(server::stats(context, module.as_deref())?),
        Show::Diagnostics(module) => Ok(server::diagnostics(context, module.as_deref())),
        Show::Measurements(show) => lists::measurements(context, show),
        Show::Series(listing) => lists::series(context, listing),
        Show::FieldKeys(listing) => lists::field_keys(context, listing),
        Show::TagKeys(keys, listing) => lists::tag_keys(context, keys.as_ref(), listing),
        Show::TagValues(keys, listing) => lists::tag_values(context, keys, listing),
        Show::SeriesCardinality(clauses) => cardinality::series(context, clauses),
        Show::MeasurementCardinality(clauses) => cardinality::measurements(context, clauses),
        Show::TagKeyCardinality(clauses) => cardinality::tag_keys(context, clauses),
        Show::TagValuesCardinality(keys, clauses) => {
            cardinality::tag_values(context, keys, clauses)
        }
        Show::FieldKeyCardinality(clauses) => cardinality::field_keys(context, clauses),
    }
}
