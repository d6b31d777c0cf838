//! `time_bucket`, `first` and `last` against what `TimescaleDB` answered; see `testdata/tsbs/README.md`.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use crate::support::Store;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, TimeUnit, TimestampNanosecondType};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use flate2::read::MultiGzDecoder;
use nilometer_query::Error;
use serde_json::Value;

/// Sums of floats may differ by this part, since their order is free.
const TOLERANCE: f64 = 1e-12;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/tsbs")
        .join(name)
}

pub(crate) fn read_gzip(name: &str) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(File::open(path(name)).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// Statements of some types, with the rows of their answers.
fn statements(wanted: impl Fn(&str) -> bool) -> Vec<(String, Vec<Vec<Option<String>>>)> {
    read_gzip("functions.timescaledb.jsonl.gz")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|statement| wanted(statement["type"].as_str().unwrap()))
        .map(|statement| {
            let rows = serde_json::from_value(statement["answer"]["rows"].clone()).unwrap();
            (statement["q"].as_str().unwrap().to_owned(), rows)
        })
        .collect()
}

/// The value that `PostgreSQL` printed, as nanoseconds or as a number; texts stay texts.
#[derive(Debug, PartialEq)]
enum Cell {
    Null,
    Time(i64),
    Number(f64),
    Text(String),
}

fn expected(text: Option<&str>) -> Cell {
    let Some(text) = text else { return Cell::Null };
    if let Ok(number) = text.parse() {
        return Cell::Number(number);
    }
    let parsed = chrono::DateTime::parse_from_rfc3339(&text.replacen(' ', "T", 1))
        .map(|time| time.to_utc())
        .or_else(|_| {
            let text = if text.len() == 10 {
                format!("{text} 00:00:00")
            } else {
                text.to_owned()
            };
            chrono::NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.f")
                .map(|time| time.and_utc())
        });
    match parsed {
        Ok(time) => Cell::Time(time.timestamp_nanos_opt().unwrap()),
        Err(_) => Cell::Text(text.to_owned()),
    }
}

fn cell(column: &ArrayRef, row: usize) -> Cell {
    if column.is_null(row) {
        return Cell::Null;
    }
    match column.data_type() {
        DataType::Timestamp(..) | DataType::Date32 => {
            let times = cast(column, &DataType::Timestamp(TimeUnit::Nanosecond, None)).unwrap();
            Cell::Time(times.as_primitive::<TimestampNanosecondType>().value(row))
        }
        kind if kind.is_numeric() => {
            let numbers = cast(column, &DataType::Float64).unwrap();
            Cell::Number(numbers.as_primitive::<Float64Type>().value(row))
        }
        DataType::Dictionary(..) => cell(&cast(column, &DataType::Utf8).unwrap(), row),
        _ => {
            let options = FormatOptions::default().with_null("null");
            let shown = ArrayFormatter::try_new(column, &options).unwrap();
            expected(Some(&shown.value(row).to_string()))
        }
    }
}

