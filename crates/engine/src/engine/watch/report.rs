//! Report of maintenance for operators.

use crate::engine::maintain::Jobs;

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

impl Jobs {
    /// What maintenance is doing now.
    pub(in crate::engine) fn report(&self) -> JobsReport {
        let state = self.sequencer().versions().now();
        let jobs = self.list();
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
