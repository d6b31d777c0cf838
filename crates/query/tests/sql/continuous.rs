//! Promise: the answer of a continuous aggregate equals that of its query on the raw rows at every moment, whatever was written,
//! refreshed, flushed or compacted since, and a refresh computes what has changed and little else.

use std::sync::Arc;

use nilometer_engine::Engine;

use crate::support::Store;

const MINUTES: &str = "SELECT time_bucket('1 minute', time) AS minute, host, count(*) AS n, sum(v) AS total, avg(v) AS mean, max(time) AS last FROM m GROUP BY minute, host";

async fn run(store: &Store, sql: &str) {
    store.rows(sql).await;
}

/// A store with a table of an hour: a row a host and ten seconds.
async fn hour() -> Store {
    let store = Store::that_compacts();
    run(
        &store,
        "CREATE TABLE m (time TIMESTAMPTZ, host TEXT TAG, v BIGINT) WITH (duplicates = 'last')",
    )
    .await;
    let mut lines = Vec::new();
    for second in (0..3_600).step_by(10) {
        for host in ["a", "b"] {
            lines.push(format!("m,host={host} v={second}i {second}"));
        }
    }
    store.write_seconds(&lines.join("\n"));
    store
}

/// As many rows as were written so far.
fn written(engine: &Arc<Engine>) -> u64 {
    engine.metrics().rows_written
}

/// Rows of an answer without an order. Of one plan, while [`Store::set`] compares several.
async fn sorted(store: &Store, sql: &str) -> Vec<String> {
    let answer = store.sql().query("d", sql).await;
    let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let mut rows = crate::support::rows(&answer.collect().await.unwrap());
    rows.sort();
    rows
}

async fn assert_equal(store: &Store, view: &str, query: &str, when: &str) {
    let expected = sorted(store, query).await;
    let found = sorted(store, &format!("SELECT * FROM {view}")).await;
    assert_eq!(found, expected, "{when}");
}

#[tokio::test]
async fn an_aggregate_answers_what_its_query_does_before_and_after_a_refresh() {
    let store = hour().await;
    run(
        &store,
        &format!(
            "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {MINUTES} WITH NO DATA"
        ),
    )
    .await;
    assert_equal(&store, "c", MINUTES, "nothing is computed").await;
    assert_eq!(
        store.rows("SELECT count(*) FROM _materialized_c").await,
        ["0"]
    );
    run(
        &store,
        "CALL refresh_continuous_aggregate('c', '1970-01-01 00:10:30Z', '1970-01-01 00:30:00Z')",
    )
    .await;
    // Buckets that lie in the window as a whole: from 00:11 up to 00:30, of two hosts.
    assert_eq!(
        store.rows("SELECT count(*) FROM _materialized_c").await,
        ["38"]
    );
    assert_equal(&store, "c", MINUTES, "some is computed").await;
    run(&store, "CALL refresh_continuous_aggregate('c', NULL, NULL)").await;
    assert_eq!(
        store.rows("SELECT count(*) FROM _materialized_c").await,
        ["120"]
    );
    assert_equal(&store, "c", MINUTES, "all is computed").await;
    store.write_seconds("m,host=a v=7i 65\nm,host=c v=9i 4000");
    assert_equal(&store, "c", MINUTES, "a late row and a new one").await;
    run(&store, "DELETE FROM m WHERE v = 1200").await;
    assert_equal(&store, "c", MINUTES, "rows are deleted").await;
    let before = written(&store.engine);
    run(&store, "CALL refresh_continuous_aggregate('c', NULL, NULL)").await;
    // Two hosts of minute 1 and of minute 20, and the one of the new row.
    assert_eq!(written(&store.engine) - before, 5);
    let store = store.reopened();
    assert_equal(&store, "c", MINUTES, "opened again").await;
    store.write_seconds("m,host=a v=8i 125");
    assert_equal(&store, "c", MINUTES, "a late row after that").await;
}

