//! Placeholders: values travel beside the statement and never become part of its text.

use serde_json::{Value, json};

use crate::support::{Answer, Server};

async fn server() -> Server {
    let server = Server::new();
    let lines = "m,host=a f=1.5,i=1i,s=\"x' OR 1=1\" 1000000000\nm,host=b f=2.5,i=2i 2000000000\nm,host=c f=3.5,i=3i 3000000000";
    assert_eq!(server.write(lines).await.status, 204);
    server
}

async fn ask(server: &Server, sql: &str, params: &Value) -> Answer {
    let body = json!({"db": "d", "q": sql, "params": params, "format": "json"}).to_string();
    server.post("/api/v3/query_sql", &[], body).await
}

#[tokio::test]
async fn values_go_where_their_names_or_numbers_are() {
    let server = server().await;
    let hosts = |answer: Answer| -> Vec<String> {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let rows = answer.json();
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| row["host"].as_str().unwrap().to_owned())
            .collect()
    };
    for (condition, params, expected) in [
        ("host = $host", json!({"host": "b"}), vec!["b"]),
        (
            "host IN ($a, $b)",
            json!({"a": "a", "b": "c"}),
            vec!["a", "c"],
        ),
        ("i > $1", json!([1]), vec!["b", "c"]),
        ("i > $1 AND i < $2", json!([1, 3]), vec!["b"]),
        ("i > $1 AND i < $2", json!({"1": 1, "2": 3}), vec!["b"]),
        ("f >= $f", json!({"f": 2.5}), vec!["b", "c"]),
        (
            "time >= $from",
            json!({"from": "1970-01-01T00:00:02Z"}),
            vec!["b", "c"],
        ),
        (
            "time < $to",
            json!({"to": "1970-01-01 00:00:02"}),
            vec!["a"],
        ),
        ("s = $s", json!({"s": "x' OR 1=1"}), vec!["a"]),
        ("host = $host", json!({"host": "' OR 1=1 --"}), vec![]),
        ("host = $host", json!({"host": null}), vec![]),
        ("$yes", json!({"yes": true}), vec!["a", "b", "c"]),
        ("i < $max", json!({"max": u64::MAX}), vec!["a", "b", "c"]),
        ("host = $h OR host = $h", json!({"h": "a"}), vec!["a"]),
        (
            "i = (SELECT max(i) FROM m WHERE i < $1)",
            json!([3]),
            vec!["b"],
        ),
    ] {
        let sql = format!("SELECT host FROM m WHERE {condition} ORDER BY host");
        assert_eq!(
            hosts(ask(&server, &sql, &params).await),
            expected,
            "{condition}"
        );
    }
    let limited = ask(
        &server,
        "SELECT host FROM m ORDER BY host LIMIT $1",
        &json!([2]),
    )
    .await;
    assert_eq!(hosts(limited), ["a", "b"]);
    let selected = ask(&server, "SELECT $1 AS host", &json!(["z"])).await;
    assert_eq!(hosts(selected), ["z"]);
}

#[tokio::test]
async fn values_may_come_in_the_address_and_in_a_form() {
    let server = server().await;
    let pairs = form_urlencoded::Serializer::new(String::new())
        .append_pair("db", "d")
        .append_pair("q", "SELECT i FROM m WHERE host = $h")
        .append_pair("format", "jsonl")
        .append_pair("params", "{\"h\":\"c\"}")
        .finish();
    let path = "/api/v3/query_sql";
    let answer = server.get(&format!("{path}?{pairs}")).await;
    assert_eq!(answer.text(), "{\"i\":3}\n");
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(
        server.post(path, &headers, pairs).await.text(),
        "{\"i\":3}\n"
    );
}

#[tokio::test]
async fn a_value_that_is_missing_is_named_with_its_place() {
    let server = server().await;
    for (sql, params, name, place) in [
        (
            "SELECT i FROM m\nWHERE host = $host",
            json!({"hots": "a"}),
            "$host",
            (2, 14),
        ),
        ("SELECT i FROM m WHERE i > $2", json!([1]), "$2", (1, 27)),
        (
            "SELECT i FROM m WHERE host = $host",
            json!({}),
            "$host",
            (1, 30),
        ),
        (
            "SELECT i FROM m WHERE host = $host",
            json!(null),
            "$host",
            (1, 30),
        ),
    ] {
        let answer = ask(&server, sql, &params).await;
        assert_eq!(answer.status, 400, "{sql}");
        assert!(answer.error().contains(name), "{}", answer.error());
        let body = answer.json();
        assert_eq!(
            (&body["line"], &body["column"]),
            (&place.0.into(), &place.1.into()),
            "{body}"
        );
    }
    let answer = ask(
        &server,
        "SELECT i FROM m WHERE host = $host",
        &json!({"hots": "a"}),
    )
    .await;
    assert!(
        answer.error().contains("did you mean"),
        "{}",
        answer.error()
    );
}

#[tokio::test]
async fn values_that_no_statement_takes_are_refused() {
    let server = server().await;
    for (sql, params, error) in [
        (
            "SELECT i FROM m WHERE host = $host",
            json!({"host": ["a"]}),
            "params must be a JSON object such as {\"host\": \"a\"} for $host, or an array for $1, $2, ...: $host is no text, number, true, false or null",
        ),
        (
            "SELECT 1",
            json!("x"),
            "params must be a JSON object such as {\"host\": \"a\"} for $host, or an array for $1, $2, ...: it is neither",
        ),
    ] {
        let answer = ask(&server, sql, &params).await;
        assert_eq!(
            (answer.status, answer.error()),
            (400, error.to_owned()),
            "{sql} {params}"
        );
    }
}
