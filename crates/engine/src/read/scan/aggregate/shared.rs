//! Blocks that several series share, read block by block.
//!
//! Does: find those whose rows all count, once, and give the rows of all of their series together, from the columns that are asked
//! for: of a count that is no page at all. Does not: merge or hide rows; blocks where that may be needed are left to be read series by
//! series.
//!
//! Of series with few rows each, what is done once for a series is most of the work. Which rows of a block are whose is kept
//! (`segment/latest/runs.rs`).

use std::ops::RangeInclusive;

use nilometer_codec::ColumnRef;

use super::fold::{Fold, FoldBlock, FoldRun};
use super::group::{Group, knows_fields};
use super::view::Viewer;
use super::{Morsel, Plan, Source};
use crate::error::Error;
use crate::mask::Mask;
use crate::scan::source::GroupReader;
use crate::schema::Duplicates;
use crate::segment::{BlockEntry, GroupRuns, SharedRun, TIME_PAGE};

/// One series is read by itself.
const SERIES_MIN: usize = 2;

/// Series of a block, on average, from which on it is worth to know whose all of its rows are.
const SERIES_OF_BLOCK_MIN: usize = 2;

/// Sources that overlap in time whose series are compared; of more it is not said that they are apart.
const OVERLAPS_MAX: usize = 256;

/// Series and times that the rows of a segment or a run lie in.
#[derive(Debug, Clone, Copy)]
struct Extent {
    times: (i64, i64),
    series: (u32, u32),
}

impl Extent {
    fn join(&mut self, other: &Self) {
        self.times = (
            self.times.0.min(other.times.0),
            self.times.1.max(other.times.1),
        );
        self.series = (
            self.series.0.min(other.series.0),
            self.series.1.max(other.series.1),
        );
    }

    fn has_series_of(&self, other: &Self) -> bool {
        self.series.0 <= other.series.1 && other.series.0 <= self.series.1
    }
}

/// By source: whether it is a group, and no other segment and no run has rows of its segment's series in its segment's times. Within
/// a segment no two rows are of one series and time, unless a table keeps, or once kept, them.
pub(super) fn apart(sources: &[Source], series: usize) -> Result<Vec<bool>, Error> {
    if series < SERIES_MIN {
        return Ok(Vec::new());
    }
    // By segment, whose groups are neighbours, or run.
    let mut extents: Vec<Extent> = Vec::new();
    let mut owners = Vec::with_capacity(sources.len());
    let mut before = None;
    for source in sources {
        let (own, segment) = match source {
            Source::Group { segment, group, .. } => {
                let meta = segment.group(*group)?;
                let extent = Extent {
                    times: (meta.min_time, meta.max_time),
                    series: (meta.first_series, meta.last_series),
                };
                (extent, Some(segment.meta.file_id))
            }
            Source::Run { run, .. } => {
                let ids = || run.rows.series.iter().copied();
                let extent = Extent {
                    times: run.times().into_inner(),
                    series: (ids().min().unwrap_or(0), ids().max().unwrap_or(u32::MAX)),
                };
                (extent, None)
            }
        };
        match extents.last_mut() {
            Some(last) if segment.is_some() && segment == before => last.join(&own),
            _ => extents.push(own),
        }
        before = segment;
        owners.push((extents.len() - 1, segment.is_some()));
    }
    let overlaps = overlapping(&extents);
    let is_apart = |&(at, is_group): &(usize, bool)| {
        is_group && overlaps.get(at).is_some_and(|overlaps| !overlaps)
    };
    Ok(owners.iter().map(is_apart).collect())
}

