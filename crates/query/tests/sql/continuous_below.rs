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

/// Rows of an answer without an order.
async fn sorted(store: &Store, sql: &str) -> Vec<String> {
    let answer = store.sql().query("d", sql).await;
    let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut rows = crate::support::rows(&answer.collect().await.unwrap());
    rows.sort();
    rows
}

/// Views of views, buckets of which straddle each other, also where clocks are set: whatever is written late and whatever
/// window is refreshed, they answer what their query does, and after a refresh of all of it that is what is stored.
#[tokio::test]
async fn drawn_lives_of_chains_of_views_that_straddle_each_other() {
    let mut state = 21_u64;
    let mut below = move |end: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % end
    };
    // About the first days of March to November 2024: clocks are set in Berlin and in New York meanwhile, on different days.
    let mut time = move || {
        let month = 3 + below(9);
        let hours = below(240);
        format!("(TIMESTAMPTZ '2024-{month:02}-01' + INTERVAL '{hours} hours' - INTERVAL '5 days')")
    };
    for widths in [
        vec!["'1 week', X", "'1 month', X"],
        vec!["'1 month', X", "'1 week', X"],
        vec![
            "'1 day', X, 'Europe/Berlin'",
            "'1 month', X, 'America/New_York'",
        ],
        vec!["'5 hours', X, 'Europe/Berlin'", "'3 days', X"],
        vec![
            "'3 days', X",
            "'1 week', X, 'Europe/Berlin'",
            "'1 month', X",
        ],
    ] {
        let store = Store::that_compacts();
        run(&store, "CREATE TABLE t (b TIMESTAMPTZ, n BIGINT)").await;
        run(&store, "INSERT INTO t VALUES ('2024-12-06', 1)").await;
        let (mut from, mut query) = ("t".to_owned(), "t".to_owned());
        for (at, width) in widths.iter().enumerate() {
            let width = width.replace('X', "b");
            let bucketed = |from: &str| {
                format!(
                    "SELECT time_bucket({width}) AS b, CAST(sum(n) AS BIGINT) AS n FROM {from} GROUP BY time_bucket({width})"
                )
            };
            let view = format!("v{at}");
            let sql = format!(
                "CREATE MATERIALIZED VIEW {view} WITH (timescaledb.continuous) AS {}",
                bucketed(&from)
            );
            run(&store, &sql).await;
            query = bucketed(&if at == 0 {
                query
            } else {
                format!("({query}) AS q{at}")
            });
            from = view;
        }
        for step in 0..10 {
            let rows = [time(), time(), time()].map(|time| format!("({time}, {step})"));
            let sql = format!("INSERT INTO t VALUES {}", rows.join(", "));
            run(&store, &sql).await;
            let window = match step % 3 {
                0 => format!("{}, NULL", time()),
                1 => format!("NULL, {}", time()),
                _ => format!("{0}, {0} + INTERVAL '70 days'", time()),
            };
            let view = if step % 5 == 4 { "v0" } else { &from };
            let refresh = format!("CALL refresh_continuous_aggregate('{view}', {window})");
            run(&store, &refresh).await;
            let found = sorted(&store, &format!("SELECT * FROM {from}")).await;
            assert_eq!(found, sorted(&store, &query).await, "{widths:?}: {refresh}");
        }
        let refresh = format!("CALL refresh_continuous_aggregate('{from}', NULL, NULL)");
        run(&store, &refresh).await;
        let stored = sorted(&store, &format!("SELECT * FROM _materialized_{from}")).await;
        assert_eq!(stored, sorted(&store, &query).await, "{widths:?}");
    }
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

/// Lines went into the table of stored answers as into any other, and the view answered them.
#[tokio::test]
async fn line_protocol_does_not_write_stored_answers() {
    use nilometer_engine::ingest::Session;
    use nilometer_lineproto::Precision;

    let mut store = with_view().await;
    for when in ["made", "opened again"] {
        let mut session = Session::new(std::sync::Arc::clone(&store.engine), "d").unwrap();
        let lines = "_materialized_c total=7i 1\nt n=1i 86400\n_materialized_c n=7i 1\n_materialized_d n=7i 1";
        let report = session
            .write_lines(lines.as_bytes(), Precision::Second)
            .unwrap();
        assert_eq!(report.rejected_total, 2, "{when}: {:?}", report.rejected);
        assert!(
            report
                .rejected
                .iter()
                .all(|it| it.reason.contains("stored answers")),
            "{when}: {:?}",
            report.rejected
        );
        assert_eq!(
            store.rows("SELECT * FROM c").await,
            ["1970-01-01T00:00:00Z|3", "1970-01-02T00:00:00Z|1"]
        );
        drop(session);
        store = store.reopened();
    }
}

