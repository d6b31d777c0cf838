//! The memory budget holds: a process that may have 512 or 128 MiB takes in millions of rows and many series, reads
//! them, is opened again, and lives. The limit is a control group's where the machine lets us make one, else that of
//! the address space. Rows that do not fit are refused by name, and a log that a larger machine left is replayed in
//! the memory that this one has.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "which limit was in force and what was used under it is the result, and how the child tells its parent"
)]

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    Engine, Error, Maintained, NewRelation, Options, RelationChange, RelationColumn, ScanRequest,
    SystemClock,
};
use nilometer_lineproto::Precision;

const MIB: u64 = 1 << 20;

fn count(engine: &Arc<Engine>, table: &str) -> u64 {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", table).expect("the table");
    let columns = table.arrow_schema().fields().len();
    let request = ScanRequest {
        table,
        projection: (0..columns).collect(),
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

// The process that lives under the limit.

/// Set for that process: rows, series and folder of what it does.
const CHILD: &str = "NILOMETER_TEST_MEMORY_CHILD";

/// Rows of `series` series in turn, five fields each.
fn body(table: &str, first: u64, rows: u64, series: u64) -> String {
    let mut body = String::new();
    for row in first..first + rows {
        let (series, step) = (row % series, row / series);
        let noise = row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
        writeln!(
            body,
            "{table},host=host_{series},region=eu a={step}i,b={noise}i,c={},d={noise}.5,e={}i {}",
            noise % 100,
            step * 7,
            step * 10_000_000_000,
        )
        .expect("text grows");
    }
    body
}

fn live_within(rows: u64, series: u64, dir: &Path) {
    const BODY_ROWS: u64 = 5_000;
    let engine = Engine::open_dir(dir, Options::default()).expect("a new store opens");
    let engine = Arc::new(engine);
    engine.create_database("d").expect("a new name");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // As the server does: one thread that does what is due.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if engine.maintain().expect("maintenance works") == Maintained::Idle {
                    std::thread::yield_now();
                }
            }
        });
        let mut session = Session::new(Arc::clone(&engine), "d").expect("it exists");
        let mut write = |table: &str, rows: u64, series: u64| {
            for first in (0..rows).step_by(5_000) {
                let body = body(table, first, BODY_ROWS.min(rows - first), series);
                let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
                let report = report.expect("the writer helps to make room");
                assert_eq!(report.rejected_total, 0, "{:?}", report.rejected);
            }
        };
        write("cpu", rows, 1_000);
        write("many", series, series);
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(
        (count(&engine, "cpu"), count(&engine, "many")),
        (rows, series)
    );
    let metrics = engine.metrics();
    drop(engine);
    let engine = Engine::open_dir(dir, Options::default()).expect("it opens again");
    let engine = Arc::new(engine);
    assert_eq!(
        (count(&engine, "cpu"), count(&engine, "many")),
        (rows, series)
    );
    println!("{metrics:?}");
    println!("budget {}", metrics.memory_total_bytes);
    println!("peak {}", peak_bytes());
}

/// The most memory that this process ever had.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("it is there on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("the kernel says so") * 1024
}

// The process that sets the limit.

/// A control group of this test's own, removed when dropped.
struct Group(PathBuf);

impl Group {
    /// Makes a group under the one that this process is in; an error = the machine does not let us.
    fn new(name: &str, bytes: u64) -> io::Result<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup")?;
        let mut last = io::Error::from(io::ErrorKind::Unsupported);
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
                continue;
            };
            let (root, file) = match controllers {
                "" => ("/sys/fs/cgroup", "memory.max"),
                "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
                _ => continue,
            };
            let dir = Path::new(root).join(path.trim_start_matches('/'));
            // Without a controller there is a folder, but not a file to set the limit with.
            let group = dir.join(format!("nilometer-{}-{name}", std::process::id()));
            match fs::create_dir(&group) {
                Ok(()) => {}
                Err(error) => {
                    last = error;
                    continue;
                }
            }
            let group = Self(group);
            match fs::metadata(group.0.join(file))
                .and_then(|_| fs::write(group.0.join(file), bytes.to_string()))
            {
                Ok(()) => return Ok(group),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.0));
    }
}

