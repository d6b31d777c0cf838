//! Damaged files are put aside without being lost, whatever crash comes in between; what is no damage is not put aside;
//! and damage inside a file stops what needs it, and nothing else.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::everything;
use nilometer_engine::disk::{
    CrashPlan, Disk, DiskFile, DiskLayer, FaultyDisk, FileLayer, MemoryDisk,
};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    CompactionOptions, DeleteRequest, Engine, Error, Maintained, OnDamage, Options, ScanRequest,
    SystemClock,
};
use nilometer_lineproto::Precision;

const ROOT: &str = "/d";
const DAY: i64 = 86_400_000_000_000;

fn options() -> Options {
    Options {
        flush_idle_ms: 0,
        log_bytes_max: 64 << 10,
        memory_bytes_max: 64 << 20,
        compaction: CompactionOptions {
            fan_in: 2,
            partition_rows_min: 50,
            settle_ms: 0,
            ..CompactionOptions::default()
        },
        ..Options::default()
    }
}

fn open_with(disk: &Arc<dyn Disk>, options: Options) -> Result<Arc<Engine>, Error> {
    let clock = Arc::new(SystemClock);
    Engine::open(Arc::clone(disk), clock, Path::new(ROOT), options).map(Arc::new)
}

fn open(disk: &Arc<dyn Disk>) -> Result<Arc<Engine>, Error> {
    open_with(disk, options())
}

/// One row of table `t`.
fn write(engine: &Arc<Engine>, time: u64) -> Result<u64, Error> {
    write_body(engine, &format!("t,h=a v={time}i {time}"))
}

fn write_body(engine: &Arc<Engine>, body: &str) -> Result<u64, Error> {
    engine.create_database("d")?;
    let mut session = Session::new(Arc::clone(engine), "d")?;
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond)?;
    assert_eq!(report.rejected_total, 0);
    Ok(report.lsn)
}

fn times(engine: &Arc<Engine>) -> Vec<u64> {
    let answer = everything(engine).unwrap();
    let rows = answer.get("d.public.t").map(Vec::as_slice);
    let rows = rows.unwrap_or_default().iter();
    rows.map(|row| row["time"].parse().unwrap()).collect()
}

fn names(disk: &Arc<dyn Disk>, folder: &str, ending: &str) -> Vec<PathBuf> {
    let dir = Path::new(ROOT).join(folder);
    let mut names: Vec<PathBuf> = match disk.list(&dir) {
        Ok(names) => names.iter().map(|name| dir.join(name)).collect(),
        Err(_) => Vec::new(),
    };
    names.retain(|path| path.to_str().unwrap().ends_with(ending));
    names.sort();
    names
}

fn read_file(disk: &Arc<dyn Disk>, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// Flips a bit of one byte, durably.
fn flip(disk: &Arc<dyn Disk>, path: &Path, at: u64) {
    let file = disk.open(path).unwrap();
    let mut byte = [0];
    assert_eq!(file.read_at(&mut byte, at).unwrap(), 1);
    file.write_at(&[byte[0] ^ 1], at).unwrap();
    file.sync().unwrap();
}

/// Three segments with ten rows each, and rows 30 to 34 in the log.
fn three_segments(disk: &Arc<dyn Disk>) {
    let engine = open(disk).unwrap();
    for time in 0..35 {
        write(&engine, time).unwrap();
        if time % 10 == 9 {
            engine.flush().unwrap();
        }
    }
}

/// Rows of the stores above without the second segment's.
fn without_second() -> Vec<u64> {
    (0..10).chain(20..35).collect()
}

#[test]
fn what_is_put_aside_is_described_and_counted() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    three_segments(&disk);
    let second = names(&disk, "segments", ".seg").remove(1);
    let bytes = read_file(&disk, &second).len() as u64;
    flip(&disk, &second, 20);
    let engine = open(&disk).unwrap();
    assert_eq!(times(&engine), without_second());
    let [aside] = engine.quarantined() else {
        panic!("{:?}", engine.quarantined());
    };
    assert_eq!(
        (&aside.file, aside.offset, aside.bytes),
        (&second, 0, bytes)
    );
    assert_eq!(aside.reason, "the header fails its checksum");
    assert_eq!(aside.rows, Some(10));
    // The first batch has a definitions record before it, and so has the database.
    let (first, last) = aside.lsns.unwrap();
    assert_eq!(last - first, 9);
    let [table] = aside.tables.as_slice() else {
        panic!("{aside:?}");
    };
    assert_eq!(table.name.as_deref(), Some("d.public.t"));
    assert_eq!((table.rows, table.times), (Some(10), (10, 19)));
    let metrics = engine.metrics();
    assert_eq!(
        (
            metrics.quarantined_files,
            metrics.quarantined_bytes,
            metrics.quarantined_rows
        ),
        (1, bytes, 10)
    );
    // The store goes on, and a compaction of what is left changes nothing.
    write(&engine, 99).unwrap();
    engine.settle().unwrap();
    let mut expected = without_second();
    expected.push(99);
    assert_eq!(times(&engine), expected);
    let aside = engine.quarantined().to_vec();
    drop(engine);
    let again = open(&disk).unwrap();
    assert_eq!(again.quarantined(), aside);
    assert_eq!(times(&again), expected);
}

