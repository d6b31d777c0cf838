//! Statements that are small, and were more than the parser, the planner or the memory could take. A test that does not end
//! has failed.

use std::fmt::Write;

use nilometer_query::Error;

use crate::support::Store;

fn store() -> Store {
    let store = Store::new();
    let lines: Vec<String> = (0..5000)
        .map(|n| format!("m,host=h{} n={n}i,f={n}.5,s=\"t{n}\" {n}", n % 7))
        .collect();
    store.write(&lines.join("\n"));
    store
}

/// The story: what is wrong inside CAST(...) was read again as the arguments of a function, and so were the CASTs in there:
/// 300 of them inside each other, a few kilobytes, kept a thread busy for ever, and no limit of time ended it.
#[tokio::test]
async fn calls_inside_each_other_are_refused_or_read_quickly() {
    let store = store();
    for (open, close) in [
        ("CAST(", " AS BIGINT)"),
        ("floor(", ")"),
        ("position(", ")"),
        ("EXTRACT(hour FROM ", ")"),
        ("NOT (", ")"),
        ("TRIM(", ")"),
    ] {
        for depth in [11, 40, 300, 3000] {
            let sql = format!("SELECT {}1{}", open.repeat(depth), close.repeat(depth));
            let error = store.error(&sql).await;
            assert!(
                matches!(error, Error::Syntax { .. }),
                "{open} {depth}: {error:?}"
            );
            assert!(error.to_string().contains("inside each other"), "{error}");
            store.error(&format!("SELECT {}", open.repeat(depth))).await;
        }
        store.error(&format!("SELECT {}!", open.repeat(10))).await;
    }
    let sql = format!(
        "SELECT {}n{} FROM m WHERE n = 3",
        "CAST(".repeat(9),
        " AS BIGINT)".repeat(9)
    );
    assert_eq!(store.rows(&sql).await, ["3"]);
}

/// The story: the planner's parser followed EXPLAIN EXPLAIN EXPLAIN ... until the stack of its thread was full, which ends
/// the process; and it parsed all of a hundred thousand statements to say that there may be one.
#[tokio::test]
async fn one_statement_is_explained_and_one_statement_is_read() {
    let store = store();
    for sql in [
        "EXPLAIN ".repeat(100_000) + "SELECT 1",
        "EXPLAIN ANALYZE VERBOSE EXPLAIN SELECT 1".to_owned(),
        "EXPLAIN FORMAT TREE EXPLAIN SELECT 1".to_owned(),
    ] {
        let error = store.error(&sql).await;
        assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    }
    let error = store.error(&"SELECT 1; ".repeat(90_000)).await;
    let Error::Syntax { message, position } = error else {
        panic!("{error:?}")
    };
    assert!(message.contains("one statement"), "{message}");
    assert_eq!(position.map(|place| place.column), Some(11));
    for sql in [
        "SELECT 1;",
        ";;SELECT 1 ;; ",
        "SELECT ';' || 'a;b' IS NULL; -- ; end",
    ] {
        assert_eq!(store.rows(sql).await.len(), 1, "{sql}");
    }
    assert!(
        !store
            .rows("EXPLAIN ANALYZE VERBOSE SELECT 1")
            .await
            .is_empty()
    );
}

