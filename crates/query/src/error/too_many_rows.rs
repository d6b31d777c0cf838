//! The error of a function that was called with more rows than its bound allows; fewer at once may fit.

use std::fmt;

use super::{Error, OverMemory};

/// More rows at once than what is made of them fits.
#[derive(Debug, Clone)]
pub(crate) struct TooManyRows {
    pub(crate) message: String,
    /// The limit, where it is one of memory.
    pub(crate) over: Option<OverMemory>,
    /// As many would fit.
    pub(crate) rows_fit: usize,
}

impl fmt::Display for TooManyRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TooManyRows {}

impl From<TooManyRows> for Error {
    fn from(rows: TooManyRows) -> Self {
        match rows.over {
            Some(over) => Self::Memory(over),
            None => Self::Execution {
                message: rows.message,
            },
        }
    }
}
