//! Values beside a statement: they are values, whatever is in them.

use nilometer_query::{Error, Param, Params, Position};

use crate::support::Store;

fn store() -> Store {
    let store = Store::new();
    store.write("cpu,host=a usage=1.5,n=1i 1000000000\ncpu,host=b usage=2.5,n=2i 2000000000");
    store
}

#[tokio::test]
async fn named_and_numbered_values_stand_where_their_placeholders_do() {
    let store = store();
    let mut params = Params::new();
    params
        .set("host", "a")
        .set("$low", 1.0)
        .set("time", "1970-01-01T00:00:02Z")
        .set("n", 1_i64);
    params.push("b").push(1_i64);
    for (sql, rows) in [
        ("SELECT usage FROM cpu WHERE host = $host", vec!["1.5"]),
        ("SELECT usage FROM cpu WHERE host = $1", vec!["2.5"]),
        ("SELECT host FROM cpu WHERE time < $time", vec!["a"]),
        (
            "SELECT host FROM cpu WHERE usage > $low ORDER BY host LIMIT $2",
            vec!["a"],
        ),
        (
            "SELECT host FROM cpu WHERE host IN ($1, $host) AND usage > -$low AND n = $n",
            vec!["a"],
        ),
        ("SELECT $low + 1", vec!["2.0"]),
    ] {
        assert_eq!(store.rows_with(sql, &params).await, rows, "{sql}");
    }
    let plan = store
        .rows_with("EXPLAIN SELECT * FROM cpu WHERE host = $host", &params)
        .await;
    assert!(plan.join("\n").contains("host IN ('a')"), "{plan:?}");
}

#[tokio::test]
async fn every_kind_of_value_arrives_as_it_is() {
    let store = store();
    for (value, kind, shown) in [
        (Param::Null, "Null", "-"),
        (Param::Bool(true), "Boolean", "true"),
        (Param::I64(i64::MIN), "Int64", "-9223372036854775808"),
        (Param::U64(u64::MAX), "UInt64", "18446744073709551615"),
        (Param::F64(-0.1), "Float64", "-0.1"),
        (Param::F64(3.0), "Float64", "3.0"),
        (Param::F64(f64::INFINITY), "Float64", "inf"),
        (
            Param::Text("x'; DROP TABLE cpu; --$1".to_owned()),
            "Utf8",
            "x'; DROP TABLE cpu; --$1",
        ),
        (
            Param::Time(-1),
            "Timestamp(ns, \"UTC\")",
            "1969-12-31T23:59:59.999999999Z",
        ),
        (Param::Bytes(vec![0, 255]), "Binary", "00ff"),
    ] {
        let mut params = Params::new();
        params.push(value);
        let rows = store
            .rows_with("SELECT arrow_typeof($1), $1", &params)
            .await;
        assert_eq!(rows, [format!("{kind}|{shown}")]);
    }
    assert_eq!(store.rows("SELECT count(*) FROM cpu").await, ["2"]);
}

#[tokio::test]
async fn a_value_that_is_missing_is_named_with_its_place() {
    let store = store();
    let mut params = Params::new();
    params.set("host", "a").push(1_i64);
    for (sql, words, column) in [
        ("SELECT $hots", "did you mean \"$host\"?", 8),
        (
            "SELECT $1, $2",
            "parameter $2: 1 values were given by number",
            12,
        ),
        ("SELECT ?", "write $name", 8),
    ] {
        let error = store.error_with(sql, &params).await;
        assert!(matches!(error, Error::Parameter { .. }), "{sql}: {error:?}");
        assert!(error.to_string().contains(words), "{sql}: {error}");
        assert_eq!(
            error.position(),
            Some(Position { line: 1, column }),
            "{sql}"
        );
    }
}

#[tokio::test]
async fn values_can_be_written() {
    let store = store();
    let mut params = Params::new();
    params.push("2026-01-01T00:00:00Z").push("c").push(7.5);
    let insert = "INSERT INTO cpu (time, host, usage) VALUES ($1, $2, $3)";
    assert_eq!(store.rows_with(insert, &params).await, ["1"]);
    assert_eq!(
        store
            .rows_with("SELECT usage FROM cpu WHERE host = $2", &params)
            .await,
        ["7.5"]
    );
    let update = "UPDATE cpu SET usage = $3 + 1 WHERE host = $2";
    assert_eq!(store.rows_with(update, &params).await, ["1"]);
    assert_eq!(
        store.rows("SELECT usage FROM cpu WHERE host = 'c'").await,
        ["8.5"]
    );
    let delete = "DELETE FROM cpu WHERE host = $2";
    assert_eq!(store.rows_with(delete, &params).await, ["1"]);
    assert_eq!(store.rows("SELECT count(*) FROM cpu").await, ["2"]);
}
