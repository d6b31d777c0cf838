//! Promise: what a transaction writes is its own until its end, and then one batch or nothing; it reads what it has written;
//! of two that write one row, one hears of the other.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{CrashPlan, FaultyDisk};
use nilometer_engine::ingest::{OnConflict, Session, Target};
use nilometer_engine::{
    ColumnKind, Duplicates, Engine, Error, NewColumn, NewRelation, Options, RelationChange,
    RelationColumn, RelationSchema, RowKey, ScanRequest, SeriesId, Snapshot, SystemClock,
    TableSettings, Transaction, Value,
};

use crate::typed_store::{
    in_every_state, points, points_of, rows_of, session, store, table, write,
};

const ALL: [Duplicates; 3] = [Duplicates::Last, Duplicates::Keep, Duplicates::Unique];

fn insert(
    transaction: &Arc<Transaction>,
    engine: &Arc<Engine>,
    rows: &[(&str, i64, Option<f64>, Option<i64>)],
    on_conflict: OnConflict,
) -> Result<u64, Error> {
    let mut session = session(engine).within(transaction);
    let report = session.write_arrow(Target::table("m"), &points(rows), on_conflict)?;
    Ok(report.written)
}

fn shown(snapshot: &Snapshot) -> Vec<String> {
    rows_of(snapshot, vec![0, 1, 3, 4])
}

/// The keys of the rows of a host at a time.
fn keys_of(snapshot: &Snapshot, host: &str, time: i64) -> Vec<RowKey> {
    let projection = vec![ScanRequest::SERIES, 0, ScanRequest::NTH, 1];
    let rows = rows_of(snapshot, projection);
    let keys = rows.iter().filter_map(|row| {
        let cells: Vec<&str> = row.split(' ').collect();
        let key = RowKey {
            series: SeriesId(cells[0].parse().unwrap()),
            time: cells[1].parse().unwrap(),
            nth: cells[2].parse().unwrap(),
        };
        (cells[3] == host && key.time == time).then_some(key)
    });
    keys.collect()
}

fn prepare(engine: &Arc<Engine>) {
    let rows = points(&[
        ("a", 10, Some(1.0), Some(1)),
        ("a", 20, Some(2.0), Some(2)),
        ("b", 10, Some(3.0), Some(3)),
    ]);
    write(engine, &rows, OnConflict::Replace).unwrap();
}

#[test]
fn a_transaction_sees_what_it_wrote_and_nobody_else_does_before_its_end() {
    for duplicates in ALL {
        in_every_state(duplicates, prepare, |engine, state| {
            let before = points_of(engine);
            let series =
                |snapshot: &Snapshot| snapshot.series_count(&table(snapshot), &[]).unwrap();
            for commits in [false, true] {
                let own = engine.begin().unwrap();
                insert(
                    &own,
                    engine,
                    &[("c", 5, Some(9.0), None)],
                    OnConflict::Replace,
                )
                .unwrap();
                insert(
                    &own,
                    engine,
                    &[("a", 30, None, Some(7))],
                    OnConflict::Replace,
                )
                .unwrap();
                let seen = own.snapshot();
                own.delete_rows(&seen, &table(&seen), &keys_of(&seen, "a", 10))
                    .unwrap();
                let seen = own.snapshot();
                let gone = [keys_of(&seen, "b", 10), keys_of(&seen, "c", 5)].concat();
                let new = points(&[("b", 11, Some(4.0), None), ("c", 6, None, Some(6))]);
                session(engine)
                    .within(&own)
                    .update_rows(&seen, &table(&seen), &gone, &new)
                    .unwrap();
                let seen = own.snapshot();
                let expected = ["20 a 2 2", "30 a - 7", "11 b 4 -", "6 c - 6"];
                assert_eq!(shown(&seen), expected, "{duplicates:?}, {state}");
                assert_eq!(series(&seen), 3, "{duplicates:?}, {state}");
                assert_eq!(points_of(engine), before, "{duplicates:?}, {state}");
                assert_eq!(series(&engine.snapshot()), 2);
                if commits {
                    assert!(own.commit().unwrap() > 0);
                    for settles in [false, true] {
                        if settles {
                            engine.settle().unwrap();
                        }
                        assert_eq!(points_of(engine), expected, "{duplicates:?}, {state}");
                    }
                    assert_eq!(series(&engine.snapshot()), 3);
                } else {
                    own.rollback();
                    assert_eq!(points_of(engine), before, "{duplicates:?}, {state}");
                    assert_eq!(series(&engine.snapshot()), 2);
                }
                let late = insert(
                    &own,
                    engine,
                    &[("a", 1, None, Some(1))],
                    OnConflict::Replace,
                );
                assert!(matches!(late, Err(Error::TransactionEnded)));
            }
        });
    }
}

