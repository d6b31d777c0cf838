//! What an error of a query means for whoever asked, and which setting it is about.

use nilometer_service::{Class, Error as ServiceError};

use super::{Error, OverMemory};

impl Error {
    /// What it means for whoever asked.
    pub fn class(&self) -> Class {
        match self {
            Self::Engine(error) => Class::of(error),
            Self::Syntax { .. }
            | Self::Unsupported { .. }
            | Self::UnknownTable { .. }
            | Self::UnknownColumn { .. }
            | Self::UnknownName { .. }
            | Self::Parameter { .. }
            | Self::View { .. }
            | Self::TooManyJoins { .. }
            | Self::TooDeep { .. }
            | Self::Plan { .. }
            | Self::Execution { .. } => Class::BadRequest,
            Self::ReadOnly => Class::Forbidden,
            // Nobody is there to read this one.
            Self::Cancelled | Self::Killed { .. } => Class::Conflict,
            Self::TooLong { .. } | Self::Memory(OverMemory::Query { .. }) => Class::TooLarge,
            Self::Memory(OverMemory::Shared { .. } | OverMemory::Budget { .. }) => Class::Busy,
            Self::Time { .. } => Class::Time,
            Self::Internal { .. } => Class::Internal,
        }
    }

    /// The setting whose limit was reached, if it is one of queries.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::TooLong { .. } => Some("sql-bytes-max"),
            Self::TooDeep { .. } => Some("sql-operators-max"),
            Self::Memory(OverMemory::Query { .. }) => Some("query-memory-bytes-max"),
            Self::Memory(OverMemory::Shared { .. }) => Some("queries-memory-bytes-max"),
            Self::Memory(OverMemory::Budget { .. }) => Some("memory-bytes-max"),
            Self::Time { .. } => Some("query-ms-max"),
            _ => None,
        }
    }
}

impl From<Error> for ServiceError {
    fn from(error: Error) -> Self {
        match error {
            Error::Engine(error) => Self::Engine(error),
            Error::Time { limit_ms } => Self::QueryTime { limit_ms },
            error => Self::Statement {
                class: error.class(),
                setting: error.setting(),
                position: error.position(),
                source: Box::new(error),
            },
        }
    }
}
