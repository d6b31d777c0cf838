//! Gap filling, `ASOF JOIN` and the aggregates over more rows than a batch or a partition has; expected by arithmetic.

use std::fmt::Write;

use nilometer_query::{Error, SqlOptions};

use crate::support::Store;

const HOSTS: u64 = 12;
const SECONDS: u64 = 20_000;

/// Each host has a point in every `step`-th second from 0; `v` is the second, `c` a counter that begins again after 999.
fn store(table: &str, step: usize) -> Store {
    let options = SqlOptions {
        threads: 4,
        ..SqlOptions::default()
    };
    let store = Store::with(options);
    write(&store, table, step);
    store
}

fn write(store: &Store, table: &str, step: usize) {
    let mut lines = String::new();
    for second in (0..SECONDS).step_by(step) {
        for host in 0..HOSTS {
            let counter = second % 1000;
            writeln!(
                lines,
                "{table},host=h{host} v={second},c={counter} {second}"
            )
            .unwrap();
        }
    }
    store.write_seconds(&lines);
}

#[tokio::test]
async fn gaps_of_groups_that_span_batches_are_filled_on_their_lines() {
    let store = store("m", 4);
    let filled = "SELECT host, time_bucket_gapfill('1 second', time) AS b, interpolate(avg(v)) AS line, locf(max(v)) AS carried, count(*) AS n
        FROM m WHERE time >= '1970-01-01' AND time < '1970-01-01 05:33:20' GROUP BY host, b";
    // From the last point, at 19996, no line leads on.
    let rows = store
        .rows(&format!(
            "SELECT count(*), count(DISTINCT host), count(line), count(n),
                sum(CASE WHEN line <> extract(epoch FROM b) THEN 1 ELSE 0 END),
                sum(CASE WHEN carried <> extract(epoch FROM b) - CAST(extract(epoch FROM b) AS BIGINT) % 4 THEN 1 ELSE 0 END)
             FROM ({filled})"
        ))
        .await;
    let all = HOSTS * SECONDS;
    let lines = all - 3 * HOSTS;
    let expected = format!("{all}|{HOSTS}|{lines}|{}|0|0", all / 4);
    assert_eq!(rows, [expected]);
    let plan = store
        .rows(&format!("EXPLAIN {filled} ORDER BY host, b"))
        .await
        .join("\n");
    assert!(plan.contains("groups=[host]"), "{plan}");
    // What is filled is in order already; only what is grouped is sorted.
    let before = plan.split("GapFillExec").next().unwrap();
    let physical = before.rsplit("physical_plan").next().unwrap();
    assert!(!physical.contains("SortExec"), "{plan}");
}

#[tokio::test]
async fn hours_that_statistics_answer_are_filled_as_any_others() {
    let store = store("m", 4);
    let rows = store
        .rows(
            "SELECT count(*), count(n), sum(n), sum(CASE WHEN b = '1970-01-01 06:00:00' AND carried = 19996 THEN 1 ELSE 0 END) FROM (
                SELECT host, time_bucket_gapfill('1 hour', time) AS b, count(v) AS n, locf(max(v)) AS carried
                FROM m WHERE time >= '1970-01-01' AND time < '1970-01-01 07:00:00' GROUP BY b, host)",
        )
        .await;
    // 20000 seconds are in 6 hours, the seventh is a gap.
    let (all, known, points) = (HOSTS * 7, HOSTS * 6, HOSTS * SECONDS / 4);
    assert_eq!(rows, [format!("{all}|{known}|{points}|{HOSTS}")]);
}

#[tokio::test]
async fn an_asof_join_over_many_batches_finds_the_latest_row_of_each() {
    let store = store("a", 3);
    write(&store, "b", 7);
    let joined =
        "SELECT a.v AS t, b.v AS found FROM a ASOF JOIN b ON a.host = b.host AND a.time >= b.time";
    let rows = store
        .rows(&format!(
            "SELECT count(*), sum(CASE WHEN found <> t - CAST(t AS BIGINT) % 7 THEN 1 ELSE 0 END) FROM ({joined})"
        ))
        .await;
    let expected = format!("{}|0", SECONDS.div_ceil(3) * HOSTS);
    assert_eq!(rows, [expected.as_str()]);
    let after = joined.replace(">=", "<");
    // After the last second of b, which is 19999, there is none; 19998 is the last of a.
    let rows = store
        .rows(&format!(
            "SELECT count(*), sum(CASE WHEN found <> t - CAST(t AS BIGINT) % 7 + 7 THEN 1 ELSE 0 END) FROM ({after})"
        ))
        .await;
    assert_eq!(rows, [expected]);
    let plan = store
        .rows(&format!(
            "EXPLAIN {joined} WHERE a.time >= '1970-01-01 00:00:10'"
        ))
        .await
        .join("\n");
    assert!(plan.contains("AsofJoinExec: Inner"), "{plan}");
    // The condition on the left side has reached its scan, and the join reads no column that it does not need.
    assert!(plan.contains("time=1970-01-01T00:00:10Z..=end"), "{plan}");
    assert!(!plan.contains("columns=[time, host, c"), "{plan}");
}

