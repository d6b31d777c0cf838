//! What a scan reads and what it leaves alone, for EXPLAIN.
//!
//! Does: count. What planning decided is worked out when somebody asks; what reading did is added up as it happens.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Plan, Source};
use crate::engine::State;
use crate::schema::TableId;
use crate::segment::{Home, Window};

/// What a scan reads, and what it leaves alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanReport {
    /// Series that qualify.
    pub series: u64,
    /// Partitions with a segment that is read.
    pub partitions: u64,
    /// The table's other partitions.
    pub partitions_skipped: u64,
    /// Segments that are read.
    pub segments: u64,
    /// Other segments with rows of the table.
    pub segments_skipped: u64,
    /// Blocks whose times and series are asked for.
    pub blocks: u64,
    /// Other blocks of those segments.
    pub blocks_skipped: u64,
    /// Rows of the table in memory, which are all looked at.
    pub memory_rows: u64,
    /// Blocks read so far; one that several morsels need is read by each.
    pub blocks_read: u64,
    /// Pages of those blocks that were read.
    pub pages_read: u64,
    /// Pages of columns that were not asked for.
    pub pages_skipped: u64,
    /// Bytes of files read for pages.
    pub bytes_read: u64,
    /// Blocks that were not read because of what statistics say of fields.
    pub blocks_ruled_out: u64,
    /// Blocks of which only the fields of conditions were read: no row was left.
    pub blocks_without_hit: u64,
    /// First and last rows of series that were taken from statistics.
    pub ends_from_statistics: u64,
}

/// What reading has done so far, of all clones of a scan.
#[derive(Debug, Default)]
pub(super) struct Counters {
    blocks: AtomicU64,
    pages: AtomicU64,
    pages_skipped: AtomicU64,
    bytes: AtomicU64,
    blocks_ruled_out: AtomicU64,
    blocks_without_hit: AtomicU64,
    ends_from_statistics: AtomicU64,
}

/// What one cursor reads of a group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GroupRead {
    pub(super) blocks: u64,
    pub(super) pages: u64,
    pub(super) pages_skipped: u64,
    pub(super) bytes: u64,
    pub(super) blocks_ruled_out: u64,
    pub(super) blocks_without_hit: u64,
}

impl Counters {
    pub(super) fn add_ends(&self, rows: usize) {
        self.ends_from_statistics
            .fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub(super) fn add(&self, read: GroupRead) {
        self.blocks.fetch_add(read.blocks, Ordering::Relaxed);
        self.pages.fetch_add(read.pages, Ordering::Relaxed);
        self.pages_skipped
            .fetch_add(read.pages_skipped, Ordering::Relaxed);
        self.bytes.fetch_add(read.bytes, Ordering::Relaxed);
        self.blocks_ruled_out
            .fetch_add(read.blocks_ruled_out, Ordering::Relaxed);
        self.blocks_without_hit
            .fetch_add(read.blocks_without_hit, Ordering::Relaxed);
    }
}

/// How much of the table there is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Whole {
    segments: u64,
    partitions: u64,
}

impl Whole {
    pub(super) fn of(state: &State, table: TableId) -> Self {
        let segments = state.version.segments.iter();
        let with_rows = segments.filter(|segment| segment.groups(table).next().is_some());
        let edge = |time| Window {
            table,
            start: time,
            end: time,
        };
        let windows = state.version.windows.range(edge(i64::MIN)..=edge(i64::MAX));
        Self {
            segments: with_rows.count() as u64,
            partitions: windows.count() as u64,
        }
    }
}

pub(super) fn report(plan: &Plan) -> ScanReport {
    let mut segments = BTreeSet::new();
    let mut partitions = BTreeSet::new();
    let mut report = ScanReport {
        series: plan.series.len() as u64,
        blocks_read: plan.counters.blocks.load(Ordering::Relaxed),
        pages_read: plan.counters.pages.load(Ordering::Relaxed),
        pages_skipped: plan.counters.pages_skipped.load(Ordering::Relaxed),
        bytes_read: plan.counters.bytes.load(Ordering::Relaxed),
        blocks_ruled_out: plan.counters.blocks_ruled_out.load(Ordering::Relaxed),
        blocks_without_hit: plan.counters.blocks_without_hit.load(Ordering::Relaxed),
        ends_from_statistics: plan.counters.ends_from_statistics.load(Ordering::Relaxed),
        ..ScanReport::default()
    };
    for source in &plan.sources {
        match source {
            Source::Run { visible, .. } => report.memory_rows += *visible as u64,
            Source::Group {
                segment, directory, ..
            } => {
                segments.insert(segment.meta.file_id);
                if let Home::Partition(window) = segment.meta.home {
                    partitions.insert(window);
                }
                for block in &directory.blocks {
                    let is_needed = overlaps(block.min_time..=block.max_time, &plan.time)
                        && has_one(&plan.series, block.first_series..=block.last_series);
                    report.blocks += u64::from(is_needed);
                    report.blocks_skipped += u64::from(!is_needed);
                }
            }
        }
    }
    report.segments = segments.len() as u64;
    report.segments_skipped = plan.whole.segments.saturating_sub(report.segments);
    report.partitions = partitions.len() as u64;
    report.partitions_skipped = plan.whole.partitions.saturating_sub(report.partitions);
    report
}

fn overlaps(one: RangeInclusive<i64>, other: &RangeInclusive<i64>) -> bool {
    one.start() <= other.end() && one.end() >= other.start()
}

fn has_one(series: &[u32], range: RangeInclusive<u32>) -> bool {
    let at = series.partition_point(|id| id < range.start());
    series.get(at).is_some_and(|id| id <= range.end())
}
