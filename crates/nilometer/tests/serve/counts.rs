//! Three real data sets against counts that another program made from their text: every row, series, field.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use crate::support::{Row, Server, nanoseconds};
use crate::{states, tsbs};

const USE_CASES: [tsbs::UseCase; 3] = [tsbs::CPU_ONLY, tsbs::DEVOPS, tsbs::IOT];

/// Sums of floats may differ by this part, since their order is free.
const SUM_TOLERANCE: f64 = 1e-12;

#[test]
fn every_count_sum_min_and_max_of_real_data_is_right_from_head_to_segment() {
    states::from_head_to_segment(load, check);
}

#[test]
fn every_count_sum_min_and_max_of_real_data_is_right_through_live_flushes() {
    states::through_live_flushes(load, check);
}

#[test]
fn every_count_sum_min_and_max_of_real_data_is_right_through_live_compaction() {
    states::through_live_compaction(load, check);
}

fn load(server: &Server) -> usize {
    USE_CASES.iter().map(|use_case| use_case.load(server)).sum()
}

fn check(server: &Server, state: &str) {
    let counts: Value =
        serde_json::from_str(&tsbs::read("counts.json")).expect("counts.json is JSON");
    let mut checked = 0;
    for use_case in USE_CASES {
        let tags = use_case.tags();
        let tables = counts[use_case.name]
            .as_object()
            .expect("a use case has tables");
        assert_eq!(
            tags.len(),
            tables.len(),
            "{}: the tables of text and counts",
            use_case.name
        );
        for (table, want) in tables {
            let place = format!("{state}: {}.{table}", use_case.db);
            checked += check_table(server, use_case.db, table, want, &place);
            check_series(server, use_case.db, table, &tags[table], want, &place);
        }
    }
    assert_eq!(checked, 12 * 3 + 4 * 127, "aggregates compared");
}

/// Compares rows, time span and each field's aggregates, and returns how many values that were.
fn check_table(server: &Server, db: &str, table: &str, want: &Value, place: &str) -> usize {
    let fields = want["fields"].as_object().expect("a table has fields");
    let mut sql =
        String::from("SELECT count(*) AS rows, min(time) AS min_time, max(time) AS max_time");
    for (number, field) in fields.keys().enumerate() {
        for aggregate in ["count", "sum", "min", "max"] {
            write!(sql, ", {aggregate}(\"{field}\") AS {aggregate}_{number}")
                .expect("a string takes all");
        }
    }
    write!(sql, " FROM \"{table}\"").expect("a string takes all");
    let rows = server.query(db, &sql);
    let [row] = rows.as_slice() else {
        panic!("{place}: {} rows of totals", rows.len())
    };

    assert_eq!(row["rows"], want["rows"], "{place}: rows");
    assert_eq!(
        time(row, "min_time"),
        want["min_time"].as_i64(),
        "{place}: first time"
    );
    assert_eq!(
        time(row, "max_time"),
        want["max_time"].as_i64(),
        "{place}: last time"
    );
    for (number, (field, want)) in fields.iter().enumerate() {
        for aggregate in ["count", "sum", "min", "max"] {
            let got = &row[&format!("{aggregate}_{number}")];
            let tolerance = if aggregate == "sum" {
                SUM_TOLERANCE
            } else {
                0.0
            };
            assert!(
                is_same(got, &want[aggregate], tolerance),
                "{place}: {aggregate}({field}) is {got}, not {}",
                want[aggregate]
            );
        }
    }
    3 + 4 * fields.len()
}

fn check_series(
    server: &Server,
    db: &str,
    table: &str,
    tags: &BTreeSet<String>,
    want: &Value,
    place: &str,
) {
    let columns: Vec<String> = tags.iter().map(|tag| format!("\"{tag}\"")).collect();
    let sql = format!(
        "SELECT count(*) AS series FROM (SELECT DISTINCT {} FROM \"{table}\") AS s",
        columns.join(", ")
    );
    let rows = server.query(db, &sql);
    assert_eq!(rows.len(), 1, "{place}: {sql}");
    assert_eq!(rows[0]["series"], want["series"], "{place}: series");
}

fn time(row: &Row, column: &str) -> Option<i64> {
    row[column].as_str().map(nanoseconds)
}

/// Integers must be integers and equal; floats must be within the tolerance.
fn is_same(got: &Value, want: &Value, tolerance: f64) -> bool {
    match (want.as_i64(), want.as_f64(), got.as_f64()) {
        (Some(want), _, _) => got.as_i64() == Some(want),
        (None, Some(want), Some(got)) => (got - want).abs() <= tolerance * want.abs(),
        _ => false,
    }
}
