//! The head: rows that are in the log but not yet in a segment.
//!
//! Does: keep runs of rows in arrival order, which is LSN order, and hand out what a snapshot may see. Does not:
//! touch the disk or assign LSNs.
//!
//! A run is immutable once it is in the list, so a reader holds it without a lock while writers go on. Small runs
//! are merged like an LSM tree's levels: a million one-row writes leave a few dozen runs, and each row is copied a
//! logarithmic number of times.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;

use crate::batch::{Batch, Column, TABLE_BYTES, TableRows, Values};
use crate::cast::cast;
use crate::kept_page::KeptPage;
use crate::order::sorted_order;
use crate::ranked::{Mutex, Rank};
use crate::schema::{ColumnId, Lsn, TableId};
use crate::tombstone::Tombstone;

/// Runs of this many rows are left alone.
const MERGE_ROWS_MAX: usize = 8192;

/// Bytes of a row's texts from which on they are large; about as much as a segment keeps outside of its pages.
const LARGE_ON_AVERAGE: usize = 16 << 10;

/// Consecutive rows of one table.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) rows: TableRows,
    /// (LSN, rows up to its end), ascending.
    marks: Vec<(Lsn, usize)>,
    order: OnceLock<Vec<u32>>,
    /// First and last time.
    times: OnceLock<(i64, i64)>,
}

impl Run {
    fn new(lsn: Lsn, rows: TableRows) -> Self {
        Self {
            marks: vec![(lsn, rows.rows())],
            rows,
            order: OnceLock::new(),
            times: OnceLock::new(),
        }
    }

    /// The rows in the order (series, time, LSN); sorted once, at the first look.
    pub(crate) fn order(&self) -> &[u32] {
        self.order
            .get_or_init(|| sorted_order(&self.rows.series, &self.rows.times))
    }

    /// How many of its first rows are of these series, which ascend, about: of all series from the first to the last.
    pub(crate) fn rows_of(&self, visible: usize, series: &[u32]) -> usize {
        let (Some(&first), Some(&last)) = (series.first(), series.last()) else {
            return 0;
        };
        let order = self.order();
        let id = |row: u32| self.rows.series.get(row as usize).copied();
        let start = order.partition_point(|&row| id(row) < Some(first));
        let end = order.partition_point(|&row| id(row) <= Some(last));
        (end - start).min(visible)
    }

    /// Bytes of the texts and bytes of columns for so many rows, if they are large on average; else nothing.
    pub(crate) fn large_bytes(&self, visible: usize, is_asked: impl Fn(ColumnId) -> bool) -> u64 {
        let texts = self
            .rows
            .columns
            .iter()
            .filter(|column| is_asked(column.id));
        let bytes: usize = texts
            .filter_map(|column| match &column.values {
                Values::Text(strings) | Values::Bytes(strings) => Some(strings.bytes.len()),
                _ => None,
            })
            .sum();
        let each = bytes / self.rows.rows().max(1);
        if each < LARGE_ON_AVERAGE {
            return 0;
        }
        (each * visible) as u64
    }

    /// How many rows, from the start, have an LSN up to `visible`.
    pub(crate) fn visible_rows(&self, visible: Lsn) -> usize {
        let marks = self.marks.partition_point(|(lsn, _)| *lsn <= visible);
        let last = marks.checked_sub(1).and_then(|at| self.marks.get(at));
        last.map_or(0, |(_, end)| *end)
    }

    /// First and last time of its rows; looked for once, when first asked.
    pub(crate) fn times(&self) -> RangeInclusive<i64> {
        let (first, last) = *self.times.get_or_init(|| {
            let times = || self.rows.times.iter().copied();
            (
                times().min().unwrap_or(i64::MAX),
                times().max().unwrap_or(i64::MIN),
            )
        });
        first..=last
    }