/// The story: each name of a WITH stands for a copy of its query, so a hundred of them, each with the one before it twice,
/// are more tables than there are atoms. The server took all memory in 19 seconds. Views can do the same.
#[tokio::test]
async fn names_that_stand_for_more_and_more_are_refused() {
    let store = store();
    let with = |names: usize| {
        let mut sql = "WITH t0 AS (SELECT n FROM m WHERE n < 2)".to_owned();
        for name in 1..=names {
            let before = name - 1;
            write!(
                sql,
                ", t{name} AS (SELECT a.n FROM t{before} a JOIN T{before} b ON a.n = b.n)"
            )
            .unwrap();
        }
        sql + &format!(" SELECT count(*) FROM t{names}")
    };
    assert_eq!(store.rows(&with(3)).await, ["2"]);
    for names in [12, 100, 400] {
        let error = store.error(&with(names)).await;
        assert!(matches!(error, Error::TooDeep { .. }), "{names}: {error:?}");
    }
    let chain = |names: usize| {
        let mut sql = "WITH t0 AS (SELECT 1 AS n UNION ALL SELECT 2)".to_owned();
        for name in 1..=names {
            write!(sql, ", t{name} AS (SELECT n FROM t{})", name - 1).unwrap();
        }
        sql + &format!(" SELECT count(*) FROM t{names}")
    };
    assert_eq!(store.rows(&chain(20)).await, ["2"]);
    for names in [1000, 20_000] {
        let error = store.error(&chain(names)).await;
        assert!(matches!(error, Error::TooDeep { .. }), "{names}: {error:?}");
    }
    store.rows("CREATE VIEW v0 AS SELECT n FROM m").await;
    for view in 1..=12 {
        let before = view - 1;
        let sql = format!(
            "CREATE VIEW v{view} AS SELECT a.n FROM v{before} a JOIN v{before} b ON a.n = b.n"
        );
        if let Err(error) = store.batches(&sql).await {
            assert!(view > 8, "{view}: {error}");
            assert!(matches!(error, Error::TooDeep { .. }), "{error:?}");
            return;
        }
    }
    panic!("4096 copies of a view are no trouble");
}

/// The story: each value of a field was compared with each of the numbers of IN (...), before and besides the filter that
/// does so with a table of hashes; 100,000 of them took minutes, within which nothing could end the query.
#[tokio::test]
async fn long_lists_find_what_they_name() {
    let store = store();
    for (column, quote) in [("n", ""), ("f", ""), ("s", "'")] {
        let list = |from: usize| {
            let values = (from..from + 60_000).step_by(3).map(|n| match column {
                "n" => n.to_string(),
                "f" => format!("{n}.5"),
                _ => format!("{quote}t{n}{quote}"),
            });
            values.collect::<Vec<_>>().join(", ")
        };
        let count = |list: &str, not: &str| {
            format!("SELECT count(*) FROM m WHERE {column} {not} IN ({list})")
        };
        assert_eq!(store.rows(&count(&list(1), "")).await, ["1667"], "{column}");
        assert_eq!(
            store.rows(&count(&list(1), "NOT")).await,
            ["3333"],
            "{column}"
        );
        assert_eq!(
            store.rows(&count(&list(100_000), "")).await,
            ["0"],
            "{column}"
        );
    }
    let chain: Vec<String> = (0..300).map(|n| format!("n = {}", n * 16)).collect();
    let sql = format!(
        "SELECT count(*), min(n), max(n) FROM m WHERE {}",
        chain.join(" OR ")
    );
    assert_eq!(store.rows(&sql).await, ["300|0|4784"]);
}

