//! The choice of compaction jobs: segments to rewrite together, and the windows their rows go to. Pure: reads only what
//! segments keep in memory.

mod anew;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::CompactionOptions;
use super::order::ties;
use crate::sabotage::Sabotage;
use crate::schema::TableId;
use crate::segment::{Home, Segment, SegmentFormat, Tier, WIDEN_FACTOR, WIDEST, Window};
use crate::tombstone::{Deleted, Tombstone};

pub(crate) use wanted::Wanted;

/// What there is to compact.
pub(crate) struct Situation<'a> {
    /// By last LSN.
    pub(crate) segments: &'a [Arc<Segment>],
    pub(crate) windows: &'a BTreeSet<Window>,
    /// Durable deletes.
    pub(crate) tombstones: &'a [Arc<Tombstone>],
    /// Segments that another job has.
    pub(crate) is_busy: &'a dyn Fn(u64) -> bool,
    /// Segments that cannot be read: they stay where they are in the order of the others, and go only when every row of
    /// them is deleted.
    pub(crate) is_damaged: &'a dyn Fn(u64) -> bool,
    /// Width of a table's partitions, at least 1; `None` = the table was dropped.
    pub(crate) interval_of: &'a dyn Fn(TableId) -> Option<i64>,
    /// Another job is deciding where partitions begin and end.
    pub(crate) windows_busy: bool,
    /// Nobody has written for a while.
    pub(crate) idle: bool,
    /// What the pages of a partition are to be written for; `None` = what they were written for.
    pub(crate) tier_of: &'a dyn Fn(&Window) -> Option<Tier>,
    /// That of new segments.
    pub(crate) format: SegmentFormat,
    /// Rows of a segment as a flush makes it.
    pub(crate) flush_rows: u64,
    pub(crate) options: &'a CompactionOptions,
    pub(crate) sabotage: Option<Sabotage>,
    /// Rows that shall have partitions of their own, however few they are.
    pub(crate) wanted: Option<&'a Wanted>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Job {
    /// Segments whose every row is deleted.
    Drop { segments: Vec<u64> },
    /// Sparse partitions of one table that become one.
    Widen { from: Vec<Window>, to: Window },
    /// Segments to read together, in LSN order, and what becomes of their rows.
    Rewrite {
        segments: Vec<u64>,
        parts: Vec<Part>,
    },
}

impl Job {
    /// The segments that nobody else may take meanwhile, by file id.
    pub(crate) fn segments(&self) -> &[u64] {
        match self {
            Self::Drop { segments } | Self::Rewrite { segments, .. } => segments,
            Self::Widen { .. } => &[],
        }
    }
}

/// Rows of one table and window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) window: Window,
    /// A file of its own in the partition; otherwise the rows stay among others.
    pub(crate) own: bool,
    /// The segments that have such rows, by file id in LSN order.
    pub(crate) segments: Vec<u64>,
}

/// The next thing to do, if any.
pub(crate) fn next_job(situation: &Situation<'_>) -> Option<Job> {
    situation
        .drop_job()
        .or_else(|| situation.mixed_job())
        .or_else(|| situation.partition_job())
        .or_else(|| situation.widen_job())
        .or_else(|| situation.delete_job())
        .or_else(|| situation.tier_job())
        .or_else(|| situation.upgrade_job())
}

