//! What statements that write promise beyond their answers: who may, what is seen when, what stays together.

use std::sync::Arc;

use nilometer_query::{Error, Sql, SqlOptions};

use crate::support::Store;

fn store() -> Store {
    let store = Store::new();
    let lines: Vec<String> = (0..100_i64)
        .map(|n| format!("cpu,host=h{} usage={n},n={n}i {}", n % 4, n * 1_000_000_000))
        .collect();
    store.write(&lines.join("\n"));
    store
}

#[tokio::test]
async fn who_may_only_read_changes_nothing() {
    let store = store();
    let sql = Sql::new(Arc::clone(&store.engine), SqlOptions::default()).unwrap();
    let reader = sql.read_only();
    for statement in [
        "INSERT INTO cpu (time, usage) VALUES (now(), 1)",
        "UPDATE cpu SET usage = 1",
        "DELETE FROM cpu",
        "CREATE TABLE t (time TIMESTAMPTZ, v REAL)",
        "DROP TABLE cpu",
        "ALTER TABLE cpu ADD COLUMN b REAL",
        "CREATE VIEW v AS SELECT 1 AS one",
        "DROP DATABASE d",
        "KILL QUERY 1",
    ] {
        let error = reader.query("d", statement).await.unwrap_err();
        assert!(matches!(error, Error::ReadOnly), "{statement}: {error:?}");
    }
    let options = SqlOptions {
        read_only: true,
        ..SqlOptions::default()
    };
    let always = Sql::new(Arc::clone(&store.engine), options).unwrap();
    let error = always.query("d", "DELETE FROM cpu").await.unwrap_err();
    assert!(matches!(error, Error::ReadOnly), "{error:?}");
    let answer = reader.query("d", "SELECT count(*) FROM cpu").await.unwrap();
    assert_eq!(answer.collect().await.unwrap()[0].num_rows(), 1);
    assert_eq!(store.rows("SELECT count(*) FROM cpu").await, ["100"]);
}

#[tokio::test]
async fn what_was_written_is_there_after_the_store_was_opened_again() {
    let store = Store::new();
    for sql in [
        "CREATE TABLE m (time TIMESTAMPTZ, host TEXT TAG, v REAL) WITH (duplicates = 'unique', retention = 'forever')",
        "INSERT INTO m VALUES ('2026-01-01', 'a', 1), ('2026-01-02', 'a', 2), ('2026-01-03', 'b', 3)",
        "UPDATE m SET v = v * 10 WHERE host = 'a'",
        "DELETE FROM m WHERE v = 20",
        "CREATE VIEW w AS SELECT host, v FROM m",
    ] {
        store.rows(sql).await;
    }
    let store = store.reopened();
    assert_eq!(
        store.rows("SELECT * FROM w ORDER BY host").await,
        ["a|10.0", "b|3.0"]
    );
    assert_eq!(
        store
            .rows("SELECT duplicates FROM system.tables WHERE table_name = 'm'")
            .await,
        ["unique"]
    );
}

#[tokio::test]
async fn a_statement_that_fails_writes_nothing() {
    let store = store();
    store
        .rows(
            "CREATE TABLE u (time TIMESTAMPTZ, host TEXT TAG, v REAL) WITH (duplicates = 'unique')",
        )
        .await;
    store
        .rows("INSERT INTO u VALUES ('2026-01-01', 'a', 1)")
        .await;
    for sql in [
        "INSERT INTO u VALUES ('2026-01-02', 'a', 2), ('2026-01-01', 'a', 2)",
        "INSERT INTO u VALUES ('2026-01-02', 'a', 2), (NULL, 'a', 2)",
        "INSERT INTO u SELECT time, host, n / (n - 99) FROM cpu",
        "UPDATE u SET time = '2026-01-02', v = 1 / 0",
        "UPDATE cpu SET usage = 1 / (n - 99)",
        "DELETE FROM cpu WHERE 1 / (n - 99) = 0",
    ] {
        store.error(sql).await;
    }
    assert_eq!(store.rows("SELECT v FROM u").await, ["1.0"]);
    assert_eq!(
        store.rows("SELECT count(*), sum(usage) FROM cpu").await,
        ["100|4950.0"]
    );
}