/// Statements in one transaction give what the same statements give one by one, at each step and after its end.
#[test]
fn a_transaction_is_its_statements_one_after_the_other() {
    for duplicates in ALL {
        for seed in 1..60u64 {
            let (apart, engine) = (store(duplicates), store(duplicates));
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut random = move |below: u64| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) % below
            };
            prepare(&apart);
            prepare(&engine);
            if seed % 3 == 0 {
                engine.flush().unwrap();
            }
            let own = engine.begin().unwrap();
            for nth in 0..random(12) {
                let host = ["a", "b", "c", "d"][usize::try_from(random(4)).unwrap()];
                let time = 10 * i64::try_from(1 + random(3)).unwrap();
                let nth = i64::try_from(nth).unwrap();
                let row = [(host, time, None, Some(100 + nth))];
                match random(4) {
                    0 | 1 => {
                        let on_conflict = match duplicates {
                            Duplicates::Unique if random(2) == 0 => OnConflict::Skip,
                            _ => OnConflict::Replace,
                        };
                        let written = write(&apart, &points(&row), on_conflict).unwrap().written;
                        let own_written = insert(&own, &engine, &row, on_conflict).unwrap();
                        assert_eq!(own_written, written, "{duplicates:?}, seed {seed}");
                    }
                    2 => {
                        let (there, seen) = (apart.snapshot(), own.snapshot());
                        let gone = keys_of(&there, host, time);
                        apart.delete_rows(&there, &table(&there), &gone).unwrap();
                        let gone = keys_of(&seen, host, time);
                        own.delete_rows(&seen, &table(&seen), &gone).unwrap();
                    }
                    _ => {
                        let (there, seen) = (apart.snapshot(), own.snapshot());
                        let (gone, own_gone) =
                            (keys_of(&there, host, time), keys_of(&seen, host, time));
                        let Some(gone) = gone.last().copied() else {
                            assert!(own_gone.is_empty());
                            continue;
                        };
                        let own_gone = own_gone.last().copied().unwrap();
                        let new = points(&[("d", 50 + nth, Some(0.5), Some(nth))]);
                        session(&apart)
                            .update_rows(&there, &table(&there), &[gone], &new)
                            .unwrap();
                        session(&engine)
                            .within(&own)
                            .update_rows(&seen, &table(&seen), &[own_gone], &new)
                            .unwrap();
                    }
                }
                let sorted = |mut rows: Vec<String>| {
                    rows.sort();
                    rows
                };
                let seen = sorted(shown(&own.snapshot()));
                assert_eq!(
                    seen,
                    sorted(points_of(&apart)),
                    "{duplicates:?}, seed {seed}"
                );
            }
            own.commit().unwrap();
            let sorted = |mut rows: Vec<String>| {
                rows.sort();
                rows
            };
            let expected = sorted(points_of(&apart));
            assert_eq!(
                sorted(points_of(&engine)),
                expected,
                "{duplicates:?}, seed {seed}"
            );
            engine.settle().unwrap();
            assert_eq!(
                sorted(points_of(&engine)),
                expected,
                "{duplicates:?}, seed {seed}"
            );
        }
    }
}

#[test]
fn a_savepoint_takes_back_what_came_after_it() {
    for duplicates in ALL {
        let engine = store(duplicates);
        prepare(&engine);
        let own = engine.begin().unwrap();
        insert(
            &own,
            &engine,
            &[("c", 5, Some(9.0), None)],
            OnConflict::Replace,
        )
        .unwrap();
        let place = own.savepoint().unwrap();
        for _ in 0..2 {
            insert(
                &own,
                &engine,
                &[("d", 6, Some(9.0), None)],
                OnConflict::Replace,
            )
            .unwrap();
            let seen = own.snapshot();
            own.delete_rows(&seen, &table(&seen), &keys_of(&seen, "c", 5))
                .unwrap();
            let open = own.snapshot();
            own.rollback_to(&place).unwrap();
            // A cursor goes on with what it saw when it was opened.
            assert!(shown(&open).contains(&"6 d 9 -".to_owned()));
        }
        let expected = ["10 a 1 1", "20 a 2 2", "10 b 3 3", "5 c 9 -"];
        assert_eq!(shown(&own.snapshot()), expected);
        own.commit().unwrap();
        assert_eq!(points_of(&engine), expected);
        let snapshot = engine.snapshot();
        let count = snapshot.series_count(&table(&snapshot), &[]).unwrap();
        assert_eq!(count, 3, "a series that nothing needs was made");
    }
}

