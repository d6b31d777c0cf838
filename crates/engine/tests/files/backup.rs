//! Backups of a running store: exactly the batches up to their LSN, only what is new the next time, never a folder
//! that is neither the old backup nor the new one, and no damage that restoring does not find.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{Answer, everything};
use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk, MemoryDisk, RealDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{BackupReport, Engine, Error, Options, SystemClock};
use nilometer_lineproto::Precision;

const STORE: &str = "/store";
const BACKUP: &str = "/backup";
const COPY: &str = "/copy";

fn open(disk: &Arc<dyn Disk>, dir: &str) -> Result<Arc<Engine>, Error> {
    let options = Options {
        flush_rows: 1_000,
        flush_idle_ms: 0,
        log_bytes_max: 64 << 10,
        memory_bytes_max: 64 << 20,
        ..Options::default()
    };
    let clock = Arc::new(SystemClock);
    Engine::open(Arc::clone(disk), clock, Path::new(dir), options).map(Arc::new)
}

/// One batch: rows of three series at `time`.
fn write(engine: &Arc<Engine>, time: u64) -> Result<u64, Error> {
    let mut session = Session::new(Arc::clone(engine), "d")?;
    let body = format!("m,h=a v={time}i {time}\nm,h=b v=1i,w=\"t{time}\" {time}\nn v=2.5 {time}");
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond)?;
    assert_eq!((report.rows, report.rejected_total), (3, 0));
    Ok(report.lsn)
}

fn start(disk: &Arc<dyn Disk>, batches: u64) -> Arc<Engine> {
    let engine = open(disk, STORE).expect("a new store opens");
    engine.create_database("d").expect("a new name");
    for time in 0..batches {
        write(&engine, time).expect("nothing fails here");
    }
    engine
}

/// Times of the rows of one series: each batch has one.
fn times(engine: &Arc<Engine>) -> Vec<u64> {
    times_in(&everything(engine).expect("it reads"))
}

fn times_in(answer: &Answer) -> Vec<u64> {
    let rows = answer
        .get("d.public.n")
        .map(Vec::as_slice)
        .unwrap_or_default();
    rows.iter()
        .map(|row| row["time"].parse().expect("a number"))
        .collect()
}

fn backup(engine: &Engine) -> BackupReport {
    engine
        .backup(Path::new(BACKUP))
        .expect("nothing fails here")
}

fn restored(disk: &Arc<dyn Disk>, dest: &str) -> Arc<Engine> {
    Engine::restore(disk, Path::new(BACKUP), Path::new(dest)).expect("it is whole");
    open(disk, dest).expect("what was restored opens")
}

#[test]
fn a_backup_of_a_busy_store_has_exactly_the_batches_up_to_its_lsn() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = start(&disk, 0);
    let (stop, acknowledged) = (AtomicBool::new(false), Mutex::new(BTreeMap::new()));
    let mut reports = Vec::new();
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (engine, stop, acknowledged) = (&engine, &stop, &acknowledged);
            scope.spawn(move || {
                for at in 0.. {
                    let time = at * 2 + writer;
                    let lsn = write(engine, time).unwrap();
                    acknowledged.lock().unwrap().insert(lsn, time);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                engine.maintain().unwrap();
                std::thread::yield_now();
            }
        });
        for round in 0..12 {
            let target = acknowledged.lock().unwrap().len() + 150;
            while acknowledged.lock().unwrap().len() < target {
                std::thread::yield_now();
            }
            let before = acknowledged.lock().unwrap().keys().last().copied().unwrap();
            let report = backup(&engine);
            assert!(
                report.lsn >= before,
                "{report:?}: {before} was acknowledged"
            );
            let copy = format!("/copy{round}");
            let found = Engine::restore(&disk, Path::new(BACKUP), Path::new(&copy)).unwrap();
            assert_eq!((found.lsn, found.interrupted), (report.lsn, false));
            reports.push((copy, report));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    for (copy, report) in &reports {
        let mut expected: Vec<u64> = acknowledged
            .range(..=report.lsn)
            .map(|(_, time)| *time)
            .collect();
        expected.sort_unstable();
        assert_eq!(times(&open(&disk, copy).unwrap()), expected, "{report:?}");
    }
    let kept: u64 = reports.iter().map(|(_, report)| report.files_kept).sum();
    let logs = reports
        .iter()
        .filter(|(_, report)| report.log_bytes > 0)
        .count();
    assert!(kept > 0 && logs > 0, "{reports:?}");
}

