//! Numbers, intervals and conditions as `PostgreSQL` takes them. Expected values are its answers (version 15).

use crate::support::Store;

/// The integer is the first that a float does not hold.
fn store() -> Store {
    let store = Store::new();
    store.write_seconds(
        "m n=9007199254740993i,v=4 1704081600\nm n=1i,v=5 1704085200\nm n=2i,v=6 1704088800",
    );
    store
}

async fn check(cases: &[(&str, &[&str])]) {
    let store = store();
    for (sql, expected) in cases {
        assert_eq!(store.rows(sql).await, *expected, "{sql}");
    }
}

/// The story: prices were cast to whole cents, and `2.7::numeric::int` was 2, because decimals were cut off.
#[tokio::test]
async fn numerics_are_rounded_away_from_zero_and_floats_to_the_even_one() {
    check(&[
        (
            "SELECT 2.7::numeric::int, 2.5::numeric::bigint, (-2.5)::numeric::int, 2.4::numeric::int, 2.49999::numeric(10,5)::int",
            &["3|3|-3|2|2"],
        ),
        (
            "SELECT 2.5::int, -2.5::int, (-2.5)::int, (1.5 + 1)::int, abs(-0.5)::int, (5 / 2.0)::int, 3.5::int",
            &["3|-3|-3|3|1|3|4"],
        ),
        (
            "SELECT 2.5::float8::int, 3.5::float8::int, (-2.5)::float8::int, (v / 8)::int FROM m WHERE v = 4",
            &["2|4|-2|0"],
        ),
        ("SELECT (n / 2.0)::int FROM m WHERE n = 1", &["1"]),
    ])
    .await;
}

/// The story: a counter had passed 2^53, and the row that a condition with a point asked for was not found, or another was too.
#[tokio::test]
async fn integers_are_compared_with_numbers_digit_by_digit() {
    check(&[
        (
            "SELECT 9007199254740993 > 9007199254740992.5, 9007199254740993 = 9007199254740992.5, 9007199254740992.5 < 9007199254740993, -9007199254740993 < -9007199254740992.5",
            &["true|false|true|true"],
        ),
        ("SELECT n FROM m WHERE n > 9007199254740992.5", &["9007199254740993"]),
        ("SELECT n FROM m WHERE n >= 9007199254740993.5", &[]),
        ("SELECT n FROM m WHERE n = 9007199254740993.0", &["9007199254740993"]),
        ("SELECT n FROM m WHERE n = 9007199254740992.0", &[]),
        ("SELECT n FROM m WHERE n IN (9007199254740993.0, 1)  ORDER BY n", &["1", "9007199254740993"]),
        ("SELECT n FROM m WHERE n BETWEEN 9007199254740992.5 AND 9007199254740993.5", &["9007199254740993"]),
        ("SELECT n FROM m WHERE n IS NOT DISTINCT FROM 9007199254740993.000", &["9007199254740993"]),
        // A float is compared as one.
        ("SELECT v FROM m WHERE v < 5.00000000000000001", &["4.0"]),
        ("SELECT v FROM m WHERE v = 4.00000000000000001", &["4.0"]),
        ("SELECT 0.1::float8 = 0.1000000000000000055511151231257827", &["true"]),
    ])
    .await;
}

/// The story: a share was divided by a total that was `0.0`, and the report said `inf`.
#[tokio::test]
async fn numerics_are_not_divided_by_zero() {
    let store = store();
    for sql in [
        "SELECT 1::numeric / 0.0",
        "SELECT 1::numeric / 0",
        "SELECT 1 / 0.0",
        "SELECT 1.0 / 0",
        "SELECT 1.5 / (n - 1) FROM m",
        "SELECT n / (0.5 - 0.5) FROM m",
        "SELECT 5 % 0.0",
    ] {
        let error = store.error(sql).await;
        assert_eq!(error.to_string(), "division by zero", "{sql}");
    }
    check(&[
        ("SELECT NULL / 0.0, 0.0 / 4, 1 / 0.5", &["-|0.0|2.0"]),
        (
            "SELECT CASE WHEN n = 1 THEN 0.5 ELSE 1.5 / (n - 1) END FROM m WHERE n < 3 ORDER BY n",
            &["0.5", "1.5"],
        ),
    ])
    .await;
}

