//! Errors as PostgreSQL's clients know them: five letters, a text, a place in the statement.
//!
//! Does: map classes and faults to SQLSTATEs, in one table each. Does not: decide what an error is; the service does.

use nilometer_service::{Class, Error, Fault};

/// What a client is told went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The character in the statement, from 1.
    pub(crate) position: Option<usize>,
    /// Where in the data, such as the line of a COPY.
    pub(crate) place: Option<String>,
    pub(crate) hint: Option<&'static str>,
    /// What a constraint that was offended is about.
    pub(crate) about: Option<Box<About>>,
    /// The setting whose limit was reached.
    pub(crate) setting: Option<&'static str>,
}

/// What a constraint that was offended is about, as clients are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    table: String,
    pub(crate) column: Option<String>,
    constraint: Option<String>,
    /// The row, from 1.
    pub(crate) row: usize,
}

/// Of a notice, which is no error.
pub(crate) const SUCCESS: &str = "00000";
pub(crate) const FEATURE_NOT_SUPPORTED: &str = "0A000";
pub(crate) const PROTOCOL_VIOLATION: &str = "08P01";
pub(crate) const SYNTAX_ERROR: &str = "42601";
pub(crate) const INVALID_PARAMETER_VALUE: &str = "22023";
pub(crate) const INVALID_TEXT: &str = "22P02";
pub(crate) const INVALID_BINARY: &str = "22P03";
pub(crate) const BAD_COPY: &str = "22P04";
pub(crate) const INVALID_TIME: &str = "22007";
pub(crate) const TIME_RANGE: &str = "22008";
pub(crate) const NUMBER_RANGE: &str = "22003";
pub(crate) const NOT_NULL: &str = "23502";
pub(crate) const IN_FAILED_TRANSACTION: &str = "25P02";
pub(crate) const ACTIVE_TRANSACTION: &str = "25001";
pub(crate) const NO_ACTIVE_TRANSACTION: &str = "25P01";
pub(crate) const READ_ONLY: &str = "25006";
pub(crate) const UNKNOWN_SAVEPOINT: &str = "3B001";
pub(crate) const UNKNOWN_STATEMENT: &str = "26000";
pub(crate) const UNKNOWN_CURSOR: &str = "34000";
pub(crate) const DUPLICATE_STATEMENT: &str = "42P05";
pub(crate) const DUPLICATE_CURSOR: &str = "42P03";
pub(crate) const UNKNOWN_TABLE: &str = "42P01";
pub(crate) const UNKNOWN_COLUMN: &str = "42703";
pub(crate) const DUPLICATE_COLUMN: &str = "42701";
pub(crate) const UNKNOWN_DATABASE: &str = "3D000";
pub(crate) const UNKNOWN_SETTING: &str = "42704";
pub(crate) const LIMIT: &str = "54000";
pub(crate) const MEMORY: &str = "53200";
pub(crate) const CANCELLED: &str = "57014";
pub(crate) const SHUTDOWN: &str = "57P01";
pub(crate) const TOO_MANY_CONNECTIONS: &str = "53300";
pub(crate) const WRONG_PASSWORD: &str = "28P01";
pub(crate) const NOT_AUTHORIZED: &str = "28000";

impl Refused {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            position: None,
            place: None,
            hint: None,
            about: None,
            setting: None,
        }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(FEATURE_NOT_SUPPORTED, message)
    }

    /// The same, for the limit of a setting.
    pub(crate) fn limit(setting: &'static str, message: impl Into<String>) -> Self {
        Self {
            setting: Some(setting),
            ..Self::new(LIMIT, message)
        }
    }

    pub(crate) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// In a statement: where the error's place is, as a character of all of a query's text.
    pub(crate) fn of(error: &Error, statement: &str, characters_before: usize) -> Self {
        let mut refused = Self::from(error);
        refused.position = error
            .position()
            .and_then(|at| character(statement, at.line, at.column))
            .map(|at| characters_before + at);
        refused
    }

    /// The fields of the message.
    pub(crate) fn fields(&self, severity: &str) -> Vec<(u8, String)> {
        let mut fields = vec![
            (b'S', severity.to_owned()),
            (b'V', severity.to_owned()),
            (b'C', self.code.to_owned()),
            (b'M', self.message.replace('\0', "")),
        ];
        let mut add = |kind: u8, text: Option<String>| {
            fields.extend(text.map(|text| (kind, text.replace('\0', ""))));
        };
        add(b'H', self.hint.map(str::to_owned));
        add(b'P', self.position.map(|at| at.to_string()));
        add(b'W', self.place.clone());
        if let Some(about) = self.about.as_deref() {
            add(b't', Some(about.table.clone()));
            add(b'c', about.column.clone());
            add(b'n', about.constraint.clone());
        }
        fields
    }
}