#[test]
fn a_row_that_somebody_else_wrote_first_refuses_the_transaction() {
    let row: &[(&str, i64, Option<f64>, Option<i64>)] = &[("a", 10, None, Some(9))];
    // An update of a row that is deleted or replaced meanwhile.
    for duplicates in ALL {
        for flushes in [false, true] {
            let engine = store(duplicates);
            prepare(&engine);
            let own = engine.begin().unwrap();
            let seen = own.snapshot();
            own.delete_rows(&seen, &table(&seen), &keys_of(&seen, "a", 10))
                .unwrap();
            write(&engine, &points(row), OnConflict::Replace).unwrap();
            if flushes {
                engine.flush().unwrap();
            }
            let refused = own.commit().unwrap_err();
            assert!(
                matches!(refused, Error::TransactionOvertaken { .. }),
                "{refused}"
            );
            assert!(points_of(&engine).iter().any(|row| row.ends_with(" 9")));
        }
    }
    // A key of a unique table that was free, of a series that is there and of one that both make.
    for host in ["a", "new"] {
        for flushes in [false, true] {
            let engine = store(Duplicates::Unique);
            prepare(&engine);
            let own = engine.begin().unwrap();
            let row = [(host, 15, None, Some(1))];
            insert(&own, &engine, &row, OnConflict::Error).unwrap();
            write(
                &engine,
                &points(&[(host, 15, None, Some(2))]),
                OnConflict::Error,
            )
            .unwrap();
            if flushes {
                engine.flush().unwrap();
            }
            let refused = own.commit().unwrap_err();
            assert!(
                matches!(refused, Error::TransactionOvertaken { .. }),
                "{refused}"
            );
        }
    }
    // Rows of others beside it do not matter, nor does a flush.
    let engine = store(Duplicates::Unique);
    prepare(&engine);
    engine.flush().unwrap();
    let own = engine.begin().unwrap();
    let seen = own.snapshot();
    own.delete_rows(&seen, &table(&seen), &keys_of(&seen, "a", 10))
        .unwrap();
    insert(
        &own,
        &engine,
        &[("new", 15, None, Some(1))],
        OnConflict::Error,
    )
    .unwrap();
    write(
        &engine,
        &points(&[("new", 16, None, Some(2))]),
        OnConflict::Error,
    )
    .unwrap();
    write(
        &engine,
        &points(&[("a", 11, None, Some(2))]),
        OnConflict::Error,
    )
    .unwrap();
    engine.flush().unwrap();
    insert(
        &own,
        &engine,
        &[("new", 17, None, Some(3))],
        OnConflict::Error,
    )
    .unwrap();
    let seen = shown(&own.snapshot());
    own.commit().unwrap();
    let expected = [
        "11 a - 2",
        "20 a 2 2",
        "10 b 3 3",
        "15 new - 1",
        "16 new - 2",
        "17 new - 3",
    ];
    assert_eq!(seen, expected);
    assert_eq!(points_of(&engine), expected);
}

/// A transaction and somebody else make one series; both are of one table, whichever came first.
#[test]
fn a_series_that_two_make_is_one() {
    for duplicates in ALL {
        let engine = store(duplicates);
        let own = engine.begin().unwrap();
        insert(
            &own,
            &engine,
            &[("x", 1, None, Some(1))],
            OnConflict::Replace,
        )
        .unwrap();
        write(
            &engine,
            &points(&[("x", 2, None, Some(2))]),
            OnConflict::Replace,
        )
        .unwrap();
        assert_eq!(
            shown(&own.snapshot()),
            ["1 x - 1", "2 x - 2"],
            "{duplicates:?}"
        );
        insert(
            &own,
            &engine,
            &[("x", 3, None, Some(3))],
            OnConflict::Replace,
        )
        .unwrap();
        let seen = own.snapshot();
        assert_eq!(
            shown(&seen),
            ["1 x - 1", "2 x - 2", "3 x - 3"],
            "{duplicates:?}"
        );
        assert_eq!(seen.series_count(&table(&seen), &[]).unwrap(), 1);
        own.delete_rows(&seen, &table(&seen), &keys_of(&seen, "x", 1))
            .unwrap();
        own.commit().unwrap();
        assert_eq!(points_of(&engine), ["2 x - 2", "3 x - 3"], "{duplicates:?}");
    }
}

