//! What runs, what does not, and how the difference is told: text, place, nearest name.

use crate::support::Store;
use nilometer_query::{Error, Position, SqlOptions};

fn store() -> Store {
    let store = Store::new();
    store.write("cpu,host=a usage=1.5,name=\"x\" 1000000000\ncpu,host=b usage=2.5 2000000000");
    store.write_to("other", "cpu,host=c usage=7 1\nOdd\\ Name v=1 1");
    store
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "half of the expected positions are none"
)]
fn at(line: u64, column: u64) -> Option<Position> {
    Some(Position { line, column })
}

#[tokio::test]
async fn errors_say_what_is_wrong_and_where() {
    let store = store();
    for (sql, position, words) in [
        ("SELEC 1", at(1, 1), "syntax error"),
        ("SELECT *\n  FROM cpu GROUP host", at(2, 12), "syntax error"),
        (
            "SELECT * FROM cpus",
            at(1, 15),
            "table not found: \"d.public.cpus\"; did you mean \"cpu\"?",
        ),
        (
            "SELECT * FROM\n d.public.cqu",
            at(2, 2),
            "did you mean \"cpu\"?",
        ),
        (
            "SELECT usag FROM cpu",
            at(1, 8),
            "column not found: \"usag\"; did you mean \"usage\"?",
        ),
        (
            "SELECT *\nFROM cpu\nWHERE hots = 'a'",
            at(3, 7),
            "did you mean \"host\"?",
        ),
        (
            "SELECT Usage, \"Usage\" FROM cpu",
            at(1, 15),
            "column not found: \"Usage\"; did you mean \"usage\"?",
        ),
        ("", None, "empty"),
        ("SELECT 1; SELECT 2", at(1, 11), "one statement"),
        (
            "SELECT avgg(usage) FROM cpu",
            at(1, 8),
            "function not found: \"avgg\"; did you mean \"avg\"?",
        ),
        (
            "SELECT * FROM pubic.cpu",
            at(1, 15),
            "schema not found: \"d.pubic\"; did you mean \"public\"?",
        ),
        (
            "SELECT * FROM othr.public.cpu",
            at(1, 15),
            "database not found: \"othr\"; did you mean \"other\"?",
        ),
        (
            "SELECT * FROM system.colums",
            at(1, 15),
            "did you mean \"columns\"?",
        ),
        (
            "DROP TABLE cpuu",
            at(1, 12),
            "table not found: \"d.public.cpuu\"; did you mean \"cpu\"?",
        ),
        (
            "ALTER TABLE cpu\n DROP COLUMN usag",
            at(2, 14),
            "did you mean \"usage\"?",
        ),
        (
            "CREATE TABLE t (time TIMESTAMPTZ, v REAL) WITH (retenton = '1 day')",
            at(1, 49),
            "did you mean \"retention\"?",
        ),
        (
            "CREATE TABLE t (time TIMESTAMPTZ, v NUMERIC)",
            at(1, 37),
            "numeric(p, s)",
        ),
        (
            "INSERT INTO cpu (time, hst) VALUES (now(), 'a')",
            at(1, 24),
            "did you mean \"host\"?",
        ),
        (
            "INSERT INTO cpu VALUES ('2026-01-01', 'a', 'fast', NULL)",
            at(1, 44),
            "no value for the column",
        ),
        (
            "UPDATE cpu SET usag = 1",
            at(1, 16),
            "did you mean \"usage\"?",
        ),
        (
            "DELETE FROM cpu WHERE hots = 'a'",
            at(1, 23),
            "did you mean \"host\"?",
        ),
        ("SELECT 'unterminated", at(1, 8), "syntax error"),
    ] {
        let error = store.error(sql).await;
        assert!(error.to_string().contains(words), "{sql}: {error}");
        assert_eq!(error.position(), position, "{sql}: {error}");
    }
}

#[tokio::test]
async fn an_unknown_database_is_an_error_with_its_name() {
    let store = store();
    let error = store.error("SELECT * FROM nowhere.public.cpu").await;
    assert!(
        matches!(&error, Error::UnknownName { what: "database", name, .. } if name == "nowhere"),
        "{error:?}"
    );
}

