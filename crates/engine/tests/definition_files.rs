//! Promise: definition files stay few, however often names come and go, and say the same after every opening.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options, SystemClock, TableSettings};
use nilometer_lineproto::Precision;

#[path = "support/mod.rs"]
mod support;

fn open(disk: &MemoryDisk, dir: &str) -> Arc<Engine> {
    let options = Options {
        flush_idle_ms: 0,
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new(dir), options);
    Arc::new(engine.unwrap())
}

fn definition_files(disk: &MemoryDisk, dir: &str) -> usize {
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
