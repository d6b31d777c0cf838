//! Large payloads, and answers larger than what a connection may hold.

use crate::client::{MAX, MIN, Record, record};
use crate::server::World;

#[test]
fn the_largest_payload_comes_back_from_memory_and_from_files() {
    let world = World::default();
    let payload: Vec<u8> = (0..32_u32 << 20)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let put = [
        record((1, 1, 1, 1, 1), payload),
        record((1, 1, 1, 1, 2), "small"),
    ];
    {
        let server = world.start();
        let mut client = server.connect();
        client.puta(&put).ok();
        assert!(client.get(MIN, MAX).ok().0 == put);
    }
    let server = world.start();
    assert!(server.connect().get(MIN, MAX).ok().0 == put);
}

/// More records than a chunk, than a slice and than a batch has, of one series and of many, in files and in memory.
#[test]
fn many_records_come_back_whole() {
    let world = World::default();
    let mut expected: Vec<Record> = Vec::new();
    for round in 0..3 {
        let server = world.start();
        let mut client = server.connect();
        let records: Vec<Record> = (0..60_000_i64)
            .map(|n| {
                let cid = if n % 3 == 0 {
                    1
                } else {
                    i32::try_from(n % 500).unwrap()
                };
                record((cid, 0, 0, n * 7 + round, n), n.to_le_bytes().repeat(3))
            })
            .collect();
        // Two requests, the second of which is read while the first is stored.
        let (one, other) = records.split_at(1000);
        let requests = [one, other]
            .map(|it| crate::client::put_request(it, true))
            .concat();
        client.send(&requests);
        client.read_put().ok();
        client.read_put().ok();
        expected.extend(records);
        expected.sort();
        let read = client.get(MIN, MAX).ok().0;
        assert_eq!(read.len(), expected.len());
        assert!(read == expected, "round {round}");
    }
}
