//! What an error of a query means for whoever asked, and which setting it is about.

use nilometer_service::{Class, Error as ServiceError};

use super::Error;

impl Error {
    /// What it means for whoever asked.
    pub fn class(&self) -> Class {
        match self {
            Self::Engine(error) => Class::of(error),
            Self::Denied(error) => error.class(),
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
            Self::TooLong { .. } => Class::TooLarge,
            Self::Memory(over) => over.class(),
            Self::Time { .. } => Class::Time,
            Self::Internal { .. } => Class::Internal,
        }
    }

    /// The setting whose limit was reached, if it is one of queries.
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::TooLong { .. } => Some("sql-bytes-max"),
            Self::TooDeep { .. } => Some("sql-operators-max"),
            Self::Memory(over) => Some(over.setting()),
            Self::Time { .. } => Some("query-ms-max"),
            _ => None,
        }
    }
}

impl From<Error> for ServiceError {
    fn from(error: Error) -> Self {
        match error {
            Error::Engine(error) => Self::Engine(error),
            Error::Denied(error) => *error,
            Error::Time { limit_ms } => Self::QueryTime { limit_ms },
            Error::Killed { id } => Self::Killed { id },
            Error::Cancelled => Self::Cancelled,
            Error::Memory(over) => Self::Memory(over),
            error => Self::Statement {
                class: error.class(),
                setting: error.setting(),
                position: error.position(),
                source: Box::new(error.bounded()),
            },
        }
    }
}
