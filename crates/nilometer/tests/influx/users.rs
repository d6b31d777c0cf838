//! Users in InfluxQL: made, shown, let in and kept out.

use nilometer_service::{JwtSecret, ServiceOptions};

use crate::support::{Answer, Server, encoded};

async fn ask(server: &Server, user: Option<(&str, &str)>, statement: &str) -> Answer {
    let mut path = format!("/query?db=d&q={}", encoded(statement));
    if let Some((user, password)) = user {
        let (user, password) = (encoded(user), encoded(password));
        path = format!("{path}&u={user}&p={password}");
    }
    server.send("POST", &path, &[], "").await
}

async fn done(server: &Server, user: Option<(&str, &str)>, statement: &str) {
    let answer = ask(server, user, statement).await;
    let text = answer.text();
    let is_done = answer.status == 200 && !text.contains("\"error\"");
    assert!(is_done, "{statement}: {text}");
}

async fn refused(server: &Server, user: Option<(&str, &str)>, statement: &str, why: &str) {
    let answer = ask(server, user, statement).await;
    assert!(
        answer.text().contains(why),
        "{statement}: {}",
        answer.text()
    );
}

const ROOT: Option<(&str, &str)> = Some(("root", "it's secret"));
const ANNA: Option<(&str, &str)> = Some(("anna", "a"));

/// A server with authentication, an administrator, and `anna`, who may nothing yet.
async fn peopled() -> Server {
    let server = Server::with(ServiceOptions {
        auth: true,
        ..ServiceOptions::default()
    });
    refused(
        &server,
        None,
        "create database d",
        "create admin user first",
    )
    .await;
    refused(
        &server,
        None,
        "create user anna with password 'a'",
        "create admin user first",
    )
    .await;
    // Strangers were shown an empty list, and told by DROP MEASUREMENT which databases there are.
    for statement in ["show databases", "drop measurement m", "show series"] {
        refused(&server, None, statement, "create admin user first").await;
    }
    let root = "create user root with password 'it\\'s secret' with all privileges";
    done(&server, None, root).await;
    refused(
        &server,
        None,
        "show databases",
        "unable to parse authentication credentials",
    )
    .await;
    refused(
        &server,
        Some(("root", "wrong")),
        "show databases",
        "authorization failed",
    )
    .await;
    done(&server, ROOT, "create database d; create database e").await;
    done(&server, ROOT, "create user anna with password 'a'").await;
    let path = "/write?db=d&u=root&p=it%27s+secret";
    let written = server.send("POST", path, &[], "cpu v=1 1\nmem v=2 1").await;
    assert_eq!(written.status, 204, "{}", written.text());
    server
}

/// The database in which users are kept came into the list of databases with the first of them, and tools that dump or drop
/// what they find there failed on it.
#[tokio::test]
async fn the_database_of_users_is_in_no_list() {
    let server = peopled().await;
    for statement in ["show databases", "show shards", "show continuous queries"] {
        let shown = ask(&server, ROOT, statement).await;
        assert!(!shown.text().contains("_internal"), "{}", shown.text());
        assert!(shown.text().contains('d'), "{}", shown.text());
    }
}

