//! Functions of time series that `DataFusion` does not have, under the names that `TimescaleDB` gave them.

mod aggregate;
pub(crate) mod arrays;
mod bounded;
pub(crate) mod bytes;
mod coalesce;
mod common;
mod decoded;
mod either;
mod growth;
mod json;
mod postgres;
mod summary;
mod time;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::functions_aggregate::bool_and_or::bool_and_udaf;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

pub(crate) use aggregate::numeric::{
    MEAN as NUMERIC_MEAN, SUM as NUMERIC_SUM, is_numeric as sums_numeric,
};
pub(crate) use bounded::{BoundFunctions, row_bytes};
pub(crate) use coalesce::{COALESCE, is_temporal};
pub(crate) use either::Spelled;
pub(crate) use json::{JsonOperators, is_json, is_jsonb, json_named};
pub(crate) use summary::{
    INTO_VALUES, MAKERS, ROLLUP, accessor_named, is_rows, of_column, rows_of,
};
pub(crate) use time::at_time_zone::NAME as AT_TIME_ZONE;
pub(crate) use time::bucket::{Buckets, DAY_NS, Shift, Width};
pub(crate) use time::gapfill::{GAPFILL, INTERPOLATE, LOCF, misplaced};
pub(crate) use time::read_pattern::NAME as TIME_BY_PATTERN;
pub(crate) use time::time_bucket::{
    NAME as TIME_BUCKET, TimeBucket, buckets_of, series_buckets, width, zone,
};
pub(crate) use time::year::Extract;

/// Functions of files and of unions: a table is not made of the one, and no column is the other.
const MEANINGLESS: [&str; 4] = [
    "file_row_index",
    "input_file_name",
    "union_extract",
    "union_tag",
];

/// Makes `sum` and `avg` of integers answer `numeric`, for a session of `PostgreSQL`'s clients.
pub(crate) fn register_numeric(session: &mut SessionState) -> Result<()> {
    let known = [session.udaf("sum")?, session.udaf("avg")?];
    for aggregate in aggregate::numeric::functions(known) {
        session.register_udaf(aggregate)?;
    }
    Ok(())
}

/// Makes the functions known to a session.
pub(crate) fn register(session: &mut SessionState) -> Result<()> {
    for name in MEANINGLESS {
        session.deregister_udf(name)?;
    }
    session.register_udf(Arc::new(ScalarUDF::new_from_impl(
        time::time_bucket::TimeBucket::new(),
    )))?;
    for bookend in [
        aggregate::bookend::Bookend::first(),
        aggregate::bookend::Bookend::last(),
    ] {
        session.register_udaf(Arc::new(AggregateUDF::new_from_impl(bookend)))?;
    }
    for placeholder in time::gapfill::functions() {
        session.register_udf(placeholder)?;
    }
    for function in common::functions().into_iter().chain(json::functions()) {
        session.register_udf(function)?;
    }
    session.register_udf(time::read_pattern::function())?;
    for function in arrays::functions() {
        session.register_udf(function)?;
    }
    for function in bytes::functions() {
        session.register_udf(function)?;
    }
    for function in postgres::functions() {
        session.register_udf(function)?;
    }
    for function in summary::functions() {
        session.register_udf(function)?;
    }
    for aggregate in summary::aggregates() {
        session.register_udaf(aggregate)?;
    }
    session.register_udf(crate::operators::asof::marker())?;
    for aggregate in aggregate::series::functions() {
        session.register_udaf(aggregate)?;
    }
    session.register_udaf(Arc::new(AggregateUDF::new_from_impl(
        aggregate::histogram::Histogram::new(),
    )))?;
    for one in [
        aggregate::percentile::OneOfOrdered::percentile_disc(),
        aggregate::percentile::OneOfOrdered::mode(),
    ] {
        session.register_udaf(Arc::new(AggregateUDF::new_from_impl(one)))?;
    }
    session.register_udaf(aggregate::percentile_cont::function())?;
    session.register_expr_planner(Arc::new(crate::planning::caret::Caret))?;
    for aggregate in aggregate::extreme::functions() {
        session.register_udaf(aggregate)?;
    }
    for aggregate in aggregate::avg::functions(aggregate::sum::function()) {
        session.register_udaf(aggregate)?;
    }
    session.register_udf(time::age::function())?;
    time::epoch::register(session)?;
    session.register_udf(time::year::function())?;
    session.register_udf(time::at_time_zone::function())?;
    // PostgreSQL's names for them.
    let uuid = datafusion::functions::string::uuid();
    let uuid = uuid.as_ref().clone().with_aliases(["gen_random_uuid"]);
    session.register_udf(Arc::new(uuid))?;
    let sign = datafusion::functions::math::signum();
    let sign = sign.as_ref().clone().with_aliases(["sign"]);
    session.register_udf(Arc::new(sign))?;
    let every = bool_and_udaf().as_ref().clone().with_aliases(["every"]);
    session.register_udaf(Arc::new(every))?;
    for statistic in aggregate::moments::functions() {
        session.register_udaf(Arc::new(statistic))?;
    }
    decoded::register(session)?;
    either::register(session)?;
    coalesce::register(session)?;
    aggregate::sketch::register(session)?;
    let known = session.scalar_functions().iter();
    let unknown = known.filter(|(_, function)| !bounded::is_allowed(function));
    let unknown: Vec<String> = unknown.map(|(name, _)| name.clone()).collect();
    for name in unknown {
        session.deregister_udf(&name)?;
    }
    Ok(())
}
