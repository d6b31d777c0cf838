//! Statements that are small, and were more than the parser, the planner or the memory could take. A test that does not end
//! has failed.

use arrow::array::RecordBatch;
use std::fmt::Write;

use futures::StreamExt;
use nilometer_query::{Error, OverMemory, SqlOptions};

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
            // 127 joins are let through, 255 are not.
            assert_eq!(view, 8, "{error}");
            assert!(matches!(error, Error::TooManyJoins { .. }), "{error:?}");
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
        // More than a batch may have: 5000 rows of two to five letters, 478 MB, in batches that are cut.
        ("SELECT sum(length(repeat(s, 20000))) FROM m", "477800000"),
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
        // Of an empty array it is NULL, as in PostgreSQL.
        ("SELECT array_length(range(9, 1))", "-"),
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

/// The story: a batch of rows has a column for each entry of a list, and the planner compares each entry with each. A statement
/// of 100,000 columns, or that sorted by as many, took all memory of a small server; ten thousand took a minute to plan.
#[tokio::test]
async fn longer_lists_than_any_client_writes_are_refused_and_lists_of_values_are_not() {
    let store = store();
    let list = |count: usize, entry: &str| {
        let entries: Vec<String> = (0..count)
            .map(|n| entry.replace('@', &n.to_string()))
            .collect();
        entries.join(", ")
    };
    for count in [1665, 40_000] {
        for sql in [
            format!("SELECT {} FROM m", list(count, "n + @")),
            format!("SELECT n FROM m ORDER BY {}", list(count, "n % (@ + 2)")),
            format!(
                "SELECT count(*) FROM m GROUP BY {}",
                list(count, "n % (@ + 2)")
            ),
            format!(
                "SELECT count(*) FROM m GROUP BY ({})",
                list(count, "n % (@ + 2)")
            ),
            format!(
                "SELECT sum(n) OVER (PARTITION BY {}) FROM m",
                list(count, "n % (@ + 2)")
            ),
            format!("SELECT concat({}) FROM m", list(count, "@")),
            format!(
                "WITH w AS (SELECT {} FROM m) SELECT 1",
                list(count, "n + @ AS c@")
            ),
        ] {
            let error = store.error(&sql).await.to_string();
            assert!(
                error.contains("limited to 1664"),
                "{count} {sql:.60}: {error}"
            );
        }
    }
    for sql in [
        format!("SELECT count(*) FROM m WHERE n IN ({})", list(5000, "@")),
        format!(
            "SELECT count(*) FROM (SELECT n IN ({}) AS i FROM m) q WHERE i",
            list(5000, "@")
        ),
        format!("SELECT count(*) FROM (VALUES {}) AS t", list(5000, "(@)")),
        format!("SELECT array_length(ARRAY[{}])", list(5000, "@")),
    ] {
        assert_eq!(store.rows(&sql).await, ["5000"], "{sql:.60}");
    }
    let sql = format!("SELECT {} FROM m WHERE n = 7", list(300, "n + @ AS c@"));
    let wanted: Vec<String> = (7..307).map(|n| n.to_string()).collect();
    assert_eq!(store.rows(&sql).await, [wanted.join("|")]);
}

/// The story: a text of a megabyte in a statement was written once for each of the 8192 rows of a batch, before anybody saw
/// how much that is.
#[tokio::test]
async fn a_long_text_in_each_row_makes_batches_of_few_rows() {
    let store = store();
    let sql = "SELECT sum(length(t)), count(*) FROM (SELECT repeat('x', 1000000) AS t, n FROM m ORDER BY n LIMIT 9) q";
    assert_eq!(store.rows(sql).await, ["9000000|9"]);
    let batches = store
        .batches("SELECT n, repeat('x', 1000000) AS t FROM m WHERE n < 50")
        .await
        .unwrap();
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let most = batches.iter().map(RecordBatch::num_rows).max();
    assert_eq!((rows, most), (50, Some(4)));
}

