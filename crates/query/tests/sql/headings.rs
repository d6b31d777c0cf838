//! What the columns of an answer are called. They were called `Int64(1)`, `count(*)` and
//! `IntervalMonthDayNano("IntervalMonthDayNano { months: 1, ... })`; two of one name were an error, or one key of JSON twice.
//! Expected names are `PostgreSQL`'s; the numbers at their ends are our own rule, see `docs/guide/sql.md`.

use crate::support::Store;

fn store() -> Store {
    let store = Store::new();
    store.write("t,h=a v=1,count=7 1\nt,h=b v=2,count=8 2\nu,h=a w=3 1");
    store
}

async fn names(store: &Store, sql: &str) -> String {
    let (names, _) = store
        .answer(sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    names.join(", ")
}

#[tokio::test]
async fn columns_without_as_have_the_names_that_postgresql_gives_them() {
    let store = store();
    for (sql, expected) in [
        ("SELECT 1", "?column?"),
        (
            "SELECT interval '1 month', true, 'a'",
            "interval, bool, ?column?",
        ),
        (
            "SELECT count(*), avg(v), max(v) + 1 FROM t",
            "count, avg, ?column?",
        ),
        ("SELECT h, sum(v) FROM t GROUP BY h", "h, sum"),
        ("SELECT v::bigint, '1'::bigint FROM t", "v, int8"),
        ("SELECT *, v * 2 FROM t", "time, h, v, count, ?column?"),
        (
            "SELECT v * 2, t.*, now() FROM t",
            "?column?, time, h, v, count, now",
        ),
        (
            "SELECT time_bucket('1 hour', time), count(*) FROM t GROUP BY 1",
            "time_bucket, count",
        ),
        (
            "SELECT approx_percentile(0.5, percentile_agg(v)) FROM t",
            "approx_percentile",
        ),
        ("SELECT max(v) FROM t UNION ALL SELECT 5", "max"),
        ("SELECT (SELECT max(w) FROM u), 1", "max, ?column?"),
        ("SELECT v AS \"Int64(1)\" FROM t", "Int64(1)"),
        ("VALUES (1, 2)", "column1, column2"),
        (
            "SELECT CASE WHEN v > 1 THEN 1 END, coalesce(v, 0) FROM t",
            "case, coalesce",
        ),
        ("WITH q AS (SELECT max(v) FROM t) SELECT * FROM q", "max"),
        (
            "SELECT q.max, q.\"?column?\" FROM (SELECT max(v), 1 + 1 FROM t) q",
            "max, ?column?",
        ),
        ("SELECT $1 + 1, $1, $1", "?column?, ?column?_1, ?column?_2"),
    ] {
        if sql.contains('$') {
            let mut params = nilometer_query::Params::new();
            params.push(1_i64);
            let answer = store.sql().query_with("d", sql, &params).await.unwrap();
            let schema = answer.schema();
            let found: Vec<&str> = schema
                .fields()
                .iter()
                .map(|it| it.name().as_str())
                .collect();
            assert_eq!(found.join(", "), expected, "{sql}");
        } else {
            assert_eq!(names(&store, sql).await, expected, "{sql}");
        }
    }
}

#[tokio::test]
async fn a_second_column_of_one_name_gets_a_number() {
    let store = store();
    for (sql, expected, row) in [
        (
            "SELECT 1, 1, 2",
            "?column?, ?column?_1, ?column?_2",
            "1|1|2",
        ),
        (
            "SELECT count(*), COUNT(*), count(v) FROM t",
            "count, count_1, count_2",
            "2|2|2",
        ),
        ("SELECT v, v FROM t WHERE v = 2", "v, v_1", "2.0|2.0"),
        (
            "SELECT v AS x, h AS x FROM t WHERE v = 2",
            "x, x_1",
            "2.0|b",
        ),
        (
            "SELECT a.v, b.v, a.v AS v_1 FROM t a JOIN t b ON a.time = b.time WHERE a.v = 2",
            "v, v_2, v_1",
            "2.0|2.0|2.0",
        ),
        (
            "SELECT * FROM t JOIN u ON t.time = u.time",
            "time, h, v, count, time_1, h_1, w",
            "1970-01-01T00:00:00.000000001Z|a|1.0|7.0|1970-01-01T00:00:00.000000001Z|a|3.0",
        ),
        (
            "SELECT max(q.max), max(q.max_1) FROM (SELECT max(v), max(count) FROM t) q",
            "max, max_1",
            "2.0|8.0",
        ),
    ] {
        assert_eq!(names(&store, sql).await, expected, "{sql}");
        assert_eq!(store.rows(sql).await, [row], "{sql}");
    }
}

#[tokio::test]
async fn order_and_groups_may_use_the_names_that_are_answered() {
    let store = store();
    store.write("t,h=b v=3,count=9 3");
    for (sql, rows) in [
        (
            "SELECT h, count(*) FROM t GROUP BY h ORDER BY count DESC",
            vec!["b|2", "a|1"],
        ),
        (
            "SELECT h, max(v) FROM t GROUP BY h ORDER BY max",
            vec!["a|1.0", "b|3.0"],
        ),
        (
            "SELECT upper(h), count(*) FROM t GROUP BY upper ORDER BY upper",
            vec!["A|1", "B|2"],
        ),
        // The table's own column is what GROUP BY and HAVING mean.
        (
            "SELECT h, max(v) FROM t GROUP BY h HAVING max(count) > 7 ORDER BY h",
            vec!["b|3.0"],
        ),
        (
            "SELECT max(v), count FROM t GROUP BY count ORDER BY count DESC",
            vec!["3.0|9.0", "2.0|8.0", "1.0|7.0"],
        ),
    ] {
        assert_eq!(store.rows(sql).await, rows, "{sql}");
    }
}

#[tokio::test]
async fn a_view_has_the_names_that_its_query_answers() {
    let store = store();
    store
        .rows("CREATE VIEW s AS SELECT h, count(*), max(v), max(count), 1 + 1 FROM t GROUP BY h")
        .await;
    assert_eq!(
        names(&store, "SELECT * FROM s").await,
        "h, count, max, max_1, ?column?"
    );
    assert_eq!(
        store.rows("SELECT max_1, count FROM s WHERE h = 'b'").await,
        ["8.0|1"]
    );
}

#[tokio::test]
async fn names_are_the_same_from_a_template() {
    let store = store();
    for (host, rows) in [("a", "1|1.0"), ("b", "1|2.0"), ("c", "0|-")] {
        let sql = format!("SELECT count(*), max(v) FROM t WHERE h = '{host}'");
        for _ in 0..2 {
            let answer = store.sql().query("d", &sql).await.unwrap();
            let schema = answer.schema();
            let found: Vec<&str> = schema
                .fields()
                .iter()
                .map(|it| it.name().as_str())
                .collect();
            assert_eq!(found, ["count", "max"]);
            let batches = answer.collect().await.unwrap();
            assert_eq!(batches[0].schema(), schema);
            assert_eq!(crate::support::rows(&batches), [rows]);
        }
    }
    assert_eq!(store.sql().templates(), 1);
}

/// `from weather` was answered with rows of no columns.
#[tokio::test]
async fn from_without_select_is_a_query_of_all_columns() {
    let store = store();
    for sql in ["FROM t", "from t"] {
        assert_eq!(names(&store, sql).await, "time, h, v, count", "{sql}");
    }
    assert_eq!(names(&store, "FROM t SELECT v").await, "v");
    assert_eq!(store.rows("FROM t ORDER BY v DESC LIMIT 1").await.len(), 1);
}
