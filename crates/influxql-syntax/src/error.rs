//! Errors of parsing in the words of InfluxDB: clients show them, users know them.

use std::borrow::Cow;
use std::fmt;

/// Where a token starts: line and character, both from 0. Shown from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// Line, from 0.
    pub line: u32,
    /// Character of the line, from 0.
    pub char: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, char {}", self.line + 1, self.char + 1)
    }
}

/// Why a text is not InfluxQL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Something else should stand here.
    #[error("found {found}, expected {} at {at}", expected.join(", "))]
    Unexpected {
        /// What stands here.
        found: String,
        /// What could.
        expected: Vec<Cow<'static, str>>,
        /// Where.
        at: Position,
    },
    /// A token or a value is not one.
    #[error("{reason} at {at}")]
    Invalid {
        /// What is wrong with it.
        reason: String,
        /// Where.
        at: Position,
    },
    /// A rule that InfluxDB states without a position.
    #[error("{reason}")]
    Refused {
        /// The rule.
        reason: String,
    },
    /// Only we refuse this: the text nests too deep, or an expression has too many operators in a row.
    #[error(
        "the statement nests deeper than {limit} levels at {at}; write it in several statements"
    )]
    TooDeep {
        /// The limit that it meets.
        limit: usize,
        /// Where.
        at: Position,
    },
}

impl Error {
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused {
            reason: reason.into(),
        }
    }
}
