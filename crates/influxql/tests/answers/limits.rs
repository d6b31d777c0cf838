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
    most: usize,
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
        Ok(())
    }

    fn release(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
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
    let account = Arc::new(Account {
        taken: AtomicUsize::new(0),
        most: 100_000,
    });
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
