//! Errors of statements, in the words of `InfluxDB` where it has words for them.

use nilometer_service::{Class, Error as ServiceError};

/// Why a statement is not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("database name required")]
    NoDatabase,
    #[error("database not found: {0}")]
    UnknownDatabase(String),
    #[error("retention policy not found: {0}")]
    UnknownPolicy(String),
    #[error("invalid name")]
    Name,
    #[error("name too long")]
    NameTooLong,
    #[error("retention policy already exists")]
    PolicyExists,
    #[error("retention policy conflicts with an existing policy")]
    PolicyConflict,
    #[error("retention policy duration must be at least 1h0m0s")]
    PolicyTooShort,
    #[error("retention policy duration must be greater than the shard duration")]
    ShardTooLong,
    #[error("continuous query already exists")]
    QueryExists,
    #[error("user not found")]
    UnknownUser,
    #[error("user already exists")]
    UserExists,
    #[error("username required")]
    NoUserName,
    #[error("create admin user first or disable authentication")]
    NoAdministrator,
    #[error("subscription not found")]
    UnknownSubscription,
    #[error("no such query id: {id}")]
    UnknownQuery { id: u64 },
    #[error("unknown time zone {0}")]
    UnknownZone(String),
    #[error("fields not supported in WHERE clause during deletion")]
    FieldInDelete,
    #[error("{0} doesn't support time in WHERE clause")]
    TimeNotSupported(&'static str),
    #[error("invalid tag comparison operator")]
    TagOperator,
    #[error("{0}")]
    Condition(String),
    #[error("error parsing regexp: {0}")]
    Pattern(String),
    #[error("not supported: {0}")]
    Unsupported(&'static str),
    #[error(
        "this request may only read; send what changes something by POST, to a server that is not read-only"
    )]
    ReadOnly,
    #[error("expected one statement")]
    NotOneStatement,
    #[error("the query is longer than {length_max} bytes (setting sql-bytes-max)")]
    TooLong { length_max: usize },
}

impl Error {
    fn class(&self) -> Class {
        match self {
            Self::UnknownDatabase(_)
            | Self::UnknownPolicy(_)
            | Self::UnknownUser
            | Self::UnknownSubscription
            | Self::UnknownQuery { .. } => Class::NotFound,
            Self::PolicyExists | Self::PolicyConflict | Self::QueryExists | Self::UserExists => {
                Class::Conflict
            }
            Self::Unsupported(_) => Class::Unsupported,
            Self::ReadOnly | Self::NoAdministrator => Class::Forbidden,
            Self::TooLong { .. } => Class::TooLarge,
            _ => Class::BadRequest,
        }
    }
}

impl From<Error> for ServiceError {
    fn from(error: Error) -> Self {
        let setting = matches!(error, Error::TooLong { .. }).then_some("sql-bytes-max");
        Self::Statement {
            class: error.class(),
            fault: None,
            setting,
            position: None,
            source: Box::new(error),
        }
    }
}
