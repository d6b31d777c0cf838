//! Errors of jobs.

use crate::error::Class;

/// What is wrong with a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// No job has the number.
    #[error("job {id} not found; timescaledb_information.jobs lists them")]
    Unknown {
        /// The number.
        id: i64,
    },
    /// It runs already, and never twice at a time.
    #[error("job {id} is running; wait for its end, which timescaledb_information.job_stats shows")]
    Runs {
        /// Its number.
        id: i64,
    },
    /// It took longer than it may.
    #[error("job {id} ran longer than its max_runtime, and was ended; alter_job sets another")]
    TooLong {
        /// Its number.
        id: i64,
    },
    /// Nothing here knows what it does.
    #[error("this version does not know what job {id} does (\"{kind}\"); delete_job removes it")]
    UnknownKind {
        /// Its number.
        id: i64,
        /// Its kind.
        kind: String,
    },
    /// A configuration that is none.
    #[error(
        "the configuration of job {id} is an object of JSON, such as {{\"drop_after\": \"30 days\"}}"
    )]
    Config {
        /// Its number.
        id: i64,
    },
    /// It cannot do what it is for.
    #[error("job {id} failed: {reason}")]
    Failed {
        /// Its number.
        id: i64,
        /// Why, and what to do.
        reason: String,
    },
}

impl JobError {
    /// What it means for whoever asked.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Unknown { .. } => Class::NotFound,
            Self::Runs { .. } => Class::Conflict,
            Self::TooLong { .. } => Class::Time,
            Self::UnknownKind { .. } => Class::Unsupported,
            Self::Failed { .. } | Self::Config { .. } => Class::BadRequest,
        }
    }
}
