//! What one run does, as data: it prints, it shrinks, and it runs again.
//!
//! Does: name the steps, the points of a write and the faults. Does not: draw plans (see [`crate::generate`]), run them
//! (see [`crate::run()`]), or know what a store answers.

use std::collections::BTreeMap;

use nilometer_codec::PhysicalType;
use nilometer_engine::disk::CrashPlan;
use nilometer_engine::ingest::OnConflict;
use nilometer_engine::{ColumnKind, CompactionOptions, Duplicates, Options};

mod spell;

pub(crate) use spell::spell_lines as spell;

/// Tags of a point: sorted by key, no empty value.
pub type Tags = BTreeMap<String, String>;
/// Fields of a point or of a row.
pub type Fields = BTreeMap<String, Value>;

/// A field's value; floats by their bits, so that equal means the same to the last one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    /// Bits of an `f64`.
    Float(u64),
    /// A signed integer.
    Integer(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// True or false.
    Boolean(bool),
    /// A text.
    Text(String),
}

/// A line of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A point; the store takes it unless a field has another type already.
    Point {
        /// Its table.
        table: String,
        /// Its tags.
        tags: Tags,
        /// Its fields, in the order in which they stand in the line.
        fields: Vec<(String, Value)>,
        /// Nanoseconds; `None` = the store's clock.
        time: Option<i64>,
    },
    /// Text that no parser takes.
    Bad(String),
}

/// How a life ends and the next begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The store is dropped and opened again by the same machine.
    Clean,
    /// The process dies; the machine lives and keeps every write.
    Kill,
    /// The power goes; the number decides what survives of what was not synced.
    PowerCut(u64),
}

/// A read that keeps a part of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The table, in every database that has it.
    pub table: String,
    /// First and last time.
    pub time: (i64, i64),
    /// Which series.
    pub tag: TagFilter,
    /// The one field to read.
    pub field: String,
    /// Width of the buckets of aggregates; `None` = all time is one.
    pub bucket_ns: Option<i64>,
}

/// Series by the value of one tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagFilter {
    /// The tag.
    pub name: String,
    /// Values of it; `None` = absent.
    pub values: Vec<Option<String>>,
    /// They are the ones to leave out.
    pub negated: bool,
}

impl TagFilter {
    /// Whether a series with these tags is meant.
    pub fn keeps(&self, tags: &Tags) -> bool {
        self.values.contains(&tags.get(&self.name).cloned()) != self.negated
    }
}

/// Rows to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    /// The table.
    pub table: String,
    /// First and last time.
    pub time: (i64, i64),
    /// Which series; `None` = all.
    pub tag: Option<TagFilter>,
}

/// A tag or a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Column {
    /// A tag.
    pub is_tag: bool,
    /// Its name; a tag and a field may share one.
    pub name: String,
}

/// A change of tables and columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Makes a table unless it exists.
    CreateTable {
        /// Its name.
        table: String,
        /// What two rows of one series and time are in it.
        duplicates: Duplicates,
        /// Width of its partitions.
        interval_ns: i64,
        /// Its columns.
        columns: Vec<(String, ColumnKind)>,
    },
    /// Drops a table.
    DropTable {
        /// Its name.
        table: String,
    },
    /// Gives a table another name.
    RenameTable {
        /// Its name.
        table: String,
        /// Its new name.
        to: String,
    },
    /// Drops a column.
    DropColumn {
        /// The table.
        table: String,
        /// The column.
        column: Column,
    },
    /// Gives a column another name.
    RenameColumn {
        /// The table.
        table: String,
        /// The column.
        column: Column,
        /// Its new name.
        to: String,
    },
    /// Gives a field another type.
    ChangeType {
        /// The table.
        table: String,
        /// The field.
        field: String,
        /// Its new type.
        to: PhysicalType,
    },
    /// Says how long rows are kept.
    SetRetention {
        /// The table.
        table: String,
        /// In nanoseconds; `None` = for ever.
        retention_ns: Option<i64>,
    },
}

