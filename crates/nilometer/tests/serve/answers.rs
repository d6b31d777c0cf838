//! Every `cpu-only` query of the Time Series Benchmark Suite against what TimescaleDB and InfluxDB answered.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::support::{Row, Server, nanoseconds};
use crate::{states, tsbs};

/// Means may differ by this part, since the order of summation is free.
const MEAN_TOLERANCE: f64 = 1e-12;

/// Intervals are whole nanoseconds; their means are cut to these.
const INTERVAL_TOLERANCE_S: f64 = 2e-9;

/// The files of answers, TimescaleDB's and InfluxDB's, with the number of statements in each.
const ANSWERS: [(&str, usize); 2] = [
    ("cpu-only.sql.jsonl.gz", 59),
    ("cpu-only.influxql.jsonl.gz", 53),
];

/// One statement and its answer; `testdata/tsbs/README.md` says what the members mean.
#[derive(Debug, Deserialize)]
struct Statement {
    #[serde(rename = "type")]
    query_type: String,
    sql: String,
    columns: Vec<String>,
    types: Vec<ColumnType>,
    ordered: bool,
    rows: Vec<Vec<Option<String>>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ColumnType {
    Timestamptz,
    Bigint,
    Double,
    Interval,
    Text,
    Tags,
    Absent,
}

/// One value of an answer, so that rows have an order and rows without one can be compared as sets.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Cell {
    Null,
    Time(i64),
    Integer(i64),
    Float(f64),
    /// Seconds.
    Interval(f64),
    Text(String),
}

/// Tag columns with their values, by the id that answers name them with.
pub(crate) type TagSets = HashMap<String, Vec<(String, String)>>;

#[test]
fn every_cpu_only_query_of_the_suite_answers_as_others_did_from_head_to_segment() {
    states::from_head_to_segment(|server| tsbs::CPU_ONLY.load(server), check_all);
}

#[test]
fn every_cpu_only_query_of_the_suite_answers_as_others_did_through_live_flushes() {
    states::through_live_flushes(|server| tsbs::CPU_ONLY.load(server), check_all);
}

#[test]
fn every_cpu_only_query_of_the_suite_answers_as_others_did_through_live_compaction() {
    states::through_live_compaction(|server| tsbs::CPU_ONLY.load(server), check_all);
}

fn check_all(server: &Server, state: &str) {
    let tag_sets = tag_sets();
    for (file, statements) in ANSWERS {
        check_file(server, tsbs::CPU_ONLY, file, statements, &tag_sets, state);
    }
}

/// Asks every statement of a file of answers, of which there are so many.
pub(crate) fn check_file(
    server: &Server,
    use_case: tsbs::UseCase,
    file: &str,
    statements: usize,
    tag_sets: &TagSets,
    state: &str,
) {
    let text = tsbs::read_gzip(file);
    assert_eq!(text.lines().count(), statements, "statements in {file}");
    for line in text.lines() {
        let statement: Statement = serde_json::from_str(line).expect("a statement with its answer");
        let state = format!("{state}: {file}");
        check(server, use_case.db, &statement, tag_sets, &state);
    }
}

fn check(server: &Server, db: &str, statement: &Statement, tag_sets: &TagSets, state: &str) {
    let Statement {
        query_type, sql, ..
    } = statement;
    let (columns, mut want) = expected(statement, tag_sets);
    let mut got: Vec<Vec<Cell>> = server
        .query(db, sql)
        .iter()
        .map(|row| cells(row, &columns, sql))
        .collect();
    if !statement.ordered {
        for rows in [&mut want, &mut got] {
            rows.sort_by(|a, b| a.partial_cmp(b).expect("no answer has a NaN"));
        }
    }
    assert_eq!(
        got.len(),
        want.len(),
        "{state}: {query_type}: rows of {sql}"
    );
    for (number, (got, want)) in got.iter().zip(&want).enumerate() {
        for ((column, _), (got, want)) in columns.iter().zip(got.iter().zip(want)) {
            assert!(
                is_same(got, want),
                "{state}: {query_type}: row {number}, column {column} is {got:?}, not {want:?}, of {sql}"
            );
        }
    }
}

