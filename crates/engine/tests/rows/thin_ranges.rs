//! Promise: a range of time that is a small part of each block has the rows that were written in it, and of blocks without one
//! nothing but the times is read.
//!
//! A minute of a hundred series with a row every four minutes read twelve pages of a hundred blocks for 23 rows.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    clippy::cast_possible_truncation,
    reason = "a failed unwrap is the report, and the bodies are small"
)]

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    DeleteRequest, Duplicates, Engine, Options, ScanReport, ScanRequest, SystemClock, TableSettings,
};
use nilometer_lineproto::Precision;

const SECOND: i64 = 1_000_000_000;
/// The start of a day.
const START: i64 = 20_000 * 86_400 * SECOND;

fn open() -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let clock = Arc::new(SystemClock);
    let engine = Engine::open(disk, clock, Path::new("/d"), Options::default()).unwrap();
    engine.create_database("d").unwrap();
    Arc::new(engine)
}

fn write(engine: &Arc<Engine>, body: &str) {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
}

/// Host, second since the start and value of each row, in that order, and what was read for them.
fn read(engine: &Arc<Engine>, time: RangeInclusive<i64>) -> (Vec<(String, i64, i64)>, ScanReport) {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "m").unwrap();
    let time = START + time.start() * SECOND..=START + time.end() * SECOND;
    let scan = snapshot
        .scan(&ScanRequest {
            table,
            projection: vec![1, 0, 2],
            time,
            tags: Vec::new(),
            limit: None,
        })
        .unwrap();
    let mut rows = Vec::new();
    for morsel in 0..scan.morsels() {
        for batch in scan.read(morsel) {
            let batch = batch.unwrap();
            let hosts = batch
                .column(0)
                .as_dictionary::<arrow_array::types::Int32Type>();
            let hosts = hosts.downcast_dict::<arrow_array::StringArray>().unwrap();
            let times = batch.column(1).as_primitive::<TimestampNanosecondType>();
            let values = batch.column(2).as_primitive::<Int64Type>();
            for (at, host) in hosts.into_iter().enumerate() {
                let second = (times.value(at) - START) / SECOND;
                rows.push((host.unwrap().to_owned(), second, values.value(at)));
            }
        }
    }
    rows.sort();
    (rows, scan.report())
}

#[test]
fn blocks_without_a_row_in_a_range_are_read_no_further_than_their_times() {
    let engine = open();
    let mut body = String::new();
    // A row of each host every 100 s, those of the next host two seconds later.
    for host in 0..40 {
        for row in 0..300 {
            let second = row * 100 + host * 2;
            let at = START + second * SECOND;
            body.push_str(&format!("m,host=h{host:02} i={second}i,j={row}i {at}\n"));
        }
    }
    write(&engine, &body);
    engine.settle().unwrap();
    let (rows, report) = read(&engine, 10_000..=10_009);
    let expected = (0..5).map(|host| {
        let second = 10_000 + host * 2;
        (format!("h{host:02}"), second, second)
    });
    assert_eq!(rows, expected.collect::<Vec<_>>());
    assert_eq!((report.blocks, report.blocks_without_hit), (40, 35));
    assert_eq!(report.blocks_read, 40);
    // Between two rows of every host.
    let (rows, report) = read(&engine, 10_090..=10_095);
    assert_eq!(rows, []);
    assert_eq!((report.blocks_read, report.blocks_without_hit), (40, 40));
    // So much of a block that nearly each has a row.
    let (rows, report) = read(&engine, 10_000..=10_999);
    assert_eq!((rows.len(), report.blocks_without_hit), (400, 0));
}

/// Rows that come in any order, late, again and deleted, of hosts that share a block and of hosts that have several.
#[test]
fn thin_ranges_of_any_history_have_the_rows_that_were_written() {
    for (seed, duplicates) in [
        (1, Duplicates::Last),
        (2, Duplicates::Keep),
        (3, Duplicates::Unique),
        (4, Duplicates::Last),
    ] {
        let mut state: u64 = seed;
        let mut draw = |below: i64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) as i64) % below
        };
        let engine = open();
        write(&engine, &format!("m,host=h00 i=-1i {START}\n"));
        let settings = TableSettings {
            duplicates,
            ..TableSettings::default()
        };
        engine.set_table("d", "public", "m", settings).unwrap();
        let mut model: BTreeMap<(String, i64), Vec<i64>> = BTreeMap::new();
        model.insert(("h00".to_owned(), 0), vec![-1]);
        for step in 0..8 {
            let mut body = String::new();
            for host in 0..12 {
                // Of some hosts a few rows, of others more than a block has.
                let count = if host % 3 == 0 { 900 } else { 25 };
                for _ in 0..count {
                    let (second, value) = (draw(80_000), draw(1000));
                    let (name, at) = (format!("h{host:02}"), START + second * SECOND);
                    body.push_str(&format!("m,host={name} i={value}i {at}\n"));
                    let values = model.entry((name, second)).or_default();
                    if duplicates != Duplicates::Keep {
                        values.clear();
                    }
                    values.push(value);
                }
            }
            write(&engine, &body);
            match step % 4 {
                0 | 2 => engine.flush().unwrap(),
                1 => engine.settle().unwrap(),
                _ => {
                    let from = draw(70_000);
                    let table = engine.snapshot().table("d", "public", "m").unwrap();
                    let time = START + from * SECOND..=START + (from + 3000) * SECOND;
                    let tags = Vec::new();
                    engine.delete(&DeleteRequest { table, time, tags }).unwrap();
                    model.retain(|(_, second), _| !(from..=from + 3000).contains(second));
                }
            }
            for _ in 0..40 {
                let (from, span) = (draw(80_000), [0, 3, 30, 300][draw(4) as usize]);
                let mut expected = Vec::new();
                for ((host, second), values) in &model {
                    if (from..=from + span).contains(second) {
                        let row = |value: &i64| (host.clone(), *second, *value);
                        expected.extend(values.iter().map(row));
                    }
                }
                expected.sort();
                let (rows, _) = read(&engine, from..=from + span);
                assert_eq!(
                    rows, expected,
                    "{duplicates:?}, step {step}, {from} + {span}"
                );
            }
        }
    }
}
