//! Times that are text: whatever people write is a time wherever a time stands, in the zone of who writes it.
//!
//! '2024-01-01 05:00' was refused in WHERE for want of seconds, though `import` took it, and `time < '2300-01-01'` because
//! no time is that late. Expected values are arithmetic; what is NULL, true or false of times that are too far away is
//! what `PostgreSQL` answers, where they are none.

use nilometer_query::{Params, Position};

use crate::support::Store;

/// Rows at 04:00, 05:00 and 06:00 of 2024-01-01, with v from 4 to 6.
fn store() -> Store {
    let store = Store::new();
    store.write_seconds("m v=4 1704081600\nm v=5 1704085200\nm v=6 1704088800");
    store
}

#[tokio::test]
async fn minutes_and_days_are_times_in_every_condition() {
    let store = store();
    for (condition, rows) in [
        ("time = '2024-01-01 05:00'", vec!["5.0"]),
        ("time >= '2024-01-01T05:00'", vec!["5.0", "6.0"]),
        ("'2024-01-01 05:00' > time", vec!["4.0"]),
        ("time < '2024-01-01 05:00:00.5'", vec!["4.0", "5.0"]),
        ("time > '2024-01-01 06:00+01:00'", vec!["6.0"]),
        (
            "time >= '2024-01-01' AND time < '2024-1-1 05:00'",
            vec!["4.0"],
        ),
        (
            "time BETWEEN '2024-01-01' AND '2024-01-01 05:00'",
            vec!["4.0", "5.0"],
        ),
        (
            "time NOT BETWEEN '2024-01-01' AND '2024-01-01 05:00Z'",
            vec!["6.0"],
        ),
        (
            "time IN ('2024-01-01 05:00', '2024-01-01 06:00')",
            vec!["5.0", "6.0"],
        ),
        (
            "time IS DISTINCT FROM '2024-01-01 05:00'",
            vec!["4.0", "6.0"],
        ),
        ("time = '2024-01-01 05:00'::timestamptz", vec!["5.0"]),
        ("time = TIMESTAMP '2024-01-01 05:00'", vec!["5.0"]),
        ("time > DATE '2024-01-01'", vec!["4.0", "5.0", "6.0"]),
        ("time = to_timestamp('2024-01-01 05:00')", vec!["5.0"]),
        (
            "CASE time WHEN '2024-01-01 05:00' THEN true ELSE false END",
            vec!["5.0"],
        ),
        (
            "time_bucket('2 hours', time, origin => '2024-01-01 05:00') = '2024-01-01 05:00'",
            vec!["5.0", "6.0"],
        ),
        (
            "time_bucket('2 hours', time, '2024-01-01 05:00') = '2024-01-01 03:00'",
            vec!["4.0"],
        ),
    ] {
        let sql = format!("SELECT v FROM m WHERE {condition} ORDER BY v");
        assert_eq!(store.rows(&sql).await, rows, "{condition}");
    }
    let joined = "SELECT a.v FROM m a JOIN m b ON a.time = b.time AND a.time > '2024-01-01 05:00'";
    assert_eq!(store.rows(joined).await, ["6.0"]);
    let inside =
        "SELECT v FROM m WHERE time = (SELECT max(time) FROM m WHERE time < '2024-01-01 06:00')";
    assert_eq!(store.rows(inside).await, ["5.0"]);
    let mut params = Params::new();
    params.push("2024-01-01 05:00");
    let sql = "SELECT v FROM m WHERE time > $1";
    assert_eq!(store.rows_with(sql, &params).await, ["6.0"]);
    // A text is a text where no time is.
    let text = "SELECT '2024-01-01 05:00' = '2024-01-01 05:00:00', '2024-01-01 05:00'";
    assert_eq!(store.rows(text).await, ["false|2024-01-01 05:00"]);
}

#[tokio::test]
async fn minutes_and_days_are_times_in_what_is_written() {
    let store = store();
    for (sql, count) in [
        (
            "INSERT INTO m (time, v) VALUES ('2024-01-02', 24), ('2024-01-02 01:00', 25)",
            "2",
        ),
        (
            "INSERT INTO m (time, v) VALUES ('2024-01-02 02:00', 25 + 1)",
            "1",
        ),
        (
            "INSERT INTO m (time, v) SELECT '2024-01-02 03:00' AS t, v + 21 FROM m WHERE v = 6",
            "1",
        ),
        (
            "UPDATE m SET v = v + 100 WHERE time >= '2024-01-02 02:00'",
            "2",
        ),
        (
            "UPDATE m SET time = '2024-01-03 01:00' WHERE time = '2024-01-02 02:00'",
            "1",
        ),
        (
            "DELETE FROM m WHERE time < '2024-01-02 01:00' AND time > '2024-01-01 04:00'",
            "3",
        ),
    ] {
        assert_eq!(store.rows(sql).await, [count], "{sql}");
    }
    assert_eq!(
        store.rows("SELECT time, v FROM m ORDER BY time").await,
        [
            "2024-01-01T04:00:00Z|4.0",
            "2024-01-02T01:00:00Z|25.0",
            "2024-01-02T03:00:00Z|127.0",
            "2024-01-03T01:00:00Z|126.0",
        ]
    );
}

