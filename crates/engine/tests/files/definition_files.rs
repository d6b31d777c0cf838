//! Promise: definition files stay few, however often names come and go, and say the same after every opening.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use crate::support;
use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options, SystemClock, TableSettings};
use nilometer_lineproto::Precision;

fn open<D: Disk + Clone + 'static>(disk: &D, dir: &str) -> Arc<Engine> {
    let options = Options {
        flush_idle_ms: 0,
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new(dir), options);
    Arc::new(engine.unwrap())
}

fn definition_files(disk: &impl Disk, dir: &str) -> usize {
    let names = disk.list(&Path::new(dir).join("segments")).unwrap();
    let is_definitions = |name: &&String| {
        Path::new(name.as_str())
            .extension()
            .is_some_and(|kind| kind == "def")
    };
    names.iter().filter(is_definitions).count()
}

fn retention_of(engine: &Arc<Engine>) -> Option<i64> {
    let table = engine.snapshot().table("d", "public", "m").unwrap();
    table.settings.retention_ns
}

/// 7,140 tables that were made and dropped had left 396 files of definitions, 7,000 changes of a retention 2,169, and nothing
/// ever merged them.
#[test]
fn definition_files_stay_few_and_say_the_same_after_every_opening() {
    let disk = MemoryDisk::new();
    let mut engine = open(&disk, "/d");
    engine.create_database("d").unwrap();
    let settings = |retention_ns| TableSettings {
        retention_ns: Some(retention_ns),
        ..TableSettings::default()
    };
    engine
        .create_table("d", "public", "m", &[], TableSettings::default())
        .unwrap();
    for round in 1..=400_i64 {
        let table = format!("t{round}");
        engine
            .set_table("d", "public", "m", settings(round))
            .unwrap();
        engine
            .create_table("d", "public", &table, &[], settings(round))
            .unwrap();
        if round > 5 {
            let old = format!("t{}", round - 5);
            engine.drop_table("d", "public", &old).unwrap();
        }
        engine.flush().unwrap();
        let files = definition_files(&disk, "/d");
        assert!(files <= 24, "round {round}: {files} files");
        if round % 40 == 0 {
            drop(engine);
            engine = open(&disk, "/d");
            assert_eq!(retention_of(&engine), Some(round));
            let tables = engine.snapshot().tables("d", "public").unwrap();
            let last = (round - 4..=round).map(|at| format!("t{at}"));
            let mut expected: Vec<String> = last.chain(["m".to_owned()]).collect();
            expected.sort();
            assert_eq!(tables, expected);
        }
    }
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    session
        .write_lines(b"m,h=a v=1 7\nt400 v=2 8", Precision::Nanosecond)
        .unwrap();
    let all = support::everything(&engine).unwrap();
    engine.backup(Path::new("/b")).unwrap();
    // A backup has what the manifest lists, a later flush merges them, and a second backup takes those.
    engine.set_table("d", "public", "m", settings(500)).unwrap();
    engine.flush().unwrap();
    assert_eq!(support::everything(&open(&disk, "/b")).unwrap(), all);
    assert_eq!(retention_of(&open(&disk, "/b")), Some(400));
    drop((session, engine));
    let engine = open(&disk, "/d");
    assert_eq!(retention_of(&engine), Some(500));
    assert_eq!(support::everything(&engine).unwrap(), all);
}

/// Names that do not compress, so that a file's size follows from how many it has.
fn name(round: u64, table: u64) -> String {
    let mut state = round * 1000 + table + 1;
    let digits = (0..20).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        format!("{state:016x}")
    });
    format!("t{}", digits.collect::<String>())
}

/// `nilometer settle` of a store with hundreds of definition files of an earlier version merged everything but these.
#[test]
fn settling_leaves_one_definition_file_that_says_the_same_also_after_a_power_cut() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = open(&disk, "/d");
    engine.create_database("d").unwrap();
    // Each flush has so much less than the one before that this one stays.
    for (round, tables) in [(0, 480), (1, 180), (2, 60), (3, 1)] {
        let lines = (0..tables).map(|at| format!("{} v={at} 1\n", name(round, at)));
        let lines = lines.collect::<Vec<_>>().concat();
        let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
        session
            .write_lines(lines.as_bytes(), Precision::Nanosecond)
            .unwrap();
        engine.flush().unwrap();
    }
    // A drop and another table of its name: only their order says which is which.
    let again = name(0, 7);
    engine.drop_table("d", "public", &again).unwrap();
    engine.flush().unwrap();
    engine
        .create_table("d", "public", &again, &[], TableSettings::default())
        .unwrap();
    engine.flush().unwrap();
    let before = definition_files(&disk, "/d");
    assert!(before >= 3, "{before} files are too few to merge");
    let all = support::everything(&engine).unwrap();
    let tables = engine.snapshot().tables("d", "public").unwrap();
    assert_eq!(tables.len(), 480 + 180 + 60 + 1);
    drop(engine);

    let life = |seed, plan: CrashPlan| {
        let disk = disk.after_power_cut(seed, CrashPlan::default());
        let engine = open(&disk, "/d");
        disk.set_plan(plan);
        let settled = engine.settle();
        let calls = disk.calls();
        (disk, engine, settled, calls)
    };
    let (settled_disk, engine, settled, calls) = life(1, CrashPlan::default());
    settled.unwrap();
    assert_eq!(definition_files(&settled_disk, "/d"), 1);
    assert_eq!(support::everything(&engine).unwrap(), all);
    // What is one file already is not written again.
    let names = || settled_disk.list(Path::new("/d/segments")).unwrap();
    let settled = names();
    engine.settle().unwrap();
    assert_eq!(names(), settled);
    assert!(calls > 5, "{calls} calls are no merge");
    for crash_at in 1..=calls {
        let plan = CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        };
        let (disk, engine, ..) = life(crash_at, plan);
        drop(engine);
        let disk = disk.after_power_cut(crash_at, CrashPlan::default());
        let engine = open(&disk, "/d");
        assert_eq!(
            support::everything(&engine).unwrap(),
            all,
            "call {crash_at}"
        );
        assert_eq!(engine.snapshot().tables("d", "public").unwrap(), tables);
        // Names go on coming, behind those that were merged.
        engine.drop_table("d", "public", &again).unwrap();
        engine.settle().unwrap();
        assert_eq!(definition_files(&disk, "/d"), 1, "call {crash_at}");
        drop(engine);
        let left = open(&disk, "/d").snapshot().tables("d", "public").unwrap();
        assert_eq!(left.len(), tables.len() - 1, "call {crash_at}");
    }
}
