//! Promise: whatever changes rows of a table that an aggregate reads is noted with it, durably, and only where it changes; what
//! a refresh has computed is taken off, and what came after its snapshot stays.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    AggregateKey, AggregateSource, DeleteRequest, Engine, Error, Options, SystemClock, TableSchema,
};
use nilometer_lineproto::Precision;

const KEY: AggregateKey<'_> = AggregateKey {
    database: "d",
    schema: "public",
    number: 7,
};
const WIDTH: i64 = 10;

fn open(disk: &Arc<MemoryDisk>) -> Arc<Engine> {
    let clock = Arc::new(SystemClock);
    let disk = Arc::clone(disk) as _;
    Arc::new(Engine::open(disk, clock, Path::new("/d"), Options::default()).unwrap())
}

fn write(engine: &Arc<Engine>, times: &[i64]) {
    let lines: Vec<String> = times.iter().map(|time| format!("m v=1 {time}")).collect();
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let lines = lines.join("\n");
    session
        .write_lines(lines.as_bytes(), Precision::Nanosecond)
        .unwrap();
}

fn table(engine: &Arc<Engine>) -> Arc<TableSchema> {
    engine.snapshot().table("d", "public", "m").unwrap()
}

/// A store with rows from 0 to 99 of which everything below 100 is computed.
fn computed(disk: &Arc<MemoryDisk>) -> Arc<Engine> {
    let engine = open(disk);
    engine.create_database("d").unwrap();
    write(&engine, &(0..100).collect::<Vec<_>>());
    let source = AggregateSource::Times(table(&engine).id);
    engine.watch_aggregate(KEY, WIDTH, &[source]).unwrap();
    assert_eq!(ranges(&engine), [(i64::MIN, i64::MAX, true)]);
    refresh(&engine, |_| {}, &[(100, i64::MAX, true)]);
    engine
}

fn ranges(engine: &Arc<Engine>) -> Vec<(i64, i64, bool)> {
    let found = engine.snapshot().invalidations(KEY);
    found
        .iter()
        .map(|it| (it.first_ns, it.last_ns, it.is_new))
        .collect()
}

/// A refresh that has seen everything, and leaves some ranges; `between` comes after its snapshot.
fn refresh(engine: &Arc<Engine>, between: impl FnOnce(&Arc<Engine>), left: &[(i64, i64, bool)]) {
    let refreshing = engine.begin_refresh(KEY.number).unwrap();
    let seen = engine.snapshot().invalidations(KEY);
    between(engine);
    let changes = engine.replace_invalidations(KEY, &seen, left).unwrap();
    let transaction = engine.begin().unwrap();
    transaction.write_relations(None, &changes).unwrap();
    transaction.commit().unwrap();
    drop(refreshing);
}

#[test]
fn a_change_is_noted_where_it_is_and_nowhere_else() {
    let engine = computed(&Arc::default());
    let open = (100, i64::MAX, true);
    write(&engine, &[100, 500, 100_000]);
    assert_eq!(ranges(&engine), [open], "nothing is stored there");
    write(&engine, &[1_000, 5, 6, 71]);
    assert_eq!(ranges(&engine), [(5, 6, false), (71, 71, false), open]);
    let request = DeleteRequest {
        table: table(&engine),
        time: 30..=1_000,
        tags: Vec::new(),
    };
    engine.delete(&request).unwrap();
    assert_eq!(
        ranges(&engine),
        [(5, 6, false), (30, 99, false), (71, 71, false), open]
    );
    refresh(&engine, |_| {}, &[open]);
    assert_eq!(ranges(&engine), [open]);
}

#[test]
fn ranges_outlive_the_process_flushes_and_compactions() {
    let disk = Arc::default();
    let mut engine = computed(&disk);
    for (time, settles) in [(3, false), (33, true), (63, false)] {
        write(&engine, &[time]);
        if settles {
            engine.settle().unwrap();
        }
        drop(engine);
        engine = open(&disk);
    }
    let expected = [
        (3, 3, false),
        (33, 33, false),
        (63, 63, false),
        (100, i64::MAX, true),
    ];
    assert_eq!(ranges(&engine), expected);
    // What is open is known again, so nothing is noted behind it, and everything before it.
    write(&engine, &[200, 90]);
    assert_eq!(ranges(&engine).len(), 5);
}

/// Rows behind the last bucket that was computed are noted by the range that is open there. A refresh takes that range off, so
/// rows that came after its snapshot have to be noted by ranges of their own.
#[test]
fn what_is_written_while_a_refresh_runs_stays_noted() {
    let engine = computed(&Arc::default());
    refresh(
        &engine,
        |engine| write(engine, &[150]),
        &[(200, i64::MAX, true)],
    );
    assert_eq!(ranges(&engine), [(150, 150, false), (200, i64::MAX, true)]);
}

#[test]
fn there_is_one_refresh_at_a_time() {
    let engine = computed(&Arc::default());
    let first = engine.begin_refresh(KEY.number).unwrap();
    let second = engine.begin_refresh(KEY.number);
    assert!(matches!(second, Err(Error::RefreshRunning)));
    drop(first);
    engine.begin_refresh(KEY.number).unwrap();
    assert!(engine.begin_refresh(8).is_err());
}

/// Late rows, each in a batch of its own, do not make a row of ranges each for ever.
#[test]
fn very_many_ranges_are_joined() {
    let engine = computed(&Arc::default());
    for nth in 0..1_200 {
        write(&engine, &[nth % 100]);
    }
    assert_eq!(ranges(&engine).len(), 1_201);
    engine.maintain().unwrap();
    let joined = ranges(&engine);
    assert_eq!(joined, [(0, 99, false), (100, i64::MAX, true)]);
}

#[test]
fn a_forgotten_aggregate_notes_nothing() {
    let engine = computed(&Arc::default());
    engine.forget_aggregate(KEY).unwrap();
    write(&engine, &[5]);
    assert!(ranges(&engine).is_empty());
    assert!(engine.snapshot().aggregate_sources(KEY).is_empty());
}

/// A schema that is dropped takes its aggregates along; their sources are elsewhere and are written to as ever.
#[test]
fn sources_outlive_the_schema_of_an_aggregate() {
    let engine = computed(&Arc::default());
    engine.create_schema("d", "s").unwrap();
    let key = AggregateKey {
        schema: "s",
        number: 9,
        ..KEY
    };
    let source = AggregateSource::Times(table(&engine).id);
    engine.watch_aggregate(key, WIDTH, &[source]).unwrap();
    drop(engine.begin_refresh(9).unwrap());
    engine.drop_schema("d", "s").unwrap();
    write(&engine, &[5]);
    assert_eq!(ranges(&engine).first(), Some(&(5, 5, false)));
}
