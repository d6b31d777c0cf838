//! Roles in SQL over HTTP: who makes them, who gets in afterwards, and what each may do.

use crate::support::{Answer, Server, ServerConfig};
use axum::body::Body;
use axum::http::Request;

/// A store that asks everybody, and has no administrator yet.
fn new() -> Server {
    Server::with(ServerConfig {
        auth: true,
        ..ServerConfig::default()
    })
}

async fn sql(server: &Server, who: Option<(&str, &str)>, text: &str) -> Answer {
    let mut request = Request::post("/api/v3/query_sql");
    if let Some((user, password)) = who {
        request = request.header("authorization", format!("Token {user}:{password}"));
    }
    let body = serde_json::json!({ "db": "d", "q": text }).to_string();
    server.send(request.body(Body::from(body)).unwrap()).await
}

const ROOT: Option<(&str, &str)> = Some(("root", "root's"));
const ANNA: Option<(&str, &str)> = Some(("anna", "pencil"));

/// With an administrator, a table of each kind, and a role that sent the verifier of RFC 7677's example.
async fn peopled() -> Server {
    let server = new();
    for statement in [
        "CREATE ROLE root LOGIN SUPERUSER PASSWORD 'root''s'",
        "CREATE DATABASE d",
        "CREATE TABLE cpu (time TIMESTAMP, v DOUBLE)",
        "CREATE TABLE devices (id BIGINT PRIMARY KEY, name TEXT)",
        "CREATE USER anna PASSWORD 'SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU='",
    ] {
        let who = if statement.starts_with("CREATE ROLE") {
            None
        } else {
            ROOT
        };
        let done = sql(&server, who, statement).await;
        assert_eq!(done.status, 200, "{statement}: {}", done.text());
    }
    server
}

/// Who asks (a name and a password), a statement, and the status of its answer.
type Asked<'a> = (Option<(&'a str, &'a str)>, &'a str, u16);

