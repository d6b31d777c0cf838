//! Two-step aggregates as `TimescaleDB`'s toolkit has them: aggregates that make summaries, `rollup`, and functions that ask them.
//!
//! A summary is `bytea` in SQL. What it is of stands in its bytes, so one name serves all kinds; where a plan shows which
//! aggregate made it, the field says so too, and with it the types of what is in it.
//! Next: crates/summaries for the algorithms, docs/format/summary.md for the bytes.

mod accessor;
mod answer;
mod argument;
mod gather;
mod maker;
mod names;
mod rollup;

use std::sync::Arc;

use datafusion::common::DataFusionError;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use nilometer_summaries::Error;

pub(crate) use names::{
    INTO_VALUES, MAKERS, ROLLUP, accessor_named, is_of_summary, is_rows, of_column, rows_of,
};

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

fn wrong(error: Error) -> DataFusionError {
    let text = error.to_string();
    match error {
        Error::Argument(_) => DataFusionError::Plan(text),
        _ => DataFusionError::Execution(text),
    }
}

/// The same with the name of the function in front.
fn wrong_in(name: &str, error: &Error) -> DataFusionError {
    let text = error.to_string();
    let is_named = text
        .split_once(':')
        .is_some_and(|(first, _)| !first.contains(' '));
    DataFusionError::Execution(if is_named {
        text
    } else {
        format!("{name}: {text}")
    })
}
