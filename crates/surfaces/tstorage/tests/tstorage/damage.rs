//! Requests that break off or are changed on their way: each is answered or its connection closed, none hangs, and nothing that
//! was acknowledged is lost.

use std::collections::BTreeSet;

use crate::client::{MAX, MIN, Record, get_acq_request, get_request, put_request, record};
use crate::server::World;

/// A world whose server gives up soon on a client that does not go on.
fn world() -> World {
    let mut world = World::default();
    world.config.stall_ms_max = 50;
    world
}

fn requests() -> Vec<Vec<u8>> {
    let records = [
        record((1, 2, 3, 4, 5), "payload"),
        record((1, 2, 3, 5, 5), ""),
        record((2, -2, -3, 4, 5), [0; 20]),
    ];
    vec![
        put_request(&records, false),
        put_request(&records, true),
        get_request(MIN, MAX),
        get_acq_request(MIN, MAX),
    ]
}

const KEPT: u8 = 0xAA;

fn kept(records: &[Record]) -> Vec<&Record> {
    let own = |it: &&Record| it.payload == [KEPT; 5];
    records.iter().filter(own).collect()
}

#[test]
fn a_request_cut_anywhere_ends_its_connection_and_loses_nothing() {
    let server = world().start();
    let mut steady = server.connect();
    steady.put(&[record((9, 9, 9, 9, 9), [KEPT; 5])]).ok();
    for request in requests() {
        for length in 0..request.len() {
            let mut client = server.connect();
            client.send(&request[..length]);
            client.end();
            // Whatever is said of it, it is said in time.
            let answer = client.rest().unwrap_or_default();
            assert!(
                answer.is_empty() || answer[..4] == (-1_i32).to_le_bytes(),
                "{length}: {answer:?}"
            );
        }
    }
    let (records, _) = steady.get(MIN, MAX).ok();
    assert_eq!(kept(&records).len(), 1);
    // A PUT that breaks off in its only chunk leaves nothing.
    assert_eq!(records.len(), 1);
}

/// The client waits for its answer, and the server for what it thinks is still to come: it gives up in time.
#[test]
fn a_request_with_any_bit_changed_is_answered_or_closed() {
    let server = world().start();
    let mut steady = server.connect();
    steady.put(&[record((9, 9, 9, 9, 9), [KEPT; 5])]).ok();
    let flips: Vec<Vec<u8>> = requests()
        .iter()
        .flat_map(|request| {
            (0..request.len() * 8).map(|bit| {
                let mut flipped = request.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                flipped
            })
        })
        .collect();
    // Many at once: most of the time of those that stall is spent waiting.
    let address = server.address;
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(request) = flips.get(at) else { break };
                    let mut client = crate::client::Client::connect(address);
                    client.send(request);
                    let first = client.first_byte_or_end();
                    client.end();
                    let rest = client.rest().unwrap_or_default();
                    let whole = first.into_iter().chain(rest).collect::<Vec<u8>>();
                    let statuses = [0_i32, -1].map(i32::to_le_bytes);
                    assert!(
                        whole.is_empty() || statuses.iter().any(|status| whole.starts_with(status)),
                        "{request:?}: {whole:?}"
                    );
                }
            });
        }
    });
    let (records, _) = steady.get(MIN, MAX).ok();
    assert_eq!(kept(&records).len(), 1);
    let known: BTreeSet<usize> = records.iter().map(|it| it.payload.len()).collect();
    assert!(known.iter().all(|length| *length <= 20 + 7), "{known:?}");
}

/// A client that does not go on is told so, and so is one that keeps sending after an error.
#[test]
fn a_client_that_stalls_within_a_request_is_told_and_let_go() {
    let server = world().start();
    let mut client = server.connect();
    client.send(&put_request(&[record((1, 1, 1, 1, 1), "x")], false)[..20]);
    let answer = client.rest().unwrap();
    assert_eq!(answer[..4], (-1_i32).to_le_bytes());
    let mut client = server.connect();
    let mut request = crate::client::header(5, 0);
    request.extend((-7_i32).to_le_bytes());
    request.extend(vec![0; 4 << 20]);
    client.send(&request);
    assert_eq!(client.rest().unwrap()[..4], (-1_i32).to_le_bytes());
}

#[test]
fn a_client_that_does_not_take_its_answer_is_let_go() {
    let mut world = World::default();
    world.service.queries_max = 1;
    // Sending so much may take longer than the server below waits.
    let server = world.start();
    let large: Vec<Record> = (0..64)
        .map(|n| record((1, n, 1, 1, 1), vec![7; 1 << 20]))
        .collect();
    server.connect().put(&large).ok();
    drop(server);
    world.config.stall_ms_max = 50;
    let server = world.start();
    let mut client = server.connect();
    // More than the sockets hold; nobody reads it.
    client.send(&get_request(MIN, MAX));
    let mut other = server.connect();
    // It has the only turn until the server gives up on the first.
    let none = (2, 0, 0, 0, i64::MIN);
    assert_eq!(other.get(none, MAX).ok().0, []);
}