#[tokio::test]
async fn statements_that_do_not_run_are_refused_by_name_with_what_to_do_and_change_nothing() {
    let store = store();
    for (sql, name, remedy) in [
        (
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '/etc/passwd'",
            "CREATE EXTERNAL",
            "no files",
        ),
        ("COPY cpu TO '/tmp/cpu.csv'", "COPY", "no files"),
        (
            "SET datafusion.execution.batch_size = 1",
            "SET",
            "SHOW SETTINGS",
        ),
        ("EXPLAIN DELETE FROM cpu", "EXPLAIN DELETE", "SELECT"),
        ("BEGIN", "BEGIN", "transaction of its own"),
        (
            "GRANT boss TO x",
            "a role that is a member of another one",
            "to each role",
        ),
        (
            "DELETE FROM cpu ORDER BY time LIMIT 1",
            "this form of DELETE",
            "sub-select",
        ),
        (
            "UPDATE cpu SET usage = 1 LIMIT 1",
            "this form of UPDATE",
            "WHERE",
        ),
        ("SELECT * INTO t FROM cpu", "SELECT INTO", "of its own"),
    ] {
        let error = store.error(sql).await;
        let words = format!("{name} is not supported: ");
        let refused = matches!(&error, Error::Unsupported { .. });
        let text = error.to_string();
        assert!(
            refused && text.starts_with(&words) && text.contains(remedy),
            "{sql}: {error:?}"
        );
    }
    assert_eq!(store.rows("SELECT count(*) FROM cpu").await, ["2"]);
}

#[tokio::test]
async fn names_fold_as_in_postgresql_and_reach_across_databases() {
    let store = store();
    assert_eq!(
        store.rows("SELECT HOST FROM CPU WHERE Host = 'a'").await,
        ["a"]
    );
    assert_eq!(store.rows("SELECT host FROM other.public.cpu").await, ["c"]);
    assert_eq!(
        store.rows("SELECT v FROM other.public.\"Odd Name\"").await,
        ["1.0"]
    );
    let joined = "SELECT x.host, y.host FROM cpu x, other.public.cpu y ORDER BY 1";
    assert_eq!(store.rows(joined).await, ["a|c", "b|c"]);
}

#[tokio::test]
async fn the_catalogue_can_be_read() {
    let store = store();
    let tables = "SELECT table_catalog, table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1, 2";
    // Of the session's database alone, as in PostgreSQL.
    assert_eq!(store.rows(tables).await, ["d|cpu"]);
    assert!(
        store
            .rows("SHOW TABLES")
            .await
            .iter()
            .any(|row| row.contains("d|public|cpu"))
    );
    let columns = store.rows("DESCRIBE cpu").await.join("\n");
    assert!(columns.contains("time|TIMESTAMPTZ|time|false"), "{columns}");
    assert_eq!(
        store.rows("SELECT time FROM cpu ORDER BY 1 LIMIT 1").await,
        ["1970-01-01T00:00:01Z"]
    );
}

#[tokio::test]
async fn a_query_sees_its_snapshot_and_the_next_one_sees_every_write_before_it() {
    let store = store();
    for number in 3..20 {
        store.write(&format!("cpu,host=c usage={number} {number}000000000"));
        assert_eq!(
            store.rows("SELECT count(*) FROM cpu").await,
            [(number).to_string()]
        );
    }
    store.engine.flush().unwrap();
    assert_eq!(
        store.rows("SELECT count(*), max(usage) FROM cpu").await,
        ["19|19.0"]
    );
}

#[tokio::test]
async fn a_query_over_its_memory_ends_with_the_setting_and_the_next_one_runs() {
    let options = SqlOptions {
        query_memory_bytes_max: 1 << 20,
        threads: 2,
        ..SqlOptions::default()
    };
    let store = Store::with(options);
    let lines: Vec<String> = (0..50_000)
        .map(|n| format!("m,host=h{} v={n}i {n}", n % 7))
        .collect();
    store.write(&lines.join("\n"));
    for sql in [
        "SELECT v, count(*) FROM m GROUP BY v",
        "SELECT * FROM m ORDER BY v",
    ] {
        let error = store.error(sql).await;
        assert!(matches!(error, Error::Memory(_)), "{sql}: {error:?}");
        assert!(
            error.to_string().contains("query-memory-bytes-max"),
            "{error}"
        );
        assert!(error.to_string().contains("1048576"), "{error}");
    }
    assert_eq!(store.rows("SELECT count(*) FROM m").await, ["50000"]);
}

