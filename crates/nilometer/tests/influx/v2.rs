//! `/api/v2/buckets`. Bodies are those of InfluxDB 1.12 (`services/httpd/handler.go`).

use crate::support::Server;

fn bucket(name: &str, policy: &str, every_s: u64, shard_s: u64) -> String {
    format!(
        "{{\"description\":\"\",\"name\":\"{name}\",\"retentionRules\":[{{\"type\":\"\",\"everySeconds\":{every_s},\"shardGroupDurationSeconds\":{shard_s}}}],\"orgId\":\"\",\"schemaType\":\"implicit\",\"id\":\"{name}\",\"type\":\"\",\"rp\":\"{policy}\",\"createdAt\":\"0001-01-01T00:00:00Z\",\"updatedAt\":\"0001-01-01T00:00:00Z\"}}"
    )
}

async fn send(server: &Server, method: &str, path: &str, body: &str) -> (u16, String) {
    let path = format!("/api/v2/buckets{path}");
    let answer = server.send(method, &path, &[], body.to_owned()).await;
    (answer.status, answer.text().trim_end().to_owned())
}

#[tokio::test]
async fn buckets_are_retention_policies_that_are_made_listed_changed_and_dropped() {
    let server = Server::new();
    let week = 7 * 24 * 3600;
    let made = send(
        &server,
        "POST",
        "",
        r#"{"name":"d/p","retentionRules":[{"everySeconds":7200}]}"#,
    );
    assert_eq!(made.await, (201, bucket("d/p", "p", 7200, 3600)));
    let made = send(&server, "POST", "", r#"{"name":"d/q","rp":"q"}"#).await;
    assert_eq!(made, (201, bucket("d/q", "q", 0, week)));
    let both = [bucket("d/p", "p", 7200, 3600), bucket("d/q", "q", 0, week)];
    let all = format!("{{\"buckets\":[{}]}}", both.join(","));
    assert_eq!(send(&server, "GET", "", "").await, (200, all));
    for query in ["?limit=1", "?name=d/p", "?id=d%2Fp"] {
        let one = format!("{{\"buckets\":[{}]}}", both[0]);
        assert_eq!(send(&server, "GET", query, "").await, (200, one), "{query}");
    }
    for query in ["?after=d/p", "?offset=1"] {
        let other = format!("{{\"buckets\":[{}]}}", both[1]);
        assert_eq!(
            send(&server, "GET", query, "").await,
            (200, other),
            "{query}"
        );
    }
    for path in ["/d/q", "/d%2Fq"] {
        assert_eq!(send(&server, "GET", path, "").await, (200, both[1].clone()));
    }
    let changed =
        r#"{"retentionRules":[{"everySeconds":172800,"shardGroupDurationSeconds":7200}]}"#;
    let changed = send(&server, "PATCH", "/d/q", changed).await;
    assert_eq!(changed, (200, bucket("d/q", "q", 172_800, 7200)));
    assert_eq!(
        send(&server, "DELETE", "/d/q", "").await,
        (200, String::new())
    );
    assert_eq!(send(&server, "GET", "/d/q", "").await.0, 404);
}

#[tokio::test]
async fn what_is_no_bucket_is_refused() {
    let server = Server::filled().await;
    for (method, path, body, status, says) in [
        (
            "POST",
            "",
            "no json",
            400,
            "buckets - cannot parse request body: ",
        ),
        (
            "POST",
            "",
            r#"{"name":"d"}"#,
            400,
            r#"buckets - illegal bucket name: \"d\""#,
        ),
        ("POST", "", r#"{"name":"/p"}"#, 400, "has an empty database"),
        (
            "POST",
            "",
            r#"{"name":"d/p","rp":"q"}"#,
            400,
            r#"two retention policies specified: \"p\" differs from \"q\""#,
        ),
        (
            "POST",
            "",
            r#"{"name":"d/p","retentionRules":[{"everySeconds":60}]}"#,
            400,
            "at least 1h0m0s",
        ),
        ("GET", "/d", "", 400, "empty retention policy"),
        ("GET", "/d/nope", "", 404, r#"bucket not found: \"d/nope\""#),
        ("GET", "?limit=x", "", 400, "parameter is not an integer"),
        (
            "GET",
            "?after=d/autogen&offset=1",
            "",
            400,
            "cannot have both",
        ),
        ("GET", "?after=d/nope", "", 404, "not found"),
        ("GET", "?name=a/b&id=c/d", "", 400, "do not match"),
        (
            "DELETE",
            "/nope/p",
            "",
            404,
            r#"delete bucket - not found: \"nope/p\""#,
        ),
        ("DELETE", "/d/autogen", "", 400, "default schema"),
    ] {
        let (found, text) = send(&server, method, path, body).await;
        assert_eq!(found, status, "{method} {path} {body}: {text}");
        assert!(text.contains(says), "{method} {path} {body}: {text}");
    }
    // Nobody's own is no bucket.
    let (_, all) = send(&server, "GET", "", "").await;
    assert!(!all.contains("_internal"), "{all}");
}

#[tokio::test]
async fn explain_analyze_runs_the_statement_and_writes_nothing() {
    let server = Server::filled().await;
    let shown = server
        .result("explain analyze select v into copy from cpu group by host")
        .await;
    for part in [
        r#""columns":["EXPLAIN ANALYZE"]"#,
        "execution_time: ",
        "planning_time: ",
        "total_time: ",
        "prune_time: ",
        "decode_time: ",
        "operate_time: ",
        "rows_read: 2",
        "rows_skipped: 0",
        "blocks_read: 0",
        "series: 2",
        "rows: 2",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let measurements = server.result("show measurements").await;
    assert!(!measurements.contains("copy"), "{measurements}");
}
