//! Jobs of maintenance: those that run, and those that are left.
//!
//! Does: hold it, under one lock that nobody keeps while working. Does not: decide what is done.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::engine::repair::damaged::DamagedSegment;
use crate::index::Index;
use crate::schema::Lsn;
use crate::segment::Segment;

/// What maintenance is doing, and what it has left to do.
#[derive(Debug, Default)]
pub(in crate::engine) struct JobList {
    /// The id that the next file gets. An id whose file the manifest never listed may be given away again by a later
    /// life.
    pub(in crate::engine) next_file_id: u64,
    /// Segments that a compaction reads, by file id.
    pub(in crate::engine) compacting: FxHashSet<u64>,
    /// A job is deciding where partitions begin and end.
    pub(in crate::engine) windows_busy: bool,
    /// Segments that a compaction could not read, by file id: they stay as they are.
    pub(in crate::engine) damaged: BTreeMap<u64, DamagedSegment>,
    /// Segments whose removal did not balance: no job touches them any more.
    pub(in crate::engine) left_alone: FxHashSet<u64>,
    /// When there was nothing to compact.
    pub(in crate::engine) idle_at: Option<Answered>,
    /// Segments that are in no manifest any more; each file goes when its last snapshot does.
    pub(in crate::engine) removed: Vec<Arc<Segment>>,
    /// An index job is at work.
    pub(in crate::engine) indexing: bool,
    /// The catalogue's epoch and the newest index file, when no index file had mostly series of dropped tables.
    pub(in crate::engine) index_kept_at: Option<(u64, Option<u64>)>,
    /// Whether rows went since series without any were looked for.
    pub(in crate::engine) rows_went: RowsWent,
    /// Index files that could not be read, by file id: they stay as they are.
    pub(in crate::engine) damaged_index: FxHashSet<u64>,
    /// Index files that are in no manifest any more; each file goes when its last reader does.
    pub(in crate::engine) removed_index: Vec<Arc<Index>>,
    /// Files that a backup is about to link, by id: they stay until it has.
    pub(in crate::engine) backed_up: FxHashSet<u64>,
}

/// Whether rows went since series without any were looked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::engine) enum RowsWent {
    /// Nobody has looked since the store was opened.
    #[default]
    Unknown,
    Since,
    /// Too few series are gone to write a file again while others write.
    ForIdle,
    No,
}

/// The situation in which there was nothing to compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Answered {
    /// Number of the version.
    pub(in crate::engine) version: u64,
    /// The catalogue's.
    pub(in crate::engine) epoch: u64,
    /// LSN of the last delete that segments may wait for.
    pub(in crate::engine) deleted: Lsn,
    pub(in crate::engine) idle: bool,
    /// Segments that were not of the tier of their partition: time makes them more.
    pub(in crate::engine) of_other_tier: usize,
}
