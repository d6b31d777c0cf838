//! Prints how many values a second one core reads of pages as segments store them: checksum compared, values decoded.
//!
//! `cargo bench -p nilometer-codec --bench checked`, or with a file of integers, one a line, after `--`. The best and the
//! median of many short rounds: the best is what the code can do, the median what the machine let it do.

#![expect(
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "the figures are the output, and rounding to integers is how its values are made"
)]

use std::hint::black_box;
use std::time::Instant;

use nilometer_codec::{
    BLOCK_ROWS_MAX, ColumnBuf, ColumnRef, ValuesRef, crc32c, decode_page, encode_page, page_header,
};

/// More pages than a branch predictor can learn by heart, fewer than leave the cache.
const PAGES: usize = 64;
const ROUNDS: usize = 400;

/// Uniform between 0 and 1.
fn unit(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

/// A walk between 0 and 100 by normal steps of deviation 1, cut to integers, as the fields of the TSBS `cpu-only` set are.
fn walk(n: usize) -> Vec<i64> {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut at = 50.0;
    let step = |_| {
        let normal = (0..12).map(|_| unit(&mut state)).sum::<f64>() - 6.0;
        at = (at + normal).clamp(0.0, 100.0);
        at as i64
    };
    (0..n).map(step).collect()
}

/// A page and its checksum, as in a segment.
fn stored(values: ValuesRef<'_>) -> Vec<u8> {
    let column = ColumnRef {
        values,
        validity: None,
    };
    let mut page = Vec::new();
    encode_page(column, &mut page).expect("the columns of this file are valid");
    let crc = crc32c(0, &page);
    page.extend_from_slice(&crc.to_le_bytes());
    page
}

fn read(stored: &[u8], out: &mut ColumnBuf) {
    let (page, crc) = stored.split_last_chunk().expect("the checksum was added");
    assert_eq!(crc32c(0, page), u32::from_le_bytes(*crc));
    decode_page(page, out).expect("what was encoded decodes");
}

fn report(name: &str, pages: &[Vec<u8>]) {
    let mut out = ColumnBuf::default();
    let mut round = || {
        let start = Instant::now();
        for page in pages {
            read(black_box(page), &mut out);
            black_box(&mut out);
        }
        start.elapsed()
    };
    let mut times: Vec<_> = (0..ROUNDS).map(|_| round()).collect();
    times.sort_unstable();
    let rows = |page: &Vec<u8>| page_header(page).map_or(0, |header| header.rows);
    let values: usize = pages.iter().map(rows).sum();
    let bytes: usize = pages.iter().map(Vec::len).sum();
    let rate = |time: std::time::Duration| values as f64 / time.as_secs_f64() / 1e9;
    println!(
        "{name:<24} {:>6.3} B/value  best {:>5.2} G/s  median {:>5.2} G/s",
        bytes as f64 / values as f64,
        rate(times[0]),
        rate(times[ROUNDS / 2]),
    );
}

fn main() {
    let file = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with("--"));
    let values: Vec<i64> = match file {
        None => walk(PAGES * BLOCK_ROWS_MAX),
        Some(path) => std::fs::read_to_string(path)
            .expect("a readable file")
            .lines()
            .map(|line| line.parse().expect("an integer a line"))
            .collect(),
    };
    let floats: Vec<f64> = values.iter().map(|value| *value as f64).collect();
    let of_integers = values
        .chunks(BLOCK_ROWS_MAX)
        .map(|page| stored(ValuesRef::I64(page)));
    report("integers", &of_integers.collect::<Vec<_>>());
    let of_floats = floats
        .chunks(BLOCK_ROWS_MAX)
        .map(|page| stored(ValuesRef::F64(page)));
    report("whole floats", &of_floats.collect::<Vec<_>>());
}