/// Shapes and texts are those of `InfluxDB`'s statement executor.
#[tokio::test]
async fn users_and_grants_are_shown() {
    let server = peopled().await;
    let shown = ask(&server, ROOT, "show users").await;
    let expected = r#"{"results":[{"statement_id":0,"series":[{"columns":["user","admin"],"values":[["anna",false],["root",true]]}]}]}"#;
    assert_eq!(shown.text().trim_end(), expected);
    done(
        &server,
        ROOT,
        "grant read on d to anna; grant all on e to anna",
    )
    .await;
    let shown = ask(&server, ANNA, "show grants for anna").await;
    let expected = r#"{"results":[{"statement_id":0,"series":[{"columns":["database","privilege"],"values":[["d","READ"],["e","ALL PRIVILEGES"]]}]}]}"#;
    assert_eq!(shown.text().trim_end(), expected);
    refused(
        &server,
        ANNA,
        "show grants for root",
        "not an administrator",
    )
    .await;
    refused(&server, ROOT, "show grants for nobody", "user not found").await;
    // As there, the same user again is no error, and another password is.
    done(&server, ROOT, "create user anna with password 'a'").await;
    for (statement, text) in [
        ("create user anna with password 'b'", "user already exists"),
        (
            "grant read on nowhere to anna",
            "database not found: nowhere",
        ),
        (
            "revoke read on nowhere from anna",
            "database not found: nowhere",
        ),
    ] {
        let answer = ask(&server, ROOT, statement).await;
        let expected = format!(r#"{{"results":[{{"statement_id":0,"error":"{text}"}}]}}"#);
        assert_eq!(answer.text().trim_end(), expected, "{statement}");
    }
}

#[tokio::test]
async fn a_user_reads_and_writes_what_was_granted() {
    let server = peopled().await;
    let no = "\\\"anna\\\" user is not authorized to";
    for statement in [
        "select v from cpu",
        "select v from e..cpu, cpu",
        "select v from (select v from cpu)",
        "select v into copy from cpu",
        "select v from /c/",
        "show measurements",
        "show series on d",
        "delete from cpu",
        "drop series from cpu",
        "drop measurement cpu",
        "explain select v from cpu",
    ] {
        refused(&server, ANNA, statement, no).await;
    }
    let databases = ask(&server, ANNA, "show databases").await;
    assert!(!databases.text().contains("\"d\""), "{}", databases.text());
    done(&server, ROOT, "grant read on d to anna").await;
    for statement in [
        "select v from cpu",
        "show measurements",
        "show databases",
        "select v from /c/",
    ] {
        done(&server, ANNA, statement).await;
    }
    for statement in [
        "delete from cpu",
        "drop measurement cpu",
        "select v into copy from cpu",
    ] {
        refused(&server, ANNA, statement, no).await;
    }
    for statement in [
        "create database f",
        "drop database d",
        "show users",
        "kill query 1",
        "show queries",
    ] {
        refused(&server, ANNA, statement, "not an administrator").await;
    }
    let path = "/write?db=d&u=anna&p=a";
    assert_eq!(
        server.send("POST", path, &[], "cpu v=3 3").await.status,
        403
    );
    done(&server, ROOT, "grant write on d to anna").await;
    assert_eq!(
        server.send("POST", path, &[], "cpu v=3 3").await.status,
        204
    );
    done(&server, ANNA, "delete from cpu where time = 3").await;
    done(&server, ROOT, "revoke all on d from anna").await;
    refused(&server, ANNA, "select v from cpu", no).await;
    done(&server, ANNA, "set password for anna = 'new'").await;
    refused(&server, ANNA, "show databases", "authorization failed").await;
    let anna = Some(("anna", "new"));
    refused(
        &server,
        anna,
        "set password for root = 'mine'",
        "not an administrator",
    )
    .await;
    done(&server, ROOT, "grant all privileges to anna").await;
    done(&server, anna, "show users").await;
    done(&server, ROOT, "drop user anna").await;
    refused(&server, anna, "show databases", "authorization failed").await;
}

/// A continuous query runs for nobody, so its maker must have been allowed all that it does. Its names without a database
/// were given that of the session when it was made, and checked in its own: whoever had one database read all others.
#[tokio::test]
async fn a_continuous_query_does_no_more_than_its_maker_may_do() {
    let server = peopled().await;
    let no = "\\\"anna\\\" user is not authorized to";
    done(&server, ROOT, "grant all on e to anna").await;
    let making = |database: &str, into: &str, from: &str| {
        format!(
            "create continuous query c on {database} begin select mean(v) into {into} from {from} group by time(1m) end"
        )
    };
    for (database, into, from) in [
        ("e", "means", "d.autogen.cpu"),
        ("e", "d.autogen.means", "m"),
        // The session is in d.
        ("e", "means", "m"),
        ("e", "e.autogen.means", "m"),
        ("e", "m", "e.autogen.m"),
        ("d", "means", "cpu"),
        ("d", "e.autogen.means", "e.autogen.m"),
    ] {
        refused(&server, ANNA, &making(database, into, from), no).await;
    }
    done(
        &server,
        ANNA,
        &making("e", "e.autogen.means", "e.autogen.m"),
    )
    .await;
    refused(&server, ANNA, "drop continuous query c on d", no).await;
    done(&server, ANNA, "drop continuous query c on e").await;
}

/// A password in a list of statements is everybody's who may see the list.
#[tokio::test]
async fn passwords_are_in_no_answer() {
    let server = peopled().await;
    for statement in [
        "show users",
        "show queries",
        "show diagnostics",
        "show grants for anna",
    ] {
        let answer = ask(&server, ROOT, statement).await;
        assert!(!answer.text().contains("secret"), "{}", answer.text());
    }
    let warned = format!(
        "/query?u=root&p=it%27s+secret&q={}",
        encoded("create user b with password 'hush'")
    );
    let answer = server.send("GET", &warned, &[], "").await;
    assert!(!answer.text().contains("hush"), "{}", answer.text());
}

/// The tokens are signed by Python's `hmac` with `jwt secret`, the last one with another secret.
#[tokio::test]
async fn a_signed_token_lets_its_user_in_until_its_end() {
    let server = Server::with(ServiceOptions {
        auth: true,
        jwt: Some(JwtSecret::new("jwt secret\n", "the test").unwrap()),
        ..ServiceOptions::default()
    });
    let root = "create user root with password 'r' with all privileges";
    done(&server, None, root).await;
    for (token, status, says) in [
        (
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ1c2VybmFtZSI6InJvb3QiLCJleHAiOjQxMDI0NDQ4MDB9.9IjmfwvZHtyzamb_4SKgIvNo5j6nk6EajDMNG-usVW4",
            200,
            "[\"root\",true]",
        ),
        (
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ1c2VybmFtZSI6InJvb3QiLCJleHAiOjE1Nzc4MzY4MDB9.qimPx23ALCUbS6jodSi3aC3l-Xk7csyrpM6tAv-YkCs",
            401,
            "Token is expired",
        ),
        (
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ1c2VybmFtZSI6ImJvYiIsImV4cCI6NDEwMjQ0NDgwMH0.RcvWn1ZgekVsixgvgPqhcixvuG73aBYem2IyqT3X9jI",
            401,
            "user not found",
        ),
        (
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ1c2VybmFtZSI6InJvb3QiLCJleHAiOjQxMDI0NDQ4MDB9.57K5mvg_eESg7RS59Y9MzDH1g6am11OC9a4ssm7BBcg",
            401,
            "signature is invalid",
        ),
    ] {
        let path = format!("/query?q={}", encoded("show users"));
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str())];
        let answer = server.send("POST", &path, &headers, "").await;
        let text = answer.text();
        assert_eq!(answer.status, status, "{text}");
        assert!(text.contains(says), "{text}");
    }
}

