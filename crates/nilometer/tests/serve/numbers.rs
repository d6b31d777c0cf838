//! Numbers of `SERIAL` columns and what was kept of tables, across kills of the server.

use tempfile::TempDir;

use crate::support::{Row, Server, rows};

/// Every number is given once, however often the server is killed in between, and what makes a table a hypertable is still there.
#[test]
fn a_number_is_given_once_however_often_the_server_is_killed() {
    let directory = TempDir::new().expect("a directory for the data");
    let server = Server::start(directory.path(), &[]);
    for statement in [
        "CREATE DATABASE d",
        "CREATE TABLE tags (id SERIAL PRIMARY KEY, name TEXT)",
        "CREATE INDEX by_name ON tags USING gin (name)",
        "CREATE TABLE cpu (time TIMESTAMPTZ, tags_id INTEGER, v DOUBLE PRECISION)",
        "CREATE INDEX ON cpu (tags_id, time DESC)",
        "SELECT create_hypertable('cpu', 'time')",
    ] {
        let database = if statement.starts_with("CREATE DATABASE") {
            "x"
        } else {
            "d"
        };
        changed(&server, database, statement);
    }
    server.kill();
    let mut given = Vec::new();
    for round in 0..5 {
        let server = Server::start(directory.path(), &[]);
        for row in 0..3 {
            let statement =
                format!("INSERT INTO tags (name) VALUES ('{round}, {row}') RETURNING id");
            let answer = changed(&server, "d", &statement);
            given.push(answer[0]["id"].as_i64().expect("the id is a number"));
        }
        let kept = server.query("d", "SELECT id FROM tags ORDER BY id");
        let kept: Vec<i64> = kept.iter().filter_map(|row| row["id"].as_i64()).collect();
        assert_eq!(kept, given, "numbers rise, and each row has its own");
        let shown = "SELECT hypertable_name FROM timescaledb_information.hypertables";
        assert_eq!(server.query("d", shown)[0]["hypertable_name"], "cpu");
        let tag = "SELECT kind FROM system.columns WHERE column_name = 'tags_id'";
        assert_eq!(server.query("d", tag)[0]["kind"], "tag");
        let index = "SELECT count(*) AS n FROM pg_indexes WHERE indexname = 'by_name'";
        assert_eq!(server.query("d", index)[0]["n"], 1);
        server.kill();
    }
    assert_eq!(given.len(), 15);
    assert!(given.is_sorted_by(|one, next| one < next), "{given:?}");
}

/// Carries a statement out.
fn changed(server: &Server, database: &str, statement: &str) -> Vec<Row> {
    let parameters = [("db", database), ("q", statement), ("format", "json")];
    let response = server.post("/api/v3/query_sql", &parameters, None, b"");
    rows(statement, &response.expect("the server lives"))
}
