//! Changes of names and settings, as a language hands them over.
//!
//! Does: hold one change. Does not: look a name up, or carry anything out (`run.rs` does).

pub(super) mod name;

use std::sync::Arc;

use nilometer_engine::{
    ColumnKind, Declarations, Declared, DeclaredTable, Duplicates, LogicalType, Lsn, NewRelation,
    PhysicalType, TableSettings, Value,
};

use super::policies::PolicySettings;
use super::views::routine::NewRoutine;
use name::Path;

/// What changes of an enumeration.
#[derive(Debug, Clone, PartialEq)]
pub enum EnumChange {
    /// Says whose it is, which means nothing here: privileges are granted.
    Owner,
    /// It gets another label.
    Add {
        /// The label.
        label: String,
        /// One that is there is no error.
        if_not_exists: bool,
        /// Before the label that is named, or behind it; `None` = behind all.
        beside: Option<(String, bool)>,
    },
}

/// One change. Names are as they are kept: a language that folds them to lower case has done so.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Makes a database, with its default schema.
    CreateDatabase {
        /// Its name.
        name: String,
        /// One that is there is no error.
        if_not_exists: bool,
    },
    /// Drops a database with all that is in it.
    DropDatabase {
        /// Its name.
        name: String,
        /// One that is not there is no error.
        if_exists: bool,
    },
    /// Renames a database.
    RenameDatabase {
        /// Its name.
        name: String,
        /// Its new name.
        to: String,
    },
    /// Sets which schema of a database names without a schema mean.
    SetDefaultSchema {
        /// The database.
        database: String,
        /// One of its schemas.
        schema: String,
    },
    /// Makes a schema.
    CreateSchema {
        /// Its name.
        path: Path,
        /// One that is there is no error, and keeps its retention.
        if_not_exists: bool,
        /// How long its tables keep rows, unless they say otherwise; `None` = for ever.
        retention_ns: Option<i64>,
    },
    /// Drops a schema.
    DropSchema {
        /// Its name.
        path: Path,
        /// One that is not there is no error.
        if_exists: bool,
        /// What is in it is dropped too; else it must be empty.
        cascade: bool,
    },
    /// Renames a schema.
    RenameSchema {
        /// Its name.
        path: Path,
        /// Its new name.
        to: String,
    },
    /// Sets how long the tables of a schema keep rows, unless they say otherwise.
    SetSchema {
        /// Its name.
        path: Path,
        /// `None` = for ever.
        retention_ns: Option<i64>,
    },
    /// Sets what is kept of a schema as a retention policy, beside its retention.
    SetPolicy {
        /// Its name.
        path: Path,
        /// All of it.
        settings: PolicySettings,
    },
    /// Makes a table over time.
    CreateTable {
        /// Its name.
        path: Path,
        /// One that is there is no error, and stays as it is.
        if_not_exists: bool,
        /// Its tags and fields.
        columns: Vec<Column>,
        /// Its settings.
        settings: TableSettings,
        /// What else was declared of it.
        declared: DeclaredTable,
        /// It is a hypertable from the start.
        is_hypertable: bool,
        /// The numbers that payloads of `TStorage`'s records hold, as [`PayloadSchema`] reads them; those without a column get one.
        ///
        /// [`PayloadSchema`]: super::PayloadSchema
        payload: Option<String>,
    },
    /// Makes a relation.
    CreateRelation {
        /// Its name.
        path: Path,
        /// A table or relation of the name is no error, and stays as it is.
        if_not_exists: bool,
        /// Its columns and keys.
        new: NewRelation,
        /// What else was declared of it and its columns.
        declared: Declarations,
    },
    /// Drops a table or relation.
    DropTable {
        /// Its name.
        path: Path,
        /// One that is not there is no error.
        if_exists: bool,
    },
    /// Drops several tables or relations, once all are known to be there: one after the other, each by a definition of its own.
    DropTables {
        /// Their names.
        paths: Vec<Path>,
        /// Any may be missing.
        if_exists: bool,
    },
    /// Changes a table or a relation.
    AlterTable {
        /// Its name.
        path: Path,
        /// One that is not there is no error.
        if_exists: bool,
        /// What changes.
        change: TableChange,
        /// The rows of a relation that the language has looked at, if it has: those that were written since have to be looked at again.
        seen: Option<SeenRows>,
    },
    /// Says something of a table or relation, or of one of its columns.
    Comment {
        /// Its name.
        path: Path,
        /// The column; `None` = the table itself.
        column: Option<String>,
        /// What is said; `None` = nothing any more.
        text: Option<String>,
    },
    /// Makes an index.
    CreateIndex {
        /// The table or relation.
        path: Path,
        /// What it is.
        new: super::indexes::NewIndex,
    },
    /// Drops an index.
    DropIndex {
        /// Its name.
        path: Path,
        /// One that is not there is no error.
        if_exists: bool,
    },
    /// Makes a sequence.
    CreateSequence {
        /// Its name.
        path: Path,
        /// Something of the name is no error, and stays as it is.
        if_not_exists: bool,
        /// How it counts.
        counting: super::sequences::Counting,
    },
    /// Changes how a sequence counts.
    AlterSequence {
        /// Its name.
        path: Path,
        /// One that is not there is no error.
        if_exists: bool,
        /// What becomes of it.
        change: super::sequences::SequenceChange,
    },
    /// Drops sequences, once all are known to be there and free.
    DropSequences {
        /// Their names.
        paths: Vec<Path>,
        /// Any may be missing.
        if_exists: bool,
    },
    /// Makes an enumeration.
    CreateEnum {
        /// Its name.
        path: Path,
        /// Its labels in their order.
        labels: Vec<String>,
    },
    /// Changes an enumeration.
    AlterEnum {
        /// Its name.
        path: Path,
        /// What changes.
        change: EnumChange,
    },
    /// Drops enumerations, once all are known to be there and of no column.
    DropTypes {
        /// Their names.
        paths: Vec<Path>,
        /// Any may be missing.
        if_exists: bool,
    },
    /// Makes a function or a procedure. The language has checked that its body can be read.
    CreateRoutine {
        /// Its name.
        path: Path,
        /// One of the name is replaced.
        or_replace: bool,
        /// What it is.
        new: NewRoutine,
    },
    /// Drops a function or a procedure.
    DropRoutine {
        /// Its name.
        path: Path,
        /// Which of the two.
        is_procedure: bool,
        /// One that is not there is no error.
        if_exists: bool,
    },
    /// Asks for what an extension of `PostgreSQL` has. What is there is there without it.
    CreateExtension {
        /// Its name.
        name: String,
    },
    /// Makes a view. The language has checked that its query can be read.
    CreateView {
        /// Its name.
        path: Path,
        /// A view of the name is replaced.
        or_replace: bool,
        /// A view of the name is no error, and stays as it is.
        if_not_exists: bool,
        /// The query as it was written.
        query: String,
    },
    /// Drops a view.
    DropView {
        /// Its name.
        path: Path,
        /// One that is not there is no error.
        if_exists: bool,
    },
}

