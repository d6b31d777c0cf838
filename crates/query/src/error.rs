//! Errors of queries: one variant for each thing that the caller can react to.

use std::any::Any;

use arrow::error::ArrowError;
use datafusion::common::{Diagnostic, SchemaError};
use datafusion::error::DataFusionError;
use nilometer_service::define::{DefineError, Object};
use nilometer_service::{Ended, Error as ServiceError, Fault};
pub use nilometer_service::{OverMemory, Position};

mod arguments;
mod class;
mod copied;
mod too_many_rows;

pub(crate) use arguments::NO_FUNCTION;
use arguments::{UNFIT_ARGUMENTS, unfit_arguments};
pub(crate) use too_many_rows::TooManyRows;

/// An error of a query. Its text says what is wrong and what to do about it; [`Error::position`] says where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not SQL.
    #[error("syntax error: {message}")]
    Syntax {
        /// What the parser expected and found.
        message: String,
        /// Where.
        position: Option<Position>,
    },
    /// The statement is SQL, but of a kind that does not run here.
    #[error("{statement} is not supported: {instead}")]
    Unsupported {
        /// Its first words.
        statement: String,
        /// What to do instead.
        instead: &'static str,
    },
    /// The statement changes something, and its sender may only read.
    #[error(
        "this statement changes something, and it came where only reading is allowed; send it with POST, as a user who may write"
    )]
    ReadOnly,
    /// Who asks may not do this.
    #[error(transparent)]
    Denied(Box<ServiceError>),
    /// A parameter of the statement has no value.
    #[error("parameter {name}: {reason}")]
    Parameter {
        /// The parameter as it is written.
        name: String,
        /// What is wrong with it.
        reason: String,
        /// Where it stands.
        position: Option<Position>,
    },
    /// No such database, schema, view, function or setting.
    #[error("{what} not found: \"{name}\"{}", suggestion(.nearest.as_deref()))]
    UnknownName {
        /// What was asked for.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
        /// Where it stands.
        position: Option<Position>,
    },
    /// A view whose query no longer fits what it reads.
    #[error(
        "the view \"{name}\" cannot be read: {message}; make it again with CREATE OR REPLACE VIEW or drop it"
    )]
    View {
        /// The view.
        name: String,
        /// What is wrong with its query.
        message: String,
        /// Where the view is named.
        position: Option<Position>,
    },
    /// No such table.
    #[error("table not found: \"{name}\"{}", suggestion(.nearest.as_deref()))]
    UnknownTable {
        /// The name asked for, with database and schema.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
        /// Where it stands.
        position: Option<Position>,
    },
    /// No such column in the tables of the statement.
    #[error("column not found: \"{name}\"{}", suggestion(.nearest.as_deref()))]
    UnknownColumn {
        /// The name asked for.
        name: String,
        /// The name that was probably meant.
        nearest: Option<String>,
        /// Where it stands.
        position: Option<Position>,
    },
    /// The statement cannot be planned: types, arguments, a missing GROUP BY.
    #[error("{message}")]
    Plan {
        /// What is wrong.
        message: String,
        /// Where, if that is known.
        position: Option<Position>,
    },
    /// A definition that cannot be carried out.
    #[error("{message}")]
    Definition {
        /// What is wrong.
        message: String,
        /// The same for who tells errors apart.
        fault: Fault,
        /// Where, if that is known.
        position: Option<Position>,
    },
    /// The statement failed on the data: a cast, a division by zero, an overflow.
    #[error("{message}")]
    Execution {
        /// What failed.
        message: String,
    },
    /// The text is longer than a statement may be.
    #[error(
        "a statement is limited to {limit} bytes, this one has {bytes}; shorten it or raise sql-bytes-max"
    )]
    TooLong {
        /// The limit in force.
        limit: usize,
        /// Its length.
        bytes: usize,
    },
    /// One expression or one chain of joins or unions is longer than the planner's stack allows.
    #[error(
        "an expression is limited to {limit} operators in a row and a query to as many tables, views and WITH counted as what they stand for; write long OR chains as IN lists, name less, or raise sql-operators-max"
    )]
    TooDeep {
        /// The limit in force.
        limit: usize,
        /// Where the limit is passed.
        position: Option<Position>,
    },
    /// The query joins more than can be planned in a time that anybody waits.
    #[error(
        "a query is limited to {limit} joins, those of its views counted; join less at once, or put a part's result into a table first"
    )]
    TooManyJoins {
        /// The limit.
        limit: usize,
    },
    /// The query needs more memory than it, or all of them together, may use.
    #[error(transparent)]
    Memory(#[from] OverMemory),
    /// The query ran longer than it may.
    #[error("{}", ServiceError::QueryTime { limit_ms: *limit_ms })]
    Time {
        /// The limit in force.
        limit_ms: u64,
    },
    /// Who asked does not want the answer any more; see [`Sql::cancelled_by`](crate::Sql::cancelled_by).
    #[error("{}", ServiceError::Cancelled)]
    Cancelled,
    /// Somebody ended the query.
    #[error("{}", ServiceError::Killed { id: *id })]
    Killed {
        /// Its number.
        id: u64,
    },
    /// The engine failed, or knows no such database.
    #[error(transparent)]
    Engine(nilometer_engine::Error),
    /// A bug in here or in the query engine.
    #[error("internal error of the query engine: {message}; please report it with the statement")]
    Internal {
        /// What it said.
        message: String,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!("; did you mean \"{name}\"?"))
        .unwrap_or_default()
}