#[tokio::test]
async fn a_bound_beyond_all_times_is_before_or_after_all_of_them() {
    let store = store();
    for (condition, count) in [
        ("time < '2300-01-01'", 3),
        ("time <= '2300-01-01'", 3),
        ("time > '2300-01-01'", 0),
        ("time = '2300-01-01'", 0),
        ("time <> '2300-01-01'", 3),
        ("time IS DISTINCT FROM '2300-01-01'", 3),
        ("time IS NOT DISTINCT FROM '2300-01-01'", 0),
        ("'2300-01-01' > time", 3),
        ("time > '1066-10-14'", 3),
        ("time >= '1066-10-14'", 3),
        ("time < '1066-10-14'", 0),
        ("time = '1066-10-14'", 0),
        ("time < 'infinity'", 3),
        ("time < '-infinity'", 0),
        ("time BETWEEN '1066-10-14' AND '2300-01-01'", 3),
        ("time BETWEEN '2024-01-01 05:00' AND '2300-01-01'", 2),
        ("time BETWEEN '2300-01-01' AND '2400-01-01'", 0),
        ("time NOT BETWEEN '2300-01-01' AND '2400-01-01'", 3),
        ("time BETWEEN '2300-01-01' AND '1066-10-14'", 0),
        ("time IN ('2300-01-01', '2024-01-01 05:00')", 1),
        ("time IN ('2300-01-01', '1066-10-14')", 0),
        ("time NOT IN ('2300-01-01')", 3),
        ("time < TIMESTAMP '2300-01-01 00:00:00'", 3),
        ("time < '2300-01-01'::date", 3),
        ("time < '2300-01-01'::timestamptz", 3),
        ("NULLIF(time, time) < '2300-01-01'", 0),
        ("NOT (NULLIF(time, time) < '2300-01-01')", 0),
        ("NOT (NULLIF(time, time) = '2300-01-01')", 0),
    ] {
        let sql = format!("SELECT count(*) FROM m WHERE {condition}");
        assert_eq!(store.rows(&sql).await, [count.to_string()], "{condition}");
    }
    assert_eq!(
        store.rows("DELETE FROM m WHERE time > '2300-01-01'").await,
        ["0"]
    );
    assert_eq!(
        store.rows("DELETE FROM m WHERE time < '2300-01-01'").await,
        ["3"]
    );
    let error = store.error("SELECT '2300-01-01'::timestamptz").await;
    assert!(error.to_string().contains("2262-04-11"), "{error}");
}

#[tokio::test]
async fn a_text_that_is_no_time_is_named_with_its_place() {
    let store = store();
    for (sql, column) in [
        ("SELECT v FROM m WHERE time > 'yesterday'", 30),
        ("SELECT v FROM m WHERE v > 1 AND time IN ('2024-02-30')", 42),
        ("SELECT 'x'::timestamptz", 8),
        ("INSERT INTO m (time, v) VALUES ('2024-01-01 25:00', 1)", 33),
    ] {
        let error = store.error(sql).await;
        let position = Some(Position { line: 1, column });
        assert_eq!(error.position(), position, "{sql}: {error}");
        assert!(error.to_string().contains("is no time"), "{sql}: {error}");
    }
}

#[tokio::test]
async fn a_session_reads_times_without_an_offset_in_its_zone() {
    let store = store();
    let berlin = store.sql().in_zone("Europe/Berlin").unwrap();
    let rows = async |sql: &str| {
        let answer = berlin
            .query("d", sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        crate::support::rows(&answer.collect().await.unwrap())
    };
    for (condition, expected) in [
        ("time = '2024-01-01 06:00'", vec!["5.0"]),
        ("time = '2024-01-01 05:00Z'", vec!["5.0"]),
        ("time = '2024-01-01 06:00'::timestamptz", vec!["5.0"]),
        ("time = TIMESTAMP '2024-01-01 06:00'", vec!["5.0"]),
        ("time - interval '4 hours' = DATE '2024-01-01'", vec![]),
        ("time - interval '5 hours' = DATE '2024-01-01'", vec!["4.0"]),
        (
            "time BETWEEN '2024-01-01 06:00' AND '2024-01-01 07:00'",
            vec!["5.0", "6.0"],
        ),
    ] {
        let sql = format!("SELECT v FROM m WHERE {condition} ORDER BY v");
        // Twice, as templates are made by the first and used by the second; and they are made in UTC.
        store.rows(&sql).await;
        assert_eq!(rows(&sql).await, expected, "{condition}");
    }
    // In a view they are what they were for everybody.
    store
        .rows("CREATE VIEW at_six AS SELECT v FROM m WHERE time = '2024-01-01 06:00'")
        .await;
    assert_eq!(rows("SELECT v FROM at_six").await, ["6.0"]);
    // 2024-07-01 is in summer, two hours before UTC.
    rows("INSERT INTO m (time, v) VALUES ('2024-07-01 12:00', 7)").await;
    rows("INSERT INTO m (time, v) VALUES (TIMESTAMP '2024-07-01 13:00', 8)").await;
    rows("INSERT INTO m (time, v) SELECT '2024-07-01 14:00' AS t, 9.0 AS v").await;
    assert_eq!(
        store
            .rows("SELECT time FROM m WHERE v > 6 ORDER BY time")
            .await,
        [
            "2024-07-01T10:00:00Z",
            "2024-07-01T11:00:00Z",
            "2024-07-01T12:00:00Z"
        ]
    );
    assert_eq!(
        rows("DELETE FROM m WHERE time = '2024-07-01 12:00'").await,
        ["1"]
    );
    let error = store.sql().in_zone("Europe/Berlim").unwrap_err();
    assert!(error.to_string().contains("Europe/Berlim"), "{error}");
}
