//! Prints how many values a second one core encodes and decodes, and how small they become.
//!
//! `cargo bench -p nilometer-codec --features zstd`. Each line is the best of several rounds over pages in cache.

#![expect(
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::big_endian_bytes,
    reason = "the figures are the output, and rounding to integers is how its values are made; payloads stand so"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use nilometer_codec::{
    ColumnBuf, ColumnRef, PageSet, ValuesRef, decode_i64s, decode_page, encode_i64s, encode_page_of,
};

/// A small generator, so that the figures need no dependency and repeat.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Uniform between 0 and 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normal, mean 0, deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// A walk between 0 and 100 by steps of deviation 1, as the fields of the TSBS `cpu-only` set are.
fn walk(noise: &mut Noise, n: usize) -> Vec<f64> {
    let mut at = 100.0 * noise.unit();
    let step = |_| {
        at = (at + noise.normal()).clamp(0.0, 100.0);
        at
    };
    (0..n).map(step).collect()
}

/// The least time of one call.
fn best_of(mut call: impl FnMut()) -> Duration {
    const ROUNDS: u32 = 40;
    const CALLS: u32 = 200;
    let round = |_| {
        let start = Instant::now();
        for _ in 0..CALLS {
            call();
        }
        start.elapsed() / CALLS
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

fn report(name: &str, n: usize, bytes: usize, encode: Duration, decode: Duration) {
    let rate = |time: Duration| n as f64 / time.as_secs_f64() / 1e6;
    println!(
        "{name:<38} {n:>5} {:>8.3} B/value  encode {:>7.0} M/s  decode {:>7.0} M/s",
        bytes as f64 / n as f64,
        rate(encode),
        rate(decode)
    );
}

fn page(name: &str, values: ValuesRef<'_>) {
    page_of(name, PageSet::First, values);
}

fn page_of(name: &str, set: PageSet, values: ValuesRef<'_>) {
    let column = ColumnRef {
        values,
        validity: None,
    };
    let mut page = Vec::new();
    encode_page_of(column, set, &mut page).expect("the columns of this file are valid");
    let mut out = ColumnBuf::default();
    let mut scratch = Vec::new();
    let encode = best_of(|| {
        scratch.clear();
        let _ = black_box(encode_page_of(black_box(column), set, &mut scratch));
    });
    let decode = best_of(|| {
        let _ = black_box(decode_page(black_box(&page), &mut out));
    });
    report(name, values.rows(), page.len(), encode, decode);
}

fn stream(name: &str, values: &[i64]) {
    let mut bytes = Vec::new();
    encode_i64s(values, &mut bytes);
    let mut out = Vec::new();
    let mut scratch = Vec::new();
    let encode = best_of(|| {
        scratch.clear();
        encode_i64s(black_box(values), &mut scratch);
        black_box(&mut scratch);
    });
    let decode = best_of(|| {
        out.clear();
        let _ = black_box(decode_i64s(
            &mut black_box(bytes.as_slice()),
            values.len(),
            &mut out,
        ));
    });
    report(name, values.len(), bytes.len(), encode, decode);
}

fn main() {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    for n in [16, 100, 360, 1024] {
        let walk: Vec<i64> = walk(&mut noise, n)
            .into_iter()
            .map(|value| value as i64)
            .collect();
        page("i64 walk (DELTA)", ValuesRef::I64(&walk));
        stream("i64 walk, stream (DELTA)", &walk);
        let floats: Vec<f64> = walk.iter().map(|value| *value as f64).collect();
        page("f64 whole walk (DECIMAL, DELTA)", ValuesRef::F64(&floats));
    }
    let n = 1024;
    for width in [1, 3, 7, 8, 12, 16, 24, 31, 40, 57] {
        let values: Vec<i64> = (0..n)
            .map(|_| (noise.next() >> (64 - width)) as i64)
            .collect();
        page(
            &format!("i64 noise of {width} bits (FOR)"),
            ValuesRef::I64(&values),
        );
    }
    let times: Vec<i64> = (0..n as i64)
        .map(|index| 1_700_000_000_000_000_000 + index * 10_000_000_000)
        .collect();
    page("times, even (STRIDE)", ValuesRef::I64(&times));
    let jitter: Vec<i64> = times
        .iter()
        .map(|time| time + (noise.normal() * 2e6) as i64 / 1_000_000 * 1_000_000)
        .collect();
    page(
        "times, jitter of 2 ms in ns (DELTA)",
        ValuesRef::I64(&jitter),
    );
    let mut counter = 0;
    let counters: Vec<i64> = (0..n)
        .map(|index| {
            counter = if index == 700 {
                0
            } else {
                counter + (50.0 + noise.normal()) as i64
            };
            counter
        })
        .collect();
    page(
        "counter with one restart (DELTA)",
        ValuesRef::I64(&counters),
    );
    for digits in [1, 2, 5] {
        let scale = 10_f64.powi(digits);
        let decimals: Vec<f64> = walk(&mut noise, n)
            .iter()
            .map(|value| (value * scale).round() / scale)
            .collect();
        page(
            &format!("f64 walk of {digits} decimals (DECIMAL)"),
            ValuesRef::F64(&decimals),
        );
    }
    let singles: Vec<f64> = walk(&mut noise, n)
        .iter()
        .map(|value| f64::from(*value as f32))
        .collect();
    page("f64 that were f32 (IMAGE)", ValuesRef::F64(&singles));
    page("f64 walk, all digits", ValuesRef::F64(&walk(&mut noise, n)));
    let bools: Vec<bool> = (0..n).map(|_| noise.next().is_multiple_of(3)).collect();
    page("bool noise (BITMAP)", ValuesRef::Bool(&bools));

    let text = |value: &mut dyn FnMut(usize) -> String| {
        let mut offsets = vec![0];
        let mut bytes = Vec::new();
        for index in 0..n {
            bytes.extend_from_slice(value(index).as_bytes());
            offsets.push(bytes.len() as u32);
        }
        (offsets, bytes)
    };
    let (offsets, bytes) = text(&mut |_| format!("region-{}", noise.next() % 9));
    page(
        "text, 9 values (DICTIONARY)",
        ValuesRef::Text {
            offsets: &offsets,
            bytes: &bytes,
        },
    );
    let (offsets, bytes) =
        text(&mut |index| format!("GET /api/v1/items/{index} 200 {}", noise.next() % 1000));
    page(
        "text, log lines (PLAIN, zstd)",
        ValuesRef::Text {
            offsets: &offsets,
            bytes: &bytes,
        },
    );
    payloads(&mut noise);
}

/// Ten integers below 101 as bytes, highest first: noise, then walks. Bytes and values are those of payloads.
fn payloads(noise: &mut Noise) {
    for n in [288, 1000] {
        for is_walk in [false, true] {
            let fields: Vec<Vec<f64>> = (0..10).map(|_| walk(noise, n)).collect();
            let mut bytes = Vec::new();
            for row in 0..n {
                for field in &fields {
                    let number = if is_walk {
                        field[row] as i32
                    } else {
                        (noise.next() % 101) as i32
                    };
                    bytes.extend_from_slice(&number.to_be_bytes());
                }
            }
            let offsets: Vec<u32> = (0..=n as u32).map(|row| 40 * row).collect();
            let values = ValuesRef::Bytes {
                offsets: &offsets,
                bytes: &bytes,
            };
            let kind = if is_walk { "walks" } else { "noise" };
            for (name, set) in [("zstd", PageSet::Third), ("TRANSPOSED", PageSet::Fourth)] {
                page_of(&format!("payloads of 40 B, {kind} ({name})"), set, values);
            }
        }
    }
}