/// Who may nothing could tell by the answers which measurements and policies there are: what was missing was done, or said to be
/// missing, before anybody asked who wanted to know.
#[tokio::test]
async fn who_may_nothing_learns_no_names() {
    let server = peopled().await;
    done(
        &server,
        ROOT,
        "create retention policy two on d duration inf replication 1",
    )
    .await;
    let why = "not authorized to change database";
    for missing in [
        "drop measurement missing",
        "drop retention policy missing on d",
        "alter retention policy missing on d duration 2h",
        "create retention policy two on missing duration 2h replication 1",
    ] {
        refused(&server, ANNA, missing, why).await;
        refused(
            &server,
            ANNA,
            &missing.replace("missing", "two"),
            "\"error\"",
        )
        .await;
    }
    for policy in ["two", "missing"] {
        let path = format!("/write?db=d&rp={policy}&u=anna&p=a");
        let answer = server.send("POST", &path, &[], "m v=1").await;
        assert_eq!(answer.status, 403, "{policy}: {}", answer.text());
    }
}

/// The names of databases stood in `/debug/vars` for everybody as long as there was no administrator.
#[tokio::test]
async fn statistics_name_the_databases_that_the_asker_sees() {
    let server = Server::with(ServiceOptions {
        auth: true,
        ..ServiceOptions::default()
    });
    server.engine.create_database("hidden").unwrap();
    let answer = server.send("GET", "/debug/vars", &[], "").await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    assert!(!answer.text().contains("hidden"), "{}", answer.text());
    let server = peopled().await;
    for (user, sees) in [("u=root&p=it%27s+secret", true), ("u=anna&p=a", false)] {
        let path = format!("/debug/vars?{user}");
        let answer = server.send("GET", &path, &[], "").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.text().contains("\"database:d\""), sees, "{user}");
    }
}

