//! What an answer that is larger than the memory that is left for it takes of the server's memory.
//!
//! By hand at any size: `NILOMETER_ANSWER_MB=10240 cargo test --release -p nilometer --test tstorage memory -- --nocapture`.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

use crate::{Program, stopped};

/// Of the answer; `NILOMETER_ANSWER_MB` sets another number.
const ANSWER_MB: u64 = 512;
const MIB: u64 = 1 << 20;

fn header(command: i32, size: u64) -> Vec<u8> {
    [&command.to_le_bytes()[..], &size.to_le_bytes()].concat()
}

/// Records of one mebibyte each, of one series.
fn put(address: &str, records: u64) {
    let mut stream = TcpStream::connect(address).unwrap();
    let payload: Vec<u8> = (0..MIB).map(|at| (at / 4096).to_le_bytes()[0]).collect();
    let size = i32::try_from(payload.len()).unwrap() + 20;
    stream.write_all(&header(5, 0)).unwrap();
    for cap in 0..i64::try_from(records).unwrap() {
        let mut record = 1_i32.to_le_bytes().to_vec();
        record.extend((size + 4).to_le_bytes());
        record.extend(size.to_le_bytes());
        record.extend(0_i64.to_le_bytes());
        record.extend(0_i32.to_le_bytes());
        record.extend(cap.to_le_bytes());
        stream.write_all(&record).unwrap();
        stream.write_all(&payload).unwrap();
    }
    stream.write_all(&(-1_i32).to_le_bytes()).unwrap();
    let mut answer = [0; 28];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..4], 0_i32.to_le_bytes());
}

/// Bytes of the payloads of all records.
fn get(address: &str) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    let key = |cid: i32, rest: i64, moid: i32| {
        let (cid, rest, moid) = (cid.to_le_bytes(), rest.to_le_bytes(), moid.to_le_bytes());
        [&cid[..], &rest, &moid, &rest, &rest].concat()
    };
    let mut request = header(1, 64);
    request.extend(key(0, 0, 0));
    request.extend(key(i32::MAX, i64::MAX, i32::MAX));
    stream.write_all(&request).unwrap();
    let mut stream = BufReader::with_capacity(1 << 20, stream);
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[..4], 0_i32.to_le_bytes());
    let mut bytes = 0;
    loop {
        let mut size = [0; 4];
        stream.read_exact(&mut size).unwrap();
        let size = u64::try_from(i32::from_le_bytes(size)).unwrap();
        if size == 0 {
            break;
        }
        bytes += size - 32;
        let skipped = std::io::copy(&mut (&mut stream).take(size), &mut std::io::sink());
        assert_eq!(skipped.unwrap(), size);
    }
    let mut end = [0; 20];
    stream.read_exact(&mut end).unwrap();
    assert_eq!(end[..4], 0_i32.to_le_bytes());
    bytes
}

/// The most memory that a process has had resident.
fn peak_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

/// A GET of 10 GB is to take no more memory than a small one: the answer is read in slices while earlier ones are sent. The first
/// slice was of a thousand records whatever their payloads, and all of these 512 MiB were in it: the server took 1541 MiB. Later a GET
/// of 3 GiB took 3.4 GiB now and then: segments were merged meanwhile, and the merge kept every block of the series that it had decoded
/// (`merges_in_little_memory` in the engine's tests has that alone).
#[test]
fn memory_does_not_grow_with_the_length_of_an_answer() {
    let answer = std::env::var("NILOMETER_ANSWER_MB").ok();
    let records = answer.map_or(ANSWER_MB, |mb| mb.parse().unwrap());
    let program = Program::start();
    put(&program.tstorage, records);
    // Stopped in order, so that the records are in files and not in memory.
    let program = Program::over(stopped(program));
    let before = peak_bytes(program.child.id());
    assert_eq!(get(&program.tstorage), records * MIB);
    let grown = peak_bytes(program.child.id()) - before;
    println!(
        "{records} MiB took {} MiB beside the {} MiB of an idle server",
        grown / MIB,
        before / MIB
    );
    // Slices of about 16 MiB together, as they are read, as rows and as bytes of the answer, those of the answer before, which are sent
    // meanwhile, and buffers that wait to be filled again: 40 to 140 MiB with a merge beside it, whatever the length of the answer.
    assert!(grown < 256 * MIB, "{} MiB", grown / MIB);
    assert_eq!(get(&program.tstorage), records * MIB);
    let twice = peak_bytes(program.child.id()) - before;
    assert!(twice < 256 * MIB, "{} MiB", twice / MIB);
}