#[tokio::test]
async fn materialized_only_answers_what_is_stored() {
    let store = hour().await;
    run(
        &store,
        &format!("CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous, timescaledb.materialized_only = true) AS {MINUTES} WITH NO DATA"),
    )
    .await;
    assert_eq!(store.rows("SELECT count(*) FROM c").await, ["0"]);
    run(&store, "CALL refresh_continuous_aggregate('c', NULL, NULL)").await;
    assert_eq!(store.rows("SELECT count(*) FROM c").await, ["120"]);
    store.write_seconds("m,host=a v=7i 4000");
    assert_eq!(store.rows("SELECT count(*) FROM c").await, ["120"]);
    run(
        &store,
        "ALTER MATERIALIZED VIEW c SET (timescaledb.materialized_only = false)",
    )
    .await;
    assert_equal(&store, "c", MINUTES, "real-time").await;
    run(&store, "DROP MATERIALIZED VIEW c").await;
    assert!(
        store
            .error("SELECT * FROM c")
            .await
            .to_string()
            .contains("not found")
    );
    run(&store, "DROP MATERIALIZED VIEW IF EXISTS c").await;
    run(&store, "DROP TABLE m").await;
}

/// 360 rows of an hour in each of two hosts; four late ones, about one in a hundred and eighty, in four minutes.
#[tokio::test]
async fn a_refresh_after_late_rows_computes_their_buckets() {
    let store = hour().await;
    run(
        &store,
        &format!("CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {MINUTES}"),
    )
    .await;
    // In one batch with new rows, so that the batch spans the whole hour and more.
    store.write_seconds(
        "m,host=a v=1i 61\nm,host=a v=1i 1201\nm,host=b v=1i 2401\nm,host=b v=1i 3001\nm,host=a v=1i 5000",
    );
    store.compact();
    let before = written(&store.engine);
    run(&store, "CALL refresh_continuous_aggregate('c', NULL, NULL)").await;
    assert_eq!(written(&store.engine) - before, 2 * 4 + 1);
    let before = written(&store.engine);
    run(&store, "CALL refresh_continuous_aggregate('c', NULL, NULL)").await;
    assert_eq!(written(&store.engine) - before, 0, "nothing has changed");
    run(
        &store,
        "CALL refresh_continuous_aggregate('c', NULL, NULL, force => true)",
    )
    .await;
    assert_eq!(written(&store.engine) - before, 121);
    assert_equal(&store, "c", MINUTES, "forced").await;
}

#[tokio::test]
async fn an_aggregate_of_an_aggregate_and_one_of_a_join_answer_what_their_queries_do() {
    let store = hour().await;
    run(
        &store,
        "CREATE TABLE sites (host TEXT PRIMARY KEY, site TEXT)",
    )
    .await;
    run(&store, "INSERT INTO sites VALUES ('a', 'x'), ('b', 'y')").await;
    run(
        &store,
        &format!("CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {MINUTES}"),
    )
    .await;
    run(
        &store,
        "CREATE MATERIALIZED VIEW q WITH (timescaledb.continuous) AS SELECT time_bucket('15 minutes', minute) AS quarter, sum(total) AS total FROM c GROUP BY quarter",
    )
    .await;
    let of_sites = "SELECT site, time_bucket('10 minutes', m.time) AS ten, sum(v) AS total FROM m JOIN sites ON m.host = sites.host WHERE v > 5 GROUP BY site, ten";
    run(
        &store,
        &format!("CREATE MATERIALIZED VIEW s WITH (timescaledb.continuous) AS {of_sites}"),
    )
    .await;
    let quarters = "SELECT time_bucket('15 minutes', time) AS quarter, sum(v) AS total FROM m GROUP BY quarter";
    for (change, when) in [
        ("SELECT 1", "all is computed"),
        (
            "INSERT INTO m VALUES ('1970-01-01 00:20:05Z', 'a', 1000)",
            "a late row",
        ),
        (
            "CALL refresh_continuous_aggregate('c', NULL, NULL)",
            "the inner one is refreshed",
        ),
        (
            "DELETE FROM m WHERE time < '1970-01-01 00:04:00Z'",
            "a delete",
        ),
        (
            "CALL refresh_continuous_aggregate('q', NULL, NULL)",
            "the outer one is refreshed",
        ),
        (
            "UPDATE m SET v = v + 1 WHERE host = 'b' AND v < 1000",
            "an update",
        ),
        (
            "UPDATE sites SET site = 'z' WHERE host = 'b'",
            "the other table of a join",
        ),
        (
            "CALL refresh_continuous_aggregate('s', NULL, NULL)",
            "that of the join is refreshed",
        ),
        (
            "INSERT INTO sites VALUES ('c', 'z')",
            "a row that nothing has joined yet",
        ),
        (
            "INSERT INTO m VALUES ('1970-01-01 00:20:06Z', 'c', 1000)",
            "a row that joins it",
        ),
    ] {
        run(&store, change).await;
        assert_equal(&store, "q", quarters, when).await;
        assert_equal(&store, "s", of_sites, when).await;
    }
    let in_use = store.error("DROP MATERIALIZED VIEW c").await.to_string();
    assert!(in_use.contains("\"q\""), "{in_use}");
    let in_use = store.error("DROP TABLE sites").await.to_string();
    assert!(in_use.contains("\"s\""), "{in_use}");
    let in_use = store.error("DROP TABLE _materialized_c").await.to_string();
    assert!(in_use.contains("\"c\""), "{in_use}");
}

