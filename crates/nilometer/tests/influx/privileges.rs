//! Every statement of InfluxQL, asked by whoever may do nothing, read, write, do all in a database, and by an administrator.
//!
//! What each may is that of `docs/guide/users.md` and `docs/guide/influxdb.md`, written down here by hand; whoever is
//! refused must have changed nothing.

use nilometer_service::{Grant, Principal, Privileges, ServiceOptions, UserChange, change_users};

use crate::support::{Answer, Server, encoded};

/// Who asks, with the password of all of them.
const ROLES: [&str; 5] = ["nobody", "reader", "writer", "owner", "root"];
const PASSWORD: &str = "p";

/// Statements to the database `d`, and for each role whether it may. `SELF` is the name of who asks.
const STATEMENTS: [(&str, [u8; 5]); 92] = [
    // Reading.
    ("select v from cpu", READ),
    ("select v from d..cpu", READ),
    ("select v from d.p.cpu", READ),
    ("select v from /.*/", READ),
    ("select v from none", READ),
    ("select max(x) from (select v as x from cpu)", READ),
    ("select v from e..cpu", ADMIN),
    ("select v from e..none", ADMIN),
    ("select v from e../.*/", ADMIN),
    ("select v from cpu, e..cpu", ADMIN),
    ("select max(x) from (select v as x from e..cpu)", ADMIN),
    (
        "select max(x) from (select max(y) as x from (select v as y from e..cpu))",
        ADMIN,
    ),
    ("explain select v from cpu", READ),
    ("explain analyze select v from cpu", READ),
    ("explain select v from e..cpu", ADMIN),
    ("explain analyze select v from e..cpu", ADMIN),
    // Reading and writing.
    ("select v into copy from cpu", ALL),
    ("select v into d.p.copy from cpu", ALL),
    ("select v into e..copy from cpu", ADMIN),
    ("select v into copy from e..cpu", ADMIN),
    ("explain select v into copy from cpu", ALL),
    ("explain analyze select v into copy from cpu", ALL),
    ("explain analyze select v into e..copy from cpu", ADMIN),
    // Deleting.
    ("delete from cpu where time < 10", WRITE),
    ("delete where host = 'a'", WRITE),
    ("delete from /c/", WRITE),
    ("drop series from cpu where host = 'a'", WRITE),
    ("drop series from none", WRITE),
    ("drop measurement cpu", ALL),
    ("drop measurement none", ALL),
    ("drop shard 1", ADMIN),
    // Definitions.
    ("create database d", ADMIN),
    ("create database f", ADMIN),
    ("create database f with duration 2h name p", ADMIN),
    ("drop database d", ADMIN),
    ("drop database none", ADMIN),
    (
        "create retention policy q on d duration 3h replication 1",
        ALL,
    ),
    (
        "create retention policy q on d duration 3h replication 1 default",
        ALL,
    ),
    (
        "create retention policy p on d duration 2h replication 1",
        ALL,
    ),
    (
        "create retention policy p on d duration 9h replication 1",
        ALL,
    ),
    (
        "create retention policy q on e duration 3h replication 1",
        ADMIN,
    ),
    (
        "create retention policy q on none duration 3h replication 1",
        ADMIN,
    ),
    ("alter retention policy p on d duration 4h", ALL),
    ("alter retention policy p on d duration 2h", ALL),
    ("alter retention policy p on d default", ALL),
    ("alter retention policy autogen on d default", ALL),
    ("alter retention policy none on d default", ALL),
    ("alter retention policy autogen on e default", ADMIN),
    ("drop retention policy p on d", ALL),
    ("drop retention policy none on d", ALL),
    ("drop retention policy none on e", ADMIN),
    (
        "create continuous query c on d begin select count(v) into c from cpu group by time(1m) end",
        ALL,
    ),
    (
        "create continuous query c on e begin select count(v) into c from cpu group by time(1m) end",
        ADMIN,
    ),
    (
        "create continuous query c on d begin select count(v) into c from e..cpu group by time(1m) end",
        ADMIN,
    ),
    (
        "create continuous query c on d begin select count(v) into e..c from cpu group by time(1m) end",
        ADMIN,
    ),
    ("drop continuous query cq on d", ALL),
    ("drop continuous query none on d", ALL),
    ("drop continuous query none on e", ADMIN),
    (
        "create subscription s on d.autogen destinations all 'http://localhost:1'",
        ADMIN,
    ),
    ("drop subscription s on d.autogen", ADMIN),
    // Users. Everybody may change the own password and see the own grants.
    ("create user carl with password 'c'", ADMIN),
    (
        "create user carl with password 'c' with all privileges",
        ADMIN,
    ),
    ("drop user bob", ADMIN),
    ("set password for bob = 'other'", ADMIN),
    ("set password for SELF = 'p'", ANYONE),
    ("grant read on d to bob", ADMIN),
    ("grant all on d to SELF", ADMIN),
    ("grant all privileges to SELF", ADMIN),
    ("revoke read on d from bob", ADMIN),
    ("revoke all privileges from bob", ADMIN),
    ("show grants for SELF", ANYONE),
    ("show grants for bob", ADMIN),
    ("show users", ADMIN),
    // What the server does.
    ("kill query 999", ADMIN),
    ("show queries", ADMIN),
    ("show continuous queries", ADMIN),
    ("show diagnostics", ADMIN),
    ("show stats", ADMIN),
    ("show shards", ADMIN),
    ("show shard groups", ADMIN),
    ("show subscriptions", ADMIN),
    // Lists. Of databases everybody sees those of which they see something.
    ("show databases", ANYONE),
    ("show measurements on *.*", ANYONE),
    ("show retention policies on d", READ),
    ("show measurements", READ),
    ("show series", READ),
    ("show series from cpu where host = 'a'", READ),
    ("show tag keys", READ),
    ("show tag values with key = host", READ),
    ("show field keys", READ),
    ("show series cardinality", READ),
    ("show measurements on e", ADMIN),
];