/// The story: rows were a quarter of a second apart, and all had the same `extract(second FROM time)`.
#[tokio::test]
async fn seconds_have_their_fraction() {
    check(&[
        (
            "SELECT extract(second FROM t), extract(seconds FROM t), extract(milliseconds FROM t), extract(microseconds FROM t), date_part('second', t), extract(minute FROM t) FROM (SELECT timestamptz '2024-01-01 00:07:30.251500' AS t)",
            &["30.2515|30.2515|30251.5|30251500|30.2515|7"],
        ),
        (
            "SELECT extract(second FROM timestamp '1969-12-31 23:59:59.75'), extract(second FROM NULL::timestamptz)",
            &["59.75|-"],
        ),
    ])
    .await;
}

/// The story: an alert for gaps of more than a day stayed silent, because 30 hours are no day at all when days are compared first.
#[tokio::test]
async fn intervals_are_compared_by_months_of_thirty_days_and_days_of_24_hours() {
    check(&[
        (
            "SELECT interval '1 month' = interval '30 days', interval '1 day' = interval '24 hours', interval '30 hours' > interval '1 day', interval '1 month' < interval '31 days', interval '1 year' > interval '360 days', interval '-1 day' < interval '-23 hours', interval '1 month -1 day' = interval '29 days'",
            &["true|true|true|true|false|true|true"],
        ),
        (
            "SELECT i FROM (VALUES (interval '31 days'), (interval '1 month'), (interval '25 hours'), (interval '1 day')) AS t(i) ORDER BY i",
            &["1 days", "25 hours", "1 mons", "31 days"],
        ),
        (
            "SELECT count(*) FROM (VALUES (interval '1 month')) AS a(i) JOIN (VALUES (interval '30 days'), (interval '31 days')) AS b(j) ON i = j",
            &["1"],
        ),
        (
            "SELECT i IN (interval '720 hours'), i BETWEEN interval '29 days' AND interval '30 days', CASE i WHEN interval '30 days' THEN 'same' END FROM (VALUES (interval '1 month')) AS t(i)",
            &["true|true|same"],
        ),
        (
            "SELECT v FROM m WHERE time - timestamptz '2024-01-01' > interval '5 hours' ORDER BY v",
            &["6.0"],
        ),
        (
            "SELECT count(*) FROM m WHERE time - timestamptz '2023-12-31' > interval '1 day'",
            &["3"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn between_symmetric_takes_its_bounds_in_any_order() {
    check(&[
        (
            "SELECT 2 BETWEEN SYMMETRIC 3 AND 1, 2 BETWEEN SYMMETRIC 1 AND 3, 4 BETWEEN SYMMETRIC 3 AND 1, 2 NOT BETWEEN SYMMETRIC 3 AND 1, 2 BETWEEN ASYMMETRIC 3 AND 1",
            &["true|true|false|false|false"],
        ),
        (
            "SELECT 2 BETWEEN SYMMETRIC 3 AND 1 AND false, true OR 2 BETWEEN SYMMETRIC 5 AND 6, 2 BETWEEN SYMMETRIC CASE WHEN true AND true THEN 3 END AND (1)",
            &["false|true|true"],
        ),
        (
            "SELECT NULL BETWEEN SYMMETRIC 1 AND 2, 3 BETWEEN SYMMETRIC NULL AND 2, 1 BETWEEN SYMMETRIC NULL AND 2, 2 BETWEEN SYMMETRIC (SELECT 3) AND 1 + 0",
            &["-|-|-|true"],
        ),
        (
            "SELECT v FROM m WHERE time BETWEEN SYMMETRIC '2024-01-01 05:00' AND '2024-01-01 04:00' ORDER BY v",
            &["4.0", "5.0"],
        ),
    ])
    .await;
    let store = store();
    for sql in [
        "SELECT 1 BETWEEN SYMMETRIC 2",
        "SELECT 1 BETWEEN SYMMETRIC",
        "SELECT 1 SYMMETRIC 2",
    ] {
        store.error(sql).await;
    }
}

#[test]
fn between_symmetric_in_itself_is_refused_before_it_has_grown() {
    // Each level doubles what is in it. The stack is half of what the server's threads for queries have.
    let planned = std::thread::Builder::new().stack_size(32 << 20).spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let nested = (0..18).fold("1".to_owned(), |inner, _| {
            format!("({inner}) BETWEEN SYMMETRIC 0 AND 2")
        });
        let store = store();
        let error = runtime.block_on(store.error(&format!("SELECT {nested}")));
        assert!(error.to_string().contains("bytes"), "{error}");
    });
    planned.unwrap().join().unwrap();
}
