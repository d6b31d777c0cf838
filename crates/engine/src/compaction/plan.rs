//! Which segments to rewrite together, and where their rows go. Pure: looks at what segments say of themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::CompactionOptions;
use crate::schema::TableId;
use crate::segment::{Home, Segment, WIDEN_FACTOR, WIDEST, Window};
use crate::tombstone::{Deleted, Tombstone};

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
    /// Rows of a segment as a flush makes it.
    pub(crate) flush_rows: u64,
    pub(crate) options: &'a CompactionOptions,
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
        let run = self.run_of(mixed).or_else(|| {
            let worth = self.idle && rows(mixed) >= self.options.partition_rows_min;
            let some = mixed.get(..mixed.len().min(self.options.fan_in.saturating_mul(2)))?;
            (worth && !some.is_empty()).then_some(some)
        })?;
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

    /// Neighbours of a like size, oldest first: enough of them that rewriting the largest pays.
    fn run_of<'s>(&self, files: &'s [&'s Arc<Segment>]) -> Option<&'s [&'s Arc<Segment>]> {
        let fan_in = self.options.fan_in.max(2);
        let tier = |segment: &Segment| {
            let base = self.flush_rows.max(1);
            let times = (segment.meta.rows / base).max(1);
            times.ilog(u64::try_from(fan_in).unwrap_or(2))
        };
        let highest = files.iter().map(|it| tier(it)).max()?;
        for level in 0..=highest {
            for run in files.split(|it| tier(it) > level) {
                let run = run
                    .get(..run.len().min(fan_in.saturating_mul(2)))
                    .unwrap_or(run);
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
        // By table: rows of each default window.
        let mut tables: BTreeMap<TableId, BTreeMap<i64, u64>> = BTreeMap::new();
        for segment in run {
            for (_, group) in segment.all_groups() {
                let Some(interval) = (self.interval_of)(group.table) else {
                    continue;
                };
                let first = group.min_time.div_euclid(interval);
                let last = group.max_time.div_euclid(interval);
                let table = tables.entry(group.table).or_default();
                // Where in a group of several windows its rows are is not looked at: in each as many.
                let end = last.min(first.saturating_add(WIDEST));
                let rows = (group.rows / end.abs_diff(first).saturating_add(1)).max(1);
                for at in first..=end {
                    *table.entry(at.saturating_mul(interval)).or_default() += rows;
                }
                if last > end {
                    *table.entry(last.saturating_mul(interval)).or_default() += rows;
                }
            }
        }
        let mut parts = Vec::new();
        for (table, starts) in tables {
            let interval = (self.interval_of)(table).unwrap_or(1);
            self.cut(table, interval, &starts, run, &mut parts);
        }
        parts
    }

    /// Cuts a table's time, from its first to its last row here, into windows: those that exist, and new ones between.
    fn cut(
        &self,
        table: TableId,
        interval: i64,
        starts: &BTreeMap<i64, u64>,
        run: &[&Arc<Segment>],
        parts: &mut Vec<Part>,
    ) {
        let existing: Vec<Window> = self
            .windows
            .iter()
            .filter(|window| window.table == table)
            .copied()
            .collect();
        let mut reached = i64::MIN;
        for (&start, &rows) in starts {
            let last = start.saturating_add(interval - 1);
            // The default window may be covered by several that exist, and by gaps between them.
            let mut at = start.max(reached);
            while at <= last {
                let known = existing.iter().find(|window| window.contains(at));
                let (window, own) = match known {
                    Some(known) => (*known, true),
                    None => self.new_window(table, interval, at, rows, starts, &existing, reached),
                };
                let segments = sharing(run, &window);
                if !segments.is_empty() {
                    for segments in self.unbroken(&window, &segments, own) {
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
        let clip = |window: Window| {
            let before = existing.iter().filter(|other| other.last() < at);
            let floor = before.map(|other| other.end).max().unwrap_or(i64::MIN);
            let after = existing.iter().filter(|other| other.start > at);
            let ceiling = after.map(|other| other.start).min().unwrap_or(i64::MAX);
            Window {
                table,
                start: window.start.max(floor).max(reached),
                end: window.end.min(ceiling),
            }
        };
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

    /// Divides segments with rows of a window so that no other file with such rows stands between them.
    fn unbroken(&self, window: &Window, segments: &[u64], own: bool) -> Vec<Vec<u64>> {
        if !own {
            // There is no such other file: the window has no partition, and mixed segments are taken as neighbours.
            return vec![segments.to_vec()];
        }
        let mut runs: Vec<Vec<u64>> = Vec::new();
        let mut broken = true;
        for segment in self.segments {
            let id = segment.meta.file_id;
            if segments.contains(&id) {
                match runs.last_mut() {
                    Some(run) if !broken => run.push(id),
                    _ => runs.push(vec![id]),
                }
                broken = false;
            } else if shares(segment, window) {
                broken = true;
            }
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
            let barrier = |segment: &Segment| {
                let id = segment.meta.file_id;
                segment.meta.home == Home::Mixed || (self.is_busy)(id) || (self.is_damaged)(id)
            };
            for files in sharing.split(|segment| barrier(segment)) {
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
                if !whole || rows >= self.options.widen_rows_max {
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
        let id = segment.meta.file_id;
        let parts = match segment.meta.home {
            Home::Partition(home) => vec![Part {
                window: self.windows_from(&home).next().unwrap_or(home),
                own: true,
                segments: vec![id],
            }],
            Home::Mixed if self.windows_busy => return None,
            Home::Mixed => self.parts_of(&[segment]),
        };
        Some(Job::Rewrite {
            segments: vec![id],
            parts,
        })
    }
}

/// Whether a delete takes every row of this time, whatever its series.
fn covers(tombstone: &Tombstone, time: RangeInclusive<i64>) -> bool {
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

/// Whether a segment may have rows of a window.
pub(crate) fn shares(segment: &Segment, window: &Window) -> bool {
    segment
        .groups(window.table)
        .any(|(_, group)| group.min_time <= window.last() && group.max_time >= window.start)
}

fn sharing(run: &[&Arc<Segment>], window: &Window) -> Vec<u64> {
    run.iter()
        .filter(|segment| shares(segment, window))
        .map(|segment| segment.meta.file_id)
        .collect()
}
