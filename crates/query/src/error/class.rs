//! Classes of query errors, and the setting that each is about.

use nilometer_service::{Class, Error as ServiceError, Fault};

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
            | Self::Definition { .. }
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

    /// What is wrong, finer than its class. What the planner's library says of types and of data is told by its words.
    pub fn fault(&self) -> Option<Fault> {
        Some(match self {
            Self::Syntax { .. } => Fault::Syntax,
            Self::Unsupported { .. } => Fault::Unsupported,
            Self::ReadOnly => Fault::ReadOnly,
            Self::Parameter { .. } => Fault::UnknownParameter,
            Self::UnknownName { what, .. } => match *what {
                "function" | "procedure" => Fault::UnknownFunction,
                "database" => Fault::UnknownDatabase,
                "schema" => Fault::UnknownSchema,
                "table" | "view" | "sequence" => Fault::UnknownTable,
                _ => Fault::UnknownName,
            },
            Self::View { .. } => Fault::Definition,
            Self::UnknownTable { .. } => Fault::UnknownTable,
            Self::UnknownColumn { .. } => Fault::UnknownColumn,
            Self::Definition { fault, .. } => *fault,
            Self::Plan { message, .. } => return told_of(message, &PLANNED),
            Self::Execution { message } => return told_of(message, &RUN),
            _ => return None,
        })
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

/// Words of a message and what they tell of a statement that cannot be planned.
const PLANNED: [(&str, Fault); 25] = [
    (super::NO_FUNCTION, Fault::UnknownFunction),
    ("FILTER specified, but", Fault::Types),
    ("Aggregate functions are not allowed", Fault::Grouping),
    ("different number of columns", Fault::Syntax),
    ("is beyond the times there are", Fault::TimeRange),
    ("Can't cast value", Fault::NumberRange),
    ("to value of Boolean type", Fault::InvalidValue),
    ("non-boolean predicate", Fault::Types),
    ("GROUP BY", Fault::Grouping),
    ("mbiguous", Fault::Ambiguous),
    ("table already exists", Fault::TableExists),
    ("already exists", Fault::TableExists),
    ("is named twice", Fault::ColumnExists),
    ("is no value for the column", Fault::InvalidValue),
    ("is no time", Fault::InvalidTime),
    // Of a time column; of others the engine says it.
    ("is no value of type", Fault::InvalidTime),
    ("is out of range for type", Fault::TimeRange),
    ("Error parsing timestamp", Fault::InvalidTime),
    ("Cannot cast string", Fault::InvalidValue),
    ("annot coerce", Fault::Types),
    ("annot infer common", Fault::Types),
    ("must return", Fault::Types),
    ("a row needs its time", Fault::NotNull),
    ("NULL", Fault::NotNull),
    ("is a view", Fault::Types),
];

/// The same of one that failed while it ran.
const RUN: [(&str, Fault); 14] = [
    ("Can't cast value", Fault::NumberRange),
    ("to value of Boolean type", Fault::InvalidValue),
    ("ivision by zero", Fault::DivisionByZero),
    ("ivide by zero", Fault::DivisionByZero),
    ("more than one row", Fault::ManyRows),
    ("Regular expression", Fault::InvalidPattern),
    ("regex parse error", Fault::InvalidPattern),
    ("Error parsing timestamp", Fault::InvalidTime),
    ("is no time", Fault::InvalidTime),
    ("Overflow", Fault::NumberRange),
    ("overflow", Fault::NumberRange),
    ("out of range", Fault::NumberRange),
    ("Cannot cast string", Fault::InvalidValue),
    ("annot parse", Fault::InvalidValue),
];

/// The same of values of bytes, JSON and patterns, known or not when the statement is planned.
const VALUES: [(&str, Fault); 12] = [
    ("out of valid range", Fault::OutOfPlace),
    ("negative substring length", Fault::NegativeLength),
    ("invalid input syntax for type", Fault::InvalidValue),
    ("invalid input value for enum", Fault::InvalidValue),
    ("malformed array literal", Fault::InvalidValue),
    ("invalid hexadecimal d", Fault::InvalidParameter),
    ("cannot extract elements from", Fault::InvalidParameter),
    ("cannot get array length of", Fault::InvalidParameter),
    ("cannot call jsonb_object_keys", Fault::InvalidParameter),
    ("cannot delete from", Fault::InvalidParameter),
    ("must have even number of elements", Fault::InvalidParameter),
    ("key must not be null", Fault::InvalidParameter),
];

fn told_of(message: &str, words: &[(&str, Fault)]) -> Option<Fault> {
    let known = VALUES
        .iter()
        .chain(words)
        .find(|(word, _)| message.contains(word));
    known.map(|(_, fault)| *fault)
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
                fault: error.fault(),
                setting: error.setting(),
                position: error.position(),
                source: Box::new(error.bounded()),
            },
        }
    }
}
