//! Damaged files: the list for reports and for repair.

use std::path::PathBuf;

use crate::schema::{Lsn, TableId};

/// A damaged part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Where the damaged part starts; 0 for a file that cannot be read at all.
    pub offset: u64,
    /// Which check failed.
    pub reason: String,
}

/// A segment that a compaction could not read. It stays as it is, and queries go on reading what of it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedSegment {
    /// The file.
    pub file: PathBuf,
    /// The byte at which the damaged part starts.
    pub offset: u64,
    /// Which check failed.
    pub reason: String,
}

/// A file that was put aside, and what is known to be lost with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Where it was.
    pub file: PathBuf,
    /// Where it is now; `None` = it was missing.
    pub kept: Option<PathBuf>,
    /// The byte at which the damaged part starts.
    pub offset: u64,
    /// Which check failed.
    pub reason: String,
    /// When, by the wall clock, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Its size as the store knew it.
    pub bytes: u64,
    /// Rows that it held; `None` = it held none, or nobody knows how many.
    pub rows: Option<u64>,
    /// Series whose tags are lost with it, and so their rows, wherever those are; `None` = none, or nobody knows how
    /// many.
    pub series: Option<u64>,
    /// First and last LSN of what it held, as far as it is known.
    pub lsns: Option<(Lsn, Lsn)>,
    /// Tables whose rows or series it held, as far as it could be told.
    pub tables: Vec<QuarantinedTable>,
}

/// Rows of a table in a file that was put aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantinedTable {
    /// Its id.
    pub id: TableId,
    /// Database, schema and table, when it was put aside.
    pub name: Option<String>,
    /// How many; `None` = unknown.
    pub rows: Option<u64>,
    /// Series that are lost; `None` = none, or unknown.
    pub series: Option<u64>,
    /// First and last time that they may have.
    pub times: (i64, i64),
}
