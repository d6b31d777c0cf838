//! Promise: rows that a transaction stages in files are its own until it commits, and then they are all there as if they had come in
//! one batch; an error, a rollback or a power cut at any step leaves the table as it was and no file behind.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::path::Path;
use std::sync::Arc;

use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk, MemoryDisk};
use nilometer_engine::ingest::{OnConflict, Session, Target};
use nilometer_engine::{
    AggregateKey, AggregateSource, DeleteRequest, Duplicates, Engine, Error, NewRelation, Options,
    RelationChange, RelationColumn, RowKey, ScanRequest, SeriesId, Snapshot, SystemClock,
    Transaction, Value,
};

use crate::typed_store::{
    in_every_state, make_table, open, points, points_of, rows_of, session, store, table, write,
};

const ALL: [Duplicates; 3] = [Duplicates::Last, Duplicates::Keep, Duplicates::Unique];

type Row = (&'static str, i64, Option<f64>, Option<i64>);

fn conflicts(duplicates: Duplicates) -> OnConflict {
    match duplicates {
        Duplicates::Unique => OnConflict::Error,
        Duplicates::Last | Duplicates::Keep => OnConflict::Replace,
    }
}

fn stage(
    own: &Arc<Transaction>,
    engine: &Arc<Engine>,
    rows: &[Row],
    on_conflict: OnConflict,
) -> Result<u64, Error> {
    session(engine).stage_arrow(own, Target::table("m"), &points(rows), on_conflict)
}

fn insert(own: &Arc<Transaction>, engine: &Arc<Engine>, rows: &[Row]) -> Result<(), Error> {
    let mut session = session(engine).within(own);
    session
        .write_arrow(Target::table("m"), &points(rows), OnConflict::Replace)
        .map(drop)
}

fn shown(snapshot: &Snapshot) -> Vec<String> {
    rows_of(snapshot, vec![0, 1, 3, 4])
}

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

fn segments(disk: &dyn Disk) -> Vec<String> {
    let mut names = disk.list(Path::new("/d/segments")).unwrap();
    names.retain(|name| Path::new(name).extension().is_some_and(|it| it == "seg"));
    names.sort();
    names
}

const FIRST: [Row; 3] = [
    ("c", 5, Some(9.0), None),
    ("a", 30, None, Some(7)),
    ("c", 6, Some(8.0), None),
];
const SECOND: [Row; 2] = [("b", 11, Some(4.0), None), ("d", 1, None, Some(6))];

#[test]
fn staged_rows_are_the_transactions_own_until_it_commits() {
    for duplicates in ALL {
        in_every_state(duplicates, prepare, |engine, state| {
            let before = points_of(engine);
            let series =
                |snapshot: &Snapshot| snapshot.series_count(&table(snapshot), &[]).unwrap();
            for commits in [false, true] {
                let own = engine.begin().unwrap();
                let how = conflicts(duplicates);
                assert_eq!(stage(&own, engine, &FIRST, how).unwrap(), 3);
                assert_eq!(stage(&own, engine, &SECOND, how).unwrap(), 2);
                let seen = own.snapshot();
                let expected = [
                    "10 a 1 1", "20 a 2 2", "30 a - 7", "10 b 3 3", "11 b 4 -", "5 c 9 -",
                    "6 c 8 -", "1 d - 6",
                ];
                assert_eq!(shown(&seen), expected, "{duplicates:?}, {state}");
                assert_eq!(points_of(engine), before, "{duplicates:?}, {state}");
                // Nobody takes series away that only staged rows have.
                engine.settle().unwrap();
                assert_eq!(points_of(engine), before, "{duplicates:?}, {state}");
                if commits {
                    assert!(own.commit().unwrap() > 0);
                    for settles in [false, true] {
                        if settles {
                            engine.settle().unwrap();
                        }
                        assert_eq!(points_of(engine), expected, "{duplicates:?}, {state}");
                    }
                    assert_eq!(series(&engine.snapshot()), 4);
                    assert_eq!(engine.metrics().refused_edits, 0);
                } else {
                    own.rollback();
                    drop(seen);
                    engine.settle().unwrap();
                    assert_eq!(points_of(engine), before, "{duplicates:?}, {state}");
                    assert_eq!(series(&engine.snapshot()), 2, "{duplicates:?}, {state}");
                }
                let late = stage(&own, engine, &FIRST, how);
                assert!(matches!(late, Err(Error::TransactionEnded)));
            }
        });
    }
}

/// Parts of a COPY give what the whole gives in one batch, wherever they are cut.
#[test]
fn staged_rows_mean_what_they_mean_in_one_batch() {
    let hosts = ["a", "b", "c", "d"];
    for duplicates in [Duplicates::Last, Duplicates::Keep] {
        for seed in 1..40u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut random = |below: u64| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let rows: Vec<Row> = (0..20 + random(30))
                .map(|nth| {
                    let host = hosts[usize::try_from(random(4)).unwrap()];
                    let time = i64::try_from(random(6) * 10).unwrap();
                    let nth = i64::try_from(nth).unwrap();
                    let busy = (random(2) == 0).then_some(f64::from(u32::try_from(nth).unwrap()));
                    (host, time, busy, (random(3) > 0).then_some(nth))
                })
                .collect();
            let (whole, parts) = (store(duplicates), store(duplicates));
            for engine in [&whole, &parts] {
                prepare(engine);
                if seed % 2 == 0 {
                    engine.flush().unwrap();
                }
            }
            write(&whole, &points(&rows), OnConflict::Replace).unwrap();
            let own = parts.begin().unwrap();
            let mut left = rows.as_slice();
            while !left.is_empty() {
                let count = usize::try_from(1 + random(9)).unwrap().min(left.len());
                let (part, rest) = left.split_at(count);
                stage(&own, &parts, part, OnConflict::Replace).unwrap();
                left = rest;
            }
            let mut expected = points_of(&whole);
            let mut seen = shown(&own.snapshot());
            own.commit().unwrap();
            let mut found = points_of(&parts);
            parts.settle().unwrap();
            let mut settled = points_of(&parts);
            for rows in [&mut expected, &mut seen, &mut found, &mut settled] {
                rows.sort();
            }
            assert_eq!(seen, expected, "{duplicates:?}, seed {seed}");
            assert_eq!(found, expected, "{duplicates:?}, seed {seed}");
            assert_eq!(settled, expected, "{duplicates:?}, seed {seed}");
        }
    }
}