#[test]
fn a_table_that_changes_meanwhile_refuses_the_transaction() {
    let engine = store(Duplicates::Last);
    prepare(&engine);
    let own = engine.begin().unwrap();
    insert(
        &own,
        &engine,
        &[("a", 30, None, Some(7))],
        OnConflict::Replace,
    )
    .unwrap();
    engine.drop_table("d", "public", "m").unwrap();
    let refused = own.commit().unwrap_err();
    assert!(
        matches!(refused, Error::TransactionOvertaken { .. }),
        "{refused}"
    );
}

/// Found by reading after two changes had met: a transaction wrote a row of a series, its other rows were deleted and
/// the series left the index, and COMMIT acknowledged a row of a series that no index knew: nobody could read it.
#[test]
fn a_series_that_leaves_the_index_meanwhile_refuses_the_transaction() {
    for duplicates in ALL {
        let engine = store(duplicates);
        prepare(&engine);
        let write_b = || {
            let own = engine.begin().unwrap();
            let rows = [("b", 30, Some(4.0), None)];
            insert(&own, &engine, &rows, OnConflict::Replace).unwrap();
            own
        };
        let own = write_b();
        let other = engine.begin().unwrap();
        let seen = other.snapshot();
        other
            .delete_rows(&seen, &table(&seen), &keys_of(&seen, "b", 10))
            .unwrap();
        other.commit().unwrap();
        engine.settle().unwrap();
        let seen = engine.snapshot();
        assert_eq!(seen.series_count(&table(&seen), &[]).unwrap(), 1);
        let refused = own.commit().unwrap_err();
        assert!(
            matches!(refused, Error::TransactionOvertaken { .. }),
            "{refused}"
        );
        write_b().commit().unwrap();
        for _ in 0..2 {
            assert_eq!(points_of(&engine), ["10 a 1 1", "20 a 2 2", "30 b 4 -"]);
            engine.settle().unwrap();
        }
    }
}

/// The simulation found the first half: a store whose sync had failed acknowledged a change without effect. The mend refused
/// transactions that had only read, too.
#[test]
fn a_store_that_has_stopped_acknowledges_no_change_and_is_read() {
    let disk = FaultyDisk::new(7, CrashPlan::default());
    let open = Arc::new(disk.clone());
    let clock = Arc::new(SystemClock);
    let engine = Engine::open(open, clock, Path::new("/d"), Options::default()).unwrap();
    let engine = Arc::new(engine);
    crate::typed_store::make_table(&engine, Duplicates::Last);
    prepare(&engine);
    let schema = relation(&engine);
    disk.set_plan(CrashPlan {
        fail_sync_at: (1..=20).collect(),
        ..CrashPlan::default()
    });
    let rows = RelationChange::Insert(schema, vec![account(1, 10)]);
    engine.write_relations(&[rows]).unwrap_err();
    let reads = engine.begin().unwrap();
    assert_eq!(shown(&reads.snapshot()).len(), 3);
    assert_eq!(reads.commit().unwrap(), 0);
    let changes = engine.begin().unwrap();
    let seen = changes.snapshot();
    let outcome = changes
        .delete_rows(&seen, &table(&seen), &[])
        .and_then(|()| changes.commit());
    assert!(
        matches!(outcome, Err(Error::Poisoned { .. })),
        "{outcome:?}"
    );
}

#[test]
fn a_transaction_has_the_limits_of_a_batch_and_of_memory() {
    let disk = nilometer_engine::disk::MemoryDisk::new();
    let options = Options {
        batch_rows_max: 3,
        memory_bytes_max: 16 << 20,
        ..Options::default()
    };
    let clock = Arc::new(SystemClock);
    let engine = Engine::open(Arc::new(disk), clock, Path::new("/d"), options).unwrap();
    let engine = Arc::new(engine);
    crate::typed_store::make_table(&engine, Duplicates::Keep);
    let own = engine.begin().unwrap();
    let rows = [("a", 1, None, Some(1)), ("a", 2, None, Some(1))];
    insert(&own, &engine, &rows, OnConflict::Replace).unwrap();
    let refused = insert(&own, &engine, &rows, OnConflict::Replace).unwrap_err();
    assert!(
        refused.to_string().contains("the rows of one batch"),
        "{refused}"
    );
    own.rollback();
    let used = engine.budget().used(nilometer_engine::MemoryUse::Query);
    assert_eq!(used, 0);
    let share = engine.budget().limit(nilometer_engine::MemoryUse::Query);
    let all_but_little = engine
        .budget()
        .charge(nilometer_engine::MemoryUse::Query, share - 100)
        .unwrap();
    let own = engine.begin().unwrap();
    let refused = insert(&own, &engine, &rows, OnConflict::Replace).unwrap_err();
    assert!(
        refused.to_string().contains("memory_bytes_max"),
        "{refused}"
    );
    drop(all_but_little);
}

