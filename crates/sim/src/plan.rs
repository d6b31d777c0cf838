//! Plan of one run, as data: it prints, it shrinks, and it runs again.
//!
//! Does: name the steps, the points of a write and the faults. Does not: draw plans (see [`crate::generate`]), run them
//! (see [`crate::run()`]), or know what a store answers.

use std::collections::BTreeMap;

use nilometer_codec::PhysicalType;
use nilometer_engine::disk::CrashPlan;
use nilometer_engine::ingest::OnConflict;
use nilometer_engine::{ColumnKind, CompactionOptions, Duplicates, Options, Tier};

pub mod places;
mod relation;
mod spell;
mod tags;

pub use places::PlaceChange;
pub use relation::{COLUMNS, Relate, RelationRow, RelationStep, SHAPES, Shape};
pub(crate) use spell::spell_lines as spell;
pub use tags::{Pattern, TagFilter, Wanted, all_keep};

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
    /// The store is dropped and opened again by the same machine, at first while somebody still reads.
    Clean,
    /// As a graceful stop: what is in memory becomes segments before.
    Stop,
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
    /// Which series; those that all mean.
    pub tags: Vec<TagFilter>,
    /// The one field to read.
    pub field: String,
    /// Width of the buckets of aggregates; `None` = all time is one.
    pub bucket_ns: Option<i64>,
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

impl Delete {
    /// Whether it takes a row of these tags and time.
    pub fn takes(&self, tags: &Tags, time: i64) -> bool {
        let (from, to) = self.time;
        let meant = self.tag.as_ref().is_none_or(|tag| tag.keeps(tags));
        meant && (from..=to).contains(&time)
    }
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
    /// Says when partitions are cold.
    SetColdAfter {
        /// The table.
        table: String,
        /// In nanoseconds; `None` = they stay as they are.
        cold_after_ns: Option<i64>,
    },
    /// Says how wide new partitions are.
    SetInterval {
        /// The table.
        table: String,
        /// In nanoseconds.
        interval_ns: i64,
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
            | Self::SetRetention { table, .. }
            | Self::SetColdAfter { table, .. }
            | Self::SetInterval { table, .. } => table,
        }
    }
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Changes databases and schemas.
    Place(PlaceChange),
    /// Makes a relation.
    CreateRelation {
        /// Its place.
        database: String,
        /// Its name.
        relation: String,
        /// Its keys.
        shape: Shape,
    },
    /// Drops a relation.
    DropRelation {
        /// Its place.
        database: String,
        /// Its name.
        relation: String,
    },
    /// Changes rows of a relation, and writes points with them.
    Relate(Relate),
    /// Writes a body into a database.
    Write {
        /// The database or schema, as [`places`] says.
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
        /// The rows are written at most once under this number, however often they come.
        key: Option<u8>,
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
    /// The same, and writes every partition for this.
    SettleFor(Tier),
    /// Reads and checks about so many bytes more of the store.
    Scrub(u64),
    /// Somebody has looked at the wall clock, and says that it is right.
    AcceptClock,
    /// Lets time pass, and lets the wall clock jump besides.
    Advance {
        /// On both clocks.
        ms: u64,
        /// On the wall clock alone, in nanoseconds.
        jump_ns: i64,
    },
    /// Reads everything, then a part, and compares.
    Compare(Probe),
    /// Takes a snapshot, to be read again at later comparisons, and begins to read it slowly.
    Hold,
    /// Everybody who reads slowly reads so many batches more.
    ReadOn(u32),
    /// Whoever has read slowly for longest goes away.
    LetGo,
    /// Stops the store, damages a segment, and opens the store again. The number decides which one and where.
    Damage(u64),
    /// As a visit: the request ends here, before its batch has a place in the order.
    Cancel,
    /// Backs the store up.
    Backup,
    /// Restores the last backup beside the store, and looks into it.
    Restore,
    /// Leaves so many bytes free on the disk; `None` = as many as anybody wants.
    Room(Option<u64>),
    /// Ends the life and opens the store again.
    Restart(Restart),
}

impl Act {
    /// Whether it writes in a way that another writer may come in between.
    pub fn writes_itself(&self) -> bool {
        matches!(
            self,
            Self::WriteTyped { .. } | Self::Update { .. } | Self::Relate(_)
        )
    }
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
    /// Before this write or sync of a segment, counted from 1. A step that writes itself is visited when it has looked
    /// at what is there, and has no place in the order yet.
    pub call: u64,
    /// A write, a delete, a change, a read, another job of maintenance, or the end of the request.
    pub act: Act,
}

impl Step {
    /// What it does, or what its visitor does.
    pub fn act_mut(&mut self, of_visit: bool) -> Option<&mut Act> {
        if of_visit {
            self.visit.as_mut().map(|visit| &mut visit.act)
        } else {
            Some(&mut self.act)
        }
    }

    /// A step without faults.
    pub fn new(act: Act) -> Self {
        Self {
            act,
            faults: CrashPlan::default(),
            visit: None,
        }
    }
}

/// Memory of most simulated stores.
pub(crate) const MEMORY_BYTES: u64 = 4 << 30;
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
    /// [`Options::memory_bytes_max`].
    pub memory_bytes: u64,
    /// Caches have room for next to nothing, so that all is read and opened again and again.
    pub forgetful: bool,
    /// Formats of segments that the first lives write, one a life, none lower than the one before it.
    pub earlier_formats: Vec<u16>,
}

impl Limits {
    /// The store's options; the rest as a server has it.
    pub fn options(&self) -> Options {
        let mut options = self.options_of_a_good_memory();
        if self.forgetful {
            options.open_files_max = 1;
            options.directory_cache_bytes_max = 1;
            options.index_cache_bytes_max = 1;
            options.memo_bytes_max = 0;
        }
        options
    }

    fn options_of_a_good_memory(&self) -> Options {
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
            memory_bytes_max: self.memory_bytes,
            disk_reserve_bytes: Some(RESERVE_BYTES),
            // Keys outlive every plan, however its clock jumps.
            key_age_ns: i64::MAX / 2,
            // It has a step of its own.
            scrub_days: 0,
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