#[test]
fn the_next_backup_keeps_the_copy_that_the_earlier_one_has() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    three_segments(&disk);
    let backup = Path::new("/backup");
    open(&disk).unwrap().backup(backup).unwrap();
    let second = names(&disk, "segments", ".seg").remove(1);
    let whole = read_file(&disk, &second);
    // Not the file that the backup has a link to.
    disk.remove(&second).unwrap();
    let file = disk.create(&second).unwrap();
    file.write_at(&whole[..100], 0).unwrap();
    let engine = open(&disk).unwrap();
    assert_eq!(engine.quarantined().len(), 1);
    engine.backup(backup).unwrap();
    let copy = backup.join("segments").join(second.file_name().unwrap());
    assert_eq!(read_file(&disk, &copy), whole);
    let restored = Path::new("/restored");
    Engine::restore(&disk, backup, restored).unwrap();
    let clock = Arc::new(SystemClock);
    let restored = Engine::open(Arc::clone(&disk), clock, restored, options()).unwrap();
    assert_eq!(times(&Arc::new(restored)), without_second());
}

#[test]
fn a_file_that_comes_back_after_it_was_put_aside_is_left_alone() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    three_segments(&disk);
    let second = names(&disk, "segments", ".seg").remove(1);
    let whole = read_file(&disk, &second);
    disk.remove(&second).unwrap();
    let engine = open(&disk).unwrap();
    assert_eq!(engine.quarantined()[0].kept, None);
    assert_eq!(engine.quarantined()[0].reason, "the file is missing");
    drop(engine);
    let file = disk.create(&second).unwrap();
    file.write_at(&whole, 0).unwrap();
    let engine = open(&disk).unwrap();
    assert_eq!(times(&engine), without_second());
    assert_eq!(read_file(&disk, &second), whole);
}

#[test]
fn a_power_cut_while_a_file_is_put_aside_opens_the_same_way_and_loses_nothing() {
    let prepared = |seed| {
        let faulty = FaultyDisk::new(seed, CrashPlan::default());
        let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
        three_segments(&disk);
        let second = names(&disk, "segments", ".seg").remove(1);
        flip(&disk, &second, 20);
        let damaged = read_file(&disk, &second);
        faulty.set_plan(CrashPlan::default());
        (faulty, disk, damaged)
    };
    let (faulty, disk, _) = prepared(0);
    open(&disk).unwrap();
    let calls = faulty.calls();
    assert!(calls > 12, "{calls}");
    for crash_at in 1..=calls {
        let (faulty, disk, damaged) = prepared(crash_at);
        faulty.set_plan(CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        });
        open(&disk).expect_err("the power goes");
        let plan = CrashPlan::default();
        let after: Arc<dyn Disk> = Arc::new(faulty.after_power_cut(crash_at, plan));
        for _ in 0..2 {
            let engine = open(&after).unwrap();
            assert_eq!(times(&engine), without_second(), "call {crash_at}");
            let [aside] = engine.quarantined() else {
                panic!("call {crash_at}: {:?}", engine.quarantined());
            };
            let kept = aside.kept.as_ref().unwrap();
            assert_eq!(read_file(&after, kept), damaged, "call {crash_at}");
            assert_eq!(aside.rows, Some(10), "call {crash_at}");
        }
    }
}

#[test]
fn what_was_about_to_be_put_aside_and_reads_after_all_stays_in_the_store() {
    let mut undone = 0;
    for crash_at in 1..20 {
        let faulty = FaultyDisk::new(crash_at, CrashPlan::default());
        let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
        three_segments(&disk);
        let second = names(&disk, "segments", ".seg").remove(1);
        flip(&disk, &second, 20);
        faulty.set_plan(CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        });
        if open(&disk).is_ok() {
            break;
        }
        let plan = CrashPlan::default();
        let after: Arc<dyn Disk> = Arc::new(faulty.after_kill(plan));
        if !names(&after, "segments", ".seg").contains(&second) {
            continue;
        }
        // The memory was at fault, not the disk.
        flip(&after, &second, 20);
        let engine = open(&after).unwrap();
        if engine.quarantined().is_empty() {
            undone += 1;
            assert_eq!(times(&engine), (0..35).collect::<Vec<_>>());
            assert_eq!(names(&after, "quarantine", ""), Vec::<PathBuf>::new());
        } else {
            assert_eq!(times(&engine), without_second(), "call {crash_at}");
        }
    }
    assert!(undone > 3, "{undone}");
}

