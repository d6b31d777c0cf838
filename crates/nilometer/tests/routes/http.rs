//! What holds for every route, and the routes about the server itself.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Server, ServerConfig};
use axum::body::Body;
use axum::http::Request;
use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk, MemoryDisk};
use nilometer_engine::{Clock, Engine, Options, SystemClock};

#[tokio::test]
async fn every_answer_has_a_request_id_and_a_clients_own_comes_back() {
    let server = Server::new();
    let mut ids = std::collections::BTreeSet::new();
    for path in [
        "/ping",
        "/health",
        "/metrics",
        "/nowhere",
        "/api/v3/query_sql",
        "/api/v3/write_lp",
    ] {
        let id = server.get(path).await.header("x-request-id").to_owned();
        assert!(!id.is_empty(), "{path}");
        assert!(ids.insert(id), "{path}: an id came twice");
    }
    for name in ["x-request-id", "request-id"] {
        let request = Request::get("/ping")
            .header(name, "abc-123")
            .body(Body::empty())
            .unwrap();
        assert_eq!(server.send(request).await.header("x-request-id"), "abc-123");
    }
    let long = "a".repeat(129);
    for bad in ["two words", long.as_str()] {
        let request = Request::get("/ping")
            .header("x-request-id", bad)
            .body(Body::empty())
            .unwrap();
        assert_ne!(server.send(request).await.header("x-request-id"), bad);
    }
}

#[tokio::test]
async fn ping_is_empty_and_names_the_version() {
    let server = Server::new();
    let answer = server.get("/ping").await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    assert_eq!(
        answer.header("x-nilometer-version"),
        env!("CARGO_PKG_VERSION")
    );
    let head = Request::head("/ping").body(Body::empty()).unwrap();
    assert_eq!(server.send(head).await.status, 204);
}

