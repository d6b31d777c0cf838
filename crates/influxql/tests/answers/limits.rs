//! Promise: a SELECT ends when it is told to, takes no more memory than it is given, gives it back, and makes no more buckets
//! than it may.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nilometer_series::{Context, Limits, MemoryAccount, MemoryFull};

use crate::store::Store;

/// An account of so many bytes.
#[derive(Debug)]
struct Account {
    taken: AtomicUsize,
    /// The most that was ever taken.
    peak: AtomicUsize,
    most: usize,
    slice_rows: u64,
}

impl Account {
    fn of(most: usize, slice_rows: u64) -> Arc<Self> {
        Arc::new(Self {
            taken: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            most,
            slice_rows,
        })
    }
}

impl MemoryAccount for Account {
    fn charge(&self, bytes: usize) -> Result<(), MemoryFull> {
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.most {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
            return Err(MemoryFull {
                problem: "raise query-memory-mib".to_owned(),
            });
        }
        self.peak.fetch_max(before + bytes, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn slice_rows(&self) -> u64 {
        self.slice_rows
    }
}

/// 20,000 rows of four series.
fn store(context: Context) -> Store {
    let lines = (0..20_000).map(|row| {
        format!(
            "m,host=h{} v={row},n={row}i {}",
            row % 4,
            row * 1_000_000_000_i64
        )
    });
    let lines: Vec<String> = lines.collect();
    Store::with(lines.join("\n").as_bytes(), context)
}

const STATEMENTS: [&str; 6] = [
    "SELECT v, n FROM m",
    "SELECT v + n FROM m",
    "SELECT v % n FROM m",
    "SELECT percentile(v, 50) FROM m GROUP BY host",
    "SELECT derivative(v) FROM m",
    "SELECT percentile(x, 50) FROM (SELECT v * 2 AS x FROM m)",
];

#[test]
fn memory_has_an_end_and_is_given_back() {
    let account = Account::of(100_000, u64::MAX);
    let small = store(Context {
        memory: Arc::clone(&account) as _,
        ..Context::default()
    });
    let whole = store(Context::default());
    for text in STATEMENTS {
        assert_eq!(
            small.query(text).unwrap_err(),
            "raise query-memory-mib",
            "{text}"
        );
        assert_eq!(account.taken.load(Ordering::Relaxed), 0, "{text}");
        assert!(whole.query(text).is_ok(), "{text}");
    }
}

/// Answers with LIMIT beyond 64, calculations on rows and queries inside were once made as a whole before the first byte of
/// them went: twenty thousand rows of two columns and a time are 480 KB as columns, and more as values.
#[test]
fn rows_that_are_calculated_limited_or_filtered_are_answered_in_flat_memory() {
    let account = Account::of(usize::MAX, 1000);
    let store = store(Context {
        memory: Arc::clone(&account) as _,
        ..Context::default()
    });
    store.engine.flush().unwrap();
    store.engine.settle().unwrap();
    for (text, rows) in [
        ("SELECT v, n FROM m", 20_000),
        ("SELECT v + n, v / n FROM m", 20_000),
        ("SELECT v + n FROM m GROUP BY host", 20_000),
        ("SELECT v, n FROM m LIMIT 15000", 15_000),
        ("SELECT v, n FROM m ORDER BY time DESC LIMIT 15000", 15_000),
        ("SELECT v * 2 FROM m LIMIT 12000 OFFSET 5000", 12_000),
        (
            "SELECT v FROM m GROUP BY host LIMIT 3000 OFFSET 1000",
            12_000,
        ),
        ("SELECT v FROM m OFFSET 2000", 18_000),
        // Those of 0, 2, .. 100 are left out.
        (
            "SELECT x FROM (SELECT v * 2 AS x, n FROM m) WHERE x > 100",
            19_949,
        ),
        (
            "SELECT x FROM (SELECT v * 2 AS x FROM m) LIMIT 12000 OFFSET 10",
            12_000,
        ),
    ] {
        account.peak.store(0, Ordering::Relaxed);
        let answer = store.query(text).unwrap();
        let series = answer[0]["series"].as_array().unwrap();
        let found = series
            .iter()
            .map(|one| one["values"].as_array().unwrap().len());
        assert_eq!(found.sum::<usize>(), rows, "{text}");
        let peak = account.peak.load(Ordering::Relaxed);
        assert!(peak < 250_000, "{text}: {peak} bytes");
        assert_eq!(account.taken.load(Ordering::Relaxed), 0, "{text}");
    }
}

#[test]
fn a_cancelled_statement_ends() {
    let cancelled = store(Context {
        cancel: Arc::new(AtomicBool::new(true)),
        ..Context::default()
    });
    for text in STATEMENTS {
        assert_eq!(
            cancelled.query(text).unwrap_err(),
            "the query was cancelled",
            "{text}"
        );
    }
}

#[test]
fn buckets_are_counted_before_they_are_filled() {
    let store = store(Context {
        limits: Limits { buckets: 1000 },
        ..Context::default()
    });
    let text =
        "SELECT mean(v) FROM m WHERE time >= 0 AND time < 10000s GROUP BY time(1s) fill(none)";
    assert_eq!(
        store.query(text).unwrap_err(),
        "max-select-buckets limit exceeded: (10000/1000)"
    );
    // Of all groups together.
    let text = "SELECT mean(v) FROM m WHERE time >= 0 AND time < 500s GROUP BY time(1s), host";
    let error = store.query(text).unwrap_err();
    assert!(
        error.starts_with("max-select-buckets limit exceeded: ("),
        "{error}"
    );
    // From the first point to now.
    let error = store
        .query("SELECT mean(v) FROM m GROUP BY time(1m)")
        .unwrap_err();
    assert!(
        error.starts_with("max-select-buckets limit exceeded: ("),
        "{error}"
    );
    assert!(
        store
            .query("SELECT mean(v) FROM m GROUP BY time(1m) fill(none)")
            .is_ok()
    );
}
