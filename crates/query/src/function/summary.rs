//! Two-step aggregates as `TimescaleDB`'s toolkit has them: aggregates that make summaries, `rollup`, and functions that ask them.
//!
//! A summary is `bytea` in SQL. What it is of stands in its bytes, so one name serves all kinds; where a plan shows which
//! aggregate made it, the field says so too, and with it the types of what is in it.
//! Next: crates/summaries for the algorithms, docs/format/summary.md for the bytes.

mod accessor;
mod answer;
mod argument;
mod error;
mod gather;
mod maker;
mod names;
mod rollup;

use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

pub(crate) use names::{INTO_VALUES, MAKERS, ROLLUP, is_rows, of_column, rows_of};

/// The functions of single summaries.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    accessor::functions()
}

/// The aggregates.
pub(super) fn aggregates() -> Vec<Arc<AggregateUDF>> {
    let mut all = maker::aggregates();
    all.push(rollup::aggregate());
    all
}

/// Whether a function of single values is one of summaries.
pub(crate) fn is_of_summary(name: &str) -> bool {
    accessor::is_known(name)
}

/// The name under which a function of summaries is known here, by the name that users give it.
pub(crate) fn accessor_named(name: &str) -> Option<String> {
    let apart = names::apart(name);
    is_of_summary(&apart).then_some(apart)
}