impl From<&Error> for Refused {
    fn from(error: &Error) -> Self {
        let mut refused = Self::new(code_of(error), error.to_string());
        refused.setting = error.setting();
        refused.about = error.offence().map(|offence| {
            Box::new(About {
                table: offence.table.to_owned(),
                column: offence.column.map(str::to_owned),
                constraint: offence.constraint.map(str::to_owned),
                row: offence.row,
            })
        });
        refused
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

/// The code of an error.
pub(crate) fn code_of(error: &Error) -> &'static str {
    match error {
        Error::Cancelled | Error::Killed { .. } => CANCELLED,
        Error::WrongPassword | Error::WrongToken => WRONG_PASSWORD,
        Error::Memory(_) | Error::BodyMemory { .. } => MEMORY,
        Error::QueriesWaiting { .. } => TOO_MANY_CONNECTIONS,
        Error::Stopping => SHUTDOWN,
        error if error.setting() == Some("memory-bytes-max") => MEMORY,
        _ => match error.fault() {
            Some(fault) => of_fault(fault),
            None => of_class(error.class()),
        },
    }
}

/// What a class means where nothing finer is known.
fn of_class(class: Class) -> &'static str {
    match class {
        Class::BadRequest => "42000",
        Class::NotFound => UNKNOWN_TABLE,
        Class::Conflict => "40001",
        Class::TooLarge => LIMIT,
        Class::TooMany => TOO_MANY_CONNECTIONS,
        Class::Busy => "57P03",
        Class::Time => CANCELLED,
        Class::Unauthorized => NOT_AUTHORIZED,
        Class::Forbidden => "42501",
        Class::Storage => "53100",
        Class::Unsupported => FEATURE_NOT_SUPPORTED,
        Class::Internal => "XX000",
    }
}

fn of_fault(fault: Fault) -> &'static str {
    match fault {
        Fault::Syntax => SYNTAX_ERROR,
        Fault::UnknownDatabase => UNKNOWN_DATABASE,
        Fault::UnknownSchema => "3F000",
        Fault::UnknownTable => UNKNOWN_TABLE,
        Fault::UnknownColumn => UNKNOWN_COLUMN,
        Fault::UnknownFunction => "42883",
        Fault::UnknownName => UNKNOWN_SETTING,
        Fault::UnknownParameter => "42P02",
        Fault::DatabaseExists => "42P04",
        Fault::SchemaExists => "42P06",
        Fault::TableExists => "42P07",
        Fault::ColumnExists => DUPLICATE_COLUMN,
        Fault::InUse => "2BP01",
        Fault::InvalidName => "42602",
        Fault::Ambiguous => "42702",
        Fault::Grouping => "42803",
        Fault::Types => "42804",
        Fault::Definition => "42P16",
        Fault::InvalidValue => INVALID_TEXT,
        Fault::InvalidTime => INVALID_TIME,
        Fault::TimeRange => TIME_RANGE,
        Fault::NumberRange => NUMBER_RANGE,
        Fault::DivisionByZero => "22012",
        Fault::OutOfPlace => "2202E",
        Fault::NegativeLength => "22011",
        Fault::InvalidPattern => "2201B",
        Fault::ManyRows => "21000",
        Fault::DuplicateKey => "23505",
        Fault::NotNull => NOT_NULL,
        Fault::Check => "23514",
        Fault::TooLong => "22001",
        Fault::Changed => "40001",
        Fault::Locked => "55P03",
        Fault::Deadlock => "40P01",
        Fault::ReadOnly => READ_ONLY,
        Fault::ObjectExists => "42710",
        Fault::ForeignKey => "23503",
        Fault::InvalidForeignKey => "42830",
        Fault::GeneratedAlways => "428C9",
        Fault::SequenceLimit => "2200H",
        Fault::InvalidParameter => "22023",
        Fault::NotReady => "55000",
        // `Unsupported`, and what later versions tell apart.
        _ => FEATURE_NOT_SUPPORTED,
    }
}

/// The character at a line and column, from 1; `None` = the text ends before.
fn character(text: &str, line: u64, column: u64) -> Option<usize> {
    let (line, column) = (usize::try_from(line).ok()?, usize::try_from(column).ok()?);
    let mut before = 0;
    for (nth, part) in text.split_inclusive('\n').enumerate() {
        let length = part.chars().count();
        if nth + 1 == line {
            return (column <= length + 1).then_some(before + column);
        }
        before += length;
    }
    None
}

#[cfg(test)]
mod tests {
    use nilometer_service::Position;

    use super::*;

    #[test]
    fn a_place_is_a_character_of_the_whole_query() {
        let error = |line, column| Error::Statement {
            class: Class::BadRequest,
            fault: Some(Fault::UnknownColumn),
            setting: None,
            position: Some(Position { line, column }),
            source: "column not found".into(),
        };
        // PostgreSQL counts characters, not bytes.
        let text = "SELECT '\u{e4}',\n  w";
        assert_eq!(Refused::of(&error(2, 3), text, 0).position, Some(15));
        assert_eq!(Refused::of(&error(1, 8), text, 10).position, Some(18));
        assert_eq!(Refused::of(&error(9, 1), text, 0).position, None);
        assert_eq!(Refused::of(&error(1, 1), text, 0).code, "42703");
    }
}
