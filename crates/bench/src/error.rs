//! Everything that can go wrong in a benchmark run, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// The result of this crate's operations.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a benchmark step failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened, read, written or renamed.
    #[error("cannot {op} {}: {source}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// The description of a data set contradicts itself.
    #[error("the data set cannot be made: {what}")]
    Spec {
        /// What is wrong with which setting, and what would be right.
        what: String,
    },

    /// The suite of the library for microcontrollers did not run to its end.
    #[error("the suite edge broke off: {what}; this is a fault of this program, please report it")]
    Edge {
        /// What it said.
        what: String,
    },

    /// The file is neither a batch file nor something that could be line protocol.
    #[error("{}: {why}", path.display())]
    NotLoadable {
        /// The file.
        path: PathBuf,
        /// What it is, and what to do.
        why: &'static str,
    },

    /// A batch file of a format this program does not know yet.
    #[error(
        "{}: batch file version {version:?} is newer than this program's {newest:?}; upgrade nilometer, or generate the file again",
        path.display()
    )]
    NewerBatchFile {
        /// The file.
        path: PathBuf,
        /// The version character in its magic.
        version: char,
        /// The newest that this program reads.
        newest: char,
    },

    /// A batch file ends before its trailer.
    #[error("{}: cut off at byte {offset}, in {part}; generate or copy the file again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Where the missing part begins.
        offset: u64,
        /// What was being read there.
        part: &'static str,
    },

    /// A batch file contradicts its own format.
    #[error("{}: damaged at byte {offset}: {why}; generate or copy the file again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the contradiction is.
        offset: u64,
        /// What is wrong.
        why: String,
    },

    /// An address this program cannot speak to.
    #[error("{url:?} is not an address to load into: {why}")]
    Address {
        /// The address as given.
        url: String,
        /// What an address looks like.
        why: &'static str,
    },

    /// Nobody answers at the address.
    #[error(
        "no database answers at {url} ({why}); start one with `nilometer serve`, or give its address with --url"
    )]
    Unreachable {
        /// The address.
        url: String,
        /// What the last attempt ran into.
        why: String,
    },

    /// The database refused a batch.
    #[error(
        "batch {batch} was refused with status {status}: {body}; the batches before it may have been stored"
    )]
    Refused {
        /// Number of the batch in the file, from 0.
        batch: u64,
        /// HTTP status.
        status: u16,
        /// What the database said, cut to a readable length.
        body: String,
    },

    /// The connection broke while a batch was under way.
    #[error("batch {batch}: the connection to the database broke: {source}; see the server's log")]
    Connection {
        /// Number of the batch in the file, from 0.
        batch: u64,
        /// What the system said.
        source: io::Error,
    },

    /// The rows that were acknowledged are not the rows a query counts.
    #[error(
        "{acknowledged} rows were acknowledged, {before} were there before, but a query counts {visible} in table {table:?}; \
         load into an empty database, and if it was empty, report this as a fault of the database"
    )]
    NotVisible {
        /// Rows acknowledged in this run.
        acknowledged: u64,
        /// Rows counted before the run.
        before: u64,
        /// Rows counted after the run.
        visible: u64,
        /// The table that was counted.
        table: String,
    },

    /// A query failed.
    #[error("query {name} failed with status {status}: {body}\n{sql}")]
    Query {
        /// Name of the query.
        name: String,
        /// HTTP status.
        status: u16,
        /// What the database said, cut to a readable length.
        body: String,
        /// The statement.
        sql: String,
    },

    /// The database answered, but not in the form it was asked for.
    #[error(
        "query {name}: the answer is not the {format} that was asked for ({why}); is this address Nilometer's?"
    )]
    Answer {
        /// Name of the query.
        name: String,
        /// The form that was asked for.
        format: &'static str,
        /// What was found instead.
        why: String,
    },

    /// A database that a suite asks over PostgreSQL's protocol did not do what it was asked for.
    #[error("{server}: {what}")]
    Peer {
        /// The database.
        server: String,
        /// What it said, or what the client ran into.
        what: String,
    },

    /// No answer came back for a query.
    #[error("query {name}: no answer ({why}); see the server's log")]
    NoAnswer {
        /// Name of the query.
        name: String,
        /// What the client ran into.
        why: String,
    },
}

impl Error {
    /// For `map_err` on an I/O call: names the operation and the file.
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { op, path, source }
    }
}