/// The story: `array_agg` over all rows before each row makes its array again for each: 3 million rows, 4.5e12 numbers, from
/// nobody's budget. So does one over all rows, which are written at each of them.
#[tokio::test]
async fn windows_whose_values_grow_are_charged_and_small_ones_answer() {
    let store = Store::with(SqlOptions {
        query_memory_bytes_max: 16 << 20,
        ..SqlOptions::default()
    });
    let lines: Vec<String> = (0..5000)
        .map(|n| format!("m,host=h{} n={n}i,s=\"t{n}\" {n}", n % 7))
        .collect();
    store.write(&lines.join("\n"));
    for over in [
        "ORDER BY n",
        "ORDER BY n ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        "ORDER BY n ROWS BETWEEN 4000 PRECEDING AND CURRENT ROW",
        "ORDER BY n ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
        "",
        "PARTITION BY host",
    ] {
        for value in ["array_agg(n)", "string_agg(s, ',')"] {
            let sql = format!(
                "SELECT count(*) FROM (SELECT {value} OVER ({over}) AS a FROM m) q WHERE a IS NULL"
            );
            let error = store.error(&sql).await;
            assert!(
                matches!(error, Error::Memory(OverMemory::Query { .. })),
                "{sql}: {error:?}"
            );
        }
    }
    for (sql, wanted) in [
        (
            "SELECT sum(array_length(a)) FROM (SELECT array_agg(n) OVER (ORDER BY n ROWS 10 PRECEDING) AS a FROM m) q",
            "54945",
        ),
        (
            "SELECT array_to_string(a, ',') FROM (SELECT array_agg(n) OVER (ORDER BY n) AS a, n FROM m WHERE n < 5) q WHERE n = 3",
            "0,1,2,3",
        ),
        (
            "SELECT string_agg(s, ',') OVER () FROM m WHERE n < 3 LIMIT 1",
            "t0,t1,t2",
        ),
        (
            "SELECT max(s) FROM (SELECT sum(n) OVER (ORDER BY n) AS s FROM m) q",
            "12497500",
        ),
    ] {
        assert_eq!(store.rows(sql).await, [wanted], "{sql}");
    }
}

/// The story: the limit of what a function may make was one of nine functions. Others make as much: what a regular
/// expression finds, texts side by side and side by side again, arrays in arrays, text between a million numbers.
#[tokio::test]
async fn other_functions_make_no_more_at_once_either() {
    let store = store();
    let many = |part: &str, between: &str| [part; 10].join(between);
    let (text, numbers) = ("repeat('x', 30000000)", "range(4000000)");
    let doubled =
        "SELECT a || a AS a FROM (".repeat(12) + "SELECT host AS a FROM m" + &") q".repeat(12);
    let doubled = format!("SELECT max(length(a)) FROM ({doubled}) q");
    for sql in [
        "SELECT length(regexp_replace(repeat('x', 1000000), 'x', repeat('y', 100000), 'g'))".to_owned(),
        r"SELECT length(regexp_replace(repeat('x', 1000000), '(.*)', repeat('\1', 1000)))".to_owned(),
        format!("SELECT length({})", many(text, " || ")),
        format!("SELECT length(concat({}))", many(text, ", ")),
        format!("SELECT length(concat_ws('-', {}))", many(text, ", ")),
        format!("SELECT length(overlay({text} PLACING {text} FROM 5))"),
        format!("SELECT array_length([{}])", many(numbers, ", ")),
        format!("SELECT array_length(array_concat({}))", many(numbers, ", ")),
        format!("SELECT array_length({})", many(numbers, " || ")),
        format!("SELECT length({}repeat('x', 10000000){})", "encode(".repeat(4), ", 'hex')".repeat(4)),
        "SELECT length(array_to_string(range(1000), repeat('x', 3000000)))".to_owned(),
        "SELECT array_length(string_to_array(repeat(',', 5000000), ','))".to_owned(),
        "SELECT length(to_char(timestamp '2026-01-01', repeat('%c', 15000000)))".to_owned(),
        "SELECT array_length(array_resize([repeat('x', 3000000)], 1000, repeat('x', 3000000)))".to_owned(),
        "SELECT array_length(array_replace_all(array_repeat('a', 1000), 'a', repeat('x', 3000000)))".to_owned(),
        "SELECT array_has_all(range(1000000), range(1000000))".to_owned(),
        "SELECT array_length(array_except(range(4000000), range(4000000)))".to_owned(),
    ] {
        let error = store.error(&sql).await.to_string();
        assert!(
            error.contains("at once") && error.contains("allowed"),
            "{sql:.100}: {error}"
        );
    }
    for (sql, wanted) in [
        ("SELECT 'a' || NULL || 'b' IS NULL", "true"),
        (doubled.as_str(), "8192"),
        ("SELECT host || '-' || n || 'x' FROM m WHERE n = 8", "h1-8x"),
        ("SELECT concat(host, NULL, n) FROM m WHERE n = 8", "h18"),
        (
            "SELECT concat_ws('-', host, n, 'x') FROM m WHERE n = 8",
            "h1-8-x",
        ),
        ("SELECT overlay('abcdef' PLACING 'X' FROM 2)", "aXcdef"),
        ("SELECT array_to_string([1, 2] || [3], ',')", "1,2,3"),
        ("SELECT encode('ab', 'hex')", "6162"),
        (
            r"SELECT regexp_replace('a1b22', '([0-9]+)', '<\1>', 'g')",
            "a<1>b<22>",
        ),
        ("SELECT regexp_replace('a1b22', '[0-9]', '#')", "a#b22"),
        (
            "SELECT regexp_replace(host, 'H', 'k', 'i') FROM m WHERE n = 8",
            "k1",
        ),
        (
            "SELECT length(regexp_replace(repeat('x', 1000000) || 'y', 'y', repeat('z', 1000), 'g'))",
            "1001000",
        ),
        ("SELECT array_length(string_to_array('a,b,c', ','))", "3"),
        ("SELECT array_has_all([1, 2, 3], [1, 3])", "true"),
        ("SELECT count(*) FROM m WHERE host || 'x' = 'h1x'", "715"),
        (
            "SELECT length(replace(repeat('x', 2000000), 'y', repeat('z', 100)))",
            "2000000",
        ),
    ] {
        assert_eq!(store.rows(sql).await, [wanted], "{sql}");
    }
}

