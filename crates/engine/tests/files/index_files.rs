//! Promise: series are found in files as they were in memory, opening reads nothing of them but where they are, and
//! whatever happens between a file and the manifest that lists it, no series is lost, changed or there twice.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    reason = "a failed unwrap is the report, and bodies are made once"
)]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::everything;
use nilometer_engine::disk::{
    CrashPlan, Disk, DiskFile, DiskLayer, FaultyDisk, FileLayer, MemoryDisk,
};
use nilometer_engine::ingest::Session;
use nilometer_engine::inspect::inspect;
use nilometer_engine::{
    DeleteRequest, Engine, Error, Maintained, Options, Snapshot, SystemClock, TagMatch,
    TagPredicate,
};
use nilometer_lineproto::Precision;

/// A disk in memory that counts what is read of index files.
#[derive(Debug, Clone, Default)]
struct CountingDisk {
    disk: MemoryDisk,
    read: Arc<AtomicU64>,
}

#[derive(Debug)]
struct CountingFile {
    file: Arc<dyn DiskFile>,
    read: Arc<AtomicU64>,
}

impl FileLayer for CountingFile {
    fn below(&self) -> &dyn DiskFile {
        &*self.file
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let n = self.file.read_at(buf, offset)?;
        self.read.fetch_add(n as u64, Ordering::SeqCst);
        Ok(n)
    }
}

impl DiskLayer for CountingDisk {
    fn below(&self) -> &dyn Disk {
        &self.disk
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(path)?;
        if path.extension().is_none_or(|ending| ending != "idx") {
            return Ok(file);
        }
        Ok(Arc::new(CountingFile {
            file,
            read: Arc::clone(&self.read),
        }))
    }
}

/// Nothing is flushed or merged but when a test says so.
fn options() -> Options {
    Options {
        flush_idle_ms: 0,
        ..Options::default()
    }
}

fn try_open(disk: &(impl Disk + Clone + 'static)) -> Result<Arc<Engine>, Error> {
    let disk = Arc::new(disk.clone());
    Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options()).map(Arc::new)
}

fn open(disk: &(impl Disk + Clone + 'static)) -> Arc<Engine> {
    let engine = try_open(disk).unwrap();
    engine.create_database("d").unwrap();
    engine
}

fn write(engine: &Arc<Engine>, body: &str) -> Result<(), Error> {
    let mut session = Session::new(Arc::clone(engine), "d")?;
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond)?;
    assert_eq!(report.rejected, []);
    Ok(())
}

/// A row of each series of a range.
fn rows(table: &str, series: std::ops::Range<u32>, time: i64) -> String {
    series
        .map(|n| format!("{table},host=h{n},rack=r{} v={n}i {time}\n", n % 50))
        .collect()
}

fn files(disk: &dyn Disk, ending: &str) -> Vec<String> {
    let mut names = disk.list(Path::new("/d/segments")).unwrap();
    names.retain(|name| name.ends_with(ending));
    names.sort();
    names
}

/// Ids by tags of every series of a table.
fn ids(snapshot: &Snapshot, table: &str) -> BTreeMap<Vec<Option<String>>, u32> {
    let Some(table) = snapshot.table("d", "public", table) else {
        return BTreeMap::new();
    };
    let series = snapshot.series(&table, &[]).unwrap();
    assert!(series.is_sorted());
    let tags = snapshot.series_tags(&table, &series).unwrap();
    let ids: BTreeMap<_, _> = tags.into_iter().zip(series.iter().map(|id| id.0)).collect();
    assert_eq!(ids.len(), series.len(), "each set of tags once");
    ids
}

fn with(column: usize, value: &str) -> TagPredicate {
    TagPredicate {
        column,
        matches: TagMatch::OneOf(vec![Some(value.to_owned())]),
        negated: false,
    }
}