impl Error {
    /// One of the service, where a statement has no place for it.
    pub(crate) fn of_service(error: ServiceError) -> Self {
        match error {
            ServiceError::Engine(error) => error.into(),
            ServiceError::Define { source, .. } => Self::of_name(source, None),
            other => Self::internal(other.to_string()),
        }
    }

    /// Where in the statement the error is, if that is known.
    pub fn position(&self) -> Option<Position> {
        match self {
            Self::Syntax { position, .. }
            | Self::UnknownTable { position, .. }
            | Self::UnknownColumn { position, .. }
            | Self::TooDeep { position, .. }
            | Self::Parameter { position, .. }
            | Self::UnknownName { position, .. }
            | Self::View { position, .. }
            | Self::Definition { position, .. }
            | Self::Plan { position, .. } => *position,
            _ => None,
        }
    }

    /// An error of a running query. A sort that cannot spill says so in words of its own, without the limit.
    pub(crate) fn of_run(error: DataFusionError, query_memory_bytes_max: usize) -> Self {
        if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) {
            return OverMemory::Query {
                bytes_max: query_memory_bytes_max,
            }
            .into();
        }
        error.into()
    }

    /// What is wrong with a name that stands here. Where the advice is a statement, it is said in SQL.
    pub(crate) fn of_name(error: DefineError, position: Option<Position>) -> Self {
        let message = match error {
            DefineError::Unknown {
                what,
                name,
                nearest,
            } => return Self::unknown(what, name, nearest, position),
            DefineError::SchemaInUse {
                schema,
                tables,
                views,
            } => format!(
                "the schema \"{schema}\" has {tables} tables and {views} views; write DROP SCHEMA {schema} CASCADE to drop them too"
            ),
            DefineError::IsView { name } => format!(
                "\"{name}\" is a view; change what it reads, or make it again with CREATE OR REPLACE VIEW"
            ),
            constraint @ (DefineError::Constraint { .. } | DefineError::NotCast { .. }) => {
                return Self::Definition {
                    fault: Fault::of_definition(&constraint),
                    message: constraint.to_string(),
                    position,
                };
            }
            other => {
                let fault = Fault::of_definition(&other);
                let message = other.to_string();
                return match fault {
                    Fault::Unsupported
                    | Fault::TableExists
                    | Fault::UnknownTable
                    | Fault::NumberRange
                    | Fault::SequenceLimit
                    | Fault::InvalidParameter
                    | Fault::NotReady
                    | Fault::ObjectExists
                    | Fault::UnknownName
                    | Fault::InvalidForeignKey
                    | Fault::InUse => Self::Definition {
                        message,
                        fault,
                        position,
                    },
                    _ => Self::Plan { message, position },
                };
            }
        };
        Self::Plan { message, position }
    }

    fn unknown(
        what: Object,
        name: String,
        nearest: Option<String>,
        position: Option<Position>,
    ) -> Self {
        match what {
            Object::Table => Self::UnknownTable {
                name,
                nearest,
                position,
            },
            Object::Column => Self::UnknownColumn {
                name,
                nearest,
                position,
            },
            Object::Database
            | Object::Schema
            | Object::View
            | Object::Aggregate
            | Object::Sequence
            | Object::Index
            | Object::Type
            | Object::Function
            | Object::Procedure => Self::UnknownName {
                what: what.word(),
                name,
                nearest,
                position,
            },
        }
    }

    /// What a panic says.
    pub(crate) fn of_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("without a word");
        Self::internal(format!(
            "it panicked, and only this statement ended: {text}"
        ))
    }

    /// With no more of a statement's texts than says which: a cast repeats the value that it cannot take, whatever its
    /// length.
    fn bounded(mut self) -> Self {
        match &mut self {
            Self::Syntax { message, .. }
            | Self::Plan { message, .. }
            | Self::Definition { message, .. }
            | Self::View { message, .. }
            | Self::Execution { message }
            | Self::Internal { message } => shorten(message),
            Self::UnknownName { name, .. }
            | Self::UnknownTable { name, .. }
            | Self::UnknownColumn { name, .. } => shorten(name),
            _ => {}
        }
        self
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::Internal {
            message: message.into(),
        }
    }
}