impl Situation<'_> {
    fn free(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.segments
            .iter()
            .filter(|segment| !(self.is_busy)(segment.meta.file_id))
    }

    /// Segments of dropped tables, and those that a delete covers as a whole: they go without being read.
    fn drop_job(&self) -> Option<Job> {
        let gone = |segment: &Segment| {
            segment.all_groups().all(|(_, group)| {
                (self.interval_of)(group.table).is_none()
                    || self.tombstones.iter().any(|it| {
                        it.table == group.table
                            && it.lsn > segment.meta.max_lsn
                            && covers(it, group.min_time..=group.max_time)
                    })
            })
        };
        let segments: Vec<u64> = self
            .free()
            .filter(|segment| gone(segment))
            .map(|segment| segment.meta.file_id)
            .collect();
        (!segments.is_empty()).then_some(Job::Drop { segments })
    }

    /// Segments with rows of many tables and times: partitions that are large enough get files of their own.
    fn mixed_job(&self) -> Option<Job> {
        let mixed: Vec<&Arc<Segment>> = self
            .segments
            .iter()
            .filter(|segment| segment.meta.home == Home::Mixed)
            .collect();
        if self.windows_busy || mixed.iter().any(|it| (self.is_busy)(it.meta.file_id)) {
            return None;
        }
        // Neighbours of a damaged segment may not be joined over it: the rows of one may be newer than its, of the other
        // older.
        let mut stretches = mixed.split(|it| (self.is_damaged)(it.meta.file_id));
        stretches.find_map(|mixed| self.mixed_run(mixed))
    }

    fn mixed_run(&self, mixed: &[&Arc<Segment>]) -> Option<Job> {
        let rows = |run: &[&Arc<Segment>]| run.iter().map(|it| it.meta.rows).sum::<u64>();
        let units = self.units_of(mixed);
        let run = self.run_of(&units).or_else(|| {
            let worth = self.idle && rows(mixed) >= self.options.partition_rows_min;
            let some = self.first_of(&units);
            (worth && !some.is_empty()).then_some(some)
        })?;
        let run = run.as_slice();
        let parts = self.parts_of(run);
        if !self.idle && self.is_worth_waiting(run, &parts) {
            return None;
        }
        // What would stay as it is need not be written again.
        if run.len() < 2 && parts.iter().all(|part| !part.own) {
            return None;
        }
        Some(Job::Rewrite {
            segments: run.iter().map(|it| it.meta.file_id).collect(),
            parts,
        })
    }

    /// Whether segments are better split together with as many again. Rows that come in no order of time are in every
    /// partition a few: each split then makes files that are nearly as thin as the segments were, take nearly as many
    /// bytes, and are written again when enough of them are there.
    fn is_worth_waiting(&self, run: &[&Arc<Segment>], parts: &[Part]) -> bool {
        let own = parts.iter().filter(|part| part.own);
        let pieces: usize = own.map(|part| part.segments.len()).sum();
        let rows: u64 = run.iter().map(|it| it.meta.rows).sum();
        let is_thin = rows / (pieces.max(1) as u64) < self.options.partition_rows_min;
        pieces > run.len() && is_thin && run.len() < self.options.fan_in.max(2).saturating_mul(2)
    }

    /// Files in order, by what is rewritten as a whole or not at all.
    fn units_of<'f, 's>(&self, files: &'f [&'s Arc<Segment>]) -> Vec<&'f [&'s Arc<Segment>]> {
        if self.sabotage == Some(Sabotage::RunCutInTie) {
            return files.chunks(1).collect();
        }
        ties(files)
    }

    /// The first units, of as many files as a run has at most, or what the last one has more.
    fn first_of<'s>(&self, units: &[&[&'s Arc<Segment>]]) -> Vec<&'s Arc<Segment>> {
        let fan_in = self.options.fan_in.max(2);
        let mut run: Vec<&Arc<Segment>> = Vec::new();
        let mut rows = 0;
        for unit in units {
            let more: u64 = unit.iter().map(|it| it.meta.rows).sum();
            let is_long = run.len() >= fan_in && rows + more > self.options.job_rows_max;
            if is_long || run.len() >= fan_in.saturating_mul(2) {
                break;
            }
            run.extend(unit.iter().copied());
            rows += more;
        }
        run
    }

    /// Neighbours of a like size, oldest first: enough of them that rewriting the largest pays.
    fn run_of<'s>(&self, units: &[&[&'s Arc<Segment>]]) -> Option<Vec<&'s Arc<Segment>>> {
        let fan_in = self.options.fan_in.max(2);
        let tier = |unit: &[&Arc<Segment>]| {
            let base = self.flush_rows.max(1);
            let rows = unit.iter().map(|it| it.meta.rows).max().unwrap_or(0);
            let times = (rows / base).max(1);
            times.ilog(u64::try_from(fan_in).unwrap_or(2))
        };
        let highest = units.iter().map(|unit| tier(unit)).max()?;
        for level in 0..=highest {
            for run in units.split(|unit| tier(unit) > level) {
                let run = self.first_of(run);
                let rows: u64 = run.iter().map(|it| it.meta.rows).sum();
                let largest = run.iter().map(|it| it.meta.rows).max().unwrap_or(0);
                let pays = largest <= 2 * (rows - largest);
                if run.len() >= fan_in && pays && rows <= self.options.job_rows_max {
                    return Some(run);
                }
            }
        }
        None
    }

    /// Where the rows of mixed segments go, by table and time.
    fn parts_of(&self, run: &[&Arc<Segment>]) -> Vec<Part> {
        let mut tables: BTreeMap<TableId, Spread> = BTreeMap::new();
        for segment in run {
            for (_, group) in segment.all_groups() {
                let Some(interval) = (self.interval_of)(group.table) else {
                    continue;
                };
                let spread = tables.entry(group.table).or_default();
                spread.add(group.min_time, group.max_time, group.rows, interval);
            }
        }
        let mut parts = Vec::new();
        for (table, spread) in tables {
            let interval = (self.interval_of)(table).unwrap_or(1);
            self.cut(table, interval, &spread, run, &mut parts);
        }
        parts
    }

    /// Cuts all times that a table's rows here may have into windows: those that exist, and new ones between.
    fn cut(
        &self,
        table: TableId,
        interval: i64,
        spread: &Spread,
        run: &[&Arc<Segment>],
        parts: &mut Vec<Part>,
    ) {
        let existing: Vec<Window> = self
            .windows
            .iter()
            .filter(|window| window.table == table)
            .copied()
            .collect();
        // What other windows leave out: those that exist, and those that are to be made.
        let mut taken = existing.clone();
        let wanted = self.wanted.filter(|it| it.table == table);
        taken.extend(wanted.map(|it| it.around(interval)));
        let mut reached = i64::MIN;
        for (first, last) in spread.stretches(interval) {
            // Windows that exist, those that rows are counted for, and gaps between them.
            let mut at = first.max(reached);
            while at <= last {
                let known = existing.iter().find(|window| window.contains(at));
                let start = aligned(table, interval, at).start;
                let is_wanted = |window: &Window| self.wanted.is_some_and(|it| it.has(window));
                let slot = aligned(table, interval, at);
                let (window, own) = match (known, spread.starts.get(&start)) {
                    (Some(known), _) => (*known, true),
                    (None, _) if is_wanted(&slot) => (clipped(slot, at, &existing, reached), true),
                    (None, Some(&rows)) => {
                        self.new_window(table, interval, at, rows, &spread.starts, &taken, reached)
                    }
                    (None, None) => {
                        self.uncounted_window(table, interval, at, spread, &taken, reached)
                    }
                };
                let is_counted = own || spread.starts.contains_key(&start);
                let is_left_out = !is_counted && self.sabotage == Some(Sabotage::RowsLeftOut);
                let segments = sharing(run, &window);
                if !segments.is_empty() && !is_left_out {
                    for (window, segments) in self.unbroken(&window, &segments, own) {
                        parts.push(Part {
                            window,
                            own,
                            segments,
                        });
                    }
                }
                reached = window.last().saturating_add(1);
                if window.last() == i64::MAX {
                    return;
                }
                at = reached;
            }
        }
    }

    /// The window that `at` gets when only groups of very many windows may have rows there, as they do when a table's
    /// interval has become much shorter. As wide as makes it worth a file, if that is no wider than partitions are;
    /// otherwise its rows stay among others, in groups that the next compaction knows more about.
    fn uncounted_window(
        &self,
        table: TableId,
        interval: i64,
        at: i64,
        spread: &Spread,
        existing: &[Window],
        reached: i64,
    ) -> (Window, bool) {
        let enough = self.options.partition_rows_min.max(1);
        let mut width = interval;
        while spread.about(at, width) < enough && width < i64::MAX {
            width = width.saturating_mul(WIDEN_FACTOR);
        }
        let widest = interval.saturating_mul(WIDEST);
        let own = width <= widest && spread.about(at, width) >= enough;
        if own {
            let most = self.options.widen_rows_max;
            let wider = |width: i64| width.saturating_mul(WIDEN_FACTOR);
            while wider(width) <= widest && spread.about(at, wider(width)) < most {
                width = wider(width);
            }
        }
        let window = aligned(table, width, at);
        let before = existing.iter().filter(|other| other.last() < at);
        let floor = before.map(|other| other.end).max().unwrap_or(i64::MIN);
        let after = existing.iter().filter(|other| other.start > at);
        let ceiling = after.map(|other| other.start).min().unwrap_or(i64::MAX);
        let counted = spread.starts.range(at.saturating_add(1)..).next();
        let counted = counted.map_or(i64::MAX, |(&start, _)| start);
        let window = Window {
            table,
            start: window.start.max(floor).max(reached),
            end: window.end.min(ceiling).min(counted),
        };
        (window, own)
    }

    /// The window that `at`, which no window holds, gets: as wide as sparse rows make it, clipped by its neighbours.
    #[expect(
        clippy::too_many_arguments,
        reason = "the one caller has them all at hand"
    )]
    fn new_window(
        &self,
        table: TableId,
        interval: i64,
        at: i64,
        rows: u64,
        starts: &BTreeMap<i64, u64>,
        existing: &[Window],
        reached: i64,
    ) -> (Window, bool) {
        let clip = |window: Window| clipped(window, at, existing, reached);
        let mut window = clip(aligned(table, interval, at));
        let mut rows = rows;
        let mut width = interval;
        while rows < self.options.widen_rows_max && width < interval.saturating_mul(WIDEST) {
            width = width.saturating_mul(WIDEN_FACTOR);
            let wider = clip(aligned(table, width, at));
            let sum: u64 = starts
                .range(wider.start..=wider.last())
                .map(|(_, rows)| rows)
                .sum();
            if sum >= self.options.widen_rows_max {
                break;
            }
            // Nothing is gained by a wider window without more rows in it.
            if sum > rows {
                (window, rows) = (wider, sum);
            }
        }
        (window, rows >= self.options.partition_rows_min)
    }

    /// Divides segments with rows of a window so that no other file with such rows stands between them, and the window so
    /// that no other file of a tie has rows within what is written.
    fn unbroken(&self, window: &Window, segments: &[u64], own: bool) -> Vec<(Window, Vec<u64>)> {
        if !own {
            // There is no such other file: the window has no partition, and mixed segments are taken as neighbours.
            return vec![(*window, segments.to_vec())];
        }
        let sharing = self.segments.iter().filter(|it| shares(it, window));
        let sharing: Vec<&Arc<Segment>> = sharing.collect();
        let mut runs: Vec<(Window, Vec<u64>)> = Vec::new();
        let mut broken = true;
        for unit in ties(&sharing) {
            let is_own = |it: &&Arc<Segment>| segments.contains(&it.meta.file_id);
            let (own, others): (Vec<&Arc<Segment>>, Vec<&Arc<Segment>>) =
                unit.iter().copied().partition(is_own);
            let ids = own.iter().map(|it| it.meta.file_id);
            if !others.is_empty() {
                // Of a tie that does not go as a whole each file goes alone, and stays around the others.
                for id in ids {
                    let between = divided(window, &others).into_iter();
                    runs.extend(between.map(|window| (window, vec![id])));
                }
                broken = true;
                continue;
            }
            match runs.last_mut() {
                Some((_, run)) if !broken => run.extend(ids),
                _ => runs.push((*window, ids.collect())),
            }
            broken = false;
        }
        runs
    }

    /// Segments by the partition that they belong to.
    fn homes(&self) -> BTreeMap<Window, Vec<&Arc<Segment>>> {
        let mut homes: BTreeMap<Window, Vec<&Arc<Segment>>> = BTreeMap::new();
        for segment in self.segments {
            let Home::Partition(home) = segment.meta.home else {
                continue;
            };
            // The partition may have been widened since: the last that starts no later holds it.
            let limit = Window {
                end: i64::MAX,
                ..home
            };
            if let Some(window) = self.windows.range(..=limit).next_back() {
                homes.entry(*window).or_default().push(segment);
            }
        }
        homes
    }

    /// Neighbours of a like size within a partition.
    fn partition_job(&self) -> Option<Job> {
        for (window, homes) in self.homes() {
            if homes.len() < self.options.fan_in.max(2) {
                continue;
            }
            let sharing: Vec<&Arc<Segment>> = self
                .segments
                .iter()
                .filter(|segment| shares(segment, &window))
                .collect();
            let barrier = |segment: &Arc<Segment>| {
                let id = segment.meta.file_id;
                segment.meta.home == Home::Mixed || (self.is_busy)(id) || (self.is_damaged)(id)
            };
            let units = self.units_of(&sharing);
            // Where nothing says what a partition is to be written for, what was written for few bytes on command stays so.
            let has_rule = (self.tier_of)(&window).is_some();
            let tier = |unit: &&[&Arc<Segment>]| unit.first().map(|it| it.tier());
            let runs = units.split(|unit| unit.iter().any(|it| barrier(it)));
            let runs = runs.flat_map(|run| {
                run.chunk_by(move |one, other| has_rule || tier(one) == tier(other))
            });
            for files in runs {
                let Some(run) = self.run_of(files) else {
                    continue;
                };
                let segments: Vec<u64> = run.iter().map(|it| it.meta.file_id).collect();
                return Some(Job::Rewrite {
                    parts: vec![Part {
                        window,
                        own: true,
                        segments: segments.clone(),
                    }],
                    segments,
                });
            }
        }
        None
    }

    /// Partitions of one table that are sparse even together.
    fn widen_job(&self) -> Option<Job> {
        if self.windows_busy {
            return None;
        }
        let homes = self.homes();
        let rows_of = |window: &Window| -> u64 {
            let own = homes.get(window).map(Vec::as_slice).unwrap_or_default();
            own.iter().map(|it| it.meta.rows).sum()
        };
        for window in self.windows {
            if rows_of(window) >= self.options.widen_rows_max {
                continue;
            }
            let Some(interval) = (self.interval_of)(window.table) else {
                continue;
            };
            let mut width = interval;
            while width < interval.saturating_mul(WIDEST) {
                width = width.saturating_mul(WIDEN_FACTOR);
                let to = aligned(window.table, width, window.start);
                if to.start > window.start || to.end < window.end {
                    continue;
                }
                let inside: Vec<Window> = self.windows_from(&to).collect();
                let whole = inside
                    .iter()
                    .all(|it| it.start >= to.start && it.end <= to.end);
                let rows: u64 = inside.iter().map(rows_of).sum();
                // What was written for few bytes on command stays apart, so that it can become hot again by itself.
                let is_apart = inside.iter().any(|window| {
                    let own = homes.get(window).map(Vec::as_slice).unwrap_or_default();
                    let has_cold = own.iter().any(|it| it.tier() == Tier::Cold);
                    has_cold && (self.tier_of)(window).is_none()
                });
                if !whole || is_apart || rows >= self.options.widen_rows_max {
                    break;
                }
                let busy = inside.iter().any(|window| {
                    let own = homes.get(window).map(Vec::as_slice).unwrap_or_default();
                    own.iter().any(|it| (self.is_busy)(it.meta.file_id))
                });
                if inside.len() > 1 && !busy {
                    return Some(Job::Widen { from: inside, to });
                }
            }
        }
        None
    }

    /// Windows that overlap another, ascending.
    fn windows_from(&self, other: &Window) -> impl Iterator<Item = Window> {
        let floor = Window {
            end: i64::MIN,
            ..*other
        };
        let before = self.windows.range(..floor).next_back();
        let other = *other;
        before
            .into_iter()
            .chain(self.windows.range(floor..))
            .take_while(move |it| it.table <= other.table)
            .filter(move |it| {
                it.table == other.table && it.start <= other.last() && it.last() >= other.start
            })
            .copied()
    }

    /// A segment with deleted rows, once there is time for it or deletes pile up.
    fn delete_job(&self) -> Option<Job> {
        const TOMBSTONES_MAX: usize = 64;
        if !self.idle && self.tombstones.len() <= TOMBSTONES_MAX {
            return None;
        }
        let segment = self
            .free()
            .filter(|segment| !(self.is_damaged)(segment.meta.file_id))
            .find(|segment| self.tombstones.iter().any(|it| segment.waits_for(it)))?;
        self.alone(segment)
    }
}

