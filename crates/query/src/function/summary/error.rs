//! Errors of summaries as those of a statement.

use datafusion::common::DataFusionError;
use nilometer_summaries::Error;

/// An error in what an aggregate was told, or in what it was given.
pub(super) fn wrong(error: Error) -> DataFusionError {
    match error {
        Error::Argument(text) => DataFusionError::Plan(text),
        error => DataFusionError::Execution(error.to_string()),
    }
}

/// The same of a function, with its name in front.
pub(super) fn wrong_in(name: &str, error: Error) -> DataFusionError {
    match error {
        Error::Argument(_) => wrong(error),
        error => DataFusionError::Execution(format!("{name}: {error}")),
    }
}