#[tokio::test]
async fn a_query_that_cannot_be_computed_bucket_by_bucket_is_refused_with_the_reason() {
    let store = hour().await;
    run(&store, "CREATE TABLE other (time TIMESTAMPTZ, v BIGINT)").await;
    for (query, reason) in [
        (
            "SELECT time_bucket('1 minute', time) AS t, count(*) FROM m WHERE time < now() GROUP BY t",
            "now",
        ),
        (
            "SELECT time_bucket('1 minute', time) AS t, sum(v * random()) AS r FROM m GROUP BY t",
            "random",
        ),
        (
            "SELECT date_trunc('minute', time) AS t, count(*) AS n FROM m GROUP BY t",
            "no time_bucket",
        ),
        (
            "SELECT host, count(*) AS n FROM m GROUP BY host",
            "no time_bucket",
        ),
        (
            "SELECT count(*) AS n FROM m GROUP BY time_bucket('1 minute', time)",
            "not among its columns",
        ),
        (
            "SELECT time_bucket('1 minute', time) AS t, v FROM m",
            "no GROUP BY",
        ),
        (
            "SELECT time_bucket('1 minute', time) AS t, count(*) AS n FROM m GROUP BY t LIMIT 3",
            "LIMIT",
        ),
        (
            "SELECT time_bucket('1 minute', time) AS t, sum(count(*)) OVER (ORDER BY time_bucket('1 minute', time)) AS n FROM m GROUP BY t",
            "window",
        ),
        (
            "SELECT time_bucket('1 minute', m.time) AS t, count(*) AS n FROM m JOIN m AS k ON m.v = k.v GROUP BY t",
            "2 times",
        ),
        (
            "SELECT time_bucket('1 minute', m.time) AS t, count(*) AS n FROM other LEFT JOIN m ON m.v = other.v GROUP BY t",
            "side that may be missing",
        ),
        (
            "SELECT time_bucket('1 minute', time + INTERVAL '1 s') AS t, count(*) AS n FROM m GROUP BY t",
            "not a column",
        ),
        (
            "SELECT time_bucket('1 minute', time) AS t, histogram(v, 0, 10, 2) AS h FROM m GROUP BY t",
            "no table can store",
        ),
        (
            "SELECT time_bucket_gapfill('1 minute', time) AS t, count(*) AS n FROM m GROUP BY t",
            "time_bucket",
        ),
    ] {
        let sql = format!("CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {query}");
        let error = store.error(&sql).await.to_string();
        assert!(error.contains(reason), "{query}: {error}");
    }
    for (statement, reason) in [
        (
            "CREATE MATERIALIZED VIEW c AS SELECT 1",
            "timescaledb.continuous",
        ),
        (
            "CREATE MATERIALIZED VIEW c WITH (timescaledb.continous) AS SELECT 1",
            "timescaledb.continuous",
        ),
        (
            "CALL refresh_continuous_aggregate('nothing', NULL, NULL)",
            "nothing",
        ),
        (
            "CALL refresh_continuous_aggregate('m', NULL, NULL)",
            "continuous aggregate",
        ),
        ("CALL refresh_continuous_aggregate('c')", "window"),
        ("DROP MATERIALIZED VIEW m", "continuous aggregate"),
    ] {
        let error = store.error(statement).await.to_string();
        assert!(
            error.contains(reason) || error.contains("NULL for no bound"),
            "{statement}: {error}"
        );
    }
}