#[test]
fn a_key_that_is_there_refuses_staged_rows_of_a_unique_table() {
    in_every_state(Duplicates::Unique, prepare, |engine, state| {
        let before = points_of(engine);
        let own = engine.begin().unwrap();
        stage(&own, engine, &[("c", 1, None, Some(1))], OnConflict::Error).unwrap();
        for (rows, place) in [
            (
                [("a", 10, None, Some(5)), ("e", 1, None, None)],
                "there already",
            ),
            (
                [("c", 1, None, Some(5)), ("e", 1, None, None)],
                "there already",
            ),
            (
                [("e", 1, None, Some(5)), ("e", 1, None, None)],
                "earlier in the batch",
            ),
        ] {
            let refused = stage(&own, engine, &rows, OnConflict::Error).unwrap_err();
            let is_conflict =
                matches!(&refused, Error::RowConflict { place: found, .. } if *found == place);
            assert!(is_conflict, "{state}: {refused}");
        }
        drop(own);
        assert_eq!(points_of(engine), before, "{state}");
    });
}

/// Somebody else writes a staged key before the end: it is seen in memory, in a file, and after a compaction.
#[test]
fn a_key_that_is_written_before_the_end_refuses_the_transaction() {
    for state in ["head", "segment", "settled"] {
        let disk = MemoryDisk::new();
        let engine = open(&disk);
        make_table(&engine, Duplicates::Unique);
        prepare(&engine);
        engine.flush().unwrap();
        let own = engine.begin().unwrap();
        stage(&own, &engine, &FIRST, OnConflict::Error).unwrap();
        write(
            &engine,
            &points(&[("a", 31, None, Some(1))]),
            OnConflict::Error,
        )
        .unwrap();
        stage(&own, &engine, &SECOND, OnConflict::Error).unwrap();
        write(
            &engine,
            &points(&[("d", 1, None, Some(1))]),
            OnConflict::Error,
        )
        .unwrap();
        match state {
            "head" => {}
            "segment" => engine.flush().unwrap(),
            _ => engine.settle().unwrap(),
        }
        let before = points_of(&engine);
        let refused = own.commit().unwrap_err();
        assert!(
            matches!(refused, Error::TransactionOvertaken { .. }),
            "{state}: {refused}"
        );
        assert_eq!(points_of(&engine), before, "{state}");
        // The next attempt is told of the row, and one of other keys goes through.
        let own = engine.begin().unwrap();
        let refused = stage(&own, &engine, &SECOND, OnConflict::Error).unwrap_err();
        assert!(matches!(refused, Error::RowConflict { .. }), "{refused}");
        stage(&own, &engine, &FIRST, OnConflict::Error).unwrap();
        write(
            &engine,
            &points(&[("a", 32, None, Some(1))]),
            OnConflict::Error,
        )
        .unwrap();
        own.commit().unwrap();
        assert_eq!(points_of(&engine).len(), before.len() + FIRST.len() + 1);
        let late = write(&engine, &points(&FIRST), OnConflict::Error).unwrap_err();
        assert!(matches!(late, Error::RowConflict { .. }), "{late}");
    }
}