#[tokio::test]
async fn aggregates_over_partitions_agree_with_arithmetic() {
    let store = store("m", 1);
    let calls = "delta(c, time), derivative(c, time), rate(c, time) * 19999, histogram(c, 0, 1000, 4),
        percentile_disc(0.5) WITHIN GROUP (ORDER BY c), array_length(lttb(time, c, 50)), first(c, time), last(v, time)";
    // 20000 seconds: 19 times the counter begins again, at 0, which adds nothing to the other 19980.
    let one =
        "999.0|0.04995249762488124|19980.0|[0, 5000, 5000, 5000, 5000, 0]|499.0|50|0.0|19999.0";
    let rows = store
        .rows(&format!(
            "SELECT {calls} FROM m GROUP BY host ORDER BY host"
        ))
        .await;
    assert_eq!(rows, vec![one; 12]);
    let rows = store
        .rows(&format!("SELECT {calls} FROM m WHERE host = 'h7'"))
        .await;
    assert_eq!(rows, [one]);
    let rows = store
        .rows("SELECT delta(c, time), histogram(c, 0, 1000, 2) FROM m")
        .await;
    assert_eq!(rows, ["999.0|[0, 120000, 120000, 0]"]);
}

#[tokio::test]
async fn aggregates_of_as_many_groups_as_rows_are_those_of_one_row() {
    let store = store("m", 1);
    let rows = store
        .rows(
            "SELECT count(*), count(r), sum(d), sum(h), sum(l), sum(p), sum(x) FROM (
                SELECT host, time, rate(c, time) AS r, delta(c, time) AS d, histogram(c, 0, 1000, 1)[2] AS h,
                    array_length(lttb(time, c, 3)) AS l, count(derivative(c, time)) OVER () AS p,
                    delta(c, time) FILTER (WHERE c > 1000) AS x
                FROM m GROUP BY host, time)",
        )
        .await;
    let all = HOSTS * SECONDS;
    assert_eq!(rows, [format!("{all}|0|0.0|{all}|{all}|0|-")]);
}

#[tokio::test]
async fn the_limit_of_buckets_is_the_setting_and_is_named() {
    let store = Store::with(SqlOptions {
        gapfill_buckets_max: 3,
        ..SqlOptions::default()
    });
    let sql = |finish: u32| {
        format!(
            "SELECT time_bucket_gapfill(1, t, 0, {finish}) AS b FROM (VALUES (0)) x(t) GROUP BY b ORDER BY b"
        )
    };
    assert_eq!(store.rows(&sql(3)).await, ["0", "1", "2"]);
    let error = store.error(&sql(4)).await;
    assert!(matches!(error, Error::Execution { .. }), "{error:?}");
    assert!(error.to_string().contains("at most 3 buckets"), "{error}");
    assert!(error.to_string().contains("gapfill-buckets-max"), "{error}");
}

/// Each row of a list becomes a condition, and conditions that stand in a chain nest as deep as it is long: a list of many
/// rows must not overflow a thread's stack. What is beyond the limit is refused at the row that passes it.
#[tokio::test]
async fn a_list_of_many_rows_is_answered_and_one_of_more_is_refused() {
    let store = Store::new();
    store.write_seconds("p,h=x a=1i,b=999i 1\np,h=x a=2i,b=7i 2\np,h=x a=2i 3");
    let query = |rows: usize| {
        let list: Vec<String> = (0..rows)
            .map(|row| format!("({}, {row})", row % 2))
            .collect();
        format!(
            "SELECT count(*), count(CASE WHEN (a, b) IN ({0}) THEN 1 END), count(CASE WHEN (a, b) NOT IN ({0}) THEN 1 END) FROM p",
            list.join(", ")
        )
    };
    assert_eq!(store.rows(&query(1000)).await, ["3|1|2"]);
    let error = store.answer(&query(1001)).await.unwrap_err();
    assert!(
        error.to_string().contains("a list is limited to 1000 rows"),
        "{error}"
    );
    assert!(error.position().is_some());
    // Lists in lists: each row of the outer has a copy of the inner.
    let rows = vec!["(true, 1)"; 1000].join(", ");
    let nested = (0..3).fold("a = 1".to_owned(), |inner, _| {
        format!("({inner}, 1) IN ({rows})")
    });
    let sql = format!("SELECT count(*) FROM p WHERE {nested}");
    let error = store.answer(&sql).await.unwrap_err();
    assert!(
        error.to_string().contains("limited to 1048576 bytes"),
        "{error}"
    );
}
