//! Promise: a batch that is sent again under its key is answered as the first time and written once, whatever happened
//! in between.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk, MemoryDisk};
use nilometer_engine::ingest::{Session, WriteReport};
use nilometer_engine::{Clock, Engine, Options};
use nilometer_lineproto::Precision;

const SECOND_NS: i64 = 1_000_000_000;

/// Wall and monotonic time, set by the test.
#[derive(Debug, Default)]
struct Hands {
    wall_ns: AtomicI64,
    since_ms: AtomicI64,
}

impl Hands {
    fn advance(&self, seconds: i64) {
        self.wall_ns
            .fetch_add(seconds * SECOND_NS, Ordering::Relaxed);
        self.since_ms.fetch_add(seconds * 1000, Ordering::Relaxed);
    }
}

impl Clock for Hands {
    fn now_ns(&self) -> i64 {
        self.wall_ns.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        self.since_ms.load(Ordering::Relaxed).cast_unsigned()
    }
}

fn open(disk: &(impl Disk + Clone + 'static), clock: &Arc<Hands>, options: Options) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let clock: Arc<dyn Clock> = Arc::<Hands>::clone(clock);
    let engine = Engine::open(disk, clock, Path::new("/d"), options).unwrap();
    engine.create_database("d").unwrap();
    Arc::new(engine)
}

fn send(engine: &Arc<Engine>, key: u8, body: &str) -> WriteReport {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    session
        .write_lines_once([key; 16], body.as_bytes(), Precision::Nanosecond)
        .unwrap()
}

/// So that there is something to flush; a flush removes the files that the one before it replaced.
fn write_other(engine: &Arc<Engine>, time: i64) {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let line = format!("other v=1 {time}");
    session
        .write_lines(line.as_bytes(), Precision::Nanosecond)
        .unwrap();
}

fn key_files(disk: &impl Disk) -> Vec<String> {
    let mut names = disk.list(Path::new("/d/segments")).unwrap();
    names.retain(|name| Path::new(name).extension().is_some_and(|it| it == "key"));
    names
}

#[test]
fn a_body_sent_again_gets_the_first_answer_in_every_state_of_the_store() {
    let disk = MemoryDisk::new();
    let clock = Arc::new(Hands::default());
    let mut engine = open(&disk, &clock, Options::default());
    let body = "m v=1 1\nm v=\nm v=2 2";
    let first = send(&engine, 1, body);
    assert!(!first.repeated);
    assert_eq!((first.rows, first.rejected_total), (2, 1));
    let again = WriteReport {
        repeated: true,
        ..first
    };
    assert_eq!(send(&engine, 1, body), again, "head");
    assert_eq!(engine.metrics().rows_written, 2);
    assert!(!send(&engine, 2, body).repeated, "another key");
    for state in ["replayed", "filed", "filed and replayed", "filed again"] {
        if state.starts_with("filed") {
            engine.flush().unwrap();
        }
        drop(engine);
        engine = open(&disk, &clock, Options::default());
        assert_eq!(send(&engine, 1, body), again, "{state}");
        assert_eq!(engine.metrics().rows_written, 0, "{state}");
        let own = u8::try_from(state.len()).unwrap();
        assert!(!send(&engine, own, body).repeated, "{state}");
    }
    assert_eq!(engine.metrics().keys, 6);
}

#[test]
fn a_body_of_which_nothing_was_kept_uses_no_key() {
    let disk = MemoryDisk::new();
    let clock = Arc::new(Hands::default());
    let engine = open(&disk, &clock, Options::default());
    let refused = send(&engine, 1, "m v=");
    assert_eq!((refused.rows, refused.lsn, refused.repeated), (0, 0, false));
    assert_eq!(engine.metrics().keys, 0);
    let kept = send(&engine, 1, "m v=1 1");
    assert!(!kept.repeated);
    // Now the key is used, and what comes with it does not matter.
    let again = send(&engine, 1, "m v=");
    assert_eq!((again.rows, again.lsn, again.repeated), (1, kept.lsn, true));
}

#[test]
fn a_key_is_forgotten_after_a_day_and_its_file_goes() {
    let disk = MemoryDisk::new();
    let clock = Arc::new(Hands::default());
    let mut engine = open(&disk, &clock, Options::default());
    let first = send(&engine, 1, "m v=1 1");
    engine.flush().unwrap();
    assert_eq!(key_files(&disk).len(), 1);
    clock.advance(24 * 3600);
    assert!(send(&engine, 1, "m v=1 1").repeated, "after a day");
    // A wall clock that jumps while the store is open has no say.
    clock
        .wall_ns
        .fetch_add(365 * 86400 * SECOND_NS, Ordering::Relaxed);
    assert!(send(&engine, 1, "m v=1 1").repeated, "after a jump");
    clock
        .wall_ns
        .fetch_sub(365 * 86400 * SECOND_NS, Ordering::Relaxed);
    drop(engine);
    engine = open(&disk, &clock, Options::default());
    assert!(send(&engine, 1, "m v=1 1").repeated, "opened again");
    clock.advance(1);
    let second = send(&engine, 1, "m v=1 1");
    assert!(!second.repeated && second.lsn > first.lsn);
    engine.flush().unwrap();
    write_other(&engine, 1);
    engine.flush().unwrap();
    assert_eq!(key_files(&disk).len(), 1, "the old file is replaced");
    clock.advance(24 * 3600 + 1);
    for time in 2..=3 {
        write_other(&engine, time);
        engine.flush().unwrap();
    }
    assert_eq!(key_files(&disk), [] as [String; 0]);
    drop(engine);
    let engine = open(&disk, &clock, Options::default());
    assert_eq!(engine.metrics().keys, 0);
}

#[test]
fn the_oldest_keys_go_when_there_are_too_many() {
    let disk = MemoryDisk::new();
    let clock = Arc::new(Hands::default());
    let options = Options {
        keys_max: 3,
        ..Options::default()
    };
    let mut engine = open(&disk, &clock, options.clone());
    for key in 1..=5 {
        send(&engine, key, "m v=1 1");
    }
    assert_eq!(engine.metrics().keys, 3);
    engine.flush().unwrap();
    drop(engine);
    engine = open(&disk, &clock, options);
    assert!((3..=5).all(|key| send(&engine, key, "m v=1 1").repeated));
    assert!(!send(&engine, 2, "m v=1 1").repeated);
}

#[test]
fn of_many_writers_with_one_key_one_writes_and_all_get_its_answer() {
    let disk = MemoryDisk::new();
    let clock = Arc::new(Hands::default());
    let engine = open(&disk, &clock, Options::default());
    for key in 0..50 {
        let reports: Vec<WriteReport> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| send(&engine, key, "m v=1 1\nm v=2 2")))
                .collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let lsn = engine.snapshot().lsn();
        assert!(reports.iter().all(|it| (it.lsn, it.rows) == (lsn, 2)));
        assert_eq!(reports.iter().filter(|it| !it.repeated).count(), 1);
    }
    assert_eq!(engine.metrics().rows_written, 100);
}