    /// One run with the rows of both, `before` first. If nobody reads that one, its rows stay where they are.
    fn joined(before: Arc<Self>, next: &Self) -> Self {
        let before = Arc::try_unwrap(before);
        let (mut rows, mut marks) = match before {
            Ok(own) => (own.rows, own.marks),
            Err(shared) => (shared.rows.clone(), shared.marks.clone()),
        };
        let offset = rows.rows();
        append_rows(&mut rows, &next.rows);
        marks.extend(next.marks.iter().map(|(lsn, end)| (*lsn, end + offset)));
        Self {
            rows,
            marks,
            order: OnceLock::new(),
            times: OnceLock::new(),
        }
    }
}

/// Adds the rows of `from` to `to`; columns that one side lacks are null there.
pub(crate) fn append_rows(to: &mut TableRows, from: &TableRows) {
    let before = to.rows();
    let added = from.rows();
    to.series.extend_from_slice(&from.series);
    to.times.extend_from_slice(&from.times);
    for column in &from.columns {
        let at = to.columns.iter().position(|known| known.id == column.id);
        let at = at.unwrap_or_else(|| {
            let mut new = Column::new(column.id, column.values.kind());
            new.pad(before);
            to.columns.push(new);
            to.columns.len() - 1
        });
        if let Some(known) = to.columns.get_mut(at) {
            // The later rows were written after the field got its other type, and the earlier ones convert to it.
            if known.values.kind() != column.values.kind() {
                *known = cast(known, column.values.kind());
            }
            known.extend_range(column, 0..added);
        }
    }
    for column in &mut to.columns {
        column.pad(before + added);
    }
}

/// Rows since the last freeze.
#[derive(Debug)]
pub(crate) struct Head {
    tables: Mutex<FxHashMap<TableId, Vec<Arc<Run>>>>,
    /// Deletes since the last freeze.
    tombstones: Mutex<Tombstones>,
    /// Flash pages that some of its rows come from, in the order of their LSNs.
    pages: Mutex<Vec<Arc<KeptPage>>>,
    rows: AtomicU64,
    bytes: AtomicU64,
    /// The last LSN that it may hold, once it takes no more.
    end: OnceLock<Lsn>,
}

/// Deletes in LSN order: all, and those of each table.
#[derive(Debug, Clone, Default)]
struct Tombstones {
    all: Vec<Arc<Tombstone>>,
    by_table: FxHashMap<TableId, Vec<Arc<Tombstone>>>,
}

impl Tombstones {
    fn push(&mut self, tombstone: Arc<Tombstone>) {
        let own = self.by_table.entry(tombstone.table).or_default();
        own.push(Arc::clone(&tombstone));
        self.all.push(tombstone);
    }
}

fn up_to(tombstones: &[Arc<Tombstone>], visible: Lsn) -> Vec<Arc<Tombstone>> {
    let concerned = tombstones.iter().take_while(|it| it.lsn <= visible);
    concerned.map(Arc::clone).collect()
}

impl Default for Head {
    fn default() -> Self {
        Self {
            tables: Mutex::new(Rank::HeadTables, FxHashMap::default()),
            tombstones: Mutex::new(Rank::HeadTombstones, Tombstones::default()),
            pages: Mutex::new(Rank::HeadPages, Vec::new()),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            end: OnceLock::new(),
        }
    }
}

impl Head {
    /// It takes no more rows, and holds none above `lsn`.
    pub(crate) fn freeze(&self, lsn: Lsn) {
        self.end.get_or_init(|| lsn);
    }

    /// The last LSN that it may hold; `None` = it still takes rows.
    pub(crate) fn end(&self) -> Option<Lsn> {
        self.end.get().copied()
    }

