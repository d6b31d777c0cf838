//! What can go wrong in the store, one variant per thing that the caller can do about it.

use std::io;
use std::path::{Path, PathBuf};

use nilometer_codec as codec;

/// An error of the store. Its text says what happened, where, and what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    #[error("cannot {op} {path}: {source}")]
    Io {
        /// What was tried, as a verb ("read", "sync").
        op: &'static str,
        /// The file or folder it was tried on.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// Another process has the data directory open.
    #[error(
        "data directory {path} is in use by another process; stop that server, or give this one its own --data directory"
    )]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// The folder holds something, but not a store.
    #[error("{path} is not a Nilometer data directory: {reason}; give an empty or a new folder")]
    NotAStore {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file was written by a newer version.
    #[error(
        "{path} has format {found}, this version reads up to {supported}; open it with a newer Nilometer"
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format number.
        found: u16,
        /// The highest format this version reads.
        supported: u16,
    },
    /// The file is encrypted.
    #[error(
        "{path} is encrypted with cipher {cipher}, which this version does not know; open it with a newer Nilometer"
    )]
    UnknownCipher {
        /// The file.
        path: PathBuf,
        /// Its cipher id.
        cipher: u16,
    },
    /// Stored bytes fail their checksum or contradict each other.
    #[error(
        "{path} is damaged at byte {offset}: {reason}; restore the file from a backup, the rest of the store is intact"
    )]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// Where the damaged unit starts.
        offset: u64,
        /// Which check failed.
        reason: String,
    },
    /// A write or a sync failed earlier; nothing is acknowledged until the store is opened again.
    #[error(
        "the store stopped accepting writes after a failed disk operation ({reason}); every acknowledged row is safe: check the disk, then restart"
    )]
    Poisoned {
        /// The failure that stopped it.
        reason: String,
    },
    /// No such database.
    #[error("database not found: \"{name}\"")]
    UnknownDatabase {
        /// The name asked for.
        name: String,
    },
    /// A name that the store cannot take.
    #[error("invalid {what} name \"{name}\": {reason}")]
    InvalidName {
        /// Database, table, ...
        what: &'static str,
        /// The offending name.
        name: String,
        /// Why it is refused.
        reason: &'static str,
    },
    /// The name belongs to something else.
    #[error("there is a {what} called \"{name}\" already; use another name, or drop it first")]
    NameTaken {
        /// The name.
        name: String,
        /// What has it: a table or a relation.
        what: &'static str,
    },
    /// A relation whose columns and keys do not fit together.
    #[error("the relation \"{name}\" cannot be made: {reason}")]
    RelationDefinition {
        /// Its name.
        name: String,
        /// What does not fit.
        reason: String,
    },
    /// No such relation; it may have been dropped meanwhile.
    #[error("relation not found: {name}")]
    UnknownRelation {
        /// Its name or number.
        name: String,
    },
    /// A row that does not fit its relation.
    #[error(
        "row {row} for the relation \"{relation}\" is refused: {reason}; nothing of the batch was written"
    )]
    RelationRow {
        /// The relation.
        relation: String,
        /// The row, counted from 1 in its change.
        row: usize,
        /// What does not fit.
        reason: String,
    },
    /// A row whose key another row has.
    #[error(
        "row {row} for the relation \"{relation}\" is refused: its {key} = ({values}) is there already; nothing of the batch was written: replace the row instead, or give it another key"
    )]
    RelationKey {
        /// The relation.
        relation: String,
        /// The key with its columns.
        key: String,
        /// The row, counted from 1 in its change.
        row: usize,
        /// The row's values in the key's columns.
        values: String,
    },
    /// A limit of the store would be passed.
    #[error("{what} is limited to {limit}, this needs {needed}; {remedy}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The limit in force.
        limit: u64,
        /// What the call needs.
        needed: u64,
        /// What to do about it.
        remedy: &'static str,
    },
}

impl Error {
    /// Wraps a system error with the operation and the path it failed on.
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            op,
            path: path.to_owned(),
            source,
        }
    }

    /// A unit of `path` at `offset` does not decode.
    pub(crate) fn corrupt(path: &Path, offset: u64, reason: impl Into<String>) -> Self {
        Self::Corrupt {
            path: path.to_owned(),
            offset,
            reason: reason.into(),
        }
    }
}

/// Bytes that do not decode, before their file is known.
///
/// Decoders of one unit (a record, a directory chunk) return this; the file's reader adds path and offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

impl Malformed {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    pub(crate) fn at(self, path: &Path, offset: u64) -> Error {
        Error::corrupt(path, offset, self.0)
    }
}

impl From<codec::Error> for Malformed {
    fn from(error: codec::Error) -> Self {
        Self(error.to_string())
    }
}
