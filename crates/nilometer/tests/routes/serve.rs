//! The server on a real socket: who may reach it, and how it ends.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::support::{ServerConfig, engine_on, serve};
use nilometer_engine::disk::MemoryDisk;
use nilometer_http::{Error, HttpConfig, check_bind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

#[test]
fn only_loopback_is_served_without_asking_for_more() {
    let check = |address: &str, insecure| {
        let config = HttpConfig {
            insecure,
            ..HttpConfig::default()
        };
        check_bind(address.parse::<SocketAddr>().unwrap(), false, &config)
    };
    for address in ["127.0.0.1:0", "127.8.8.8:80", "[::1]:8181"] {
        assert!(check(address, false).is_ok(), "{address}");
    }
    for address in [
        "0.0.0.0:0",
        "192.168.0.1:80",
        "[::]:8181",
        "[::ffff:8.8.8.8]:1",
    ] {
        let error = check(address, false).unwrap_err();
        assert!(matches!(error, Error::Insecure { .. }));
        for word in [address, "--insecure", "--tls-cert", "--token-file"] {
            assert!(error.to_string().contains(word), "{word}: {error}");
        }
        assert!(check(address, true).is_ok(), "{address}");
    }
    // A token alone travels in plain text.
    let config = HttpConfig::default();
    let error = check_bind("0.0.0.0:0".parse().unwrap(), true, &config).unwrap_err();
    assert!(error.to_string().contains("does not encrypt"), "{error}");
}

async fn read_answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk).await.unwrap();
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes);
        if count == 0
            || text.ends_with("\r\n\r\n")
            || text.contains("\r\n\r\n") && text.ends_with('\n')
        {
            return text.into_owned();
        }
    }
}

#[tokio::test]
async fn a_stopped_server_answers_what_it_has_begun_and_leaves_a_flushed_store() {
    let engine = engine_on(Arc::new(MemoryDisk::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(serve(
        listener,
        Arc::clone(&engine),
        ServerConfig::default(),
        stopped,
    ));

    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert!(read_answer(&mut idle).await.starts_with("HTTP/1.1 204"));
    // A request whose body is half sent when the server is asked to stop.
    let mut half = TcpStream::connect(address).await.unwrap();
    let head = b"POST /api/v3/write_lp?db=d&precision=ns HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nm v=";
    half.write_all(head).await.unwrap();
    half.write_all(b"7").await.unwrap();
    // The second request of a connection is answered only after the server has read what came before on the first.
    idle.write_all(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert!(read_answer(&mut idle).await.starts_with("HTTP/1.1 204"));
    while !metrics_of(address)
        .await
        .contains("nilometer_http_requests_running 2\n")
    {}
    stop.send(()).unwrap();
    half.write_all(b" 42").await.unwrap();
    assert!(read_answer(&mut half).await.starts_with("HTTP/1.1 204"));
    server.await.unwrap().unwrap();
    let metrics = engine.metrics();
    assert_eq!(
        (metrics.head_rows, metrics.segments, metrics.segment_rows),
        (0, 1, 1)
    );
    assert!(
        TcpStream::connect(address).await.is_err(),
        "the socket is still open"
    );
}

async fn metrics_of(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_refused_body_that_is_still_being_sent_does_not_hide_the_refusal() {
    let engine = engine_on(Arc::new(MemoryDisk::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let config = ServerConfig {
        body_bytes_max: 1000,
        ..ServerConfig::default()
    };
    let server = tokio::spawn(serve(listener, engine, config, stopped));
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = 8 << 20;
    let head = format!(
        "POST /api/v3/write_lp?db=d HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'x'; length]).await.unwrap();
    let answer = read_answer(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 413") && answer.contains("body-bytes-max"),
        "{answer}"
    );
    drop(stream);
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_sends_no_request_is_dropped_after_its_time() {
    let engine = engine_on(Arc::new(MemoryDisk::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let config = ServerConfig {
        header_read_ms_max: 20,
        connections_max: 1,
        ..ServerConfig::default()
    };
    let server = tokio::spawn(serve(listener, engine, config, stopped));
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"GET /ping HTT").await.unwrap();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).await.unwrap();
    // The only place is free again.
    let mut next = TcpStream::connect(address).await.unwrap();
    next.write_all(b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert!(read_answer(&mut next).await.starts_with("HTTP/1.1 204"));
    drop(next);
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}