/// At whatever call the power goes: a key is known afterwards exactly when its batch is there.
#[test]
fn after_a_power_cut_a_key_is_known_if_and_only_if_its_batch_is() {
    let clock = Arc::new(Hands::default());
    let life = |disk: &FaultyDisk| -> Option<u64> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let clock: Arc<dyn Clock> = Arc::<Hands>::clone(&clock);
        let engine = Engine::open(disk, clock, Path::new("/d"), Options::default());
        let engine = Arc::new(engine.ok()?);
        engine.create_database("d").ok()?;
        let mut session = Session::new(Arc::clone(&engine), "d").ok()?;
        let mut acknowledged = 0;
        for key in 1..=6u8 {
            let body = format!("m v=1 {key}");
            let report =
                session.write_lines_once([key; 16], body.as_bytes(), Precision::Nanosecond);
            if report.is_err() {
                return Some(acknowledged);
            }
            acknowledged = u64::from(key);
            if key % 2 == 0 && engine.flush().is_err() {
                return Some(acknowledged);
            }
        }
        Some(acknowledged)
    };
    let whole = FaultyDisk::new(7, CrashPlan::default());
    assert_eq!(life(&whole), Some(6));
    for crash_at in 1..=whole.calls() {
        let plan = CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        };
        let disk = FaultyDisk::new(crash_at, plan);
        let acknowledged = life(&disk).unwrap_or(0);
        let disk = disk.after_power_cut(crash_at, CrashPlan::default());
        let engine = open(&disk, &clock, Options::default());
        let before = engine.metrics();
        let there = before.head_rows + before.segment_rows;
        assert!(there >= acknowledged, "call {crash_at}");
        for key in 1..=6u8 {
            let report = send(&engine, key, &format!("m v=1 {key}"));
            assert_eq!(report.repeated, u64::from(key) <= there, "call {crash_at}");
        }
        assert_eq!(engine.metrics().rows_written, 6 - there, "call {crash_at}");
    }
}