/// Runs the test `name` in a process of its own under a limit; says what kind of limit that was.
fn run_limited(name: &str, bytes: u64, work: &str) -> (Output, &'static str) {
    let limited = |script: &str, place: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script, place]);
        command.arg(std::env::current_exe().expect("a test knows its file"));
        command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
        command.env(CHILD, work);
        // Address space is reserved for each thread's allocator, and would count in full.
        command.env("MALLOC_ARENA_MAX", "1");
        command.output().expect("there is a shell")
    };
    match Group::new(name, bytes) {
        Ok(group) => {
            let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
            let place = group.0.to_str().expect("the name is ours");
            (limited(script, place), "a control group")
        }
        Err(error) => {
            eprintln!("no control group: {error}");
            let kib = (bytes / 1024).to_string();
            (
                limited("ulimit -v \"$0\" && exec \"$@\"", &kib),
                "the address space",
            )
        }
    }
}

fn lives_within(name: &str, bytes: u64, rows: u64, series: u64) {
    if let Ok(work) = std::env::var(CHILD) {
        return live_within(rows, series, Path::new(&work));
    }
    let scratch = tempfile::tempdir().expect("a folder");
    let work = scratch.path().join("store");
    let (output, kind) = run_limited(name, bytes, work.to_str().expect("a plain path"));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{kind}: {:?}\n{text}",
        output.status
    );
    let number = |what: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(what));
        line.and_then(|line| line.trim().parse().ok())
            .expect("the child says so")
    };
    let (budget, peak) = (number("budget"), number("peak"));
    println!(
        "{} MiB by {kind}: budget {} MiB, peak {} MiB",
        bytes / MIB,
        budget / MIB,
        peak / MIB
    );
    assert_eq!(budget, bytes / 2);
    assert!(peak < bytes, "{peak} of {bytes}");
}

#[test]
fn millions_of_rows_and_many_series_fit_512_mib() {
    lives_within(
        "millions_of_rows_and_many_series_fit_512_mib",
        512 * MIB,
        4_000_000,
        100_000,
    );
}

#[test]
fn millions_of_rows_and_many_series_fit_128_mib() {
    lives_within(
        "millions_of_rows_and_many_series_fit_128_mib",
        128 * MIB,
        2_000_000,
        20_000,
    );
}

// Merges of large values.

/// Rows of a segment, whose texts are about 60 MiB together: what a block holds of them.
const MERGED_ROWS: u64 = 1024;
const MERGED_SEGMENTS: u64 = 8;
/// Bytes of a text that stands outside of its page.
const MERGED_TEXT: usize = 60_000;

fn merging(dir: &Path) -> Arc<Engine> {
    let mut options = Options {
        flush_rows: u64::MAX / 8,
        flush_idle_ms: 0,
        ..Options::default()
    };
    options.compaction.partition_rows_min = 1;
    Arc::new(Engine::open_dir(dir, options).expect("a store opens"))
}

/// The text of a row: its time, again and again.
fn merged_text(time: u64) -> String {
    let mut text = format!("{time:010} ").repeat(MERGED_TEXT / 11 + 1);
    text.truncate(MERGED_TEXT);
    text
}

/// Segments of one series whose times follow each other, or lie between each other.
fn write_segments(engine: &Arc<Engine>, is_apart: bool) {
    engine.create_database("d").expect("a new name");
    let mut session = Session::new(Arc::clone(engine), "d").expect("it exists");
    for segment in 0..MERGED_SEGMENTS {
        for first in (0..MERGED_ROWS).step_by(64) {
            let lines: Vec<String> = (first..first + 64)
                .map(|row| {
                    if is_apart {
                        segment * MERGED_ROWS + row
                    } else {
                        row * MERGED_SEGMENTS + segment
                    }
                })
                .map(|time| format!("m w=\"{}\" {time}", merged_text(time)))
                .collect();
            let body = lines.join("\n");
            let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
            assert_eq!(report.expect("it fits").rows, 64);
        }
        engine.flush().expect("there is room");
    }
}

/// Runs a part of a test in a process of its own.
fn child_of(name: &str, work: &str) -> String {
    let mut command = Command::new(std::env::current_exe().expect("a test knows its file"));
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    let output = command.env(CHILD, work).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text.into_owned()
}

