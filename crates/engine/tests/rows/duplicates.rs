//! The kind of duplicates of a table that has rows: what they are does not depend on which of them were merged in files.
//!
//! A table `last` had `f=1` and, of the same series and time, `i=2`. Told to be `unique`, it answered `f` as NULL, told to be
//! `last` again as 1; settled before, it kept 1 throughout, and a compaction in between had lost it.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::path::Path;
use std::sync::Arc;

use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    AggregateRequest, ColumnKind, Duplicates, Engine, Error, NewColumn, Options, SystemClock,
    TableSettings,
};
use nilometer_lineproto::Precision;

use crate::support::everything;

/// What is done with rows before their table is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    InMemory,
    InOneFile,
    Settled,
    ReadFromLog,
}

const RESTS: [Rest; 4] = [
    Rest::InMemory,
    Rest::InOneFile,
    Rest::Settled,
    Rest::ReadFromLog,
];

fn open(disk: &Arc<MemoryDisk>) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as _;
    let clock = Arc::new(SystemClock);
    Arc::new(Engine::open(disk, clock, Path::new("/d"), Options::default()).unwrap())
}

fn set(engine: &Engine, duplicates: Duplicates, context: &str) {
    let settings = TableSettings {
        duplicates,
        ..TableSettings::default()
    };
    let set = engine.set_table("d", "public", "m", settings);
    set.unwrap_or_else(|refused| panic!("{context}: {refused}"));
}

/// The rows of `m`, each as `field=value` in the order of the fields.
fn rows(engine: &Arc<Engine>) -> Vec<String> {
    let all = everything(engine).unwrap();
    let rows = all["d.public.m"].iter();
    let shown = rows.map(|row| {
        let fields = row.iter().filter(|(name, _)| name.as_str() != "time");
        let fields: Vec<String> = fields
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        fields.join(" ")
    });
    shown.collect()
}

/// Two points of one series and time, written under `kind` and left to rest; then the table changes to each of `to`, and
/// after each change what is read is compared, before and after a compaction and after a start.
fn check(kind: Duplicates, points: [&str; 2], to: &[(Duplicates, &[&str])]) {
    for rest in RESTS {
        let disk = Arc::new(MemoryDisk::default());
        let mut engine = open(&disk);
        engine.create_database("d").unwrap();
        // Makes the table and its fields, and goes again.
        let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
        session
            .write_lines(b"m f=0,i=0i 5", Precision::Nanosecond)
            .unwrap();
        set(&engine, kind, "at first");
        for point in points {
            session
                .write_lines(point.as_bytes(), Precision::Nanosecond)
                .unwrap();
        }
        drop(session);
        match rest {
            Rest::InMemory => {}
            Rest::InOneFile => engine.flush().unwrap(),
            Rest::Settled => engine.settle().unwrap(),
            Rest::ReadFromLog => {
                drop(engine);
                engine = open(&disk);
            }
        }
        for (kind, expected) in to {
            set(&engine, *kind, &format!("{rest:?}, to {kind:?}"));
            let mut expected: Vec<String> = expected.iter().map(|row| (*row).to_owned()).collect();
            expected.push("f=0.0 i=0".to_owned());
            assert_eq!(rows(&engine), expected, "{rest:?}, now {kind:?}");
            if *kind != Duplicates::Keep {
                engine.settle().unwrap();
                assert_eq!(rows(&engine), expected, "{rest:?}, {kind:?} settled");
            }
            drop(engine);
            engine = open(&disk);
            assert_eq!(rows(&engine), expected, "{rest:?}, {kind:?} opened again");
        }
    }
}

#[test]
fn what_was_merged_by_field_stays_so() {
    let merged = ["f=1.0 i=2"].as_slice();
    check(
        Duplicates::Last,
        ["m f=1 1", "m i=2i 1"],
        &[
            (Duplicates::Unique, merged),
            (Duplicates::Last, merged),
            (Duplicates::Keep, merged),
            (Duplicates::Last, merged),
        ],
    );
}

#[test]
fn what_replaced_a_row_does_not_bring_it_back() {
    let replaced = ["i=2"].as_slice();
    check(
        Duplicates::Unique,
        ["m f=1 1", "m i=2i 1"],
        &[
            (Duplicates::Last, replaced),
            (Duplicates::Keep, replaced),
            (Duplicates::Unique, replaced),
        ],
    );
}

