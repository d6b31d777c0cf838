//! Conditions on time: the range the scan reads is the range that was asked for, whatever the way of asking.

use std::fmt::Write;

use crate::support::Store;

/// 2016-01-01T00:00:00Z.
const START_S: i64 = 1_451_606_400;

/// A point every 6 hours for 4 days from 2015-12-31, and its number as the value; and one far before 1970.
fn store() -> Store {
    let store = Store::new();
    let mut lines = String::new();
    for number in 0..16 {
        let time_ns = (START_S - 86_400 + number * 21_600) * 1_000_000_000;
        writeln!(lines, "m,host=h{} v={number}i {time_ns}", number % 3).unwrap();
    }
    writeln!(lines, "m,host=old v=100i -1500000000").unwrap();
    store.write(&lines);
    store
}

/// The same condition in a form that no scan can take over.
fn opaque(condition: &str) -> String {
    condition.replace(
        "time ",
        "(time + arrow_cast(v - v, 'Duration(Nanosecond)')) ",
    )
}

#[tokio::test]
async fn a_pruned_scan_answers_as_a_filter_over_everything_does() {
    let store = store();
    for condition in [
        "time >= '2016-01-01 06:00:00 +0000'",
        "time > '2016-01-01 06:00:00+00'",
        "time < '2016-01-01T06:00:00Z'",
        "time <= '2016-01-01 07:00:00.123456 +0100'",
        "time = '2016-01-01 06:00:00+00'",
        "time = timestamp '2016-01-01 06:00:00'",
        "time >= timestamptz '2016-01-01 06:00:00+06' AND time < timestamptz '2016-01-02 00:00:00+00'",
        "time BETWEEN '2016-01-01' AND '2016-01-02'",
        "time NOT BETWEEN '2016-01-01' AND '2016-01-02'",
        "time IN ('2016-01-01', '2016-01-02 06:00:00', '2016-01-02 06:00:00.5')",
        "time <> '2016-01-01'",
        "time >= date '2016-01-02'",
        "time < '2016-01-01' OR time > '2016-01-03'",
        "time < '2016-01-01' OR v = 10",
        "time > '2016-01-01' AND host = 'h1'",
        "time > '2016-01-02' AND time < '2016-01-01'",
        "time < '1970-01-01'",
        "time > '2262-04-11 23:47:16.854775807'",
        "time >= to_timestamp(1451606400)",
        "time >= to_timestamp_millis(1451606400000)",
        "time > timestamp '2016-01-01 12:00:00' - interval '6 hours'",
    ] {
        let pruned = store
            .set(&format!("SELECT v FROM m WHERE {condition}"))
            .await;
        let filtered = store
            .set(&format!("SELECT v FROM m WHERE {}", opaque(condition)))
            .await;
        assert_eq!(pruned, filtered, "{condition}");
    }
}

#[tokio::test]
async fn the_range_is_read_from_every_usual_way_to_write_it() {
    let store = store();
    let from = "time=2016-01-01T06:00:00Z..=end";
    let day = "time=2016-01-01T00:00:00Z..=2016-01-01T23:59:59.999999999Z";
    for (condition, range) in [
        ("time >= '2016-01-01 06:00:00 +0000'", from),
        ("'2016-01-01 07:00:00 +0100' <= time", from),
        ("time >= timestamp '2016-01-01 06:00:00'", from),
        ("time >= to_timestamp(1451628000)", from),
        ("time >= '2016-01-01' AND time < '2016-01-02'", day),
        (
            "time BETWEEN '2016-01-01' AND '2016-01-01 23:59:59.999999999'",
            day,
        ),
        ("CAST(time AS DATE) = date '2016-01-01'", day),
    ] {
        let plan = store
            .rows(&format!("EXPLAIN SELECT v FROM m WHERE {condition}"))
            .await
            .join("\n");
        assert!(plan.contains(range), "{condition}: {plan}");
        assert!(!plan.contains("FilterExec"), "{condition}: {plan}");
    }
    let plan = store
        .rows(&format!(
            "EXPLAIN SELECT v FROM m WHERE {}",
            opaque("time > '2016-01-01'")
        ))
        .await;
    assert!(
        plan.join("\n").contains("time=all"),
        "the comparison above compares nothing: {plan:?}"
    );
}

#[tokio::test]
async fn days_are_whole_before_1970_too() {
    let store = store();
    assert_eq!(
        store
            .rows("SELECT v FROM m WHERE CAST(time AS DATE) = date '1969-12-31'")
            .await,
        ["100"]
    );
    assert_eq!(
        store
            .rows("SELECT v FROM m WHERE CAST(time AS DATE) < date '1969-12-31'")
            .await,
        [""; 0]
    );
}

#[tokio::test]
async fn a_limit_stops_the_scan_without_losing_rows_that_are_asked_for() {
    let store = store();
    assert_eq!(store.rows("SELECT v FROM m LIMIT 5").await.len(), 5);
    assert_eq!(
        store.rows("SELECT v FROM m LIMIT 5 OFFSET 14").await.len(),
        3
    );
    assert_eq!(
        store
            .rows("SELECT v FROM m WHERE v >= 12 AND v < 100 LIMIT 10")
            .await
            .len(),
        4
    );
    assert_eq!(store.rows("SELECT count(*) FROM m").await, ["17"]);
}
