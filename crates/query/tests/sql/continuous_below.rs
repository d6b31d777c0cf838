//! Promise: what lies below a continuous aggregate does not change behind its back: views of views answer right whatever window was
//! refreshed, and what would make an answer unlike its query is refused with the way out.

use crate::support::Store;

async fn run(store: &Store, sql: &str) {
    store.rows(sql).await;
}

/// Months of weeks: a row of 2 May is in the week of 29 April, and so in April. A refresh from May on took the row for
/// computed, and April stayed without it until it was refreshed by force.
#[tokio::test]
async fn a_window_of_a_view_of_a_view_leaves_what_begins_before_it() {
    let store = Store::that_compacts();
    for sql in [
        "CREATE TABLE t (time TIMESTAMPTZ, v DOUBLE PRECISION)",
        "CREATE MATERIALIZED VIEW w WITH (timescaledb.continuous) AS SELECT time_bucket('1 week', time) AS b, count(*) AS n FROM t GROUP BY 1",
        "CREATE MATERIALIZED VIEW m WITH (timescaledb.continuous) AS SELECT time_bucket('1 month', b) AS b, sum(n) AS n FROM w GROUP BY 1",
        "INSERT INTO t VALUES ('2024-07-04', 1)",
        "CALL refresh_continuous_aggregate('m', NULL, NULL)",
        "INSERT INTO t VALUES ('2024-05-11', 1)",
        "INSERT INTO t VALUES ('2024-05-02', 1)",
    ] {
        run(&store, sql).await;
    }
    let expected = [
        "2024-04-01T00:00:00Z|1",
        "2024-05-01T00:00:00Z|1",
        "2024-07-01T00:00:00Z|1",
    ];
    let query = "SELECT * FROM m ORDER BY b";
    assert_eq!(store.rows(query).await, expected);
    for window in ["'2024-05-01', NULL", "NULL, '2024-05-01'", "NULL, NULL"] {
        let refresh = format!("CALL refresh_continuous_aggregate('m', {window})");
        run(&store, &refresh).await;
        assert_eq!(store.rows(query).await, expected, "{window}");
    }
    assert_eq!(
        store.rows("SELECT * FROM _materialized_m ORDER BY b").await,
        expected
    );
}

/// A view of hours over rows of 1970, of which two tags are stored.
async fn stored_hours() -> Store {
    let store = Store::that_compacts();
    for sql in [
        "CREATE TABLE h (time TIMESTAMPTZ, host TEXT TAG, v BIGINT) WITH (tsdb.hypertable)",
        "INSERT INTO h VALUES ('1970-01-01 00:10:00Z', 'a', 1), ('1970-01-01 01:10:00Z', 'b', 2)",
        "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS SELECT time_bucket('1 hour', time) AS hour, host, sum(v) AS total FROM h GROUP BY hour, host",
    ] {
        run(&store, sql).await;
    }
    store
}

const STORED: &str = "SELECT total FROM c ORDER BY hour";

async fn assert_refused(store: &Store, sql: &str, words: &[&str]) {
    let refused = store.error(sql).await.to_string();
    for word in words {
        assert!(refused.contains(word), "{sql}: {refused}");
    }
}

/// Chunks were dropped below a view. The next change that no times are known of, such as DELETE by a tag, had all buckets
/// computed again, and what was stored of the chunks was forgotten.
#[tokio::test]
async fn chunks_below_an_aggregate_are_not_dropped() {
    let store = stored_hours().await;
    let words = ["\"c\"", "\"h\"", "retention", "add_retention_policy"];
    let drop = "SELECT drop_chunks('h', older_than => TIMESTAMPTZ '2000-01-01')";
    assert_refused(&store, drop, &words).await;
    assert_eq!(store.rows(STORED).await, ["1", "2"]);
    // Retention is how they go: the buckets that were stored stay, whatever changes.
    store.compact();
    run(&store, "ALTER TABLE h SET (retention = '30 days')").await;
    while store.engine.maintain().unwrap() != nilometer_engine::Maintained::Idle {}
    run(&store, "DELETE FROM h WHERE host = 'a'").await;
    run(&store, "CALL refresh_continuous_aggregate('c', NULL, NULL)").await;
    assert_eq!(store.rows("SELECT count(*) FROM h").await, ["0"]);
    assert_eq!(store.rows(STORED).await, ["1", "2"]);
    run(&store, "DROP MATERIALIZED VIEW c").await;
    run(&store, drop).await;
}

