//! Users over HTTP: who gets in, and what each may read, write and define, in every language and by every route.

use axum::body::Body;
use axum::http::Request;
use nilometer_engine::Engine;
use nilometer_service::{Grant, Place, Principal, Privileges, UserChange, change_users};
use std::sync::Arc;

use crate::support::{Answer, Server, ServerConfig};

async fn send(server: &Server, user: Option<&str>, path: &str, body: &str) -> Answer {
    let mut request = Request::post(path);
    if let Some(user) = user {
        request = request.header("authorization", format!("Token {user}:{user}'s"));
    }
    server
        .send(request.body(Body::from(body.to_owned())).unwrap())
        .await
}

/// The story: who may read nothing of a database was told "did you mean", with the name of a table that is there, and 400 in place
/// of 403 said that one is not.
#[tokio::test]
async fn who_may_not_read_a_table_is_not_told_whether_it_is_there() {
    let server = peopled().await;
    let mut said = Vec::new();
    for table in [
        "cpu",
        "cp",
        "nothing_like_it",
        "d.public.cp",
        "elsewhere.public.cpu",
        "e.public.cpu",
    ] {
        let answer = sql(&server, "writer", &format!("SELECT * FROM {table}")).await;
        assert_eq!(answer.status, 403, "{table}: {}", answer.text());
        said.push(
            answer
                .error()
                .replace("elsewhere", "d")
                .replace("\"e\"", "\"d\""),
        );
    }
    said.dedup();
    assert_eq!(said.len(), 1, "{said:?}");
    // Who may read all of it has the hint.
    let answer = sql(&server, "reader", "SELECT * FROM cp").await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.error().contains("cpu"), "{}", answer.error());
}

async fn sql(server: &Server, user: &str, text: &str) -> Answer {
    let body = serde_json::json!({ "db": "d", "q": text }).to_string();
    send(server, Some(user), "/api/v3/query_sql", &body).await
}

fn create(engine: &Arc<Engine>, name: &str, is_admin: bool) {
    let create = UserChange::Create {
        name: name.to_owned(),
        password: format!("{name}'s"),
        is_admin,
    };
    change_users(engine, &Principal::anyone(), create).unwrap();
}

fn grant(engine: &Arc<Engine>, user: &str, place: Place<'_>, privileges: Privileges) {
    let grant = UserChange::Grant {
        user: user.to_owned(),
        grant: Grant {
            database: place.database.to_owned(),
            schema: place.schema.map(str::to_owned),
            table: place.table.map(str::to_owned),
            privileges,
        },
    };
    change_users(engine, &Principal::anyone(), grant).unwrap();
}

/// A store with tables `cpu` and `disk`, an administrator, and users with a privilege each.
async fn peopled() -> Server {
    let server = Server::with(ServerConfig {
        auth: true,
        ..ServerConfig::default()
    });
    let access = &server.engine;
    for (name, is_admin) in [
        ("root", true),
        ("reader", false),
        ("writer", false),
        ("owner", false),
    ] {
        create(access, name, is_admin);
    }
    create(access, "narrow", false);
    let lines = "cpu v=1 1000000000\ndisk v=2 1000000000";
    let stored = send(&server, Some("root"), "/api/v3/write_lp?db=d", lines).await;
    assert_eq!(stored.status, 204, "{}", stored.text());
    let schema = server.service.snapshot().default_schema("d").unwrap();
    grant(access, "reader", Place::database("d"), Privileges::READ);
    grant(access, "writer", Place::database("d"), Privileges::WRITE);
    grant(access, "owner", Place::database("d"), Privileges::ALL);
    grant(
        access,
        "narrow",
        Place::table("d", &schema, "cpu"),
        Privileges::READ,
    );
    server
}

#[tokio::test]
async fn whoever_is_nobody_gets_no_further_than_health() {
    let server = peopled().await;
    for user in [None, Some("stranger")] {
        for path in [
            "/api/v3/query_sql?db=d&q=SELECT+1",
            "/write?db=d",
            "/metrics",
        ] {
            let refused = send(&server, user, path, "cpu v=1").await;
            assert!(
                matches!(refused.status, 401 | 405),
                "{path} {}",
                refused.status
            );
        }
    }
    let wrong = Request::get("/metrics?u=root&p=reader%27s")
        .body(Body::empty())
        .unwrap();
    assert_eq!(server.send(wrong).await.status, 401);
    let right = Request::get("/metrics?u=root&p=root%27s")
        .body(Body::empty())
        .unwrap();
    assert_eq!(server.send(right).await.status, 200);
}

