//! Rows of one table as they arrived: sorted, duplicates merged, cut into partitions, blocks and groups.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use nilometer_codec::BLOCK_ROWS_MAX;

use super::SegmentWriter;
use super::group::{BlockInput, GroupInput, View};
use crate::batch::TableRows;
use crate::error::Error;
use crate::order::sorted_order;
use crate::schema::{Duplicates, TableSettings};
use crate::segment::checksum::SegmentFormat;
use crate::segment::{GROUP_BLOCKS_MAX, GROUP_BYTES_MAX, OWN_BLOCK_ROWS_MIN, WIDEN_FACTOR, WIDEST};

/// A few windows are cut however few their rows are: those of the hours around midnight, say.
const CUT_WINDOWS: usize = 8;

/// Rows of one table for a segment, in arrival order, and what they follow.
#[derive(Debug)]
pub(crate) struct TableInput {
    pub(crate) rows: TableRows,
    pub(crate) settings: TableSettings,
}

/// Which source row gives each output row of a column.
#[derive(Debug)]
pub(super) struct Picks {
    /// For series and time, and for columns without an own list.
    pub(super) rows: Vec<u32>,
    /// By column, where duplicates were merged: the newest row that has a value.
    by_column: Option<Vec<Vec<u32>>>,
    /// Rows that became part of newer ones.
    merged: u64,
}

impl Picks {
    pub(super) fn of(&self, column: usize) -> &[u32] {
        match &self.by_column {
            Some(lists) => lists.get(column).map(Vec::as_slice).unwrap_or_default(),
            None => &self.rows,
        }
    }
}

impl SegmentWriter {
    /// Adds the rows of a table. Returns how many became part of newer ones.
    pub(crate) fn write_table(&mut self, input: &TableInput) -> Result<u64, Error> {
        let rows = &input.rows;
        let order = sorted_order(&rows.series, &rows.times);
        let picks = merge_duplicates(rows, order, input.settings.duplicates);
        let picked = picks.rows.iter();
        let times = picked.map(|&row| rows.times.get(row as usize).copied().unwrap_or(0));
        let interval = input.settings.partition_interval_ns.max(1);
        let interval = cut_width(interval, times, self.window_rows_min);
        let mut partitions: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for (at, &row) in (0u32..).zip(&picks.rows) {
            let time = rows.times.get(row as usize).copied().unwrap_or(0);
            partitions
                .entry(time.div_euclid(interval))
                .or_default()
                .push(at);
        }
        for (partition, members) in partitions {
            let start = partition.saturating_mul(interval);
            let view = View::picked(rows, &picks, &members);
            for blocks in groups_of(&view, self.format) {
                let group = GroupInput {
                    table: rows.table,
                    partition_start: start,
                    rows,
                    blocks: &blocks,
                    rollups: true,
                };
                self.put_group(&group, &view, &blocks)?;
            }
        }
        Ok(picks.merged)
    }
}

/// How wide the windows are that rows are cut at: the table's interval, or more where rows are few in each of many windows,
/// as they are when they come in no order of time. A dozen rows of each series and day make blocks that many series share,
/// where most bytes are for what lies between one series and the next.
fn cut_width(interval: i64, times: impl ExactSizeIterator<Item = i64>, rows_min: u64) -> i64 {
    let rows = times.len() as u64;
    if rows < rows_min {
        return interval;
    }
    let mut windows: BTreeSet<i64> = times.map(|time| time.div_euclid(interval)).collect();
    let mut factor = 1;
    while windows.len() > CUT_WINDOWS && rows / (windows.len() as u64) < rows_min && factor < WIDEST
    {
        factor *= WIDEN_FACTOR;
        windows = windows
            .iter()
            .map(|at| at.div_euclid(WIDEN_FACTOR))
            .collect();
    }
    interval.saturating_mul(factor)
}

