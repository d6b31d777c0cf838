//! Write amplification of a backfill: bytes of segments written over bytes left, by the kind of job that wrote them.
//!
//! Writes fields of some series, a row each ten minutes of some days, in an order of one's choice, and does whatever
//! maintenance is due after each batch. Files are in memory and nothing is timed, so every run of it says the same.
//! At the end it says what a value of each column takes; `flushed` stands for random order and no compaction at all.
//!
//! `cargo run --release -p nilometer-engine --example backfill -- [random|days|order|flushed] [series] [days] [fields]`

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "it prints what it counted, and a store that fails here has no figures"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::inspect::inspect;
use nilometer_engine::{
    CompactionOptions, Engine, Maintained, Options, SegmentReport, SystemClock,
};
use nilometer_lineproto::Precision;

const STEPS_OF_A_DAY: usize = 144;
const STEP_NS: u64 = 600_000_000_000;
const START_NS: u64 = 1_704_067_200_000_000_000;
const BATCH: usize = 10_000;

/// Numbers that only look random.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % limit as u64).expect("it is below a usize")
    }
}

/// (series, step) in the order in which they are written.
fn rows(order: &str, series: usize, steps: usize) -> Vec<(usize, usize)> {
    let in_order = (0..steps).flat_map(|step| (0..series).map(move |at| (at, step)));
    let mut rows: Vec<(usize, usize)> = in_order.collect();
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let piece = match order {
        "random" | "flushed" => rows.len(),
        // A day at a time, the days in any order.
        "days" => {
            let mut days: Vec<Vec<(usize, usize)>> = rows
                .chunks(series * STEPS_OF_A_DAY)
                .map(<[_]>::to_vec)
                .collect();
            shuffle(&mut days, &mut numbers);
            rows = days.concat();
            1
        }
        _ => 1,
    };
    rows.chunks_mut(piece)
        .for_each(|piece| shuffle(piece, &mut numbers));
    rows
}

fn shuffle<T>(items: &mut [T], numbers: &mut Numbers) {
    for at in (1..items.len()).rev() {
        items.swap(at, numbers.below(at + 1));
    }
}

/// A walk in whole numbers from 0 to 100 for each series and field, by step.
fn walks(series: usize, steps: usize) -> Vec<u8> {
    // `series` counts each field of each.
    let mut numbers = Numbers(42);
    let mut values = vec![50u8; series];
    let mut walks = Vec::with_capacity(steps * values.len());
    for _ in 0..steps {
        for value in &mut values {
            *value = match numbers.below(3) {
                0 => value.saturating_sub(1),
                1 => *value,
                _ => (*value + 1).min(100),
            };
        }
        walks.extend_from_slice(&values);
    }
    walks
}

/// Bytes written by kind of job.
#[derive(Default)]
struct Account {
    bytes: BTreeMap<&'static str, (u64, u64)>,
    segments_max: usize,
}

impl Account {
    fn note(&mut self, done: Maintained, before: &[SegmentReport], after: &[SegmentReport]) {
        self.segments_max = self.segments_max.max(after.len());
        let known = |it: &SegmentReport, others: &[SegmentReport]| {
            others.iter().any(|other| other.file_id == it.file_id)
        };
        let mut read = before.iter().filter(|it| !known(it, after));
        let was_mixed = read.any(|it| it.partition.is_none());
        for new in after.iter().filter(|it| !known(it, before)) {
            let kind = match (done, was_mixed, new.partition.is_some()) {
                (Maintained::Flushed { .. }, ..) => "flush",
                (_, true, true) => "mixed into partitions",
                (_, true, false) => "mixed into mixed",
                (_, false, _) => "inside a partition",
            };
            let entry = self.bytes.entry(kind).or_default();
            entry.0 += new.bytes;
            entry.1 += 1;
        }
    }
}