/// A disk on which some files cannot be opened, or not be read.
#[derive(Debug)]
struct Unwilling {
    disk: MemoryDisk,
    kind: io::ErrorKind,
    opens: bool,
}

#[derive(Debug)]
struct UnwillingFile(Arc<dyn DiskFile>, io::ErrorKind);

impl FileLayer for UnwillingFile {
    fn below(&self) -> &dyn DiskFile {
        &*self.0
    }

    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::Error::from(self.1))
    }
}

impl DiskLayer for Unwilling {
    fn below(&self) -> &dyn Disk {
        &self.disk
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(path)?;
        match path
            .to_str()
            .is_some_and(|path| path.strip_suffix(".seg").is_some())
        {
            true if self.opens => Ok(Arc::new(UnwillingFile(file, self.kind))),
            true => Err(io::Error::from(self.kind)),
            false => Ok(file),
        }
    }
}

#[test]
fn a_disk_that_does_not_answer_is_no_damage() {
    let memory = MemoryDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    three_segments(&disk);
    for (kind, opens) in [
        (io::ErrorKind::PermissionDenied, false),
        (io::ErrorKind::Other, false),
        (io::ErrorKind::Other, true),
    ] {
        let unwilling: Arc<dyn Disk> = Arc::new(Unwilling {
            disk: memory.clone(),
            kind,
            opens,
        });
        let refusal = open(&unwilling).expect_err("it cannot be read");
        assert!(matches!(refusal, Error::Io { .. }), "{refusal}");
    }
    let engine = open(&disk).unwrap();
    assert_eq!(engine.quarantined(), []);
    assert_eq!(times(&engine), (0..35).collect::<Vec<_>>());
}

/// A manifest that ends before the edit of a compaction lists files that are gone, and not those that replaced them.
#[test]
fn a_manifest_that_lost_its_end_is_refused_and_nothing_is_thrown_away() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    three_segments(&disk);
    let manifest = Path::new(ROOT).join("manifest");
    let engine = open(&disk).unwrap();
    engine.flush().unwrap();
    let mut ends = vec![read_file(&disk, &manifest).len()];
    while engine.maintain().unwrap() != Maintained::Idle {
        ends.push(read_file(&disk, &manifest).len());
    }
    engine.close().unwrap();
    drop(engine);
    let last = ends.pop().unwrap();
    assert!(ends.last().is_some_and(|end| *end < last), "{ends:?}");
    let whole = read_file(&disk, &manifest);
    let before = names(&disk, "segments", "");
    for end in ends {
        disk.remove(&manifest).unwrap();
        let file = disk.create(&manifest).unwrap();
        file.write_at(&whole[..end], 0).unwrap();
        let refusal = open(&disk).expect_err("files are missing");
        assert!(matches!(&refusal, Error::Corrupt { path, .. } if *path == manifest));
        assert_eq!(names(&disk, "segments", ""), before, "cut at {end}");
        assert_eq!(names(&disk, "quarantine", ""), Vec::<PathBuf>::new());
    }
    disk.remove(&manifest).unwrap();
    let file = disk.create(&manifest).unwrap();
    file.write_at(&whole, 0).unwrap();
    assert_eq!(times(&open(&disk).unwrap()), (0..35).collect::<Vec<_>>());
}

/// Lines of 60 rows each for three tables, on one day.
fn tables(day: i64) -> String {
    use std::fmt::Write as _;
    let mut body = String::new();
    for table in ["t", "u", "w"] {
        for at in 0..60 {
            writeln!(body, "{table},h=a v={day}i {}", day * DAY + at).unwrap();
        }
    }
    body
}

fn rows(engine: &Arc<Engine>, table: &str) -> Result<usize, Error> {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", table).unwrap();
    let columns = table.arrow_schema().fields().len();
    let scan = snapshot.scan(&ScanRequest {
        table,
        projection: (0..columns).collect(),
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    })?;
    let batches = (0..scan.morsels()).flat_map(|morsel| scan.read(morsel));
    batches.map(|batch| Ok(batch?.num_rows())).sum()
}

fn jobs_until_idle(engine: &Arc<Engine>) -> (usize, Vec<Error>) {
    let (mut jobs, mut errors) = (0, Vec::new());
    for _ in 0..200 {
        match engine.maintain() {
            Ok(Maintained::Idle) => return (jobs, errors),
            Ok(_) => jobs += 1,
            Err(error) => errors.push(error),
        }
    }
    panic!("maintenance does not end: {jobs} jobs, {errors:?}");
}