/// Blocks by group: a group takes so many blocks and so much memory, and one block at least.
fn groups_of(view: &View<'_>, format: SegmentFormat) -> Vec<Vec<BlockInput<'static>>> {
    let mut groups: Vec<Vec<BlockInput<'static>>> = Vec::new();
    let mut bytes = 0;
    for block in cut(view, 0..view.len(), format) {
        let (more, _) = view.sizes(&block, format);
        let block = BlockInput::Rows(block);
        match groups.last_mut() {
            Some(group) if group.len() < GROUP_BLOCKS_MAX && bytes + more <= GROUP_BYTES_MAX => {
                bytes += more;
                group.push(block);
            }
            _ => {
                bytes = more;
                groups.push(vec![block]);
            }
        }
    }
    groups
}

/// Makes rows with equal series and time what the table says they are.
fn merge_duplicates(rows: &TableRows, order: Vec<u32>, duplicates: Duplicates) -> Picks {
    let key = |row: u32| {
        let row = row as usize;
        (rows.series.get(row).copied(), rows.times.get(row).copied())
    };
    let has_none = || {
        order.windows(2).all(|pair| match pair {
            [a, b] => key(*a) != key(*b),
            _ => true,
        })
    };
    if duplicates == Duplicates::Keep || has_none() {
        return Picks {
            rows: order,
            by_column: None,
            merged: 0,
        };
    }
    let merges_fields = duplicates == Duplicates::Last;
    let mut last = Vec::new();
    let mut merged = 0;
    let mut by_column = vec![Vec::new(); if merges_fields { rows.columns.len() } else { 0 }];
    for same in order.chunk_by(|a, b| key(*a) == key(*b)) {
        let Some(&newest) = same.last() else { continue };
        last.push(newest);
        merged += same.len() as u64 - 1;
        for (column, list) in rows.columns.iter().zip(&mut by_column) {
            let with_value = same
                .iter()
                .rev()
                .find(|row| column.validity.is_valid(**row as usize));
            list.push(with_value.copied().unwrap_or(newest));
        }
    }
    Picks {
        rows: last,
        by_column: merges_fields.then_some(by_column),
        merged,
    }
}

impl SegmentWriter {
    /// Ranges of some rows that are sorted and merged, one a block.
    pub(crate) fn block_ranges(&self, rows: &TableRows, range: Range<usize>) -> Vec<Range<usize>> {
        cut(&View::whole(rows), range, self.format)
    }
}

/// Series with enough rows have blocks of their own, neighbours with fewer share them.
fn cut(view: &View<'_>, range: Range<usize>, format: SegmentFormat) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut shared: Option<Range<usize>> = None;
    let mut start = range.start;
    while start < range.end {
        let series = view.series(start);
        let mut end = start + 1;
        while end < range.end && view.series(end) == series {
            end += 1;
        }
        if end - start >= OWN_BLOCK_ROWS_MIN {
            blocks.extend(shared.take());
            let own = (start..end).step_by(BLOCK_ROWS_MAX);
            blocks.extend(own.map(|at| at..(at + BLOCK_ROWS_MAX).min(end)));
        } else if let Some(open) = shared
            .as_mut()
            .filter(|open| end - open.start <= BLOCK_ROWS_MAX)
        {
            open.end = end;
        } else {
            blocks.extend(shared.replace(start..end));
        }
        start = end;
    }
    blocks.extend(shared);
    blocks
        .into_iter()
        .flat_map(|block| split_text(view, block, format))
        .collect()
}

/// Halves a block until its text fits, or one row is left.
fn split_text(view: &View<'_>, block: Range<usize>, format: SegmentFormat) -> Vec<Range<usize>> {
    if block.len() <= 1 || view.sizes(&block, format).1 {
        return vec![block];
    }
    let middle = block.start + block.len() / 2;
    let mut parts = split_text(view, block.start..middle, format);
    parts.extend(split_text(view, middle..block.end, format));
    parts
}