/// Numbers that repeat for a seed.
struct Drawn(u64);

impl Drawn {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn time(&mut self) -> String {
        format!(
            "'1970-01-01 {:02}:{:02}:{:02}Z'",
            self.below(6),
            self.below(60),
            self.below(60)
        )
    }
}

/// One drawn change of the table, or of what was computed of it.
fn drawn(drawn: &mut Drawn, newest: &mut u64) -> String {
    match drawn.below(10) {
        0..3 => {
            *newest += drawn.below(200);
            let late = drawn.below(*newest + 1);
            let rows: Vec<String> = [*newest, late, late + 1]
                .iter()
                .map(|second| {
                    let host = ["a", "b", "c"][usize::try_from(drawn.below(3)).unwrap()];
                    format!("(to_timestamp({second}), '{host}', {})", drawn.below(100))
                })
                .collect();
            format!("INSERT INTO m VALUES {}", rows.join(", "))
        }
        3 => format!("UPDATE m SET v = v + 1 WHERE v % 7 = {}", drawn.below(7)),
        4 => format!("DELETE FROM m WHERE v = {}", drawn.below(100)),
        5 => {
            let from = drawn.below(*newest + 1);
            format!(
                "DELETE FROM m WHERE time >= to_timestamp({from}) AND time < to_timestamp({})",
                from + drawn.below(300)
            )
        }
        6 => "CALL refresh_continuous_aggregate('c', NULL, NULL)".to_owned(),
        7 => {
            let view = ["c", "q"][usize::try_from(drawn.below(2)).unwrap()];
            format!(
                "CALL refresh_continuous_aggregate('{view}', NULL, {})",
                drawn.time()
            )
        }
        8 => {
            let view = ["c", "q"][usize::try_from(drawn.below(2)).unwrap()];
            let from = drawn.below(*newest + 1);
            format!(
                "CALL refresh_continuous_aggregate('{view}', to_timestamp({from}), to_timestamp({}), force => {})",
                from + 1 + drawn.below(2_000),
                drawn.below(2) == 0,
            )
        }
        _ => String::new(),
    }
}

async fn live(seed: u64, duplicates: &str) {
    let mut numbers = Drawn(seed);
    let mut store = Store::that_compacts();
    run(
        &store,
        &format!("CREATE TABLE m (time TIMESTAMPTZ, host TEXT TAG, v BIGINT) WITH (duplicates = '{duplicates}')"),
    )
    .await;
    run(
        &store,
        &format!("CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {MINUTES}"),
    )
    .await;
    run(
        &store,
        "CREATE MATERIALIZED VIEW q WITH (timescaledb.continuous) AS SELECT time_bucket('10 minutes', minute) AS ten, sum(total) AS total, max(last) AS last FROM c GROUP BY ten",
    )
    .await;
    let tens = "SELECT time_bucket('10 minutes', time) AS ten, sum(v) AS total, max(time) AS last FROM m GROUP BY ten";
    let mut newest = 0;
    for step in 0..40 {
        let change = drawn(&mut numbers, &mut newest);
        if change.is_empty() {
            match numbers.below(3) {
                0 => store.engine.flush().unwrap(),
                1 => store.compact(),
                _ => store = store.reopened(),
            }
        } else {
            let done = store.sql().query("d", &change).await;
            let done =
                done.unwrap_or_else(|error| panic!("seed {seed}, step {step}: {change}: {error}"));
            done.collect().await.unwrap();
        }
        let when = format!("seed {seed}, step {step}: {change}");
        assert_equal(&store, "c", MINUTES, &when).await;
        assert_equal(&store, "q", tens, &when).await;
    }
}