/// What others delete before the end was not there yet; what they delete afterwards goes.
#[test]
fn deletes_hide_staged_rows_only_if_they_come_after_the_end() {
    for duplicates in ALL {
        let engine = store(duplicates);
        prepare(&engine);
        let own = engine.begin().unwrap();
        stage(&own, &engine, &FIRST, conflicts(duplicates)).unwrap();
        let delete = || {
            let request = DeleteRequest {
                table: table(&engine.snapshot()),
                time: 0..=15,
                tags: Vec::new(),
            };
            engine.delete(&request).unwrap();
        };
        delete();
        own.commit().unwrap();
        let expected = ["20 a 2 2", "30 a - 7", "5 c 9 -", "6 c 8 -"];
        assert_eq!(points_of(&engine), expected, "{duplicates:?}");
        delete();
        for settles in [false, true] {
            if settles {
                engine.settle().unwrap();
            }
            assert_eq!(
                points_of(&engine),
                ["20 a 2 2", "30 a - 7"],
                "{duplicates:?}"
            );
        }
    }
}

#[test]
fn a_transaction_deletes_and_changes_what_it_has_staged_and_what_was_there() {
    for duplicates in ALL {
        in_every_state(duplicates, prepare, |engine, state| {
            let own = engine.begin().unwrap();
            let how = conflicts(duplicates);
            let delete = |host: &str, time| {
                let seen = own.snapshot();
                own.delete_rows(&seen, &table(&seen), &keys_of(&seen, host, time))
                    .unwrap();
            };
            // Deleted and then staged: it is there.
            delete("a", 10);
            stage(&own, engine, &[("a", 10, Some(5.0), None)], how).unwrap();
            let place = own.savepoint().unwrap();
            stage(&own, engine, &FIRST, how).unwrap();
            delete("c", 5);
            own.rollback_to(&place).unwrap();
            stage(&own, engine, &FIRST, how).unwrap();
            delete("c", 6);
            delete("b", 10);
            let seen = own.snapshot();
            let gone = keys_of(&seen, "a", 30);
            session(engine)
                .within(&own)
                .update_rows(
                    &seen,
                    &table(&seen),
                    &gone,
                    &points(&[("a", 31, None, Some(8))]),
                )
                .unwrap();
            insert(&own, engine, &[("d", 2, None, Some(2))]).unwrap();
            let expected = ["10 a 5 -", "20 a 2 2", "31 a - 8", "5 c 9 -", "2 d - 2"];
            assert_eq!(shown(&own.snapshot()), expected, "{duplicates:?}, {state}");
            own.commit().unwrap();
            for settles in [false, true] {
                if settles {
                    engine.settle().unwrap();
                }
                assert_eq!(points_of(engine), expected, "{duplicates:?}, {state}");
            }
        });
    }
}

