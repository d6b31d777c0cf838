//! What a user who may only read drops: nothing, by whichever address; and what a flood of series does to others.

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{Options, SystemClock};
use nilometer_service::ServiceOptions;
use std::sync::Arc;

use crate::support::{Answer, Server, encoded};

const DROPS: [&str; 8] = [
    "drop measurement cpu",
    "drop series from cpu",
    "delete from cpu",
    "drop database d",
    "drop retention policy p on d",
    "drop shard 1",
    "drop continuous query q on d",
    "drop user root",
];

async fn send(server: &Server, user: &str, method: &str, path: &str, body: &str) -> Answer {
    let shown = format!("Token {user}:{user}'s");
    let headers = [("authorization", shown.as_str())];
    server.send(method, path, &headers, body.to_owned()).await
}

async fn query(server: &Server, user: &str, method: &str, statement: &str) -> Answer {
    let path = format!("/query?db=d&q={}", encoded(statement));
    send(server, user, method, &path, "").await
}

/// An administrator, a reader of `d`, and rows in two policies.
async fn peopled() -> Server {
    let server = Server::with(ServiceOptions {
        auth: true,
        ..ServiceOptions::default()
    });
    let first = "create user root with password 'root''s' with all privileges".replace("''", "\\'");
    let path = format!("/query?q={}", encoded(&first));
    let made = server.send("POST", &path, &[], "").await;
    assert!(!made.text().contains("error"), "{}", made.text());
    for statement in [
        "create database d",
        "create retention policy p on d duration inf replication 1",
        "create continuous query q on d begin select mean(v) into x from cpu group by time(1h) end",
        "create user reader with password 'reader\\'s'",
        "grant read on d to reader",
    ] {
        let done = query(&server, "root", "POST", statement).await;
        assert!(!done.text().contains("error"), "{}", done.text());
    }
    for path in ["/write?db=d", "/write?db=d&rp=p"] {
        let written = send(&server, "root", "POST", path, "cpu,host=a v=1 1").await;
        assert_eq!(written.status, 204, "{}", written.text());
    }
    server
}

async fn shown(server: &Server) -> Vec<String> {
    let mut all = Vec::new();
    for statement in [
        "select * from cpu",
        "select * from d.p.cpu",
        "show retention policies on d",
        "show continuous queries",
        "show users",
    ] {
        let answer = query(server, "root", "POST", statement).await;
        all.push(answer.text().to_owned());
    }
    all
}

#[tokio::test]
async fn a_reader_drops_nothing_by_any_address() {
    let server = peopled().await;
    let before = shown(&server).await;
    assert!(before.iter().all(|it| it.contains("series")), "{before:?}");
    for statement in DROPS {
        for method in ["GET", "POST"] {
            let refused = query(&server, "reader", method, statement).await;
            let text = refused.text();
            let is_said =
                text.contains("is not authorized") || text.contains("not an administrator");
            assert!(is_said, "{method} {statement}: {text}");
        }
        // In a form, where the body says it.
        let form = format!("db=d&q={}", encoded(statement));
        let shown = "Token reader:reader's";
        let headers = [
            ("authorization", shown),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        let refused = server.send("POST", "/query", &headers, form).await;
        let text = refused.text();
        assert!(text.contains("error"), "{statement}: {text}");
    }
    let span = r#"{"start":"1970-01-01T00:00:00Z","stop":"2030-01-01T00:00:00Z","predicate":"host=\"a\""}"#;
    let rules = r#"{"retentionRules":[{"everySeconds":7200}]}"#;
    for (method, path, body) in [
        ("POST", "/api/v2/delete?bucket=d", span),
        ("POST", "/api/v2/delete?bucket=d/p", span),
        ("DELETE", "/api/v2/buckets/d/p", ""),
        ("DELETE", "/api/v2/buckets/d/autogen", ""),
        ("PATCH", "/api/v2/buckets/d/p", rules),
        ("POST", "/api/v2/buckets", r#"{"name":"d/r"}"#),
    ] {
        let refused = send(&server, "reader", method, path, body).await;
        assert_eq!(refused.status, 403, "{method} {path}: {}", refused.text());
    }
    assert_eq!(shown(&server).await, before);
    // The same by somebody who may.
    let dropped = send(&server, "root", "DELETE", "/api/v2/buckets/d/p", "").await;
    assert_eq!(dropped.status, 200, "{}", dropped.text());
}

/// A client that makes a new series with each point is told the limit, and keeps nobody else from writing.
#[tokio::test]
async fn a_flood_of_series_gets_the_limit_and_others_write_on() {
    let store = Options {
        batch_series_max: 100,
        ..Options::default()
    };
    let (disk, clock) = (MemoryDisk::default(), Arc::new(SystemClock));
    let server = Server::over(disk, clock, &store, ServiceOptions::default());
    for name in ["flooded", "other"] {
        server.engine.create_database(name).unwrap();
    }
    let flood = (0..101).map(|n| format!("m,id={n} v=1 1\n"));
    let flood = flood.collect::<Vec<_>>().concat();
    let floods = async {
        for _ in 0..20 {
            let path = "/write?db=flooded";
            let refused = server.send("POST", path, &[], flood.clone()).await;
            assert_eq!(refused.status, 413, "{}", refused.text());
            let text = refused.text();
            assert!(text.contains("batch-series-max"), "{text}");
            assert!(!refused.header("x-influxdb-error").is_empty());
        }
    };
    let others = async {
        for n in 0..20 {
            let line = format!("m v={n} {n}");
            let written = server.send("POST", "/write?db=other", &[], line).await;
            assert_eq!(written.status, 204, "{}", written.text());
        }
    };
    tokio::join!(floods, others);
    let count = server.result("select count(v) from other..m").await;
    assert!(count.contains(",20]"), "{count}");
    // Of a body that is refused nothing is there.
    assert_eq!(server.result("select * from flooded..m").await, "");
}
