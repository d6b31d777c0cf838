//! Promise: what is put into the log and acknowledged later is seen by nobody before, and is there after a power cut once it was
//! acknowledged; what is refused among others leaves them as they are.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{CrashPlan, FaultyDisk};
use nilometer_engine::ingest::Target;
use nilometer_engine::{
    Duplicates, Engine, Error, NewRelation, Options, RelationChange, RelationColumn,
    RelationSchema, Snapshot, SystemClock, Value,
};

use crate::typed_store::{make_table, points, points_of, session, store};

const WRITERS: i64 = 6;
const EACH: i64 = 60;

fn open(disk: &FaultyDisk) -> Arc<Engine> {
    let disk = Arc::new(disk.clone());
    let engine = Engine::open(
        disk,
        Arc::new(SystemClock),
        Path::new("/d"),
        Options::default(),
    );
    Arc::new(engine.unwrap())
}

/// A store with the relation `r` of numbers, and the table `m`.
fn new_store(disk: &FaultyDisk) -> Arc<Engine> {
    let engine = open(disk);
    make_table(&engine, Duplicates::Keep);
    let new = NewRelation {
        columns: vec![RelationColumn {
            name: "id".to_owned(),
            kind: PhysicalType::I64,
            nullable: false,
        }],
        primary_key: vec!["id".to_owned()],
        unique: Vec::new(),
    };
    engine.create_relation("d", "public", "r", &new).unwrap();
    engine
}

fn schema(engine: &Arc<Engine>) -> Arc<RelationSchema> {
    let reader = engine.snapshot().relation("d", "public", "r").unwrap();
    Arc::clone(reader.schema())
}

fn insert(schema: &Arc<RelationSchema>, id: i64) -> [RelationChange; 1] {
    [RelationChange::Insert(
        Arc::clone(schema),
        vec![vec![id.into()]],
    )]
}

fn is_there(snapshot: &Snapshot, id: i64) -> bool {
    let key: [Value; 1] = [id.into()];
    let reader = snapshot.relation("d", "public", "r").unwrap();
    reader.get(&key).is_some()
}

#[test]
fn nobody_sees_what_was_put_before_one_acknowledgement_shows_all_of_it() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = new_store(&disk);
    let (schema, counted) = (schema(&engine), engine.metrics().rows_written);
    let mut put = Vec::new();
    for id in 1..=3 {
        put.push(
            engine
                .sequence_relations(None, &insert(&schema, id))
                .unwrap(),
        );
        let row = points(&[("a", id, Some(0.5), None)]);
        let rows = session(&engine).sequence_arrow(Target::table("m"), &row);
        put.push(rows.unwrap().unwrap());
    }
    let before = engine.snapshot();
    assert!(!(1..=3).any(|id| is_there(&before, id)));
    assert!(points_of(&engine).is_empty());
    // The power goes: what was not acknowledged may be gone.
    let cut = open(&disk.after_power_cut(2, CrashPlan::default()));
    assert!(points_of(&cut).is_empty());
    let last = put.pop().unwrap();
    engine.acknowledge(last).unwrap();
    let after = engine.snapshot();
    assert!((1..=3).all(|id| is_there(&after, id)));
    assert_eq!(points_of(&engine).len(), 3);
    // It shows no more than it did.
    assert!(!is_there(&before, 1));
    for put in put {
        engine.acknowledge(put).unwrap();
    }
    // Rows of relations are not counted.
    assert_eq!(engine.metrics().rows_written - counted, 3);
    let cut = open(&disk.after_power_cut(3, CrashPlan::default()));
    assert!((1..=3).all(|id| is_there(&cut.snapshot(), id)));
    assert_eq!(points_of(&cut).len(), 3);
}

