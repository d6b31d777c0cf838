//! What operators see of the store's parts: segments, and what maintenance is doing.

use super::{Engine, Options, lock};
use crate::schema::{Lsn, TableId};
use crate::segment::Home;
use crate::snapshot::Snapshot;

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
}

/// What maintenance is doing now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobsReport {
    /// Rows that are on their way from memory into a segment.
    pub flushing_rows: u64,
    /// Segments that compactions are reading.
    pub compacting_segments: u64,
    /// Segments that no compaction touches, because they could not be read.
    pub damaged_segments: u64,
    /// Deletes that rows in segments still wait for.
    pub waiting_deletes: u64,
    /// An index of series is being written.
    pub is_indexing: bool,
    /// Segment files that go when their last reader is done.
    pub removed_segments: u64,
}

impl Engine {
    /// The settings that the store was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What maintenance is doing now.
    pub fn jobs(&self) -> JobsReport {
        let state = lock(&self.state).clone();
        let jobs = lock(&self.jobs);
        let frozen = state.frozen.as_ref();
        JobsReport {
            flushing_rows: frozen.map_or(0, |frozen| frozen.head.rows()),
            compacting_segments: jobs.compacting.len() as u64,
            damaged_segments: jobs.damaged.len() as u64,
            waiting_deletes: state.version.tombstones.len() as u64,
            is_indexing: jobs.indexing,
            removed_segments: jobs.removed.len() as u64,
        }
    }
}

impl Snapshot {
    /// The segment files that it reads, in the order in which their rows count.
    pub fn segments(&self) -> Vec<SegmentReport> {
        let damaged = lock(&self.engine().jobs).damaged.clone();
        let segments = self.moment().state.version.segments.iter();
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
                is_damaged: damaged.contains_key(&meta.file_id),
            }
        });
        reports.collect()
    }

    /// How long the tables of a schema are kept in nanoseconds, for those that do not say it themselves; `None` = for
    /// ever, or no such schema.
    pub fn schema_retention_ns(&self, database: &str, schema: &str) -> Option<i64> {
        let id = self.schema_id(database, schema)?;
        self.moment().names.schema_retention_ns(id)
    }
}
