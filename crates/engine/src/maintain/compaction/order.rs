//! The order of files: the newer of two that may have a row of the same key.
//!
//! Does: divide files into those that are rewritten together or not at all, and find two files whose order says
//! nothing. Does not: choose what to rewrite (`plan.rs`).
//!
//! Files are ordered by [`SegmentMeta::place`], the last LSN first of all. Files of one last LSN are what the rows of one
//! flush were divided into: a *tie*. None of them has a row where another has one, by the times of their groups, so their
//! order among themselves means nothing. That holds for ever because a tie is rewritten as a whole or a file at a
//! time. A part of one, rewritten with older files, would have older rows under the last LSN of the files that were left out,
//! and nobody could say which of two values is the newer.
//!
//! [`SegmentMeta::place`]: crate::segment::SegmentMeta::place

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::schema::{Lsn, TableId};
use crate::segment::Segment;

/// Files of one last LSN, each a stretch of `files`, which are in order.
pub(crate) fn ties<'f, 's>(files: &'f [&'s Arc<Segment>]) -> Vec<&'f [&'s Arc<Segment>]> {
    files
        .chunk_by(|a, b| a.meta.max_lsn == b.meta.max_lsn)
        .collect()
}

/// Pairs of files, by id, of one last LSN that both may have a row of one table and time; of the last LSNs that are
/// `asked` for.
pub(crate) fn unordered(segments: &[Arc<Segment>], asked: impl Fn(Lsn) -> bool) -> Vec<(u64, u64)> {
    let mut pairs = Vec::new();
    for tie in segments.chunk_by(|a, b| a.meta.max_lsn == b.meta.max_lsn) {
        if tie.len() > 1 && tie.first().is_some_and(|it| asked(it.meta.max_lsn)) {
            let mut ranges = Ranges::default();
            for segment in tie {
                ranges.add(segment);
            }
            pairs.extend(ranges.overlapping().into_keys());
        }
    }
    pairs.sort_unstable();
    pairs
}

/// The times of the groups of files of one last LSN, by table, with the id of their file. One range of time for all groups
/// of a table in a file would be too wide: leftovers have rows before and after a partition.
#[derive(Debug, Default)]
pub(crate) struct Ranges(BTreeMap<TableId, Vec<(i64, i64, u64)>>);

impl Ranges {
    pub(crate) fn add(&mut self, segment: &Segment) {
        for (_, group) in segment.all_groups() {
            let range = (group.min_time, group.max_time, segment.meta.file_id);
            self.0.entry(group.table).or_default().push(range);
        }
    }

    /// Pairs of files that both may have a row of one table and time, each with these tables.
    pub(crate) fn overlapping(self) -> BTreeMap<(u64, u64), BTreeSet<TableId>> {
        let mut pairs: BTreeMap<(u64, u64), BTreeSet<TableId>> = BTreeMap::new();
        for (table, ranges) in self.0 {
            for pair in overlaps(ranges) {
                pairs.entry(pair).or_default().insert(table);
            }
        }
        pairs
    }
}

fn overlaps(mut ranges: Vec<(i64, i64, u64)>) -> Vec<(u64, u64)> {
    let mut pairs = Vec::new();
    ranges.sort_unstable();
    // By file, the furthest that what came before reaches: a file with a range that reaches this one meets it.
    let mut open: Vec<(i64, u64)> = Vec::new();
    for (first, last, id) in ranges {
        open.retain(|&(end, _)| end >= first);
        let others = open.iter().filter(|&&(_, other)| other != id);
        pairs.extend(others.map(|&(_, other)| (id.min(other), id.max(other))));
        match open.iter_mut().find(|(_, known)| *known == id) {
            Some((end, _)) => *end = last.max(*end),
            None => open.push((last, id)),
        }
    }
    pairs
}