impl From<nilometer_engine::Error> for Error {
    fn from(error: nilometer_engine::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Cancelled => Self::Cancelled,
            Ended::Killed { id } => Self::Killed { id },
            Ended::Time { limit_ms } => Self::Time { limit_ms },
        }
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        let position = error.diagnostic().and_then(position_of);
        convert(error, position).bounded()
    }
}

fn position_of(diagnostic: &Diagnostic) -> Option<Position> {
    let start = diagnostic.span?.start;
    Some(Position {
        line: start.line,
        column: start.column,
    })
}

fn convert(error: DataFusionError, position: Option<Position>) -> Error {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            convert(*inner, position)
        }
        DataFusionError::Shared(inner) => convert_shared(&inner, position),
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => convert(first, position),
            None => Error::internal("an empty list of errors"),
        },
        DataFusionError::SQL(parser, _) => syntax(&parser.to_string()),
        DataFusionError::Internal(message) if message.contains(UNFIT_PATTERN) => Error::Execution {
            message: unfit_pattern(&message),
        },
        DataFusionError::Internal(message) if is_unfit_call(&message) => Error::Plan {
            message: tidy(&message),
            position,
        },
        DataFusionError::SchemaError(schema, _) => match *schema {
            SchemaError::FieldNotFound {
                field,
                valid_fields,
            } => {
                let columns = valid_fields.iter().map(|column| column.name.clone());
                let nearest = nilometer_engine::nearest(&field.name, columns);
                Error::UnknownColumn {
                    name: field.name,
                    nearest,
                    position,
                }
            }
            other => Error::Plan {
                message: other.to_string(),
                position,
            },
        },
        DataFusionError::Plan(message) if message.starts_with(INVALID_FUNCTION) => {
            unknown_function(&message, position)
        }
        DataFusionError::Plan(message) | DataFusionError::Execution(message)
            if message.contains(UNFIT_ARGUMENTS) =>
        {
            Error::Plan {
                message: unfit_arguments(&message),
                position,
            }
        }
        DataFusionError::Plan(message) | DataFusionError::NotImplemented(message)
            if is_left_subquery(&message) =>
        {
            Error::Plan {
                message: LEFT_SUBQUERY.to_owned(),
                position,
            }
        }
        DataFusionError::Plan(message)
        | DataFusionError::NotImplemented(message)
        | DataFusionError::Configuration(message) => Error::Plan {
            message: tidy(&message),
            position,
        },
        DataFusionError::Execution(message) => Error::Execution {
            message: tidy(&message),
        },
        DataFusionError::ArrowError(arrow, _) => convert_arrow(*arrow, position),
        DataFusionError::External(inner) => convert_external(inner, position),
        other => Error::internal(tidy(&other.to_string())),
    }
}

