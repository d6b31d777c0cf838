//! `/api/v3/write_lp`: what is stored, what is refused and in which words.

use crate::support::{Server, ServerConfig, gzip, zstd};
use axum::body::{Body, Bytes};
use futures::stream;
use serde_json::json;

const SUMS: &str = "SELECT count(*) AS n, sum(v) AS total FROM m";

#[tokio::test]
async fn lines_are_stored_whatever_the_encoding_and_the_database_appears_by_itself() {
    let server = Server::new();
    assert_eq!(server.write("m,host=a v=1i 1\n").await.status, 204);
    for (encoding, body) in [
        ("gzip", gzip(b"m,host=a v=20i 2")),
        ("zstd", zstd(b"m,host=a v=300i 3")),
        ("identity", b"m,host=a v=4000i 4".to_vec()),
    ] {
        let headers = [("content-encoding", encoding)];
        let answer = server
            .post("/api/v3/write_lp?db=d&precision=nanosecond", &headers, body)
            .await;
        assert_eq!(answer.status, 204, "{encoding}: {}", answer.text());
        assert!(answer.body.is_empty());
    }
    assert_eq!(
        server.query(SUMS, "jsonl").await,
        "{\"n\":4,\"total\":4321}\n"
    );
}

#[tokio::test]
async fn precision_is_taken_from_the_parameter_or_from_the_number() {
    let server = Server::new();
    for (precision, time) in [
        ("s", "7"),
        ("ms", "7000"),
        ("us", "7000000"),
        ("ns", "7000000000"),
        ("auto", "7"),
        ("second", "7"),
    ] {
        let path = format!("/api/v3/write_lp?db=d&precision={precision}");
        let answer = server
            .post(&path, &[], format!("m,precision={precision} v=1i {time}"))
            .await;
        assert_eq!(answer.status, 204, "{precision}: {}", answer.text());
    }
    assert_eq!(
        server
            .post("/api/v3/write_lp?db=d", &[], "m v=1i 7")
            .await
            .status,
        204
    );
    let times = server.query("SELECT DISTINCT time FROM m", "csv").await;
    assert_eq!(times, "time\n1970-01-01T00:00:07Z\n");
}

#[tokio::test]
async fn bad_lines_are_listed_as_influxdb_3_lists_them_and_good_ones_are_kept() {
    let server = Server::new();
    let answer = server
        .write("m,host=a v=1i 1\nm,host=a v= 2\nm,host=a v=30i 3\nm,host=a v=2.5 4")
        .await;
    assert_eq!(answer.status, 400);
    let body = answer.json();
    assert_eq!(body["error"], "partial write of line protocol occurred");
    assert_eq!(body["data"][0]["original_line"], "m,host=a v= 2");
    assert_eq!(body["data"][0]["line_number"], 2);
    assert_eq!(body["data"][0]["error_message"], "missing field value");
    assert_eq!(body["data"][1]["line_number"], 4);
    assert!(
        body["data"][1]["error_message"]
            .as_str()
            .unwrap()
            .starts_with("field type conflict"),
        "{body}"
    );
    assert_eq!(
        server.query(SUMS, "jsonl").await,
        "{\"n\":2,\"total\":31}\n"
    );
}

#[tokio::test]
async fn a_body_without_any_good_line_is_refused_and_an_empty_one_is_fine() {
    let server = Server::new();
    let answer = server.write("nonsense\nmore nonsense").await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["data"].as_array().unwrap().len(), 2);
    assert_eq!(server.write("").await.status, 204);
    assert_eq!(
        server.write("# nothing but a comment\n\n").await.status,
        204
    );
}