#[tokio::test]
async fn a_write_over_its_memory_ends_with_the_setting_and_writes_nothing() {
    let options = SqlOptions {
        query_memory_bytes_max: 1 << 20,
        ..SqlOptions::default()
    };
    let store = Store::with(options);
    let lines: Vec<String> = (0..50_000)
        .map(|n| format!("m,host=h{} v={n}i {n}", n % 7))
        .collect();
    store.write(&lines.join("\n"));
    for sql in [
        "INSERT INTO m SELECT time + interval '1 day', host, v FROM m",
        "UPDATE m SET v = v + 1",
        "DELETE FROM m WHERE v >= 0",
    ] {
        let error = store.error(sql).await;
        assert!(matches!(error, Error::Memory(_)), "{sql}: {error:?}");
    }
    assert_eq!(
        store.rows("SELECT count(*), sum(v) FROM m").await,
        ["50000|1249975000"]
    );
    // By time and tags there is nothing to hold.
    assert_eq!(
        store.rows("DELETE FROM m WHERE host = 'h0'").await,
        ["7143"]
    );
}

#[tokio::test]
async fn deletes_and_updates_of_everything_agree_with_a_count() {
    for condition in [
        "host = 'h1'",
        "host IN ('h1', 'h2') AND time >= '1970-01-01T00:00:50Z'",
        "host <> 'h1'",
        "time < '1970-01-01T00:00:10Z'",
        "time BETWEEN '1970-01-01T00:00:10Z' AND '1970-01-01T00:00:20Z'",
        "usage > 10.5",
        "usage > 10.5 AND host = 'h3'",
        "host = 'h1' OR usage < 5",
        "usage = (SELECT max(usage) FROM cpu)",
        "false",
        "true",
    ] {
        for flushed in [false, true] {
            let store = store();
            if flushed {
                store.engine.flush().unwrap();
            }
            let matching = store
                .rows(&format!("SELECT count(*) FROM cpu WHERE {condition}"))
                .await;
            let rest = format!("SELECT count(*), sum(usage) FROM cpu WHERE NOT ({condition})");
            let rest_before = store.rows(&rest).await;
            let update = format!("UPDATE cpu SET n = -1 WHERE {condition}");
            assert_eq!(store.rows(&update).await, matching, "{update}");
            assert_eq!(
                store.rows("SELECT count(*) FROM cpu WHERE n = -1").await,
                matching,
                "{update}"
            );
            assert_eq!(
                store.rows("SELECT count(*) FROM cpu").await,
                ["100"],
                "{update}"
            );
            let delete = format!("DELETE FROM cpu WHERE {condition}");
            assert_eq!(store.rows(&delete).await, matching, "{delete}");
            let all = store.rows("SELECT count(*), sum(usage) FROM cpu").await;
            assert_eq!(all, rest_before, "{delete}");
        }
    }
}

/// Rows with `now()`, and rows that lack a column with a default, were planned as queries, for longer than it takes to write them.
/// What they get must be what the planner gives.
#[tokio::test]
async fn moments_and_defaults_that_are_literals_are_those_of_the_statement() {
    let store = Store::new();
    let create = "CREATE TABLE d (id bigint PRIMARY KEY, at timestamptz DEFAULT now(), n integer DEFAULT 7, s varchar(5) DEFAULT 'abc', \
                  ok boolean DEFAULT true, x numeric(6, 2) DEFAULT -1.5, day date DEFAULT '2024-02-29', f double precision DEFAULT 1e3)";
    store.batches(create).await.unwrap();
    let before = store.rows("SELECT now()").await;
    for sql in [
        "INSERT INTO d (id) VALUES (1), (2)",
        "INSERT INTO d (id, at, n) VALUES (3, now(), NULL), (4, CURRENT_TIMESTAMP, 8), (5, DEFAULT, DEFAULT)",
        "INSERT INTO d (id, f) SELECT 6, 0.5",
    ] {
        store.batches(sql).await.unwrap();
    }
    let after = store.rows("SELECT now()").await;
    let between = format!(
        "SELECT count(*) FROM d WHERE at >= '{}' AND at <= '{}'",
        before[0], after[0]
    );
    assert_eq!(store.rows(&between).await, ["6"]);
    let moments = "SELECT count(DISTINCT at) FILTER (WHERE id < 3), count(DISTINCT at) FILTER (WHERE id > 2 AND id < 6) FROM d";
    assert_eq!(store.rows(moments).await, ["1|1"]);
    let others = "SELECT id, n, s, ok, x, day, f FROM d ORDER BY id";
    assert_eq!(
        store.rows(others).await,
        [
            "1|7|abc|true|-1.50|2024-02-29|1000.0",
            "2|7|abc|true|-1.50|2024-02-29|1000.0",
            "3|-|abc|true|-1.50|2024-02-29|1000.0",
            "4|8|abc|true|-1.50|2024-02-29|1000.0",
            "5|7|abc|true|-1.50|2024-02-29|1000.0",
            "6|7|abc|true|-1.50|2024-02-29|0.5",
        ]
    );
}
