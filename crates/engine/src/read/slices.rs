//! Slices of a table's rows: times at which to cut, so that each slice has about so many rows and so much of large values.
//!
//! Does: work them out from directories and the runs in memory, before any page is read. Does not: promise: rows of one time
//! are never parted, and within a block rows are taken to be spread evenly.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::error::Error;
use crate::moment::Moment;
use crate::scan::ScanRequest;
use crate::scan::plan::{Source, find_sources, has_one};
use crate::schema::TableSchema;
use crate::segment::{BlockEntry, GroupDirectory};

/// Parts of all blocks together that are looked at, about: a block of many is one part, of few several.
const PARTS_MAX: usize = 65_536;

/// Parts of a block at most.
const BLOCK_PARTS_MAX: usize = 16;

/// Where rows are: how many up to which time.
#[derive(Debug, Clone, Default)]
pub struct RowWeights {
    /// In no order.
    parts: Vec<Part>,
}

/// Rows up to a time, since the part before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    time: i64,
    rows: u64,
    /// Of large values.
    bytes: u64,
}

impl RowWeights {
    /// All rows.
    pub fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.rows).sum()
    }

    /// Adds the rows of a block in a range of time, of which large values have so many bytes.
    pub(crate) fn add_block(&mut self, block: (&BlockEntry, u64), time: &RangeInclusive<i64>) {
        add_block(self, block, time, BLOCK_PARTS_MAX);
    }

    /// Adds another table's.
    pub fn add(&mut self, other: Self) {
        self.parts.extend(other.parts);
    }

    /// The last times of slices of about so many rows, ascending. After the last of them is one slice more.
    pub fn cuts(self, rows: u64) -> Vec<i64> {
        self.cuts_within(rows, u64::MAX)
    }

    /// The same of slices that also have no more than about so many bytes of large values.
    pub fn cuts_within(mut self, rows: u64, bytes: u64) -> Vec<i64> {
        self.parts.sort_unstable();
        let mut cuts = Vec::new();
        let (mut slice, mut large, mut all) = (0, 0_u64, self.rows());
        for part in self.parts {
            slice += part.rows;
            large = large.saturating_add(part.bytes);
            all -= part.rows;
            if (slice >= rows || large >= bytes) && all > 0 {
                if cuts.last() != Some(&part.time) {
                    cuts.push(part.time);
                }
                (slice, large) = (0, 0);
            }
        }
        cuts
    }
}

/// The series of some, which ascend, that alone have more than so many rows on disk in a range of time: their positions, and
/// where their rows are. Blocks that several series share are not looked at: none of those is long.
pub(crate) fn long_series(
    moment: &Moment,
    table: &Arc<TableSchema>,
    series: &[u32],
    time: &RangeInclusive<i64>,
    rows: u64,
) -> Result<Vec<(usize, RowWeights)>, Error> {
    let request = request_of(table, time);
    let mut blocks: Vec<(u32, BlockEntry)> = Vec::new();
    for source in &find_sources(moment, &request, series)? {
        if let Source::Group { directory, .. } = source {
            let own = directory.blocks.iter().filter(|block| {
                block.first_series == block.last_series
                    && block.overlaps(time)
                    && series.binary_search(&block.first_series).is_ok()
            });
            blocks.extend(own.map(|block| (block.first_series, *block)));
        }
    }
    blocks.sort_by_key(|(id, _)| *id);
    let mut long = Vec::new();
    for own in blocks.chunk_by(|one, other| one.0 == other.0) {
        let all: u64 = own.iter().map(|(_, block)| u64::from(block.rows)).sum();
        let position = own.first().map(|(id, _)| series.binary_search(id));
        let Some(Ok(position)) = position.filter(|_| all > rows) else {
            continue;
        };
        let mut weights = RowWeights::default();
        for (_, block) in own {
            add_block(&mut weights, (block, 0), time, 1);
        }
        long.push((position, weights));
    }
    Ok(long)
}

fn request_of(table: &Arc<TableSchema>, time: &RangeInclusive<i64>) -> ScanRequest {
    ScanRequest {
        table: Arc::clone(table),
        projection: Vec::new(),
        time: time.clone(),
        tags: Vec::new(),
        limit: None,
    }
}