const ANYONE: [u8; 5] = [1, 1, 1, 1, 1];
const READ: [u8; 5] = [0, 1, 0, 1, 1];
const WRITE: [u8; 5] = [0, 0, 1, 1, 1];
const ALL: [u8; 5] = [0, 0, 0, 1, 1];
const ADMIN: [u8; 5] = [0, 0, 0, 0, 1];

/// The lists of [`STATEMENTS`] that only differ in what is listed.
const MORE_LISTS: [&str; 12] = [
    "show series exact cardinality",
    "show series cardinality from cpu",
    "show measurement cardinality",
    "show measurement exact cardinality",
    "show tag key cardinality",
    "show tag key exact cardinality",
    "show tag values cardinality with key = host",
    "show tag values exact cardinality with key = host",
    "show field key cardinality",
    "show field key exact cardinality",
    "show tag keys from cpu",
    "show field keys from cpu",
];

async fn ask(server: &Server, user: &str, statement: &str) -> Answer {
    let path = format!("/query?db=d&u={user}&p={PASSWORD}&q={}", encoded(statement));
    server.send("POST", &path, &[], "").await
}

/// What every trial begins with, whatever the one before it has changed. Users are made once: their passwords cost time.
async fn restore(server: &Server) {
    let users = ask(server, "root", "show users").await;
    for user in ["nobody", "reader", "writer", "owner", "bob"] {
        if !users.text().contains(&format!("\"{user}\"")) {
            let make = format!("create user {user} with password 'p'");
            ask(server, "root", &make).await;
        }
        ask(
            server,
            "root",
            &format!("revoke all privileges from {user}"),
        )
        .await;
        ask(server, "root", &format!("revoke all on d from {user}")).await;
    }
    for statement in [
        "create database d; create database e",
        "alter retention policy autogen on d default",
        "drop retention policy q on d; drop retention policy q on e; drop database f",
        "create retention policy p on d duration 2h replication 1",
        "alter retention policy p on d duration 2h",
        "drop measurement copy; drop user carl",
        "create continuous query cq on d begin select count(v) into n from cpu group by time(1m) end",
        "drop continuous query c on d",
        "drop continuous query c on e",
        "grant read on d to bob; grant read on d to reader; grant write on d to writer; grant all on d to owner",
    ] {
        ask(server, "root", statement).await;
    }
    for database in ["d", "e"] {
        let path = format!("/write?db={database}&u=root&p={PASSWORD}");
        let lines = "cpu,host=a v=1 1\ncpu,host=b v=2 20";
        let written = server.send("POST", &path, &[], lines).await;
        assert_eq!(written.status, 204, "{}", written.text());
    }
}

