//! Cover of a series' rows: rollups and statistics that stand for rows, and rows that must be read.

use std::ops::Range;

use super::Plan;
use super::fold::Fold;
use super::group::Group;
use crate::error::Error;
use crate::sabotage::Sabotage;
use crate::scan::conflicts::Conflicts;
use crate::scan::source::Piece;
use crate::schema::Duplicates;

/// A part of a series' rows and how it is had. Sources are numbered as in the plan.
#[derive(Debug)]
pub(super) enum Step {
    /// Rollups stand for them.
    Hours {
        source: usize,
        entries: Range<usize>,
    },
    /// The statistics of blocks stand for them.
    Blocks { source: usize, blocks: Range<usize> },
    /// Rows of a block, all of the series without a range.
    Rows {
        source: usize,
        block: usize,
        rows: Option<Range<usize>>,
        /// No other source has rows of the series in their times, and no delete touches them.
        is_alone: bool,
    },
    /// Rows in memory.
    Piece { piece: Piece, is_alone: bool },
}

/// Rows of a series in blocks of its own, counted from the first: a block or an hour of them.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    start: usize,
    end: usize,
    min_time: i64,
    max_time: i64,
    /// Position of the block, or of the entry of the rollups.
    at: usize,
}

/// Adds a step, to the one before it if that goes up to it.
fn push(steps: &mut Vec<Step>, step: Step) {
    match (steps.last_mut(), &step) {
        (
            Some(Step::Hours { source, entries }),
            Step::Hours {
                source: own,
                entries: next,
            },
        ) if source == own && entries.end == next.start => entries.end = next.end,
        (
            Some(Step::Blocks { source, blocks }),
            Step::Blocks {
                source: own,
                blocks: next,
            },
        ) if source == own && blocks.end == next.start => blocks.end = next.end,
        _ => steps.push(step),
    }
}

/// Adds what to do with the rows of a series in a group, in the order of time.
pub(super) fn cover(
    series: u32,
    source: usize,
    (plan, fold): (&Plan, &impl Fold),
    group: &mut Group<'_>,
    conflicts: &Conflicts,
    steps: &mut Vec<Step>,
) -> Result<(), Error> {
    let blocks = group.blocks_of(series);
    if blocks.is_empty() {
        return Ok(());
    }
    let overlaps = |min: i64, max: i64| min <= *plan.time.end() && max >= *plan.time.start();
    let own = own_blocks(group, blocks.clone());
    let others = blocks.clone().filter(|at| !group.is_given(*at));
    let others: Vec<usize> = others.collect();
    let keeps = plan.duplicates == Duplicates::Keep;
    // A series that shares a block besides has rows between the others, in an order that only reading them tells.
    if own.len() < others.len() || !group.may_stand(keeps)? {
        let times = |at: usize| group.block(at).map(|it| (it.min_time, it.max_time));
        for (place, &at) in others.iter().enumerate() {
            let Some((first, last)) = times(at) else {
                continue;
            };
            if overlaps(first, last) {
                // In a table that kept duplicates once, two rows of one time may be on both sides of a block's end.
                let before = place.checked_sub(1).and_then(|place| others.get(place));
                let before = before.and_then(|at| times(*at)).map(|(_, last)| last);
                let after = others.get(place + 1).and_then(|at| times(*at));
                let after = after.map(|(first, _)| first);
                let is_apart = before != Some(first) && after != Some(last);
                steps.push(Step::Rows {
                    source,
                    block: at,
                    rows: None,
                    is_alone: (keeps || is_apart)
                        && is_alone(series, group, conflicts, (first, last)),
                });
            }
        }
        return Ok(());
    }
    let first = own.partition_point(|block| block.max_time < *plan.time.start());
    let last = own.partition_point(|block| block.min_time <= *plan.time.end());
    let needed = own.get(first..last.max(first)).unwrap_or_default();
    let (Some(from), Some(to)) = (needed.first(), needed.last()) else {
        return Ok(());
    };
    let (mut row, end) = (from.start, to.end);
    let hours = hours_of(series, fold, group, &own)?;
    let mut unread: Option<Range<usize>> = None;
    while row < end {
        let (block, next_block) = at_row(needed, row);
        let (hour, next_hour) = at_row(&hours, row);
        let mut best: Option<(usize, Step)> = None;
        if let Some(block) = block
            && stands_alone(series, (plan, fold), group, conflicts, block)
            && group.block_is_usable(block.at)?
        {
            let blocks = block.at..block.at + 1;
            best = Some((block.end, Step::Blocks { source, blocks }));
        }
        let known = if plan.sabotage == Some(Sabotage::RollupOverOverlap) {
            &Conflicts::default()
        } else {
            conflicts
        };
        if let Some(hour) = hour
            && best.as_ref().is_none_or(|(end, _)| *end < hour.end)
            && hour.end <= end
            && stands_alone(series, (plan, fold), group, known, hour)
            && group.hour_is_usable(hour.at)
        {
            let entries = hour.at..hour.at + 1;
            best = Some((hour.end, Step::Hours { source, entries }));
        }
        if let Some((to, step)) = best {
            read_rows(
                unread.take(),
                (series, source),
                needed,
                group,
                conflicts,
                steps,
            );
            push(steps, step);
            row = to;
            continue;
        }
        let next = next_hour.into_iter().chain(next_block);
        let next = next.map(|stretch| stretch.start).min().unwrap_or(end);
        let next = next.clamp(row + 1, end);
        unread = Some(unread.map_or(row, |rows| rows.start)..next);
        row = next;
    }
    read_rows(unread, (series, source), needed, group, conflicts, steps);
    Ok(())
}