#[test]
fn opening_200_000_series_reads_where_they_are_and_finding_one_reads_a_few_blocks() {
    let disk = CountingDisk::default();
    let engine = open(&disk);
    for part in 0..10 {
        write(&engine, &rows("m", part * 20_000..(part + 1) * 20_000, 1)).unwrap();
        if part % 5 == 4 {
            engine.flush().unwrap();
        }
    }
    assert_eq!(engine.metrics().index_files, 2);
    engine.close().unwrap();
    drop(engine);
    let seen = inspect(&disk, Path::new("/d")).unwrap();
    assert!(seen.bytes.index > 1_000_000, "{:?}", seen.bytes);

    disk.read.store(0, Ordering::SeqCst);
    let engine = open(&disk);
    let opened = disk.read.load(Ordering::SeqCst);
    assert_eq!(engine.metrics().series, 200_000);
    assert!(
        opened < seen.bytes.index / 10,
        "{opened} of {} bytes were read",
        seen.bytes.index
    );
    assert!(engine.metrics().series_bytes < 1_000_000);

    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "m").unwrap();
    let host = snapshot.series(&table, &[with(1, "h123456")]).unwrap();
    let tags = snapshot.series_tags(&table, &host).unwrap();
    let expected = [Some("h123456".to_owned()), Some("r6".to_owned())];
    assert_eq!(tags, [expected]);
    let found = disk.read.load(Ordering::SeqCst) - opened;
    assert!(found < 100_000, "{found} bytes were read to find a series");
    let before = disk.read.load(Ordering::SeqCst);
    snapshot.series(&table, &[with(1, "h123456")]).unwrap();
    assert_eq!(disk.read.load(Ordering::SeqCst), before, "twice read");

    // Writers that remember nothing find what is there.
    write(&engine, &rows("m", 0..200_000, 2)).unwrap();
    assert_eq!(engine.metrics().series, 200_000);
    write(&engine, &rows("m", 200_000..200_001, 2)).unwrap();
    assert_eq!(engine.metrics().series, 200_001);
}

#[test]
fn a_small_cache_gives_the_same_answers() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    for part in 0..3 {
        write(&engine, &rows("m", part * 3000..(part + 1) * 3000, 1)).unwrap();
        engine.flush().unwrap();
    }
    let expected = everything(&engine).unwrap();
    let known = ids(&engine.snapshot(), "m");
    engine.close().unwrap();
    drop(engine);
    for index_cache_bytes_max in [0, 1000, 20_000] {
        let options = Options {
            index_cache_bytes_max,
            ..options()
        };
        let store = Arc::new(disk.clone());
        let engine = Engine::open(store, Arc::new(SystemClock), Path::new("/d"), options).unwrap();
        let engine = Arc::new(engine);
        assert_eq!(everything(&engine).unwrap(), expected);
        assert_eq!(ids(&engine.snapshot(), "m"), known);
        assert!(engine.metrics().index_cache_bytes <= index_cache_bytes_max);
    }
}

#[test]
fn merging_leaves_few_files_and_readers_keep_what_they_read() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    for part in 0..20 {
        write(&engine, &rows("m", part * 100..(part + 1) * 100, 1)).unwrap();
        engine.flush().unwrap();
    }
    let snapshot = engine.snapshot();
    let before = ids(&snapshot, "m");
    assert_eq!(before.len(), 2000);
    assert_eq!(files(&disk, ".idx").len(), 20);
    let mut merged = 0;
    loop {
        match engine.maintain().unwrap() {
            Maintained::Idle => break,
            Maintained::Indexed { files } => merged += files,
            _ => {}
        }
        assert_eq!(ids(&snapshot, "m"), before);
    }
    assert!(
        merged >= 8,
        "{merged} files were merged while somebody wrote"
    );
    engine.settle().unwrap();
    assert_eq!(engine.metrics().index_files, 1);
    assert_eq!(
        files(&disk, ".idx").len(),
        21,
        "a snapshot reads the others"
    );
    assert_eq!(ids(&snapshot, "m"), before);
    assert_eq!(ids(&engine.snapshot(), "m"), before);
    drop(snapshot);
    engine.settle().unwrap();
    assert_eq!(files(&disk, ".idx").len(), 1, "the others are unlinked");
    drop(engine);
    let engine = open(&disk);
    assert_eq!(ids(&engine.snapshot(), "m"), before);
}

#[test]
fn a_scan_that_is_planned_reads_on_while_its_index_files_are_merged_away() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    for part in 0..3 {
        write(&engine, &rows("m", part * 100..(part + 1) * 100, 1)).unwrap();
        engine.flush().unwrap();
    }
    let snapshot = engine.snapshot();
    let expected = everything(&engine).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..50 {
                let table = snapshot.table("d", "public", "m").unwrap();
                assert_eq!(snapshot.series(&table, &[with(2, "r7")]).unwrap().len(), 6);
                assert_eq!(everything(&engine).unwrap(), expected);
            }
        });
        engine.settle().unwrap();
        reader.join().unwrap();
    });
}

