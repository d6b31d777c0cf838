//! What reaches the engine of conditions on fields, of ORDER BY time LIMIT and of `first` and `last`: the answers are
//! those of the same statements over all rows, wherever the rows are.

use std::fmt::Write;

use crate::support::Store;

/// The same statement over a scan that nothing is asked of.
fn plain(sql: &str) -> String {
    sql.replace("FROM m", "FROM (SELECT * FROM m LIMIT 100000000) m")
}

async fn plan(store: &Store, sql: &str) -> String {
    store.rows(&format!("EXPLAIN {sql}")).await.join("\n")
}

/// Rows of three hosts in two regions, some seconds apart, with fields that are absent here and there.
fn lines(from: u64, to: u64, salt: u64) -> String {
    let mut lines = String::new();
    for second in from..to {
        for (n, (host, region)) in [("a", "x"), ("b", "x"), ("c", "y")].iter().enumerate() {
            let noise = ((second / 50) * 7919 + n as u64 * 31 + salt) % 100;
            let time_ns = (second + n as u64) * 1_000_000_000;
            write!(lines, "m,host={host},region={region} f={noise}.5").unwrap();
            if second % 3 != 0 {
                write!(lines, ",i={}i", noise as i64 - 50).unwrap();
            }
            if second % 5 != 0 {
                write!(lines, ",u={noise}u").unwrap();
            }
            if second % 7 == 0 {
                write!(lines, ",b={},s=\"note {noise}\"", noise > 90).unwrap();
            }
            writeln!(lines, " {time_ns}").unwrap();
        }
    }
    lines
}

/// Statements whose answer has one order.
const ORDERED: [&str; 13] = [
    "SELECT * FROM m ORDER BY time DESC, host LIMIT 7",
    "SELECT host, time, i FROM m ORDER BY time, host DESC LIMIT 5 OFFSET 2",
    "SELECT time, f * 2 AS x FROM m WHERE region = 'x' ORDER BY time DESC, host LIMIT 4",
    "SELECT * FROM m WHERE time < '1970-01-01T00:20:00Z' ORDER BY time DESC, host LIMIT 10",
    "SELECT time FROM m ORDER BY time DESC LIMIT 10",
    "SELECT time FROM m WHERE host IN ('a', 'c') ORDER BY time LIMIT 3",
    "SELECT * FROM m ORDER BY time DESC, f, host LIMIT 5",
    "SELECT time, f * 2 AS x, i FROM m ORDER BY time, f * 2 DESC, host LIMIT 6 OFFSET 1",
    "SELECT x, time FROM (SELECT f * 2 AS x, time, host FROM m) q ORDER BY time DESC, x, host LIMIT 4",
    "SELECT i + 1, time FROM m WHERE host = 'c' ORDER BY time DESC LIMIT 3",
    "SELECT DISTINCT ON (host) * FROM m ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host, region) time, host, i FROM m ORDER BY host, region, time",
    "SELECT host, last(i, time) FROM m GROUP BY host ORDER BY host LIMIT 2",
];

/// Statements whose answer is a set.
const SETS: [&str; 22] = [
    "SELECT host, last(f, time), first(s, time), max(time) FROM m GROUP BY host",
    "SELECT region, last(i, time), last(b, time) FROM m GROUP BY region",
    "SELECT first(i + 1, time), min(time) FROM m WHERE time > '1970-01-01T00:10:00Z'",
    "SELECT last(f, time) FROM m WHERE host = 'b' AND time < '1970-01-01T00:33:20Z'",
    "SELECT host, time, f FROM (SELECT *, row_number() OVER (PARTITION BY host ORDER BY time DESC) AS n FROM m) q WHERE n <= 3",
    "SELECT host, last(i + 1, time), max(time), first(upper(s), time) FROM m GROUP BY host",
    "SELECT last(f * 2, time), last(s || '!', time) FROM m WHERE host = 'a'",
    "SELECT *, n * 2 FROM (SELECT *, row_number() OVER (PARTITION BY host ORDER BY time DESC) AS n FROM m) q WHERE n <= 3",
    "SELECT host, n, f FROM (SELECT *, row_number() OVER (PARTITION BY host, region ORDER BY time, f) AS n FROM m) q WHERE n < 5 AND n <> 2",
    "SELECT host, n, d FROM (SELECT host, d, row_number() OVER (PARTITION BY host ORDER BY time) AS n FROM (SELECT host, f + 1 AS d, time FROM m) p) q WHERE n = 2 AND n + d > 3",
    "SELECT * FROM m WHERE f > 90.0",
    "SELECT time, host, i FROM m WHERE i BETWEEN 3 AND 5 AND f <= 60",
    "SELECT * FROM m WHERE i IN (1, 7, 40) OR i = -50",
    "SELECT * FROM m WHERE i < -45 AND host <> 'a'",
    "SELECT * FROM m WHERE i > 40.0 AND i <= 44.5",
    "SELECT * FROM m WHERE i BETWEEN -3.5 AND -1.0 AND u < 60.5",
    "SELECT * FROM m WHERE i IN (1.0, 2.5, -7.0) AND u >= -3.0 AND u > 0.5",
    "SELECT * FROM m WHERE s = 'note 93' OR s >= 'note 98'",
    "SELECT time, s FROM m WHERE b",
    "SELECT count(*), min(s) FROM m WHERE NOT b AND s IS NOT NULL AND time > '1970-01-01T00:05:00Z'",
    "SELECT count(*), sum(f) FROM m WHERE i IS NOT NULL AND i <> 7",
    "SELECT host, count(*) FROM m WHERE f = 7.5 GROUP BY host",
];