/// What is left of a subquery that no rule could take apart.
fn is_left_subquery(message: &str) -> bool {
    let what = message.strip_prefix("Physical plan does not support logical expression ");
    what.is_some_and(|what| {
        [
            "ScalarSubquery(",
            "InSubquery(",
            "Exists(",
            "OuterReferenceColumn(",
        ]
        .iter()
        .any(|kind| what.starts_with(kind))
    }) || message.contains("does not support undecorrelated Subquery")
        || message.contains("subquery can only be used in Projection, Filter")
        || message.starts_with("Correlated scalar subquery ")
}

const LEFT_SUBQUERY: &str = "a subquery stands or speaks of the outer row where it cannot be joined with it; write it as a join: its tables beside the outer ones, its conditions in ON, and GROUP BY for its aggregates";

/// How the planner says that it does not know a function.
const INVALID_FUNCTION: &str = "Invalid function '";

fn unknown_function(message: &str, position: Option<Position>) -> Error {
    let mut quoted = message.split('\'').skip(1).step_by(2);
    Error::UnknownName {
        what: "function",
        name: quoted.next().unwrap_or_default().to_owned(),
        nearest: quoted.next().map(str::to_owned),
        position,
    }
}

fn convert_arrow(error: ArrowError, position: Option<Position>) -> Error {
    match error {
        ArrowError::ExternalError(inner) => convert_external(inner, position),
        ArrowError::DivideByZero => Error::Execution {
            message: "division by zero".to_owned(),
        },
        other => Error::Execution {
            message: tidy(&other.to_string()),
        },
    }
}

fn convert_external(
    inner: Box<dyn std::error::Error + Send + Sync>,
    position: Option<Position>,
) -> Error {
    let inner = match inner.downcast::<nilometer_engine::Error>() {
        Ok(engine) => return Error::Engine(*engine),
        Err(other) => other,
    };
    let inner = match inner.downcast::<Error>() {
        Ok(own) => return *own,
        Err(other) => other,
    };
    let inner = match inner.downcast::<TooManyRows>() {
        Ok(rows) => return (*rows).into(),
        Err(other) => other,
    };
    let inner = match inner.downcast::<OverMemory>() {
        Ok(memory) => return Error::Memory(*memory),
        Err(other) => other,
    };
    match inner.downcast::<DataFusionError>() {
        Ok(nested) => convert(*nested, position),
        // What a function's library says of its arguments, such as a regular expression that is none.
        Err(other) => Error::Execution {
            message: tidy(&other.to_string()),
        },
    }
}