#[test]
fn what_does_not_go_with_staged_rows_is_refused_by_name() {
    let engine = store(Duplicates::Last);
    let column = RelationColumn {
        name: "id".to_owned(),
        kind: PhysicalType::I64,
        nullable: false,
    };
    let new = NewRelation {
        columns: vec![column],
        primary_key: vec!["id".to_owned()],
        unique: Vec::new(),
    };
    engine.create_relation("d", "public", "r", &new).unwrap();
    let snapshot = engine.snapshot();
    let schema = snapshot.relation("d", "public", "r").unwrap();
    let row = RelationChange::Insert(Arc::clone(schema.schema()), vec![vec![Value::I64(1)]]);
    let own = engine.begin().unwrap();
    stage(&own, &engine, &FIRST, OnConflict::Replace).unwrap();
    let refused = own
        .write_relations(None, std::slice::from_ref(&row))
        .unwrap_err();
    assert!(
        refused.to_string().contains("tables without time"),
        "{refused}"
    );
    own.commit().unwrap();
    let own = engine.begin().unwrap();
    own.write_relations(None, &[row]).unwrap();
    let refused = stage(&own, &engine, &FIRST, OnConflict::Replace).unwrap_err();
    assert!(
        refused.to_string().contains("tables without time"),
        "{refused}"
    );
    drop(own);
    let own = engine.begin().unwrap();
    insert(&own, &engine, &FIRST).unwrap();
    let refused = stage(&own, &engine, &SECOND, OnConflict::Replace).unwrap_err();
    assert!(refused.to_string().contains("comes first"), "{refused}");
    // Where every row is kept no order counts.
    let engine = store(Duplicates::Keep);
    let own = engine.begin().unwrap();
    insert(&own, &engine, &FIRST).unwrap();
    stage(&own, &engine, &FIRST, OnConflict::Replace).unwrap();
    insert(&own, &engine, &SECOND).unwrap();
    assert_eq!(shown(&own.snapshot()).len(), 8);
    own.commit().unwrap();
    assert_eq!(points_of(&engine).len(), 8);
}

const KEY: AggregateKey<'_> = AggregateKey {
    database: "d",
    schema: "public",
    number: 7,
};

/// A refresh between the staging and the end has not seen the rows, so their times are noted at the end.
#[test]
fn the_times_of_staged_rows_are_noted_for_aggregates() {
    let engine = store(Duplicates::Keep);
    prepare(&engine);
    let source = AggregateSource::Times(table(&engine.snapshot()).id);
    engine.watch_aggregate(KEY, 10, &[source]).unwrap();
    let own = engine.begin().unwrap();
    let rows = [("c", 5, Some(9.0), None), ("a", 30, None, Some(7))];
    stage(&own, &engine, &rows, OnConflict::Replace).unwrap();
    let refreshing = engine.begin_refresh(KEY.number).unwrap();
    let seen = engine.snapshot().invalidations(KEY);
    let changes = engine
        .replace_invalidations(KEY, &seen, &[(1_000, i64::MAX, true)])
        .unwrap();
    let of_refresh = engine.begin().unwrap();
    of_refresh.write_relations(None, &changes).unwrap();
    of_refresh.commit().unwrap();
    drop(refreshing);
    own.commit().unwrap();
    let found = engine.snapshot().invalidations(KEY);
    for time in [5, 30] {
        let is_in = |it: &&nilometer_engine::Invalidation| {
            !it.is_new && (it.first_ns..=it.last_ns).contains(&time)
        };
        assert!(found.iter().any(|it| is_in(&it)), "{time}: {found:?}");
    }
    assert!(found.iter().all(|it| it.is_new || it.last_ns < 1_000));
}

/// A store on a faulty disk with the first rows, and what becomes of a transaction that stages two parts.
fn staging_run(plan: CrashPlan) -> (FaultyDisk, Arc<Engine>, bool) {
    let disk = FaultyDisk::new(7, CrashPlan::default());
    let engine = open_faulty(&disk);
    make_table(&engine, Duplicates::Unique);
    prepare(&engine);
    disk.set_plan(plan);
    let run = || -> Result<(), Error> {
        let own = engine.begin()?;
        stage(&own, &engine, &FIRST, OnConflict::Error)?;
        write(
            &engine,
            &points(&[("z", 1, None, Some(1))]),
            OnConflict::Error,
        )?;
        stage(&own, &engine, &SECOND, OnConflict::Error)?;
        let seen = own.snapshot();
        own.delete_rows(&seen, &table(&seen), &keys_of(&seen, "a", 10))?;
        insert(&own, &engine, &[("e", 3, None, Some(3))])?;
        own.commit().map(drop)
    };
    let done = run().is_ok();
    (disk, engine, done)
}