#[tokio::test]
async fn wrong_parameters_say_which_and_what_would_be_right() {
    let server = Server::new();
    for (query, error) in [
        ("", "missing query parameter 'db'"),
        ("?db=", "missing query parameter 'db'"),
        (
            "?db=d&precision=year",
            "invalid precision 'year': use auto, nanosecond, microsecond, millisecond or second",
        ),
        (
            "?db=d&accept_partial=maybe",
            "invalid accept_partial 'maybe': use true or false",
        ),
        (
            "?db=d&accept_partial=false",
            "accept_partial=false is not supported yet: the valid lines of a write are always stored",
        ),
    ] {
        let answer = server
            .post(&format!("/api/v3/write_lp{query}"), &[], "m v=1 1")
            .await;
        assert_eq!((answer.status, answer.error()), (400, error.to_owned()));
    }
    let answer = server
        .post(
            "/api/v3/write_lp?db=d",
            &[("content-encoding", "br")],
            "m v=1 1",
        )
        .await;
    assert_eq!(answer.status, 415);
    assert_eq!(
        answer.error(),
        "unknown Content-Encoding 'br': use identity, gzip or zstd"
    );
    let answer = server
        .post(
            "/api/v3/write_lp?db=d",
            &[("content-encoding", "gzip")],
            "m v=1 1",
        )
        .await;
    assert_eq!(answer.status, 400);
    assert!(
        answer
            .error()
            .starts_with("the body cannot be decompressed"),
        "{}",
        answer.error()
    );
    assert_eq!(
        server
            .get("/api/v3/query_sql?db=d&q=SELECT%201")
            .await
            .status,
        404,
        "a refused write made a database"
    );
}

fn small() -> Server {
    Server::with(ServerConfig {
        body_bytes_max: 4 << 20,
        body_compressed_bytes_max: 1000,
        body_ratio_max: 100,
        ..ServerConfig::default()
    })
}