/// The job of a retention policy dropped chunks itself, before maintenance found rows that the table's retention takes.
#[tokio::test]
async fn the_job_of_a_retention_leaves_what_was_stored_of_its_rows() {
    let store = stored_hours().await;
    run(&store, "DELETE FROM h WHERE host = 'b'").await;
    run(
        &store,
        "CREATE TABLE plain (time TIMESTAMPTZ, v BIGINT) WITH (tsdb.hypertable)",
    )
    .await;
    run(&store, "INSERT INTO plain VALUES ('1970-01-01', 1)").await;
    store.compact();
    for (table, job) in [("h", 1000), ("plain", 1001)] {
        let add = format!("SELECT add_retention_policy('{table}', INTERVAL '30 days')");
        assert_eq!(store.rows(&add).await, [job.to_string()]);
        run(&store, &format!("CALL run_job({job})")).await;
    }
    // That of another table does what it always did.
    assert_eq!(store.rows("SELECT count(*) FROM plain").await, ["0"]);
    while store.engine.maintain().unwrap() != nilometer_engine::Maintained::Idle {}
    assert_eq!(store.rows("SELECT count(*) FROM h").await, ["0"]);
    // What was not refreshed before its rows went stays as it was stored.
    run(&store, "CALL refresh_continuous_aggregate('c', NULL, NULL)").await;
    assert_eq!(store.rows(STORED).await, ["1", "2"]);
}

/// A column that a view reads was renamed, and another one given its name: stored buckets were of the one, new ones of the other.
#[tokio::test]
async fn columns_below_an_aggregate_stay() {
    let store = stored_hours().await;
    for sql in [
        "ALTER TABLE h RENAME COLUMN v TO w",
        "ALTER TABLE h DROP COLUMN v",
    ] {
        assert_refused(&store, sql, &["\"c\"", "\"v\"", "DROP MATERIALIZED VIEW"]).await;
    }
    let sql = "ALTER TABLE _materialized_c RENAME COLUMN total TO v";
    assert_refused(&store, sql, &["\"c\"", "\"total\""]).await;
    run(&store, "ALTER TABLE h ADD COLUMN u BIGINT").await;
    run(&store, "DROP MATERIALIZED VIEW c").await;
    run(&store, "ALTER TABLE h RENAME COLUMN v TO w").await;
}

/// CREATE OR REPLACE VIEW changed what an aggregate of the view means, and no stored bucket was computed again.
#[tokio::test]
async fn an_aggregate_of_a_view_is_refused() {
    let store = stored_hours().await;
    for sql in [
        "CREATE VIEW some AS SELECT * FROM h WHERE v > 1",
        "CREATE VIEW hosts AS SELECT DISTINCT host FROM h",
    ] {
        run(&store, sql).await;
    }
    for from in ["some", "h JOIN hosts USING (host)"] {
        let sql = format!(
            "CREATE MATERIALIZED VIEW d WITH (timescaledb.continuous) AS SELECT time_bucket('1 hour', time) AS hour, count(*) AS n FROM {from} GROUP BY hour"
        );
        assert_refused(&store, &sql, &["cannot read a view", "tables of the view"]).await;
    }
}

/// Rows that somebody put among stored answers were answered until their bucket was computed again.
#[tokio::test]
async fn stored_answers_are_written_by_a_refresh_only() {
    let store = stored_hours().await;
    for sql in [
        "INSERT INTO _materialized_c (hour, total) VALUES ('1970-01-01', 9)",
        "UPDATE _materialized_c SET total = 9",
        "DELETE FROM _materialized_c",
        "DELETE FROM _materialized_c WHERE hour < '1980-01-01'",
        "TRUNCATE _materialized_c",
        "TRUNCATE h, _materialized_c",
    ] {
        assert_refused(&store, sql, &["\"c\"", "only its refresh writes"]).await;
    }
    assert_eq!(store.rows(STORED).await, ["1", "2"]);
    // Another table may have such a name.
    run(
        &store,
        "CREATE TABLE _materialized_other (time TIMESTAMPTZ, v BIGINT)",
    )
    .await;
    run(
        &store,
        "INSERT INTO _materialized_other VALUES ('1970-01-01', 1)",
    )
    .await;
    run(
        &store,
        "ALTER TABLE _materialized_c SET (cold_after = '1 day')",
    )
    .await;
}
