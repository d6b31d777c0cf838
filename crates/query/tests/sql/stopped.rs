//! Statements that have to end, and work that does not come up for air by itself.
//!
//! The story: `SELECT count(*) FROM m a CROSS JOIN m b WHERE a.v + b.v < 0` has no row to show, so its join never came back
//! from the first time that it was asked for one. Neither `query-ms-max`, nor KILL QUERY, nor a client that went ended
//! it: 100,000 rows kept a core busy for minutes. A test that does not end has failed.

use std::sync::Arc;

use nilometer_query::{CancellationToken, Error, Params, SqlOptions};

use crate::support::Store;

/// Joins of each kind whose condition no pair meets: 1e10 pairs.
const FRUITLESS: [&str; 4] = [
    "SELECT count(*) FROM m a CROSS JOIN m b WHERE a.v + b.v < 0",
    "SELECT count(*) FROM m a JOIN m b ON a.k = b.k AND a.v + b.v < 0",
    "SELECT count(*) FROM m a LEFT JOIN m b ON a.v + b.v < 0",
    "SELECT count(*) FROM m a WHERE NOT EXISTS (SELECT 1 FROM m b WHERE a.v + b.v < 0)",
];

fn store(options: SqlOptions) -> Store {
    let store = Store::with(options);
    let lines: Vec<String> = (0..100_000).map(|n| format!("m v={n},k=1i {n}")).collect();
    store.write(&lines.join("\n"));
    store
}

#[tokio::test]
async fn a_join_that_finds_nothing_ends_when_its_time_is_over() {
    let store = store(SqlOptions {
        query_ms_max: 200,
        ..SqlOptions::default()
    });
    for sql in FRUITLESS {
        let error = store.error(sql).await;
        assert!(
            matches!(error, Error::Time { limit_ms: 200 }),
            "{sql}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_condition_that_looks_out_finds_what_it_found() {
    let store = store(SqlOptions::default());
    for (sql, rows) in [
        (
            "SELECT count(*) FROM m a JOIN m b ON a.v = b.v AND a.v + b.v < 10",
            "5",
        ),
        (
            "SELECT count(*) FROM m a LEFT JOIN m b ON a.v = b.v AND a.v + b.v < 10",
            "100000",
        ),
        (
            "SELECT count(*) FROM m a JOIN m b ON a.v + b.v < 10 AND a.v < 3 AND b.v < 4",
            "12",
        ),
        (
            "SELECT count(*) FROM m a WHERE a.v < 9 AND NOT EXISTS (SELECT 1 FROM m b WHERE b.v < 9 AND a.v + b.v < 5)",
            "4",
        ),
    ] {
        assert_eq!(store.rows(sql).await, [rows], "{sql}");
    }
}

/// Waits until the statement has worked long enough to be in the middle of it, and says which one it is.
async fn at_work(store: &Store, sql: &str) -> String {
    let like = sql.replace('\'', "''");
    let listed = format!("SELECT query_id FROM system.queries WHERE sql = '{like}' AND ms >= 200");
    loop {
        if let Some(id) = store.rows(&listed).await.first() {
            return id.clone();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_that_finds_nothing_is_ended_by_kill_query_and_by_its_caller() {
    let store = Arc::new(store(SqlOptions::default()));
    for sql in FRUITLESS {
        let runner = Arc::clone(&store);
        let run = tokio::spawn(async move { runner.error(sql).await });
        let id = at_work(&store, sql).await;
        assert_eq!(store.rows(&format!("KILL QUERY {id}")).await, ["0"]);
        let error = run.await.unwrap();
        assert!(matches!(error, Error::Killed { .. }), "{sql}: {error:?}");

        let caller = CancellationToken::new();
        let asker = store.sql().cancelled_by(&caller);
        let run = tokio::spawn(async move {
            let answer = asker.query_with("d", sql, &Params::new()).await?;
            answer.collect().await
        });
        at_work(&store, sql).await;
        caller.cancel();
        let error = run.await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Cancelled), "{sql}: {error:?}");
    }
    assert_eq!(
        store.rows("SELECT count(*) FROM system.queries").await,
        ["1"]
    );
}

/// The story: 128 batches of a window, each of them 8192 lists of a thousand values, were made between two looks at the clock: the
/// statement ended half a minute after its time was over, and as long after its KILL.
#[tokio::test]
async fn a_window_of_lists_ends_within_a_batch() {
    let store = store(SqlOptions {
        query_ms_max: 200,
        ..SqlOptions::default()
    });
    let began = std::time::Instant::now();
    for aggregate in ["array_agg(value)", "median(value)"] {
        let sql = format!(
            "SELECT count(x) FROM (SELECT {aggregate} OVER (ORDER BY value ROWS BETWEEN 1000 PRECEDING AND CURRENT ROW) AS x FROM generate_series(1, 10000000))"
        );
        let error = store.error(&sql).await;
        assert!(
            matches!(error, Error::Time { limit_ms: 200 }),
            "{sql}: {error:?}"
        );
    }
    // What 128 batches take is many minutes.
    assert!(began.elapsed() < std::time::Duration::from_mins(1));
}

/// The story: one join kept `SELECT 1` waiting for 25 seconds and SHOW QUERIES for 18, because each of its threads worked on until
/// it had 128 batches. Here there is one thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn short_statements_overtake_a_long_one() {
    let store = Arc::new(store(SqlOptions {
        query_ms_max: 3_600_000,
        ..SqlOptions::default()
    }));
    for sql in [
        "SELECT count(*) FROM m a, m b WHERE a.v + b.v > 1000",
        "SELECT count(*) FROM m a, m b WHERE a.v + b.v < 0",
        "SELECT max(value) FROM generate_series(1, 1000000000000)",
        "SELECT count(x) FROM (SELECT median(value) OVER (ORDER BY value ROWS BETWEEN 1000 PRECEDING AND CURRENT ROW) AS x FROM generate_series(1, 10000000))",
    ] {
        let runner = Arc::clone(&store);
        let run = tokio::spawn(async move { runner.error(sql).await });
        let id = at_work(&store, sql).await;
        for _ in 0..20 {
            let asker = Arc::clone(&store);
            let short = tokio::spawn(async move { asker.rows("SELECT 1").await });
            assert_eq!(short.await.unwrap(), ["1"], "{sql}");
        }
        let ender = Arc::clone(&store);
        let kill = tokio::spawn(async move { ender.rows(&format!("KILL QUERY {id}")).await });
        assert_eq!(kill.await.unwrap(), ["0"], "{sql}");
        let error = run.await.unwrap();
        assert!(matches!(error, Error::Killed { .. }), "{sql}: {error:?}");
    }
}