// Relations.

fn relation(engine: &Arc<Engine>) -> Arc<RelationSchema> {
    let column = |name: &str, kind, nullable| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable,
    };
    let new = NewRelation {
        columns: vec![
            column("id", PhysicalType::I64, false),
            column("balance", PhysicalType::I64, true),
            column("name", PhysicalType::Text, true),
        ],
        primary_key: vec!["id".to_owned()],
        unique: vec![vec!["name".to_owned()]],
    };
    engine.create_relation("d", "public", "r", &new).unwrap();
    let reader = engine.snapshot().relation("d", "public", "r").unwrap();
    Arc::clone(reader.schema())
}

fn account(id: i64, balance: i64) -> Vec<Value> {
    vec![id.into(), balance.into(), Value::Null]
}

fn accounts(snapshot: &Snapshot) -> Vec<String> {
    let rows = snapshot.relation("d", "public", "r").unwrap().rows();
    let mut rows: Vec<String> = rows
        .iter()
        .map(|row| format!("{} {}", row[0], row[1]))
        .collect();
    rows.sort();
    rows
}

#[test]
fn rows_of_a_relation_are_locked_until_the_end_and_a_circle_is_refused() {
    let engine = store(Duplicates::Last);
    let schema = relation(&engine);
    let put =
        |id, balance| RelationChange::Replace(Arc::clone(&schema), vec![account(id, balance)]);
    let add = |id| RelationChange::Insert(Arc::clone(&schema), vec![account(id, 0)]);
    engine.write_relations(&[add(1), add(2)]).unwrap();
    let (one, two) = (engine.begin().unwrap(), engine.begin().unwrap());
    one.write_relations(Some(&one.snapshot()), &[put(1, 10)])
        .unwrap();
    assert_eq!(accounts(&one.snapshot()), ["1 10", "2 0"]);
    assert_eq!(accounts(&two.snapshot()), ["1 0", "2 0"]);
    two.write_relations(Some(&two.snapshot()), &[put(2, 20)])
        .unwrap();
    two.write_relations(None, &[add(3)]).unwrap();
    // Whoever writes outside of transactions does not wait.
    for change in [put(1, 99), add(3)] {
        let refused = engine.write_relations(&[change]).unwrap_err();
        assert!(matches!(refused, Error::RowLocked { .. }), "{refused}");
    }
    let wait = match two.write_relations(Some(&two.snapshot()), &[put(1, 11)]) {
        Err(Error::RowLocked { wait }) => wait,
        other => panic!("{other:?}"),
    };
    let refused = one
        .write_relations(Some(&one.snapshot()), &[put(2, 21)])
        .unwrap_err();
    assert!(matches!(refused, Error::Deadlock), "{refused}");
    let mut waiting = Box::pin(wait.ended());
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
    let before = two.snapshot();
    one.commit().unwrap();
    assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(()));
    // What was read before is not what is there now.
    let refused = two
        .write_relations(Some(&before), &[put(1, 11)])
        .unwrap_err();
    assert!(
        matches!(refused, Error::RelationChanged { .. }),
        "{refused}"
    );
    two.write_relations(Some(&two.snapshot()), &[put(1, 11)])
        .unwrap();
    two.commit().unwrap();
    assert_eq!(accounts(&engine.snapshot()), ["1 11", "2 20", "3 0"]);
    let refused = engine
        .begin()
        .unwrap()
        .write_relations(None, &[add(3)])
        .unwrap_err();
    assert!(matches!(refused, Error::RelationKey { .. }), "{refused}");
    engine.write_relations(&[put(1, 5)]).unwrap();
}