async fn check(store: &Store, state: &str) {
    for sql in ORDERED {
        assert_eq!(
            store.rows(sql).await,
            store.rows(&plain(sql)).await,
            "{state}: {sql}"
        );
    }
    for sql in SETS {
        assert_eq!(
            store.set(sql).await,
            store.set(&plain(sql)).await,
            "{state}: {sql}"
        );
    }
}

#[tokio::test]
async fn answers_are_those_of_all_rows_wherever_they_are() {
    let store = Store::new();
    store.write(&lines(0, 2500, 0));
    for sql in ORDERED.iter().chain(&SETS) {
        let text = plan(&store, sql).await;
        let is_narrowed = ["newest=", "oldest=", "of each series", "fields=["];
        assert!(
            is_narrowed.iter().any(|it| text.contains(it)),
            "{sql}: {text}"
        );
        let text = plan(&store, &plain(sql)).await;
        assert!(
            !is_narrowed.iter().any(|it| text.contains(it)),
            "{sql}: {text}"
        );
    }
    check(&store, "head").await;
    store.engine.flush().unwrap();
    check(&store, "flushed").await;
    store.write(&lines(2000, 3000, 17));
    check(&store, "flushed, with newer rows in the head").await;
    store.engine.flush().unwrap();
    check(&store, "two segments that overlap").await;
    store
        .batches("DELETE FROM m WHERE time >= '1970-01-01T00:48:00Z' AND host = 'b'")
        .await
        .unwrap();
    store.batches("DELETE FROM m WHERE f > 97").await.unwrap();
    check(&store, "with deletes").await;
    store
        .batches("UPDATE m SET i = 99 WHERE f = 7.5")
        .await
        .unwrap();
    check(&store, "with updates").await;
    store.engine.settle().unwrap();
    check(&store, "settled").await;
}

/// Of rows of one time the order chooses by what comes after it, so all of them have to be there.
#[tokio::test]
async fn rows_of_one_time_are_chosen_by_what_comes_after_it() {
    let store = Store::new();
    store.write(
        "m,host=a f=3 1\nm,host=b f=1 1\nm,host=c f=2 1\nm,host=a f=6 2\nm,host=b f=4 2\nm,host=c f=5 2\nm,host=a f=7 3",
    );
    for _ in 0..2 {
        for (sql, rows) in [
            (
                "SELECT f FROM m ORDER BY time DESC, f LIMIT 2",
                ["7.0", "4.0"],
            ),
            (
                "SELECT f + 1 FROM m ORDER BY time, f LIMIT 2",
                ["2.0", "3.0"],
            ),
            (
                "SELECT f FROM m ORDER BY time, f DESC LIMIT 2",
                ["3.0", "2.0"],
            ),
            (
                "SELECT f FROM m ORDER BY time DESC, f + 0 LIMIT 2 OFFSET 1",
                ["4.0", "5.0"],
            ),
        ] {
            assert_eq!(store.rows(sql).await, rows, "{sql}");
            let text = plan(&store, sql).await;
            assert!(text.contains("SeriesExec"), "{sql}: {text}");
        }
        store.engine.flush().unwrap();
    }
}