async fn compare(store: &Store, sql: &str, expected_rows: &[Vec<Cell>]) -> Result<(), String> {
    let batches = store
        .batches(sql)
        .await
        .map_err(|error| format!("{sql}: {error}"))?;
    let found: Vec<Vec<Cell>> = batches
        .iter()
        .flat_map(|batch| {
            (0..batch.num_rows()).map(|row| {
                batch
                    .columns()
                    .iter()
                    .map(|column| cell(column, row))
                    .collect()
            })
        })
        .collect();
    if found.len() != expected_rows.len() {
        let (found, expected) = (found.len(), expected_rows.len());
        return Err(format!("{sql}: {found} rows, not {expected}"));
    }
    for (found, expected) in found.iter().zip(expected_rows) {
        let is_same = found.len() == expected.len()
            && found.iter().zip(expected).all(|cells| match cells {
                (Cell::Number(found), Cell::Number(expected)) => {
                    (found - expected).abs() <= TOLERANCE * expected.abs()
                }
                (found, expected) => found == expected,
            });
        if !is_same {
            return Err(format!("{sql}: {found:?}, not {expected:?}"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn time_bucket_answers_as_timescaledb_did_in_all_its_forms() {
    let store = Store::new();
    let statements = statements(|kind| kind.starts_with("time_bucket"));
    assert_eq!(statements.len(), 38, "statements in the file");
    for (sql, rows) in statements {
        let rows: Vec<Vec<Cell>> = rows
            .iter()
            .map(|row| row.iter().map(|text| expected(text.as_deref())).collect())
            .collect();
        compare(&store, &sql, &rows).await.unwrap();
    }
}

/// The suite's tables as it keeps them there: `cpu` with the id of its tags and floats, and `tags`.
fn suite() -> Store {
    let store = Store::new();
    let tags = fs::read_to_string(path("cpu-only.tags.csv")).unwrap();
    let ids: HashMap<&str, &str> = tags
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .map(|line| (line[1], line[0]))
        .collect();
    let mut lines = String::new();
    for point in read_gzip("cpu-only.influx.gz").lines() {
        let host = point.split(['=', ',']).nth(2).unwrap();
        let (series, rest) = point.split_once(' ').unwrap();
        let (fields, time) = rest.split_once(' ').unwrap();
        let fields: Vec<&str> = fields
            .split(',')
            .map(|field| field.trim_end_matches('i'))
            .collect();
        let (id, fields) = (ids[host], fields.join(","));
        writeln!(lines, "{series} tags_id={id}i,{fields} {time}").unwrap();
    }
    for (host, id) in ids {
        writeln!(lines, "tags,hostname={host} id={id}i 0").unwrap();
    }
    store.write(&lines);
    store
}

#[tokio::test]
async fn every_statement_of_the_file_answers_as_timescaledb_did() {
    let store = suite();
    let all = statements(|_| true);
    assert_eq!(all.len(), 77, "statements in the file");
    let mut failures = Vec::new();
    for (sql, rows) in all {
        let mut rows: Vec<Vec<Cell>> = rows
            .iter()
            .map(|row| row.iter().map(|text| expected(text.as_deref())).collect())
            .collect();
        // There sums and means of integers are numeric; here they are what a bigint and a double hold.
        if sql.contains("pg_typeof") {
            for (cell, name) in rows[0][2..].iter_mut().zip(["double precision", "bigint"]) {
                assert_eq!(*cell, Cell::Text("numeric".to_owned()));
                *cell = Cell::Text(name.to_owned());
            }
        }
        if let Err(failure) = compare(&store, &sql, &rows).await {
            failures.push(failure);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[tokio::test]
async fn time_bucket_over_a_column_agrees_with_time_bucket_of_each_time() {
    let store = Store::new();
    let times: Vec<i64> = (-50..50)
        .map(|step| step * 7_300_000_000_001 + step * step * step * 1_000_003)
        .collect();
    let lines: Vec<String> = times.iter().map(|time| format!("m v=1i {time}")).collect();
    store.write(&lines.join("\n"));
    for width in [
        "'90 minutes'",
        "'1 day'",
        "'1 month'",
        "'1 nanosecond'",
        "'7 milliseconds'",
    ] {
        for more in [
            "",
            ", 'Europe/Berlin'",
            ", origin => '2001-02-03T04:05:06Z'",
        ] {
            if width == "'1 month'" && more.contains("origin") {
                continue;
            }
            let column = store
                .rows(&format!(
                    "SELECT time_bucket({width}, time{more}) FROM m ORDER BY time"
                ))
                .await;
            let mut sorted = times.clone();
            sorted.sort_unstable();
            for (time, bucket) in sorted.iter().zip(&column) {
                let time = chrono::DateTime::from_timestamp_nanos(*time).to_rfc3339();
                let one = store
                    .rows(&format!(
                        "SELECT time_bucket({width}, timestamptz '{time}'{more})"
                    ))
                    .await;
                assert_eq!(&one[0], bucket, "{width}{more} of {time}");
            }
        }
    }
}

#[tokio::test]
async fn time_bucket_refuses_what_has_no_meaning_and_passes_null_on() {
    let store = Store::new();
    for (call, words) in [
        (
            "time_bucket('0 seconds', timestamptz '2016-01-01')",
            "greater than 0",
        ),
        (
            "time_bucket('-1 hour', timestamptz '2016-01-01')",
            "greater than 0",
        ),
        (
            "time_bucket('1 month 1 day', timestamptz '2016-01-01')",
            "cannot have days",
        ),
        ("time_bucket('1 hour', date '2016-01-01')", "whole days"),
        (
            "time_bucket('1 hour', timestamptz '2016-01-01', 'Middle/Earth')",
            "unknown time zone",
        ),
        ("time_bucket('1 hour')", "time_bucket(width, time"),
        (
            "time_bucket(10, timestamptz '2016-01-01')",
            "time_bucket(width, time",
        ),
        (
            "time_bucket('1000 years', timestamptz '1677-09-22')",
            "earliest time",
        ),
    ] {
        let error = store.error(&format!("SELECT {call}")).await.to_string();
        assert!(error.contains(words), "{call}: {error}");
    }
    assert_eq!(
        store
            .rows("SELECT time_bucket('1 hour', NULL::timestamptz)")
            .await,
        ["-"]
    );
    assert_eq!(
        store
            .rows("SELECT time_bucket(NULL::interval, timestamptz '2016-01-01')")
            .await,
        ["-"]
    );
    assert_eq!(
        store.rows("SELECT time_bucket(10, NULL::bigint)").await,
        ["-"]
    );
}

#[tokio::test]
async fn first_and_last_go_by_time_and_not_by_arrival() {
    let store = Store::new();
    store.write("m,h=a v=3i,w=1 30\nm,h=a v=1i 10\nm,h=a v=2i,w=5 20\nm,h=b v=9i 5");
    assert_eq!(
        store
            .rows("SELECT first(v, time), last(v, time) FROM m")
            .await,
        ["9|3"]
    );
    let groups = store
        .rows("SELECT h, first(v, time), last(v, time) FROM m GROUP BY h ORDER BY h")
        .await;
    assert_eq!(groups, ["a|1|3", "b|9|9"]);
    // The value at that time counts, even if it is NULL.
    assert_eq!(store.rows("SELECT first(w, time) FROM m").await, ["-"]);
    assert_eq!(
        store
            .rows("SELECT first(v, time) FILTER (WHERE w IS NOT NULL) FROM m")
            .await,
        ["2"]
    );
    let error = store.error("SELECT first(v) FROM m").await.to_string();
    assert!(error.contains("first(value, time)"), "{error}");
}

/// `abs(length(host))` was refused, because `length` of a tag answered a dictionary of numbers.
#[tokio::test]
async fn numbers_made_of_a_tag_are_plain_numbers() {
    let store = Store::new();
    store.write("m,host=aa v=1 1\nm,host=bbb v=2 2\nm v=3 3");
    for (expr, rows) in [
        ("abs(length(host))", ["2", "3", "-"]),
        ("abs(-char_length(host))", ["2", "3", "-"]),
        ("abs(character_length(host))", ["2", "3", "-"]),
        ("abs(octet_length(host))", ["2", "3", "-"]),
        ("abs(bit_length(host))", ["16", "24", "-"]),
        ("abs(ascii(host))", ["97", "98", "-"]),
        ("abs(strpos(host, 'b'))", ["0", "1", "-"]),
        ("gcd(length(host), 6)", ["2", "3", "-"]),
        ("sign(length(host))", ["1.0", "1.0", "-"]),
        ("to_hex(length(host))", ["2", "3", "-"]),
        ("round(length(host) / 2.0)", ["1.0", "2.0", "-"]),
        ("greatest(length(host), 2)", ["2", "3", "2"]),
    ] {
        let sql = format!("SELECT {expr} FROM m ORDER BY time");
        assert_eq!(store.rows(&sql).await, rows, "{expr}");
    }
    let constant = "SELECT abs(length('abc')), arrow_typeof(length(host)) FROM m LIMIT 1";
    assert_eq!(store.rows(constant).await, ["3|Int32"]);
    let group = "SELECT length(host), count(*) FROM m GROUP BY length(host) ORDER BY 1";
    assert_eq!(store.set(group).await, ["-|1", "2|1", "3|1"]);
}

/// `avg(text)` was answered with two paragraphs of the planner's library, and a request to report a bug to it.
#[tokio::test]
async fn a_function_of_the_wrong_type_is_named_with_its_place_and_its_types() {
    let store = Store::new();
    store.write("m,host=a v=1,s=\"x\" 1");
    for (sql, words, column) in [
        (
            "SELECT avg(s) FROM m",
            "there is no function avg(text); there is avg(",
            8,
        ),
        (
            "SELECT v, avg(host) FROM m",
            "there is no function avg(text); there is avg(",
            11,
        ),
    ] {
        let error = store.error(sql).await;
        let text = error.to_string();
        assert!(matches!(error, Error::Plan { .. }), "{sql}: {error:?}");
        assert!(
            text.contains(words) && text.contains("double precision"),
            "{sql}: {text}"
        );
        let position = Some(nilometer_query::Position { line: 1, column });
        assert_eq!(error.position(), position, "{sql}: {text}");
    }
    // In WHERE the rules that calculate in advance met these, and the answer was that of a fault of the server.
    for sql in [
        "SELECT v FROM m WHERE btrim(100000000) IS NOT NULL",
        "SELECT v FROM m WHERE log('x', 'y', 'z') IS NOT NULL",
        "SELECT v FROM m WHERE character_length(map(['a'], [1])) IS NOT NULL",
    ] {
        let error = store.error(sql).await;
        let is_the_statements = matches!(error, Error::Plan { .. } | Error::Execution { .. });
        assert!(is_the_statements, "{sql}: {error:?}");
    }
    for sql in [
        "SELECT stddev(s) FROM m",
        "SELECT sum(host) FROM m",
        "SELECT abs(s) FROM m",
        "SELECT v FROM m WHERE abs(s) > 1",
        "SELECT sqrt(time) FROM m",
        "SELECT date_trunc(v, time) FROM m",
        "SELECT sum(v) OVER (ORDER BY s ROWS BETWEEN 'x' PRECEDING AND CURRENT ROW) FROM m",
        "SELECT percentile_disc(s) WITHIN GROUP (ORDER BY v) FROM m",
        "SELECT round(s, s, s) FROM m",
    ] {
        let text = store.error(sql).await.to_string();
        for word in ["DataFusion", "Internal error", "github"] {
            assert!(!text.contains(word), "{sql}: {text}");
        }
    }
}