/// All that a statement could change, as text.
async fn everything(server: &Server) -> String {
    let mut text = String::new();
    for statement in [
        "show databases; show users; show continuous queries; show retention policies on d; show retention policies on e",
        "select * from /.*/; select * from d.p./.*/; select * from e../.*/",
        "show grants for bob; show grants for nobody; show grants for reader; show grants for writer; show grants for owner",
    ] {
        text.push_str(ask(server, "root", statement).await.text());
    }
    text
}

async fn guarded() -> Server {
    let server = Server::with(ServiceOptions {
        auth: true,
        ..ServiceOptions::default()
    });
    let first = "create user root with password 'p' with all privileges";
    let path = format!("/query?q={}", encoded(first));
    let made = server.send("POST", &path, &[], "").await;
    assert!(!made.text().contains("error"), "{}", made.text());
    restore(&server).await;
    server
}

fn is_refused(answer: &Answer) -> bool {
    let text = answer.text();
    text.contains("user is not authorized") || text.contains("not an administrator")
}

/// `ALTER` and `CREATE RETENTION POLICY` that would change nothing were answered with success to whoever came, and one that
/// contradicts what is there said so: whether there is a policy of that name, and how long it keeps rows, could be asked for
/// by trying. `EXPLAIN` of a SELECT that writes asked for no right to write.
#[tokio::test]
async fn every_statement_is_for_those_who_may() {
    let server = guarded().await;
    let lists = MORE_LISTS.iter().map(|list| (*list, READ));
    let mut before = everything(&server).await;
    for (statement, may) in STATEMENTS.into_iter().chain(lists) {
        let of = |wanted: u8| {
            let roles = ROLES.iter().zip(may).filter(move |(_, may)| *may == wanted);
            roles.map(|(role, _)| (*role, statement.replace("SELF", role)))
        };
        for (role, text) in of(0) {
            let answer = ask(&server, role, &text).await;
            assert!(is_refused(&answer), "{role}: {text}: {}", answer.text());
        }
        let after = everything(&server).await;
        assert_eq!(
            before, after,
            "who was refused changed something: {statement}"
        );
        for (role, text) in of(1) {
            let answer = ask(&server, role, &text).await;
            let said = answer.text();
            assert!(!is_refused(&answer), "{role}: {text}: {said}");
            assert!(!said.contains("error parsing query"), "{text}: {said}");
            if !text.starts_with("show") && before != everything(&server).await {
                restore(&server).await;
                before = everything(&server).await;
            }
        }
    }
}

/// What is granted of one table or one policy is no grant of the others.
#[tokio::test]
async fn grants_of_a_table_and_of_a_policy_end_there() {
    let server = guarded().await;
    let path = format!("/write?db=d&rp=p&u=root&p={PASSWORD}");
    let written = server.send("POST", &path, &[], "cpu,host=a v=3").await;
    assert_eq!(written.status, 204, "{}", written.text());
    let grant = |schema: &str, table: Option<&str>| {
        let change = UserChange::Grant {
            user: "nobody".to_owned(),
            grant: Grant {
                database: "d".to_owned(),
                schema: Some(schema.to_owned()),
                table: table.map(str::to_owned),
                privileges: Privileges::READ,
            },
        };
        change_users(&server.engine, &Principal::anyone(), change).unwrap();
    };
    grant("public", Some("cpu"));
    for (statement, may) in [
        ("select v from cpu", true),
        ("select v from autogen.cpu", true),
        ("select v from d..cpu", true),
        ("select max(x) from (select v as x from cpu)", true),
        ("select v from mem", false),
        ("select v from p.cpu", false),
        ("select v from /cpu/", false),
        ("select v from cpu, mem", false),
        ("select v into copy from cpu", false),
        ("show series", false),
        ("show measurements", false),
        ("delete from cpu", false),
        ("drop measurement cpu", false),
    ] {
        let answer = ask(&server, "nobody", statement).await;
        assert_eq!(is_refused(&answer), !may, "{statement}: {}", answer.text());
    }
    grant("p", None);
    for (statement, may) in [
        ("select v from p.cpu", true),
        ("select v from p./.*/", true),
        ("select v from autogen./.*/", false),
        ("show series", false),
    ] {
        let answer = ask(&server, "nobody", statement).await;
        assert_eq!(is_refused(&answer), !may, "{statement}: {}", answer.text());
    }
}
