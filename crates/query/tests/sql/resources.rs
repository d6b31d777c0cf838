//! What a statement may take: memory that nobody has reserved, results of functions, and panics of a library.

use nilometer_query::{Error, OverMemory, SqlOptions};

use crate::support::Store;

fn store(query_memory_bytes_max: usize) -> Store {
    let store = Store::with(SqlOptions {
        query_memory_bytes_max,
        ..SqlOptions::default()
    });
    let lines: Vec<String> = (1..=5)
        .map(|n| format!("m,h=h{n} v={n}.5,i={n}i,s=\"x\" {n}"))
        .collect();
    store.write(&lines.join("\n"));
    store
}

/// The story: `lpad('x', -1, h)` panicked in the library, which took -1 for an enormous length; `first(v, time) OVER ()` and
/// `DISTINCT ON (i, i)` were internal errors that asked for a report. The answers are `PostgreSQL`'s, and for `first` what
/// `TimescaleDB` answers.
#[tokio::test]
async fn what_panicked_has_an_answer() {
    let store = store(512 << 20);
    for (sql, rows) in [
        (
            "SELECT '<' || lpad('x', -1, h) || '>' FROM m WHERE i < 3",
            vec!["<>", "<>"],
        ),
        (
            "SELECT '<' || rpad('x', -i, h) || '>' FROM m WHERE i = 1",
            vec!["<>"],
        ),
        (
            "SELECT '<' || lpad(s, i - 3, 'ab') || '>' FROM m ORDER BY i",
            vec!["<>", "<>", "<>", "<x>", "<ax>"],
        ),
        (
            "SELECT lpad('hello', 2), rpad('hi', 5, 'xy')",
            vec!["he|hixyx"],
        ),
        ("SELECT lpad('x', NULL, 'a') IS NULL", vec!["true"]),
        ("SELECT first(v, time) OVER () FROM m", vec!["1.5"; 5]),
        (
            "SELECT last(v, time) OVER (ORDER BY time) FROM m ORDER BY i",
            vec!["1.5", "2.5", "3.5", "4.5", "5.5"],
        ),
        (
            "SELECT first(v, time) OVER (PARTITION BY i % 2) FROM m ORDER BY i",
            vec!["1.5", "2.5", "1.5", "2.5", "1.5"],
        ),
        (
            "SELECT DISTINCT ON (i, i) v FROM m ORDER BY i, i",
            vec!["1.5", "2.5", "3.5", "4.5", "5.5"],
        ),
        (
            "SELECT first_value(v ORDER BY i DESC, i) FROM m GROUP BY s",
            vec!["5.5"],
        ),
        ("SELECT DISTINCT ON (s, m.s) s FROM m", vec!["x"]),
        (
            "SELECT length(upper(repeat(chr(223), 2000000)))",
            vec!["4000000"],
        ),
        (
            "SELECT length(encode(repeat('a', 4000000), 'hex'))",
            vec!["8000000"],
        ),
    ] {
        assert_eq!(store.rows(sql).await, rows, "{sql}");
    }
}

/// The story: without an argument these indexed into nothing, in the library, which panicked.
#[tokio::test]
async fn window_functions_without_a_value_are_refused() {
    let store = store(512 << 20);
    for name in ["first_value", "last_value", "nth_value", "lag", "lead"] {
        let error = store
            .error(&format!("SELECT {name}() OVER () FROM m"))
            .await;
        assert!(matches!(error, Error::Plan { .. }), "{name}: {error:?}");
        assert!(error.to_string().contains("takes a value"), "{error}");
    }
}

/// Functions that nobody has looked at are not there, whatever the library brings along.
#[tokio::test]
async fn functions_without_a_bound_are_unknown() {
    let store = store(512 << 20);
    for sql in [
        "SELECT array_transform(range(0, 10), x -> repeat('a', 1000000))",
        "SELECT array_filter(range(0, 10), x -> x > 1)",
    ] {
        let error = store.error(sql).await;
        let is_unknown = matches!(error, Error::UnknownName { .. } | Error::Plan { .. });
        assert!(is_unknown, "{sql}: {error:?}");
    }
}

/// The story: sixteen megabytes of a range, kept by nobody who reserves, and copied by each of these, were no query's. What is
/// allocated counts, whoever has it.
#[tokio::test]
async fn what_nobody_has_reserved_counts() {
    let store = store(8 << 20);
    for sql in [
        // A result that is handed from one operator to the next.
        "SELECT count(a) FROM (SELECT array_agg(value) OVER (PARTITION BY value % 2 ORDER BY value) AS a FROM generate_series(1, 100000))",
        "SELECT max(x) FROM (SELECT count(*) OVER () AS x FROM generate_series(1, 100000000))",
    ] {
        let error = store.error(sql).await;
        let over = OverMemory::Query { bytes_max: 8 << 20 };
        assert!(
            matches!(&error, Error::Memory(found) if *found == over),
            "{sql}: {error:?}"
        );
    }
    // What is given back does not count: far more than the limit goes through here, a batch at a time.
    let sql = "SELECT sum(length(repeat(value::text, 100))) FROM generate_series(100000, 299999)";
    assert_eq!(store.rows(sql).await, ["120000000"]);
    let sql = "SELECT value, repeat(value::text, 10) FROM generate_series(1, 300000)";
    assert_eq!(store.rows(sql).await.len(), 300_000);
}
