//! Line protocol in datagrams.

use std::sync::Arc;
use std::time::Duration;

use nilometer_influx::{Udp, UdpConfig};
use nilometer_service::{CancellationToken, Surface};
use tokio::net::UdpSocket;

use crate::support::Server;

#[tokio::test]
async fn lines_of_datagrams_are_written_together_and_the_last_ones_when_it_stops() {
    let server = Server::new();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    // A batch is full with its second line; the third waits longer than the test takes.
    let config = UdpConfig {
        database: "udp".to_owned(),
        batch_lines_max: 2,
        batch_ms_max: 600_000,
    };
    let stop = CancellationToken::new();
    let surface = Box::new(Udp { socket, config });
    let serving = tokio::spawn(surface.serve(Arc::clone(&server.service), stop.clone()));
    let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for line in ["m v=1 1", "m v=2 2\n", "m v=3 3"] {
        sender.send_to(line.as_bytes(), address).await.unwrap();
    }
    let counters = server.service.counters();
    tokio::time::timeout(Duration::from_mins(1), async {
        while counters.datagrams.get() < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    stop.cancel();
    serving.await.unwrap().unwrap();
    let path = "/query?db=udp&q=select+count(v)+from+m";
    let answer = server.send("POST", path, &[], "").await;
    assert!(answer.text().contains("Z\",3]"), "{}", answer.text());
    assert_eq!(counters.datagram_lines_lost.get(), 0);
}

/// Lines that are no line protocol, or clash with their table, went without a trace: their sender hears nothing, and neither
/// the log nor the counter said it.
#[tokio::test]
async fn lines_that_cannot_be_kept_are_counted() {
    let server = Server::new();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let config = UdpConfig {
        batch_ms_max: 600_000,
        ..UdpConfig::default()
    };
    let stop = CancellationToken::new();
    let surface = Box::new(Udp { socket, config });
    let serving = tokio::spawn(surface.serve(Arc::clone(&server.service), stop.clone()));
    let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for datagram in [&b"m v=1 1\nno line"[..], b"m v=\"text\" 2", b"\xff\xfe"] {
        sender.send_to(datagram, address).await.unwrap();
    }
    let counters = server.service.counters();
    tokio::time::timeout(Duration::from_mins(1), async {
        while counters.datagrams.get() < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    stop.cancel();
    serving.await.unwrap().unwrap();
    let path = "/query?db=udp&q=select+count(v)+from+m";
    let answer = server.send("POST", path, &[], "").await;
    assert!(answer.text().contains("Z\",1]"), "{}", answer.text());
    assert_eq!(counters.datagram_lines_lost.get(), 3);
}
