//! What can go wrong between a surface and the engine.

use std::io;

use nilometer_engine::Error as EngineError;

use crate::class::{self, Class};

/// An error of the service. Its text says what to do next, [`Error::class`] what it means for whoever asked.
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
    /// A token is unfit. Its text is never said.
    #[error("the token of {origin} {reason}; make one with `openssl rand -hex 32`")]
    Token {
        /// Where it came from.
        origin: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// What was shown is not the token.
    #[error("authorization failed: this is not the server's token")]
    WrongToken,
    /// As many queries wait for their turn as may.
    #[error(
        "{waiting_max} queries are waiting already; try again later (setting queries-waiting-max)"
    )]
    QueriesWaiting {
        /// The limit in force.
        waiting_max: usize,
    },
    /// The bodies of running requests have all the memory that they may.
    #[error(
        "all request bodies together may use {bytes_max} bytes of memory; try again later (setting bodies-bytes-max)"
    )]
    BodyMemory {
        /// The limit in force.
        bytes_max: usize,
    },
    /// Nothing is begun any more.
    #[error("the server is shutting down")]
    Stopping,
    /// The engine refused or failed.
    #[error("{}", class::text_of_engine(.0))]
    Engine(#[from] EngineError),
}

impl Error {
    /// What it means for whoever asked.
    pub fn class(&self) -> Class {
        match self {
            Self::Threads { .. } | Self::Token { .. } => Class::Internal,
            Self::WrongToken => Class::Unauthorized,
            Self::QueriesWaiting { .. } => Class::TooMany,
            Self::BodyMemory { .. } | Self::Stopping => Class::Busy,
            Self::Engine(error) => Class::of(error),
        }
    }

    /// The setting whose limit was reached; `engine` = a limit of the engine that is no setting.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::QueriesWaiting { .. } => Some("queries-waiting-max"),
            Self::BodyMemory { .. } => Some("bodies-bytes-max"),
            Self::Engine(error) => class::setting_of_engine(error),
            _ => None,
        }
    }

    /// Whether the same may succeed a moment later.
    pub fn passes(&self) -> bool {
        matches!(
            self,
            Self::QueriesWaiting { .. }
                | Self::BodyMemory { .. }
                | Self::Engine(EngineError::Memory { .. })
        )
    }
}