/// The answer in our columns: a tag id became the ten tag columns, what we do not have is gone.
fn expected(
    statement: &Statement,
    tag_sets: &TagSets,
) -> (Vec<(String, ColumnType)>, Vec<Vec<Cell>>) {
    let mut columns: Vec<(String, ColumnType)> = Vec::new();
    for (column, &kind) in statement.columns.iter().zip(&statement.types) {
        match kind {
            ColumnType::Tags => {
                let any = tag_sets.values().next().expect("there are hosts");
                columns.extend(any.iter().map(|(tag, _)| (tag.clone(), ColumnType::Text)));
            }
            ColumnType::Absent => {}
            _ => columns.push((column.clone(), kind)),
        }
    }
    let rows = statement
        .rows
        .iter()
        .map(|row| expected_row(row, &statement.types, tag_sets))
        .collect();
    (columns, rows)
}

fn expected_row(row: &[Option<String>], types: &[ColumnType], tag_sets: &TagSets) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(row.len());
    for (value, kind) in row.iter().zip(types) {
        let Some(text) = value else {
            if !matches!(kind, ColumnType::Absent) {
                cells.push(Cell::Null);
            }
            continue;
        };
        match kind {
            ColumnType::Timestamptz => cells.push(Cell::Time(nanoseconds(text))),
            // The text is a double's, `36.0`; a fraction other than zero would not parse.
            ColumnType::Bigint => {
                let integer = text.strip_suffix(".0").unwrap_or(text);
                cells.push(Cell::Integer(integer.parse().expect("an integer")));
            }
            ColumnType::Double => cells.push(Cell::Float(text.parse().expect("a number"))),
            ColumnType::Interval => cells.push(Cell::Interval(text.parse().expect("seconds"))),
            ColumnType::Text => cells.push(Cell::Text(text.clone())),
            ColumnType::Tags => cells.extend(
                tag_sets[text]
                    .iter()
                    .map(|(_, value)| Cell::Text(value.clone())),
            ),
            ColumnType::Absent => panic!("a column that is always null has {text:?}"),
        }
    }
    cells
}

/// Our row in the expected columns. A column more or less, or of another type, is a failure.
fn cells(row: &Row, columns: &[(String, ColumnType)], sql: &str) -> Vec<Cell> {
    for name in row.keys() {
        assert!(
            columns.iter().any(|(column, _)| column == name),
            "unexpected column {name} in {row:?} of {sql}"
        );
    }
    let cell = |(column, kind): &(String, ColumnType)| match (kind, row.get(column)) {
        (_, None | Some(Value::Null)) => Cell::Null,
        (ColumnType::Timestamptz, Some(Value::String(text))) => {
            assert!(
                text.ends_with('Z'),
                "the time {text:?} of {sql} is not in UTC"
            );
            Cell::Time(nanoseconds(text))
        }
        (ColumnType::Bigint, Some(Value::Number(number))) => Cell::Integer(
            number
                .as_i64()
                .unwrap_or_else(|| panic!("{column} is {number}, no integer, of {sql}")),
        ),
        (ColumnType::Double, Some(Value::Number(number))) => {
            Cell::Float(number.as_f64().expect("a finite number"))
        }
        (ColumnType::Interval, Some(Value::String(text))) => Cell::Interval(
            text.strip_prefix("PT")
                .and_then(|rest| rest.strip_suffix('S')?.parse().ok())
                .unwrap_or_else(|| panic!("{column} is {text}, no seconds, of {sql}")),
        ),
        (ColumnType::Text, Some(Value::String(text))) => Cell::Text(text.clone()),
        (_, Some(other)) => panic!("{column} is {other}, not of type {kind:?}, of {sql}"),
    };
    columns.iter().map(cell).collect()
}

fn is_same(got: &Cell, want: &Cell) -> bool {
    match (got, want) {
        (Cell::Float(got), Cell::Float(want)) => (got - want).abs() <= MEAN_TOLERANCE * want.abs(),
        (Cell::Interval(got), Cell::Interval(want)) => (got - want).abs() <= INTERVAL_TOLERANCE_S,
        _ => got == want,
    }
}

fn tag_sets() -> TagSets {
    let text = tsbs::read("cpu-only.tags.csv");
    let mut lines = text
        .lines()
        .map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().expect("a header line");
    lines
        .map(|line| {
            let mut values = header.iter().cloned().zip(line);
            let (_, id) = values.next().expect("the first column is the id");
            (id, values.collect())
        })
        .collect()
}