#[test]
fn a_refused_change_of_a_relation_changes_nothing_of_its_transaction() {
    let engine = store(Duplicates::Last);
    let schema = relation(&engine);
    let add = |ids: &[i64]| {
        let rows = ids.iter().map(|id| account(*id, 0)).collect();
        RelationChange::Insert(Arc::clone(&schema), rows)
    };
    engine.write_relations(&[add(&[1])]).unwrap();
    let own = engine.begin().unwrap();
    own.write_relations(None, &[add(&[2])]).unwrap();
    own.write_relations(None, &[add(&[3, 4, 1])]).unwrap_err();
    own.write_relations(None, &[add(&[3, 4, 2])]).unwrap_err();
    assert_eq!(accounts(&own.snapshot()), ["1 0", "2 0"]);
    let place = own.savepoint().unwrap();
    own.write_relations(None, &[add(&[5])]).unwrap();
    own.rollback_to(&place).unwrap();
    own.write_relations(None, &[add(&[3])]).unwrap();
    own.commit().unwrap();
    assert_eq!(accounts(&engine.snapshot()), ["1 0", "2 0", "3 0"]);
}

/// The number of rows of the table `n`.
fn others(snapshot: &Snapshot) -> usize {
    let request = ScanRequest {
        table: snapshot.table("d", "public", "n").unwrap(),
        projection: vec![0],
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = snapshot.scan(&request).unwrap();
    let batches = (0..scan.morsels()).flat_map(|at| scan.read(at));
    batches.map(|batch| batch.unwrap().num_rows()).sum()
}

/// The power goes at each call of the disk while a transaction over two tables and a relation commits.
#[test]
fn after_a_power_cut_all_of_a_transaction_is_there_or_nothing() {
    let run = |crash_at: Option<u64>| -> (FaultyDisk, Option<bool>) {
        let disk = FaultyDisk::new(7, CrashPlan::default());
        let open = Arc::new(disk.clone());
        let clock = Arc::new(SystemClock);
        let engine = Engine::open(open, clock, Path::new("/d"), Options::default()).unwrap();
        let engine = Arc::new(engine);
        crate::typed_store::make_table(&engine, Duplicates::Unique);
        let value = NewColumn {
            name: "v",
            kind: ColumnKind::Field(PhysicalType::I64),
        };
        let settings = TableSettings::default();
        engine
            .create_table("d", "public", "n", &[value], settings)
            .unwrap();
        let schema = relation(&engine);
        prepare(&engine);
        disk.set_plan(CrashPlan {
            crash_at,
            ..CrashPlan::default()
        });
        let own = engine.begin().unwrap();
        insert(
            &own,
            &engine,
            &[("new", 1, None, Some(1))],
            OnConflict::Error,
        )
        .unwrap();
        let seen = own.snapshot();
        own.delete_rows(&seen, &table(&seen), &keys_of(&seen, "a", 10))
            .unwrap();
        let rows = RelationChange::Insert(schema, vec![account(1, 10)]);
        own.write_relations(None, &[rows]).unwrap();
        let mut session = Session::new(Arc::clone(&engine), "d").unwrap().within(&own);
        let times: arrow_array::Int64Array = [Some(5)].into_iter().collect();
        let rows = crate::typed_store::batch(vec![
            ("time", Arc::new(times.clone())),
            ("v", Arc::new(times)),
        ]);
        session
            .write_arrow(Target::table("n"), &rows, OnConflict::Replace)
            .unwrap();
        let done = own.commit();
        (disk, done.is_ok().then_some(true))
    };
    let (disk, done) = run(None);
    assert_eq!(done, Some(true));
    let calls = disk.calls();
    assert!(calls > 0, "the commit writes");
    for crash_at in 1..=calls + 1 {
        let (disk, acknowledged) = run(Some(crash_at));
        for seed in 0..6 {
            let after = disk.after_power_cut(seed, CrashPlan::default());
            let clock = Arc::new(SystemClock);
            let engine = Engine::open(Arc::new(after), clock, Path::new("/d"), Options::default());
            let engine = Arc::new(engine.unwrap());
            let snapshot = engine.snapshot();
            let found = (points_of(&engine), accounts(&snapshot), others(&snapshot));
            let nothing = (
                vec![
                    "10 a 1 1".to_owned(),
                    "20 a 2 2".to_owned(),
                    "10 b 3 3".to_owned(),
                ],
                Vec::new(),
                0,
            );
            let all = (
                vec![
                    "20 a 2 2".to_owned(),
                    "10 b 3 3".to_owned(),
                    "1 new - 1".to_owned(),
                ],
                vec!["1 10".to_owned()],
                1,
            );
            if acknowledged.is_some() {
                assert_eq!(found, all, "call {crash_at}, seed {seed}");
            } else {
                assert!(
                    found == all || found == nothing,
                    "call {crash_at}, seed {seed}: {found:?}"
                );
            }
        }
    }
}