/// About where a table's rows are in time.
#[derive(Debug, Default)]
struct Spread {
    /// By start of windows of the table's interval: about how many rows.
    starts: BTreeMap<i64, u64>,
    /// Groups of more windows than are worth listing: first time, last time and rows.
    wide: Vec<(i64, i64, u64)>,
}

impl Spread {
    /// Adds a group. Where in a group of several windows its rows are is not looked at: in each as many.
    fn add(&mut self, min_time: i64, max_time: i64, rows: u64, interval: i64) {
        let (first, last) = (min_time.div_euclid(interval), max_time.div_euclid(interval));
        if last.abs_diff(first) > WIDEST.unsigned_abs() {
            self.wide.push((min_time, max_time, rows));
            return;
        }
        let rows = (rows / (last.abs_diff(first) + 1)).max(1);
        for at in first..=last {
            *self.starts.entry(at.saturating_mul(interval)).or_default() += rows;
        }
    }

    /// Every time that a row may have, as first and last times, ascending and apart.
    fn stretches(&self, interval: i64) -> Vec<(i64, i64)> {
        let starts = self.starts.keys();
        let counted = starts.map(|&start| (start, start.saturating_add(interval - 1)));
        let wide = self.wide.iter().map(|&(first, last, _)| (first, last));
        let mut all: Vec<(i64, i64)> = counted.chain(wide).collect();
        all.sort_unstable();
        let mut stretches: Vec<(i64, i64)> = Vec::new();
        for (first, last) in all {
            match stretches.last_mut() {
                Some((_, end)) if first <= *end => *end = last.max(*end),
                _ => stretches.push((first, last)),
            }
        }
        stretches
    }