#[test]
fn a_key_that_is_there_is_refused_and_the_others_are_written() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = new_store(&disk);
    let schema = schema(&engine);
    let first = engine
        .sequence_relations(None, &insert(&schema, 1))
        .unwrap();
    let refused = engine.sequence_relations(None, &insert(&schema, 1));
    assert!(matches!(refused, Err(Error::RelationKey { .. })));
    // What it was refused for must not be lost after the refusal was heard.
    let cut = open(&disk.after_power_cut(2, CrashPlan::default()));
    assert!(is_there(&cut.snapshot(), 1));
    let last = engine
        .sequence_relations(None, &insert(&schema, 2))
        .unwrap();
    engine.acknowledge(last).unwrap();
    engine.acknowledge(first).unwrap();
    assert!(is_there(&engine.snapshot(), 2));
}

#[test]
fn a_table_whose_rows_have_keys_and_a_transaction_are_not_put_so() {
    let rows = points(&[("a", 1, Some(0.5), None)]);
    let engine = store(Duplicates::Unique);
    let put = session(&engine).sequence_arrow(Target::table("m"), &rows);
    assert_eq!(put.unwrap(), None);
    let engine = store(Duplicates::Keep);
    let own = engine.begin().unwrap();
    let put = session(&engine)
        .within(&own)
        .sequence_arrow(Target::table("m"), &rows);
    assert_eq!(put.unwrap(), None);
    assert!(points_of(&engine).is_empty());
}

/// A transaction that gets the lock of a row next reads what is durable: so while there are transactions, the lock is held until the
/// row is.
#[test]
fn while_there_are_transactions_what_was_put_is_durable_before_its_rows_are_free() {
    let engine = new_store(&FaultyDisk::new(1, CrashPlan::default()));
    let schema = schema(&engine);
    let own = engine.begin().unwrap();
    let put = engine
        .sequence_relations(None, &insert(&schema, 1))
        .unwrap();
    assert!(is_there(&engine.snapshot(), 1));
    engine.acknowledge(put).unwrap();
    own.write_relations(None, &insert(&schema, 2)).unwrap();
    let refused = engine.sequence_relations(None, &insert(&schema, 2));
    assert!(matches!(refused, Err(Error::RowLocked { .. })));
    own.rollback();
}

/// Writers that each put a row and have it acknowledged; the rows that were, and how many were refused.
fn write(engine: &Arc<Engine>) -> (Vec<i64>, u64) {
    let schema = schema(engine);
    let (acknowledged, refused) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    thread::scope(|threads| {
        for writer in 0..WRITERS {
            let (schema, acknowledged, refused) = (&schema, &acknowledged, &refused);
            threads.spawn(move || {
                for nth in 0..EACH {
                    let id = writer * EACH + nth;
                    let put = engine.sequence_relations(None, &insert(schema, id));
                    match put.and_then(|put| engine.acknowledge(put)) {
                        Ok(()) => acknowledged.lock().unwrap().push(id),
                        Err(Error::Poisoned { .. } | Error::Io { .. }) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    (acknowledged.into_inner().unwrap(), refused.into_inner())
}

#[test]
fn many_writers_over_a_disk_that_fails_keep_what_they_were_told_is_there() {
    for calls in [5, 40, 111] {
        let disk = FaultyDisk::new(calls, CrashPlan::default());
        let engine = new_store(&disk);
        let now = disk.calls();
        disk.set_plan(CrashPlan {
            // A group writes, syncs, and moves the mark: one of some calls on end is a sync.
            fail_sync_at: (now + calls..now + calls + 4).collect(),
            ..CrashPlan::default()
        });
        let (acknowledged, refused) = write(&engine);
        assert!(disk.failures() > 0, "{calls}");
        assert!(refused > 0, "{calls}");
        assert_eq!(
            acknowledged.len() as u64 + refused,
            (WRITERS * EACH).unsigned_abs()
        );
        drop(engine);
        let cut = open(&disk.after_power_cut(calls, CrashPlan::default()));
        let found = cut.snapshot();
        for id in acknowledged {
            assert!(is_there(&found, id), "{calls}: row {id}");
        }
    }
}