async fn with_view() -> Store {
    let store = Store::that_compacts();
    for sql in [
        "CREATE TABLE t (time TIMESTAMPTZ, n INTEGER) WITH (duplicates = 'last')",
        "INSERT INTO t VALUES ('1970-01-01', 1), ('1970-01-01 01:00', 2)",
        "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS SELECT time_bucket('1 day', time) AS b, sum(n) AS total FROM t GROUP BY 1",
    ] {
        run(&store, sql).await;
    }
    store
}

/// The type of a column was changed below an aggregate, whose stored answers kept the old one.
#[tokio::test]
async fn a_column_below_a_view_keeps_its_type() {
    let store = with_view().await;
    for sql in [
        "ALTER TABLE t ALTER COLUMN n TYPE BIGINT",
        "ALTER TABLE t ALTER COLUMN n SET DATA TYPE DOUBLE PRECISION",
        "ALTER TABLE _materialized_c ALTER COLUMN total TYPE DOUBLE PRECISION",
    ] {
        let refused = store.error(sql).await.to_string();
        assert!(
            refused.contains("continuous aggregate \"c\""),
            "{sql}: {refused}"
        );
    }
    run(&store, "DROP MATERIALIZED VIEW c").await;
    run(&store, "ALTER TABLE t ALTER COLUMN n TYPE BIGINT").await;
}

/// After a rename of its schema a refresh said that the view was dropped meanwhile.
#[tokio::test]
async fn a_view_goes_on_when_its_schema_has_another_name() {
    let store = Store::that_compacts();
    for sql in [
        "CREATE SCHEMA s",
        "CREATE TABLE s.t (time TIMESTAMPTZ, n BIGINT)",
        "CREATE MATERIALIZED VIEW s.c WITH (timescaledb.continuous) AS SELECT time_bucket('1 day', time) AS b, sum(n) AS n FROM t GROUP BY 1",
        "CREATE MATERIALIZED VIEW s.m WITH (timescaledb.continuous) AS SELECT time_bucket('1 month', b) AS b, sum(n) AS n FROM c GROUP BY 1",
        "ALTER SCHEMA s RENAME TO z",
        "INSERT INTO z.t VALUES ('2024-05-01', 1), ('2024-05-02', 2)",
        "CALL refresh_continuous_aggregate('z.c', NULL, NULL)",
        "CALL refresh_continuous_aggregate('z.m', NULL, NULL)",
        "INSERT INTO z.t VALUES ('2024-05-02', 4)",
    ] {
        run(&store, sql).await;
    }
    assert_eq!(store.rows("SELECT n FROM z._materialized_m").await, ["3"]);
    assert_eq!(store.rows("SELECT n FROM z.m").await, ["7"]);
    assert_eq!(store.rows("SELECT n FROM z.c ORDER BY b").await, ["1", "6"]);
    let store = store.reopened();
    run(
        &store,
        "CALL refresh_continuous_aggregate('z.m', NULL, NULL)",
    )
    .await;
    assert_eq!(store.rows("SELECT n FROM z._materialized_m").await, ["7"]);
    // A view of another schema.
    for sql in [
        "CREATE SCHEMA y",
        "CREATE MATERIALIZED VIEW y.c WITH (timescaledb.continuous) AS SELECT time_bucket('1 day', time) AS b, sum(n) AS n FROM x.t GROUP BY 1",
    ] {
        if sql.contains("x.t") {
            run(&store, "ALTER SCHEMA z RENAME TO x").await;
        }
        run(&store, sql).await;
    }
    let found = store.rows("SELECT hypertable_schema, view_schema FROM timescaledb_information.continuous_aggregates WHERE view_name = 'c' ORDER BY 2").await;
    assert_eq!(found, ["x|x", "x|y"]);
    run(&store, "ALTER SCHEMA x RENAME TO w").await;
    let found = store.rows("SELECT hypertable_schema, view_schema FROM timescaledb_information.continuous_aggregates WHERE view_name = 'c' ORDER BY 2").await;
    assert_eq!(found, ["w|w", "w|y"]);
}

