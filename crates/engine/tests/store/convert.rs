//! Conversion of a range of a table on command, and the slots of time that have rows.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "a failed unwrap is the report, and the bodies are small"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::support::everything;
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    Converted, DeleteRequest, Engine, Maintained, Options, SystemClock, TableSchema, TableSettings,
    Tier,
};
use nilometer_lineproto::Precision;

const DAY: i64 = 86_400_000_000_000;

fn open(disk: &MemoryDisk) -> Arc<Engine> {
    let options = Options {
        flush_idle_ms: 0,
        scrub_days: 0,
        ..Options::default()
    };
    let (disk, clock) = (Arc::new(disk.clone()), Arc::new(SystemClock));
    Arc::new(Engine::open(disk, clock, Path::new("/d"), options).unwrap())
}

/// Rows of two tables an hour apart on some days; few, so that no partition is worth a file of its own.
fn write(engine: &Arc<Engine>, days: impl Iterator<Item = i64>) {
    let mut body = String::new();
    for day in days {
        for hour in 0..24 {
            let time = day * DAY + hour * (DAY / 24);
            let value = (day * 31 + hour * 7).rem_euclid(13);
            body.push_str(&format!("m,host=a v={value}i,w=0.{value} {time}\n"));
            body.push_str(&format!("other,host=a v={value}i {time}\n"));
        }
    }
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
}

fn table(engine: &Arc<Engine>) -> Arc<TableSchema> {
    engine.snapshot().table("d", "public", "m").unwrap()
}

/// The days with rows on which some are in cold files, and those on which some are in hot ones.
fn tiers(engine: &Arc<Engine>) -> (BTreeSet<i64>, BTreeSet<i64>) {
    let (mut cold, mut hot) = (BTreeSet::new(), BTreeSet::new());
    for piece in engine.snapshot().pieces(table(engine).id) {
        let days = piece.time.start().div_euclid(DAY)..=piece.time.end().div_euclid(DAY);
        match piece.tier {
            Tier::Cold => cold.extend(days),
            Tier::Hot => hot.extend(days),
        }
    }
    (cold, hot)
}

fn day(day: i64) -> std::ops::RangeInclusive<i64> {
    day * DAY..=(day + 1) * DAY - 1
}

#[test]
fn a_day_of_few_rows_gets_a_cold_file_of_its_own_and_becomes_hot_again() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    engine.create_database("d").unwrap();
    write(&engine, 10..16);
    let before = everything(&engine).unwrap();
    let id = table(&engine).id;
    for cold in [12, 14] {
        let converted = engine.convert(id, day(cold), Tier::Cold).unwrap();
        assert_eq!(converted, Converted::Done);
    }
    let two = BTreeSet::from([12, 14]);
    let (cold, hot) = tiers(&engine);
    assert_eq!(cold, two);
    // What is left of the others is one piece, from the first to the last of them.
    assert!(hot.contains(&10) && hot.contains(&15), "{hot:?}");
    assert_eq!(everything(&engine).unwrap(), before);
    // Nothing that maintenance does without being told makes them hot, and neither does the next start.
    write(&engine, 10..16);
    engine.settle().unwrap();
    while engine.maintain().unwrap() != Maintained::Idle {}
    assert_eq!(tiers(&engine).0, two);
    engine.close().unwrap();
    drop(engine);
    let engine = open(&disk);
    assert_eq!(tiers(&engine).0, two);
    assert_eq!(everything(&engine).unwrap(), before);
    // A row that comes later is not in the file, until the day is converted again.
    write(&engine, 12..13);
    engine.flush().unwrap();
    assert!(tiers(&engine).1.contains(&12));
    engine.convert(id, day(12), Tier::Cold).unwrap();
    assert_eq!(tiers(&engine).0, two);
    for warm in [12, 14] {
        let converted = engine.convert(id, day(warm), Tier::Hot).unwrap();
        assert_eq!(converted, Converted::Done);
    }
    assert_eq!(tiers(&engine).0, BTreeSet::new());
    assert_eq!(everything(&engine).unwrap(), before);
}

