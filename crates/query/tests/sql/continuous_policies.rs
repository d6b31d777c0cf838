//! Promise: the job of a refresh policy refreshes its window, outlives the process, waits after a failure, and does not keep the store
//! open.

use std::sync::Arc;

use crate::support::Store;

async fn run(store: &Store, sql: &str) {
    store.rows(sql).await;
}

async fn with_policy() -> Store {
    let store = Store::that_compacts();
    for sql in [
        "CREATE TABLE m (time TIMESTAMPTZ, v BIGINT)",
        "INSERT INTO m VALUES (now() - INTERVAL '3 hours', 1), (now() - INTERVAL '2 hours', 2)",
        "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS SELECT time_bucket('1 minute', time) AS minute, sum(v) AS total FROM m GROUP BY minute WITH NO DATA",
        "SELECT add_continuous_aggregate_policy('c', INTERVAL '1 day', INTERVAL '1 minute', INTERVAL '1 hour')",
    ] {
        run(&store, sql).await;
    }
    store
}

const STORED: &str = "SELECT sum(total), count(*) FROM _materialized_c";
const RUNS: &str =
    "SELECT total_runs, total_successes, total_failures FROM timescaledb_information.job_stats";

#[tokio::test]
async fn a_policy_and_its_counts_outlive_the_process() {
    let store = with_policy().await;
    run(&store, "CALL run_job(1000)").await;
    assert_eq!(store.rows(STORED).await, ["3|2"]);
    run(
        &store,
        "INSERT INTO m VALUES (now() - INTERVAL '150 minutes', 4), (now() - INTERVAL '3 days', 8)",
    )
    .await;
    let store = store.reopened();
    assert_eq!(store.rows(RUNS).await, ["1|1|0"]);
    run(&store, "CALL run_job(1000)").await;
    // The row of three days ago lies before the window.
    assert_eq!(store.rows(STORED).await, ["7|3"]);
    assert_eq!(store.rows("SELECT sum(total) FROM c").await, ["15"]);
    assert_eq!(store.rows(RUNS).await, ["2|2|0"]);
}

/// The job's function stands among the jobs, which the queries that it needs hold themselves.
#[tokio::test]
async fn jobs_do_not_keep_the_store_open() {
    let store = with_policy().await;
    run(&store, "CALL run_job(1000)").await;
    let engine = Arc::downgrade(&store.engine);
    drop(store);
    assert!(engine.upgrade().is_none(), "somebody holds the engine");
}

/// Two rows whose sum is beyond BIGINT: the refresh fails until one is gone. The wait after a failure is five minutes unless
/// somebody says otherwise, as in TimescaleDB's documentation of jobs.
#[tokio::test]
async fn a_refresh_that_fails_waits_and_says_why() {
    let store = with_policy().await;
    let time = "date_trunc('minute', now()) - INTERVAL '90 minutes'";
    run(
        &store,
        &format!(
            "INSERT INTO m VALUES ({time}, 9223372036854775807), ({time} + INTERVAL '1 second', 1)"
        ),
    )
    .await;
    let failed = store.error("CALL run_job(1000)").await.to_string();
    assert!(failed.contains("job 1000 failed"), "{failed}");
    assert_eq!(store.rows(RUNS).await, ["1|0|1"]);
    assert_eq!(store.rows(STORED).await, ["-|0"]);
    let waits = "SELECT next_start > now() + INTERVAL '4 minutes' AND next_start < now() + INTERVAL '6 minutes' FROM timescaledb_information.jobs";
    assert_eq!(store.rows(waits).await, ["true"]);
    run(
        &store,
        "DELETE FROM m WHERE v = 1 AND time > now() - INTERVAL '100 minutes'",
    )
    .await;
    run(&store, "CALL run_job(1000)").await;
    assert_eq!(store.rows(RUNS).await, ["2|1|1"]);
    assert_eq!(
        store.rows("SELECT count(*) FROM _materialized_c").await,
        ["3"]
    );
}
