//! Aggregates that one operator answers from rollups and statistics: they are what the rows say, from the head, from
//! segments and from both, and what the operator does not know goes the planner's way.

use std::collections::BTreeMap;
use std::fmt::Write;

use nilometer_query::{Error, SqlOptions};

use crate::support::Store;

const HOUR: i64 = 3600;

/// One row of the data.
struct Row {
    time_s: i64,
    host: &'static str,
    region: Option<&'static str>,
    i: Option<i64>,
    /// A multiple of a quarter, so that sums in any order are the same.
    f: f64,
    b: bool,
    s: String,
}

/// Three series of a row every 20 s for six hours, with gaps in a field and one series without a region.
fn rows() -> Vec<Row> {
    let series = [("a", Some("north")), ("b", Some("north")), ("c", None)];
    let mut rows = Vec::new();
    for (at, (host, region)) in (0_i64..).zip(series) {
        for n in 0..6 * 180_i64 {
            let noise = (n * 7919 + at * 104_729) % 1009;
            rows.push(Row {
                time_s: 10 * HOUR + n * 20,
                host,
                region,
                i: (noise % 5 != 0).then_some(noise - 500),
                f: (noise * 3 - 900) as f64 / 4.0,
                b: noise % 400 == 0,
                s: format!("v{:04}", noise * noise % 997),
            });
        }
    }
    rows
}

fn write(store: &Store, rows: &[Row]) {
    let mut lines = String::new();
    for row in rows {
        let region = row
            .region
            .map_or(String::new(), |name| format!(",region={name}"));
        let i = row.i.map_or(String::new(), |i| format!("i={i}i,"));
        writeln!(
            lines,
            "m,host={}{region} {i}f={},b={},s=\"{}\" {}",
            row.host,
            row.f,
            row.b,
            row.s,
            row.time_s * 1_000_000_000
        )
        .unwrap();
    }
    store.write(&lines);
}

/// Aggregates of a group, row by row.
#[derive(Default)]
struct Expected {
    rows: u64,
    ints: Vec<i64>,
    floats: Vec<f64>,
    trues: u64,
    texts: Vec<String>,
}

impl Expected {
    fn line(&self, group: &str) -> String {
        let count = self.ints.len();
        let sum: i64 = self.ints.iter().sum();
        let sum_f: f64 = self.floats.iter().sum();
        let max_f = self.floats.iter().copied().fold(f64::MIN, f64::max);
        let min_i = self.ints.iter().min().unwrap();
        let (min_s, max_s) = (
            self.texts.iter().min().unwrap(),
            self.texts.iter().max().unwrap(),
        );
        let average = sum_f / self.floats.len() as f64;
        format!(
            "{group}|{}|{count}|{sum}|{average:?}|{min_i}|{max_f:?}|{min_s}|{max_s}|{}",
            self.rows,
            self.trues > 0
        )
    }
}

const ASKED: &str = "count(*), count(i), sum(i), avg(f), min(i), max(f), min(s), max(s), max(b)";

fn expected(rows: &[Row], group: impl Fn(&Row) -> String) -> Vec<String> {
    let mut groups: BTreeMap<String, Expected> = BTreeMap::new();
    for row in rows {
        let found = groups.entry(group(row)).or_default();
        found.rows += 1;
        found.ints.extend(row.i);
        found.floats.push(row.f);
        found.trues += u64::from(row.b);
        found.texts.push(row.s.clone());
    }
    let mut lines: Vec<String> = groups
        .iter()
        .map(|(group, found)| found.line(group))
        .collect();
    lines.sort();
    lines
}

type Group<'a> = &'a dyn Fn(&Row) -> String;

