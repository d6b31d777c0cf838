//! Errors of SELECT, in InfluxDB's words where it has some.

/// Why a SELECT has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The statement means nothing.
    #[error("{reason}")]
    Refused {
        /// In InfluxDB's words.
        reason: String,
    },
    /// No such database.
    #[error("database not found: {name}")]
    UnknownDatabase {
        /// Its name.
        name: String,
    },
    /// No database was named.
    #[error("database name required")]
    NoDatabase,
    /// No such retention policy.
    #[error("retention policy not found: {name}")]
    UnknownPolicy {
        /// Its name.
        name: String,
    },
    /// More buckets than a statement may have.
    #[error("max-select-buckets limit exceeded: ({buckets}/{buckets_max})")]
    TooManyBuckets {
        /// How many it would be.
        buckets: u64,
        /// How many may be.
        buckets_max: u64,
    },
    /// Reading failed.
    #[error(transparent)]
    Series(nilometer_series::Error),
}

impl Error {
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused {
            reason: reason.into(),
        }
    }
}

impl From<nilometer_series::Error> for Error {
    fn from(error: nilometer_series::Error) -> Self {
        match error {
            nilometer_series::Error::TooManyBuckets {
                buckets,
                buckets_max,
            } => Self::TooManyBuckets {
                buckets,
                buckets_max,
            },
            other => Self::Series(other),
        }
    }
}

impl From<nilometer_series::MemoryFull> for Error {
    fn from(full: nilometer_series::MemoryFull) -> Self {
        Self::Series(full.into())
    }
}
