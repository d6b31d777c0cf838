//! `sum` and `avg` of integers as clients of `PostgreSQL` get them. Expected values are its answers (version 15), but for the zeros
//! behind a mean, of which there are always sixteen digits here.

use std::sync::Arc;

use nilometer_query::{Sql, SqlOptions};
use nilometer_service::Client;

use crate::support::{Store, rows};

async fn answered(sql: &Sql, text: &str) -> Vec<String> {
    let answer = sql.query("d", text).await;
    let answer = answer.unwrap_or_else(|error| panic!("{text}: {error}"));
    rows(&answer.collect().await.unwrap())
}

/// The story: TSBS's daily activity is `sum(n) / 144` of counts; it was 0, because the sum of integers was an integer.
#[tokio::test]
async fn sums_and_means_of_integers_are_numeric_for_clients_that_keep_a_connection() {
    let store = Store::new();
    let sql = store.sql().of_client(&Arc::new(Client::default()));
    for text in [
        "CREATE TABLE a (id bigint PRIMARY KEY, n bigint, i integer, s smallint)",
        "INSERT INTO a VALUES (1, 9223372036854775807, 2, 1), (2, 9223372036854775807, 5, 2), (3, -4, NULL, 4), (4, NULL, 1, 4)",
    ] {
        sql.query("d", text).await.unwrap();
    }
    for (text, expected) in [
        (
            "SELECT sum(n), sum(i), sum(s), avg(i), avg(s) FROM a",
            vec!["18446744073709551610|8|11|2.6666666666666667|2.7500000000000000"],
        ),
        (
            "SELECT pg_typeof(sum(n)), pg_typeof(sum(i)), pg_typeof(avg(n)), pg_typeof(avg(s)) FROM a",
            vec!["numeric|bigint|numeric|numeric"],
        ),
        (
            "SELECT sum(i) / 3, sum(id) / 4, sum(id) / 3, -sum(id) / 3, sum(id) % 4 FROM a",
            vec!["2|2.5000000000000000|3.3333333333333333|-3.3333333333333333|2"],
        ),
        (
            "SELECT s, sum(id), avg(id) FROM a GROUP BY s ORDER BY s",
            vec![
                "1|1|1.0000000000000000",
                "2|2|2.0000000000000000",
                "4|7|3.5000000000000000",
            ],
        ),
        (
            "SELECT id, sum(id) OVER (ORDER BY id), avg(id) OVER (ORDER BY id ROWS 1 PRECEDING) FROM a ORDER BY id",
            vec![
                "1|1|1.0000000000000000",
                "2|3|1.5000000000000000",
                "3|6|2.5000000000000000",
                "4|10|3.5000000000000000",
            ],
        ),
        (
            "SELECT sum(DISTINCT s), avg(DISTINCT s), count(*) FROM a",
            vec!["7|2.3333333333333333|4"],
        ),
        ("SELECT sum(n), avg(i) FROM a WHERE false", vec!["-|-"]),
        (
            "SELECT sum(id) > 5, sum(id) = 10, sum(id) + 1, sum(id) * 2 FROM a HAVING sum(id) > 9",
            vec!["true|true|11|20"],
        ),
        (
            "SELECT sum(id) FILTER (WHERE s = 4), avg(id) FILTER (WHERE s > 9), coalesce(sum(n) FILTER (WHERE id > 9), 0) FROM a",
            vec!["7|-|0"],
        ),
        (
            "SELECT sum(id)::bigint / 4, avg(id)::double precision, round(avg(i), 2) FROM a",
            vec!["2|2.5|2.67"],
        ),
    ] {
        assert_eq!(answered(&sql, text).await, expected, "{text}");
    }
    let error = sql.query("d", "SELECT sum(n) / 0 FROM a").await;
    let error = match error {
        Err(error) => error.to_string(),
        Ok(answer) => answer.collect().await.unwrap_err().to_string(),
    };
    assert!(
        error.to_lowercase().contains("divide by zero") || error.contains("division by zero"),
        "{error}"
    );
    // Over HTTP nobody keeps one.
    assert_eq!(
        store.rows("SELECT sum(id) / 4, avg(id) FROM a").await,
        ["2|2.5"]
    );
}

