//! What can go wrong with an embedded database.

use std::io;
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
    /// The store refused.
    #[error(transparent)]
    Engine(#[from] nilometer_engine::Error),
    /// The statement is wrong, or it passed a limit.
    #[error(transparent)]
    Query(#[from] nilometer_query::Error),
    /// The system refused threads.
    #[error(
        "cannot start threads for {what}: {source}; raise the limit of threads of this process"
    )]
    Threads {
        /// What they are for.
        what: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The query's task ended without an answer, which only a bug in here does.
    #[error("the query stopped without an answer; please report it with the statement")]
    Stopped,
}