/// A server merged 3 GiB of payloads of one series, and had all of them in memory: a series has as many groups of blocks open as
/// it has rows in, and each held the last block that it had decoded, of 64 MiB, until the series was done with. Where the times of
/// segments lie between each other all their blocks were decoded for one merge besides.
fn merges_in_little_memory(name: &str, is_apart: bool) {
    if let Ok(work) = std::env::var(CHILD) {
        let (part, dir) = work.split_once(' ').expect("its parent says both");
        let engine = merging(Path::new(dir));
        if part == "write" {
            write_segments(&engine, is_apart);
        } else {
            let before = peak_bytes();
            engine.settle_for(None).expect("it merges");
            // On a line of its own.
            println!("\ngrown {}", peak_bytes() - before);
        }
        return;
    }
    let scratch = tempfile::tempdir().expect("a folder");
    let store = scratch.path().join("store");
    let work = |part: &str| format!("{part} {}", store.display());
    child_of(name, &work("write"));
    let text = child_of(name, &work("merge"));
    let grown = text.lines().find_map(|line| line.strip_prefix("grown "));
    let grown: u64 = grown.and_then(|it| it.parse().ok()).expect("it says so");
    println!("{} MiB for 480 MiB of large values", grown / MIB);
    let engine = merging(&store);
    assert_eq!(engine.metrics().segments, 1);
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "m").expect("the table");
    let at = |name: &str| table.arrow_schema().index_of(name).expect("a column");
    let read = |projection: Vec<usize>, time| {
        let request = ScanRequest {
            table: Arc::clone(&table),
            projection,
            time,
            tags: Vec::new(),
            limit: None,
        };
        let scan = snapshot.scan(&request).expect("the scan plans");
        let batches = (0..scan.morsels()).flat_map(|morsel| scan.read(morsel));
        batches
            .map(|batch| batch.expect("the page reads"))
            .collect::<Vec<_>>()
    };
    let all = read(vec![at("time")], i64::MIN..=i64::MAX);
    let rows: usize = all.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows as u64, MERGED_ROWS * MERGED_SEGMENTS);
    for batch in read(vec![at("w")], 3_000..=3_099) {
        let texts = batch.column(0).as_string::<i32>();
        assert_eq!(texts.len(), 100);
        for (time, text) in (3_000..).zip(texts) {
            assert!(text == Some(merged_text(time).as_str()), "{time}");
        }
    }
    assert!(grown < 160 * MIB, "{} MiB", grown / MIB);
}

#[test]
fn large_values_one_after_the_other_are_merged_in_little_memory() {
    merges_in_little_memory(
        "large_values_one_after_the_other_are_merged_in_little_memory",
        true,
    );
}

#[test]
fn large_values_between_each_other_are_merged_in_little_memory() {
    merges_in_little_memory(
        "large_values_between_each_other_are_merged_in_little_memory",
        false,
    );
}

// What needs no limit of the machine's.

const ROW_BYTES: u64 = 4096;

fn open(disk: &FaultyDisk, memory: u64) -> Result<Arc<Engine>, Error> {
    let options = Options {
        flush_rows: u64::MAX / 8,
        flush_idle_ms: 0,
        memory_bytes_max: memory,
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options)?;
    Ok(Arc::new(engine))
}

/// Rows of 4 KiB each, one batch.
fn write_large(engine: &Arc<Engine>, first: u64, rows: u64) -> Result<u64, Error> {
    let text = "x".repeat(usize::try_from(ROW_BYTES).expect("small"));
    let lines: Vec<String> = (first..first + rows)
        .map(|time| format!("m w=\"{text}\" {time}"))
        .collect();
    let mut session = Session::new(Arc::clone(engine), "d")?;
    let report = session.write_lines(lines.join("\n").as_bytes(), Precision::Nanosecond)?;
    Ok(report.rows)
}

#[test]
fn a_batch_larger_than_the_heads_share_is_refused_by_name_and_smaller_ones_pass() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    // A quarter of it is the head's.
    let engine = open(&disk, 16 * MIB).unwrap();
    engine.create_database("d").unwrap();
    let refused = write_large(&engine, 0, 5 * MIB / ROW_BYTES).unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, Error::Memory { .. }), "{text}");
    assert!(
        text.contains("head") && text.contains("memory_bytes_max"),
        "{text}"
    );
    assert_eq!(engine.metrics().memory_refusals, 1);

    // Nobody maintains: the writers themselves flush, and what is in memory stays below the share.
    for batch in 0..20 {
        assert_eq!(write_large(&engine, batch * 256, 256).unwrap(), 256);
        let metrics = engine.metrics();
        assert!(metrics.memory_head_bytes <= 4 * MIB, "{metrics:?}");
    }
    assert!(engine.metrics().segments > 3);
    assert_eq!(count(&engine, "m"), 20 * 256);
}

