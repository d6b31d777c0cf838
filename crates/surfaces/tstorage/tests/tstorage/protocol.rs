//! Requests and answers, byte by byte.

use crate::client::{
    Answer, Key, MAX, MIN, Record, get_acq_request, get_request, header, put_request, record,
};
use crate::server::World;

/// Nanoseconds from 2001 to 2016, where the reference's example has it: `0 0 0 473299200000000000`.
const YEAR_2016: i64 = 473_299_200_000_000_000;

fn key(cid: i32, cap: i64) -> Key {
    (cid, 0, 0, cap, 0)
}

/// What was put, with the stamps that it was read with.
fn assert_same(read: &[Record], put: &[Record]) {
    let bare = |records: &[Record]| {
        let mut bare: Vec<_> = records
            .iter()
            .map(|it| ((it.key.0, it.key.1, it.key.2, it.key.3), it.payload.clone()))
            .collect();
        bare.sort();
        bare
    };
    assert_eq!(bare(read), bare(put));
}

#[test]
fn records_come_back_with_their_exact_bytes_in_an_answer_of_exact_length() {
    let server = World::default().start();
    let mut client = server.connect();
    let put = [
        record(key(0, YEAR_2016), hex("0000003a00000002")),
        record(key(0, YEAR_2016 + 1), ""),
        record((7, -5, -6, 12, 0), vec![0xFF; 1000]),
    ];
    let (first, last) = client.put(&put).ok();
    assert_eq!(last - first, 2);
    client.read = 0;
    let (read, acq0) = client.get(MIN, MAX).ok();
    assert_same(&read, &put);
    let payloads: u64 = put.iter().map(|it| it.payload.len() as u64).sum();
    assert_eq!(client.read, 36 + 3 * 36 + payloads);
    assert!(acq0 > last);
    let mut stamps: Vec<i64> = read.iter().map(|it| it.key.4).collect();
    stamps.sort_unstable();
    assert_eq!(stamps, [first, first + 1, last]);
}

fn hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn nothing_is_a_set_of_records_too() {
    let server = World::default().start();
    let mut client = server.connect();
    // There is no table yet.
    let (read, acq0) = client.get(MIN, MAX).ok();
    assert_eq!((read, client.read), (Vec::new(), 36));
    let (first, last) = client.put(&[]).ok();
    assert!(first >= acq0 && first == last);
    assert_eq!(client.puta(&[]).ok(), (-1, -1));
    assert!(client.get_acq(MIN, MAX).ok() >= last);
    // The integration tests of the vendor's client ask so.
    assert!(client.get_acq(MIN, (0, 0, 0, 0, i64::MAX)).ok() >= last);
}

#[test]
fn every_side_of_a_box_takes_its_minimum_and_leaves_its_maximum() {
    let server = World::default().start();
    let mut client = server.connect();
    let points = [-1_i32, 0, 1];
    let mut all = Vec::new();
    for mid in points {
        for moid in points {
            for cap in points {
                for acq in points {
                    for cid in [0, 1, 2] {
                        let wide = |n: i32| i64::from(n);
                        let key = (cid, wide(mid), moid, wide(cap), wide(acq));
                        all.push(record(key, format!("{key:?}")));
                    }
                }
            }
        }
    }
    assert_eq!(client.puta(&all).ok(), (-1, -1));
    let min = (1, 0, 0, 0, 0);
    let max = (2, 1, 1, 1, 1);
    let expected = [record(min, format!("{min:?}"))];
    assert_eq!(client.get(min, max).ok().0, expected);
    // A box is no range of sorted keys: all of these have a component that is outside.
    let wider = client.get((1, -1, 0, 0, 0), (3, 1, 1, 1, 1)).ok().0;
    let keys: Vec<Key> = wider.iter().map(|it| it.key).collect();
    assert_eq!(
        keys,
        [
            (1, -1, 0, 0, 0),
            (1, 0, 0, 0, 0),
            (2, -1, 0, 0, 0),
            (2, 0, 0, 0, 0)
        ]
    );
    assert_eq!(client.get(MIN, MAX).ok().0.len(), all.len());
}

