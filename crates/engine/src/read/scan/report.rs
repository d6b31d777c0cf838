//! The report of a scan for EXPLAIN: what was read, what was skipped.
//!
//! Does: work out what planning decided, when somebody asks. Does not: count what reading does (`counters.rs` does).

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use super::plan::{Plan, Source};
use crate::segment::Home;

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
    /// Blocks of which only the fields of conditions, or the times, were read: no row was left.
    pub blocks_without_hit: u64,
    /// First and last rows of series that were taken from statistics.
    pub ends_from_statistics: u64,
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
