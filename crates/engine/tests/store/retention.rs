//! Retention removes whole partitions, by a clock that is not fooled, and nothing comes back.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "a failed unwrap is the report, and the bodies are small"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    Clock, CompactionOptions, Engine, Maintained, Options, RetentionPause, RetentionTime,
    ScanRequest, TableSettings,
};
use nilometer_lineproto::Precision;

const DAY: i64 = 86_400_000_000_000;
const DAY_MS: u64 = 86_400_000;
/// 2026-01-01.
const START: i64 = 1_767_225_600_000_000_000;

/// A clock that stands until it is moved.
#[derive(Debug, Default)]
struct HandClock {
    wall: AtomicI64,
    monotonic_ms: AtomicU64,
}

impl Clock for HandClock {
    fn now_ns(&self) -> i64 {
        self.wall.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms.load(Ordering::Relaxed)
    }
}

impl HandClock {
    /// Time passes.
    fn pass(&self, days: u64) {
        self.monotonic_ms
            .fetch_add(days * DAY_MS, Ordering::Relaxed);
        self.jump(i64::try_from(days).unwrap());
    }

    /// Somebody sets the clock.
    fn jump(&self, days: i64) {
        self.wall.fetch_add(days * DAY, Ordering::Relaxed);
    }
}

fn open(disk: &MemoryDisk, clock: &Arc<HandClock>) -> Arc<Engine> {
    let options = Options {
        flush_idle_ms: 0,
        compaction: CompactionOptions {
            partition_rows_min: 1,
            widen_rows_max: 0,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let clock: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
    Arc::new(Engine::open(disk, clock, Path::new("/d"), options).unwrap())
}

/// One row an hour for some days from START on.
fn write(engine: &Arc<Engine>, days: std::ops::Range<i64>) {
    let mut body = String::new();
    for hour in days.start * 24..days.end * 24 {
        body.push_str(&format!("m,s=a v={hour}i {}\n", START + hour * DAY / 24));
    }
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
}

fn rows(engine: &Arc<Engine>) -> usize {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "m").unwrap();
    let scan = snapshot
        .scan(&ScanRequest {
            table,
            projection: vec![0],
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            limit: None,
        })
        .unwrap();
    (0..scan.morsels())
        .flat_map(|morsel| scan.read(morsel))
        .map(|batch| batch.unwrap().num_rows())
        .sum()
}

fn maintain(engine: &Arc<Engine>) -> usize {
    let mut expired = 0;
    loop {
        match engine.maintain().unwrap() {
            Maintained::Idle => return expired,
            Maintained::Expired { tables } => expired += tables,
            Maintained::Flushed { .. }
            | Maintained::Compacted { .. }
            | Maintained::Scrubbed { .. }
            | Maintained::Indexed { .. } => {}
        }
    }
}

#[test]
fn old_partitions_go_as_time_passes_and_stay_away() {
    let disk = MemoryDisk::new();
    let clock = Arc::new(HandClock::default());
    clock.wall.store(START + 10 * DAY, Ordering::Relaxed);
    let mut engine = open(&disk, &clock);
    engine.create_database("d").unwrap();
    write(&engine, 0..10);
    engine.settle().unwrap();
    assert_eq!((rows(&engine), engine.metrics().partitions), (240, 10));
    assert_eq!(maintain(&engine), 0, "without a setting nothing is too old");

    let settings = TableSettings {
        retention_ns: Some(3 * DAY),
        ..TableSettings::default()
    };
    engine.set_table("d", "public", "m", settings).unwrap();
    assert_eq!(maintain(&engine), 1);
    assert_eq!((rows(&engine), engine.metrics().partitions), (72, 3));
    assert_eq!(maintain(&engine), 0, "once is enough");

    // A day later one more partition is too old, in the head too once it is flushed.
    clock.pass(1);
    write(&engine, 2..4);
    write(&engine, 10..11);
    assert_eq!(maintain(&engine), 1);
    engine.flush().unwrap();
    clock.pass(1);
    assert_eq!(maintain(&engine), 1);
    assert_eq!(rows(&engine), 48, "days 9 and 10");
    let files = disk.list(Path::new("/d/segments")).unwrap();
    let is_segment = |name: &&String| Path::new(name).extension().is_some_and(|it| it == "seg");
    let segments = files.iter().filter(is_segment).count();
    assert_eq!(segments as u64, engine.metrics().segments, "{files:?}");

    drop(engine);
    engine = open(&disk, &clock);
    assert_eq!(rows(&engine), 48);
}

/// Flash pages of nine days are one group of a file, and so are few rows of many days that were merged: all of them stayed until the
/// newest was too old.
#[test]
fn rows_of_many_partitions_in_one_group_go_each_in_its_time() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let clock = Arc::new(HandClock::default());
    clock.wall.store(START + 50 * DAY, Ordering::Relaxed);
    let options = Options {
        compaction: CompactionOptions {
            partition_rows_min: 1000,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let shared: Arc<dyn Clock> = Arc::clone(&clock) as Arc<dyn Clock>;
    let engine = Arc::new(Engine::open(disk, shared, Path::new("/d"), options).unwrap());
    engine.create_database("d").unwrap();
    write(&engine, 0..50);
    engine.flush().unwrap();
    assert_eq!(engine.metrics().partitions, 0, "a file of rows of any time");
    let settings = TableSettings {
        retention_ns: Some(3 * DAY),
        ..TableSettings::default()
    };
    engine.set_table("d", "public", "m", settings).unwrap();
    assert_eq!(maintain(&engine), 1);
    assert_eq!(rows(&engine), 72, "days 47 to 49");
    clock.pass(1);
    assert_eq!(maintain(&engine), 1);
    assert_eq!(rows(&engine), 48);
    assert_eq!(maintain(&engine), 0, "once is enough");
}

/// A machine's clock said 2036 for a minute after a battery change, and years of data were gone.
#[test]
fn a_jump_of_the_clock_pauses_retention_until_somebody_accepts_it() {
    let disk = MemoryDisk::new();
    let clock = Arc::new(HandClock::default());
    clock.wall.store(START + 10 * DAY, Ordering::Relaxed);
    let engine = open(&disk, &clock);
    engine.create_database("d").unwrap();
    write(&engine, 0..10);
    let settings = TableSettings {
        retention_ns: Some(30 * DAY),
        ..TableSettings::default()
    };
    engine.set_table("d", "public", "m", settings).unwrap();
    engine.settle().unwrap();
    assert_eq!(maintain(&engine), 0);
    drop(engine);

    // In another life, too: the mark is in the manifest.
    let engine = open(&disk, &clock);
    clock.jump(3650);
    clock.monotonic_ms.fetch_add(60_000, Ordering::Relaxed);
    assert_eq!(maintain(&engine), 0);
    assert!(matches!(
        engine.retention_time(),
        Some(RetentionTime::Paused { .. })
    ));
    assert_eq!(rows(&engine), 240);
    // A minute has passed, and a day more is believed.
    let mut pause = RetentionPause {
        for_ms: 0,
        wall_ns: START + 3660 * DAY,
        ahead_ns: 3649 * DAY - 60_000_000_000,
    };
    assert_eq!(engine.retention_pause(), Some(pause));
    clock.monotonic_ms.fetch_add(20_000, Ordering::Relaxed);
    pause.for_ms = 20_000;
    assert_eq!(engine.metrics().retention_pause, Some(pause));
    assert_eq!(maintain(&engine), 0);
    pause.ahead_ns -= 20_000_000_000;
    assert_eq!(engine.retention_pause(), Some(pause));

    engine.accept_clock();
    assert_eq!(engine.retention_pause(), None);
    assert_eq!(maintain(&engine), 1);
    assert_eq!(rows(&engine), 0);
}

#[test]
fn a_clock_that_is_set_right_ends_the_pause_by_itself() {
    let disk = MemoryDisk::new();
    let clock = Arc::new(HandClock::default());
    clock.wall.store(START + 10 * DAY, Ordering::Relaxed);
    let engine = open(&disk, &clock);
    engine.create_database("d").unwrap();
    write(&engine, 0..1);
    let settings = TableSettings {
        retention_ns: Some(30 * DAY),
        ..TableSettings::default()
    };
    engine.set_table("d", "public", "m", settings).unwrap();
    maintain(&engine);
    assert_eq!(engine.retention_pause(), None);
    for _ in 0..2 {
        clock.jump(40);
        clock.monotonic_ms.fetch_add(60_000, Ordering::Relaxed);
        maintain(&engine);
        assert_eq!(engine.retention_pause().unwrap().for_ms, 0);
        clock.jump(-40);
        clock.monotonic_ms.fetch_add(60_000, Ordering::Relaxed);
        maintain(&engine);
        assert_eq!(engine.retention_pause(), None);
    }
    assert_eq!(rows(&engine), 24);
}
