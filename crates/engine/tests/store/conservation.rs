//! Promise: maintenance loses no row, whatever becomes of the settings of tables meanwhile.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use crate::support;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    CompactionOptions, Duplicates, Engine, Maintained, Options, SystemClock, TableSettings,
};
use nilometer_lineproto::Precision;

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;
const NEWEST: i64 = 1_795_000_000 * SECOND;

fn open(disk: &MemoryDisk, partition_rows_min: u64) -> Arc<Engine> {
    let options = Options {
        flush_rows: 100,
        compaction: CompactionOptions {
            partition_rows_min,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
    Arc::new(engine.unwrap())
}

/// Rows of both tables.
fn rows_of(engine: &Arc<Engine>) -> (usize, usize) {
    let all = support::everything(engine).unwrap();
    let rows = |table: &str| all.get(&format!("d.public.{table}")).map_or(0, Vec::len);
    (rows("m"), rows("kk"))
}

fn set_interval(
    engine: &Arc<Engine>,
    table: &str,
    duplicates: Duplicates,
    partition_interval_ns: i64,
) {
    let settings = TableSettings {
        duplicates,
        partition_interval_ns,
        ..TableSettings::default()
    };
    engine.set_table("d", "public", table, settings).unwrap();
}

/// A server with two tables whose partition intervals changed between bodies was stopped in order, and after the next start four
/// fifths of the rows of one were gone, in silence: 47,511 were 8,691. A flush had cut rows at wide windows, the interval had
/// become a second, and a compaction listed the first 513 windows of a group and the last one, and left out the rows between.
#[test]
fn a_store_that_is_stopped_in_order_keeps_every_row_of_tables_whose_intervals_change() {
    for (interval, rows_min) in [(1, 50), (SECOND, 50), (60 * SECOND, 20)] {
        let when = format!("interval {interval}, {rows_min} rows in a partition");
        let disk = MemoryDisk::new();
        let engine = open(&disk, rows_min);
        engine.create_database("d").unwrap();
        let keep = TableSettings {
            duplicates: Duplicates::Keep,
            ..TableSettings::default()
        };
        engine.create_table("d", "public", "kk", &[], keep).unwrap();
        let mut rows = 0;
        for body in 0..6_i64 {
            let mut lines = String::new();
            // Every tenth part of a day of sixty.
            for at in 0..600_i64 {
                let time = NEWEST - at * (DAY / 10) - body * SECOND;
                writeln!(lines, "m,h=h{} n={at}i {time}", at % 7).unwrap();
                writeln!(lines, "kk,h=h{} n={at}i {time}", at % 7).unwrap();
            }
            rows += 600;
            let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
            let report = session.write_lines(lines.as_bytes(), Precision::Nanosecond);
            assert_eq!(report.unwrap().rejected, []);
            if body == 2 {
                set_interval(&engine, "m", Duplicates::Last, interval);
                set_interval(&engine, "kk", Duplicates::Keep, 30 * DAY);
            }
            while engine.maintain().unwrap() != Maintained::Idle {}
            let found = rows_of(&engine);
            assert_eq!(found, (rows, rows), "{when}, body {body}");
        }
        engine.close().unwrap();
        drop(engine);
        let engine = open(&disk, rows_min);
        while engine.maintain().unwrap() != Maintained::Idle {}
        let found = rows_of(&engine);
        assert_eq!(found, (rows, rows), "{when}, stopped and started");
        engine.settle().unwrap();
        let found = rows_of(&engine);
        assert_eq!(found, (rows, rows), "{when}, settled");
        let metrics = engine.metrics();
        assert_eq!((metrics.refused_edits, metrics.segments_damaged), (0, 0));
    }
}