/// Eight neighbours of a like size become one file, and one hot among them made it hot.
#[test]
fn late_rows_are_merged_beside_what_was_made_cold_on_command() {
    let engine = open(&MemoryDisk::new());
    engine.create_database("d").unwrap();
    write(&engine, 10..11);
    let id = table(&engine).id;
    engine.convert(id, day(10), Tier::Cold).unwrap();
    let cold = |engine: &Arc<Engine>| {
        let pieces = engine.snapshot().pieces(id);
        let mut cold = pieces.iter().filter(|piece| piece.tier == Tier::Cold);
        cold.next().map(|piece| (piece.file_id, piece.rows))
    };
    let before = cold(&engine);
    assert_eq!(before.map(|(_, rows)| rows), Some(24));
    let settings = TableSettings {
        duplicates: nilometer_engine::Duplicates::Keep,
        ..table(&engine).settings
    };
    engine.set_table("d", "public", "m", settings).unwrap();
    for _ in 0..12 {
        write(&engine, 10..11);
        engine.settle().unwrap();
    }
    assert_eq!(cold(&engine), before);
    let rows: u64 = engine.snapshot().pieces(id).iter().map(|it| it.rows).sum();
    assert_eq!(rows, 13 * 24);
}

#[test]
fn slots_are_those_with_rows_wherever_these_are_and_whatever_was_deleted() {
    let engine = open(&MemoryDisk::new());
    engine.create_database("d").unwrap();
    let slots = |width: i64| {
        let snapshot = engine.snapshot();
        let slots = snapshot.slots(&table(&engine), width).unwrap();
        slots.into_iter().collect::<Vec<i64>>()
    };
    write(&engine, [-2, 3, 4, 90].into_iter());
    assert_eq!(slots(DAY), [-2, 3, 4, 90], "in memory");
    engine.flush().unwrap();
    assert_eq!(slots(DAY), [-2, 3, 4, 90], "in a file of many days");
    write(&engine, [5].into_iter());
    let request = DeleteRequest {
        table: table(&engine),
        time: day(3),
        tags: Vec::new(),
    };
    engine.delete(&request).unwrap();
    assert_eq!(slots(DAY), [-2, 4, 5, 90]);
    assert_eq!(slots(7 * DAY), [-1, 0, 12]);
    engine.settle().unwrap();
    assert_eq!(slots(DAY), [-2, 4, 5, 90]);
    let rows: u64 = engine
        .snapshot()
        .pieces(table(&engine).id)
        .iter()
        .map(|it| it.rows)
        .sum();
    assert_eq!(rows, 4 * 24);
    // Wider partitions cut the same rows otherwise.
    let settings = TableSettings {
        partition_interval_ns: 100 * DAY,
        ..table(&engine).settings
    };
    engine.set_table("d", "public", "m", settings).unwrap();
    assert_eq!(slots(DAY), [-2, 4, 5, 90]);
    assert_eq!(slots(i64::MAX), [-1, 0]);
}

/// `compress_chunk` of a day whose partition had been widened over the days beside it tried for two minutes and was refused: the rows of
/// those were still in the mixed segment that the day's own file came from, and no run was found that had the one without the other.
#[test]
fn a_day_becomes_cold_again_after_its_partition_was_widened_over_rows_of_the_same_flush() {
    let engine = open(&MemoryDisk::new());
    engine.create_database("d").unwrap();
    write(&engine, 10..13);
    let before = everything(&engine).unwrap();
    let id = table(&engine).id;
    for tier in [Tier::Cold, Tier::Hot] {
        for of in [10, 11] {
            let converted = engine.convert(id, day(of), tier).unwrap();
            assert_eq!(converted, Converted::Done);
        }
    }
    engine.settle().unwrap();
    while engine.maintain().unwrap() != Maintained::Idle {}
    for of in [10, 11, 12] {
        let converted = engine.convert(id, day(of), Tier::Cold).unwrap();
        assert_eq!(converted, Converted::Done, "day {of}: {:?}", tiers(&engine));
    }
    assert_eq!(
        tiers(&engine),
        (BTreeSet::from([10, 11, 12]), BTreeSet::new())
    );
    assert_eq!(everything(&engine).unwrap(), before);
}