#[test]
fn what_cannot_be_asked_is_an_error_and_the_connection_ends() {
    let server = World::default().start();
    let now = server.connect().get_acq(MIN, MAX).ok();
    let hour = 3_600_000_000_000;
    let empty: Vec<(Key, Key)> = vec![
        ((1, 0, 0, 0, 0), (1, 1, 1, 1, 1)),
        ((0, 1, 0, 0, 0), (1, 1, 1, 1, 1)),
        ((0, 0, 1, 0, 0), (1, 1, 1, 1, 1)),
        ((0, 0, 0, 2, 0), (1, 1, 1, 1, 1)),
        ((0, 0, 0, 0, 1), (1, 1, 1, 1, 1)),
    ];
    let mut wrong: Vec<Vec<u8>> = empty
        .into_iter()
        .map(|(min, max)| get_request(min, max))
        .collect();
    let later = (0, 0, 0, 0, now + hour);
    wrong.extend([
        get_request((-1, 0, 0, 0, 0), MAX),
        get_acq_request((-1, 0, 0, 0, 0), MAX),
        get_request(later, MAX),
        get_acq_request(later, MAX),
        header(0, 0),
        header(2, 64),
        header(-1, 0),
        header(1, 63),
        header(7, 0),
        header(1, u64::MAX),
        header(5, 1 << 40),
        [header(5, 0), (-2_i32).to_le_bytes().to_vec()].concat(),
        [
            header(5, 0),
            1_i32.to_le_bytes().to_vec(),
            (-1_i32).to_le_bytes().to_vec(),
        ]
        .concat(),
        // A record that is shorter than its key, and one that is longer than its batch.
        [header(5, 0), words(&[1, 24, 19])].concat(),
        [header(5, 0), words(&[1, 24, 21])].concat(),
        [header(6, 0), words(&[1, 32, 27])].concat(),
        [header(5, 0), words(&[1, 40 << 20, (32 << 20) + 21])].concat(),
    ]);
    for request in wrong {
        let mut client = server.connect();
        client.send(&request);
        let answer = client.rest().unwrap();
        let error = [&(-1_i32).to_le_bytes()[..], &[0; 8]].concat();
        assert_eq!(answer, error, "{request:?}");
    }
}

