//! Promise: a column of an answer that is a cast is described as what it is cast to.
//!
//! The story: an attacker read casts of declared columns over `PostgreSQL`'s protocol. What a column says of its declared type
//! went on through the cast: `d::timestamp` of a `date` was described as a `date`, a client that asked for binary values read the
//! bits of 2024-05-05 as the year 2489, and `s::int` of a `varchar` came as a text of four bytes.

use arrow::datatypes::{DataType, TimeUnit};

use crate::support::Store;

/// What names a declared type beside the stored one.
const SQL_TYPE: &str = "sql_type";

async fn store() -> Store {
    let store = Store::new();
    store.engine.create_database("d").unwrap();
    for sql in [
        "CREATE TABLE t (time TIMESTAMPTZ NOT NULL, n NUMERIC(12,3), s VARCHAR(20), u UUID, dd DATE, ts TIMESTAMP, iv INTERVAL, \
         c CHAR(5), tm TIME, r REAL)",
        "INSERT INTO t VALUES ('2024-01-01', 5, '7', '550e8400-e29b-41d4-a716-446655440000', '2024-05-05', '2024-05-05 01:02:03', \
         '1 day', 'ab', '01:02:03', 1.5)",
        "CREATE VIEW v AS SELECT dd::timestamp AS x, s::int AS y FROM t",
    ] {
        store.rows(sql).await;
    }
    store
}

/// Types of the columns of an answer, and what they say of declared types.
async fn described(store: &Store, sql: &str) -> Vec<(DataType, Option<String>)> {
    let answer = store.start(sql).await;
    let schema = answer.schema();
    let batches = answer.collect().await.unwrap();
    let fields = schema.fields().iter();
    for batch in &batches {
        assert_eq!(batch.num_rows(), 1, "{sql}");
    }
    let declared = |field: &arrow::datatypes::Field| field.metadata().get(SQL_TYPE).cloned();
    fields
        .map(|field| (field.data_type().clone(), declared(field)))
        .collect()
}

#[tokio::test]
async fn a_cast_is_described_as_what_it_casts_to() {
    let store = store().await;
    let stamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let zoned = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
    for (cast, kind) in [
        ("n::int", DataType::Int32),
        ("n::bigint", DataType::Int64),
        ("n::smallint", DataType::Int16),
        ("n::real", DataType::Float32),
        ("n::text", DataType::Utf8),
        ("CAST(n AS int)", DataType::Int32),
        ("dd::timestamp", stamp),
        ("dd::timestamptz", zoned.clone()),
        ("ts::timestamptz", zoned),
        ("ts::date", DataType::Date32),
        ("s::int", DataType::Int32),
        ("s::text", DataType::Utf8),
        ("u::text", DataType::Utf8),
        ("dd::text", DataType::Utf8),
        ("iv::text", DataType::Utf8),
        ("tm::text", DataType::Utf8),
        ("r::text", DataType::Utf8),
        ("r::double precision", DataType::Float64),
        ("c::text", DataType::Utf8),
    ] {
        let expected = vec![(kind, None)];
        for sql in [
            format!("SELECT {cast} FROM t"),
            format!("SELECT {cast} AS x FROM t ORDER BY 1"),
            format!("SELECT x FROM (SELECT {cast} AS x FROM t) q"),
            format!("WITH q AS (SELECT {cast} AS x FROM t) SELECT x FROM q WHERE x IS NOT NULL"),
            format!("SELECT DISTINCT ON ({cast}) {cast} AS x FROM t ORDER BY {cast}"),
            format!("SELECT DISTINCT {cast} AS x FROM t"),
            format!("SELECT {cast} AS x FROM t GROUP BY {cast}"),
            format!("SELECT (SELECT {cast} FROM t) AS x"),
        ] {
            assert_eq!(described(&store, &sql).await, expected, "{sql}");
        }
    }
    let both = described(&store, "SELECT x, y FROM v").await;
    assert!(
        both.iter().all(|(_, declared)| declared.is_none()),
        "{both:?}"
    );
    // What is not cast is still of its declared type.
    let declared = described(&store, "SELECT n, s, dd FROM t").await;
    assert!(
        declared.iter().all(|(_, declared)| declared.is_some()),
        "{declared:?}"
    );
}
