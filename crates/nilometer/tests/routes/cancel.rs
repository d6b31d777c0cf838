//! A query ends when its client goes: its turn, its memory and its threads are free for the next one.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use nilometer_engine::disk::MemoryDisk;
use nilometer_service::QueryOptions as SqlOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::support::{Server, ServerConfig, engine_on, serve};

/// 2.7e10 combinations: minutes of work, hardly any memory.
const LONG: &str = "SELECT sum(a.v + b.v + c.v) AS s FROM m a, m b, m c";
/// As many rows, which a client that reads slowly holds up.
const WIDE: &str = "SELECT a.v, b.v AS w, c.v AS x FROM m a, m b, m c";

/// As many, of which none has a row to show: it never comes up for air by itself.
const FRUITLESS: &str = "SELECT count(*) FROM m a, m b, m c WHERE a.v + b.v + c.v < 0";

async fn fill(server: &Server) {
    let lines: Vec<String> = (0..3000).map(|n| format!("m v={n} {n}")).collect();
    assert_eq!(server.write(lines.join("\n")).await.status, 204);
}

async fn metric(address: SocketAddr, name: &str) -> u64 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
    lines
        .next()
        .unwrap_or_else(|| panic!("no {name}"))
        .trim()
        .parse()
        .unwrap()
}

async fn until(address: SocketAddr, name: &str, wanted: u64) {
    while metric(address, name).await != wanted {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_whose_client_goes_is_stopped_and_frees_what_it_had() {
    let engine = engine_on(Arc::new(MemoryDisk::default()));
    fill(&Server::over(Arc::clone(&engine), ServerConfig::default())).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let config = ServerConfig {
        queries_max: 1,
        queries_waiting_max: 2,
        ..ServerConfig::default()
    };
    let server = tokio::spawn(serve(listener, engine, config, stopped));
    for (n, sql) in [LONG, WIDE, FRUITLESS, WIDE].into_iter().enumerate() {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("db", "d")
            .append_pair("q", sql)
            .append_pair("format", "csv")
            .finish();
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /api/v3/query_sql?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        until(address, "nilometer_queries_running", 1).await;
        if sql == WIDE {
            let mut first = [0; 1000];
            client.read_exact(&mut first).await.unwrap();
        }
        // The only turn is taken, so another query waits, and goes too.
        let mut waiting = TcpStream::connect(address).await.unwrap();
        waiting.write_all(request.as_bytes()).await.unwrap();
        drop(waiting);
        drop(client);
        until(address, "nilometer_queries_running", 0).await;
        until(address, "nilometer_memory_bytes{use=\"query\"}", 0).await;
        let cancelled = metric(address, "nilometer_queries_cancelled_total").await;
        assert!(cancelled > n as u64, "{cancelled} after {n}");
        let name = "nilometer_http_requests_total{route=\"/api/v3/query_sql\",status=\"499\"}";
        assert!(metric(address, name).await > 0, "nobody counted it");
        // The turn is free.
        let mut next = TcpStream::connect(address).await.unwrap();
        let request = "GET /api/v3/query_sql?db=d&q=SELECT+1+AS+one&format=csv HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        next.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        next.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with("one\n1\n"), "{text}");
    }
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn whole_answers_are_not_counted_as_cancelled() {
    let server = Server::new();
    fill(&server).await;
    for format in ["json", "csv", "arrow", "parquet"] {
        assert_eq!(
            server.try_query("SELECT v FROM m", format).await.status,
            200
        );
    }
    let text = server.get("/metrics").await.text().to_owned();
    assert!(
        text.contains("nilometer_queries_cancelled_total 0\n"),
        "{text}"
    );
}

/// The story: an answer looked at its time only when it was asked for rows, and nobody asked
/// while its client did not read. Such a client held a turn for as long as it held the connection, and as many of them as
/// there are turns kept everybody else from asking anything.
#[tokio::test]
async fn a_client_that_does_not_read_holds_its_turn_no_longer_than_a_query_may_take() {
    let engine = engine_on(Arc::new(MemoryDisk::default()));
    let config = ServerConfig {
        queries_max: 1,
        queries_waiting_max: 1,
        sql: SqlOptions {
            query_ms_max: 300,
            ..SqlOptions::default()
        },
        ..ServerConfig::default()
    };
    let server = Server::over(engine, config);
    fill(&server).await;
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("db", "d")
        .append_pair("q", WIDE)
        .append_pair("format", "csv")
        .finish();
    let request = Request::get(format!("/api/v3/query_sql?{query}"));
    let unread = server.respond(request.body(Body::empty()).unwrap()).await;
    assert_eq!(unread.status(), 200);
    let next = server.query("SELECT count(*) AS n FROM m", "csv").await;
    assert_eq!(next, "n\n3000\n");
    // Whoever reads on sees that the answer broke off, and does not take it for a whole one.
    assert!(unread.into_body().collect().await.is_err());
}