/// The story: what a scan holds of blocks that it reads was nobody's; 64 scans that waited for their clients had 600 MB. Now it
/// is the query's; and a small question waits for its share of memory, and is not refused because large ones came first.
#[tokio::test]
async fn a_scan_is_charged_and_a_small_question_waits_for_memory() {
    let store = Store::with(SqlOptions {
        queries_memory_bytes_max: 2_000_000,
        query_ms_max: 2000,
        ..SqlOptions::default()
    });
    let lines: Vec<String> = (0..60_000)
        .map(|n| format!("m,host=h{} n={n}i {n}", n % 7))
        .collect();
    store.write(&lines.join("\n"));
    let mut open = Vec::new();
    let over = loop {
        let mut answer = match store.sql().query("d", "SELECT * FROM m").await {
            Ok(answer) => answer,
            Err(error) => break error,
        };
        match answer.next().await {
            Some(Ok(_)) => open.push(answer),
            Some(Err(error)) => break error,
            None => panic!("a table without rows"),
        }
        assert!(open.len() < 20, "nobody counts what they hold");
    };
    // One that finds less than its share left waits for it, as long as it may.
    assert!(
        matches!(
            over,
            Error::Memory(OverMemory::Shared { .. }) | Error::Time { .. }
        ),
        "{over:?}"
    );
    assert!(!open.is_empty(), "not one fits");
    // Whoever holds all that is left lets go while the small question waits, or there was room for it.
    let small = store.sql().query("d", "SELECT 1 AS one");
    let (answer, ()) = tokio::join!(small, async {
        tokio::task::yield_now().await;
        open.clear();
    });
    assert_eq!(answer.unwrap().collect().await.unwrap().len(), 1);
}

/// The story: each `||` was made a call within the next one, and the planner walked through all of them for each: a chain of
/// 300 took 15 s, of 990 nine minutes, and no limit of time ends what plans.
#[tokio::test]
async fn a_long_chain_is_joined_in_one_call() {
    let store = Store::new();
    store.write("m,host=ab v=1 1");
    let chain = ["host"; 60].join(" || ");
    let rows = store.rows(&format!("SELECT length({chain}) FROM m")).await;
    assert_eq!(rows, ["120"]);
    let plan = store.rows(&format!("EXPLAIN SELECT {chain} FROM m")).await;
    let plan = plan.join("\n");
    assert!(plan.contains("Projection: ||("), "{plan}");
    assert!(!plan.contains("||(||("), "{plan}");
}

/// The story: 300 joins were planned for a minute on a busy machine under a limit of four seconds, in one rule of the planner
/// that nothing ends.
#[tokio::test]
async fn more_joins_than_are_planned_in_a_second_are_refused() {
    let store = Store::new();
    store.write("m,host=a v=1 1");
    let joins = |n: usize| {
        let joins: Vec<String> = (1..=n)
            .map(|n| format!("JOIN m m{n} ON m{n}.time = m0.time"))
            .collect();
        format!("SELECT count(*) AS n FROM m m0 {}", joins.join(" "))
    };
    assert_eq!(store.rows(&joins(20)).await, ["1"]);
    store
        .rows(&format!("CREATE VIEW joined AS {}", joins(70)))
        .await;
    let twice = "SELECT a.n FROM joined a CROSS JOIN joined b".to_owned();
    for sql in [joins(129), joins(300), twice] {
        let error = store.error(&sql).await;
        assert!(
            matches!(error, Error::TooManyJoins { limit: 128 }),
            "{error}"
        );
    }
}
