//! Cost of a GET of every host: scenario 3 of the benchmark R5, in one process, to be run under a profiler.
//!
//! `cargo run --release -p nilometer-tstorage --example every_host -- HOSTS DAYS QUERIES FORMAT`. Loads a record of ten integers every five
//! minutes of each host by PUT into a store in memory with segments of this format, settles it, asks for 12 hours of every host again and again, and reads the
//! answers without looking at them. `nilometer bench tstorage` is the benchmark itself.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed unwrap is the report, and the figures are the output"
)]
#![allow(dead_code, reason = "the tests use more of the client and the server")]

use std::io::{BufReader, Read};
use std::time::Instant;

use client::{Client, MAX, MIN, Record, get_request, put_request, record};

#[path = "../tests/tstorage/client.rs"]
mod client;
#[path = "../tests/tstorage/server.rs"]
mod server;

const EVERY_NS: i64 = 300_000_000_000;
const HALF_DAY_NS: i64 = 144 * EVERY_NS;
/// Records of a PUT.
const PUT_RECORDS: usize = 30_000;

/// A small generator, so that the figures repeat.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .map(|it| it.parse().unwrap())
        .collect();
    let [hosts, days, queries, format] = numbers[..] else {
        panic!("HOSTS DAYS QUERIES FORMAT");
    };
    let mut world = server::World::default();
    world.options.segment_format = u16::try_from(format).unwrap();
    let server = world.start();
    let mut client = server.connect();
    load(&mut client, hosts, days);
    server.engine.settle().unwrap();
    let segments = server.engine.snapshot().segments();
    println!(
        "{} segments, {} bytes",
        segments.len(),
        segments.iter().map(|it| it.bytes).sum::<u64>()
    );
    let mut noise = Noise(7);
    let mut answers = BufReader::with_capacity(256 << 10, client.socket.try_clone().unwrap());
    let mut times: Vec<f64> = (0..queries)
        .map(|_| {
            let span = days as i64 * 2 * HALF_DAY_NS - HALF_DAY_NS;
            let first = noise.below(span as u64) as i64;
            let (mut min, mut max) = (MIN, MAX);
            (min.3, max.3) = (first, first + HALF_DAY_NS);
            let begun = Instant::now();
            client.send(&get_request(min, max));
            let records = read(&mut answers);
            assert_eq!(records, hosts * 144);
            begun.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{queries} times every host, 12 h: median {:.1} ms, least {:.1}",
        times[times.len() / 2],
        times[0]
    );
}

fn load(client: &mut Client, hosts: u64, days: u64) {
    let mut noise = Noise(1);
    let mut walks = vec![[50_i32; 10]; usize::try_from(hosts).unwrap()];
    let (mut records, mut seconds, mut count) = (Vec::<Record>::new(), 0.0, 0);
    let mut put = |records: &mut Vec<Record>| {
        let request = put_request(records, false);
        count += records.len();
        records.clear();
        let begun = Instant::now();
        client.send(&request);
        client.read_put().ok();
        seconds += begun.elapsed().as_secs_f64();
    };
    for tick in 0..288 * days as i64 {
        for (host, walk) in (0..).zip(&mut walks) {
            let mut payload = Vec::with_capacity(40);
            for number in walk {
                // About normal, as the steps of the data set are.
                let step = (0..4)
                    .map(|_| i32::try_from(noise.below(100)).unwrap())
                    .sum::<i32>()
                    - 198;
                *number = (*number * 60 + step).clamp(0, 6000) / 60;
                payload.extend(number.to_be_bytes());
            }
            records.push(record((host, 0, 0, tick * EVERY_NS, 0), payload));
            if records.len() == PUT_RECORDS {
                put(&mut records);
            }
        }
    }
    put(&mut records);
    println!(
        "{count} records, {:.0} a second, one PUT at a time",
        count as f64 / seconds
    );
}

/// Reads one answer and counts its records.
fn read(answers: &mut impl Read) -> u64 {
    let mut word = [0; 4];
    let mut rest = vec![0; 1 << 20];
    answers.read_exact(&mut rest[..12]).unwrap();
    let mut records = 0;
    loop {
        answers.read_exact(&mut word).unwrap();
        let size = usize::try_from(i32::from_le_bytes(word)).unwrap();
        if size == 0 {
            break;
        }
        answers.read_exact(&mut rest[..size]).unwrap();
        records += 1;
    }
    answers.read_exact(&mut rest[..20]).unwrap();
    records
}