/// By extent: whether another one may have rows of its series in its times.
fn overlapping(extents: &[Extent]) -> Vec<bool> {
    let mut found = vec![false; extents.len()];
    let mut order: Vec<usize> = (0..extents.len()).collect();
    let start = |at: &usize| extents.get(*at).map_or(i64::MIN, |it| it.times.0);
    order.sort_unstable_by_key(start);
    let mut open: Vec<(usize, Extent)> = Vec::new();
    for at in order {
        let Some(own) = extents.get(at).copied() else {
            continue;
        };
        open.retain(|(_, other)| other.times.1 >= own.times.0);
        let is_crowded = open.len() >= OVERLAPS_MAX;
        for (other, extent) in &open {
            if is_crowded || extent.has_series_of(&own) {
                for at in [*other, at] {
                    if let Some(overlaps) = found.get_mut(at) {
                        *overlaps = true;
                    }
                }
            }
        }
        if is_crowded {
            open.clear();
        }
        open.push((at, own));
    }
    found
}

/// Rows that are read series by series although blocks of several series, or runs, have them.
pub(super) fn rows_scattered(plan: &Plan) -> u64 {
    let is_read = |block: &&BlockEntry| block.is_shared() && block.overlaps(&plan.time);
    let sources = plan.sources.iter().enumerate();
    let rows = sources.map(|(rank, source)| match source {
        Source::Run { run, visible, .. } => run.rows_of(*visible, &plan.series) as u64,
        Source::Group {
            directory, mask, ..
        } => {
            let is_apart = plan.apart.get(rank).copied().unwrap_or(false)
                && knows_fields(directory, &plan.fields)
                && is_worth(plan, &directory.blocks, &plan.series);
            if is_apart && mask.is_empty() {
                return 0;
            }
            let shared = directory.blocks.iter().filter(is_read);
            let scattered = shared.filter(|block| !is_apart || is_touched(mask, block));
            scattered.map(|block| u64::from(block.rows)).sum()
        }
    });
    rows.sum()
}

/// Whether a delete may hide rows of a block.
fn is_touched(mask: &Mask, block: &BlockEntry) -> bool {
    let series = block.first_series..=block.last_series;
    !mask.is_empty() && mask.touches(&series, &(block.min_time..=block.max_time))
}

/// Whether so many of these series, which ascend, are asked for that it is worth to read blocks that have them as wholes.
fn is_worth(plan: &Plan, blocks: &[BlockEntry], series: &[u32]) -> bool {
    let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
        return false;
    };
    let start = series.partition_point(|id| *id < first.first_series);
    let end = series.partition_point(|id| *id <= last.last_series);
    let shared = blocks.iter();
    let shared = shared.filter(|it| it.is_shared() && it.overlaps(&plan.time));
    let shared = shared.count();
    shared > 0 && end.saturating_sub(start) >= shared * SERIES_OF_BLOCK_MIN
}

/// Whether a time range has all times from one to another.
fn covers(time: &RangeInclusive<i64>, min: i64, max: i64) -> bool {
    *time.start() <= min && max <= *time.end()
}

/// Blocks of a group that are read as wholes.
#[derive(Debug, Default)]
struct Chosen {
    /// With their times.
    timed: Vec<usize>,
    /// Without, because each of their runs is in one place and all of it is asked for.
    others: Vec<usize>,
}

