//! Totals by metadata alone: rows of a table in a range of time, and its first and last time.
//!
//! Does: add up what the footers of segments say, where every row they count is one of the answer. Does not: count rows; where
//! deletes, duplicates or the edges of the range may take some away, whoever asks has to.

use std::ops::RangeInclusive;

use crate::error::Error;
use crate::mask::{Deletes, Mask};
use crate::moment::Moment;
use crate::schema::{Duplicates, TableSchema};
use crate::segment::BlockEntry;
use crate::segment::footer::GroupMeta;

/// Groups of two segments that are compared with each other, at most.
const PAIRS_MAX: usize = 200_000;

/// Rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableTotal {
    /// How many.
    pub rows: u64,
    /// First and last time; `None` = there are no rows.
    pub span: Option<(i64, i64)>,
}

impl TableTotal {
    fn add(&mut self, rows: u64, first: i64, last: i64) {
        self.rows += rows;
        let known = self.span.unwrap_or((first, last));
        self.span = Some((known.0.min(first), known.1.max(last)));
    }
}

/// `None` = metadata do not say it.
pub(crate) fn total(
    moment: &Moment,
    table: &TableSchema,
    time: &RangeInclusive<i64>,
) -> Result<Option<TableTotal>, Error> {
    let (state, visible) = (&moment.state, moment.visible);
    let keeps = table.settings.duplicates == Duplicates::Keep;
    let deletes = Deletes::new(&state.tombstones(table.id, visible));
    let mut total = TableTotal::default();
    // By segment.
    let mut parts: Vec<Vec<&GroupMeta>> = Vec::new();
    for segment in state.version.segments_of(table.id) {
        let mut own = Vec::new();
        for (at, group) in segment.groups(table.id) {
            if group.max_time < *time.start() || group.min_time > *time.end() {
                continue;
            }
            let is_inside = time.contains(&group.min_time) && time.contains(&group.max_time);
            let series = group.first_series..=group.last_series;
            let span = group.min_time..=group.max_time;
            let mask = Mask::of_segment(&deletes, segment.meta.applied_lsn, series, span);
            if !is_inside || !mask.is_empty() || (!keeps && group.has_duplicates) {
                return Ok(None);
            }
            if !keeps {
                let directory = segment.directory(at)?;
                let is_shared = directory.blocks.iter().any(BlockEntry::is_shared);
                if is_shared && segment.latest(at)?.has_ties {
                    return Ok(None);
                }
            }
            total.add(group.rows, group.min_time, group.max_time);
            own.push(group);
        }
        if !own.is_empty() {
            parts.push(own);
        }
    }
    if !keeps && may_overlap(&parts) {
        return Ok(None);
    }
    for (head, visible) in state.heads(visible) {
        for (run, rows) in head.runs(table.id, visible) {
            let times = run.times();
            let is_apart = times.end() < time.start() || times.start() > time.end();
            if is_apart {
                continue;
            }
            let is_whole = rows == run.rows.rows()
                && time.contains(times.start())
                && time.contains(times.end())
                && Mask::of_run(&deletes, &run).is_empty();
            if !keeps || !is_whole {
                return Ok(None);
            }
            total.add(rows as u64, *times.start(), *times.end());
        }
    }
    Ok(Some(total))
}

/// Whether two segments may have rows of one series and time; sure about no.
fn may_overlap(parts: &[Vec<&GroupMeta>]) -> bool {
    let span = |part: &[&GroupMeta]| {
        let first = part.iter().map(|group| group.min_time).min();
        (first, part.iter().map(|group| group.max_time).max())
    };
    let spans: Vec<_> = parts.iter().map(|part| span(part)).collect();
    let mut pairs = 0;
    for (at, (one, (first, last))) in parts.iter().zip(&spans).enumerate() {
        for (other, (other_first, other_last)) in parts.iter().zip(&spans).skip(at + 1) {
            if last < other_first || first > other_last {
                continue;
            }
            pairs += one.len() * other.len();
            if pairs > PAIRS_MAX {
                return true;
            }
            let is_apart = |one: &GroupMeta, other: &GroupMeta| {
                one.max_time < other.min_time
                    || one.min_time > other.max_time
                    || one.last_series < other.first_series
                    || one.first_series > other.last_series
            };
            let mut one = one.iter();
            if one.any(|one| other.iter().any(|other| !is_apart(one, other))) {
                return true;
            }
        }
    }
    false
}