fn add_block(
    weights: &mut RowWeights,
    (block, large): (&BlockEntry, u64),
    time: &RangeInclusive<i64>,
    parts: usize,
) {
    let span = (block.min_time, block.max_time);
    add_evenly(weights, span, (u64::from(block.rows), large), time, parts);
}

/// Bytes of the large values of each block of a group; nothing = it has none.
fn large_by_block(directory: &GroupDirectory) -> Vec<u64> {
    if directory.large.is_empty() {
        return Vec::new();
    }
    let mut bytes = vec![0; directory.blocks.len()];
    for value in &directory.large {
        if let Some(block) = bytes.get_mut(value.block as usize) {
            *block += u64::from(value.bytes);
        }
    }
    bytes
}

/// Weights of the rows of some series, which ascend, in a range of time.
pub(crate) fn weights(
    moment: &Moment,
    table: &Arc<TableSchema>,
    series: &[u32],
    time: &RangeInclusive<i64>,
) -> Result<RowWeights, Error> {
    let request = request_of(table, time);
    let sources = find_sources(moment, &request, series)?;
    let mut blocks: Vec<(BlockEntry, u64)> = Vec::new();
    let mut weights = RowWeights::default();
    for source in &sources {
        match source {
            Source::Group { directory, .. } => {
                let large = large_by_block(directory);
                let all = directory.blocks.iter().enumerate();
                let own = all.filter(|(_, block)| has_one(series, block) && block.overlaps(time));
                blocks.extend(own.map(|(at, block)| {
                    let large = large.get(at).copied().unwrap_or(0);
                    (*block, large)
                }));
            }
            Source::Run { run, visible, .. } => {
                let times = run.times();
                let rows = run.rows_of(*visible, series);
                let large = run.large_bytes(rows, |_| true);
                add_evenly(
                    &mut weights,
                    (*times.start(), *times.end()),
                    (rows as u64, large),
                    time,
                    BLOCK_PARTS_MAX,
                );
            }
        }
    }
    let parts = (PARTS_MAX / blocks.len().max(1)).clamp(1, BLOCK_PARTS_MAX);
    for (block, large) in &blocks {
        add_block(&mut weights, (block, *large), time, parts);
    }
    Ok(weights)
}

fn add_evenly(
    weights: &mut RowWeights,
    (first, last): (i64, i64),
    (rows, bytes): (u64, u64),
    time: &RangeInclusive<i64>,
    parts: usize,
) {
    let length = i128::from(last) - i128::from(first);
    let count = i128::try_from(parts).unwrap_or(1).max(1);
    let each = (rows / parts.max(1) as u64).max(1);
    for part in 1..=count {
        let end = i64::try_from(i128::from(first) + length * part / count).unwrap_or(last);
        if time.contains(&end) {
            weights.parts.push(Part {
                time: end,
                rows: each,
                bytes: bytes / parts.max(1) as u64,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(time: i64, rows: u64, bytes: u64) -> Part {
        Part { time, rows, bytes }
    }

    #[test]
    fn slices_have_about_as_many_rows_as_are_asked_for() {
        let weights = RowWeights {
            parts: (0..1000).rev().map(|time| part(time, 10, 0)).collect(),
        };
        assert_eq!(weights.rows(), 10_000);
        // 10 rows a time: 250 times in each of four slices.
        assert_eq!(weights.clone().cuts(2500), [249, 499, 749]);
        assert_eq!(weights.clone().cuts(10_000), [0_i64; 0]);
        let same = RowWeights {
            parts: vec![part(7, 100, 0); 50],
        };
        // Rows of one time are not parted.
        assert_eq!(same.cuts(100), [7]);
    }

    #[test]
    fn slices_end_where_they_have_enough_of_large_values() {
        let parts = [(0, 0), (1, 60), (2, 10), (3, 0), (4, 90), (5, 5)];
        let weights = RowWeights {
            parts: parts.map(|(time, bytes)| part(time, 1, bytes)).to_vec(),
        };
        assert_eq!(weights.clone().cuts_within(100, 64), [2, 4]);
        assert_eq!(weights.cuts_within(2, 64), [1, 3, 4]);
    }
}
