//! Times with and without a zone, side by side: what a clock shows is an instant of the session's zone wherever it meets instants.
//!
//! The story: a dashboard in Berlin joined its shift table, which had times without a zone, and everything came out an hour off,
//! because they were read in UTC in every session. Expected values are the answers of `PostgreSQL` 15.18 with
//! `SET timezone = 'Europe/Berlin'` to the same statements over the same rows.

use nilometer_query::Sql;

use crate::support::Store;

/// Rows at 04:00, 05:00 and 06:00 UTC of 2024-01-01, with v from 4 to 6.
fn store() -> Store {
    let store = Store::new();
    store.write_seconds("m v=4 1704081600\nm v=5 1704085200\nm v=6 1704088800");
    store
}

/// Clocks: 06:00 of that day, the day, and noon of a day in summer.
const CLOCKS: &str = "WITH c AS (SELECT timestamp '2024-01-01 06:00' AS t, date '2024-01-01' AS d, timestamp '2024-07-01 12:00' AS s) ";

async fn rows(asker: &Sql, sql: &str) -> Vec<String> {
    let answer = asker.query("d", sql).await;
    let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error}"));
    crate::support::rows(&answer.collect().await.unwrap())
}

async fn check(cases: &[(&str, &[&str])]) {
    let store = store();
    let berlin = store.sql().in_zone("Europe/Berlin").unwrap();
    for (sql, expected) in cases {
        let sql = format!("{CLOCKS}{sql}");
        assert_eq!(rows(&berlin, &sql).await, *expected, "{sql}");
    }
}

#[tokio::test]
async fn clocks_are_compared_with_instants_in_the_zone_of_the_session() {
    check(&[
        ("SELECT v FROM m, c WHERE time = t", &["5.0"]),
        ("SELECT v FROM m, c WHERE time < t", &["4.0"]),
        ("SELECT v FROM m, c WHERE t <= time ORDER BY v", &["5.0", "6.0"]),
        ("SELECT v FROM m, c WHERE time IS DISTINCT FROM t ORDER BY v", &["4.0", "6.0"]),
        ("SELECT v FROM m, c WHERE time BETWEEN t AND t + interval '1 hour' ORDER BY v", &["5.0", "6.0"]),
        ("SELECT v FROM m, c WHERE t BETWEEN time - interval '1 hour' AND time ORDER BY v", &["5.0", "6.0"]),
        ("SELECT count(*) FROM m, c WHERE time NOT BETWEEN t AND t", &["2"]),
        ("SELECT v FROM m, c WHERE time IN (t, t - interval '1 hour') ORDER BY v", &["4.0", "5.0"]),
        ("SELECT v FROM m, c WHERE t IN (time, time + interval '1 hour') ORDER BY v", &["4.0", "5.0"]),
        ("SELECT v FROM m WHERE time IN (SELECT t FROM c)", &["5.0"]),
        ("SELECT t FROM c WHERE t IN (SELECT time FROM m)", &["2024-01-01T06:00:00"]),
        ("SELECT v FROM m WHERE time >= ALL (SELECT t FROM c) ORDER BY v", &["5.0", "6.0"]),
        ("SELECT v FROM m WHERE time = (SELECT t FROM c)", &["5.0"]),
        ("SELECT v FROM m WHERE EXISTS (SELECT 1 FROM c WHERE t = m.time)", &["5.0"]),
        ("SELECT v FROM m, c WHERE time - interval '5 hours' = d", &["4.0"]),
        ("SELECT v FROM m WHERE time >= timestamp '2024-01-01 05:00' + interval '1 hour' ORDER BY v", &["5.0", "6.0"]),
        ("SELECT CASE time WHEN t THEN 'yes' ELSE 'no' END FROM m, c ORDER BY time", &["no", "yes", "no"]),
    ])
    .await;
}

