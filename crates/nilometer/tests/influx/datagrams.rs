//! Line protocol in datagrams.

use std::sync::Arc;
use std::time::Duration;

use nilometer_influx::{DATAGRAM_LINES_LOST, DATAGRAMS, Udp, UdpConfig};
use nilometer_service::{CancellationToken, Surface};
use tokio::net::UdpSocket;

use crate::support::Server;

/// Sends `datagrams` one after the other to a server that writes full batches only, waits until it has read them all,
/// and stops listening; answers the server.
async fn send(batch_lines_max: usize, datagrams: &[&[u8]]) -> Server {
    let server = Server::new();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    // A batch waits longer for its last line than the test takes.
    let config = UdpConfig {
        database: "udp".to_owned(),
        batch_lines_max,
        batch_ms_max: 600_000,
    };
    let stop = CancellationToken::new();
    let surface = Box::new(Udp { socket, config });
    let serving = tokio::spawn(surface.serve(Arc::clone(&server.service), stop.clone()));
    let sender = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for datagram in datagrams {
        sender.send_to(datagram, address).await.unwrap();
    }
    let counters = server.service.counters();
    tokio::time::timeout(Duration::from_mins(1), async {
        while counters.counter(&DATAGRAMS).get() < datagrams.len() as u64 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    stop.cancel();
    serving.await.unwrap().unwrap();
    server
}

async fn assert_counted(server: &Server, rows: u64, lines_lost: u64) {
    let path = "/query?db=udp&q=select+count(v)+from+m";
    let answer = server.send("POST", path, &[], "").await;
    assert!(
        answer.text().contains(&format!("Z\",{rows}]")),
        "{}",
        answer.text()
    );
    assert_eq!(
        server
            .service
            .counters()
            .counter(&DATAGRAM_LINES_LOST)
            .get(),
        lines_lost
    );
}

/// The second line fills a batch; the third is written because the server stops.
#[tokio::test]
async fn lines_of_datagrams_are_written_together_and_the_last_ones_when_it_stops() {
    let server = send(2, &[b"m v=1 1", b"m v=2 2\n", b"m v=3 3"]).await;
    assert_counted(&server, 3, 0).await;
}

/// Lines that are no line protocol, or clash with their table, went without a trace: their sender hears nothing, and neither
/// the log nor the counter said it.
#[tokio::test]
async fn lines_that_cannot_be_kept_are_counted() {
    let datagrams: [&[u8]; 3] = [b"m v=1 1\nno line", b"m v=\"text\" 2", b"\xff\xfe"];
    let server = send(UdpConfig::default().batch_lines_max, &datagrams).await;
    assert_counted(&server, 1, 3).await;
}