/// The rows of a relation as somebody looked at them.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenRows {
    /// The LSN that they were seen at.
    pub lsn: Lsn,
    /// The rows.
    pub rows: Arc<Vec<Arc<[Value]>>>,
}

/// A condition on rows or a foreign key that a table gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCheck {
    /// Its name; `None` = the one that PostgreSQL would give it.
    pub name: Option<String>,
    /// The columns that it is called after then.
    pub column: Option<String>,
    /// The condition in SQL, or what keeps a foreign key.
    pub expression: String,
    /// Rows that are there are looked at.
    pub is_valid: bool,
}

/// A change of one table.
#[derive(Debug, Clone, PartialEq)]
pub enum TableChange {
    /// Adds a column.
    Add {
        /// The column.
        column: Column,
        /// One that is there is no error, and nothing is done.
        if_not_exists: bool,
        /// Its keys and conditions.
        with: Vec<TableChange>,
        /// Values of the rows of a relation, in their order; none = they have none.
        values: Vec<Value>,
    },
    /// Several, one after the other, as one. Of a relation only.
    Several(Vec<TableChange>),
    /// A column has a value in every row, or need not.
    NotNull {
        /// Its name.
        column: String,
        /// Every row has one.
        is_not_null: bool,
    },
    /// What new rows have where nothing is said.
    Default {
        /// The column.
        column: String,
        /// An expression; `None` = NULL.
        to: Option<String>,
        /// What the sequence of an identity is to be called, where that is said.
        sequence: Option<String>,
    },
    /// A column numbers rows no more by itself.
    DropIdentity {
        /// Its name.
        column: String,
        /// One that does not is no error.
        if_exists: bool,
    },
    /// Adds a key.
    AddKey {
        /// Its name; `None` = the one that PostgreSQL would give it.
        name: Option<String>,
        /// Its columns.
        columns: Vec<String>,
        /// The primary one.
        is_primary: bool,
    },
    /// Adds a condition or a foreign key.
    AddCheck(NewCheck),
    /// Drops a key, a condition or a foreign key.
    DropConstraint {
        /// Its name.
        name: String,
        /// One that is not there is no error.
        if_exists: bool,
        /// Foreign keys that point to it go too.
        cascades: bool,
    },
    /// Renames a key, a condition or a foreign key.
    RenameConstraint {
        /// Its name.
        name: String,
        /// Its new name.
        to: String,
    },
    /// Looks at the rows that are there.
    Validate {
        /// The condition or the foreign key.
        name: String,
    },
    /// Says whose it is, which means nothing here: privileges are granted.
    Owner,
    /// Drops a column.
    Drop {
        /// Its name.
        column: String,
        /// One that is not there is no error.
        if_exists: bool,
    },
    /// Renames a column.
    RenameColumn {
        /// Its name.
        column: String,
        /// Its new name.
        to: String,
    },
    /// Changes the type of a field.
    Type {
        /// Its name.
        column: String,
        /// The type that it is stored as.
        to: PhysicalType,
        /// The logical type over that; `None` = the stored one.
        of: Option<LogicalType>,
        /// The CHECK that makes it one of an enumeration; `None` = it is of none.
        label: Option<String>,
        /// What becomes of its default; `None` = it stays as it is. The language says so.
        default: Option<String>,
        /// What values become, in SQL.
        using: String,
        /// The statement says so.
        is_said: bool,
        /// Values of the rows of a relation, in their order, where they are not what they were.
        values: Option<Vec<Value>>,
    },
    /// Renames the table within its schema.
    Rename {
        /// Its new name.
        to: String,
    },
    /// Changes settings, one after the other.
    Set(Vec<TableSetting>),
}