#[test]
fn series_of_dropped_tables_leave_at_the_merge_and_their_ids_stay_taken() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    write(&engine, &rows("gone", 0..5000, 1)).unwrap();
    engine.flush().unwrap();
    write(&engine, &rows("kept", 0..10, 1)).unwrap();
    engine.flush().unwrap();
    write(&engine, &rows("gone_too", 0..5000, 1)).unwrap();
    engine.drop_table("d", "public", "gone").unwrap();
    engine.drop_table("d", "public", "gone_too").unwrap();
    engine.settle().unwrap();
    let bytes = inspect(&disk, Path::new("/d")).unwrap().bytes.index;
    assert!(bytes < 5000, "{bytes} bytes for ten series");
    let before = ids(&engine.snapshot(), "kept");
    drop(engine);
    let engine = open(&disk);
    assert_eq!(ids(&engine.snapshot(), "kept"), before);
    write(&engine, &rows("gone", 0..3, 1)).unwrap();
    let new = ids(&engine.snapshot(), "gone");
    assert_eq!(new.len(), 3);
    assert!(new.values().all(|id| *id > 10_010), "{new:?}");
}

/// Series in several files, several in memory, some of them known twice to the log.
fn live(engine: &Arc<Engine>) -> Result<(), Error> {
    engine.create_database("d")?;
    for round in 0..4 {
        write(
            engine,
            &rows("m", round * 5..round * 5 + 10, i64::from(round)),
        )?;
        write(engine, &rows("n", 0..round, i64::from(round)))?;
        if round < 3 {
            engine.flush()?;
        }
        if round == 2 {
            engine.settle()?;
        }
    }
    engine.drop_table("d", "public", "n")?;
    engine.flush()?;
    write(engine, &rows("m", 20..30, 9))?;
    engine.settle()
}

#[test]
fn a_power_cut_at_any_call_loses_no_series_and_gives_no_id_twice() {
    let calm = FaultyDisk::new(1, CrashPlan::default());
    let engine = try_open(&calm).unwrap();
    calm.set_plan(CrashPlan::default());
    live(&engine).unwrap();
    let calls = calm.calls();
    let mut cut_inside = 0;
    for crash_at in 1..=calls {
        let disk = FaultyDisk::new(crash_at, CrashPlan::default());
        let engine = try_open(&disk).unwrap();
        disk.set_plan(CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        });
        cut_inside += u64::from(live(&engine).is_err());
        drop(engine);
        let disk = disk.after_power_cut(crash_at, CrashPlan::default());
        let engine = open(&disk);
        let known = ids(&engine.snapshot(), "m");
        let shown = everything(&engine).unwrap();
        let own: std::collections::BTreeSet<u32> = known.values().copied().collect();
        assert_eq!(own.len(), known.len(), "call {crash_at}: an id twice");
        // Every row has its tags: a row of an unknown series would show none.
        for row in shown.values().flatten() {
            let n: u32 = row["v"].parse().unwrap();
            assert_eq!(row["host"], format!("h{n}"), "call {crash_at}");
            assert_eq!(row["rack"], format!("r{}", n % 50), "call {crash_at}");
        }
        // What it shows stays, and what is written now is found beside it.
        drop(engine);
        let disk = disk.after_power_cut(crash_at ^ 7, CrashPlan::default());
        let engine = open(&disk);
        assert_eq!(ids(&engine.snapshot(), "m"), known, "call {crash_at}");
        live(&engine).unwrap();
        let after = ids(&engine.snapshot(), "m");
        assert_eq!(after.len(), 30, "call {crash_at}");
        for (tags, id) in &known {
            assert_eq!(after.get(tags), Some(id), "call {crash_at}: {tags:?}");
        }
    }
    // Some calls only remove what is not needed any more, and nobody waits for those.
    assert!(cut_inside > calls / 2, "{cut_inside} of {calls}");
}

#[test]
fn an_index_file_without_a_manifest_that_lists_it_is_removed() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    write(&engine, &rows("m", 0..10, 1)).unwrap();
    engine.close().unwrap();
    drop(engine);
    let stray = disk.create(Path::new("/d/segments/0000000000000099.idx"));
    assert_eq!(stray.unwrap().write_at(b"torn", 0).unwrap(), 4);
    let engine = open(&disk);
    assert_eq!(files(&disk, ".idx").len(), 1);
    assert_eq!(ids(&engine.snapshot(), "m").len(), 10);
}

#[test]
fn a_block_that_was_damaged_since_is_an_error_that_names_the_file() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    write(&engine, &rows("m", 0..5000, 1)).unwrap();
    engine.close().unwrap();
    drop(engine);
    let name = files(&disk, ".idx").pop().unwrap();
    let path = Path::new("/d/segments").join(&name);
    let file = disk.open(&path).unwrap();
    let flip = |at| {
        let mut byte = [0];
        assert_eq!(file.read_at(&mut byte, at).unwrap(), 1);
        assert_eq!(file.write_at(&[byte[0] ^ 1], at).unwrap(), 1);
    };
    // Behind the ids, and before what opening looks at, stands much that is there once.
    let refused = (200..file.size().unwrap()).step_by(100).find_map(|at| {
        flip(at);
        let engine = open(&disk);
        let error = everything(&engine).err();
        if error.is_none() {
            flip(at);
        }
        error.map(|error| (engine, error))
    });
    let (engine, error) = refused.unwrap();
    assert!(error.to_string().contains(&name), "{error}");
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    // Other tables and new series go on.
    write(&engine, &rows("other", 0..5, 1)).unwrap();
    assert_eq!(ids(&engine.snapshot(), "other").len(), 5);
}