fn words(words: &[i32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn what_a_request_has_beside_its_keys_is_skipped() {
    let server = World::default().start();
    let mut client = server.connect();
    let put = [record(key(3, 30), "x")];
    let plain = put_request(&put, false);
    client.send(&[header(5, 5), vec![9; 5], plain[12..].to_vec()].concat());
    client.read_put().ok();
    let plain = get_request(MIN, MAX);
    client.send(&[header(1, 70), vec![9; 6], plain[12..].to_vec()].concat());
    assert_same(&client.read_get().ok().0, &put);
}

#[test]
fn requests_are_answered_in_their_order_however_many_are_sent_at_once() {
    let server = World::default().start();
    let mut client = server.connect();
    let mut requests = Vec::new();
    let puts: Vec<Record> = (0..50)
        .map(|n| record(key(n, n.into()), vec![1; 10]))
        .collect();
    for put in &puts {
        requests.extend(put_request(std::slice::from_ref(put), false));
        requests.extend(get_request(MIN, MAX));
    }
    requests.extend(get_acq_request(MIN, MAX));
    client.send(&requests);
    let mut last = i64::MIN;
    for n in 1..=puts.len() {
        let (first, _) = client.read_put().ok();
        assert!(first > last);
        last = first;
        // A read sees every write that was acknowledged before it.
        assert_same(&client.read_get().ok().0, &puts[..n]);
    }
    assert!(client.read_acq().ok() > last);
}

/// The same key with another acquisition time is another record.
#[test]
fn nothing_is_overwritten() {
    let server = World::default().start();
    let mut client = server.connect();
    let put = [record(key(1, 1), "a"), record(key(1, 1), "b")];
    client.put(&put).ok();
    client.put(&put).ok();
    let (read, _) = client.get(MIN, MAX).ok();
    assert_eq!(read.len(), 4);
    let exact = [record((1, 1, 1, 1, 5), "c"), record((1, 1, 1, 1, 5), "c")];
    client.puta(&exact).ok();
    let (read, _) = client.get((1, 1, 1, 1, 5), (2, 2, 2, 2, 6)).ok();
    assert_eq!(read, exact);
}

#[test]
fn a_copy_by_puta_is_exact() {
    let (from, to) = (World::default().start(), World::default().start());
    let mut client = from.connect();
    for n in 0..10 {
        client
            .put(&[record(key(n, 1), "v"), record((n, 1, 2, 3, 0), [0, 1, 2])])
            .ok();
    }
    let (records, acq0) = client.get(MIN, MAX).ok();
    let mut other = to.connect();
    assert_eq!(other.puta(&records).ok(), (-1, -1));
    let until = (i32::MAX, i64::MAX, i32::MAX, i64::MAX, acq0);
    assert_eq!(other.get(MIN, until).ok().0, records);
}

/// Boxes end below their upper corner, so these can never be read: the protocol accepts them and nothing becomes of them.
#[test]
fn records_at_the_largest_key_are_accepted_and_counted() {
    let server = World::default().start();
    let mut client = server.connect();
    let unreachable = [
        record((i32::MAX, 0, 0, 0, 0), "a"),
        record((0, i64::MAX, 0, 0, 0), "b"),
        record((0, 0, i32::MAX, 0, 0), "c"),
        record((0, 0, 0, i64::MAX, 0), "d"),
    ];
    client.put(&unreachable).ok();
    client.puta(&[record((0, 0, 0, 0, i64::MAX), "e")]).ok();
    let below = record((i32::MAX - 1, i64::MAX - 1, i32::MAX - 1, 0, 0), "f");
    client.put(std::slice::from_ref(&below)).ok();
    assert_same(&client.get(MIN, MAX).ok().0, &[below]);
    let counted = server.service.counters().of_surfaces();
    let counted = |name| {
        counted
            .iter()
            .find(|(metric, _)| metric.name == name)
            .unwrap()
            .1
    };
    assert_eq!(counted("tstorage_records_unreachable_total"), 5);
    assert_eq!(counted("tstorage_records_written_total"), 1);
}

#[test]
fn times_before_2001_are_times_and_those_after_2262_are_refused() {
    let server = World::default().start();
    let mut client = server.connect();
    // The last time that the store has: 2262-04-11T23:47:16.854775806Z, less 978307200 seconds.
    let last = i64::MAX - 1 - 978_307_200_000_000_000;
    let put = [
        record(key(1, i64::MIN), "the first there is"),
        record(key(1, -1), "the last of 2000"),
        record(key(1, last), "the last there is"),
    ];
    client.put(&put).ok();
    assert_same(&client.get(MIN, MAX).ok().0, &put);
    let before = client
        .get((1, 0, 0, -1, i64::MIN), (2, 1, 1, 0, i64::MAX))
        .ok()
        .0;
    assert_same(&before, &put[1..2]);
    let late = [record(key(1, last + 1), "")];
    assert_eq!(client.put(&late), Answer::Status(-1));
}

#[test]
fn connections_beyond_the_limit_are_turned_away() {
    let mut world = World::default();
    world.config.connections_max = 2;
    let server = world.start();
    let mut clients = [server.connect(), server.connect()];
    for client in &mut clients {
        client.get_acq(MIN, MAX).ok();
    }
    assert_eq!(server.connect().rest().unwrap_or_default(), b"");
    drop(clients);
    // A place is free once the server has seen that somebody went.
    while server.connect().rest_of_one_request().is_empty() {}
}

#[test]
fn a_server_that_stops_ends_idle_connections() {
    let server = World::default().start();
    let mut client = server.connect();
    client.get_acq(MIN, MAX).ok();
    drop(server);
    assert_eq!(client.rest().unwrap(), b"");
}

#[test]
fn a_payload_beyond_the_limit_is_refused() {
    let mut world = World::default();
    world.config.payload_bytes_max = 10;
    let server = world.start();
    let mut client = server.connect();
    client.put(&[record(key(1, 1), vec![0; 10])]).ok();
    let refused = client.put(&[record(key(1, 1), vec![0; 11])]);
    assert_eq!(refused, Answer::Status(-1));
    let limits = server.service.counters().limits_hit.get();
    assert_eq!(limits["tstorage-payload-bytes-max"], 1);
}
