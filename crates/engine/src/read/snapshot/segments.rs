//! The files that a snapshot reads, for operators.

use super::Snapshot;
use crate::schema::{Lsn, TableId};
use crate::segment::{Home, Tier};

/// A segment file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentReport {
    /// Number of the file.
    pub file_id: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Rows in it.
    pub rows: u64,
    /// First LSN of its rows.
    pub min_lsn: Lsn,
    /// Last LSN of its rows.
    pub max_lsn: Lsn,
    /// The table and the times, the end excluded, of the partition whose rows these are; `None` = rows of any table.
    pub partition: Option<(TableId, i64, i64)>,
    /// A compaction could not read it and leaves it alone.
    pub is_damaged: bool,
    /// How its pages were written.
    pub tier: Tier,
    /// Number of its format.
    pub format: u16,
}

impl Snapshot {
    /// The segment files that it reads, in the order in which their rows count.
    pub fn segments(&self) -> Vec<SegmentReport> {
        let segments = self.moment.state.version.segments.iter();
        let reports = segments.map(|segment| {
            let meta = &segment.meta;
            SegmentReport {
                file_id: meta.file_id,
                bytes: meta.bytes,
                rows: meta.rows,
                min_lsn: meta.min_lsn,
                max_lsn: meta.max_lsn,
                partition: match meta.home {
                    Home::Mixed => None,
                    Home::Partition(window) => Some((window.table, window.start, window.end)),
                },
                is_damaged: self.store.is_damaged(meta.file_id),
                tier: segment.tier(),
                format: segment.number(),
            }
        });
        reports.collect()
    }
}