    /// Adds a batch. The caller holds the sequencer, so batches arrive in LSN order. `out_of_order` is a planted bug.
    pub(crate) fn insert(&self, lsn: Lsn, batch: Batch, out_of_order: bool) {
        for tombstone in batch.tombstones {
            self.bytes
                .fetch_add(tombstone.bytes() as u64, Ordering::Relaxed);
            self.tombstones.lock().push(Arc::new(tombstone));
        }
        for page in batch.pages {
            self.bytes
                .fetch_add(page.memory() as u64, Ordering::Relaxed);
            self.pages.lock().push(page);
        }
        let mut tables = self.tables.lock();
        for rows in batch.tables {
            self.rows.fetch_add(rows.rows() as u64, Ordering::Relaxed);
            self.bytes.fetch_add(rows.bytes() as u64, Ordering::Relaxed);
            let runs = tables.entry(rows.table).or_default();
            if runs.is_empty() {
                self.bytes.fetch_add(TABLE_BYTES as u64, Ordering::Relaxed);
            }
            let at = runs.len().saturating_sub(usize::from(out_of_order));
            runs.insert(at, Arc::new(Run::new(lsn, rows)));
            merge_small(runs);
        }
    }

    /// One with the same rows and deletes, to which others are added.
    pub(crate) fn copied(&self) -> Self {
        let tables = self.tables.lock().clone();
        let tombstones = self.tombstones.lock().clone();
        let pages = self.pages();
        Self {
            tables: Mutex::new(Rank::HeadTables, tables),
            tombstones: Mutex::new(Rank::HeadTombstones, tombstones),
            pages: Mutex::new(Rank::HeadPages, pages),
            rows: AtomicU64::new(self.rows()),
            bytes: AtomicU64::new(self.bytes()),
            end: OnceLock::new(),
        }
    }

    /// The same with other ids of series.
    pub(crate) fn with_series(&self, id_of: impl Fn(u32) -> u32) -> Self {
        let mut tables = self.tables.lock().clone();
        for run in tables.values_mut().flatten() {
            let mut rows = run.rows.clone();
            rows.series.iter_mut().for_each(|id| *id = id_of(*id));
            *run = Arc::new(Run {
                rows,
                marks: run.marks.clone(),
                order: OnceLock::new(),
                times: OnceLock::new(),
            });
        }
        let before = self.tombstones.lock().all.clone();
        let mut tombstones = Tombstones::default();
        for tombstone in before {
            tombstones.push(Arc::new(tombstone.with_series(&id_of)));
        }
        let pages = self.pages().into_iter();
        let pages = pages.map(|page| Arc::new(page.with_series(&id_of)));
        let pages = pages.collect();
        Self {
            tables: Mutex::new(Rank::HeadTables, tables),
            tombstones: Mutex::new(Rank::HeadTombstones, tombstones),
            pages: Mutex::new(Rank::HeadPages, pages),
            rows: AtomicU64::new(self.rows()),
            bytes: AtomicU64::new(self.bytes()),
            end: OnceLock::new(),
        }
    }

    /// The runs of a table with a row up to `visible`, in LSN order, and how many of their rows count.
    pub(crate) fn runs(&self, table: TableId, visible: Lsn) -> Vec<(Arc<Run>, usize)> {
        let tables = self.tables.lock();
        let runs = tables.get(&table).map(Vec::as_slice).unwrap_or_default();
        runs.iter()
            .map(|run| (Arc::clone(run), run.visible_rows(visible)))
            .filter(|(_, rows)| *rows > 0)
            .collect()
    }

    /// Whether some of its rows come from flash pages.
    pub(crate) fn has_pages(&self) -> bool {
        !self.pages.lock().is_empty()
    }

    /// Flash pages that some of its rows come from.
    pub(crate) fn pages(&self) -> Vec<Arc<KeptPage>> {
        self.pages.lock().clone()
    }

    /// Deletes up to `visible`, in LSN order.
    pub(crate) fn tombstones(&self, visible: Lsn) -> Vec<Arc<Tombstone>> {
        up_to(&self.tombstones.lock().all, visible)
    }

    /// Those in a table. A statement that deletes from ten thousand tables leaves as many, and each table is asked for its own.
    pub(crate) fn tombstones_in(&self, table: TableId, visible: Lsn) -> Vec<Arc<Tombstone>> {
        let tombstones = self.tombstones.lock();
        let own = tombstones.by_table.get(&table);
        own.map_or_else(Vec::new, |own| up_to(own, visible))
    }