#[tokio::test]
async fn drawn_lives_of_tables_that_merge_rows() {
    for seed in 1..3 {
        live(seed, "last").await;
    }
}

#[tokio::test]
async fn drawn_lives_of_tables_that_keep_duplicates() {
    for seed in 11..13 {
        live(seed, "keep").await;
    }
}

/// Writers go on while others refresh and read. The two parts of an answer are of one moment, so a sum over everything is
/// one that the table had: each batch adds two rows with opposite values in two buckets, one of them late.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_one_moment_while_others_write_and_refresh() {
    let store = hour().await;
    run(&store, "DELETE FROM m").await;
    run(
        &store,
        "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS SELECT time_bucket('1 minute', time) AS t, sum(v) AS total, count(*) AS n FROM m GROUP BY t",
    )
    .await;
    let writer = {
        let sql = store.sql().clone();
        tokio::spawn(async move {
            let mut drawn = Drawn(5);
            for nth in 1..60_u64 {
                let late = drawn.below(nth * 20);
                let insert = format!(
                    "INSERT INTO m VALUES (to_timestamp({}), 'w', {nth}), (to_timestamp({late}.5), 'w{nth}', -{nth})",
                    nth * 20
                );
                sql.query("d", &insert).await.unwrap();
            }
        })
    };
    let refresher = {
        let sql = store.sql().clone();
        tokio::spawn(async move {
            for _ in 0..15 {
                sql.query("d", "CALL refresh_continuous_aggregate('c', NULL, NULL)")
                    .await
                    .unwrap();
            }
        })
    };
    for _ in 0..20 {
        let answer = store
            .sql()
            .query(
                "d",
                "SELECT coalesce(sum(total), 0), coalesce(sum(n), 0) % 2 FROM c",
            )
            .await;
        let batches = answer.unwrap().collect().await.unwrap();
        assert_eq!(crate::support::rows(&batches), ["0|0"]);
    }
    writer.await.unwrap();
    refresher.await.unwrap();
    assert_equal(&store, "c", "SELECT time_bucket('1 minute', time) AS t, sum(v) AS total, count(*) AS n FROM m GROUP BY t", "at the end").await;
}

/// What a transaction has written itself counts, before anybody else sees it.
#[tokio::test]
async fn a_transaction_reads_what_it_has_written() {
    let store = hour().await;
    run(
        &store,
        &format!("CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {MINUTES}"),
    )
    .await;
    let transaction = store.engine.begin().unwrap();
    let inside = store.sql().within(&transaction);
    for change in [
        "INSERT INTO m VALUES ('1970-01-01 00:01:01Z', 'a', 77)",
        "DELETE FROM m WHERE v = 1200",
    ] {
        inside.query("d", change).await.unwrap();
        let mut found = Vec::new();
        for query in ["SELECT * FROM c", MINUTES] {
            let batches = inside.query("d", query).await.unwrap().collect().await;
            let mut rows = crate::support::rows(&batches.unwrap());
            rows.sort();
            found.push(rows);
        }
        assert_eq!(found[0], found[1], "{change}");
    }
    transaction.rollback();
    assert_equal(&store, "c", MINUTES, "after it").await;
}

#[tokio::test]
async fn aggregates_are_listed_with_what_they_are_made_of() {
    let store = hour().await;
    run(
        &store,
        &format!(
            "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {MINUTES} WITH NO DATA"
        ),
    )
    .await;
    run(
        &store,
        "CREATE MATERIALIZED VIEW q WITH (timescaledb.continuous, timescaledb.materialized_only) AS SELECT time_bucket('1 hour', minute) AS h, sum(n) AS n FROM c GROUP BY h WITH NO DATA",
    )
    .await;
    let listed = "SELECT hypertable_name, view_schema, view_name, materialized_only, materialization_hypertable_name FROM timescaledb_information.continuous_aggregates ORDER BY view_name";
    let expected = [
        "m|public|c|false|_materialized_c",
        "_materialized_c|public|q|true|_materialized_q",
    ];
    assert_eq!(store.rows(listed).await, expected);
    let definition = "SELECT view_definition FROM timescaledb_information.continuous_aggregates WHERE view_name = 'c'";
    assert_eq!(store.rows(definition).await, [MINUTES]);
}

