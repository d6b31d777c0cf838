//! Changes of the schema: what is dropped is gone, what is renamed or retyped is still there, no id is used twice;
//! wherever the rows are and however often the store is opened again.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "a failed unwrap is the report, and the texts are small"
)]

mod drops;
mod names;
mod power_cuts;
mod rewrites;
mod sessions;
mod snapshots;
mod types;

use std::path::Path;
use std::sync::Arc;

use crate::support::everything;
use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::{Session, WriteReport};
use nilometer_engine::{
    Clock, CompactionOptions, Engine, Options, Sabotage, ScanRequest, SystemClock, TableSchema,
};
use nilometer_lineproto::Precision;

pub(crate) const I64: PhysicalType = PhysicalType::I64;
pub(crate) const F64: PhysicalType = PhysicalType::F64;
pub(crate) const TEXT: PhysicalType = PhysicalType::Text;

pub(crate) fn open(disk: &MemoryDisk) -> Arc<Engine> {
    open_with(disk, Arc::new(SystemClock), None)
}

pub(crate) fn open_with(
    disk: &MemoryDisk,
    clock: Arc<dyn Clock>,
    sabotage: Option<Sabotage>,
) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = Options {
        sabotage,
        // Every partition gets a file of its own, and two files are enough to be made one.
        compaction: CompactionOptions {
            fan_in: 2,
            partition_rows_min: 1,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    Arc::new(Engine::open(disk, clock, Path::new("/d"), options).unwrap())
}

pub(crate) fn session(engine: &Arc<Engine>, database: &str) -> Session {
    Session::new(Arc::clone(engine), database).unwrap()
}

pub(crate) fn lines(session: &mut Session, body: &str) -> WriteReport {
    let written = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    written.unwrap()
}

/// Writes to the database `d`, made if there is none.
pub(crate) fn write(engine: &Arc<Engine>, body: &str) {
    engine.create_database("d").unwrap();
    let report = lines(&mut session(engine, "d"), body);
    assert_eq!(report.rejected, [], "{body}");
}

pub(crate) fn table(engine: &Arc<Engine>, name: &str) -> Arc<TableSchema> {
    let found = engine.snapshot().table("d", "public", name);
    found.unwrap_or_else(|| panic!("there is a table {name}"))
}

/// Every row of every table, as `database.schema.table column=value ...`.
pub(crate) fn rows(engine: &Arc<Engine>) -> Vec<String> {
    let mut lines = Vec::new();
    for (table, rows) in everything(engine).unwrap() {
        for row in rows {
            let cells = row.iter().map(|(name, value)| format!(" {name}={value}"));
            lines.push(format!("{table}{}", cells.collect::<String>()));
        }
    }
    lines
}

pub(crate) fn scan_all(table: Arc<TableSchema>) -> ScanRequest {
    ScanRequest {
        projection: (0..table.arrow_schema().fields().len()).collect(),
        table,
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    }
}

/// Tells a story with its rows in every place: those of before the change in the head, in a segment or in a log that is
/// replayed, those of after it in all three too, and at last all of them in partitions. `check` gets the store and what happened to it.
pub(crate) fn everywhere(
    before: impl Fn(&Arc<Engine>),
    change: impl Fn(&Arc<Engine>),
    after: impl Fn(&Arc<Engine>),
    check: impl Fn(&Arc<Engine>, &str),
) {
    for plan in 0..8 {
        let (flush, reopen, reopen_changed) = (plan & 1 > 0, plan & 2 > 0, plan & 4 > 0);
        let told = format!(
            "flushed before: {flush}, opened again before: {reopen}, and after: {reopen_changed}"
        );
        let disk = MemoryDisk::new();
        let mut engine = open(&disk);
        before(&engine);
        if flush {
            engine.flush().unwrap();
        }
        if reopen {
            drop(engine);
            engine = open(&disk);
        }
        change(&engine);
        if reopen_changed {
            drop(engine);
            engine = open(&disk);
        }
        after(&engine);
        check(&engine, &told);
        drop(engine);
        let engine = open(&disk);
        check(&engine, &format!("{told}; then replayed"));
        engine.flush().unwrap();
        check(&engine, &format!("{told}; then flushed"));
        engine.close().unwrap();
        drop(engine);
        let engine = open(&disk);
        check(&engine, &format!("{told}; then closed and opened"));
        engine.settle().unwrap();
        check(&engine, &format!("{told}; then compacted"));
    }
}
