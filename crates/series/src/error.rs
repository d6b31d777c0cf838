//! Errors of a series query, before and while it is answered.

use crate::context::MemoryFull;
use crate::value::Type;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two parts of the query contradict each other, or one of them means nothing.
    #[error("a series query cannot be asked so: {problem}")]
    Contradiction {
        /// What is wrong, and what to write.
        problem: String,
    },
    /// Buckets that would take the memory of the machine.
    #[error(
        "the query would make {buckets} buckets, and may make {buckets_max}; take wider buckets, a shorter range of time, or raise the limit of buckets"
    )]
    TooManyBuckets {
        /// How many, as far as they were counted.
        buckets: u64,
        /// How many may be.
        buckets_max: u64,
    },
    /// A parameter without a value, or with one of another type.
    #[error("the parameter ${number}: {problem}")]
    Parameter {
        /// From 1.
        number: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// No such table.
    #[error("there is no table {table}")]
    UnknownTable {
        /// With database and schema.
        table: String,
    },
    /// No such column.
    #[error("there is no {kind} {name:?} in {source_name}{}", meant(nearest.as_deref()))]
    UnknownColumn {
        /// `tag` or `field`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Where it was looked for.
        source_name: String,
        /// A name that is much like it.
        nearest: Option<String>,
    },
    /// Types that an operation does not know.
    #[error("{operation} takes no {}", types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and "))]
    WrongType {
        /// What was to be done.
        operation: String,
        /// With values of these types.
        types: Vec<Type>,
    },
    /// x / 0 by `PostgreSQL`'s rules.
    #[error("division by zero")]
    DivisionByZero,
    /// A result that its type cannot hold, by `PostgreSQL`'s rules.
    #[error("{kind} out of range in {operation}")]
    OutOfRange {
        /// The type.
        kind: Type,
        /// What was calculated.
        operation: &'static str,
    },
    /// A text that is not what a conversion takes.
    #[error("{value:?} is no {kind}")]
    NotConvertible {
        /// The text or number.
        value: String,
        /// What it should have been.
        kind: Type,
    },
    /// A regular expression that is none.
    #[error("the regular expression {pattern:?}: {problem}")]
    Pattern {
        /// The expression.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No memory for the query.
    #[error(transparent)]
    Memory(#[from] MemoryFull),
    /// Somebody ended it.
    #[error("the query was cancelled")]
    Cancelled,
    /// Whoever looks on does not let it read as much.
    #[error("the query was not let read {rows} rows")]
    Declined {
        /// Rows, about.
        rows: u64,
    },
    /// The store could not be read.
    #[error(transparent)]
    Engine(#[from] nilometer_engine::Error),
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean {name:?}?"))
}

impl Error {
    pub(crate) fn contradiction(problem: impl Into<String>) -> Self {
        Self::Contradiction {
            problem: problem.into(),
        }
    }
}