fn maintain(engine: &Arc<Engine>, account: &mut Account) {
    loop {
        let before = engine.snapshot().segments();
        let done = engine.maintain().expect("maintenance works");
        if done == Maintained::Idle {
            return;
        }
        account.note(done, &before, &engine.snapshot().segments());
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let order = args.next().unwrap_or_else(|| "random".to_owned());
    let mut number = |other| args.next().and_then(|it| it.parse().ok()).unwrap_or(other);
    let (series, steps) = (number(100), number(365) * STEPS_OF_A_DAY);
    let fields = number(10);
    let options = Options {
        flush_idle_ms: 0,
        memory_bytes_max: 4 << 30,
        compaction: CompactionOptions {
            fan_in: if order == "flushed" { usize::MAX } else { 8 },
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let disk = Arc::new(MemoryDisk::new());
    let engine = Engine::open(
        Arc::clone(&disk) as Arc<dyn Disk>,
        Arc::new(SystemClock),
        Path::new("/d"),
        options,
    );
    let engine = Arc::new(engine.expect("the store opens"));
    engine.create_database("d").expect("the name is free");
    let mut session = Session::new(Arc::clone(&engine), "d").expect("the database is there");
    let walks = walks(series * fields, steps);
    let mut account = Account::default();
    let mut body = String::new();
    let rows = rows(&order, series, steps);
    for batch in rows.chunks(BATCH) {
        body.clear();
        for &(at, step) in batch {
            write!(body, "cpu,host=host_{at},region=eu").expect("text grows");
            for field in 0..fields {
                let value = walks
                    .get((step * series + at) * fields + field)
                    .expect("every row has values");
                let before = if field == 0 { ' ' } else { ',' };
                write!(body, "{before}f{field}={value}").expect("text grows");
            }
            writeln!(body, " {}", START_NS + step as u64 * STEP_NS).expect("text grows");
        }
        session
            .write_lines(body.as_bytes(), Precision::Nanosecond)
            .expect("the rows are taken");
        maintain(&engine, &mut account);
    }
    let before = engine.snapshot().segments();
    engine.flush().expect("the last rows are flushed");
    let done = Maintained::Flushed { rows: 0 };
    account.note(done, &before, &engine.snapshot().segments());
    maintain(&engine, &mut account);
    let written = engine.metrics().segment_bytes_written;
    if order != "flushed" {
        engine.settle().expect("the store settles");
    }
    let metrics = engine.metrics();
    println!(
        "{order}: {} rows of {series} series, {} segments at most, {} in {} partitions at the end",
        rows.len(),
        account.segments_max,
        metrics.segments,
        metrics.partitions
    );
    let left = metrics.segment_bytes;
    let over = |bytes: u64| bytes as f64 / left as f64;
    for (kind, (bytes, files)) in &account.bytes {
        println!(
            "{kind:>22}: {bytes:>12} bytes, {files:>5} files, {:.2}",
            over(*bytes)
        );
    }
    let settled = metrics.segment_bytes_written - written;
    println!(
        "{:>22}: {settled:>12} bytes, {:.2}",
        "settle",
        over(settled)
    );
    println!(
        "{:>22}: {left:>12} bytes, {:.3} a value",
        "left",
        left as f64 / (rows.len() * fields) as f64
    );
    println!(
        "write amplification: {:.2}",
        over(metrics.segment_bytes_written)
    );
    drop((session, engine));
    let found = inspect(disk.as_ref(), Path::new("/d")).expect("the store can be looked at");
    for column in found.tables.iter().flat_map(|table| &table.columns) {
        let bytes = column.bytes_per_value().unwrap_or(0.0);
        let name = column.name.as_deref().unwrap_or("series");
        let used = column
            .encodings
            .iter()
            .map(|it| format!("{:?} {}", it.encoding, it.pages));
        println!(
            "{name:>22}: {bytes:.3} bytes a value; {}",
            used.collect::<Vec<_>>().join(", ")
        );
    }
}