#[tokio::test]
async fn a_body_over_a_limit_is_refused_with_the_limits_name_and_leaves_nothing() {
    let server = small();
    let line = b"m,host=a v=1i 1\n";
    let exact = line.repeat((4 << 20) / line.len());
    let over = [exact.as_slice(), b"#"].concat();
    let noise: Vec<u8> = (0..2000u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect();
    for (what, encoding, body, setting) in [
        ("large", "identity", over.clone(), "body-bytes-max"),
        (
            "inflates to more than the ratio",
            "gzip",
            gzip(&exact[..2 << 20])[..].to_vec(),
            "body",
        ),
        (
            "large as sent",
            "gzip",
            gzip(&noise),
            "body-compressed-bytes-max",
        ),
        ("bomb", "zstd", zstd(&vec![b'#'; 64 << 20]), "body"),
    ] {
        let answer = server
            .post(
                "/api/v3/write_lp?db=d",
                &[("content-encoding", encoding)],
                body,
            )
            .await;
        assert_eq!(answer.status, 413, "{what}: {}", answer.text());
        assert!(
            answer.error().contains(&format!("setting {setting}")),
            "{what}: {}",
            answer.error()
        );
    }
    assert_eq!(
        server.try_query("SELECT 1", "json").await.status,
        404,
        "a refused body made a database"
    );
    let metrics = server.get("/metrics").await.text().to_owned();
    assert!(
        metrics.contains("nilometer_limits_hit_total{setting=\"body-bytes-max\"} 1"),
        "{metrics}"
    );
    assert_eq!(server.write(exact).await.status, 204);
}

#[tokio::test]
async fn a_ratio_is_no_matter_for_small_bodies_and_names_itself_for_large_ones() {
    let server = Server::new();
    let small = gzip(&b"m v=1i 1\n".repeat(50_000));
    let answer = server
        .post(
            "/api/v3/write_lp?db=d&precision=ns",
            &[("content-encoding", "gzip")],
            small,
        )
        .await;
    assert_eq!(answer.status, 204);
    let bomb = zstd(&b"m v=1i 1\n".repeat(5_000_000));
    let answer = server
        .post(
            "/api/v3/write_lp?db=d",
            &[("content-encoding", "zstd")],
            bomb,
        )
        .await;
    assert_eq!(answer.status, 413);
    assert!(
        answer.error().contains("100 times") && answer.error().contains("body-ratio-max"),
        "{}",
        answer.error()
    );
}

#[tokio::test]
async fn a_body_without_a_length_is_measured_as_it_comes() {
    let server = small();
    let chunk = Bytes::from(b"m,host=a v=1i 1\n".repeat(4096));
    let endless = stream::iter((0..200).map(move |_| Ok::<_, std::io::Error>(chunk.clone())));
    let answer = server.write(Body::from_stream(endless)).await;
    assert_eq!(answer.status, 413);
    assert!(answer.error().contains("body-bytes-max"));
    let parts =
        ["m v=1", "i 1\nm ", "v=2i 2"].map(|part| Ok::<_, std::io::Error>(Bytes::from(part)));
    assert_eq!(
        server
            .write(Body::from_stream(stream::iter(parts)))
            .await
            .status,
        204
    );
    assert_eq!(server.query(SUMS, "jsonl").await, "{\"n\":2,\"total\":3}\n");
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up_after_its_time() {
    let server = Server::with(ServerConfig {
        body_read_ms_max: 20,
        ..ServerConfig::default()
    });
    let answer = server
        .write(Body::from_stream(stream::pending::<
            Result<Bytes, std::io::Error>,
        >()))
        .await;
    assert_eq!(answer.status, 408);
    assert!(
        answer.error().contains("20 ms") && answer.error().contains("body-read-ms-max"),
        "{}",
        answer.error()
    );
}

#[tokio::test]
async fn bodies_share_a_memory_and_give_it_back() {
    let server = Server::with(ServerConfig {
        bodies_bytes_max: 1 << 20,
        ..ServerConfig::default()
    });
    let large = b"m v=1i 1\n".repeat(300_000);
    let answer = server.write(large.clone()).await;
    assert_eq!(answer.status, 503);
    assert!(
        answer.error().contains("bodies-bytes-max"),
        "{}",
        answer.error()
    );
    assert_eq!(answer.header("retry-after"), "1");
    let answer = server
        .post(
            "/api/v3/write_lp?db=d",
            &[("content-encoding", "gzip")],
            gzip(&large),
        )
        .await;
    assert_eq!(
        answer.status,
        503,
        "inflated bytes count too: {}",
        answer.text()
    );
    let half = b"m v=1i 1\n".repeat(60_000);
    for _ in 0..10 {
        assert_eq!(
            server.write(half.clone()).await.status,
            204,
            "the memory of an earlier body is gone"
        );
    }
}

#[tokio::test]
async fn writes_at_the_same_time_all_arrive() {
    let server = Server::with(ServerConfig {
        writes_max: 4,
        ..ServerConfig::default()
    });
    let writes = (0..50).map(|n| server.write(format!("m,host=h{n} v={n}i 1")));
    for answer in futures::future::join_all(writes).await {
        assert_eq!(answer.status, 204, "{}", answer.text());
    }
    assert_eq!(
        server.query(SUMS, "jsonl").await,
        "{\"n\":50,\"total\":1225}\n"
    );
    let rows = server.try_query(SUMS, "json").await.json();
    assert_eq!(rows, json!([{"n": 50, "total": 1225}]));
}

/// Sends one line under a key and says whether it was told that this had been done before.
async fn write_under(server: &Server, key: &str, path: &str, line: &'static str) -> bool {
    let answer = server.post(path, &[("idempotency-key", key)], line).await;
    assert_eq!(answer.status, 204, "{}", answer.text());
    answer.header("idempotency-replayed") == "true"
}

#[tokio::test]
async fn a_body_that_is_sent_again_under_its_key_is_stored_once() {
    const PATH: &str = "/api/v3/write_lp?db=d&precision=ns";
    let server = Server::new();
    let uuid = "8e03978e-40d5-43dd-bc93-6894a57f9324";
    for (key, line) in [("batch-1", "m v=1i 1"), (uuid, "m v=20i 2")] {
        assert!(!write_under(&server, key, PATH, line).await, "{key}");
        assert!(write_under(&server, key, PATH, line).await, "{key}");
    }
    // It is the key that counts: the same digits in another spelling, and another body.
    let bare = "8E03978E40D543DDBC936894A57F9324";
    assert!(write_under(&server, bare, PATH, "m v=300i 3").await);
    assert!(!write_under(&server, "batch-2", PATH, "m v=4000i 4").await);
    assert_eq!(
        server.query(SUMS, "jsonl").await,
        "{\"n\":3,\"total\":4021}\n"
    );
    // A text is another key in another database.
    let other = "/api/v3/write_lp?db=e&precision=ns";
    assert!(!write_under(&server, "batch-1", other, "m v=1i 1").await);
    let text = server.get("/metrics").await.text().to_owned();
    assert!(text.contains("nilometer_idempotency_keys 4\n"), "{text}");
}

#[tokio::test]
async fn a_key_that_is_none_is_refused_and_nothing_is_stored() {
    let server = Server::new();
    let long = "k".repeat(257);
    for key in ["", long.as_str()] {
        let headers = [("idempotency-key", key)];
        let answer = server
            .post("/api/v3/write_lp?db=d", &headers, "m v=1i 1")
            .await;
        assert_eq!(answer.status, 400, "{key:?}");
        assert!(
            answer.error().starts_with("invalid Idempotency-Key: "),
            "{}",
            answer.error()
        );
    }
    assert_eq!(server.try_query("SELECT 1", "json").await.status, 404);
}