#[tokio::test]
async fn a_query_over_its_time_ends_with_the_setting() {
    let store = Store::with(SqlOptions {
        query_ms_max: 0,
        ..SqlOptions::default()
    });
    store.write("m v=1 1");
    let error = store.error("SELECT count(*) FROM m a, m b").await;
    assert!(matches!(error, Error::Time { limit_ms: 0 }), "{error:?}");
    assert!(error.to_string().contains("query-ms-max"), "{error}");
}

#[tokio::test]
async fn a_statement_over_its_length_or_depth_is_refused_before_it_is_parsed() {
    let store = Store::with(SqlOptions {
        sql_bytes_max: 100_000,
        ..SqlOptions::default()
    });
    store.write("m,host=a v=1i 1");
    let chain = |operators: usize| {
        format!(
            "SELECT v FROM m WHERE v = 0{}",
            " OR v = 1".repeat(operators / 2)
        )
    };
    let error = store.error(&chain(1010)).await;
    assert!(
        matches!(error, Error::TooDeep { limit: 1000, .. }),
        "{error:?}"
    );
    assert!(error.position().is_some());
    let commas = format!("SELECT 1 FROM m{}", ", m".repeat(1000));
    let error = store.error(&commas).await;
    assert!(matches!(error, Error::TooDeep { .. }), "{error:?}");
    let error = store.error(&"(".repeat(5000)).await;
    assert!(matches!(error, Error::Syntax { .. }), "{error:?}");
    let error = store.error(&chain(1_000_000)).await;
    assert!(
        matches!(error, Error::TooLong { limit: 100_000, .. }),
        "{error:?}"
    );
    let list = (0..5000)
        .map(|n| format!("-{n}"))
        .collect::<Vec<_>>()
        .join(",");
    assert_eq!(
        store
            .rows(&format!("SELECT v FROM m WHERE v NOT IN ({list})"))
            .await,
        ["1"]
    );
}

#[test]
fn the_longest_chain_that_is_let_through_fits_the_stack_of_a_query_thread() {
    // The server's threads for queries have 64 MiB; half of that is enough.
    let planned = std::thread::Builder::new().stack_size(32 << 20).spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let store = Store::new();
            store.write("m,host=a v=1i 1");
            let sum = format!("SELECT v{} FROM m", " + v".repeat(1000));
            assert_eq!(store.rows(&sum).await, ["1001"]);
            let either = format!("SELECT v FROM m WHERE v = 0{}", " OR v * v = 1".repeat(333));
            assert_eq!(store.rows(&either).await, ["1"]);
            // More joins above each other than a task has turns in one poll: once, none of them got its turn.
            let tables: Vec<String> = (0..129).map(|n| format!("m t{n}")).collect();
            let commas = format!("SELECT count(*) FROM {}", tables.join(", "));
            assert_eq!(store.rows(&commas).await, ["1"]);
            let union = format!(
                "SELECT count(*) FROM (SELECT 1{}) t",
                " UNION ALL SELECT 1".repeat(200)
            );
            assert_eq!(store.rows(&union).await, ["201"]);
        });
    });
    planned.unwrap().join().unwrap();
}

#[tokio::test]
async fn division_and_casts_that_fail_are_errors_of_the_statement() {
    let store = store();
    for sql in [
        "SELECT 1 / 0",
        "SELECT CAST('x' AS BIGINT)",
        "SELECT CAST(host AS BIGINT) FROM cpu",
    ] {
        let error = store.error(sql).await;
        assert!(
            matches!(error, Error::Execution { .. } | Error::Plan { .. }),
            "{sql}: {error:?}"
        );
    }
}
