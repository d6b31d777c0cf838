//! Requests that only look as if somebody had wanted them: methods that must change nothing, and pages of other servers.

use axum::body::Body;
use axum::http::Request;

use crate::support::{Answer, Server, ServerConfig, routes};

const PAGE: &str = "https://evil.example.org";

async fn send(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = Body::from(body.to_owned());
    server.send(request.body(body).unwrap()).await
}

fn question(sql: &str) -> String {
    let form = form_urlencoded::Serializer::new(String::new())
        .append_pair("db", "d")
        .append_pair("q", sql)
        .append_pair("format", "csv")
        .finish();
    format!("/api/v3/query_sql?{form}")
}

/// `curl -I '.../api/v3/query_sql?db=h&q=drop%20database%20h'` was answered 200, and the database was gone: HEAD was taken
/// for a method that may write.
#[tokio::test]
async fn no_method_but_post_changes_anything() {
    let server = Server::new();
    assert_eq!(server.write("m,host=a v=1 1").await.status, 204);
    let everything = || async {
        let rows = server.query("SELECT host, v, time FROM m", "csv").await;
        (rows, server.engine.snapshot().databases())
    };
    let before = everything().await;
    for sql in [
        "DROP DATABASE d",
        "CREATE DATABASE e",
        "DROP TABLE m",
        "CREATE TABLE n (time TIMESTAMPTZ, v DOUBLE)",
        "ALTER TABLE m ADD COLUMN w BIGINT",
        "INSERT INTO m (time, host, v) VALUES (now(), 'b', 2)",
        "UPDATE m SET v = 3",
        "DELETE FROM m",
        "KILL QUERY 1",
    ] {
        for method in ["GET", "HEAD"] {
            let answer = send(&server, method, &question(sql), &[], "").await;
            assert_eq!(answer.status, 403, "{method} {sql}");
        }
        assert_eq!(everything().await, before, "{sql}");
    }
    for method in ["GET", "HEAD"] {
        let answer = send(&server, method, &question("SELECT v FROM m"), &[], "").await;
        assert_eq!(answer.status, 200, "{method}");
    }
    // Whatever else there is takes no other method either.
    for route in routes() {
        for method in ["HEAD", "GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            let path = format!("{}?db=d&bucket=d&table=m", route.path);
            send(&server, method, &path, &[], "m,host=a v=2 1").await;
        }
    }
    assert_eq!(everything().await, before);
}

/// Without a token a page of any server could post a form that drops tables: a browser sends it without asking, and only
/// hides the answer.
#[tokio::test]
async fn a_page_of_another_server_reaches_no_route() {
    let server = Server::new();
    assert_eq!(server.write("m,host=a v=1 1").await.status, 204);
    let host = ("host", "localhost:8086");
    for route in routes() {
        let path = format!("{}?db=d&bucket=d&table=m", route.path);
        for headers in [
            [host, ("origin", PAGE)],
            [host, ("origin", "null")],
            [host, ("origin", "http://localhost:3000")],
            [host, ("sec-fetch-site", "cross-site")],
        ] {
            let answer = send(&server, route.method, &path, &headers, "m v=2 2").await;
            assert_eq!(answer.status, 403, "{route:?} {headers:?}");
            let said = answer.error();
            assert!(said.contains("http-cors-origins"), "{said}");
        }
    }
    let form = ("content-type", "application/x-www-form-urlencoded");
    let headers = [host, form, ("origin", PAGE)];
    let path = "/api/v3/query_sql";
    let answer = send(&server, "POST", path, &headers, "db=d&q=drop+table+m").await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert_eq!(
        server.query("SELECT count(*) AS n FROM m", "csv").await,
        "n\n1\n"
    );
    // A page of this server itself, and programs, which send no origin.
    for headers in [
        vec![host, form, ("origin", "http://localhost:8086")],
        vec![host, form, ("sec-fetch-site", "same-origin")],
        vec![form],
    ] {
        let answer = send(&server, "POST", path, &headers, "db=d&q=select+1").await;
        assert_eq!(answer.status, 200, "{headers:?}: {}", answer.text());
    }
}

/// An attacker put an `Origin` of the server itself before his own: only the first was looked at.
#[tokio::test]
async fn of_several_origins_each_must_be_permitted() {
    const LISTED: &str = "https://grafana.example.org";
    let server = Server::with(ServerConfig {
        cors_origins: LISTED.parse().unwrap(),
        ..ServerConfig::default()
    });
    let own = "http://localhost:8086";
    for (origins, status) in [
        ([own, PAGE], 403),
        ([PAGE, own], 403),
        ([LISTED, PAGE], 403),
        ([PAGE, LISTED], 403),
        ([LISTED, own], 200),
        ([own, own], 200),
    ] {
        let origin = origins.map(|origin| ("origin", origin));
        let headers = [("host", "localhost:8086"), origin[0], origin[1]];
        let path = "/api/v3/query_sql?q=SHOW+DATABASES";
        let answer = send(&server, "POST", path, &headers, "").await;
        assert_eq!(answer.status, status, "{origins:?}: {}", answer.text());
        if status == 403 {
            let said = answer.error();
            assert!(
                said.contains(PAGE) && said.contains("http-cors-origins"),
                "{said}"
            );
        }
    }
}