/// A tag or a field; the time column is there without saying so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Tag, or field of a type.
    pub kind: ColumnKind,
    /// What else was declared of it.
    pub declared: Declared,
}

/// A setting of a table with its new value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableSetting {
    /// How rows with the same series and time are treated.
    Duplicates(Duplicates),
    /// Width of new partitions in nanoseconds.
    PartitionInterval(i64),
    /// How long rows are kept, in nanoseconds, `i64::MAX` = for ever; `None` = as the schema says.
    Retention(Option<i64>),
    /// Age after which partitions are written for few bytes, in nanoseconds, `i64::MAX` = never; `None` = they stay as they are.
    ColdAfter(Option<i64>),
    /// The numbers that payloads of TStorage's records hold, as [`PayloadSchema`] reads them; nothing = none any more.
    ///
    /// [`PayloadSchema`]: super::PayloadSchema
    TstoragePayload(String),
    /// What is said of the compression of a hypertable.
    Compression(CompressionChange),
}

/// What changes of the compression of a hypertable; `None` = it stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompressionChange {
    /// It is switched on.
    pub is_on: Option<bool>,
    /// Columns that tell its segments apart.
    pub segment_by: Option<Vec<String>>,
    /// Columns that its rows are ordered by.
    pub order_by: Option<Vec<OrderBy>>,
}

/// A column of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBy {
    /// The column.
    pub column: String,
    /// Smallest first.
    pub is_ascending: bool,
    /// NULL before everything else.
    pub nulls_first: bool,
}

impl TableSetting {
    /// Sets it among what the engine keeps; the payload schema is and that of compression are kept beside that.
    pub fn apply(self, settings: &mut TableSettings) {
        match self {
            Self::Duplicates(duplicates) => settings.duplicates = duplicates,
            Self::PartitionInterval(ns) => settings.partition_interval_ns = ns,
            Self::Retention(ns) => settings.retention_ns = ns,
            Self::ColdAfter(ns) => settings.cold_after_ns = ns,
            Self::TstoragePayload(_) | Self::Compression(_) => {}
        }
    }
}