/// Series from `from` on, a thousand of them.
fn thousand_series(from: u64, time: u64) -> String {
    let lines: Vec<String> = (from..from + 1_000)
        .map(|host| format!("s,host=a_host_of_many_{host} v=1 {time}"))
        .collect();
    lines.join("\n")
}

/// Half of 8 MiB would hold a part of them.
const SERIES: u64 = 150_000;

#[test]
fn series_beyond_the_indexs_share_become_files_and_are_all_found_again() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = open(&disk, 8 * MIB).unwrap();
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let mut write = |from: u64, time: u64| {
        let body = thousand_series(from, time);
        session.write_lines(body.as_bytes(), Precision::Nanosecond)
    };
    for time in 1..=2 {
        for from in (0..SERIES).step_by(1_000) {
            assert_eq!(write(from, time).unwrap().rows, 1_000);
            let metrics = engine.metrics();
            assert!(metrics.memory_index_bytes <= 8 * MIB, "{metrics:?}");
        }
    }
    let metrics = engine.metrics();
    assert_eq!(metrics.series, SERIES);
    assert!(metrics.index_files > 1, "{metrics:?}");
    assert_eq!(count(&engine, "s"), 2 * SERIES);
}

#[test]
fn new_series_that_find_the_indexs_share_taken_are_refused_by_name_and_known_ones_are_written() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = open(&disk, 8 * MIB).unwrap();
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let known = thousand_series(0, 1);
    let report = session.write_lines(known.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rows, 1_000);
    // Rows of relations stay in memory.
    let column = |name: &str, kind| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable: false,
    };
    let new = NewRelation {
        columns: vec![
            column("id", PhysicalType::U64),
            column("note", PhysicalType::Text),
        ],
        primary_key: vec!["id".to_owned()],
        unique: Vec::new(),
    };
    engine.create_relation("d", "public", "r", &new).unwrap();
    let snapshot = engine.snapshot();
    let relation = snapshot.relation("d", "public", "r").unwrap();
    let mut id = 0u64;
    let refused = loop {
        let rows = (id..id + 100).map(|id| vec![id.into(), "x".repeat(100).as_str().into()]);
        id += 100;
        let change = RelationChange::Insert(Arc::clone(relation.schema()), rows.collect());
        if let Err(error) = session.write_lines_with(b"", Precision::Nanosecond, &[change], None) {
            break error;
        }
    };
    assert!(matches!(refused, Error::Memory { .. }), "{refused}");
    let new = thousand_series(5_000, 1);
    let refused = session.write_lines(new.as_bytes(), Precision::Nanosecond);
    let text = refused.unwrap_err().to_string();
    assert!(
        text.contains("index") && text.contains("memory_bytes_max"),
        "{text}"
    );
    assert_eq!(engine.metrics().series, 1_000, "what was refused left none");
    let known = thousand_series(0, 2);
    let report = session.write_lines(known.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rows, 1_000);
    assert_eq!(count(&engine, "s"), 2_000);
}

#[test]
fn rows_that_cannot_be_flushed_are_refused_before_memory_is_full_and_not_lost() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = open(&disk, 16 * MIB).unwrap();
    engine.create_database("d").unwrap();
    let mut written = write_large(&engine, 0, 256).unwrap();
    // No new file from here on; the log has one to write to.
    disk.set_capacity(disk_bytes(&disk) + 8 * MIB);
    let refused = loop {
        match write_large(&engine, written, 64) {
            Ok(rows) => written += rows,
            Err(error) => break error,
        }
    };
    let full = matches!(&refused, Error::DiskFull { .. });
    assert!(full, "{refused}");
    assert_eq!(count(&engine, "m"), written);
    disk.set_capacity(u64::MAX);
    assert_eq!(write_large(&engine, written, 64).unwrap(), 64);
}