#[tokio::test]
async fn a_page_that_is_listed_reaches_every_route() {
    for origins in [PAGE, "*"] {
        let server = Server::with(ServerConfig {
            cors_origins: origins.parse().unwrap(),
            ..ServerConfig::default()
        });
        for route in routes() {
            let headers = [("host", "localhost:8086"), ("origin", PAGE)];
            let answer = send(&server, route.method, route.path, &headers, "").await;
            // This one refuses everybody, and not because of the page.
            let is_reached = answer.status != 403 || answer.error().contains("Flux");
            assert!(is_reached, "{route:?}");
        }
    }
}

/// A body that was said to be compressed on its way, with `Transfer-Encoding: gzip, chunked`, was stored as it came.
#[tokio::test]
async fn a_transfer_that_is_not_undone_is_refused() {
    let server = Server::new();
    let path = "/api/v3/write_lp?db=d&precision=ns";
    for coding in ["gzip, chunked", "gzip", "identity", "chunked, chunked", ""] {
        let headers = [("transfer-encoding", coding)];
        let answer = send(&server, "POST", path, &headers, "m v=1 1").await;
        assert_eq!(answer.status, 501, "{coding}: {}", answer.text());
        assert!(answer.error().contains("Content-Encoding"));
    }
    assert_eq!(server.engine.snapshot().databases(), Vec::<String>::new());
    for coding in ["chunked", "Chunked"] {
        let headers = [("transfer-encoding", coding)];
        let answer = send(&server, "POST", path, &headers, "m v=1 1").await;
        assert_eq!(answer.status, 204, "{coding}: {}", answer.text());
    }
}

/// `--body-bytes-max 1` refused questions in the name of `sql-bytes-max`, which says nothing about it.
#[tokio::test]
async fn a_question_that_is_too_large_names_the_setting_that_is_in_its_way() {
    let posted = r#"{"db": "d", "q": "SELECT 1"}"#;
    let kind = ("content-type", "application/json");
    for (body_bytes_max, sql_bytes_max, named) in [
        (1, 1 << 20, "body-bytes-max"),
        (20, 2, "body-bytes-max"),
        (1 << 20, 2, "sql-bytes-max"),
    ] {
        let mut config = ServerConfig {
            body_bytes_max,
            ..ServerConfig::default()
        };
        config.sql.sql_bytes_max = sql_bytes_max;
        let server = Server::with(config);
        let answer = server.post("/api/v3/query_sql", &[kind], posted).await;
        assert_eq!(answer.status, 413);
        let said = answer.error();
        assert!(said.ends_with(&format!("(setting {named})")), "{said}");
    }
}

/// A new user of a fresh server was asked for a database when he wanted to make one.
#[tokio::test]
async fn statements_that_need_no_database_ask_for_none() {
    let server = Server::new();
    let kind = ("content-type", "application/json");
    let ask = async |sql: &str| {
        let posted = serde_json::json!({ "q": sql, "format": "csv" }).to_string();
        server.post("/api/v3/query_sql", &[kind], posted).await
    };
    for (sql, want) in [
        ("CREATE DATABASE d", "rows\n0\n"),
        ("CREATE DATABASE e", "rows\n0\n"),
        ("ALTER DATABASE e RENAME TO f", "rows\n0\n"),
        ("DROP DATABASE f", "rows\n0\n"),
    ] {
        let answer = ask(sql).await;
        assert_eq!((answer.status, answer.text()), (200, want), "{sql}");
    }
    let shown = ask("SHOW DATABASES").await;
    assert_eq!(shown.status, 200);
    assert!(shown.text().contains("\nd"), "{}", shown.text());
    for sql in ["SELECT 1", "SELECT * FROM m", "SHOW TABLES", "DROP TABLE m"] {
        let answer = ask(sql).await;
        assert_eq!(answer.status, 400, "{sql}");
        let said = answer.error();
        assert!(said.starts_with("missing query parameter 'db'"), "{said}");
    }
}

/// The guide's example with curl failed as printed: what `curl -d` sends is called a form, whatever it is.
#[tokio::test]
async fn an_object_is_read_as_one_whatever_its_type_is_called() {
    let server = Server::new();
    assert_eq!(server.write("m,host=a v=1.5 1").await.status, 204);
    let posted =
        r#" {"db": "d", "q": "select v from m where host = $host", "params": {"host": "a"}}"#;
    for kind in [
        "application/json",
        "application/x-www-form-urlencoded",
        "text/plain",
    ] {
        let headers = [("content-type", kind)];
        let answer = server.post("/api/v3/query_sql", &headers, posted).await;
        assert_eq!((answer.status, answer.text()), (200, "[{\"v\":1.5}]\n"));
    }
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let body = "db=d&q=select+v+from+m&format=csv";
    let answer = server.post("/api/v3/query_sql", &form, body).await;
    assert_eq!(answer.text(), "v\n1.5\n");
}
