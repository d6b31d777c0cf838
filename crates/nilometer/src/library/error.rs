//! Errors of an embedded database.

use std::path::PathBuf;

/// An error of the embedded database. Its text says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A store was to be opened that is not there.
    #[error(
        "there is no data directory {}; `nilometer serve --data DIR` makes one, and so does nilometer::open",
        path.display()
    )]
    NoStore {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// What a store needs beside the engine does not start: the system refused threads.
    #[error(transparent)]
    Service(nilometer_service::Error),
    /// The store refused.
    #[error(transparent)]
    Engine(#[from] nilometer_engine::Error),
    /// The statement is wrong, or it passed a limit.
    #[error(transparent)]
    Query(nilometer_service::Error),
    /// The query's task ended without an answer, which only a bug in here does.
    #[error("the query stopped without an answer; please report it with the statement")]
    Stopped,
}

impl From<nilometer_service::Error> for Error {
    fn from(error: nilometer_service::Error) -> Self {
        match error {
            nilometer_service::Error::Engine(error) => Self::Engine(error),
            other => Self::Service(other),
        }
    }
}

impl Error {
    /// Of a statement.
    pub(crate) fn of_query(error: nilometer_service::Error) -> Self {
        match error {
            nilometer_service::Error::Engine(error) => Self::Engine(error),
            other => Self::Query(other),
        }
    }
}