    /// About how many rows of wide groups are in so much time from `at` on.
    fn about(&self, at: i64, width: i64) -> u64 {
        let around = self.wide.iter();
        let around = around.filter(|(first, last, _)| (*first..=*last).contains(&at));
        let rows = around.map(|(first, last, rows)| {
            let all = u128::from(last.abs_diff(*first)) + 1;
            let part = u128::from(width.unsigned_abs()).min(all);
            u64::try_from(u128::from(*rows) * part / all).unwrap_or(*rows)
        });
        rows.sum()
    }
}

/// Whether a delete takes every row of this time, whatever its series.
pub(crate) fn covers(tombstone: &Tombstone, time: RangeInclusive<i64>) -> bool {
    matches!(
        &tombstone.what,
        Deleted::Range { series: None, time: range }
            if range.start() <= time.start() && time.end() <= range.end()
    )
}

/// The window of this width, counted from time 0, that holds `at`.
fn aligned(table: TableId, width: i64, at: i64) -> Window {
    // In 128 bits, so that the first and the last window are cut off and not moved.
    let start = i128::from(at.div_euclid(width)) * i128::from(width);
    let end = start + i128::from(width);
    Window {
        table,
        start: i64::try_from(start).unwrap_or(i64::MIN),
        end: i64::try_from(end).unwrap_or(i64::MAX),
    }
}