/// What each statement is answered with, one after the other.
async fn answered(server: &Server, all: &[Asked<'_>]) {
    for (who, statement, status) in all {
        let answer = sql(server, *who, statement).await;
        assert_eq!(answer.status, *status, "{statement}: {}", answer.text());
    }
}

#[tokio::test]
async fn the_first_administrator_is_made_in_sql_too() {
    let server = new();
    answered(
        &server,
        &[
            (None, "CREATE USER anna PASSWORD 'x'", 403),
            (None, "CREATE ROLE root SUPERUSER PASSWORD 'x'", 403),
            (None, "CREATE ROLE root SUPERUSER LOGIN", 403),
            (None, "CREATE USER root SUPERUSER PASSWORD 'root''s'", 200),
            (None, "CREATE USER other SUPERUSER PASSWORD 'x'", 401),
            (ROOT, "CREATE DATABASE d", 200),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_role_may_what_was_granted_and_no_more() {
    let server = peopled().await;
    let read = "SELECT count(*) FROM cpu";
    let insert = "INSERT INTO devices VALUES (1, 'a')";
    answered(
        &server,
        &[
            (Some(("anna", "Pencil")), "SELECT 1", 401),
            (ANNA, read, 403),
            (ANNA, "GRANT SELECT ON cpu TO anna", 403),
            (ANNA, "ALTER ROLE anna SUPERUSER", 403),
            (ANNA, "DROP ROLE root", 403),
            (ROOT, "GRANT SELECT ON cpu TO anna", 200),
            (ANNA, read, 200),
            (ANNA, "SELECT count(*) FROM devices", 403),
            (ROOT, "GRANT INSERT, UPDATE, DELETE ON devices TO anna", 200),
            (ANNA, insert, 200),
            (ANNA, "DROP TABLE devices", 403),
            (ROOT, "REVOKE SELECT ON cpu FROM anna", 200),
            (ANNA, read, 403),
            (
                ROOT,
                "GRANT SELECT ON ALL TABLES IN SCHEMA public TO anna",
                200,
            ),
            (ANNA, read, 200),
            // It would stay.
            (ROOT, "REVOKE SELECT ON cpu FROM anna", 400),
            (
                ROOT,
                "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM anna",
                200,
            ),
            (ANNA, read, 403),
            (ANNA, insert, 403),
            (ROOT, "GRANT ALL ON DATABASE d TO anna", 200),
            (ANNA, "CREATE TABLE made (id BIGINT PRIMARY KEY)", 200),
            (ANNA, "CREATE DATABASE e", 403),
            (ROOT, "ALTER ROLE anna NOLOGIN", 200),
            (ANNA, "SELECT 1", 401),
            (ROOT, "ALTER ROLE anna LOGIN", 200),
            (ANNA, "ALTER USER CURRENT_USER PASSWORD 'new'", 200),
            (ANNA, "SELECT 1", 401),
            (Some(("anna", "new")), "SELECT 1", 200),
            (ROOT, "ALTER ROLE anna RENAME TO berta", 200),
            (Some(("berta", "new")), read, 200),
            (ROOT, "DROP ROLE berta", 200),
            (Some(("berta", "new")), "SELECT 1", 401),
        ],
    )
    .await;
}

#[tokio::test]
async fn what_is_not_there_is_said_and_changes_nothing() {
    let server = peopled().await;
    answered(
        &server,
        &[
            (ROOT, "CREATE ROLE anna", 400),
            (ROOT, "CREATE ROLE public", 400),
            (ROOT, "GRANT SELECT ON cpu TO ana", 400),
            (ROOT, "GRANT SELECT ON nothing TO anna", 400),
            (
                ROOT,
                "GRANT SELECT ON ALL TABLES IN SCHEMA nowhere TO anna",
                400,
            ),
            (ROOT, "GRANT SELECT ON cpu TO PUBLIC", 400),
            (ROOT, "GRANT SELECT ON cpu, nothing TO anna", 400),
            (ROOT, "ALTER ROLE anna CREATEDB", 400),
            (ROOT, "DROP ROLE anna, nobody", 400),
            (ROOT, "DROP ROLE IF EXISTS nobody", 200),
            (ROOT, "DROP ROLE root", 400),
            (ROOT, "ALTER TABLE cpu OWNER TO anna", 400),
            (ROOT, "ALTER TABLE cpu OWNER TO nobody", 400),
            (ROOT, "ALTER TABLE cpu OWNER TO root", 200),
            (
                ROOT,
                "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO anna",
                400,
            ),
            (ROOT, "REVOKE ALL ON SCHEMA public FROM PUBLIC", 200),
            (ROOT, "REVOKE CONNECT ON DATABASE d FROM PUBLIC", 400),
            (ROOT, "GRANT USAGE ON SCHEMA public TO anna, PUBLIC", 200),
            (ANNA, "SELECT count(*) FROM cpu", 403),
        ],
    )
    .await;
    let near = sql(&server, ROOT, "GRANT SELECT ON cpu TO ana").await;
    assert!(
        near.error().contains("did you mean \"anna\""),
        "{}",
        near.error()
    );
}

/// Who made a procedure is whose privileges its jobs run with.
#[tokio::test]
async fn a_role_that_owns_a_routine_is_renamed_with_it_and_not_dropped() {
    let server = peopled().await;
    let anna = ANNA;
    answered(
        &server,
        &[
            (ROOT, "GRANT ALL ON DATABASE d TO anna", 200),
            (
                anna,
                "CREATE PROCEDURE tidy(job_id INT, config JSONB) LANGUAGE SQL AS 'DELETE FROM devices'",
                200,
            ),
            (ROOT, "DROP ROLE anna", 400),
            (ROOT, "ALTER ROLE anna RENAME TO berta", 200),
            (ROOT, "CREATE ROLE anna", 200),
            (ROOT, "DROP ROLE anna", 200),
        ],
    )
    .await;
    let refused = sql(&server, ROOT, "DROP ROLE berta").await;
    assert!(
        refused.error().contains("routine \"tidy\""),
        "{}",
        refused.error()
    );
    answered(
        &server,
        &[
            (ROOT, "DROP PROCEDURE tidy", 200),
            (ROOT, "DROP ROLE berta", 200),
        ],
    )
    .await;
}

#[tokio::test]
async fn the_catalogue_shows_what_each_role_may() {
    let server = peopled().await;
    answered(
        &server,
        &[
            (ROOT, "GRANT SELECT ON cpu TO anna", 200),
            (ROOT, "CREATE ROLE quiet", 200),
        ],
    )
    .await;
    let roles = "SELECT rolname, rolsuper, rolcanlogin FROM pg_roles WHERE rolname <> 'nilometer' ORDER BY rolname";
    let shown = sql(&server, ROOT, roles).await;
    let expected = serde_json::json!([
        { "rolname": "anna", "rolsuper": false, "rolcanlogin": true },
        { "rolname": "quiet", "rolsuper": false, "rolcanlogin": false },
        { "rolname": "root", "rolsuper": true, "rolcanlogin": true },
    ]);
    assert_eq!(shown.json(), expected);
    // Others see themselves, and no password.
    let own = sql(
        &server,
        ANNA,
        "SELECT rolname FROM pg_roles WHERE rolname <> 'nilometer'",
    )
    .await;
    assert_eq!(own.json(), serde_json::json!([{ "rolname": "anna" }]));
    let hidden = sql(&server, ROOT, "SELECT DISTINCT rolpassword FROM pg_authid").await;
    assert_eq!(
        hidden.json(),
        serde_json::json!([{ "rolpassword": "********" }])
    );
    let granted = "SELECT table_name, privilege_type FROM information_schema.role_table_grants WHERE grantee = 'anna'";
    let granted = sql(&server, ROOT, granted).await;
    let expected = serde_json::json!([{ "table_name": "cpu", "privilege_type": "SELECT" }]);
    assert_eq!(granted.json(), expected);
    let held = "SELECT has_table_privilege('anna', 'cpu', 'SELECT') AS a, has_table_privilege('anna', 'cpu', 'INSERT') AS b, has_table_privilege('root', 'devices', 'DELETE') AS c, has_database_privilege('anna', 'd', 'CONNECT') AS d, has_schema_privilege('anna', 'public', 'CREATE') AS e";
    let held = sql(&server, ROOT, held).await;
    let expected = serde_json::json!([{ "a": true, "b": false, "c": true, "d": true, "e": false }]);
    assert_eq!(held.json(), expected);
}