fn maintain(store: &Store) {
    store.compact();
    while store.engine.maintain().unwrap() != nilometer_engine::Maintained::Idle {}
}

/// A retention of the stored answers of the inner view took what the outer one had of them, with the next change of a joined table.
#[tokio::test]
async fn an_outer_view_keeps_what_the_inner_one_forgets() {
    let store = Store::that_compacts();
    for sql in [
        "CREATE TABLE t (time TIMESTAMPTZ, host TEXT TAG, n BIGINT)",
        "CREATE TABLE sites (host TEXT PRIMARY KEY, site TEXT)",
        "INSERT INTO sites VALUES ('a', 'x')",
        "INSERT INTO t SELECT now() - INTERVAL '1 hour' * g, 'a', 1 FROM generate_series(0, 99) AS s(g)",
        "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS SELECT time_bucket('1 hour', time) AS b, host, sum(n) AS n FROM t GROUP BY 1, 2",
        "CREATE MATERIALIZED VIEW q WITH (timescaledb.continuous) AS SELECT time_bucket('2 hours', c.b) AS b, site, sum(n) AS n FROM c JOIN sites ON c.host = sites.host GROUP BY 1, 2",
        "ALTER TABLE _materialized_c SET (retention = '50 hours')",
    ] {
        run(&store, sql).await;
    }
    maintain(&store);
    let inner: i64 = store.rows("SELECT sum(n) FROM _materialized_c").await[0]
        .parse()
        .unwrap();
    // Those of the day at whose edge they are may be there yet.
    assert!((48..=76).contains(&inner), "{inner}");
    assert_eq!(store.rows("SELECT sum(n) FROM q").await, ["100"]);
    run(&store, "UPDATE sites SET site = 'y'").await;
    assert_eq!(store.rows("SELECT sum(n) FROM q").await, ["100"]);
    run(&store, "CALL refresh_continuous_aggregate('q', NULL, NULL)").await;
    assert_eq!(store.rows("SELECT sum(n) FROM q").await, ["100"]);
    // What is computed again has the new site; what is older stays as it was.
    let sites = store
        .rows("SELECT site, sum(n) > 45 FROM q GROUP BY site ORDER BY site")
        .await;
    assert_eq!(sites, ["x|true", "y|true"]);
}

/// Once a retention was taken away, the buckets whose rows it had taken were computed again, of nothing.
#[tokio::test]
async fn a_retention_that_is_taken_away_is_remembered() {
    let store = Store::that_compacts();
    for sql in [
        "CREATE TABLE t (time TIMESTAMPTZ, host TEXT TAG, n BIGINT) WITH (tsdb.hypertable)",
        "INSERT INTO t SELECT now() - INTERVAL '1 hour' * g, 'a', 1 FROM generate_series(0, 99) AS s(g)",
        "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS SELECT time_bucket('1 hour', time) AS b, sum(n) AS n FROM t GROUP BY 1",
        "ALTER TABLE t SET (retention = '50 hours')",
    ] {
        run(&store, sql).await;
    }
    maintain(&store);
    assert_eq!(store.rows("SELECT sum(n) FROM c").await, ["100"]);
    run(&store, "ALTER TABLE t SET (retention = '5000 days')").await;
    let store = store.reopened();
    // It concerns all buckets.
    run(&store, "DELETE FROM t WHERE host = 'b'").await;
    assert_eq!(store.rows("SELECT sum(n) FROM c").await, ["100"]);
    run(&store, "CALL refresh_continuous_aggregate('c', NULL, NULL)").await;
    assert_eq!(store.rows("SELECT sum(n) FROM c").await, ["100"]);
    // And a query on the table means its rows, not what is stored of others.
    let query = "SELECT sum(n) FROM (SELECT time_bucket('1 hour', time) AS b, sum(n) AS n FROM t GROUP BY b) AS q";
    let rows = store.rows("SELECT count(*) FROM t").await;
    assert_eq!(store.rows(query).await, rows);
}
