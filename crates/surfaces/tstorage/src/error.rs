//! Errors that end a request or a connection. The protocol has one status for all of it, so the log has the words.

use nilometer_service::Error as ServiceError;

/// Why a request is not answered as asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The client is gone, or the socket broke.
    #[error("the client is gone")]
    Gone,
    /// Nothing came, or nothing was taken, for too long.
    #[error("the client did not go on within {limit_ms} ms (setting tstorage-stall-ms-max)")]
    Stalled {
        /// The limit in force.
        limit_ms: u64,
    },
    /// Nothing of an answer was taken for too long.
    #[error(
        "the client did not take its answer within {limit_ms} ms (setting tstorage-stall-ms-max)"
    )]
    NotTaken {
        /// The limit in force.
        limit_ms: u64,
    },
    /// What came is no request of this protocol.
    #[error("the request is malformed: {0}")]
    Malformed(&'static str),
    /// A payload is longer than it may be.
    #[error(
        "a payload of {bytes} bytes is longer than {bytes_max} bytes (setting tstorage-payload-bytes-max)"
    )]
    Payload {
        /// Its length.
        bytes: usize,
        /// The limit in force.
        bytes_max: usize,
    },
    /// What is asked for cannot be.
    #[error("the request is refused: {0}")]
    Refused(String),
    /// The store refused or failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl Error {
    /// Whether whoever asked can hear of it.
    pub(crate) fn can_be_told(&self) -> bool {
        !matches!(self, Self::Gone | Self::NotTaken { .. })
    }

    /// The setting whose limit it is about.
    pub(crate) fn setting(&self) -> Option<&'static str> {
        match self {
            Self::Stalled { .. } | Self::NotTaken { .. } => Some("tstorage-stall-ms-max"),
            Self::Payload { .. } => Some("tstorage-payload-bytes-max"),
            Self::Service(error) => error.setting(),
            Self::Gone | Self::Malformed(_) | Self::Refused(_) => None,
        }
    }
}