/// Values by hand; those of the series operators are those of the rows.
#[tokio::test]
async fn series_answer_the_same_numeric_sums_and_means_as_rows() {
    let store = Store::new();
    store.write_seconds(
        "m,h=a n=9223372036854775807i,u=3u,f=1.5 0\nm,h=a n=9223372036854775807i,u=4u,f=2.5 60\nm,h=b n=-7i,u=1u 3600\nm,h=b n=2i 3660",
    );
    store.engine.flush().unwrap();
    let slow = Sql::without_series(Arc::clone(&store.engine), SqlOptions::default()).unwrap();
    let client = Arc::new(Client::default());
    let (fast, slow) = (store.sql().of_client(&client), slow.of_client(&client));
    for (text, expected) in [
        (
            "SELECT h, sum(n), avg(n), sum(u), avg(u), sum(f), avg(f) FROM m GROUP BY h ORDER BY h",
            vec![
                "a|18446744073709551614|9223372036854775807.0000000000000000|7|3.5000000000000000|4.0|2.0",
                "b|-5|-2.5000000000000000|1|1.0000000000000000|-|-",
            ],
        ),
        (
            "SELECT time_bucket('1 hour', time) AS t, avg(n) FROM m GROUP BY t ORDER BY t",
            vec![
                "1970-01-01T00:00:00Z|9223372036854775807.0000000000000000",
                "1970-01-01T01:00:00Z|-2.5000000000000000",
            ],
        ),
        (
            "SELECT sum(n), count(*) FROM m",
            vec!["18446744073709551609|4"],
        ),
        (
            "SELECT sum(c) / 144 FROM (SELECT time_bucket('1 minute', time) AS t, count(*) AS c FROM m GROUP BY t) AS of_minutes",
            vec!["0.0277777777777778"],
        ),
        (
            "SELECT max(s), min(a) FROM (SELECT h, sum(n) AS s, avg(n) AS a FROM m GROUP BY h) AS of_hosts",
            vec!["18446744073709551614|-2.5000000000000000"],
        ),
        (
            "SELECT avg(n) FROM m WHERE h = 'b' AND time < '1970-01-01 01:00:30'",
            vec!["-7.0000000000000000"],
        ),
        (
            "SELECT avg(n) FROM m WHERE h = 'b' AND time < '1970-01-01 01:01:30'",
            vec!["-2.5000000000000000"],
        ),
    ] {
        // Twice: the second time from the template of the first, if it has one.
        for sql in [&fast, &fast, &slow] {
            assert_eq!(answered(sql, text).await, expected, "{text}");
        }
    }
    // The same statements without a connection, whose templates are others.
    assert_eq!(
        store
            .rows("SELECT avg(n) FROM m WHERE h = 'b' AND time < '1970-01-01 01:01:30'")
            .await,
        ["-2.5"]
    );
}

/// A continuous aggregate stores what its query answers, for every surface.
#[tokio::test]
async fn stored_answers_stay_integers_and_floats() {
    let store = Store::new();
    store.write_seconds("m n=1i 0\nm n=4i 60");
    let sql = store.sql().of_client(&Arc::new(Client::default()));
    let make = "CREATE MATERIALIZED VIEW c WITH (timescaledb.continuous) AS SELECT time_bucket('1 hour', time) AS hour, sum(n) AS total, avg(n) AS mean FROM m GROUP BY hour";
    sql.query("d", make).await.unwrap();
    store.write_seconds("m n=6i 3600");
    assert_eq!(
        answered(
            &sql,
            "SELECT total, mean, pg_typeof(total), pg_typeof(mean) FROM c ORDER BY hour"
        )
        .await,
        [
            "5|2.5|bigint|double precision",
            "6|6.0|bigint|double precision"
        ]
    );
    assert_eq!(
        answered(&sql, "SELECT sum(total) / 2 FROM c").await,
        ["5.5000000000000000"]
    );
}

/// The story: `avg` of a `numeric(12,3)` had four digits more than its values, and the rest was cut off: 0.6666666 for two thirds.
#[tokio::test]
async fn means_of_numerics_have_sixteen_digits_and_are_rounded() {
    let store = Store::new();
    let sql = store.sql().of_client(&Arc::new(Client::default()));
    for text in [
        "CREATE TABLE m (id bigint PRIMARY KEY, g text, n numeric(12,3), w numeric(38,0))",
        "INSERT INTO m VALUES (1, 'a', 1, 99999999999999999999999999999999999999), (2, 'a', 1, 99999999999999999999999999999999999999), \
         (3, 'b', 0, 1), (4, 'b', -0.001, NULL), (5, 'c', NULL, NULL)",
    ] {
        sql.query("d", text).await.unwrap();
    }
    for (text, expected) in [
        (
            "SELECT avg(n) FROM m WHERE id < 4",
            vec!["0.6666666666666667"],
        ),
        (
            "SELECT avg(-n) FROM m WHERE id < 4",
            vec!["-0.6666666666666667"],
        ),
        (
            "SELECT g, avg(n), avg(DISTINCT n) FROM m GROUP BY g ORDER BY g",
            vec![
                "a|1.0000000000000000|1.0000000000000000",
                "b|-0.0005000000000000|-0.0005000000000000",
                "c|-|-",
            ],
        ),
        (
            "SELECT id, avg(n) OVER (ORDER BY id ROWS 2 PRECEDING) FROM m WHERE id < 4 ORDER BY id",
            vec![
                "1|1.0000000000000000",
                "2|1.0000000000000000",
                "3|0.6666666666666667",
            ],
        ),
        (
            "SELECT avg(n::numeric(20,0)), pg_typeof(avg(n)) FROM m WHERE id < 4",
            vec!["0.6666666666666667|numeric"],
        ),
    ] {
        assert_eq!(answered(&sql, text).await, expected, "{text}");
    }
    // The sum is beyond 128 bits: an error, and no other number.
    let text = "SELECT avg(w) FROM m";
    let answer = sql.query("d", text).await;
    let answer = match answer {
        Ok(answer) => answer.collect().await.map(|batches| rows(&batches)),
        Err(error) => Err(error),
    };
    answer.unwrap_err();
}