    /// Deletes above `lsn`, in LSN order.
    pub(crate) fn tombstones_after(&self, lsn: Lsn) -> Vec<Arc<Tombstone>> {
        let tombstones = self.tombstones.lock();
        let start = tombstones.all.partition_point(|it| it.lsn <= lsn);
        tombstones.all.get(start..).unwrap_or_default().to_vec()
    }

    /// Tables with rows, ascending.
    pub(crate) fn tables(&self) -> Vec<TableId> {
        let tables = self.tables.lock();
        let mut ids: Vec<_> = tables.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Merges the last two runs while both are small and of similar size.
fn merge_small(runs: &mut Vec<Arc<Run>>) {
    while let [.., before, last] = runs.as_slice() {
        let (a, b) = (before.rows.rows(), last.rows.rows());
        if a.max(b) >= MERGE_ROWS_MAX || a > 2 * b || !same_types(&before.rows, &last.rows) {
            return;
        }
        if let (Some(last), Some(before)) = (runs.pop(), runs.pop()) {
            runs.push(Arc::new(Run::joined(before, &last)));
        }
    }
}

/// Whether both have the columns that they share as one type. A run keeps the type that its rows were written as: a
/// snapshot from before a change of type may still see values that were overwritten since and do not convert.
fn same_types(a: &TableRows, b: &TableRows) -> bool {
    a.columns.iter().all(|column| {
        let other = b.columns.iter().find(|other| other.id == column.id);
        other.is_none_or(|other| other.values.kind() == column.values.kind())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Validity, Values};
    use crate::schema::ColumnId;

    fn one_row(time: i64) -> Batch {
        Batch {
            tables: vec![TableRows {
                table: TableId(1),
                series: vec![1],
                times: vec![time],
                columns: vec![Column {
                    id: ColumnId(1),
                    values: Values::I64(vec![time]),
                    validity: Validity::all(1),
                }],
            }],
            ..Batch::default()
        }
    }

    #[test]
    fn many_small_writes_leave_few_runs() {
        let head = Head::default();
        for lsn in 1..=5000 {
            head.insert(lsn, one_row(lsn as i64), false);
        }
        let runs = head.runs(TableId(1), 5000);
        assert!(runs.len() < 20, "{} runs", runs.len());
        let times: Vec<i64> = runs
            .iter()
            .flat_map(|(run, _)| run.rows.times.clone())
            .collect();
        assert_eq!(times, (1..=5000).collect::<Vec<_>>());
    }

    /// Every table went over the deletes of all: after a delete from ten thousand tables each statement that lists them took
    /// ten thousand times ten thousand steps.
    #[test]
    fn a_table_has_its_own_deletes() {
        let head = Head::default();
        for lsn in 1..=60_u64 {
            let tombstone = Tombstone {
                lsn,
                table: TableId(1 + (lsn * lsn % 7) as u32),
                what: crate::tombstone::Deleted::Range {
                    series: None,
                    time: 0..=lsn as i64,
                },
            };
            let batch = Batch {
                tombstones: vec![tombstone],
                ..Batch::default()
            };
            head.insert(lsn, batch, false);
        }
        for head in [&head, &head.copied(), &head.with_series(|id| id)] {
            for visible in [0, 1, 30, 60, Lsn::MAX] {
                let all = head.tombstones(visible);
                assert_eq!(all.len() as u64, visible.min(60));
                for table in (0..9).map(TableId) {
                    let mut expected = all.clone();
                    expected.retain(|it| it.table == table);
                    assert_eq!(head.tombstones_in(table, visible), expected);
                }
            }
        }
    }

    #[test]
    fn a_merged_run_still_hides_what_is_not_visible() {
        let head = Head::default();
        for lsn in 1..=100 {
            head.insert(lsn, one_row(lsn as i64), false);
        }
        for visible in 0..=100 {
            let rows: usize = head
                .runs(TableId(1), visible)
                .iter()
                .map(|(_, rows)| rows)
                .sum();
            assert_eq!(rows, visible as usize);
        }
    }
}