async fn check(store: &Store, state: &str, rows: &[Row]) {
    let hour = |row: &Row| format!("1970-01-01T{:02}:00:00Z", row.time_s / HOUR);
    let region = |row: &Row| row.region.unwrap_or("-").to_owned();
    let bucketed = |row: &Row| format!("{}|{}", hour(row), region(row));
    let cases: [(&str, Group<'_>); 5] = [
        ("time_bucket('1 hour', time), region", &bucketed),
        ("date_trunc('hour', time), region", &bucketed),
        ("region", &region),
        ("host", &|row| row.host.to_owned()),
        ("time_bucket('1 hour', time)", &hour),
    ];
    for (groups, group) in cases {
        let sql = format!("SELECT {groups}, {ASKED} FROM m GROUP BY {groups}");
        assert!(uses_statistics(store, &sql).await, "{sql}");
        assert_eq!(
            store.set(&sql).await,
            expected(rows, group),
            "{state}: {sql}"
        );
    }
    // A range that begins and ends inside hours, and a choice of series.
    let some: Vec<&Row> = rows
        .iter()
        .filter(|row| (10 * HOUR + 1000..=13 * HOUR + 60).contains(&row.time_s) && row.host != "b")
        .collect();
    let sql = "SELECT count(*), sum(i) FROM m WHERE time >= '1970-01-01T10:16:40Z' AND time <= '1970-01-01T13:01:00Z' AND host <> 'b'";
    let sum: i64 = some.iter().filter_map(|row| row.i).sum();
    assert!(uses_statistics(store, sql).await);
    assert_eq!(
        store.rows(sql).await,
        [format!("{}|{sum}", some.len())],
        "{state}"
    );
}

async fn plan(store: &Store, sql: &str) -> String {
    store.rows(&format!("EXPLAIN {sql}")).await.join("\n")
}

/// Whether the engine was asked for what it knows without rows.
async fn uses_statistics(store: &Store, sql: &str) -> bool {
    let analyzed = store.rows(&format!("EXPLAIN ANALYZE {sql}")).await;
    analyzed.join("\n").contains("rollups_used")
}

#[tokio::test]
async fn aggregates_are_what_the_rows_say_wherever_they_are() {
    let store = Store::new();
    let mut rows = rows();
    write(&store, &rows);
    check(&store, "head", &rows).await;
    store.engine.flush().unwrap();
    check(&store, "flushed", &rows).await;
    // What is written again is newer than what rollups and statistics know.
    for row in rows.iter_mut().filter(|row| row.time_s % 1700 == 0) {
        row.i = Some(1_000_000 + row.time_s);
        row.f = -1000.25;
    }
    let again: Vec<Row> = rows
        .iter()
        .filter(|row| row.time_s % 1700 == 0)
        .map(|row| Row {
            s: row.s.clone(),
            ..*row
        })
        .collect();
    assert!(again.len() > 30);
    write(&store, &again);
    check(&store, "flushed, with newer rows in the head", &rows).await;
    store.engine.flush().unwrap();
    check(&store, "two segments that overlap", &rows).await;
    store.engine.settle().unwrap();
    check(&store, "settled", &rows).await;
}

#[tokio::test]
async fn rollups_stand_for_hours_that_nothing_else_touches() {
    let store = Store::new();
    write(&store, &rows());
    store.engine.flush().unwrap();
    let sql =
        "EXPLAIN ANALYZE SELECT host, time_bucket('1 hour', time), avg(f) FROM m GROUP BY 1, 2";
    let shown = store.rows(sql).await.join("\n");
    // Three series of six hours.
    assert!(shown.contains("rollups_used=18"), "{shown}");
    assert!(shown.contains("rows_decoded=0"), "{shown}");
}

#[tokio::test]
async fn without_rows_there_is_one_answer_without_groups_and_none_with() {
    let store = Store::new();
    store.write("m,host=a v=1i 1");
    for (sql, rows) in [
        (
            "SELECT count(*), count(v), sum(v), avg(v), min(v) FROM m WHERE time < '1960-01-01'",
            vec!["0|0|-|-|-"],
        ),
        (
            "SELECT host, count(*) FROM m WHERE time < '1960-01-01' GROUP BY host",
            vec![],
        ),
        ("SELECT count(*) FROM m WHERE host = 'nobody'", vec!["0"]),
        ("SELECT count(*) FROM m", vec!["1"]),
        (
            "SELECT count(*) + 1, max(v) FROM m HAVING max(v) > 5",
            vec![],
        ),
        ("SELECT count(*) FROM (SELECT * FROM m LIMIT 0)", vec!["0"]),
    ] {
        assert_eq!(store.rows(sql).await, rows, "{sql}");
    }
}

#[tokio::test]
async fn what_statistics_do_not_know_is_left_to_the_planner() {
    let store = Store::new();
    write(&store, &rows());
    let mut known = Vec::new();
    for sql in [
        // One is no part of the other; buckets of two hours are of whole ones, and are a question for statistics.
        "SELECT time_bucket('1 hour', time), time_bucket('90 minutes', time), max(i) FROM m GROUP BY 1, 2",
        "SELECT max(i + 1) FROM m",
        "SELECT count(DISTINCT i) FROM m",
        "SELECT count(*) FILTER (WHERE i > 0) FROM m",
        "SELECT count(host) FROM m",
        "SELECT i, count(*) FROM m GROUP BY i",
        "SELECT region, host, count(*) FROM m GROUP BY ROLLUP (region, host)",
        "SELECT count(*) FROM (SELECT * FROM m LIMIT 7)",
    ] {
        if uses_statistics(&store, sql).await {
            known.push(sql);
        }
        store.batches(sql).await.unwrap();
    }
    assert!(known.is_empty(), "{known:#?}");
    assert_eq!(
        store
            .rows("SELECT count(*) FROM (SELECT * FROM m LIMIT 7)")
            .await,
        ["7"]
    );
}

#[tokio::test]
async fn many_series_of_few_rows_are_left_to_the_planner() {
    // A million series of twelve rows took seconds to be counted one by one: their blocks are shared and have no statistics.
    let store = Store::new();
    let lines: String = (0..3000).fold(String::new(), |mut lines, n| {
        writeln!(lines, "m,host=h{} v={n}i {n}", n % 1500).unwrap();
        lines
    });
    store.write(&lines);
    let sql = "SELECT count(*), sum(v) FROM m";
    assert!(!uses_statistics(&store, sql).await);
    assert_eq!(store.rows(sql).await, ["3000|4498500"]);
}

#[tokio::test]
async fn a_sum_beyond_its_type_is_an_error_not_another_number() {
    let store = Store::new();
    store.write(&format!("m v={0}i 1\nm v={0}i 2", i64::MAX));
    let error = store.error("SELECT sum(v) FROM m").await.to_string();
    assert!(error.contains("beyond 64 bits"), "{error}");
    assert_eq!(
        store.rows("SELECT avg(v) FROM m").await,
        ["9.223372036854776e18"]
    );
}

#[tokio::test]
async fn groups_beyond_the_memory_of_a_query_end_it_with_an_error() {
    let options = SqlOptions {
        query_memory_bytes_max: 100_000,
        ..SqlOptions::default()
    };
    let store = Store::with(options);
    let lines: String = (0..600 * 130).fold(String::new(), |mut lines, n| {
        writeln!(lines, "m,host=h{} v={n}i {n}", n % 600).unwrap();
        lines
    });
    store.write(&lines);
    let sql = "SELECT host, sum(v), avg(v) FROM m GROUP BY host";
    assert!(plan(&store, sql).await.contains("SeriesExec"));
    let error = store.error(sql).await;
    assert!(matches!(error, Error::Memory(_)), "{error:?}");
}
