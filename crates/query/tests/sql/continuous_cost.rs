//! Promise: what a refresh computes is in proportion to what has changed, and a write notes no more than that.

use std::fmt::Write as _;

use crate::support::Store;

async fn run(store: &Store, sql: &str) {
    let done = store.sql().query("d", sql).await;
    let done = done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    done.collect().await.unwrap();
}

async fn rows(store: &Store, sql: &str) -> Vec<String> {
    let batches = store.sql().query("d", sql).await.unwrap().collect().await;
    let mut rows = crate::support::rows(&batches.unwrap());
    rows.sort();
    rows
}

const BUCKETS: u64 = 4_000;
const MINUTES: &str = "SELECT time_bucket('1 minute', time) AS minute, count(*) AS n, sum(v) AS total FROM m GROUP BY minute";

/// Five rows in each of 4,000 buckets of a minute, and a view of them.
async fn many_buckets() -> Store {
    let store = Store::that_compacts();
    run(
        &store,
        "CREATE TABLE m (time TIMESTAMPTZ, host TEXT TAG, v BIGINT)",
    )
    .await;
    let mut lines = String::new();
    for bucket in 0..BUCKETS {
        for row in 0..5 {
            writeln!(lines, "m,host=a v={row}i {}", bucket * 60 + row * 10).unwrap();
        }
    }
    store.write_seconds(&lines);
    store.compact();
    run(
        &store,
        &format!("CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS {MINUTES}"),
    )
    .await;
    assert_eq!(
        rows(&store, "SELECT count(*) FROM _materialized_c").await,
        ["4000"]
    );
    store
}

/// One row late in each of 40 buckets, about a hundred buckets apart: one bucket in a hundred has changed. All buckets have as many rows,
/// so what is read of the table is in proportion to the buckets that are written.
#[tokio::test]
async fn a_refresh_after_late_rows_in_a_hundredth_of_the_buckets_costs_less_than_three_hundredths()
{
    for at_once in [true, false] {
        let store = many_buckets().await;
        let late: Vec<String> = (0..40_u64)
            .map(|nth| {
                // Apart by 61 to 139 buckets.
                let bucket = nth * 100 + (nth * 37) % 40;
                format!("m,host=b v=1i {}", bucket * 60 + 5)
            })
            .collect();
        if at_once {
            store.write_seconds(&late.join("\n"));
        } else {
            for line in &late {
                store.write_seconds(line);
            }
        }
        let before = store.engine.metrics().rows_written;
        run(&store, "CALL refresh_continuous_aggregate('c', NULL, NULL)").await;
        let computed = store.engine.metrics().rows_written - before;
        assert_eq!(computed, 40, "at once: {at_once}");
        assert!(computed * 100 < 3 * BUCKETS);
        assert_eq!(
            rows(&store, "SELECT * FROM _materialized_c").await,
            rows(&store, MINUTES).await
        );
    }
}

/// Late rows far apart, read before anybody refreshes: the view answers what its query does.
#[tokio::test]
async fn a_view_with_many_ranges_that_have_changed_answers_what_its_query_does() {
    let store = many_buckets().await;
    for nth in 0..90_u64 {
        store.write_seconds(&format!("m,host=b v=1i {}", nth * 41 * 60 + 5));
    }
    for query in [
        MINUTES,
        "SELECT time_bucket('1 hour', time) AS h, sum(v) AS total FROM m GROUP BY h",
    ] {
        let raw = store
            .sql()
            .without_aggregates()
            .query("d", query)
            .await
            .unwrap();
        let mut expected = crate::support::rows(&raw.collect().await.unwrap());
        expected.sort();
        assert_eq!(rows(&store, query).await, expected);
    }
    assert_eq!(
        rows(&store, "SELECT * FROM c").await,
        rows(&store, MINUTES).await
    );
}

/// New rows lie behind what was computed, where nothing has to be noted: batches take no more of the log than without a view.
#[tokio::test]
async fn new_rows_note_nothing_and_late_ones_a_range_each() {
    let store = many_buckets().await;
    let noted = || {
        let snapshot = store.engine.snapshot();
        let aggregate =
            nilometer_service::define::aggregate(&snapshot, "d", "public", "c").unwrap();
        snapshot
            .invalidations(aggregate.key())
            .iter()
            .filter(|it| !it.is_new)
            .count()
    };
    assert_eq!(noted(), 0);
    store.write_seconds(&format!(
        "m,host=a v=1i {}\nm,host=b v=1i {}",
        BUCKETS * 60,
        BUCKETS * 90
    ));
    assert_eq!(noted(), 0);
    store.write_seconds(&format!(
        "m,host=a v=1i 100\nm,host=a v=1i 101\nm,host=a v=1i 100000\nm,host=b v=1i {}",
        BUCKETS * 95
    ));
    assert_eq!(noted(), 2);
}
