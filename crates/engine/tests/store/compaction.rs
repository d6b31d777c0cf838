//! Compaction and deletes change files, never answers: a model of the rows is compared after every step.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    clippy::format_push_string,
    reason = "a failed unwrap is the report, and the bodies are small"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, RecordBatch};
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    CompactionOptions, DeleteRequest, Engine, Maintained, Options, ScanRequest, SystemClock,
    TagMatch, TagPredicate,
};
use nilometer_lineproto::Precision;

const DAY: i64 = 86_400_000_000_000;

/// (series, time) -> (integer, float, text).
type Row = (Option<i64>, Option<u64>, Option<String>);
type Model = BTreeMap<(String, i64), Row>;

fn options() -> Options {
    Options {
        flush_rows: 4000,
        flush_idle_ms: 0,
        compaction: CompactionOptions {
            fan_in: 2,
            partition_rows_min: 500,
            widen_rows_max: 3000,
            ..CompactionOptions::default()
        },
        ..Options::default()
    }
}

fn open(disk: &MemoryDisk) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options());
    Arc::new(engine.expect("the store opens"))
}

/// Numbers that only look random; the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn signed(&mut self, limit: u64) -> i64 {
        i64::try_from(self.below(limit)).unwrap()
    }
}

fn read(engine: &Arc<Engine>) -> Model {
    let snapshot = engine.snapshot();
    let mut model = Model::new();
    let Some(table) = snapshot.table("d", "public", "m") else {
        return model;
    };
    let position = |name: &str| table.arrow_schema().index_of(name).ok();
    let names = ["time", "s", "i", "f", "t"];
    let known: Vec<&str> = names
        .into_iter()
        .filter(|name| position(name).is_some())
        .collect();
    let scan = snapshot
        .scan(&ScanRequest {
            projection: known.iter().filter_map(|name| position(name)).collect(),
            table,
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            limit: None,
        })
        .unwrap();
    let mut last = None;
    for morsel in 0..scan.morsels() {
        for batch in scan.read(morsel) {
            add(&batch.unwrap(), &known, &mut model, &mut last);
        }
    }
    model
}

fn add(batch: &RecordBatch, names: &[&str], model: &mut Model, last: &mut Option<(String, i64)>) {
    let column = |name: &str| {
        let at = names.iter().position(|known| *known == name)?;
        Some(batch.column(at))
    };
    for row in 0..batch.num_rows() {
        let tags = column("s").unwrap().as_dictionary::<Int32Type>();
        let key = usize::try_from(tags.keys().value(row)).unwrap();
        let series = tags.values().as_string::<i32>().value(key).to_owned();
        let times = column("time")
            .unwrap()
            .as_primitive::<TimestampNanosecondType>();
        let time = times.value(row);
        if let Some((before, at)) = last {
            assert!(*before != series || *at < time, "times of a series ascend");
        }
        *last = Some((series.clone(), time));
        let valid = |name: &str| column(name).filter(|column| column.is_valid(row));
        let values = (
            valid("i").map(|it| it.as_primitive::<Int64Type>().value(row)),
            valid("f").map(|it| it.as_primitive::<Float64Type>().value(row).to_bits()),
            valid("t").map(|it| it.as_string::<i32>().value(row).to_owned()),
        );
        let twice = model.insert((series, time), values);
        assert!(twice.is_none(), "a row comes once");
    }
}

/// One body of line protocol: stretches of rows of some series, long and short, in and out of order.
fn body(numbers: &mut Numbers, model: &mut Model) -> String {
    let mut body = String::new();
    for _ in 0..=numbers.below(12) {
        let series = format!("s{}", numbers.below(40));
        let rows = match numbers.below(10) {
            0 => 1500,
            1..=3 => 200,
            _ => 1 + numbers.signed(20),
        };
        let step = [1_000_000_000, 60_000_000_000, 10_000_000_000]
            [usize::try_from(numbers.below(3)).unwrap()];
        let start = (numbers.signed(40) - 20) * DAY + numbers.signed(40) * step * 100;
        let kind = numbers.below(4);
        for at in 0..rows {
            let time = start + at * step;
            let row = model.entry((series.clone(), time)).or_default();
            let value = numbers.signed(100);
            let mut fields = Vec::new();
            if kind != 1 {
                row.0 = Some(value);
                fields.push(format!("i={value}i"));
            }
            if kind != 2 {
                let float = f64::from(i32::try_from(value).unwrap()) / 8.0;
                row.1 = Some(float.to_bits());
                fields.push(format!("f={float}"));
            }
            if kind == 3 {
                row.2 = Some(format!("text {value}"));
                fields.push(format!("t=\"text {value}\""));
            }
            body.push_str(&format!("m,s={series} {} {time}\n", fields.join(",")));
        }
    }
    body
}

fn delete(engine: &Arc<Engine>, numbers: &mut Numbers, model: &mut Model) {
    let snapshot = engine.snapshot();
    let Some(table) = snapshot.table("d", "public", "m") else {
        return;
    };
    let start = (numbers.signed(44) - 22) * DAY + numbers.signed(9) * DAY / 8;
    let end = start + numbers.signed(4) * DAY + numbers.signed(1000);
    let some: Option<Vec<String>> = (numbers.below(3) > 0).then(|| {
        (0..=numbers.below(6))
            .map(|_| format!("s{}", numbers.below(45)))
            .collect()
    });
    model.retain(|(series, time), _| {
        let named = some.as_ref().is_none_or(|some| some.contains(series));
        !(named && (start..=end).contains(time))
    });
    let tags = some.map(|some| TagPredicate {
        column: 1,
        matches: TagMatch::OneOf(some.into_iter().map(Some).collect()),
        negated: false,
    });
    engine
        .delete(&DeleteRequest {
            table,
            time: start..=end,
            tags: tags.into_iter().collect(),
        })
        .unwrap();
}

