//! Faults of `DataFusion` that the planner here works around, shown with `DataFusion` alone. When an upgrade mends one, its test
//! fails: what works around it can go then, and the test with it. What we answer is in `sqltests/statements`: `nulls.slt`,
//! `joins.slt`, `merged.slt`, `subqueries.slt`, `floats.slt`, `integers.slt`.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::SessionContext;

/// The version whose faults these are.
const VERSION: &str = "55.2.0";

/// Rows of an answer, or the error.
async fn answer(setup: &[&str], sql: &str) -> Result<Vec<String>, String> {
    assert_eq!(
        datafusion::DATAFUSION_VERSION,
        VERSION,
        "another version: look through these faults again"
    );
    let session = SessionContext::new();
    for statement in setup {
        session
            .sql(statement)
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
    }
    let plan = session.sql(sql).await.map_err(|error| error.to_string())?;
    let batches = plan.collect().await.map_err(|error| error.to_string())?;
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter();
        let columns: Vec<ArrayFormatter<'_>> = columns
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let row: Vec<String> = columns.iter().map(|it| it.value(row).to_string()).collect();
            rows.push(row.join(" "));
        }
    }
    rows.sort();
    Ok(rows)
}

const T: &str = "CREATE TABLE t AS SELECT * FROM (VALUES (1), (2), (NULL)) AS v(x)";
const K: &str = "CREATE TABLE k AS SELECT * FROM (VALUES (1, 3), (7, 2)) AS v(i, j)";

#[tokio::test]
async fn two_lists_of_one_value_forget_null() {
    let sql = "SELECT x FROM t WHERE x NOT IN (1) OR x NOT IN (2)";
    assert_eq!(answer(&[T], sql).await.unwrap(), ["1", "2", "NULL"]);
    let sql = "SELECT x FROM t WHERE NOT (x IN (1, 2) AND x IN (3, 4))";
    assert_eq!(answer(&[T], sql).await.unwrap(), ["1", "2", "NULL"]);
}

#[tokio::test]
async fn in_a_larger_condition_forgets_null() {
    let sql = "SELECT x FROM t WHERE (x IN (SELECT i FROM k)) IS NULL";
    assert_eq!(answer(&[T, K], sql).await.unwrap(), [] as [&str; 0]);
}

#[tokio::test]
async fn not_in_of_the_outer_row_is_refused() {
    let sql = "SELECT x FROM t WHERE x NOT IN (SELECT j FROM k WHERE k.i = t.x)";
    let error = answer(&[T, K], sql).await.unwrap_err();
    assert!(error.contains("single column join key"), "{error}");
}

#[tokio::test]
async fn a_condition_above_a_join_is_pushed_by_names() {
    let a = "CREATE TABLE a AS SELECT * FROM (VALUES (1, 1), (2, 2)) AS v(t, v)";
    let b = "CREATE TABLE b AS SELECT * FROM (VALUES (1, 1), (2, 5), (4, 7)) AS v(t, v)";
    let sql = "SELECT a.v, b.v AS w FROM a RIGHT JOIN b ON a.t = b.t WHERE (a.v IS DISTINCT FROM b.v) AND b.v > 0";
    assert_eq!(answer(&[a, b], sql).await.unwrap(), [] as [&str; 0]);
}

#[tokio::test]
async fn a_subquery_in_on_is_forgotten() {
    let sql = "SELECT t.x, k.i FROM t LEFT JOIN k ON t.x = k.i AND EXISTS (SELECT 1 FROM k q WHERE q.i = k.i AND q.j < 3)";
    let wrong = answer(&[T, K], sql).await.unwrap();
    assert_eq!(wrong, ["1 1", "2 NULL", "NULL NULL"]);
}

#[tokio::test]
async fn a_merged_column_is_the_left_one() {
    let a = "CREATE TABLE a AS SELECT * FROM (VALUES (1), (2)) AS v(k)";
    let b = "CREATE TABLE b AS SELECT * FROM (VALUES (2), (3)) AS v(k)";
    let sql = "SELECT count(k) FROM a FULL JOIN b USING (k)";
    assert_eq!(answer(&[a, b], sql).await.unwrap(), ["2"]);
}

#[tokio::test]
async fn a_subquery_is_no_value() {
    for sql in [
        "SELECT EXISTS (SELECT 1 FROM k q WHERE q.i = t.x) FROM t",
        "SELECT (SELECT count(*) FROM k q WHERE q.i > t.x) FROM t",
    ] {
        answer(&[T, K], sql).await.unwrap_err();
    }
}

#[tokio::test]
async fn integers_wrap_around() {
    let sql = "SELECT 9223372036854775807 + 1";
    assert_eq!(answer(&[], sql).await.unwrap(), ["-9223372036854775808"]);
    let sql = "SELECT sum(x) FROM (VALUES (9223372036854775807), (1)) AS v(x)";
    assert_eq!(answer(&[], sql).await.unwrap(), ["-9223372036854775808"]);
}

#[tokio::test]
async fn zeros_differ_in_long_lists_and_nans_everywhere() {
    let sql = "SELECT count(*) FROM (VALUES (-0.0)) AS v(x) WHERE x IN (0.0, 7.0, 8.0, 9.0)";
    assert_eq!(answer(&[], sql).await.unwrap(), ["0"]);
    let sql = "SELECT x - x = 'NaN'::double FROM (VALUES ('Infinity'::double)) AS v(x)";
    assert_eq!(answer(&[], sql).await.unwrap(), ["false"]);
}

#[tokio::test]
async fn nan_is_a_time() {
    let sql = "SELECT to_timestamp('NaN'::double)";
    assert_eq!(answer(&[], sql).await.unwrap(), ["1970-01-01T00:00:00"]);
}

#[tokio::test]
async fn a_constant_of_one_side_is_dropped_from_the_order_above_an_outer_join() {
    let sql = "SELECT array_agg(x) FROM (SELECT t.x FROM t LEFT JOIN (SELECT i, j FROM k WHERE j = 3) r ON r.i = t.x \
               ORDER BY r.j NULLS FIRST, t.x) q";
    let found = answer(&[T, K], sql).await.unwrap();
    assert_eq!(found, ["[1, 2, NULL]"]);
}
