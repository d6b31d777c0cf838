//! Rewrites of tables that are under way: which times are written to meanwhile, and who waits for the end of one.
//!
//! Does: collect the times that batches touch in a table that is copied, hold its writers up for the last step, say how far each
//! copy is. Does not: copy rows (`write/rewrite.rs` does), or outlive the process: a copy that a crash cut off begins anew.

use std::sync::Condvar;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::invalidation::spans::{join, spans};
use crate::batch::Batch;
use crate::catalogue::{Catalogue, is_unfinished};
use crate::engine::invalidation::noted::of_tombstone;
use crate::ranked::{Mutex, Rank, wait};
use crate::schema::TableId;

/// Ranges of time that a copy makes up for at most: what lies between the nearest is copied again with them.
const RANGES_MAX: usize = 64;
/// Times of one batch that lie further apart than that are ranges of their own: 1 s in nanoseconds.
const GAP_NS: i64 = 1_000_000_000;

/// How far a rewrite of a table is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewriteReport {
    /// The database, the schema and the table.
    pub table: [String; 3],
    /// Rows that were copied.
    pub rows: u64,
    /// Rows that there were when the copy began, about.
    pub rows_about: u64,
}

/// All rewrites of a store.
#[derive(Debug)]
pub(crate) struct Rewrites {
    /// Looked at first, so that a write costs nothing where there are none.
    count: AtomicUsize,
    running: Mutex<Vec<Running>>,
    released: Condvar,
}

#[derive(Debug)]
struct Running {
    /// The table under its old id; `None` = the copy has not begun.
    from: Option<TableId>,
    report: RewriteReport,
    touched: Vec<(i64, i64)>,
    is_held: bool,
}

impl Default for Rewrites {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            running: Mutex::new(Rank::Rewrites, Vec::new()),
            released: Condvar::new(),
        }
    }
}

/// One rewrite; its table can be written to and rewritten again once it is dropped.
#[derive(Debug)]
pub(crate) struct Rewriting<'a> {
    rewrites: &'a Rewrites,
    table: [String; 3],
}

impl Rewrites {
    /// Begins a rewrite of a table; `None` = there is one.
    pub(super) fn begin(&self, table: [String; 3]) -> Option<Rewriting<'_>> {
        let mut running = self.running.lock();
        if running.iter().any(|it| it.report.table == table) {
            return None;
        }
        running.push(Running {
            from: None,
            report: RewriteReport {
                table: table.clone(),
                rows: 0,
                rows_about: 0,
            },
            touched: Vec::new(),
            is_held: false,
        });
        self.count.store(running.len(), Ordering::Release);
        Some(Rewriting {
            rewrites: self,
            table,
        })
    }

    pub(super) fn report(&self) -> Vec<RewriteReport> {
        let running = self.running.lock();
        running.iter().map(|it| it.report.clone()).collect()
    }

    /// Notes the times that a batch touches. Under the sequencer, where the batch gets its LSN.
    pub(super) fn touch(&self, batch: &Batch) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut running = self.running.lock();
        for it in running.iter_mut() {
            let Some(from) = it.from else { continue };
            let before = it.touched.len();
            for rows in batch.tables.iter().filter(|rows| rows.table == from) {
                it.touched.extend(spans(&rows.times, GAP_NS, i64::MAX));
            }
            let deletes = batch.tombstones.iter();
            for tombstone in deletes.filter(|tombstone| tombstone.table == from) {
                it.touched.extend(of_tombstone(tombstone, GAP_NS));
            }
            if it.touched.len() > before {
                it.touched = join(std::mem::take(&mut it.touched), RANGES_MAX);
            }
        }
    }

    /// Whether there are any.
    pub(super) fn are_running(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// Waits while writers of a table of the batch are held up.
    pub(super) fn wait(&self, batch: &Batch) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut running = self.running.lock();
        while running.iter().any(|it| it.holds(batch)) {
            running = wait(&self.released, running);
        }
    }

    /// Whether they are. Under the sequencer.
    pub(super) fn holds(&self, batch: &Batch) -> bool {
        self.count.load(Ordering::Acquire) > 0
            && self.running.lock().iter().any(|it| it.holds(batch))
    }
}

impl Running {
    fn holds(&self, batch: &Batch) -> bool {
        let is_own = |table| self.is_held && self.from == Some(table);
        batch.tables.iter().any(|rows| is_own(rows.table))
            || batch.tombstones.iter().any(|it| is_own(it.table))
    }
}

impl Rewriting<'_> {
    fn change<T>(&self, change: impl FnOnce(&mut Running) -> T) -> Option<T> {
        let mut running = self.rewrites.running.lock();
        let mut all = running.iter_mut();
        all.find(|it| it.report.table == self.table).map(change)
    }

    /// From here on the times that are written to are noted. Under the sequencer.
    pub(super) fn watch(&self, from: TableId) {
        self.change(|it| {
            it.from = Some(from);
            it.touched.clear();
            it.is_held = false;
            it.report.rows = 0;
        });
    }

    /// Takes the ranges of time that were touched since the last call. Under the sequencer.
    pub(super) fn take_touched(&self) -> Vec<(i64, i64)> {
        self.change(|it| std::mem::take(&mut it.touched))
            .unwrap_or_default()
    }

    /// From here on writers of the table wait until this is dropped, or [`Self::watch`] is called again. Under the sequencer.
    pub(super) fn hold(&self) {
        self.change(|it| it.is_held = true);
    }

    /// Lets writers go on.
    pub(crate) fn release(&self) {
        self.change(|it| {
            it.is_held = false;
            it.from = None;
        });
        self.rewrites.released.notify_all();
    }

    pub(crate) fn expect(&self, rows: u64) {
        self.change(|it| it.report.rows_about = rows);
    }

    pub(crate) fn count(&self, rows: u64) {
        self.change(|it| it.report.rows += rows);
    }
}

impl Drop for Rewriting<'_> {
    fn drop(&mut self) {
        let mut running = self.rewrites.running.lock();
        running.retain(|it| it.report.table != self.table);
        self.rewrites.count.store(running.len(), Ordering::Release);
        drop(running);
        self.rewrites.released.notify_all();
    }
}

/// Copies that an earlier process has not finished.
#[derive(Debug)]
pub(crate) struct Unfinished {
    ids: Vec<TableId>,
    /// They were dropped.
    is_done: AtomicBool,
}

impl Unfinished {
    /// Those of a store that is opened.
    pub(crate) fn of(catalogue: &Catalogue) -> Self {
        let all = catalogue.live_tables();
        let ids = all.filter(|it| is_unfinished(&it.name)).map(|it| it.id);
        Self {
            ids: ids.collect(),
            is_done: AtomicBool::new(false),
        }
    }

    /// The first time these, then none.
    pub(super) fn take(&self) -> &[TableId] {
        if self.is_done.swap(true, Ordering::Relaxed) {
            return &[];
        }
        &self.ids
    }
}