#[tokio::test]
async fn clocks_are_joined_with_instants_in_the_zone_of_the_session() {
    check(&[
        ("SELECT v FROM m JOIN c ON time = t", &["5.0"]),
        (
            "SELECT v FROM m JOIN (SELECT t AS time FROM c) x USING (time)",
            &["5.0"],
        ),
        (
            "SELECT v FROM m LEFT JOIN c ON time > t WHERE t IS NULL ORDER BY v",
            &["4.0", "5.0"],
        ),
        (
            "SELECT x FROM (SELECT t AS x FROM c INTERSECT SELECT time FROM m) y",
            &["2024-01-01T05:00:00Z"],
        ),
        (
            "SELECT x FROM (SELECT time AS x FROM m EXCEPT SELECT t FROM c) y ORDER BY x",
            &["2024-01-01T04:00:00Z", "2024-01-01T06:00:00Z"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn clocks_become_instants_in_the_zone_of_the_session() {
    check(&[
        (
            "SELECT t::timestamptz, d::timestamptz, s::timestamptz FROM c",
            &["2024-01-01T05:00:00Z|2023-12-31T23:00:00Z|2024-07-01T10:00:00Z"],
        ),
        (
            "SELECT coalesce(t, time), greatest(t, time), nullif(time, t), CASE WHEN v > 5 THEN time ELSE d END FROM m, c ORDER BY time",
            &[
                "2024-01-01T05:00:00Z|2024-01-01T05:00:00Z|2024-01-01T04:00:00Z|2023-12-31T23:00:00Z",
                "2024-01-01T05:00:00Z|2024-01-01T05:00:00Z|-|2023-12-31T23:00:00Z",
                "2024-01-01T05:00:00Z|2024-01-01T06:00:00Z|2024-01-01T06:00:00Z|2024-01-01T06:00:00Z",
            ],
        ),
        (
            "SELECT x FROM (SELECT time AS x FROM m UNION SELECT t FROM c UNION ALL SELECT s FROM c) y ORDER BY x",
            &[
                "2024-01-01T04:00:00Z",
                "2024-01-01T05:00:00Z",
                "2024-01-01T06:00:00Z",
                "2024-07-01T10:00:00Z",
            ],
        ),
        (
            "SELECT max(x) FROM (SELECT coalesce(NULL::timestamptz, s) AS x FROM c) y",
            &["2024-07-01T10:00:00Z"],
        ),
        (
            "SELECT extract(epoch FROM time - t), extract(epoch FROM d - time) FROM m, c ORDER BY time",
            &["-3600.0|-18000.0", "0.0|-21600.0", "3600.0|-25200.0"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn instants_become_what_the_clock_of_the_session_shows() {
    check(&[
        (
            "SELECT time::timestamp, time::date FROM m ORDER BY 1",
            &[
                "2024-01-01T05:00:00|2024-01-01",
                "2024-01-01T06:00:00|2024-01-01",
                "2024-01-01T07:00:00|2024-01-01",
            ],
        ),
        (
            "SELECT (t + interval '17 hours 30 minutes')::timestamptz::date, t::timestamptz::timestamp = t, d::timestamptz::date = d FROM c",
            &["2024-01-01|true|true"],
        ),
        ("SELECT current_date = now()::date, now() >= current_date", &["true|true"]),
    ])
    .await;
}

/// A report by the hour of the day was off by the zone for whoever had set one: `extract`, `date_trunc` and `to_char` went by UTC, where
/// `PostgreSQL` goes by the clock of the session.
#[tokio::test]
async fn instants_are_taken_apart_by_the_clock_of_the_session() {
    check(&[
        (
            "SELECT extract(hour FROM time), date_part('minute', time), extract(epoch FROM time) FROM m ORDER BY time",
            &["5|0|1704081600.0", "6|0|1704085200.0", "7|0|1704088800.0"],
        ),
        (
            "SELECT extract(day FROM t), extract(dow FROM t), extract(doy FROM t), extract(year FROM t), to_char(t, 'YYYY-MM-DD HH24:MI') FROM (SELECT timestamptz '2023-12-31 23:30Z' AS t) x",
            &["1|1|1|2024|2024-01-01 00:30"],
        ),
        (
            "SELECT date_trunc('day', t), date_trunc('month', t), date_trunc('year', t), date_trunc('hour', t) FROM (SELECT timestamptz '2024-06-30 22:30Z' AS t) x",
            &["2024-06-30T22:00:00Z|2024-06-30T22:00:00Z|2023-12-31T23:00:00Z|2024-06-30T22:00:00Z"],
        ),
        (
            "SELECT date_trunc('day', time) AS day, count(*) FROM m GROUP BY day",
            &["2023-12-31T23:00:00Z|3"],
        ),
        (
            "SELECT date_trunc('day', time) = timestamptz '2024-01-01', count(*) FROM m GROUP BY 1",
            &["true|3"],
        ),
        ("SELECT count(*) FROM m WHERE extract(hour FROM time) >= 6", &["2"]),
        // The hour that comes twice stays two.
        (
            "SELECT date_trunc('hour', t) FROM (VALUES (timestamptz '2024-10-27 00:30Z'), (timestamptz '2024-10-27 01:30Z')) x(t) ORDER BY 1",
            &["2024-10-27T00:00:00Z", "2024-10-27T01:00:00Z"],
        ),
        (
            "SELECT extract(hour FROM d), date_trunc('day', s), to_char(s, 'HH24') FROM c",
            &["0|2024-07-01T00:00:00|12"],
        ),
    ])
    .await;
    let kolkata = store().sql().in_zone("Asia/Kolkata").unwrap();
    let sql = "SELECT date_trunc('hour', t), extract(minute FROM t), extract(hour FROM t) FROM (SELECT timestamptz '2024-01-01 05:10Z' AS t) x";
    assert_eq!(rows(&kolkata, sql).await, ["2024-01-01T04:30:00Z|40|10"]);
}

#[tokio::test]
async fn at_time_zone_turns_instants_into_clocks_and_clocks_into_instants() {
    check(&[
        (
            "SELECT timestamp '2024-07-01 12:00' AT TIME ZONE 'America/New_York', timestamptz '2024-07-01 12:00Z' AT TIME ZONE 'America/New_York'",
            &["2024-07-01T16:00:00Z|2024-07-01T08:00:00"],
        ),
        (
            "SELECT date '2024-07-01' AT TIME ZONE 'UTC', '2024-07-01 12:00' AT TIME ZONE 'UTC'",
            &["2024-06-30T22:00:00|2024-07-01T10:00:00"],
        ),
        // Left out, there twice, and the second of the two.
        (
            "SELECT timestamp '2024-03-31 02:30' AT TIME ZONE 'Europe/Berlin', timestamp '2024-10-27 02:30' AT TIME ZONE 'Europe/Berlin', timestamptz '2024-10-27 01:30Z' AT TIME ZONE 'Europe/Berlin'",
            &["2024-03-31T01:30:00Z|2024-10-27T01:30:00Z|2024-10-27T02:30:00"],
        ),
        (
            "SELECT date_trunc('day', time AT TIME ZONE 'Asia/Tokyo') AS day, count(*) FROM m GROUP BY day",
            &["2024-01-01T00:00:00|3"],
        ),
    ])
    .await;
    let store = store();
    // In UTC it was the clock of UTC that the zone was put behind.
    assert_eq!(
        store
            .rows("SELECT timestamp '2024-01-01 05:00' AT TIME ZONE 'Europe/Berlin'")
            .await,
        ["2024-01-01T04:00:00Z"]
    );
    for sql in [
        "SELECT time AT TIME ZONE 'Mars' FROM m",
        "SELECT time AT TIME ZONE 5 FROM m",
        "SELECT v AT TIME ZONE 'UTC' FROM m",
    ] {
        let error = store.error(sql).await.to_string();
        assert!(error.contains("Europe/Berlin"), "{sql}: {error}");
    }
}

#[tokio::test]
async fn a_view_is_in_utc_for_whoever_reads_it() {
    let store = store();
    store
        .rows("CREATE VIEW w AS SELECT v, time::date AS day FROM m, (VALUES (timestamp '2024-01-01 06:00')) AS c(t) WHERE time = t")
        .await;
    store
        .rows("CREATE VIEW x AS SELECT v, d::timestamptz AS at FROM m, (VALUES (date '2024-01-01')) AS c(d) WHERE v = 4")
        .await;
    store
        .rows("CREATE VIEW y AS SELECT extract(hour FROM time) AS h, date_trunc('hour', time) AS hour, date_trunc('day', time) AS day, to_char(time, 'HH24') AS c, v FROM m")
        .await;
    for zone in ["Europe/Berlin", "Asia/Kolkata"] {
        let elsewhere = store.sql().in_zone(zone).unwrap();
        let sql = "SELECT h, hour, day, c FROM y ORDER BY v";
        assert_eq!(
            rows(&elsewhere, sql).await,
            [
                "4|2024-01-01T04:00:00Z|2024-01-01T00:00:00Z|04",
                "5|2024-01-01T05:00:00Z|2024-01-01T00:00:00Z|05",
                "6|2024-01-01T06:00:00Z|2024-01-01T00:00:00Z|06",
            ],
            "{zone}"
        );
    }
    let berlin = store.sql().in_zone("Europe/Berlin").unwrap();
    for sql in ["SELECT v, day FROM w", "SELECT v, at FROM x"] {
        assert_eq!(rows(&berlin, sql).await, store.rows(sql).await, "{sql}");
    }
    assert_eq!(
        rows(&berlin, "SELECT v, day FROM w").await,
        ["6.0|2024-01-01"]
    );
    assert_eq!(
        rows(&berlin, "SELECT at FROM x").await,
        ["2024-01-01T00:00:00Z"]
    );
}

/// The story: `SET TIME ZONE` said that settings are the server's, and `SHOW timezone` that there is no such setting.
#[tokio::test]
async fn the_zone_of_a_session_is_shown_and_how_to_set_it_is_said() {
    let store = store();
    let berlin = store.sql().in_zone("Europe/Berlin").unwrap();
    for sql in ["SHOW timezone", "SHOW TIME ZONE", "show TimeZone"] {
        assert_eq!(store.rows(sql).await, ["UTC"], "{sql}");
        assert_eq!(rows(&berlin, sql).await, ["Europe/Berlin"], "{sql}");
    }
    for sql in [
        "SET TIME ZONE 'Europe/Berlin'",
        "SET timezone = 'Europe/Berlin'",
        "SET SESSION timezone TO 'Europe/Berlin'",
        "SET LOCAL TIME ZONE 'Europe/Berlin'",
        "RESET timezone",
    ] {
        let error = store.error(sql).await.to_string();
        assert!(error.contains("the parameter timezone"), "{sql}: {error}");
    }
}

/// What is stored of a continuous aggregate is in UTC, and so has to be what is computed when it is read.
#[tokio::test]
async fn a_continuous_aggregate_is_in_utc_for_whoever_reads_it() {
    let store = store();
    store
        .rows("CREATE MATERIALIZED VIEW hours WITH (timescaledb.continuous) AS SELECT time_bucket('1 day', time) AS day, extract(hour FROM time) AS h, count(*) AS n FROM m GROUP BY day, h")
        .await;
    store.write_seconds("m v=7 1704092400");
    let berlin = store.sql().in_zone("Europe/Berlin").unwrap();
    for asker in [&berlin, store.sql()] {
        let found = rows(asker, "SELECT h, n FROM hours ORDER BY h").await;
        assert_eq!(found, ["4|1", "5|1", "6|1", "7|1"]);
    }
    let sql = "SELECT extract(hour FROM time) AS h, count(*) FROM m GROUP BY h ORDER BY h";
    assert_eq!(rows(&berlin, sql).await, ["5|1", "6|1", "7|1", "8|1"]);
}

/// `now()` in a column without a zone was what the clock shows in UTC, whatever zone the session had.
#[tokio::test]
async fn instants_are_written_to_clocks_as_the_session_shows_them() {
    let store = store();
    let berlin = store.sql().in_zone("Europe/Berlin").unwrap();
    for sql in [
        "CREATE TABLE shifts (time TIMESTAMP, d DATE, v BIGINT)",
        "INSERT INTO shifts VALUES (timestamptz '2024-01-01 23:30Z', timestamptz '2024-01-01 23:30Z', 1)",
        "INSERT INTO shifts SELECT to_timestamp(1704151800), to_timestamp(1704151800), 2",
        "INSERT INTO shifts VALUES ('2024-01-01', '2024-01-01', 3)",
        "UPDATE shifts SET d = timestamptz '2024-06-30 22:30Z' WHERE v = 3",
    ] {
        rows(&berlin, sql).await;
    }
    assert_eq!(
        rows(&berlin, "SELECT time, d, v FROM shifts ORDER BY v").await,
        [
            "2024-01-02T00:30:00|2024-01-02|1",
            "2024-01-02T00:30:00|2024-01-02|2",
            "2024-01-01T00:00:00|2024-07-01|3",
        ]
    );
}
