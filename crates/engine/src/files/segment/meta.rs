//! Segment metadata in the manifest.

use crate::schema::{Lsn, TableId};

/// A segment file, as the manifest lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SegmentMeta {
    pub(crate) file_id: u64,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    /// First and last LSN of its rows. Another file of the same last LSN has no row where this one may have any, by table
    /// and time.
    pub(crate) min_lsn: Lsn,
    pub(crate) max_lsn: Lsn,
    /// Deletes up to this LSN were applied when it was written: it holds no row that they hide.
    pub(crate) applied_lsn: Lsn,
    pub(crate) home: Home,
}

impl SegmentMeta {
    /// Its place in the order of files: of two rows of one key, the one in the file with the higher place is the newer.
    /// The last LSN decides wherever two files may have a row of one key. What follows it makes the order total, and of two files
    /// that a compaction of before this order left without one, the first LSN tells which of them has older rows as well.
    pub(crate) fn place(&self) -> (Lsn, Lsn, u64) {
        (self.max_lsn, self.min_lsn, self.file_id)
    }
}

/// What rows a segment may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Home {
    /// Rows of any table and time: what a flush writes, and what is left of such files.
    Mixed,
    /// Rows of one partition.
    Partition(Window),
}

/// A partition: the times `start <= time < end` of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Window {
    pub(crate) table: TableId,
    pub(crate) start: i64,
    /// Excluded, except that `i64::MAX` includes itself.
    pub(crate) end: i64,
}

impl Window {
    /// Whether it holds this time.
    pub(crate) fn contains(&self, time: i64) -> bool {
        self.start <= time && (time < self.end || self.end == i64::MAX)
    }

    /// Last time that it holds.
    pub(crate) fn last(&self) -> i64 {
        if self.end == i64::MAX {
            i64::MAX
        } else {
            self.end - 1
        }
    }
}