/// An error that several consumers of one stream share cannot be taken apart, only read.
fn convert_shared(error: &DataFusionError, position: Option<Position>) -> Error {
    match error.find_root() {
        DataFusionError::Execution(message) => Error::Execution {
            message: tidy(message),
        },
        DataFusionError::Plan(message) => Error::Plan {
            message: tidy(message),
            position,
        },
        DataFusionError::External(inner) => {
            if let Some(rows) = inner.downcast_ref::<TooManyRows>() {
                return rows.clone().into();
            }
            if let Some(own) = inner.downcast_ref::<Error>().and_then(Error::copied) {
                return own;
            }
            match inner.downcast_ref::<OverMemory>() {
                Some(memory) => Error::Memory(*memory),
                None => Error::internal(inner.to_string()),
            }
        }
        DataFusionError::ArrowError(arrow, _) => Error::Execution {
            message: tidy(&arrow.to_string()),
        },
        DataFusionError::Internal(message) if message.contains(UNFIT_PATTERN) => Error::Execution {
            message: unfit_pattern(message),
        },
        DataFusionError::Internal(message) if is_unfit_call(message) => Error::Plan {
            message: tidy(message),
            position,
        },
        other => Error::internal(tidy(&other.to_string())),
    }
}

/// What the planner's library takes for a mistake of its own is one in the pattern.
const UNFIT_PATTERN: &str = "Regular expression did not compile";

fn unfit_pattern(message: &str) -> String {
    let from = message.find(UNFIT_PATTERN).unwrap_or(0);
    tidy(message.get(from..).unwrap_or(message))
}

/// A call whose arguments fit no signature, which the rules that calculate in advance take for a mistake of their own.
const UNFIT_CALLS: [&str; 2] = [
    "failed to match any signature",
    "Unavailable default cast for native type",
];

fn is_unfit_call(message: &str) -> bool {
    UNFIT_CALLS.iter().any(|unfit| message.contains(unfit))
}

/// Bytes at the beginning and at the end of a message that are kept of a longer one: which value it was, and what was
/// wrong with it.
const KEPT_BYTES: [usize; 2] = [600, 300];

/// Leaves the middle out of a long text.
fn shorten(text: &mut String) {
    let [first, last] = KEPT_BYTES;
    if text.len() > first + last {
        let begin = text.floor_char_boundary(first);
        let end = text.ceil_char_boundary(text.len() - last);
        text.replace_range(begin..end, "\u{2026}");
    }
}

/// Takes the place out of a parser's sentence: `..., found: FRO at Line: 1, Column: 8`.
pub(crate) fn syntax(message: &str) -> Error {
    syntax_at(message).bounded()
}

fn syntax_at(message: &str) -> Error {
    let message = message
        .strip_prefix("sql parser error: ")
        .unwrap_or(message);
    let place = message.rfind(" at Line: ").and_then(|at| {
        let (line, column) = message
            .get(at + " at Line: ".len()..)?
            .split_once(", Column: ")?;
        Some((
            at,
            Position {
                line: line.parse().ok()?,
                column: column.trim().parse().ok()?,
            },
        ))
    });
    match place {
        Some((at, position)) => Error::Syntax {
            message: message.get(..at).unwrap_or(message).to_owned(),
            position: Some(position),
        },
        None => Error::Syntax {
            message: message.to_owned(),
            position: None,
        },
    }
}

/// What the planner's library says of itself, to people who have never heard of it.
const ABOUT_ITSELF: [&str; 2] = [
    "This issue was likely caused by a bug in DataFusion's code.",
    "This is a bug in DataFusion, please report it!",
];