/// Days of a zone have 23, 24 or 25 hours, and months of the calendar have no width.
#[tokio::test]
async fn buckets_of_zones_months_and_dates_are_computed_whole() {
    let store = Store::that_compacts();
    run(&store, "CREATE TABLE z (time TIMESTAMPTZ, v BIGINT)").await;
    run(
        &store,
        "INSERT INTO z SELECT to_timestamp(1711753200 + 1800 * n), n FROM generate_series(0, 200) AS s(n)",
    )
    .await;
    run(
        &store,
        "CREATE TABLE d (day DATE, v BIGINT) WITH (tsdb.hypertable, tsdb.partition_column = 'day')",
    )
    .await;
    run(
        &store,
        "INSERT INTO d VALUES ('2024-01-30', 1), ('2024-02-01', 2), ('2024-02-29', 3), ('2024-03-01', 4)",
    )
    .await;
    for (view, table, query, late) in [
        (
            "a",
            "z",
            "SELECT time_bucket('1 day', time, 'Europe/Berlin') AS t, sum(v) AS v, count(*) AS n FROM z GROUP BY t",
            "'2024-03-31 00:30:00Z'",
        ),
        (
            "b",
            "z",
            "SELECT time_bucket('1 month', time) AS t, sum(v) AS v, count(*) AS n FROM z GROUP BY t",
            "'2024-03-31 00:31:00Z'",
        ),
        (
            "e",
            "d",
            "SELECT time_bucket('1 month', day) AS t, sum(v) AS v, count(*) AS n FROM d GROUP BY t",
            "'2024-02-15'",
        ),
        (
            "f",
            "d",
            "SELECT time_bucket('7 days', day) AS t, sum(v) AS v, count(*) AS n FROM d GROUP BY t",
            "'2024-02-16'",
        ),
    ] {
        run(
            &store,
            &format!("CREATE MATERIALIZED VIEW {view} WITH (timescaledb.continuous) AS {query}"),
        )
        .await;
        let stored = format!("SELECT * FROM _materialized_{view}");
        assert_eq!(store.set(&stored).await, store.set(query).await, "{query}");
        run(
            &store,
            &format!("INSERT INTO {table} VALUES ({late}, 1000)"),
        )
        .await;
        assert_equal(&store, view, query, "a late row").await;
        let before = written(&store.engine);
        run(
            &store,
            &format!("CALL refresh_continuous_aggregate('{view}', NULL, NULL)"),
        )
        .await;
        assert_eq!(written(&store.engine) - before, 1, "{query}");
        assert_equal(&store, view, query, "refreshed").await;
        assert_eq!(store.set(&stored).await, store.set(query).await, "{query}");
    }
}

/// What was computed stays when retention drops the rows that it was computed of.
#[tokio::test]
async fn stored_answers_outlive_the_retention_of_their_rows() {
    let store = hour().await;
    run(
        &store,
        &format!("CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {MINUTES}"),
    )
    .await;
    let before = store.set("SELECT * FROM c").await;
    store.compact();
    run(&store, "ALTER TABLE m SET (retention = '30 days')").await;
    while store.engine.maintain().unwrap() != nilometer_engine::Maintained::Idle {}
    assert_eq!(store.rows("SELECT count(*) FROM m").await, ["0"]);
    assert_eq!(store.set("SELECT * FROM c").await, before);
    run(&store, "CALL refresh_continuous_aggregate('c', NULL, NULL)").await;
    assert_eq!(store.set("SELECT * FROM c").await, before);
}