#[tokio::test]
async fn a_healthy_server_says_so_and_how_durable_it_is() {
    let answer = Server::new().get("/health").await;
    assert_eq!(answer.status, 200);
    let body = answer.json();
    assert_eq!(body["name"], "nilometer");
    assert_eq!(body["status"], "pass");
    assert_eq!(body["message"], "ready for queries and writes");
    assert_eq!(body["durability"], "sync");
    assert_eq!(body["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(body["checks"], serde_json::json!([]));
}

#[tokio::test]
async fn unknown_routes_and_methods_are_refused_in_json() {
    let server = Server::new();
    let answer = server.get("/nowhere").await;
    assert_eq!(
        (answer.status, answer.error()),
        (404, "no such route: /nowhere".to_owned())
    );
    let answer = server.get("/api/v3/write_lp").await;
    assert_eq!(
        (answer.status, answer.error()),
        (405, "/api/v3/write_lp does not take GET".to_owned())
    );
    assert_eq!(answer.header("allow"), "POST");
}

#[tokio::test]
async fn metrics_count_what_happened_and_every_value_has_help_and_type() {
    let server = Server::new();
    assert_eq!(
        server
            .write("m,host=a v=1i 1\nm,host=b v=2i 1\nbad")
            .await
            .status,
        400
    );
    assert_eq!(
        server.try_query("SELECT v FROM m", "json").await.status,
        200
    );
    assert_eq!(server.get("/nowhere").await.status, 404);
    let answer = server.get("/metrics").await;
    assert!(
        answer
            .header("content-type")
            .starts_with("text/plain; version=0.0.4")
    );
    let text = answer.text();
    for line in [
        "nilometer_head_rows 2",
        "nilometer_segments 0",
        "nilometer_series 2",
        "nilometer_rows_written_total 2",
        "nilometer_write_lines_rejected_total 1",
        "nilometer_query_rows_total 2",
        "nilometer_http_requests_total{route=\"/api/v3/write_lp\",status=\"400\"} 1",
        "nilometer_http_requests_total{route=\"/api/v3/query_sql\",status=\"200\"} 1",
        "nilometer_http_requests_total{route=\"other\",status=\"404\"} 1",
        "nilometer_http_request_seconds_bucket{route=\"/api/v3/write_lp\",le=\"+Inf\"} 1",
        "nilometer_http_request_seconds_count{route=\"/api/v3/write_lp\"} 1",
        "nilometer_http_requests_running 1",
        "nilometer_poisoned 0",
        "nilometer_memory_refusals_total 0",
        "nilometer_segments_damaged 0",
        "nilometer_tombstones 0",
        "nilometer_partitions 0",
        "nilometer_idempotency_keys 0",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "no {line:?} in\n{text}"
        );
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split([' ', '{']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        let has = |kind: &str| {
            text.contains(&format!("# {kind} {name} "))
                || text.contains(&format!("# {kind} {family} "))
        };
        assert!(has("HELP") && has("TYPE"), "{name}");
    }
    server.engine.flush().unwrap();
    let text = server.get("/metrics").await.text().to_owned();
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let value: u64 = lines.next().unwrap().trim().parse().unwrap();
        value
    };
    assert!(value("nilometer_segment_bytes ") > 0);
    assert_eq!(
        value("nilometer_segment_bytes "),
        value("nilometer_segment_bytes_written_total ")
    );
    assert!(value("nilometer_memory_budget_bytes ") > 0);
    let parts = ["head", "cache", "index", "compaction", "query"];
    let parts = parts.map(|it| value(&format!("nilometer_memory_bytes{{use=\"{it}\"}} ")));
    let together: u64 = parts.iter().sum();
    assert!(
        together <= value("nilometer_memory_budget_bytes "),
        "{text}"
    );
    assert!(
        text.contains("nilometer_segments 1\n") && text.contains("nilometer_head_rows 0\n"),
        "{text}"
    );
}

/// A server whose disk fails from its second write on.
fn failing(plan: impl Fn(&[u64]) -> CrashPlan) -> (Arc<Engine>, Server, impl Fn()) {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = crate::support::engine_on(Arc::new(disk.clone()));
    let server = Server::over(Arc::clone(&engine), ServerConfig::default());
    let all: Vec<u64> = (0..100).collect();
    let plan = plan(&all);
    (engine, server, move || disk.set_plan(plan.clone()))
}

#[tokio::test]
async fn after_a_failed_sync_writes_are_refused_health_fails_and_reads_go_on() {
    let (_engine, server, fail) = failing(|calls| CrashPlan {
        fail_sync_at: calls.to_vec(),
        ..CrashPlan::default()
    });
    assert_eq!(server.write("m v=1i 1").await.status, 204);
    fail();
    assert!(server.write("m v=2i 2").await.status >= 500);
    let answer = server.write("m v=3i 3").await;
    assert_eq!(answer.status, 503);
    assert!(
        answer
            .error()
            .contains("see to the cause, mostly the disk, then restart"),
        "{}",
        answer.error()
    );
    let health = server.get("/health").await;
    assert_eq!(
        (
            health.status,
            health.json()["status"].as_str().unwrap().to_owned()
        ),
        (503, "fail".to_owned())
    );
    assert!(
        server
            .get("/metrics")
            .await
            .text()
            .contains("nilometer_poisoned 1\n")
    );
    assert_eq!(
        server.query("SELECT v FROM m", "jsonl").await,
        "{\"v\":1}\n",
        "an unsynced row is visible"
    );
}

#[tokio::test]
async fn a_full_disk_refuses_the_write_with_its_reason_and_reads_go_on() {
    let (_engine, server, fail) = failing(|calls| CrashPlan {
        fail_write_at: calls.to_vec(),
        ..CrashPlan::default()
    });
    assert_eq!(server.write("m v=1i 1").await.status, 204);
    fail();
    let answer = server.write("m v=2i 2").await;
    assert!(matches!(answer.status, 503 | 507), "{}", answer.text());
    assert!(
        answer.error().contains("storage space"),
        "{}",
        answer.text()
    );
    assert_eq!(
        server.query("SELECT v FROM m", "jsonl").await,
        "{\"v\":1}\n"
    );
}

/// A second passes whenever somebody looks.
#[derive(Debug, Default)]
struct Hurried(AtomicU64);

impl Clock for Hurried {
    fn now_ns(&self) -> i64 {
        0
    }

    fn monotonic_ms(&self) -> u64 {
        self.0.fetch_add(1000, Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_disk_below_its_reserve_refuses_writes_with_507_and_takes_them_again_by_itself() {
    let disk = MemoryDisk::default();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = Options {
        disk_reserve_bytes: Some(1 << 30),
        ..Options::default()
    };
    let clock = Arc::new(Hurried::default());
    let engine = Engine::open(shared, clock, Path::new("/data"), options).unwrap();
    let server = Server::over(Arc::new(engine), ServerConfig::default());
    assert_eq!(server.write("m v=1i 1").await.status, 204);
    disk.set_capacity(1 << 29);
    let answer = server.write("m v=1i 1").await;
    assert_eq!(answer.status, 507, "{}", answer.text());
    assert!(
        answer.error().contains("disk_reserve_bytes"),
        "{}",
        answer.error()
    );
    assert_eq!(
        server.query("SELECT v FROM m", "jsonl").await,
        "{\"v\":1}\n"
    );
    let text = server.get("/metrics").await.text().to_owned();
    for line in [
        "nilometer_disk_full_refusals_total 1\n",
        "nilometer_limits_hit_total{setting=\"disk-reserve-bytes\"} 1\n",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    disk.set_capacity(u64::MAX);
    assert_eq!(server.write("m v=2i 2").await.status, 204);
}

#[tokio::test]
async fn a_write_of_too_many_rows_is_413_with_the_settings_name() {
    let options = Options {
        batch_rows_max: 10,
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/data"), options).unwrap();
    let server = Server::over(Arc::new(engine), ServerConfig::default());
    let lines: Vec<String> = (0..11).map(|n| format!("m v={n}i {n}\n")).collect();
    let answer = server.write(lines.concat()).await;
    assert_eq!(answer.status, 413);
    assert!(
        answer.error().contains("limited to 10") && answer.error().contains("batch-rows-max"),
        "{}",
        answer.error()
    );
    assert_eq!(server.write(lines[1..].concat()).await.status, 204);
}

#[tokio::test]
async fn memory_over_the_budget_is_503_with_a_time_to_try_again() {
    let options = Options {
        memory_bytes_max: 8 << 20,
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/data"), options).unwrap();
    let server = Server::over(Arc::new(engine), ServerConfig::default());
    let lines: Vec<String> = (0..200_000).map(|n| format!("m v={n}i {n}\n")).collect();
    let answer = server.write(lines.concat()).await;
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("retry-after"), "1");
    assert!(
        answer.error().contains("memory_bytes_max"),
        "{}",
        answer.error()
    );
    assert_eq!(server.write("m v=1i 1").await.status, 204);
}