fn same(engine: &Arc<Engine>, model: &Model, when: &str) {
    let found = read(engine);
    for (key, row) in model {
        assert_eq!(found.get(key), Some(row), "{when}: {key:?}");
    }
    for key in found.keys() {
        assert!(model.contains_key(key), "{when}: {key:?} should be gone");
    }
}

#[test]
fn answers_stay_the_same_through_flushes_compactions_deletes_and_restarts() {
    let mut compacted = 0;
    let mut partitions = 0;
    for seed in 1..=8 {
        let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let disk = MemoryDisk::new();
        let mut engine = open(&disk);
        engine.create_database("d").unwrap();
        let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
        let mut model = Model::new();
        for step in 0..50 {
            let when = format!("seed {seed}, step {step}");
            match numbers.below(20) {
                0..=8 => {
                    let body = body(&mut numbers, &mut model);
                    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
                    assert_eq!(report.unwrap().rejected, []);
                }
                9..=11 => engine.flush().unwrap(),
                12..=14 => loop {
                    match engine.maintain().unwrap() {
                        Maintained::Idle => break,
                        Maintained::Flushed { .. }
                        | Maintained::Expired { .. }
                        | Maintained::Indexed { .. }
                        | Maintained::Scrubbed { .. } => {}
                        Maintained::Compacted { .. } => compacted += 1,
                    }
                },
                15 => engine.settle().unwrap(),
                16 => {
                    drop(session);
                    drop(engine);
                    engine = open(&disk);
                    session = Session::new(Arc::clone(&engine), "d").unwrap();
                }
                _ => delete(&engine, &mut numbers, &mut model),
            }
            same(&engine, &model, &when);
        }
        engine.settle().unwrap();
        same(&engine, &model, &format!("seed {seed}, settled"));
        let metrics = engine.metrics();
        assert_eq!(
            metrics.tombstones, 0,
            "seed {seed}: every delete is carried out"
        );
        partitions += metrics.partitions;
        drop(session);
        drop(engine);
        same(&open(&disk), &model, &format!("seed {seed}, reopened"));
    }
    assert!(compacted > 8, "{compacted} compactions");
    assert!(partitions > 8, "{partitions} partitions");
}

/// A flush cuts rows that are few in each of many days at eight days. Counted for each day of theirs, they seemed eight times
/// as many, and went into partitions that were too narrow and had to be merged again.
#[test]
fn rows_that_were_cut_at_wider_windows_become_one_partition_at_once() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    // 40 rows on each of 60 days: of the 64 that begin with time 0, fewer than `widen_rows_max` together.
    let body: String = (0..2400_i64)
        .map(|at| format!("m,s=s{} i={at}i {}\n", at % 5, at * DAY / 40))
        .collect();
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
    engine.flush().unwrap();
    let flushed = engine.metrics().segment_bytes;
    engine.settle().unwrap();
    let metrics = engine.metrics();
    assert_eq!((metrics.segments, metrics.partitions), (1, 1));
    // Each row was written once more, and not into narrow partitions first.
    assert_eq!(
        metrics.segment_bytes_written,
        flushed + metrics.segment_bytes
    );
    assert_eq!(read(&engine).len(), 2400);
}

/// Compaction remembers that it had nothing to do until the files change. A delete changes no file, so after one its rows
/// stayed on the disk until the next flush.
#[test]
fn a_delete_is_carried_out_although_nothing_else_changes() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let body: String = (0..1000)
        .map(|at| format!("m,s=a i={at}i {at}\n"))
        .collect();
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rows, 1000);
    engine.settle().unwrap();
    while engine.maintain().unwrap() != Maintained::Idle {}
    let table = engine.snapshot().table("d", "public", "m").unwrap();
    engine
        .delete(&DeleteRequest {
            table,
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
        })
        .unwrap();
    while engine.maintain().unwrap() != Maintained::Idle {}
    assert_eq!(engine.metrics().segments, 0);
}

/// By flush of 1000 rows, each of four days or of one day each: how many partitions there are when maintenance is idle.
fn partitions_by_flush(is_scattered: bool) -> Vec<u64> {
    let options = Options {
        flush_rows: 1000,
        flush_idle_ms: 0,
        compaction: CompactionOptions {
            fan_in: 4,
            partition_rows_min: 500,
            widen_rows_max: 500,
            settle_ms: 0,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
    let engine = Arc::new(engine.unwrap());
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let mut partitions = Vec::new();
    for flush in 0..8 {
        let body: String = (0..1000)
            .map(|at| {
                let day = if is_scattered { at % 4 } else { flush };
                let time = day * DAY + (at * 8 + flush) * 1_000_000;
                format!("m,s=a i={at}i {time}\n")
            })
            .collect();
        session
            .write_lines(body.as_bytes(), Precision::Nanosecond)
            .unwrap();
        while engine.maintain().unwrap() != Maintained::Idle {}
        partitions.push(engine.metrics().partitions);
    }
    partitions
}

#[test]
fn segments_with_a_few_rows_of_each_partition_are_split_when_twice_as_many_are_there() {
    assert_eq!(partitions_by_flush(false), [0, 0, 0, 4, 4, 4, 4, 8]);
    assert_eq!(partitions_by_flush(true), [0, 0, 0, 0, 0, 0, 0, 4]);
}
