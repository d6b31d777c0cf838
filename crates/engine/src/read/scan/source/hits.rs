//! Blocks of a group that have a row in a narrow range of time.
//!
//! Does: read the times of blocks of which the range is a small part, and leave out those without a row in it before a field of
//! theirs is fetched. Does not: look at blocks that the range is likely to meet, or at fields (`choose.rs` does).
//!
//! A block of one series spans days where rows are minutes apart. A question for one minute of all series overlaps a block of each,
//! and has a row in few.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::reader::{Given, GroupReader};
use crate::batch::Values;
use crate::error::Error;
use crate::scan::counters::GroupRead;
use crate::segment::{BlockEntry, GroupDirectory, Segment};

/// Blocks at least that are worth a look at their times.
const BLOCKS_MIN: usize = 2;

/// Rows of evenly spread ones that a range may meet in a block of which the times are read first. Beyond it nearly each has a row.
const ROWS_EXPECTED_MAX: u128 = 2;

/// Blocks that are left, and their times where these were read.
pub(super) struct Hits {
    pub(super) blocks: Vec<usize>,
    pub(super) given: Given,
    /// Of blocks that are not left.
    pub(super) read: GroupRead,
}

/// Leaves out those of some blocks, ascending, that have no row in a range of time.
pub(super) fn find(
    segment: &Arc<Segment>,
    directory: &Arc<GroupDirectory>,
    blocks: Vec<usize>,
    time: &RangeInclusive<i64>,
) -> Result<Hits, Error> {
    let is_thin = |at: &usize| {
        let block = directory.blocks.get(*at);
        block.is_some_and(|block| is_thin(block, time))
    };
    let thin: Vec<usize> = blocks.iter().copied().filter(is_thin).collect();
    let mut hits = Hits {
        blocks,
        given: Given::new(),
        read: GroupRead::default(),
    };
    if thin.len() < BLOCKS_MIN {
        return Ok(hits);
    }
    let mut reader = GroupReader::open_times(segment, directory, thin, &[], true)?;
    let mut missed = Vec::new();
    for at in reader.blocks().to_vec() {
        let Some(times) = reader.field(0, at)? else {
            continue;
        };
        let Values::I64(own) = &times.values else {
            continue;
        };
        let from = own.partition_point(|at| at < time.start());
        // Rows of several series are not in the order of time.
        let is_shared = directory.blocks.get(at).is_some_and(BlockEntry::is_shared);
        let is_hit = if is_shared {
            own.iter().any(|at| time.contains(at))
        } else {
            own.get(from).is_some_and(|at| at <= time.end())
        };
        if is_hit {
            // Times are the first column of a group's reader.
            hits.given.insert((at, 0), times);
        } else {
            missed.push(at);
        }
    }
    let fetched = reader.reads();
    let skipped = missed
        .iter()
        .map(|at| directory.pages_of(*at).saturating_sub(1));
    hits.read = GroupRead {
        blocks: missed.len() as u64,
        blocks_without_hit: missed.len() as u64,
        pages: fetched.pages,
        pages_skipped: skipped.sum(),
        bytes: fetched.bytes,
        ..GroupRead::default()
    };
    hits.blocks.retain(|at| missed.binary_search(at).is_err());
    Ok(hits)
}

/// Whether a range of time is so small a part of a block's that it may well fall between two rows.
fn is_thin(block: &BlockEntry, time: &RangeInclusive<i64>) -> bool {
    let from = block.min_time.max(*time.start());
    let until = block.max_time.min(*time.end());
    let span = u128::from(block.max_time.abs_diff(block.min_time)) + 1;
    let own = u128::from(until.abs_diff(from)) + 1;
    let is_cut = block.min_time < from || until < block.max_time;
    is_cut && u128::from(block.rows) * own <= ROWS_EXPECTED_MAX * span
}