#[test]
fn a_damaged_block_ends_queries_that_need_it_and_no_compaction_of_others() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = open(&disk).unwrap();
    for day in 0..2 {
        write_body(&engine, &tables(day)).unwrap();
        engine.flush().unwrap();
    }
    let damaged = names(&disk, "segments", ".seg").remove(1);
    // Pages begin after the header, and the first table's come first.
    flip(&disk, &damaged, 70);
    for day in 2..8 {
        write_body(&engine, &tables(day)).unwrap();
        engine.flush().unwrap();
    }
    let (jobs, errors) = jobs_until_idle(&engine);
    let [Error::Corrupt { path, .. }] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    assert_eq!(*path, damaged);
    assert!(jobs > 3, "{jobs}");
    let metrics = engine.metrics();
    assert_eq!(metrics.segments_damaged, 1);
    assert_eq!(metrics.partitions, 3, "{metrics:?}");
    let [aside] = engine.damaged_segments().try_into().unwrap();
    assert_eq!(aside.file, damaged);
    assert!(
        aside.offset < 200 && aside.reason.contains("checksum"),
        "{aside:?}"
    );
    engine.settle().unwrap();

    // Only the damaged table's rows of the damaged file are out of reach.
    let error = everything(&engine).unwrap_err().to_string();
    assert!(error.contains(damaged.to_str().unwrap()), "{error}");
    let delete = |table: &str, time| {
        let snapshot = engine.snapshot();
        let table = snapshot.table("d", "public", table).unwrap();
        let tags = Vec::new();
        engine.delete(&DeleteRequest { table, time, tags }).unwrap();
    };
    assert_eq!(rows(&engine, "u").unwrap(), 8 * 60);
    assert_eq!(rows(&engine, "w").unwrap(), 8 * 60);
    rows(&engine, "t").unwrap_err();

    // A file whose every row is deleted goes without being read.
    for table in ["t", "u", "w"] {
        delete(table, DAY..=2 * DAY - 1);
    }
    engine.settle().unwrap();
    assert!(!names(&disk, "segments", ".seg").contains(&damaged));
    let answer = everything(&engine).unwrap();
    assert_eq!(answer["d.public.w"].len(), 7 * 60);
    drop(engine);
    assert_eq!(everything(&open(&disk).unwrap()).unwrap(), answer);
}

fn repairing() -> Options {
    Options {
        on_log_damage: OnDamage::Quarantine,
        ..options()
    }
}

#[test]
fn a_damaged_log_is_refused_unless_told_to_end_it_and_a_power_cut_meanwhile_changes_nothing() {
    let prepared = |seed| {
        let faulty = FaultyDisk::new(seed, CrashPlan::default());
        let disk: Arc<dyn Disk> = Arc::new(faulty.clone());
        three_segments(&disk);
        let live = names(&disk, "log", ".log").pop().unwrap();
        // The third of the five records that only the log has.
        let bytes = read_file(&disk, &live);
        let starts = bytes.windows(4).enumerate();
        let starts: Vec<usize> = starts.filter(|it| it.1 == b"NREC").map(|it| it.0).collect();
        let at = starts[starts.len() - 3];
        flip(&disk, &live, at as u64 + 50);
        let damaged = read_file(&disk, &live);
        faulty.set_plan(CrashPlan::default());
        (faulty, disk, live, at as u64, damaged)
    };
    let (faulty, disk, live, at, _) = prepared(0);
    let refusal = open(&disk).expect_err("acknowledged rows are lost");
    let Error::Corrupt { path, offset, .. } = &refusal else {
        panic!("{refusal}");
    };
    assert_eq!((path, *offset), (&live, at));
    faulty.set_plan(CrashPlan::default());
    open_with(&disk, repairing()).unwrap();
    let calls = faulty.calls();
    let expected: Vec<u64> = (0..32).collect();
    for crash_at in 1..=calls {
        let (faulty, disk, live, at, damaged) = prepared(crash_at);
        faulty.set_plan(CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        });
        open_with(&disk, repairing()).expect_err("the power goes");
        let plan = CrashPlan::default();
        let after: Arc<dyn Disk> = Arc::new(faulty.after_power_cut(crash_at, plan));
        let engine = open_with(&after, repairing()).unwrap();
        assert_eq!(times(&engine), expected, "call {crash_at}");
        let [aside] = engine.quarantined() else {
            panic!("call {crash_at}: {:?}", engine.quarantined());
        };
        assert_eq!((&aside.file, aside.offset), (&live, at));
        let (first, last) = aside.lsns.unwrap();
        assert_eq!(last - first, 2, "three batches");
        let kept = aside.kept.as_ref().unwrap();
        assert_eq!(read_file(&after, kept), damaged, "call {crash_at}");
        // From then on it is a store like any other.
        write(&engine, 77).unwrap();
        drop(engine);
        let engine = open(&after).unwrap();
        assert_eq!(times(&engine), (0..32).chain([77]).collect::<Vec<_>>());
        assert_eq!(engine.quarantined().len(), 1);
    }
}