/// A new window that holds `at`, without what its neighbours have.
fn clipped(window: Window, at: i64, existing: &[Window], reached: i64) -> Window {
    let before = existing.iter().filter(|other| other.last() < at);
    let floor = before.map(|other| other.end).max().unwrap_or(i64::MIN);
    let after = existing.iter().filter(|other| other.start > at);
    let ceiling = after.map(|other| other.start).min().unwrap_or(i64::MAX);
    Window {
        start: window.start.max(floor).max(reached),
        end: window.end.min(ceiling),
        ..window
    }
}

/// Whether a segment may have rows of a window.
pub(crate) fn shares(segment: &Segment, window: &Window) -> bool {
    segment
        .groups(window.table)
        .any(|(_, group)| group.min_time <= window.last() && group.max_time >= window.start)
}

/// A window, divided where the rows of other files begin: what of a file that has no rows where they have is in one of the
/// results is on one side of theirs.
fn divided(window: &Window, others: &[&Arc<Segment>]) -> Vec<Window> {
    let groups = others.iter().flat_map(|it| it.groups(window.table));
    let starts = groups.map(|(_, group)| group.min_time);
    let inside = starts.filter(|&start| start > window.start && window.contains(start));
    let cuts: BTreeSet<i64> = inside.collect();
    let mut windows = Vec::new();
    let mut start = window.start;
    for cut in cuts {
        let end = cut;
        windows.push(Window {
            start,
            end,
            ..*window
        });
        start = cut;
    }
    windows.push(Window { start, ..*window });
    windows
}

fn sharing(run: &[&Arc<Segment>], window: &Window) -> Vec<u64> {
    run.iter()
        .filter(|segment| shares(segment, window))
        .map(|segment| segment.meta.file_id)
        .collect()
}
