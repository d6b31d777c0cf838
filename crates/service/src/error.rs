//! What can go wrong between a surface and the engine.

use std::io;

/// An error of the service. Its text says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
}
