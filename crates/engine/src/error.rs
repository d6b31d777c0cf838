//! Errors of the store: one variant for each thing that the caller can react to.

mod row_wait;

use std::io;
use std::path::{Path, PathBuf};

use nilometer_codec as codec;

pub use row_wait::{RowWait, Transactions};

/// What a row offends that a constraint refuses; a surface has a code for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConstraintKind {
    /// A number or time that its column's type does not have.
    OutOfRange,
    /// A text that is longer than its column's type allows.
    TooLong,
    /// A text that is no value of its column's type.
    InvalidText,
    /// A text that is no time.
    InvalidTime,
    /// A time that its column's type does not have.
    TimeRange,
    /// NULL where none may be.
    NotNull,
    /// A CHECK that is false.
    Check,
    /// A key that another row has.
    Unique,
    /// A key that no row has, or one that another row points to.
    ForeignKey,
}

/// What a constraint that refused a row is about, for protocols that tell a client each part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offence<'a> {
    /// The table or relation.
    pub table: &'a str,
    /// The column, if it is about one.
    pub column: Option<&'a str>,
    /// The constraint's name, if it has one.
    pub constraint: Option<&'a str>,
    /// The row, counted from 1.
    pub row: usize,
}

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
    /// The folder cannot take a backup, or has none.
    #[error("{path} cannot be used for this backup: {reason}; give another folder")]
    NotABackup {
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
    /// The file was written by an earlier version, in a form that is not read any more.
    #[error(
        "{path} was written by an earlier version of Nilometer, in a form of format {found} that this version, which writes format {written}, does not read ({reason}); nothing is damaged: open it with the version that wrote it, export there (nilometer export), and import here (nilometer import)"
    )]
    OlderFormat {
        /// The file.
        path: PathBuf,
        /// Its format number.
        found: u16,
        /// The format that this version writes.
        written: u16,
        /// What this version does not understand.
        reason: String,
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
    #[error("{path} is damaged at byte {offset}: {reason}; {}", way_out(path))]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// Where the damaged unit starts.
        offset: u64,
        /// Which check failed.
        reason: String,
    },
    /// A write or a sync failed earlier, or a flush would have lost rows; nothing is acknowledged until the store is opened again.
    #[error(
        "the store stopped accepting writes after a failure ({reason}); every acknowledged row is safe: see to the cause, mostly the disk, then restart"
    )]
    Poisoned {
        /// The failure that stopped it.
        reason: String,
    },
    /// A flush or a compaction would have lost rows, or made some. It was not carried out.
    #[error(
        "{work} is not carried out: of {read} rows of table {table} that went in, {written} would be written, {merged} merged with newer ones and {deleted} deleted; the files and the log stay as they are and no row is lost: make a backup, keep the data directory, and report this"
    )]
    RowsUnaccounted {
        /// "a flush" or "a compaction".
        work: &'static str,
        /// Id of the table.
        table: u64,
        /// Rows that went in.
        read: u64,
        /// Rows that would be in the new files.
        written: u64,
        /// Rows that became part of newer ones.
        merged: u64,
        /// Rows that a delete hides.
        deleted: u64,
    },
    /// A compaction would have left two files of which nobody could say which one is newer. It was not carried out.
    #[error(
        "a compaction is not carried out: the files {first} and {second} would both have rows of one table and time, and no order; the files stay as they are and no row is lost: make a backup, keep the data directory, and report this"
    )]
    FilesUnordered {
        /// Id of one file.
        first: u64,
        /// Id of the other.
        second: u64,
    },
    /// The disk has less room than is kept for what makes room again. Nothing of the call was written.
    #[error(
        "the disk of {path} has {free} bytes free, less than the reserve of {reserve} (disk_reserve_bytes) that flushing, compaction and deletes need; free space on it or move the data directory to a larger disk: reads and deletes go on, and writes resume by themselves"
    )]
    DiskFull {
        /// What is free, in bytes.
        free: u64,
        /// What must be free for a write.
        reserve: u64,
        /// The data directory.
        path: PathBuf,
    },
    /// No such database.
    #[error("database not found: \"{name}\"")]
    UnknownDatabase {
        /// The name asked for.
        name: String,
    },
    /// No such schema, table or column.
    #[error("{what} \"{name}\" not found in {place}; {hint}")]
    NotFound {
        /// Schema, table, column.
        what: &'static str,
        /// The name asked for.
        name: String,
        /// Where it was looked for.
        place: String,
        /// What is there instead.
        hint: String,
    },
    /// The name is taken.
    #[error(
        "{what} \"{name}\" exists already in {place}; choose another name, or rename or drop the one that is there"
    )]
    ExistsAlready {
        /// Database, schema, table, column.
        what: &'static str,
        /// The name.
        name: String,
        /// Where it is taken.
        place: String,
    },
    /// The table was dropped after its schema was handed out.
    #[error("table \"{table}\" was dropped meanwhile; ask for it by name again")]
    TableDropped {
        /// Its name when it was there.
        table: String,
    },
    /// A database is never without a default schema.
    #[error(
        "schema \"{schema}\" is the default schema of \"{database}\"; make another schema the default one first, or drop the database"
    )]
    DefaultSchemaInUse {
        /// The database.
        database: String,
        /// Its default schema.
        schema: String,
    },
    /// A setting out of its range.
    #[error("{what} must be {range}, not {value}")]
    InvalidSetting {
        /// Which setting.
        what: &'static str,
        /// What is allowed.
        range: &'static str,
        /// What was asked for.
        value: i64,
    },
    /// Only fields have a type that can change.
    #[error("column \"{column}\" of table \"{table}\" is a tag, and tags are text; name a field")]
    NotAField {
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A stored value does not convert without loss.
    #[error(
        "cannot change \"{column}\" of table \"{table}\" from {from} to {to}: {value} at time {time} would not stay what it is; delete or overwrite such values first, or write to a new field"
    )]
    Lossy {
        /// The table.
        table: String,
        /// The field.
        column: String,
        /// Its type.
        from: &'static str,
        /// The type asked for.
        to: &'static str,
        /// The first value that stands in the way.
        value: String,
        /// Its time in nanoseconds since 1970.
        time: i64,
    },
    /// Only a table without rows can take the change.
    #[error(
        "table \"{table}\" has rows, and what tells them apart is set before the first; make another table as it shall be and copy them (INSERT INTO new SELECT ...)"
    )]
    HasRows {
        /// The table or relation.
        table: String,
    },
    /// The rows of the table were written anew in another form after its schema was handed out.
    #[error(
        "the rows of table \"{table}\" were written anew for other tags meanwhile, and nothing of this was done; try again"
    )]
    TableRewritten {
        /// The table.
        table: String,
    },
    /// A table is written anew in another form, and only once at a time.
    #[error(
        "table \"{table}\" is being rewritten for other tags; wait until that is done (system.jobs says how far it is), and try again"
    )]
    RewriteRunning {
        /// The table.
        table: String,
    },
    /// Whoever asked for a rewrite of a table does not want it any more.
    #[error(
        "the rewrite of table \"{table}\" for other tags was stopped, and the table stays as it was"
    )]
    RewriteStopped {
        /// The table.
        table: String,
    },
    /// The columns or settings of a table changed again and again while it was written anew.
    #[error(
        "table \"{table}\" was changed otherwise again and again while it was rewritten for other tags, and stays as it was; try again when nobody adds columns to it"
    )]
    RewriteOvertaken {
        /// The table.
        table: String,
    },
    /// Rows are told apart by a tag that was dropped, and would be one row without it.
    #[error(
        "the rows of table \"{table}\" cannot be written anew for other tags: a tag of it was dropped that may still tell rows of one time apart, which would become one; copy them into another table as they shall be (INSERT INTO new SELECT ...)"
    )]
    HiddenTag {
        /// The table.
        table: String,
    },
    /// A value of a row that a tag cannot have.
    #[error(
        "the column \"{column}\" of table \"{table}\" cannot become a tag: at time {time} {reason}; the table stays as it is"
    )]
    NoTagValue {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The time of the row in nanoseconds since 1970.
        time: i64,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// Rows that the table's kind of duplicates merges are merged only when they are read.
    #[error(
        "cannot change the duplicates of table \"{table}\": some of its rows of one series and time are in several files and merged only when they are read, so another kind of duplicates would change what they are; copy the rows to a new table of that kind (INSERT INTO new SELECT ...)"
    )]
    Unmerged {
        /// The table.
        table: String,
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
    /// The memory budget leaves no room for what was asked. Nothing of the call was done.
    #[error(
        "the memory for {usage} is limited to {limit} bytes of a budget of {total} (memory_bytes_max), this needs {needed}; {remedy}"
    )]
    Memory {
        /// What the memory is for: "head", "index", "query", ...
        usage: &'static str,
        /// What this use may have now, in bytes.
        limit: u64,
        /// What it would have.
        needed: u64,
        /// The whole budget.
        total: u64,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A relation whose columns and keys do not fit together.
    #[error("the relation \"{name}\" cannot be made: {reason}")]
    RelationDefinition {
        /// Its name.
        name: String,
        /// What does not fit.
        reason: String,
    },
    /// The relation was dropped after it was handed out.
    #[error("relation {id} was dropped meanwhile; ask for it by name again")]
    RelationDropped {
        /// Its id.
        id: u64,
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
        /// What the key is called.
        constraint: String,
        /// The row, counted from 1 in its change.
        row: usize,
        /// The row's values in the key's columns.
        values: String,
    },
    /// A column of a typed write that its table does not take.
    #[error(
        "column \"{column}\" cannot be written to table \"{table}\": {reason}; nothing of the batch was written"
    )]
    TypedColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Why, and what is taken.
        reason: String,
    },
    /// A row of a typed write that its table does not take.
    #[error(
        "row {row} for table \"{table}\" is refused, in column \"{column}\": {reason}; nothing of the batch was written"
    )]
    TypedRow {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// The row, counted from 1.
        row: usize,
        /// What does not fit.
        reason: String,
    },
    /// A row whose series and time another row of a `unique` table has.
    #[error(
        "row {row} for table \"{table}\" is refused: its series ({tags}) has a row at time {time} {place}; nothing of the batch was written: {remedy}, or write with another choice for conflicts: skip or replace"
    )]
    RowConflict {
        /// The table.
        table: String,
        /// The row, counted from 1.
        row: usize,
        /// The tags of its series.
        tags: String,
        /// Its time in nanoseconds since 1970.
        time: i64,
        /// Where the other row is.
        place: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A row that offends what was declared of its table or of a column.
    #[error(
        "row {row} for \"{table}\" is refused: {reason}{}; nothing of the batch was written",
        constraint_text(constraint.as_deref())
    )]
    Constraint {
        /// What kind of constraint it is.
        kind: ConstraintKind,
        /// The table or relation.
        table: String,
        /// The column, if it is about one.
        column: Option<String>,
        /// The constraint's name, if it has one.
        constraint: Option<String>,
        /// The row, counted from 1.
        row: usize,
        /// What does not fit, with column, value and type.
        reason: String,
    },
    /// Conflicts of keys are for `unique` tables.
    #[error(
        "table \"{table}\" has no conflicts that could be refused or skipped, because its duplicates are \"{duplicates}\"; write with replace, or set its duplicates to \"unique\""
    )]
    NoConflicts {
        /// The table.
        table: String,
        /// Its kind of duplicates.
        duplicates: &'static str,
    },
    /// Rows that an update or a delete has read are not the same any more.
    #[error(
        "a row of table \"{table}\", series ({tags}), time {time}, was written or deleted after this statement had read it; nothing was changed: run the statement again"
    )]
    ChangedMeanwhile {
        /// The table.
        table: String,
        /// The tags of its series.
        tags: String,
        /// Its time in nanoseconds since 1970.
        time: i64,
    },
    /// A continuous aggregate is refreshed by one at a time.
    #[error(
        "a refresh of this continuous aggregate runs already; nothing was changed: wait for its end and refresh again"
    )]
    RefreshRunning,
    /// Rows of a relation that a statement has read are not the same any more.
    #[error(
        "a row of the relation \"{relation}\" was written or deleted after this statement had read it; nothing was changed: run the statement again"
    )]
    RelationChanged {
        /// The relation.
        relation: String,
    },
    /// A row of a relation is another transaction's until that ends.
    #[error(
        "a row that this writes is being changed by a transaction that is still open; write again when it has ended"
    )]
    RowLocked {
        /// Says when that is.
        wait: RowWait,
    },
    /// Transactions would wait for each other for ever.
    #[error(
        "deadlock detected: this transaction would wait for one that waits for it; roll it back and run it again"
    )]
    Deadlock,
    /// What a transaction has read or written is not what it was any more.
    #[error(
        "could not serialize access due to concurrent update: rows or columns of table \"{table}\" on which this transaction relies were changed by others; nothing was written: run the transaction again"
    )]
    TransactionOvertaken {
        /// The table.
        table: String,
    },
    /// A transaction holds as much as it may.
    #[error(
        "what this transaction has written takes {needed} bytes of memory, and queries and transactions together may have {limit}; commit more often, or raise memory_bytes_max"
    )]
    TransactionMemory {
        /// What they may have now, in bytes.
        limit: u64,
        /// What they would have.
        needed: u64,
    },
    /// Nothing more can be written in a transaction that has ended.
    #[error("the transaction has ended; begin another")]
    TransactionEnded,
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
    /// What kind of constraint refused a row, if one did.
    pub fn constraint(&self) -> Option<ConstraintKind> {
        match self {
            Self::Constraint { kind, .. } => Some(*kind),
            Self::RelationKey { .. } | Self::RowConflict { .. } => Some(ConstraintKind::Unique),
            _ => None,
        }
    }

    /// What a constraint that refused a row is about, if one did.
    pub fn offence(&self) -> Option<Offence<'_>> {
        Some(match self {
            Self::Constraint {
                table,
                column,
                constraint,
                row,
                ..
            } => Offence {
                table,
                column: column.as_deref(),
                constraint: constraint.as_deref(),
                row: *row,
            },
            Self::RelationKey {
                relation,
                constraint,
                row,
                ..
            } => Offence {
                table: relation,
                column: None,
                constraint: Some(constraint),
                row: *row,
            },
            Self::RowConflict { table, row, .. } => Offence {
                table,
                column: None,
                constraint: None,
                row: *row,
            },
            _ => return None,
        })
    }

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

fn constraint_text(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" (constraint \"{name}\")"))
}

/// What to do about a damaged file. A backup has no copy of a log file, so its place cannot be filled from there.
fn way_out(path: &Path) -> &'static str {
    if path.extension().is_some_and(|it| it == "log") {
        "restore the store from a backup, or give up the batches from there on with `--on-log-damage quarantine`, which keeps the file aside and needs the log's beginning"
    } else {
        "restore the file from a backup, the rest of the store is intact"
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
