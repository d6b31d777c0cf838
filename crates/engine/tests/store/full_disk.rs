//! A disk that fills up: writes are refused before it is full, reads and flushes go on, nothing is lost, and writing
//! goes on by itself once there is room. The same when there is suddenly no room for a segment.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk, MemoryDisk, RealDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    Clock, CompactionOptions, DeleteRequest, Engine, Error, Maintained, Options, ScanRequest,
    SystemClock, TableSettings,
};
use nilometer_lineproto::Precision;

const FLUSH_ROWS: u64 = 10;
/// Writers help to flush when memory holds four times `flush_rows`.
const FULL_ROWS: u64 = 40;

fn write(engine: &Arc<Engine>, time: u64) -> Result<u64, Error> {
    let mut session = Session::new(Arc::clone(engine), "d")?;
    let body = format!("m v={time} {time}");
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond)?;
    Ok(report.rows)
}

fn count(engine: &Arc<Engine>) -> u64 {
    let snapshot = engine.snapshot();
    let request = ScanRequest {
        table: snapshot.table("d", "public", "m").expect("the table"),
        projection: Vec::new(),
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = snapshot.scan(&request).expect("the scan plans");
    (0..scan.morsels())
        .flat_map(|morsel| scan.read(morsel))
        .map(|batch| batch.expect("the page reads").num_rows() as u64)
        .sum()
}

#[test]
fn a_full_disk_refuses_writes_loses_nothing_and_ends_by_itself() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = Engine::open(
        Arc::new(disk.clone()),
        Arc::new(SystemClock),
        Path::new("/d"),
        Options {
            flush_rows: FLUSH_ROWS,
            ..Options::default()
        },
    );
    let engine = Arc::new(engine.unwrap());
    engine.create_database("d").unwrap();
    for time in 0..FULL_ROWS {
        assert_eq!(write(&engine, time).unwrap(), 1);
    }

    disk.set_plan(CrashPlan {
        fail_write_at: (1..10_000).collect(),
        ..CrashPlan::default()
    });
    let refused = write(&engine, FULL_ROWS).expect_err("there is no room for a segment");
    let is_full = matches!(&refused, Error::Io { source, .. }
        if source.kind() == std::io::ErrorKind::StorageFull);
    assert!(is_full, "{refused}");
    assert_eq!(
        count(&engine),
        FULL_ROWS,
        "reads go on, and see what was acknowledged"
    );
    assert_eq!(
        engine.metrics().poisoned,
        None,
        "a full disk is not a failed one"
    );

    disk.set_plan(CrashPlan::default());
    assert_eq!(write(&engine, FULL_ROWS).unwrap(), 1);
    engine.flush().unwrap();
    let metrics = engine.metrics();
    assert_eq!(
        (metrics.head_rows, metrics.segment_rows),
        (0, FULL_ROWS + 1)
    );
    assert_eq!(count(&engine), FULL_ROWS + 1);
}

/// A tenth of a second passes whenever somebody looks, so that every write looks at the disk.
#[derive(Debug, Default)]
struct BusyClock(AtomicU64);

impl Clock for BusyClock {
    /// As far from 1970 as the clock has run, so that rows of the first nanoseconds grow old.
    fn now_ns(&self) -> i64 {
        let ms = self.0.load(Ordering::Relaxed);
        i64::try_from(ms).map_or(i64::MAX, |ms| ms * 1_000_000)
    }

    fn monotonic_ms(&self) -> u64 {
        self.0.fetch_add(100, Ordering::Relaxed)
    }
}

const RESERVE_BYTES: u64 = 300_000;

fn open_with_reserve(disk: &Arc<dyn Disk>, dir: &Path) -> Arc<Engine> {
    open_by(disk, dir, &Arc::new(BusyClock::default()))
}