#[tokio::test]
async fn each_user_does_what_was_granted_and_nothing_else() {
    let server = peopled().await;
    // Statement, and who may: reader, writer, owner, narrow.
    let statements = [
        ("SELECT v FROM cpu", [true, false, true, true]),
        ("SELECT v FROM disk", [true, false, true, false]),
        (
            "SELECT count(*) FROM cpu WHERE v IN (SELECT v FROM disk)",
            [true, false, true, false],
        ),
        (
            "WITH c AS (SELECT v FROM cpu) SELECT v FROM c",
            [true, false, true, true],
        ),
        (
            "SELECT n FROM generate_series(1, 2) AS g(n)",
            [true, true, true, true],
        ),
        ("SELECT * FROM system.tables", [true, false, true, false]),
        ("SHOW TABLES", [true, false, true, false]),
        ("SHOW QUERIES", [false, false, false, false]),
        ("SHOW CREATE TABLE cpu", [true, false, true, true]),
        ("SHOW CREATE TABLE disk", [true, false, true, false]),
        (
            "INSERT INTO cpu (time, v) VALUES (now(), 3)",
            [false, true, true, false],
        ),
        (
            "UPDATE cpu SET v = 5 WHERE v = 3",
            [false, false, true, false],
        ),
        ("DELETE FROM cpu WHERE v = 5", [false, false, true, false]),
        (
            "ALTER TABLE cpu SET (retention = '3650 days')",
            [false, false, true, false],
        ),
        (
            "CREATE TABLE more (time TIMESTAMPTZ, v REAL)",
            [false, false, true, false],
        ),
        ("DROP TABLE more", [false, false, true, false]),
        ("CREATE DATABASE e", [false; 4]),
        ("DROP DATABASE d", [false; 4]),
        ("KILL QUERY 1", [false; 4]),
    ];
    for (statement, allowed) in statements {
        for (user, allowed) in ["reader", "writer", "owner", "narrow"]
            .into_iter()
            .zip(allowed)
        {
            let answer = sql(&server, user, statement).await;
            let wanted = if allowed { 200 } else { 403 };
            assert_eq!(
                answer.status,
                wanted,
                "{user}: {statement}: {}",
                answer.text()
            );
            if !allowed {
                assert!(answer.error().contains(user), "{}", answer.error());
            }
        }
    }
}

/// Who could read one database saw the names of all others in the tables of the system, and the tags of their series, which are
/// rows' values.
#[tokio::test]
async fn tables_of_the_system_show_what_may_be_seen() {
    let server = peopled().await;
    let lines = "secret,patient=Smith v=1 1000000000";
    let stored = send(&server, Some("root"), "/api/v3/write_lp?db=other", lines).await;
    assert_eq!(stored.status, 204, "{}", stored.text());
    for statement in [
        "SHOW DATABASES",
        "SELECT * FROM system.databases",
        "SELECT * FROM system.schemas",
        "SELECT * FROM system.tables",
        "SELECT * FROM system.columns",
        "SELECT * FROM system.series",
        "SELECT tags FROM system.series WHERE table_name = 'secret'",
    ] {
        let shown = sql(&server, "reader", statement).await;
        assert_eq!(shown.status, 200, "{statement}: {}", shown.text());
        for hidden in ["other", "secret", "Smith"] {
            assert!(
                !shown.text().contains(hidden),
                "{statement}: {}",
                shown.text()
            );
        }
        let all = sql(&server, "root", statement).await;
        assert!(
            ["other", "Smith"]
                .iter()
                .any(|name| all.text().contains(name)),
            "{statement}: {}",
            all.text()
        );
    }
    let shown = sql(&server, "reader", "SELECT * FROM system.series").await;
    assert!(shown.text().contains("cpu"), "{}", shown.text());
    // The standard's schema and PostgreSQL's are about the database that is asked, and everybody's.
    for (user, sees_disk) in [("root", true), ("reader", true), ("narrow", false)] {
        for statement in [
            "SELECT table_name FROM information_schema.tables",
            "SELECT table_name FROM information_schema.columns",
            "SELECT relname FROM pg_catalog.pg_class",
        ] {
            let shown = sql(&server, user, statement).await;
            let text = shown.text();
            assert_eq!(shown.status, 200, "{user}, {statement}: {text}");
            assert!(text.contains("\"cpu\""), "{user}, {statement}: {text}");
            assert!(!text.contains("secret"), "{user}, {statement}: {text}");
            assert_eq!(text.contains("\"disk\""), sees_disk, "{user}, {statement}");
        }
    }
}