#[test]
fn rows_that_were_kept_are_merged_by_the_rule_that_comes() {
    let kept = ["f=1.0", "i=2"].as_slice();
    let points = ["m f=1 1", "m i=2i 1"];
    let to_last: &[(Duplicates, &[&str])] =
        &[(Duplicates::Keep, kept), (Duplicates::Last, &["f=1.0 i=2"])];
    check(Duplicates::Keep, points, to_last);
    check(Duplicates::Keep, points, &[(Duplicates::Unique, &["i=2"])]);
}

/// In two files a compaction may come to them or not, and a block that has two rows of one key is copied as it is.
#[test]
fn a_change_is_refused_where_files_have_not_merged_rows() {
    for (first, flushes_between) in [
        (Duplicates::Last, true),
        (Duplicates::Unique, true),
        (Duplicates::Keep, false),
    ] {
        let disk = Arc::new(MemoryDisk::default());
        let engine = open(&disk);
        engine.create_database("d").unwrap();
        let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
        let write = |session: &mut Session, lines: &str| {
            let written = session.write_lines(lines.as_bytes(), Precision::Nanosecond);
            assert_eq!(written.unwrap().rejected_total, 0);
        };
        write(&mut session, "m f=0,i=0i 5");
        set(&engine, first, "at first");
        write(&mut session, "m f=1 1");
        if flushes_between {
            engine.flush().unwrap();
        }
        write(&mut session, "m i=2i 1");
        engine.flush().unwrap();
        let mut now = first;
        if first == Duplicates::Keep {
            set(&engine, Duplicates::Last, "from kept");
            now = Duplicates::Last;
        }
        let before = rows(&engine);
        assert_eq!(before.len(), 2, "{before:?}");
        for kind in [Duplicates::Last, Duplicates::Unique, Duplicates::Keep] {
            let settings = TableSettings {
                duplicates: kind,
                retention_ns: Some(i64::MAX),
                ..TableSettings::default()
            };
            let set = engine.set_table("d", "public", "m", settings);
            if kind == now {
                // Other settings change.
                set.unwrap();
            } else {
                let refused = set.unwrap_err();
                assert!(matches!(refused, Error::Unmerged { .. }), "{refused}");
                assert!(refused.to_string().contains("new table"), "{refused}");
            }
            assert_eq!(rows(&engine), before, "{first:?}, {kind:?}");
        }
    }
}

/// A table kept duplicates and was told to keep the last one. Two rows of one time on both sides of a block's end were two to an
/// aggregate, which took each block by itself, and one to a scan.
#[test]
fn rows_of_one_time_in_two_blocks_are_one_to_aggregates_too() {
    let disk = Arc::new(MemoryDisk::default());
    let engine = open(&disk);
    engine.create_database("d").unwrap();
    let column = NewColumn {
        name: "i",
        kind: ColumnKind::Field(PhysicalType::I64),
    };
    let settings = TableSettings {
        duplicates: Duplicates::Keep,
        ..TableSettings::default()
    };
    engine
        .create_table("d", "public", "m", &[column], settings)
        .unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    // Two blocks, of which the first ends with the time that the second begins with; within a block all times differ.
    let time = |row: i32| if row < 1024 { row } else { row - 1 };
    let lines = (0..2048).map(|row| format!("m i={row}i {}\n", time(row)));
    let written = session.write_lines(lines.collect::<String>().as_bytes(), Precision::Nanosecond);
    assert_eq!(written.unwrap().rejected_total, 0);
    engine.flush().unwrap();
    set(&engine, Duplicates::Last, "from kept");
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "m").unwrap();
    for bucket_ns in [None, Some(100)] {
        let aggregation = snapshot.aggregate(&AggregateRequest {
            table: Arc::clone(&table),
            fields: vec![1],
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            bucket_ns,
        });
        let found = aggregation.unwrap().read_all().unwrap();
        assert_eq!(found.used.rows, 2048, "rows that are read");
        let counted: u64 = found.rows.iter().map(|row| row.rows).sum();
        assert_eq!(counted, 2047, "{bucket_ns:?}");
    }
    assert_eq!(rows(&engine).len(), 2047);
}