/// Tables whose time is a day or a number had scans of all rows for their ends, because nothing was recognised of them but by a rule
/// of its own, which is gone.
#[tokio::test]
async fn ends_of_days_and_numbers_are_those_of_times() {
    let store = Store::new();
    for sql in [
        "CREATE TABLE days (day DATE, host TEXT, v BIGINT) WITH (tsdb.hypertable, tsdb.partition_column = 'day', tsdb.segmentby = 'host')",
        "CREATE TABLE numbers (n BIGINT, host TEXT, v BIGINT) WITH (tsdb.hypertable, tsdb.partition_column = 'n', tsdb.chunk_interval = 1000, tsdb.segmentby = 'host')",
        "INSERT INTO days VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'a', 2), ('2024-01-03', 'b', 3), ('2023-12-31', 'b', 4)",
        "INSERT INTO numbers VALUES (10, 'a', 1), (-5, 'a', 2), (700, 'b', 3), (8, 'b', 4)",
    ] {
        store.batches(sql).await.unwrap();
    }
    for (sql, rows) in [
        (
            "SELECT day, v FROM days ORDER BY day DESC LIMIT 1",
            &["2024-01-03|3"] as &[&str],
        ),
        (
            "SELECT v + 1, day FROM days WHERE day < '2024-01-03' ORDER BY day DESC LIMIT 1",
            &["3|2024-01-02"],
        ),
        (
            "SELECT host, last(v, day), min(day), max(day) FROM days GROUP BY host ORDER BY host",
            &["a|2|2024-01-01|2024-01-02", "b|3|2023-12-31|2024-01-03"],
        ),
        (
            "SELECT DISTINCT ON (host) host, day, v FROM days ORDER BY host, day",
            &["a|2024-01-01|1", "b|2023-12-31|4"],
        ),
        (
            "SELECT n, v FROM numbers ORDER BY n LIMIT 2",
            &["-5|2", "8|4"],
        ),
        (
            "SELECT v * 2 FROM numbers WHERE n < 100 ORDER BY n DESC LIMIT 1",
            &["2"],
        ),
        (
            "SELECT host, last(v, n), first(v + 1, n), max(n) FROM numbers GROUP BY host ORDER BY host",
            &["a|1|3|10", "b|3|5|700"],
        ),
        (
            "SELECT host, n, p FROM (SELECT *, row_number() OVER (PARTITION BY host ORDER BY n DESC) AS p FROM numbers) q WHERE p <= 1 ORDER BY host",
            &["a|10|1", "b|700|1"],
        ),
        (
            "SELECT count(*), min(n), max(n) FROM numbers WHERE n >= 8",
            &["3|8|700"],
        ),
    ] {
        assert_eq!(store.rows(sql).await, rows, "{sql}");
        let text = plan(&store, sql).await;
        assert!(
            text.contains("SeriesExec") && !text.contains("SeriesScan"),
            "{sql}: {text}"
        );
    }
    // Their buckets are other questions.
    for (sql, rows) in [
        (
            "SELECT time_bucket(100, n) AS b, sum(v) FROM numbers GROUP BY b ORDER BY b",
            &["-100|2", "0|5", "700|3"] as &[&str],
        ),
        (
            "SELECT count(*) FROM (SELECT n, count(*) FROM numbers GROUP BY n HAVING count(*) > 0) q",
            &["4"],
        ),
    ] {
        assert_eq!(store.rows(sql).await, rows, "{sql}");
    }
}

#[tokio::test]
async fn what_needs_all_rows_reads_all() {
    let store = Store::new();
    store.write(&lines(0, 10, 0));
    for sql in [
        // The order is of what the rows are made into, or of other columns.
        "SELECT f FROM m ORDER BY f LIMIT 3",
        "SELECT host, time FROM m ORDER BY host, time LIMIT 3",
        "SELECT time FROM m ORDER BY time",
        "SELECT time + INTERVAL '1 s' AS time FROM m ORDER BY time LIMIT 3",
        // A condition on a field chooses among the rows first.
        "SELECT last(f, time) FROM m WHERE f > 3 AND i IS NULL",
        "SELECT i, last(f, time) FROM m GROUP BY i",
        "SELECT host, last(f, time), count(*) FROM m GROUP BY host",
        "SELECT host, last(f, i) FROM m GROUP BY host",
        "SELECT last(f, time) FILTER (WHERE f > 3) FROM m",
        "SELECT last_value(i ORDER BY time) IGNORE NULLS FROM m",
        "SELECT max(f) FROM (SELECT *, row_number() OVER (PARTITION BY host ORDER BY f DESC) AS n FROM m) q WHERE n <= 1",
        "SELECT max(f) FROM (SELECT *, row_number() OVER (PARTITION BY host ORDER BY time DESC) AS n FROM m) q WHERE n > 1",
    ] {
        let text = plan(&store, sql).await;
        for narrowed in ["newest=", "oldest=", "of each series"] {
            assert!(!text.contains(narrowed), "{sql}: {text}");
        }
        assert_eq!(store.set(sql).await, store.set(&plain(sql)).await, "{sql}");
    }
}