/// The story: `repeat('x', 1000000000)` took a gigabyte from nobody's budget, `array_repeat(1, 1000000000000)` more than there is,
/// and `levenshtein` of two long texts held a thread for minutes.
#[tokio::test]
async fn functions_that_make_much_of_little_are_refused_before_they_begin() {
    let store = store();
    for sql in [
        "SELECT repeat('x', 1000000000)",
        "SELECT length(repeat('x', 9223372036854775807))",
        "SELECT repeat(s, 200000) FROM m",
        "SELECT repeat(repeat('x', 100000), 100000)",
        "SELECT lpad('x', 2000000000)",
        "SELECT rpad('x', 2000000000, 'yz')",
        "SELECT replace(repeat('x', 1000000), 'x', repeat('y', 100000))",
        "SELECT replace(repeat('x', 1000000), '', repeat('y', 100000))",
        "SELECT levenshtein(repeat('a', 200000), repeat('b', 200000))",
        "SELECT array_repeat(1, 1000000000000)",
        "SELECT array_repeat(repeat('x', 1000000), 1000000)",
        "SELECT array_resize([1], 1000000000000)",
        "SELECT range(1, 1000000000000)",
        "SELECT range(-9223372036854775807, 9223372036854775807)",
        "SELECT generate_series(1, 1000000000000)",
        "SELECT generate_series(1000000000000, 1, -1)",
        "SELECT generate_series(timestamp '1970-01-01', timestamp '2100-01-01', interval '1 second')",
    ] {
        let error = store.error(sql).await.to_string();
        assert!(
            error.contains("at once") && error.contains("allowed"),
            "{sql}: {error}"
        );
    }
    for (sql, wanted) in [
        ("SELECT repeat('ab', 3)", "ababab"),
        ("SELECT repeat('ab', -1) || repeat('b', 0) || 'c'", "c"),
        ("SELECT repeat(NULL, 3) IS NULL", "true"),
        ("SELECT length(repeat('x', 1000000))", "1000000"),
        (
            "SELECT sum(length(repeat(host, n))) FROM m WHERE n < 4",
            "12",
        ),
        ("SELECT lpad('x', 3, 'y') || rpad('x', 3)", "yyxx  "),
        ("SELECT replace('aXbX', 'X', '--')", "a--b--"),
        ("SELECT levenshtein('kitten', 'sitting')", "3"),
        ("SELECT array_to_string(array_repeat('a', 3), ',')", "a,a,a"),
        (
            "SELECT array_to_string(generate_series(5, 1, -2), ',')",
            "5,3,1",
        ),
        ("SELECT array_length(range(1000000))", "1000000"),
        (
            "SELECT array_length(generate_series(timestamp '2026-01-01', timestamp '2026-01-02', interval '1 hour'))",
            "25",
        ),
        ("SELECT array_length(range(9, 1))", "0"),
    ] {
        assert_eq!(store.rows(sql).await, [wanted], "{sql}");
    }
}

/// The story: a pattern that is too large when it is compiled was told as a mistake of the query engine, to be reported.
#[tokio::test]
async fn a_pattern_that_is_too_large_is_the_mistake_of_who_wrote_it() {
    let store = store();
    for pattern in ["((((a{100}){100}){100}){100})", "a{1000000000}"] {
        for sql in [
            format!("SELECT count(*) FROM m WHERE s ~ '{pattern}'"),
            format!("SELECT count(*) FROM m WHERE host ~ '{pattern}'"),
            format!("SELECT regexp_replace(s, '{pattern}', 'b') FROM m"),
        ] {
            let error = store.error(&sql).await;
            assert!(
                matches!(error, Error::Execution { .. } | Error::Plan { .. }),
                "{sql}: {error:?}"
            );
        }
    }
}

/// The story: CUBE of 40 columns stands for 2^40 groupings, all of which the planner wrote down.
#[tokio::test]
async fn groupings_of_all_subsets_are_few() {
    let store = store();
    let columns = |n: usize| {
        (2..n + 2)
            .map(|n| format!("n % {n}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    for group in [
        format!("CUBE ({})", columns(40)),
        format!("CUBE ({})", columns(13)),
        format!("CUBE ({0}), CUBE ({0})", columns(7)),
        format!("CUBE ({}), ROLLUP ({})", columns(12), columns(3)),
    ] {
        let sql = format!("SELECT count(*) FROM m GROUP BY {group}");
        let error = store.error(&sql).await;
        assert!(error.to_string().contains("4096 sets"), "{group}: {error}");
    }
    let sql = "SELECT host, count(*) FROM m GROUP BY CUBE (host) ORDER BY 2 DESC LIMIT 1";
    assert_eq!(store.rows(sql).await, ["-|5000"]);
    let sql = "SELECT count(*) FROM (SELECT count(*) FROM m GROUP BY ROLLUP (host, n % 2)) q";
    assert_eq!(store.rows(sql).await, ["22"]);
}
