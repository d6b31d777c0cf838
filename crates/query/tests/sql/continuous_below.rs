//! Promise: what lies below a continuous aggregate does not change behind its back: views of views answer right whatever window was
//! refreshed, and what would make an answer unlike its query is refused with the way out.

use crate::support::Store;

async fn run(store: &Store, sql: &str) {
    store.rows(sql).await;
}

/// Months of weeks: a row of 2 May is in the week of 29 April, and so in April. A refresh from May on took the row for
/// computed, and April stayed without it until it was refreshed by force.
#[tokio::test]
async fn a_window_of_a_view_of_a_view_leaves_what_begins_before_it() {
    let store = Store::that_compacts();
    for sql in [
        "CREATE TABLE t (time TIMESTAMPTZ, v DOUBLE PRECISION)",
        "CREATE MATERIALIZED VIEW w WITH (timescaledb.continuous) AS SELECT time_bucket('1 week', time) AS b, count(*) AS n FROM t GROUP BY 1",
        "CREATE MATERIALIZED VIEW m WITH (timescaledb.continuous) AS SELECT time_bucket('1 month', b) AS b, sum(n) AS n FROM w GROUP BY 1",
        "INSERT INTO t VALUES ('2024-07-04', 1)",
        "CALL refresh_continuous_aggregate('m', NULL, NULL)",
        "INSERT INTO t VALUES ('2024-05-11', 1)",
        "INSERT INTO t VALUES ('2024-05-02', 1)",
    ] {
        run(&store, sql).await;
    }
    let expected = [
        "2024-04-01T00:00:00Z|1",
        "2024-05-01T00:00:00Z|1",
        "2024-07-01T00:00:00Z|1",
    ];
    let query = "SELECT * FROM m ORDER BY b";
    assert_eq!(store.rows(query).await, expected);
    for window in ["'2024-05-01', NULL", "NULL, '2024-05-01'", "NULL, NULL"] {
        let refresh = format!("CALL refresh_continuous_aggregate('m', {window})");
        run(&store, &refresh).await;
        assert_eq!(store.rows(query).await, expected, "{window}");
    }
    assert_eq!(
        store.rows("SELECT * FROM _materialized_m ORDER BY b").await,
        expected
    );
}