#[tokio::test]
async fn odd_floats_are_compared_as_the_planner_compares_them() {
    use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
    use nilometer_engine::ingest::{OnConflict, Session, Target};
    let store = Store::new();
    store.write("m f=1 1\n");
    let values = [
        f64::NAN,
        -f64::NAN,
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        90.0,
        1e-310,
    ];
    let floats = Float64Array::from_iter_values((0..2048).map(|n| values[n / 256]));
    let times = Int64Array::from_iter_values(1..=2048);
    let columns: [(&str, ArrayRef); 2] = [
        ("time", std::sync::Arc::new(times)),
        ("f", std::sync::Arc::new(floats)),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut session = Session::new(std::sync::Arc::clone(&store.engine), "d").unwrap();
    session
        .write_arrow(Target::table("m"), &batch, OnConflict::Replace)
        .unwrap();
    for state in ["head", "flushed"] {
        for condition in [
            "f > 90",
            "f >= 90",
            "f < 0",
            "f <= 0",
            "f > 0",
            "f >= 0",
            "f = 0",
            "f = -0.0",
            "f < -0.0",
            "f >= -0.0",
            "f <> 0",
            "f = 90",
            "f < 1e-310",
            "f IN (0, 90)",
            "f BETWEEN -0.0 AND 90",
            "f > 1e308",
            "f <= -1e308",
            "f = 'NaN'::double",
            "f > 'NaN'::double",
            "f <= 'Infinity'::double",
        ] {
            let sql = format!("SELECT time, f FROM m WHERE {condition}");
            assert_eq!(
                store.set(&sql).await,
                store.set(&plain(&sql)).await,
                "{state}: {sql}"
            );
        }
        store.engine.flush().unwrap();
    }
}

#[tokio::test]
async fn integers_are_compared_with_floats_as_the_planner_compares_them() {
    let store = Store::new();
    let big = 9_007_199_254_740_993_i64;
    let mut lines = String::new();
    for (n, i) in [-3, -2, 0, 1, 2, 3, big, -big, i64::MAX, i64::MIN]
        .iter()
        .enumerate()
    {
        // Blocks of one value each, so that statistics say what it is.
        for row in 0..1024 {
            let time = n * 1024 + row + 1;
            writeln!(lines, "m,host=a i={i}i,u={}u {time}", i.unsigned_abs()).unwrap();
        }
    }
    store.write(&lines);
    store.engine.flush().unwrap();
    for column in ["i", "u"] {
        for value in [
            "0.0",
            "-0.0",
            "2.0",
            "2.5",
            "-2.5",
            "-2.0",
            "9007199254740992.0",
            "-9007199254740992.0",
            "9223372036854775807.0",
            "1e300",
            "-1e300",
            "'NaN'::double",
            "'-Infinity'::double",
        ] {
            for op in ["=", "<>", "<", "<=", ">", ">="] {
                let sql = format!("SELECT count(*), min(time) FROM m WHERE {column} {op} {value}");
                let swapped =
                    format!("SELECT count(*), min(time) FROM m WHERE {value} {op} {column}");
                for sql in [sql, swapped] {
                    assert_eq!(
                        store.rows(&sql).await,
                        store.rows(&plain(&sql)).await,
                        "{sql}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn explain_analyze_counts_what_conditions_on_fields_leave_out() {
    let store = Store::new();
    let mut lines = String::new();
    for second in 0..4096_u64 {
        writeln!(
            lines,
            "m,host=a a={second},b={}i,c=1 {second}000000000",
            second % 2
        )
        .unwrap();
    }
    store.write(&lines);
    store.engine.flush().unwrap();
    let analyzed = async |sql: &str| {
        store
            .rows(&format!("EXPLAIN ANALYZE {sql}"))
            .await
            .join("\n")
    };
    let text = analyzed("SELECT * FROM m WHERE a > 4000").await;
    for figure in [
        "fields=[a > 4000]",
        "blocks_ruled_out=3",
        "blocks_read=1",
        "blocks_without_hit=0",
    ] {
        assert!(text.contains(figure), "no {figure} in {text}");
    }
    // The extremes of a do not say that no value lies between two of them; its pages do, and b and c are not read.
    let text = analyzed("SELECT * FROM m WHERE a BETWEEN 7.25 AND 7.5").await;
    for figure in [
        "blocks_ruled_out=3",
        "blocks_read=1",
        "blocks_without_hit=1",
        "pages_read=1,",
    ] {
        assert!(text.contains(figure), "no {figure} in {text}");
    }
    // The last row of a series is found once for a segment, and kept with it.
    let text = analyzed("SELECT host, last(a, time) FROM m GROUP BY host").await;
    for figure in [
        "of each series first=0 last=1",
        "blocks_read=0",
        "bytes_read=0",
        "output_rows=1,",
    ] {
        assert!(text.contains(figure), "no {figure} in {text}");
    }
    let text = analyzed("SELECT * FROM m ORDER BY time DESC LIMIT 3").await;
    for figure in ["newest=3", "time=all", "blocks=1 of 4"] {
        assert!(text.contains(figure), "no {figure} in {text}");
    }
}