impl Morsel<'_> {
    /// Gives the rows of blocks that several series share and that are by themselves; whether there were any.
    pub(super) fn read_shared<F: Fold>(&mut self, fold: &mut F) -> Result<bool, F::Error> {
        let plan = self.plan;
        // Of rows of one series and time the one that was written last comes last, and it may stand in another block.
        if plan.duplicates == Duplicates::Keep && fold.wants_times() {
            return Ok(false);
        }
        let mut is_any = false;
        let mut groups = std::mem::take(&mut self.groups);
        for (group, is_apart) in groups.iter_mut().zip(&plan.apart) {
            let Some(group) = group.as_mut().filter(|_| *is_apart) else {
                continue;
            };
            let series = plan.series.get(self.positions.clone());
            let series = series.unwrap_or_default();
            // Of a table that once kept rows of one time, two of them may stand on both sides of a block's end.
            let keeps = plan.duplicates == Duplicates::Keep;
            if !group.may_stand(keeps)? || !is_worth(plan, &group.directory.blocks, series) {
                continue;
            }
            let runs = group.segment.runs(group.number)?;
            let chosen = self.choose((group, &runs), series, fold);
            for (blocks, has_times) in [(chosen.timed, true), (chosen.others, false)] {
                if !blocks.is_empty() {
                    is_any = true;
                    self.read_blocks((group, &runs), (blocks, has_times), fold)?;
                }
            }
        }
        self.groups = groups;
        Ok(is_any)
    }

    /// The blocks of a group that may be read as wholes: all of the rows count, once.
    fn choose(
        &self,
        (group, runs): (&Group<'_>, &GroupRuns),
        series: &[u32],
        fold: &impl Fold,
    ) -> Chosen {
        let plan = self.plan;
        let mut chosen = Chosen::default();
        let (Some(&first), Some(&last)) = (series.first(), series.last()) else {
            return chosen;
        };
        let keeps = plan.duplicates == Duplicates::Keep;
        let wants_times = fold.wants_times();
        for (at, block) in group.directory.blocks.iter().enumerate() {
            let is_asked = block.is_shared()
                && block.overlaps(&plan.time)
                && block.first_series <= last
                && block.last_series >= first;
            if !is_asked || is_touched(group.mask, block) {
                continue;
            }
            let Some(own) = runs.of_block(at, keeps) else {
                continue;
            };
            let is_one = |min: i64, max: i64| covers(&plan.time, min, max) && fold.is_one(min, max);
            let is_whole = is_one(block.min_time, block.max_time)
                || own.iter().all(|run| {
                    let (min, max) = (run.min_time, run.max_time);
                    is_one(min, max) || min > *plan.time.end() || max < *plan.time.start()
                });
            if wants_times || !is_whole {
                chosen.timed.push(at);
            } else {
                chosen.others.push(at);
            }
        }
        chosen
    }

    /// Gives the rows of blocks.
    fn read_blocks<F: Fold>(
        &mut self,
        (group, runs): (&mut Group<'_>, &GroupRuns),
        (blocks, has_times): (Vec<usize>, bool),
        fold: &mut F,
    ) -> Result<(), F::Error> {
        let plan = self.plan;
        let keeps = plan.duplicates == Duplicates::Keep;
        group.given.resize(group.directory.blocks.len(), false);
        fold.hold(bytes_of(group, &blocks, plan))?;
        let (segment, directory) = (group.segment, group.directory);
        let is_read = has_times || !plan.fields.is_empty();
        let mut viewer = None;
        if is_read {
            let (own, fields) = (blocks.clone(), &plan.fields);
            let reader = GroupReader::open_times(segment, directory, own, fields, has_times)?;
            viewer = Some(Viewer::new(reader));
        }
        let mut given: Vec<FoldRun> = Vec::new();
        for at in blocks {
            let Some(own) = runs.of_block(at, keeps) else {
                continue;
            };
            let (times, columns): (Option<&[i64]>, Vec<Option<ColumnRef<'_>>>) = match &mut viewer {
                None => (None, Vec::new()),
                Some(viewer) => match viewer.columns(at, has_times)? {
                    Some(columns) => columns,
                    // It is read row by row.
                    None => continue,
                },
            };
            given.clear();
            self.find_runs(own, times, &mut given);
            if let Some(is_given) = group.given.get_mut(at) {
                *is_given = true;
            }
            self.used.shared += 1;
            let rows: u64 = given.iter().map(|it| u64::from(it.end - it.start)).sum();
            if is_read {
                self.used.blocks += 1;
                self.used.rows += rows;
            } else {
                self.used.statistics += 1;
                self.used.rows_known += rows;
            }
            let columns = &columns;
            fold.runs(&given, &FoldBlock { times, columns })?;
        }
        Ok(())
    }

    /// The runs of a block that are asked for, with the positions of their series; those that lie in the range in part are cut.
    fn find_runs(&self, runs: &[SharedRun], times: Option<&[i64]>, found: &mut Vec<FoldRun>) {
        let time = &self.plan.time;
        let own = self.plan.series.get(self.positions.clone());
        let own = own.unwrap_or_default();
        let mut at = runs
            .first()
            .map_or(0, |run| own.partition_point(|id| *id < run.series));
        let mut start = 0;
        for run in runs {
            let (from, end) = (start, run.end);
            start = end;
            while own.get(at).is_some_and(|id| *id < run.series) {
                at += 1;
            }
            if own.get(at) != Some(&run.series) {
                continue;
            }
            let mut given = FoldRun {
                position: self.positions.start + at,
                first_ns: run.min_time,
                last_ns: run.max_time,
                start: from,
                end,
            };
            if !covers(time, run.min_time, run.max_time) {
                let rows = times.and_then(|times| times.get(from as usize..end as usize));
                let rows = rows.unwrap_or_default();
                let first = rows.partition_point(|at| at < time.start());
                let last = rows.partition_point(|at| at <= time.end());
                let kept = rows.get(first..last).unwrap_or_default();
                let (Some(&first_ns), Some(&last_ns)) = (kept.first(), kept.last()) else {
                    continue;
                };
                // A block has no more rows than 32 bits count.
                let row = |at: usize| from + u32::try_from(at).unwrap_or(0);
                given = FoldRun {
                    first_ns,
                    last_ns,
                    start: row(first),
                    end: row(last),
                    ..given
                };
            }
            found.push(given);
        }
    }

    /// By series of the morsel: whether some of its rows may not have been given.
    pub(super) fn left(&self) -> Vec<bool> {
        let plan = self.plan;
        let series = plan.series.get(self.positions.clone());
        let series = series.unwrap_or_default();
        let mut left = vec![false; series.len()];
        for (group, source) in self.groups.iter().zip(&plan.sources) {
            if let Source::Run { run, .. } = source {
                let mut at = 0;
                let ids = run.order().iter();
                let ids = ids.filter_map(|row| run.rows.series.get(*row as usize));
                let from = series.first().copied().unwrap_or(0);
                for id in ids.skip_while(|id| **id < from) {
                    while series.get(at).is_some_and(|own| own < id) {
                        at += 1;
                    }
                    if at >= series.len() {
                        break;
                    }
                    if series.get(at) == Some(id)
                        && let Some(left) = left.get_mut(at)
                    {
                        *left = true;
                    }
                }
            }
            let Some(group) = group else { continue };
            for (at, block) in group.directory.blocks.iter().enumerate() {
                if group.is_given(at) || !block.overlaps(&plan.time) {
                    continue;
                }
                let first = series.partition_point(|id| *id < block.first_series);
                let end = series.partition_point(|id| *id <= block.last_series);
                for left in left.get_mut(first..end).unwrap_or_default() {
                    *left = true;
                }
            }
        }
        left
    }
}

/// Bytes that fetching and decoding blocks takes.
fn bytes_of(group: &Group<'_>, blocks: &[usize], plan: &Plan) -> usize {
    let ids = plan.fields.iter().map(|(id, _)| id.0);
    let columns: Vec<u32> = ids.chain([TIME_PAGE]).collect();
    let chunks = group.directory.chunks.iter();
    let chunks = chunks.filter(|chunk| columns.contains(&chunk.column));
    let lengths = chunks.flat_map(|chunk| blocks.iter().filter_map(|at| chunk.lengths.get(*at)));
    // One block is decoded at a time.
    let rows = blocks.iter().filter_map(|at| group.block(*at));
    let rows = rows.map(|block| block.rows as usize).max().unwrap_or(0);
    let decoded = columns.len() * rows * size_of::<u64>();
    lengths.map(|length| *length as usize).sum::<usize>() + decoded
}