fn disk_bytes(disk: &FaultyDisk) -> u64 {
    let dirs = ["/d", "/d/log", "/d/segments"].map(Path::new);
    let sizes = dirs.iter().flat_map(|dir| {
        let names = disk.list(dir).expect("the disk lives");
        names.into_iter().map(move |name| {
            let file = disk.open(&dir.join(name)).expect("it is listed");
            file.size().expect("the disk lives")
        })
    });
    sizes.sum()
}

/// 8 MiB of rows in the log of a store that a machine with plenty of memory had open.
fn large_log() -> FaultyDisk {
    let disk = FaultyDisk::new(7, CrashPlan::default());
    let engine = open(&disk, 1024 * MIB).expect("a new store opens");
    engine.create_database("d").expect("a new name");
    for batch in 0..32 {
        write_large(&engine, batch * 64, 64).expect("there is memory");
    }
    assert_eq!(
        engine.metrics().segments,
        0,
        "all of it is in the log alone"
    );
    disk.after_kill(CrashPlan::default())
}

#[test]
fn a_log_larger_than_memory_is_replayed_in_rounds() {
    let disk = large_log();
    let engine = open(&disk, 8 * MIB).unwrap();
    let metrics = engine.metrics();
    // Half of the head's quarter is a round, and the batch that fills it belongs to it.
    assert!(metrics.head_bytes <= MIB + MIB / 2, "{metrics:?}");
    assert!(metrics.segments >= 5, "{metrics:?}");
    assert_eq!(count(&engine, "m"), 32 * 64);
    assert_eq!(write_large(&engine, 32 * 64, 64).unwrap(), 64);
    let again = disk.after_kill(CrashPlan::default());
    assert_eq!(count(&open(&again, 8 * MIB).unwrap(), "m"), 33 * 64);
}

#[test]
fn recovery_takes_no_more_of_the_budget_than_serving_the_same_writes() {
    let served = {
        let disk = FaultyDisk::new(7, CrashPlan::default());
        let engine = open(&disk, 8 * MIB).unwrap();
        engine.create_database("d").unwrap();
        for batch in 0..32 {
            assert_eq!(write_large(&engine, batch * 64, 64).unwrap(), 64);
        }
        engine.metrics().memory_highest_bytes
    };
    // The same 8 MiB, all of it in the log: four times the head's share.
    let engine = open(&large_log(), 8 * MIB).unwrap();
    let recovered = engine.metrics().memory_highest_bytes;
    assert_eq!(count(&engine, "m"), 32 * 64);
    assert!(served <= 8 * MIB, "{served} bytes for serving");
    assert!(
        (MIB..=served).contains(&recovered),
        "{recovered} bytes for recovery, {served} for serving"
    );
}

#[test]
fn changes_of_names_in_a_later_round_of_replay_hold_and_writing_goes_on() {
    let disk = FaultyDisk::new(7, CrashPlan::default());
    let engine = open(&disk, 1024 * MIB).unwrap();
    for name in ["d", "early", "late"] {
        engine.create_database(name).unwrap();
    }
    engine.rename_database("early", "earlier").unwrap();
    for batch in 0..12 {
        write_large(&engine, batch * 64, 64).unwrap();
    }
    engine.rename_database("late", "later").unwrap();
    drop(engine);
    let engine = open(&disk, 8 * MIB).unwrap();
    assert!(engine.metrics().segments > 0, "it took several rounds");
    let names = engine.snapshot().databases();
    assert_eq!(names, ["d", "earlier", "later"]);
    assert_eq!(write_large(&engine, 12 * 64, 64).unwrap(), 64);
    assert_eq!(count(&engine, "m"), 13 * 64);
}

#[test]
fn a_crash_in_any_round_of_replay_loses_nothing() {
    let disk = large_log();
    let calls = {
        let whole = disk.after_kill(CrashPlan::default());
        drop(open(&whole, 8 * MIB).unwrap());
        whole.calls()
    };
    assert!(calls > 30, "{calls} calls");
    for crash_at in 1..=calls {
        let crashing = disk.after_kill(CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        });
        open(&crashing, 8 * MIB).expect_err("the power goes");
        let after = crashing.after_power_cut(crash_at, CrashPlan::default());
        let engine = open(&after, 8 * MIB).unwrap();
        assert_eq!(count(&engine, "m"), 32 * 64, "call {crash_at} of {calls}");
    }
}