/// The stretch that starts at a row, and the first that starts after it.
fn at_row(stretches: &[Stretch], row: usize) -> (Option<&Stretch>, Option<&Stretch>) {
    let at = stretches.partition_point(|stretch| stretch.start < row);
    match stretches.get(at) {
        Some(here) if here.start == row => (Some(here), stretches.get(at + 1)),
        next => (None, next),
    }
}

/// Whether all rows of a stretch count, once, and in one bucket.
fn stands_alone(
    series: u32,
    (plan, fold): (&Plan, &impl Fold),
    group: &Group<'_>,
    conflicts: &Conflicts,
    stretch: &Stretch,
) -> bool {
    let (min, max) = (stretch.min_time, stretch.max_time);
    *plan.time.start() <= min
        && max <= *plan.time.end()
        && fold.is_one(min, max)
        && is_alone(series, group, conflicts, (min, max))
}

/// Whether no other source has rows of a series in these times, and no delete touches them.
fn is_alone(series: u32, group: &Group<'_>, conflicts: &Conflicts, (min, max): (i64, i64)) -> bool {
    !conflicts.touches(min, max) && !group.mask.touches(&(series..=series), &(min..=max))
}

/// Those of the blocks that have no other series.
fn own_blocks(group: &Group<'_>, blocks: Range<usize>) -> Vec<Stretch> {
    let mut own = Vec::new();
    let mut row = 0;
    for at in blocks {
        let Some(block) = group.block(at).filter(|block| !block.is_shared()) else {
            continue;
        };
        let end = row + block.rows as usize;
        own.push(Stretch {
            start: row,
            end,
            min_time: block.min_time,
            max_time: block.max_time,
            at,
        });
        row = end;
    }
    own
}

/// The hours of the rollups, if a bucket can hold one and they are of the same rows as the blocks.
fn hours_of(
    series: u32,
    fold: &impl Fold,
    group: &mut Group<'_>,
    own: &[Stretch],
) -> Result<Vec<Stretch>, Error> {
    if !fold.takes_hours() {
        return Ok(Vec::new());
    }
    let Some(rollups) = group.rollups()? else {
        return Ok(Vec::new());
    };
    let mut hours = Vec::new();
    let mut row = 0;
    for at in rollups.of_series(series) {
        let Some(entry) = rollups.entries.get(at) else {
            continue;
        };
        let end = row + entry.rows as usize;
        hours.push(Stretch {
            start: row,
            end,
            min_time: entry.min_time,
            max_time: entry.max_time,
            at,
        });
        row = end;
    }
    if own.last().map(|block| block.end) != Some(row) {
        hours.clear();
    }
    Ok(hours)
}

/// Adds the rows `rows` of the series, block by block.
fn read_rows(
    rows: Option<Range<usize>>,
    (series, source): (u32, usize),
    blocks: &[Stretch],
    group: &Group<'_>,
    conflicts: &Conflicts,
    steps: &mut Vec<Step>,
) {
    let Some(rows) = rows else { return };
    for block in blocks {
        let start = rows.start.max(block.start);
        let end = rows.end.min(block.end);
        if start < end {
            steps.push(Step::Rows {
                source,
                block: block.at,
                rows: Some(start - block.start..end - block.start),
                is_alone: is_alone(series, group, conflicts, (block.min_time, block.max_time)),
            });
        }
    }
}