#[test]
fn the_next_backup_adds_only_what_is_new_and_opens_as_a_store() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = start(&disk, 20);
    engine.flush().unwrap();
    let first = backup(&engine);
    assert_eq!(
        (first.files_kept, first.files_removed, first.log_bytes),
        (0, 0, 0)
    );
    assert_eq!(first.files_added, 3, "definitions, index and a segment");
    let again = backup(&engine);
    assert_eq!(
        (again.files_added, again.bytes_added, again.files_kept),
        (0, 0, 3)
    );

    // What is in the log alone comes as the log's end, each time whole.
    write(&engine, 20).unwrap();
    let tail = backup(&engine);
    assert_eq!((tail.files_added, tail.files_kept), (0, 3));
    assert!(tail.log_bytes > 0 && tail.lsn > first.lsn);
    assert_eq!(
        times(&restored(&disk, "/tail")),
        (0..21).collect::<Vec<_>>()
    );

    engine.flush().unwrap();
    let third = backup(&engine);
    assert_eq!(
        (third.files_added, third.files_kept, third.log_bytes),
        (1, 3, 0)
    );
    let all = everything(&engine).unwrap();
    assert_eq!(everything(&restored(&disk, COPY)).unwrap(), all);
    assert_eq!(everything(&open(&disk, BACKUP).unwrap()).unwrap(), all);
}

#[test]
fn a_restored_store_goes_on_where_the_backup_was() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = start(&disk, 10);
    let report = backup(&engine);
    write(&engine, 10).unwrap();
    let copy = restored(&disk, COPY);
    assert_eq!(times(&copy), (0..10).collect::<Vec<_>>());
    assert_eq!(write(&copy, 99).unwrap(), report.lsn + 1);
    copy.flush().unwrap();
    drop(copy);
    let mut expected: Vec<u64> = (0..10).collect();
    expected.push(99);
    assert_eq!(times(&open(&disk, COPY).unwrap()), expected);
    assert_eq!(
        times(&engine),
        (0..11).collect::<Vec<_>>(),
        "the original is another"
    );
    assert_eq!(
        times(&restored(&disk, "/again")),
        (0..10).collect::<Vec<_>>()
    );
}

#[test]
fn only_an_empty_folder_or_a_backup_of_this_store_is_written_to() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = start(&disk, 3);
    let refused = |dest: &str, why: &str| {
        let error = engine.backup(Path::new(dest)).expect_err(dest).to_string();
        assert!(error.contains(why) && error.contains(dest), "{error}");
    };
    refused(STORE, "own folder");
    refused("/store/inside", "own folder");
    refused("/", "own folder");
    disk.create(Path::new("/strange/letters")).unwrap();
    refused("/strange", "letters");
    disk.create(Path::new("/lost/segments/0000000000000001.seg"))
        .unwrap();
    refused("/lost", "files of a store");
    drop(open(&disk, "/other").unwrap());
    refused("/other", "is a store");

    let other = open(&disk, "/other").unwrap();
    other.backup(Path::new("/others")).unwrap();
    refused("/others", "another store");
    backup(&engine);
    // Who opens a backup may write to it.
    drop(open(&disk, BACKUP).unwrap());
    refused(BACKUP, "opened");

    let full = Engine::restore(&disk, Path::new("/others"), Path::new(STORE)).unwrap_err();
    assert!(full.to_string().contains("empty folder"), "{full}");
    let busy = Engine::restore(&disk, Path::new(STORE), Path::new(COPY)).unwrap_err();
    assert!(matches!(busy, Error::Locked { .. }), "{busy}");
}

#[test]
fn a_store_that_stopped_after_a_failed_sync_can_still_be_backed_up() {
    let faulty = FaultyDisk::new(3, CrashPlan::default());
    let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
    let engine = start(&disk, 30);
    faulty.set_plan(CrashPlan {
        fail_sync_at: vec![1, 2, 3],
        ..CrashPlan::default()
    });
    write(&engine, 30).unwrap_err();
    assert!(engine.metrics().poisoned.is_some());
    faulty.set_plan(CrashPlan::default());
    backup(&engine);
    assert_eq!(times(&restored(&disk, COPY)), (0..30).collect::<Vec<_>>());
}

