//! The log of a running server: lines that a machine reads, one for each request.

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Server, serve, wait_for};

fn lines(server: &Server) -> Vec<Value> {
    let log = server.stderr();
    let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn every_request_is_a_line_of_json_with_route_status_time_and_bytes() {
    let data = TempDir::new().expect("a directory for the data");
    let flags = ["--log-format", "json", "--access-log", "info"];
    let server = Server::launch(serve(data.path(), &flags));
    let response = server.write("d", "m v=1i 1\n");
    assert_eq!(response.status, 204, "{}", response.text());
    let answer = server.query("d", "SELECT v, 'a \"quoted\" text' AS t FROM m");
    assert_eq!(answer.len(), 1);
    let refused = server.refused_query("d", "SELECT nothing FROM m");
    let request_id = refused.json()["request_id"].clone();
    let of = |route: &str, status: u64| {
        wait_for("a line of the log", || {
            lines(&server)
                .into_iter()
                .find(|line| line["route"] == route && line["status"] == status)
        })
    };
    let line = of("/api/v3/write_lp", 204);
    assert_eq!(
        (&line["method"], &line["message"], &line["level"]),
        (&"POST".into(), &"request".into(), &"INFO".into())
    );
    assert_eq!(line["bytes"], 0);
    assert!(line["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{line}");
    let line = of("/api/v3/query_sql", 200);
    // [{"v":1,"t":"a \"quoted\" text"}] and a line feed.
    assert_eq!(line["bytes"], 34, "{line}");
    let line = of("/api/v3/query_sql", 400);
    assert_eq!(line["request_id"], request_id);
    assert_eq!(line["message"], "request refused");
    // It said only that something was refused.
    let why = line["error"].as_str().unwrap_or_default();
    assert!(why.contains("nothing"), "{line}");
    let partial = server.write("d", "m v=1i 1\nm v=oops 2\n");
    assert_eq!(partial.status, 400);
    let line = of("/api/v3/write_lp", 400);
    let why = line["error"].as_str().unwrap_or_default();
    assert!(
        why.contains("partial write") && why.contains("line 2: "),
        "{line}"
    );
    for line in lines(&server) {
        let time = line["time"].as_str().unwrap_or_default();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
        assert!(
            line["target"].is_string() && line["message"].is_string(),
            "{line}"
        );
    }
    server.stop();
}

#[test]
fn without_a_wish_only_requests_that_went_wrong_are_lines() {
    let data = TempDir::new().expect("a directory for the data");
    let server = Server::start(data.path(), &[]);
    assert_eq!(server.write("d", "m v=1i 1\n").status, 204);
    server.refused_query("d", "SELECT nothing FROM m");
    let log = wait_for("the refusal", || {
        Some(server.stderr()).filter(|log| log.contains("request refused"))
    });
    assert!(!log.contains("write_lp"), "{log}");
    server.stop();
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_logged_with_the_name_and_without_the_password() {
    let data = TempDir::new().expect("a directory for the data");
    let flags = ["--auth", "--log-format", "json"];
    let server = Server::launch(serve(data.path(), &flags));
    let query = |user: &str, password: &str, statement: &str| {
        let mut parameters = vec![("q", statement)];
        if !user.is_empty() {
            parameters.extend([("u", user), ("p", password)]);
        }
        let response = server.post("/query", &parameters, None, &[]);
        response.expect("an answer").status
    };
    let create = "CREATE USER root WITH PASSWORD 'right one' WITH ALL PRIVILEGES";
    assert_eq!(query("", "", create), 200);
    assert_eq!(query("root", "right one", "SHOW DATABASES"), 200);
    for user in ["root", "nobody"] {
        assert_eq!(query(user, "wrong-one", "SHOW DATABASES"), 401);
        let line = wait_for("a line of the log", || {
            let mut all = lines(&server).into_iter();
            all.find(|line| line["user"] == user)
        });
        let message = line["message"].as_str().unwrap_or_default();
        assert_eq!(line["level"], "WARN", "{line}");
        assert!(message.contains("login failed"), "{line}");
    }
    let log = server.stderr();
    for password in ["right one", "right%20one", "right+one", "wrong-one"] {
        assert!(!log.contains(password), "{password} is in the log");
    }
    server.stop();
}
