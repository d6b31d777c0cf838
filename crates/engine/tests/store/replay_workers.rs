//! Promise: a store that is opened with the help of other threads is the one that is opened without, errors included.

use std::path::Path;
use std::sync::Arc;

use crate::rich::{self, assert_same};
use crate::support::everything;
use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Error, Options, ReplayWorkers, SystemClock};
use nilometer_lineproto::Precision;

const DIR: &str = "/d";

fn open(disk: Arc<dyn Disk>, options: Options, threads: usize) -> Result<Arc<Engine>, Error> {
    let lent = ReplayWorkers::default();
    // A scope ends when all its threads have: whatever becomes of the store, they come back.
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| lent.work());
        }
        let clock = Arc::new(SystemClock);
        Engine::open_with(disk, clock, Path::new(DIR), options, &lent).map(Arc::new)
    })
}

#[test]
fn every_kind_of_record_is_replayed_alike() {
    let disk = FaultyDisk::new(3, CrashPlan::default());
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let contents = rich::make(&shared, Path::new(DIR), rich::options());
    for threads in [0, 1, 3] {
        let copy = Arc::new(disk.after_kill(CrashPlan::default()));
        let engine = open(copy, rich::options(), threads).unwrap();
        let found = everything(&engine).unwrap();
        assert_same(&found, &contents.now, &format!("{threads} threads"));
    }
}

/// A log of 6 MiB in records of one row and of thousands, which a store with little memory replays in rounds.
#[test]
fn rounds_begin_and_end_at_the_same_records() {
    let disk = FaultyDisk::new(4, CrashPlan::default());
    let roomy = Options {
        flush_idle_ms: 0,
        flush_bytes: u64::MAX,
        ..Options::default()
    };
    let engine = open(Arc::new(disk.clone()), roomy, 0).unwrap();
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let mut written = 0;
    for batch in 0..60_u64 {
        let rows = if batch % 3 == 0 { 1 } else { 3000 };
        let lines: Vec<String> = (written..written + rows)
            .map(|at| {
                format!(
                    "m,host=h{} v={}.5,s=\"{:032x}\" {at}\n",
                    at % 7,
                    at,
                    at * at
                )
            })
            .collect();
        let report = session.write_lines(lines.concat().as_bytes(), Precision::Nanosecond);
        written += report.unwrap().rows;
    }
    drop((session, engine));
    let tight = Options {
        memory_bytes_max: 8 << 20,
        ..Options::default()
    };
    let of = |threads| {
        let copy = Arc::new(disk.after_kill(CrashPlan::default()));
        let engine = open(copy, tight.clone(), threads).unwrap();
        let metrics = engine.metrics();
        assert_eq!(metrics.head_rows + metrics.segment_rows, written);
        (
            everything(&engine).unwrap(),
            [metrics.head_rows, metrics.head_bytes, metrics.segments],
            [metrics.log_bytes, metrics.visible_lsn, metrics.series],
        )
    };
    let alone = of(0);
    let [_, _, segments] = alone.1;
    assert!(segments >= 3, "{segments} segments: it took rounds");
    for threads in [1, 3] {
        assert!(of(threads) == alone, "{threads} threads");
    }
}

#[test]
fn threads_come_back_when_the_store_does_not_open() {
    let disk = MemoryDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk.create(&Path::new(DIR).join("diary.txt")).unwrap();
    let error = open(Arc::new(disk), Options::default(), 2).unwrap_err();
    assert!(matches!(error, Error::NotAStore { .. }), "{error}");
}