#[test]
fn a_backup_on_the_same_file_system_takes_no_room_and_one_on_another_is_a_copy() {
    use std::os::unix::fs::MetadataExt;

    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let same = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
    let device = |path: &Path| std::fs::metadata(path).unwrap().dev();
    let elsewhere = device(same.path()) != device(other.path());
    if !elsewhere {
        eprintln!("SKIPPED in part: this machine has one file system");
    }
    let path = |name: &str| same.path().join(name).to_str().unwrap().to_owned();
    let engine = open(&disk, &path("store")).unwrap();
    engine.create_database("d").unwrap();
    write(&engine, 0).unwrap();
    engine.flush().unwrap();
    let names = |dir: &Path| -> Vec<u64> {
        let dir = std::fs::read_dir(dir.join("segments")).unwrap();
        dir.map(|entry| entry.unwrap().metadata().unwrap().nlink())
            .collect()
    };
    let links = Path::new(&path("backup")).to_owned();
    let copies = other.path().join("backup");
    for dest in [&links, &copies] {
        assert_eq!(engine.backup(dest).unwrap().files_added, 3);
    }
    assert_eq!(names(&links), [2 + u64::from(!elsewhere); 3]);
    assert_eq!(names(&copies), [if elsewhere { 1 } else { 3 }; 3]);
    write(&engine, 1).unwrap();
    drop(engine);
    std::fs::remove_dir_all(path("store")).unwrap();
    for (backup, dest) in [(&links, "a"), (&copies, "b")] {
        Engine::restore_dir(backup, Path::new(&path(dest))).unwrap();
        assert_eq!(times(&open(&disk, &path(dest)).unwrap()), [0]);
    }
}

/// A store of which there is a backup, and which went on since: flushed, and with something in the log.
fn backed_up_once(seed: u64) -> (FaultyDisk, Arc<Engine>) {
    let faulty = FaultyDisk::new(seed, CrashPlan::default());
    let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
    let engine = start(&disk, 10);
    engine.flush().expect("nothing fails here");
    write(&engine, 10).expect("nothing fails here");
    backup(&engine);
    for time in 11..15 {
        write(&engine, time).expect("nothing fails here");
    }
    engine.flush().expect("nothing fails here");
    write(&engine, 15).expect("nothing fails here");
    (faulty, engine)
}

#[test]
fn a_power_cut_in_a_backup_leaves_the_old_one_or_the_new_one_and_a_store() {
    let calls = {
        let (faulty, engine) = backed_up_once(0);
        faulty.set_plan(CrashPlan::default());
        backup(&engine);
        faulty.calls()
    };
    assert!(calls > 20, "{calls}");
    let mut found = BTreeMap::new();
    for crash_at in 1..=calls {
        let (faulty, engine) = backed_up_once(crash_at);
        faulty.set_plan(CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        });
        engine
            .backup(Path::new(BACKUP))
            .expect_err("the power goes");
        let disk: Arc<dyn Disk> = Arc::new(faulty.after_power_cut(crash_at, CrashPlan::default()));

        // The folder is a backup that restores and a store that opens: the first backup or the new one, and nothing between.
        let copy = times(&restored(&disk, COPY));
        assert!([11, 16].contains(&copy.len()), "call {crash_at}: {copy:?}");
        let direct = faulty.after_power_cut(crash_at, CrashPlan::default());
        let direct: Arc<dyn Disk> = Arc::new(direct);
        assert_eq!(
            times(&open(&direct, BACKUP).unwrap()),
            copy,
            "call {crash_at}"
        );
        assert_eq!(
            copy,
            (0..copy.len() as u64).collect::<Vec<_>>(),
            "call {crash_at}"
        );
        *found.entry(copy.len()).or_insert(0) += 1;

        // The store has lost nothing, and its next backup ends what was interrupted.
        let engine = open(&disk, STORE).unwrap();
        assert_eq!(
            times(&engine),
            (0..16).collect::<Vec<_>>(),
            "call {crash_at}"
        );
        backup(&engine);
        assert_eq!(
            times(&restored(&disk, "/second")),
            (0..16).collect::<Vec<_>>()
        );
        assert_eq!(
            disk.list(Path::new("/store/staged")).unwrap(),
            Vec::<String>::new()
        );
        assert_eq!(
            times(&open(&disk, BACKUP).unwrap()),
            (0..16).collect::<Vec<_>>()
        );
    }
    assert!(
        found.contains_key(&11) && found.contains_key(&16),
        "{found:?}"
    );
}