fn open_faulty(disk: &FaultyDisk) -> Arc<Engine> {
    let clock = Arc::new(SystemClock);
    let options = Options::default();
    Arc::new(Engine::open(Arc::new(disk.clone()), clock, Path::new("/d"), options).unwrap())
}

/// What is there of the transaction: all of it, nothing, or an error in the test.
fn is_there(rows: &[String], context: &str) -> bool {
    let staged = [
        "30 a - 7", "11 b 4 -", "5 c 9 -", "6 c 8 -", "1 d - 6", "3 e - 3",
    ];
    let found = staged.iter().filter(|row| rows.iter().any(|it| it == *row));
    let found = found.count();
    let deleted = !rows.iter().any(|row| row == "10 a 1 1");
    assert!(found == 0 || found == staged.len(), "{context}: {rows:?}");
    assert_eq!(deleted, found > 0, "{context}: {rows:?}");
    for kept in ["20 a 2 2", "10 b 3 3"] {
        assert!(rows.iter().any(|row| row == kept), "{context}: {rows:?}");
    }
    found > 0
}

/// The power goes at each call of the disk, from the first staged file to the end of the commit.
#[test]
fn after_a_power_cut_all_staged_rows_are_there_or_none_and_no_file_is_left() {
    let (disk, _, done) = staging_run(CrashPlan::default());
    assert!(done);
    let calls = disk.calls();
    assert!(calls > 10, "files are written");
    let mut outcomes = [0, 0];
    for crash_at in 1..=calls + 1 {
        let plan = CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        };
        let (disk, _, acknowledged) = staging_run(plan);
        for seed in 0..6 {
            let after = disk.after_power_cut(seed, CrashPlan::default());
            let engine = open_faulty(&after);
            let context = format!("crash at {crash_at}, seed {seed}");
            let there = is_there(&points_of(&engine), &context);
            assert!(there || !acknowledged, "{context}: it was acknowledged");
            outcomes[usize::from(there)] += 1;
            engine.settle().unwrap();
            assert_eq!(is_there(&points_of(&engine), &context), there);
            drop(engine);
            let engine = open_faulty(&after);
            assert_eq!(is_there(&points_of(&engine), &context), there);
            let listed = engine.snapshot().segments().len();
            assert_eq!(segments(&after).len(), listed, "{context}");
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

/// The disk refuses each write in turn: the error leaves the table as it was, the store goes on, and no file is left.
#[test]
fn a_disk_that_is_full_leaves_the_table_as_it_was() {
    let (disk, ..) = staging_run(CrashPlan::default());
    let calls = disk.calls();
    let mut refused = 0;
    for fail_at in 1..=calls {
        let plan = CrashPlan {
            fail_write_at: vec![fail_at],
            ..CrashPlan::default()
        };
        let (disk, engine, done) = staging_run(plan);
        let context = format!("write {fail_at}");
        let there = is_there(&points_of(&engine), &context);
        assert_eq!(there, done, "{context}");
        refused += usize::from(!done);
        let goes_on = write(
            &engine,
            &points(&[("y", 1, None, Some(1))]),
            OnConflict::Error,
        );
        if goes_on.is_ok() {
            engine.settle().unwrap();
            assert_eq!(is_there(&points_of(&engine), &context), done);
        }
        drop(engine);
        let engine = open_faulty(&disk);
        let again = is_there(&points_of(&engine), &context);
        assert!(again == done || goes_on.is_err(), "{context}");
        let listed = engine.snapshot().segments().len();
        assert_eq!(segments(&disk).len(), listed, "{context}");
    }
    assert!(refused > 3, "{refused}");
}

/// Rows of many parts, written beside: every acknowledged row of both is there once.
#[test]
fn others_write_while_rows_are_staged_and_published() {
    let engine = store(Duplicates::Last);
    let beside = {
        let engine = Arc::clone(&engine);
        std::thread::spawn(move || {
            for time in 0..300 {
                write(
                    &engine,
                    &points(&[("w", time, None, Some(time))]),
                    OnConflict::Replace,
                )
                .unwrap();
                if time % 50 == 0 {
                    engine.flush().unwrap();
                }
            }
        })
    };
    for round in 0..5 {
        let own = engine.begin().unwrap();
        for part in 0..4 {
            let time = round * 4 + part;
            let rows: [Row; 2] = [
                ("s", time, None, Some(time)),
                ("w", 1_000, None, Some(time)),
            ];
            stage(&own, &engine, &rows, OnConflict::Replace).unwrap();
        }
        own.commit().unwrap();
    }
    beside.join().unwrap();
    for settles in [false, true] {
        if settles {
            engine.settle().unwrap();
        }
        let mut expected: Vec<String> = (0..20).map(|at| format!("{at} s - {at}")).collect();
        expected.extend((0..300).map(|at| format!("{at} w - {at}")));
        expected.push("1000 w - 19".to_owned());
        let mut found = points_of(&engine);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}

/// What is rolled back leaves no file while the store is open, but for what somebody still reads.
#[test]
fn a_rollback_removes_the_files_and_the_session_goes_on() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    make_table(&engine, Duplicates::Keep);
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let own = engine.begin().unwrap();
    let rows = points(&FIRST);
    session
        .stage_arrow(&own, Target::table("m"), &rows, OnConflict::Replace)
        .unwrap();
    let place = own.savepoint().unwrap();
    session
        .stage_arrow(&own, Target::table("m"), &rows, OnConflict::Replace)
        .unwrap();
    assert_eq!(segments(&disk).len(), 2);
    own.rollback_to(&place).unwrap();
    assert_eq!(segments(&disk).len(), 1);
    let reader = own.snapshot();
    drop((place, own));
    assert_eq!(shown(&reader).len(), 3);
    drop(reader);
    engine.settle().unwrap();
    assert_eq!(segments(&disk).len(), 0);
    session
        .write_arrow(Target::table("m"), &rows, OnConflict::Replace)
        .unwrap();
    assert_eq!(points_of(&engine).len(), 3);
}

/// A rewrite of a table's tags copied its rows before those that a transaction had staged were there, and took its place without
/// them.
#[test]
fn staged_rows_are_in_a_table_whose_tags_change_meanwhile() {
    for duplicates in [Duplicates::Last, Duplicates::Keep] {
        let engine = store(duplicates);
        let before: Vec<Row> = (0..3_000).map(|at| ("a", at, None, Some(at))).collect();
        write(&engine, &points(&before), OnConflict::Replace).unwrap();
        engine.flush().unwrap();
        let staging = {
            let engine = Arc::clone(&engine);
            std::thread::spawn(move || {
                let mut refused = 0;
                for round in 0..60 {
                    let parts = [round * 100, round * 100 + 50];
                    let whole = || {
                        let own = engine.begin()?;
                        for part in parts {
                            stage(
                                &own,
                                &engine,
                                &[("s", part, None, Some(part))],
                                OnConflict::Replace,
                            )?;
                        }
                        own.commit()
                    };
                    while whole().is_err() {
                        refused += 1;
                        assert!(refused < 1_000);
                    }
                }
            })
        };
        let tags = ["note".to_owned()];
        engine
            .rewrite_tags("d", "public", "m", &tags, false, &|| false)
            .unwrap();
        staging.join().unwrap();
        let mut expected: Vec<String> = before
            .iter()
            .map(|row| format!("{0} a - {0}", row.1))
            .collect();
        expected.extend((0..120).map(|at| format!("{0} s - {0}", at * 50)));
        expected.sort();
        for settles in [false, true] {
            if settles {
                engine.settle().unwrap();
            }
            // With one more tag the fields stand one place further.
            let mut found = rows_of(&engine.snapshot(), vec![0, 1, 4, 5]);
            found.sort();
            assert_eq!(found, expected);
        }
    }
}