impl Change {
    /// The table that is changed.
    pub fn table(&self) -> &str {
        match self {
            Self::CreateTable { table, .. }
            | Self::DropTable { table }
            | Self::RenameTable { table, .. }
            | Self::DropColumn { table, .. }
            | Self::RenameColumn { table, .. }
            | Self::ChangeType { table, .. }
            | Self::SetRetention { table, .. } => table,
        }
    }
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Makes a database.
    CreateDatabase(String),
    /// Writes a body into a database.
    Write {
        /// The database.
        database: String,
        /// The body.
        lines: Vec<Line>,
        /// The body is written at most once under this number, however often it comes.
        key: Option<u8>,
    },
    /// Writes points as typed rows, as far as the table has columns for them.
    WriteTyped {
        /// The database.
        database: String,
        /// The table, whatever the points say.
        table: String,
        /// The points.
        lines: Vec<Line>,
        /// What becomes of rows whose key is there.
        on_conflict: OnConflict,
    },
    /// Takes rows away by their keys and writes others.
    Update {
        /// The database.
        database: String,
        /// The table, whatever the points say.
        table: String,
        /// Rows whose number gives 1 in this pattern go.
        which: u64,
        /// Points that come; none = a delete.
        lines: Vec<Line>,
    },
    /// Deletes rows of a table.
    Delete {
        /// The database.
        database: String,
        /// The rows.
        delete: Delete,
    },
    /// Changes tables and columns.
    Change {
        /// The database.
        database: String,
        /// The change.
        change: Change,
    },
    /// Turns the head into a segment.
    Flush,
    /// Does one job of maintenance if one is due.
    Maintain,
    /// Does all jobs of maintenance that are due.
    MaintainAll,
    /// Flushes, and compacts as if nobody wrote any more.
    Settle,
    /// Lets time pass, and lets the wall clock jump besides.
    Advance {
        /// On both clocks.
        ms: u64,
        /// On the wall clock alone, in nanoseconds.
        jump_ns: i64,
    },
    /// Reads everything, then a part, and compares.
    Compare(Probe),
    /// Takes a snapshot, to be read again at later comparisons.
    Hold,
    /// Backs the store up.
    Backup,
    /// Restores the last backup beside the store, and looks into it.
    Restore,
    /// Leaves so many bytes free on the disk; `None` = as many as anybody wants.
    Room(Option<u64>),
    /// Ends the life and opens the store again.
    Restart(Restart),
}

/// A step, and what the disk does to it, counted from the step's first call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub act: Act,
    /// What goes wrong.
    pub faults: CrashPlan,
    /// Who comes in while a step of maintenance writes a segment.
    pub visit: Option<Box<Visit>>,
}

/// Something that happens within a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    /// Before this write or sync of a segment, counted from 1.
    pub call: u64,
    /// A write, a delete, a change, a read, or another job of maintenance.
    pub act: Act,
}

impl Step {
    /// A step without faults.
    pub fn new(act: Act) -> Self {
        Self {
            act,
            faults: CrashPlan::default(),
            visit: None,
        }
    }
}

/// Memory of every simulated store.
const MEMORY_BYTES: u64 = 4 << 30;
/// Bytes that its writes leave free on the disk.
pub(crate) const RESERVE_BYTES: u64 = 256 << 10;

/// Settings of the store that a plan chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// [`Options::flush_rows`].
    pub flush_rows: u64,
    /// [`Options::flush_idle_rows_min`].
    pub flush_idle_rows_min: u64,
    /// [`Options::log_bytes_max`].
    pub log_bytes_max: u64,
    /// [`Options::batch_rows_max`].
    pub batch_rows_max: u64,
    /// [`CompactionOptions::fan_in`].
    pub fan_in: usize,
    /// [`CompactionOptions::partition_rows_min`].
    pub partition_rows_min: u64,
    /// [`CompactionOptions::widen_rows_max`].
    pub widen_rows_max: u64,
    /// [`CompactionOptions::settle_ms`].
    pub settle_ms: u64,
}

impl Limits {
    /// The store's options; the rest as a server has it.
    pub fn options(&self) -> Options {
        Options {
            flush_rows: self.flush_rows,
            flush_idle_rows_min: self.flush_idle_rows_min,
            log_bytes_max: self.log_bytes_max,
            batch_rows_max: self.batch_rows_max,
            compaction: CompactionOptions {
                fan_in: self.fan_in,
                partition_rows_min: self.partition_rows_min,
                widen_rows_max: self.widen_rows_max,
                settle_ms: self.settle_ms,
                ..CompactionOptions::default()
            },
            // Not the machine's: a seed runs the same everywhere.
            memory_bytes_max: MEMORY_BYTES,
            disk_reserve_bytes: Some(RESERVE_BYTES),
            // Keys outlive every plan, however its clock jumps.
            key_age_ns: i64::MAX / 2,
            ..Options::default()
        }
    }
}

/// A run, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Where it came from, and what drives the disk's choices.
    pub seed: u64,
    /// The store's limits.
    pub limits: Limits,
    /// What happens, in order. The store is closed before the first [`Act::Restart`].
    pub steps: Vec<Step>,
}
