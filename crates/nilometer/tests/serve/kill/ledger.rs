//! What became of each batch, and the comparison with what a server holds.
//!
//! A batch is sixteen rows of the table `ledger` and one row of `latest`, which every batch of its writer overwrites:
//! so a lost, doubled, torn or reordered batch shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::support::{Row, Server};

pub(super) const DB: &str = "kills";
pub(super) const WRITERS: usize = 2;
/// Rows of one batch in the table `ledger`.
pub(super) const BATCH_ROWS: i64 = 16;

/// 2016-01-01, and a minute for each batch, so that a run spreads over several days.
const FIRST_NS: i64 = 1_451_606_400_000_000_000;
const BATCH_NS: i64 = 60_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Sent; no answer came.
    Unknown,
    /// Answered with 204, or shown by a query, or found after a restart: it must be there for ever.
    Kept,
    /// Not found after a restart: it must never appear.
    Lost,
}

/// The fates of all batches, by writer and number.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    fates: [BTreeMap<i64, Fate>; WRITERS],
    acknowledged: u64,
    unanswered_kept: usize,
    unanswered_lost: usize,
    checks: usize,
}

/// The ledger, also after a panic elsewhere: what it holds is still true.
pub(super) fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The line protocol of a batch.
pub(super) fn lines(writer: usize, batch: i64) -> String {
    let mut lines = String::new();
    for slot in 0..BATCH_ROWS {
        let time = FIRST_NS + batch * BATCH_NS + slot;
        writeln!(
            lines,
            "ledger,writer=w{writer} batch={batch}i,slot={slot}i {time}"
        )
        .expect("a string takes all");
    }
    writeln!(lines, "latest,writer=w{writer} batch={batch}i {FIRST_NS}")
        .expect("a string takes all");
    lines
}

/// Writer and batch of a row.
pub(super) fn identity(row: &Row) -> (usize, i64) {
    let writer = row["writer"]
        .as_str()
        .and_then(|writer| writer.strip_prefix('w')?.parse().ok());
    match (writer, row["batch"].as_i64()) {
        (Some(writer), Some(batch)) if writer < WRITERS => (writer, batch),
        _ => panic!("no batch of ours: {row:?}"),
    }
}

impl Ledger {
    /// Notes a batch before it is sent and returns its number.
    pub(super) fn begin(&mut self, writer: usize) -> i64 {
        let batch = self.next(writer);
        self.fates[writer].insert(batch, Fate::Unknown);
        batch
    }

    /// The number the next batch of a writer will have.
    pub(super) fn next(&self, writer: usize) -> i64 {
        self.fates[writer]
            .last_key_value()
            .map_or(0, |(batch, _)| batch + 1)
    }

    /// Notes the answer 204.
    pub(super) fn acknowledge(&mut self, writer: usize, batch: i64) {
        self.fates[writer].insert(batch, Fate::Kept);
        self.acknowledged += 1;
    }

    /// Notes that a query has shown a batch; it may have no answer yet.
    pub(super) fn show(&mut self, writer: usize, batch: i64) {
        let fate = self.fates[writer]
            .get_mut(&batch)
            .expect("only batches that were sent are shown");
        assert_ne!(
            *fate,
            Fate::Lost,
            "batch {batch} of writer {writer} was lost and appeared"
        );
        *fate = Fate::Kept;
    }

    /// The batches of a writer that must be visible now, from a number on.
    pub(super) fn kept_from(&self, writer: usize, first: i64) -> Vec<i64> {
        self.fates[writer]
            .range(first..)
            .filter(|(_, fate)| **fate == Fate::Kept)
            .map(|(batch, _)| *batch)
            .collect()
    }

    /// How many batches were answered with 204.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The figures of a run.
    pub(super) fn summary(&self) -> String {
        let Self {
            acknowledged,
            unanswered_kept,
            unanswered_lost,
            checks,
            ..
        } = self;
        format!(
            "checks={checks} acknowledged={acknowledged} unanswered_kept={unanswered_kept} \
             unanswered_lost={unanswered_lost}"
        )
    }

    /// Compares with a server that has just started, and settles the fate of every batch without an answer.
    pub(super) fn check(&mut self, server: &Server, when: &str) {
        let found = found(server, when);
        for (writer, fates) in self.fates.iter_mut().enumerate() {
            for (&batch, fate) in fates.iter_mut() {
                let is_found = found.contains(&(writer, batch));
                match (*fate, is_found) {
                    (Fate::Kept, false) => {
                        panic!("{when}: acknowledged batch {batch} of writer {writer} is missing")
                    }
                    (Fate::Lost, true) => {
                        panic!("{when}: lost batch {batch} of writer {writer} appeared")
                    }
                    (Fate::Unknown, true) => {
                        *fate = Fate::Kept;
                        self.unanswered_kept += 1;
                    }
                    (Fate::Unknown, false) => {
                        *fate = Fate::Lost;
                        self.unanswered_lost += 1;
                    }
                    (Fate::Kept, true) | (Fate::Lost, false) => {}
                }
            }
        }
        for &(writer, batch) in &found {
            assert!(
                self.fates[writer].contains_key(&batch),
                "{when}: batch {batch} of writer {writer} was never sent"
            );
        }
        self.check_latest(server, when);
        check_totals(server, found.len() as i64, when);
        self.checks += 1;
    }

    /// The row that every batch overwrites has the newest batch: the order of writes survives.
    fn check_latest(&self, server: &Server, when: &str) {
        let rows = server.query(DB, "SELECT writer, batch FROM latest ORDER BY writer");
        let got: Vec<(usize, i64)> = rows.iter().map(identity).collect();
        let newest = |writer: usize| Some((writer, *self.kept_from(writer, 0).last()?));
        let want: Vec<(usize, i64)> = (0..WRITERS).filter_map(newest).collect();
        assert_eq!(got, want, "{when}: the newest batch of each writer");
    }
}

/// The batches a server holds, each of them checked to be whole and there once.
fn found(server: &Server, when: &str) -> BTreeSet<(usize, i64)> {
    let sql = "SELECT writer, batch, count(*) AS rows, count(DISTINCT slot) AS slots, min(slot) AS first, \
               max(slot) AS last, count(DISTINCT time) AS times FROM ledger GROUP BY writer, batch";
    let whole = [BATCH_ROWS, BATCH_ROWS, 0, BATCH_ROWS - 1, BATCH_ROWS].map(Value::from);
    let check = |row: &Row| {
        let values = ["rows", "slots", "first", "last", "times"].map(|column| row[column].clone());
        assert_eq!(
            values, whole,
            "{when}: torn or duplicated (rows, slots, first, last, times): {row:?}"
        );
        identity(row)
    };
    let rows = server.query(DB, sql);
    let found: BTreeSet<_> = rows.iter().map(check).collect();
    assert_eq!(found.len(), rows.len(), "{when}: a batch forms two groups");
    found
}

/// The same from whole-table aggregates, which may be answered from statistics instead of rows.
fn check_totals(server: &Server, batches: i64, when: &str) {
    let rows = server.query(
        DB,
        "SELECT count(*) AS rows, sum(slot) AS slots FROM ledger",
    );
    let want = [
        batches * BATCH_ROWS,
        batches * (BATCH_ROWS * (BATCH_ROWS - 1) / 2),
    ]
    .map(Value::from);
    assert_eq!(
        [rows[0]["rows"].clone(), rows[0]["slots"].clone()],
        want,
        "{when}: (rows, sum of slots)"
    );
}
