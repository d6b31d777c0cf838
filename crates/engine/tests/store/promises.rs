//! Promises of the design that no other file's subject covers: what a point costs in the log, what a later tag leaves alone,
//! what a batch of several records is, and what a failed sync shows.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk};
use nilometer_engine::ingest::{Session, WriteReport};
use nilometer_engine::{ColumnKind, Engine, Error, NewColumn, Options, ScanRequest, SystemClock};
use nilometer_lineproto::Precision;

fn open(disk: &FaultyDisk) -> Result<Arc<Engine>, Error> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let clock = Arc::new(SystemClock);
    Engine::open(disk, clock, Path::new("/d"), Options::default()).map(Arc::new)
}

fn new_store(disk: &FaultyDisk) -> Arc<Engine> {
    let engine = open(disk).unwrap();
    engine.create_database("d").unwrap();
    engine
}

fn write(engine: &Arc<Engine>, body: &str) -> Result<WriteReport, Error> {
    let mut session = Session::new(Arc::clone(engine), "d")?;
    session.write_lines(body.as_bytes(), Precision::Nanosecond)
}

fn count(engine: &Arc<Engine>, table: &str) -> usize {
    let snapshot = engine.snapshot();
    let Some(table) = snapshot.table("d", "public", table) else {
        return 0;
    };
    let request = ScanRequest {
        table,
        projection: vec![0],
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = snapshot.scan(&request).unwrap();
    let batches = (0..scan.morsels()).flat_map(|at| scan.read(at));
    batches.map(|batch| batch.unwrap().num_rows()).sum()
}

#[test]
fn a_point_of_ten_fields_takes_at_most_forty_bytes_of_the_log() {
    const HOSTS: u64 = 100;
    const STEPS: u64 = 100;
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = new_store(&disk);
    let mut body = String::new();
    let (mut text_bytes, mut random) = (0, 1u64);
    for step in 0..=STEPS {
        body.clear();
        for host in 0..HOSTS {
            write!(body, "cpu,host=host_{host},region=eu-west-1,rack=42").unwrap();
            for field in 0..10 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let separator = if field == 0 { ' ' } else { ',' };
                write!(
                    body,
                    "{separator}usage_of_kind_{field}={}.{}",
                    (random >> 33) % 100,
                    (random >> 43) % 10
                )
                .unwrap();
            }
            writeln!(
                body,
                " {}",
                1_700_000_000_000_000_000 + step * 10_000_000_000
            )
            .unwrap();
        }
        // The first body defines series, of which a point has none of its own.
        if step > 0 {
            text_bytes += body.len() as u64;
        }
        let before = engine.metrics().log_bytes_written;
        assert_eq!(write(&engine, &body).unwrap().rows, HOSTS);
        let bytes = engine.metrics().log_bytes_written - before;
        assert!(step == 0 || bytes <= 40 * HOSTS, "{bytes} bytes of the log");
    }
    // The text that came is what the design compares with.
    assert!(text_bytes > 250 * HOSTS * STEPS, "{text_bytes}");
}

#[test]
fn a_tag_that_is_added_later_leaves_every_series_what_it_was() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = new_store(&disk);
    write(&engine, "m,a=1 v=1 1\nm v=2 1\n").unwrap();
    let tag = NewColumn {
        name: "later",
        kind: ColumnKind::Tag,
    };
    assert!(engine.add_column("d", "public", "m", tag).unwrap());
    write(&engine, "m,a=1 v=3 1\nm v=4 2\n").unwrap();
    assert_eq!((engine.metrics().series, count(&engine, "m")), (2, 3));
    engine.flush().unwrap();
    drop(engine);
    let engine = open(&disk).unwrap();
    write(&engine, "m,a=1 v=5 1\nm,a=1,later=x v=6 1\n").unwrap();
    assert_eq!((engine.metrics().series, count(&engine, "m")), (3, 4));
}

#[test]
fn the_two_times_that_are_reserved_are_refused_by_name() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = new_store(&disk);
    let body = format!("m v=1 {}\nm v=2 {}\nm v=3 5\n", i64::MIN, i64::MAX);
    let report = write(&engine, &body).unwrap();
    assert_eq!((report.rows, report.rejected_total), (1, 2));
    for rejected in &report.rejected {
        assert!(rejected.reason.contains("range"), "{}", rejected.reason);
    }
}

/// A body of more bytes than a record of the log takes, whatever compression makes of them.
fn long_body(rows: usize) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let mut random = 1u64;
    let mut body = String::new();
    for n in 0..rows {
        body.push_str("long s=\"");
        for _ in 0..60_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            body.push(char::from(LETTERS[(random >> 58) as usize]));
        }
        writeln!(body, "\" {n}").unwrap();
    }
    body
}

#[test]
fn a_batch_of_several_records_is_there_as_a_whole_or_not_at_all() {
    const ROWS: usize = 120;
    let body = long_body(ROWS);
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = new_store(&disk);
    write(&engine, "short v=1 1").unwrap();
    disk.set_plan(CrashPlan::default());
    let logged = engine.metrics().log_bytes_written;
    write(&engine, &body).unwrap();
    let logged = engine.metrics().log_bytes_written - logged;
    assert!(logged > 4 << 20, "{logged} bytes are one record");
    let calls = disk.calls();
    drop(engine);
    let (mut whole, mut none) = (0, 0);
    for crash_at in 0..=calls {
        for seed in 1..4 {
            let disk = FaultyDisk::new(seed, CrashPlan::default());
            let engine = new_store(&disk);
            write(&engine, "short v=1 1").unwrap();
            disk.set_plan(CrashPlan {
                crash_at: Some(crash_at),
                ..CrashPlan::default()
            });
            let is_acknowledged = write(&engine, &body).is_ok();
            drop(engine);
            let engine = open(&disk.after_power_cut(seed, CrashPlan::default())).unwrap();
            assert_eq!(count(&engine, "short"), 1);
            match count(&engine, "long") {
                0 if !is_acknowledged => none += 1,
                ROWS => whole += 1,
                rows => panic!("{rows} rows, cut at call {crash_at}, seed {seed}"),
            }
        }
    }
    assert!(whole > 0 && none > 0, "{whole} whole, {none} not there");
}

#[test]
fn rows_whose_sync_failed_never_become_visible_and_nothing_more_is_taken() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = new_store(&disk);
    write(&engine, "m v=1 1").unwrap();
    let before = engine.snapshot().lsn();
    disk.set_plan(CrashPlan {
        fail_sync_at: (1..100).collect(),
        ..CrashPlan::default()
    });
    assert!(write(&engine, "m v=2 2").is_err());
    assert!(disk.failures() > 0);
    // The disk works again, and what it lost stays lost.
    disk.set_plan(CrashPlan::default());
    assert!(matches!(
        write(&engine, "m v=3 3"),
        Err(Error::Poisoned { .. })
    ));
    assert!(engine.flush().is_err());
    assert_eq!((engine.snapshot().lsn(), count(&engine, "m")), (before, 1));
}