#[tokio::test]
async fn of_all_databases_the_measurements_are_shown_that_the_asker_may_read() {
    let server = peopled().await;
    let path = "/write?db=e&u=root&p=it%27s+secret";
    let written = server.send("POST", path, &[], "disk v=1 1").await;
    assert_eq!(written.status, 204, "{}", written.text());
    let every = "show measurements on *.*";
    let shown = ask(&server, ANNA, every).await;
    assert_eq!(
        shown.text().trim_end(),
        "{\"results\":[{\"statement_id\":0}]}"
    );
    done(&server, ROOT, "grant read on e to anna").await;
    let shown = ask(&server, ANNA, every).await;
    assert!(shown.text().contains("disk"), "{}", shown.text());
    assert!(!shown.text().contains("cpu"), "{}", shown.text());
    refused(&server, ANNA, "show measurements on d.*", "not authorized").await;
}

/// After `GRANT ALL` and `REVOKE WRITE` the list said `READ`, and the user dropped a measurement: the right to change the database
/// had stayed. `GRANT` added to what was granted before, where InfluxDB 1.6.7 replaces it, and two grants were shown as all.
#[tokio::test]
async fn what_is_revoked_or_replaced_is_gone() {
    let server = peopled().await;
    for (changes, shown, may) in [
        ("grant all; revoke write", "READ", [true, false, false]),
        ("grant all; revoke read", "WRITE", [false, true, false]),
        ("grant read; grant write", "WRITE", [false, true, false]),
        ("grant write; grant read", "READ", [true, false, false]),
        (
            "grant read; grant all",
            "ALL PRIVILEGES",
            [true, true, true],
        ),
        ("grant all; grant read", "READ", [true, false, false]),
        (
            "grant all; revoke all",
            "NO PRIVILEGES",
            [false, false, false],
        ),
    ] {
        for change in changes.split("; ") {
            let way = if change.starts_with("grant") {
                "to"
            } else {
                "from"
            };
            done(&server, ROOT, &format!("{change} on d {way} anna")).await;
        }
        let grants = ask(&server, ROOT, "show grants for anna").await;
        let is_shown = grants.text().contains(&format!(r#"[["d","{shown}"]]"#))
            || (shown == "NO PRIVILEGES" && !grants.text().contains("[[\"d\""));
        assert!(is_shown, "{changes}: {}", grants.text());
        let policy = "create retention policy r on d duration 1d replication 1";
        let statements = [
            "select v from cpu",
            "delete from cpu where time = 9",
            policy,
        ];
        for (statement, is_allowed) in statements.into_iter().zip(may) {
            let answer = ask(&server, ANNA, statement).await;
            let is_done = !answer.text().contains("not authorized");
            assert_eq!(
                is_done,
                is_allowed,
                "{changes}, {statement}: {}",
                answer.text()
            );
        }
    }
}