fn open_by(disk: &Arc<dyn Disk>, dir: &Path, clock: &Arc<BusyClock>) -> Arc<Engine> {
    let options = Options {
        flush_rows: 2_000,
        log_bytes_max: 64 << 10,
        disk_reserve_bytes: Some(RESERVE_BYTES),
        // A compaction makes room, so writing would go on by itself before the test could look.
        compaction: CompactionOptions {
            fan_in: usize::MAX,
            settle_ms: 0,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let clock: Arc<dyn Clock> = Arc::clone(clock) as _;
    Arc::new(Engine::open(Arc::clone(disk), clock, dir, options).expect("the store opens"))
}

/// Rows whose values do not compress, at times that follow each other.
fn write_many(engine: &Arc<Engine>, first: u64, rows: u64) -> Result<u64, Error> {
    let mut body = String::new();
    for time in first..first + rows {
        let noise = time.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let noise = noise ^ (noise >> 29);
        writeln!(body, "m v={noise}u,w=\"{noise:x}\" {time}").expect("text grows");
    }
    let mut session = Session::new(Arc::clone(engine), "d")?;
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond)?;
    Ok(report.rows)
}

/// Writes rows from time `written` on until the disk has less than its reserve; returns the next time.
fn fill(engine: &Arc<Engine>, mut written: u64, rows_a_batch: u64) -> u64 {
    loop {
        match write_many(engine, written, rows_a_batch) {
            Ok(rows) => written += rows,
            Err(Error::DiskFull { free, reserve, .. }) => {
                assert!(free < reserve, "{free} of {reserve}");
                return written;
            }
            Err(other) => panic!("after {written} rows: {other}"),
        }
        engine.maintain().expect("there is the reserve");
        assert!(written < 100_000_000, "the disk does not fill up");
    }
}

fn a_disk_that_fills_up(disk: &Arc<dyn Disk>, dir: &Path, rows_a_batch: u64, free_some: impl Fn()) {
    let engine = open_with_reserve(disk, dir);
    engine.create_database("d").expect("its definition fits");
    let mut written = fill(&engine, 0, rows_a_batch);
    assert!(written > 1_000, "{written} rows");

    // What is there can be read, and memory can be flushed: the reserve is for that.
    assert_eq!(count(&engine), written);
    engine.flush().expect("there is the reserve");
    let metrics = engine.metrics();
    assert_eq!((metrics.head_rows, metrics.segment_rows), (0, written));
    assert_eq!((metrics.poisoned, metrics.disk_full_refusals), (None, 1));
    assert!(metrics.disk_free_bytes < metrics.disk_reserve_bytes);

    // A full disk does not keep the store from opening; what compaction has freed meanwhile may be written.
    drop(engine);
    let engine = open_with_reserve(disk, dir);
    assert_eq!(count(&engine), written);
    written = fill(&engine, written, rows_a_batch);

    free_some();
    let more = write_many(&engine, written, 100);
    assert_eq!(more.expect("there is room again"), 100);
    engine.flush().expect("there is the reserve");
    drop(engine);
    assert_eq!(count(&open_with_reserve(disk, dir)), written + 100);
}

#[test]
fn writes_stop_at_the_reserve_reads_and_flushes_go_on_and_room_ends_it() {
    let memory = MemoryDisk::new();
    memory.set_capacity(1 << 20);
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    a_disk_that_fills_up(&disk, Path::new("/d"), 50, || memory.set_capacity(2 << 20));
}

#[test]
fn deleting_works_on_a_full_disk_and_makes_room_for_writes() {
    let memory = MemoryDisk::new();
    memory.set_capacity(1 << 20);
    let disk: Arc<dyn Disk> = Arc::new(memory);
    let engine = open_with_reserve(&disk, Path::new("/d"));
    engine.create_database("d").unwrap();
    let written = fill(&engine, 0, 50);
    let kept = 500;
    let request = DeleteRequest {
        table: engine.snapshot().table("d", "public", "m").unwrap(),
        time: i64::MIN..=i64::try_from(written - kept).unwrap() - 1,
        tags: Vec::new(),
    };
    assert!(engine.delete(&request).unwrap().is_some());
    assert_eq!(count(&engine), kept);
    engine.settle().unwrap();
    assert_eq!(write_many(&engine, written, 100).unwrap(), 100);
    drop(engine);
    assert_eq!(
        count(&open_with_reserve(&disk, Path::new("/d"))),
        kept + 100
    );
}

#[test]
fn retention_works_on_a_full_disk_and_makes_room_for_writes() {
    const DAY_MS: u64 = 86_400_000;
    let memory = MemoryDisk::new();
    memory.set_capacity(1 << 20);
    let disk: Arc<dyn Disk> = Arc::new(memory);
    let clock = Arc::new(BusyClock::default());
    let engine = open_by(&disk, Path::new("/d"), &clock);
    engine.create_database("d").unwrap();
    assert_eq!(write_many(&engine, 0, 1).unwrap(), 1);
    let settings = TableSettings {
        retention_ns: Some(86_400_000_000_000),
        ..TableSettings::default()
    };
    engine.set_table("d", "public", "m", settings).unwrap();
    let written = fill(&engine, 1, 50);
    assert_eq!(count(&engine), written);

    // Every row is of the first day, whose partition is too old two days later.
    clock.0.fetch_add(3 * DAY_MS, Ordering::Relaxed);
    engine.flush().unwrap();
    while engine.maintain().unwrap() != Maintained::Idle {}
    assert_eq!(count(&engine), 0);
    engine.settle().unwrap();
    assert_eq!(write_many(&engine, written, 100).unwrap(), 100);
    assert_eq!(count(&engine), 100);
}

#[test]
fn a_power_cut_on_a_full_disk_loses_nothing() {
    for seed in 0..20 {
        let faulty = FaultyDisk::new(seed, CrashPlan::default());
        faulty.set_capacity(1 << 20);
        let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
        let engine = open_with_reserve(&disk, Path::new("/d"));
        engine.create_database("d").unwrap();
        let written = fill(&engine, 0, 50);
        let after = faulty.after_power_cut(seed, CrashPlan::default());
        let after: Arc<dyn Disk> = Arc::new(after);
        let engine = open_with_reserve(&after, Path::new("/d"));
        assert_eq!(count(&engine), written, "seed {seed}");
        let written = fill(&engine, written, 50);
        assert_eq!(count(&engine), written, "seed {seed}");
    }
}

/// Set for the process that this test starts: where its small file system is.
const SMALL_DISK: &str = "NILOMETER_TEST_SMALL_DISK";

/// The same on a file system of the operating system, where it lets us mount one: a process of its own has it.
#[test]
fn a_real_file_system_that_fills_up_behaves_alike() {
    if let Some(dir) = std::env::var_os(SMALL_DISK) {
        let dir = Path::new(&dir);
        let ballast = dir.join("ballast");
        std::fs::write(&ballast, vec![7; 1 << 20]).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        a_disk_that_fills_up(&disk, &dir.join("store"), 200, || {
            std::fs::remove_file(&ballast).unwrap();
        });
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    // A user who may do nothing else may still mount in a user namespace of his own.
    let run = |script: &str| {
        let mut unshare = Command::new("unshare");
        unshare.args([
            "--user",
            "--map-root-user",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
        ]);
        unshare.arg(scratch.path());
        unshare.arg(std::env::current_exe().expect("a test knows its file"));
        unshare.env(SMALL_DISK, scratch.path());
        unshare.output()
    };
    let mount = "mount -t tmpfs -o size=4m tmpfs \"$1\"";
    if !run(mount).is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: this machine does not let a user mount a file system of his own");
        return;
    }
    let name = "full_disk::a_real_file_system_that_fills_up_behaves_alike";
    let output = run(&format!("{mount} && \"$2\" --exact {name} --nocapture")).unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}
