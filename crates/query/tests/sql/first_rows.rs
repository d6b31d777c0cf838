//! The first row of each group: `DISTINCT ON` over more rows than a batch has, and over what has no plain order. Expected by
//! arithmetic, and by the rules of `PostgreSQL` for NULL, NaN and the two zeros.

use nilometer_query::SqlOptions;

use crate::support::Store;

/// Each column of each group's first row was an aggregate of its own, so that twenty columns took twenty times as long.
#[tokio::test]
async fn the_first_rows_of_groups_are_kept_by_one_operator() {
    let options = SqlOptions {
        threads: 4,
        ..SqlOptions::default()
    };
    let store = Store::with(options);
    let rows = "(SELECT i % 1000 AS g, 7919 * i % 100003 AS v, i, CAST(i AS TEXT) AS t FROM generate_series(1, 100000) AS s(i)) q";
    let plan = store
        .rows(&format!(
            "EXPLAIN SELECT DISTINCT ON (g) * FROM {rows} ORDER BY g, v DESC"
        ))
        .await
        .join("\n");
    assert!(plan.contains("FirstRowsExec: groups=[g@0]"), "{plan}");
    assert!(!plan.contains("AggregateExec"), "{plan}");
    for (order, is_descending) in [("v DESC", true), ("v", false), ("v DESC NULLS LAST", true)] {
        let found = store
            .rows(&format!(
                "SELECT DISTINCT ON (g) g, v, i, t FROM {rows} ORDER BY g, {order}"
            ))
            .await;
        // No value comes twice: 100,003 is a prime.
        let expected: Vec<String> = (0..1000_u64)
            .map(|group| {
                let own = (1..=100_000_u64).filter(|i| i % 1000 == group);
                let own = own.map(|i| (7919 * i % 100_003, i));
                let (value, i) = if is_descending { own.max() } else { own.min() }.unwrap();
                format!("{group}|{value}|{i}|{i}")
            })
            .collect();
        assert_eq!(found, expected, "{order}");
    }
    // Every row is of a group of its own, and rows become better all the time.
    let found = store
        .rows(&format!("SELECT count(*), sum(v), min(t) FROM (SELECT DISTINCT ON (i) * FROM {rows} ORDER BY i) d"))
        .await;
    let sum: u64 = (1..=100_000_u64).map(|i| 7919 * i % 100_003).sum();
    assert_eq!(found, [format!("100000|{sum}|1")]);
    let found = store
        .rows(&format!(
            "SELECT DISTINCT ON (g % 2) i, g % 2 FROM {rows} ORDER BY g % 2, i DESC"
        ))
        .await;
    assert_eq!(found, ["100000|0", "99999|1"]);
}

/// NULL is a group; so is NaN, whatever its bits; the zeros are one; NaN is greater than every number and NULL comes as it is told.
#[tokio::test]
async fn groups_and_orders_of_what_has_no_plain_order_are_those_of_postgresql() {
    let store = Store::new();
    store
        .rows("CREATE TABLE r (id INTEGER PRIMARY KEY, g DOUBLE PRECISION, v DOUBLE PRECISION, t TEXT, j INTEGER)")
        .await;
    store
        .rows(
            "INSERT INTO r VALUES (1, 'NaN', 1, 'a', NULL), (2, 'NaN', 'NaN', NULL, 2), (3, 'NaN', NULL, '', 3),
             (4, 0.0, -1, 'x', 4), (5, '-0.0', 2, 'y', 5), (6, NULL, '-inf', '\u{e9}', 6), (7, NULL, 'inf', 'z', 7),
             (8, 'inf', -0.0, 'b', 8), (9, 'inf', 0.0, 'a', 9)",
        )
        .await;
    for (order, expected) in [
        ("v", [4, 8, 1, 6]),
        ("v DESC", [5, 8, 3, 7]),
        ("v DESC NULLS LAST", [5, 8, 2, 7]),
        ("v NULLS FIRST", [4, 8, 3, 6]),
        ("t", [4, 9, 3, 7]),
        ("t DESC", [5, 8, 2, 6]),
        ("j NULLS FIRST", [4, 8, 1, 6]),
        ("j DESC", [5, 9, 1, 7]),
        ("t IS NULL DESC, j DESC NULLS LAST", [5, 9, 2, 7]),
    ] {
        let found = store
            .rows(&format!(
                "SELECT DISTINCT ON (g) id FROM r ORDER BY g, {order}, id"
            ))
            .await;
        let expected = expected.map(|id| id.to_string());
        assert_eq!(found, expected, "{order}");
    }
    // Of two keys, and of none that is ordered further.
    let found = store
        .rows("SELECT DISTINCT ON (t IS NULL, g) id, j FROM r WHERE g = 'NaN' ORDER BY t IS NULL DESC, g, v")
        .await;
    assert_eq!(found, ["2|2", "1|-"]);
    let found = store
        .rows("SELECT count(*), count(id) FROM (SELECT DISTINCT ON (g) * FROM r) d")
        .await;
    assert_eq!(found, ["4|4"]);
    let none = "SELECT DISTINCT ON (g) * FROM r WHERE id < 0 ORDER BY g, v";
    assert!(store.rows(none).await.is_empty());
}