#[test]
fn a_power_cut_in_the_first_backup_leaves_a_folder_that_the_next_one_finishes() {
    let fresh = |seed| {
        let faulty = FaultyDisk::new(seed, CrashPlan::default());
        let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
        let engine = start(&disk, 5);
        engine.flush().unwrap();
        write(&engine, 5).unwrap();
        faulty.set_plan(CrashPlan::default());
        (faulty, engine)
    };
    let (faulty, engine) = fresh(0);
    backup(&engine);
    for crash_at in 1..=faulty.calls() {
        let (faulty, engine) = fresh(crash_at);
        faulty.set_plan(CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        });
        engine
            .backup(Path::new(BACKUP))
            .expect_err("the power goes");
        let disk: Arc<dyn Disk> = Arc::new(faulty.after_power_cut(crash_at, CrashPlan::default()));
        backup(&open(&disk, STORE).unwrap());
        assert_eq!(
            times(&restored(&disk, COPY)),
            (0..6).collect::<Vec<_>>(),
            "call {crash_at}"
        );
    }
}

#[test]
fn a_power_cut_while_restoring_leaves_no_store_or_a_whole_one() {
    let prepared = |seed| {
        let (faulty, engine) = backed_up_once(seed);
        backup(&engine);
        drop(engine);
        faulty.set_plan(CrashPlan::default());
        let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
        (faulty, disk)
    };
    let (faulty, disk) = prepared(0);
    Engine::restore(&disk, Path::new(BACKUP), Path::new(COPY)).unwrap();
    let mut whole = 0;
    let calls = faulty.calls();
    for crash_at in 1..=calls {
        let (faulty, disk) = prepared(crash_at);
        faulty.set_plan(CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        });
        let outcome = Engine::restore(&disk, Path::new(BACKUP), Path::new(COPY));
        outcome.expect_err("the power goes");
        let after: Arc<dyn Disk> = Arc::new(faulty.after_power_cut(crash_at, CrashPlan::default()));
        let has_manifest = after
            .list(Path::new(COPY))
            .unwrap()
            .contains(&"manifest".to_owned());
        if has_manifest {
            whole += 1;
            assert_eq!(
                times(&open(&after, COPY).unwrap()),
                (0..16).collect::<Vec<_>>()
            );
        }
    }
    assert!(whole <= 2, "{whole} of {calls}: the manifest comes last");
}

#[test]
fn damage_to_a_backup_is_found_when_it_is_restored_or_harmless() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = start(&disk, 200);
    engine.flush().unwrap();
    write(&engine, 200).unwrap();
    let report = backup(&engine);
    assert!(report.files_added > 1 && report.log_bytes > 0);
    let expected = everything(&engine).unwrap();
    let (mut found, mut harmless, mut restores) = (0, 0, 0);
    for dir in ["", "/log", "/segments"] {
        let dir = format!("{BACKUP}{dir}");
        for name in disk.list(Path::new(&dir)).unwrap() {
            let file = disk.open(&Path::new(&dir).join(&name)).unwrap();
            // Odd, so that every kind of byte of small structures is met.
            for at in (0..file.size().unwrap()).step_by(13) {
                let mut byte = [0];
                file.read_at(&mut byte, at).unwrap();
                file.write_at(&[byte[0] ^ 0x24], at).unwrap();
                restores += 1;
                let copy = format!("/copy{restores}");
                if let Err(error) = Engine::restore(&disk, Path::new(BACKUP), Path::new(&copy)) {
                    found += 1;
                    let error = error.to_string();
                    // A record that is cut off shows as a log that ends early.
                    let named = error.contains(&name) || error.contains("the log ends");
                    assert!(named, "{name} at {at}: {error}");
                } else {
                    harmless += 1;
                    // Headers are followed by zeros that no checksum covers.
                    assert_eq!(byte, [0], "{name} at {at}");
                    let copy = open(&disk, &copy).unwrap();
                    assert_eq!(everything(&copy).unwrap(), expected, "{name} at {at}");
                }
                file.write_at(&byte, at).unwrap();
            }
        }
    }
    assert!(
        found > 50 && harmless > 0,
        "{found} found, {harmless} harmless"
    );
}