/// Without what is of no use to who wrote the statement: a backtrace, what the library says of itself, and which part of it
/// said so.
fn tidy(message: &str) -> String {
    let mut message = message.split("\n\nbacktrace:").next().unwrap_or(message);
    for about in ABOUT_ITSELF {
        message = message.split(about).next().unwrap_or(message);
    }
    let mut text = message.to_owned();
    for part in [
        "Error during planning: ",
        "Execution error: ",
        "Internal error: ",
    ] {
        text = text.replace(part, "");
    }
    let text = text.trim();
    text.strip_suffix("..").unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SELECT avg(text)` was answered with two paragraphs of the library, which asked users to report a bug to it.
    #[test]
    fn nobody_is_asked_to_report_anything_to_a_library() {
        let about = "This issue was likely caused by a bug in DataFusion's code. Please help us to resolve this by filing a bug report in our issue tracker: https://github.com/apache/datafusion/issues";
        let unfit = format!(
            "Internal error: Function 'avg' failed to match any signature.\n{about}. {UNFIT_ARGUMENTS}avg(Utf8)'. You might need to add explicit type casts.\n\tCandidate functions:\n\tavg(Decimal)\n\tavg(Float64)"
        );
        let said = |error: DataFusionError| Error::from(error).to_string();
        assert_eq!(
            said(DataFusionError::Plan(unfit)),
            "there is no function avg(text); there is avg(numeric), avg(double precision); cast the argument, as in value::double precision, or take another function"
        );
        let own = format!(
            "Execution error: Function 'f' user-defined coercion failed with: Error during planning: f(width, time). {UNFIT_ARGUMENTS}f(Int64)'. You might need to add explicit type casts.\n\tCandidate functions:\n\tf(UserDefined)"
        );
        assert_eq!(
            said(DataFusionError::Plan(own)),
            "there is no function f(bigint): f(width, time)"
        );
        let text = format!("the plan has no root.\n{about}");
        let bug = "This is a bug in DataFusion, please report it!";
        for error in [
            DataFusionError::Internal(text.clone()),
            DataFusionError::Plan(text.clone()),
            DataFusionError::Execution(text.clone()),
            DataFusionError::External(text.into()),
            DataFusionError::Execution(bug.to_owned()),
            DataFusionError::Shared(std::sync::Arc::new(DataFusionError::Internal(
                about.to_owned(),
            ))),
        ] {
            let said = said(error);
            assert!(!said.contains("DataFusion"), "{said}");
        }
    }

    /// `SELECT CAST(repeat('x', 1000000) AS BIGINT)` was answered with an error of 1,000,118 bytes.
    #[test]
    fn a_long_value_is_not_repeated_as_a_whole() {
        for letter in ["x", "\u{fc}", "\u{20ac}"] {
            let value = letter.repeat(1_000_000);
            let cast = format!("Cannot cast string '{value}' to value of Int64 type");
            let arrow = DataFusionError::ArrowError(Box::new(ArrowError::CastError(cast)), None);
            let said = Error::from(arrow).to_string();
            assert!(said.len() < 1000, "{} bytes", said.len());
            for part in [
                "string 'ATA",
                "ATA\u{2026}ATA",
                "ATA' to value of Int64 type",
            ] {
                let part = part.replace("ATA", &letter.repeat(50));
                assert!(said.contains(&part), "{said}");
            }
            let syntax = syntax(&format!(
                "sql parser error: Expected: end of statement, found: {value} at Line: 1, Column: 8"
            ));
            assert!(syntax.to_string().len() < 1000);
            assert_eq!(syntax.position(), Some(Position { line: 1, column: 8 }));
        }
        // A name that is not found is as long as a statement may be.
        let name = "t".repeat(60_000);
        let unknown = Error::unknown(Object::Table, name, None, None);
        assert!(ServiceError::from(unknown).to_string().len() < 1000);
        // What is no longer than usual stays as it is.
        let usual = "y".repeat(900);
        let said = Error::from(DataFusionError::Execution(usual.clone())).to_string();
        assert_eq!(said, usual);
    }

    #[test]
    fn a_parsers_place_becomes_a_position() {
        let error =
            syntax("sql parser error: Expected: an expression, found: FROM at Line: 3, Column: 18");
        assert_eq!(
            error.position(),
            Some(Position {
                line: 3,
                column: 18
            })
        );
        assert_eq!(
            error.to_string(),
            "syntax error: Expected: an expression, found: FROM"
        );
        assert_eq!(syntax("sql parser error: anything").position(), None);
        assert_eq!(syntax("x at Line: y, Column: 2").position(), None);
    }
}