fn delete(
    engine: &Arc<Engine>,
    table: &str,
    time: std::ops::RangeInclusive<i64>,
    host: Option<&str>,
) {
    let table = engine.snapshot().table("d", "public", table).unwrap();
    let request = DeleteRequest {
        table,
        time,
        tags: host.map(|host| with(1, host)).into_iter().collect(),
    };
    engine.delete(&request).unwrap();
}

/// Whoever had written a container's metrics for an hour was found in the index for ever.
#[test]
fn series_without_a_row_leave_the_index_and_come_back_as_others() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    write(&engine, &rows("m", 0..5000, 1)).unwrap();
    engine.flush().unwrap();
    write(&engine, &rows("m", 0..10, 5)).unwrap();
    engine.flush().unwrap();
    let before = ids(&engine.snapshot(), "m");
    let snapshot = engine.snapshot();
    delete(&engine, "m", i64::MIN..=2, None);
    assert_eq!(ids(&engine.snapshot(), "m"), before, "their rows are there");
    // The rows of one of them are in memory only, those of another were written and deleted there.
    write(&engine, &rows("m", 20..22, 6)).unwrap();
    delete(&engine, "m", 6..=6, Some("h21"));
    engine.settle().unwrap();
    let after = ids(&engine.snapshot(), "m");
    let left = |host: u32| host < 10 || host == 20;
    let expected = (0..5000).filter(|host| left(*host)).map(|host| {
        let tags = vec![Some(format!("h{host}")), Some(format!("r{}", host % 50))];
        let id = before[&tags];
        (tags, id)
    });
    let expected: BTreeMap<_, _> = expected.collect();
    assert_eq!(after, expected);
    let table = snapshot.table("d", "public", "m").unwrap();
    let racks = engine
        .snapshot()
        .tag_values(&table, table.tags[1].id, &[], "", 100);
    let racks = racks.unwrap();
    let known = [
        "r0", "r1", "r2", "r20", "r3", "r4", "r5", "r6", "r7", "r8", "r9",
    ];
    assert_eq!(racks, known);
    let bytes = inspect(&disk, Path::new("/d")).unwrap().bytes.index;
    assert!(bytes < 5000, "{bytes} bytes for eleven series");
    assert_eq!(ids(&snapshot, "m"), before, "a reader keeps what it reads");

    // A session that remembers ids finds new ones, and so does the next life.
    write(&engine, &rows("m", 0..100, 9)).unwrap();
    let again = ids(&engine.snapshot(), "m");
    assert_eq!(again.len(), 100);
    for (tags, id) in &again {
        let known = expected.get(tags);
        assert!(
            known.map_or(*id > 5000, |known| known == id),
            "{tags:?} {id}"
        );
    }
    let rows = everything(&engine).unwrap();
    drop((snapshot, engine));
    let engine = open(&disk);
    assert_eq!(ids(&engine.snapshot(), "m"), again);
    assert_eq!(everything(&engine).unwrap(), rows);
}

/// Rows that came between the look for rows and the edit kept the id of a series that nobody knew any more.
#[test]
fn writers_beside_maintenance_never_lose_a_series() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    for round in 0..30 {
        write(&engine, &rows("m", 0..50, round)).unwrap();
        engine.flush().unwrap();
        delete(&engine, "m", round..=round, None);
        std::thread::scope(|scope| {
            let keeper = scope.spawn(|| engine.settle().unwrap());
            for host in 0..50 {
                write(&engine, &rows("m", host..host + 1, 1000 + round)).unwrap();
            }
            keeper.join().unwrap();
        });
        let snapshot = engine.snapshot();
        let table = snapshot.table("d", "public", "m").unwrap();
        let live = snapshot
            .live_series(&table, &(i64::MIN..=i64::MAX))
            .unwrap();
        let known = snapshot.series(&table, &[]).unwrap();
        assert!(live.iter().all(|id| known.binary_search(id).is_ok()));
        assert_eq!(
            everything(&engine).unwrap().len(),
            50 * (usize::try_from(round).unwrap() + 1)
        );
    }
}