/// Anybody who was let in could say that a clock which had jumped is right, and retention went on by it.
#[tokio::test]
async fn an_administrator_accepts_the_clock() {
    let server = peopled().await;
    for (user, wanted) in [("reader", 403), ("owner", 403), ("root", 204)] {
        let answer = send(&server, Some(user), "/api/v3/accept_clock", "").await;
        assert_eq!(answer.status, wanted, "{user}: {}", answer.text());
    }
}

/// Verifiers of passwords are rows, and nobody reads them, administrators neither.
#[tokio::test]
async fn what_is_kept_of_users_is_no_table() {
    let server = peopled().await;
    // Who may not read the database is told no more.
    for (user, status) in [("root", 400), ("reader", 403)] {
        for name in ["system users", "system grants"] {
            let statement = format!("SELECT * FROM _internal.public.\"{name}\"");
            let answer = sql(&server, user, &statement).await;
            assert_eq!(answer.status, status, "{user}: {}", answer.text());
        }
    }
}

/// A template of a statement is kept for everybody, and asked nobody what they may.
#[tokio::test]
async fn a_statement_that_others_asked_before_is_still_refused() {
    let server = peopled().await;
    let statement = "SELECT max(v) FROM disk WHERE time > '1970-01-01'";
    for _ in 0..3 {
        assert_eq!(sql(&server, "root", statement).await.status, 200);
        assert_eq!(sql(&server, "narrow", statement).await.status, 403);
    }
}

#[tokio::test]
async fn rows_are_written_by_whoever_may_write_there() {
    let server = peopled().await;
    for (user, line, database) in [
        ("reader", 403, 403),
        ("writer", 204, 403),
        ("owner", 204, 403),
        ("narrow", 403, 403),
        ("root", 204, 204),
    ] {
        for path in [
            "/api/v3/write_lp?db=d",
            "/write?db=d",
            "/api/v2/write?bucket=d",
        ] {
            let answer = send(&server, Some(user), path, "cpu v=7 7").await;
            assert_eq!(answer.status, line, "{user} {path}: {}", answer.text());
        }
        // A database that a write would bring with it is an administrator's to make.
        let path = format!("/api/v3/write_lp?db=made_by_{user}");
        let answer = send(&server, Some(user), &path, "cpu v=7 7").await;
        assert_eq!(answer.status, database, "{user}: {}", answer.text());
    }
    let refused = send(&server, Some("reader"), "/write?db=d", "cpu v=7 7").await;
    // As clients of InfluxDB know it.
    let text = "\"reader\" user is not authorized to write to database \"d\"";
    assert_eq!(refused.error(), text);
    let own = send(&server, Some("root"), "/write?db=_internal", "cpu v=7 7").await;
    assert_eq!(own.status, 403, "{}", own.text());
}

/// Whoever makes a view has to be able to read what it shows; whoever reads it needs the view alone.
#[tokio::test]
async fn a_view_shows_what_its_maker_could_read() {
    let server = peopled().await;
    let made = sql(&server, "owner", "CREATE VIEW shown AS SELECT v FROM disk").await;
    assert_eq!(made.status, 200, "{}", made.text());
    assert_eq!(
        sql(&server, "narrow", "SELECT v FROM shown").await.status,
        403
    );
    let access = &server.engine;
    let schema = server.service.snapshot().default_schema("d").unwrap();
    let shown = Place::table("d", &schema, "shown");
    grant(access, "narrow", shown, Privileges::READ);
    let read = sql(&server, "narrow", "SELECT v FROM shown").await;
    assert_eq!(read.status, 200, "{}", read.text());
    assert_eq!(
        sql(&server, "narrow", "SELECT v FROM disk").await.status,
        403
    );
    grant(access, "narrow", shown, Privileges::ALL);
    let stolen = "CREATE OR REPLACE VIEW shown AS SELECT * FROM disk";
    assert_eq!(sql(&server, "narrow", stolen).await.status, 403);
}
