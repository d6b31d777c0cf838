//! Promise: an update or a delete of rows that were read does all of what it says or nothing, at once, and never loses
//! what was written in between.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

mod model;

use std::sync::Arc;

use crate::typed_store::{
    in_every_state, points, points_of, rows_of, session, store, table, write,
};
use nilometer_engine::ingest::OnConflict;
use nilometer_engine::{Duplicates, Engine, Error, RowKey, ScanRequest, SeriesId};

const ALL: [Duplicates; 3] = [Duplicates::Last, Duplicates::Keep, Duplicates::Unique];

fn prepare(engine: &Arc<Engine>) {
    let rows = points(&[
        ("a", 10, Some(1.0), Some(1)),
        ("a", 20, Some(2.0), Some(2)),
        ("b", 10, Some(3.0), Some(3)),
    ]);
    write(engine, &rows, OnConflict::Replace).unwrap();
}

/// The key of every row that a scan shows, with its host.
fn keys(engine: &Arc<Engine>) -> Vec<(RowKey, String)> {
    let projection = vec![ScanRequest::SERIES, 0, ScanRequest::NTH, 1];
    let rows = rows_of(&engine.snapshot(), projection);
    let key = |row: &String| {
        let cells: Vec<&str> = row.split(' ').collect();
        let [series, time, nth, host] = cells.as_slice() else {
            panic!("{row}");
        };
        let key = RowKey {
            series: SeriesId(series.parse().unwrap()),
            time: time.parse().unwrap(),
            nth: nth.parse().unwrap(),
        };
        (key, (*host).to_owned())
    };
    rows.iter().map(key).collect()
}

fn key_of(engine: &Arc<Engine>, host: &str, time: i64) -> RowKey {
    let keys = keys(engine);
    let found = keys
        .into_iter()
        .find(|(key, of)| of == host && key.time == time);
    found.expect("the row is there").0
}

#[test]
fn an_update_changes_values_times_and_tags_at_once() {
    for duplicates in ALL {
        in_every_state(duplicates, prepare, |engine, state| {
            let gone = [key_of(engine, "a", 10), key_of(engine, "b", 10)];
            let new = points(&[("a", 11, None, Some(7)), ("c", 10, Some(8.0), None)]);
            let before = engine.snapshot();
            let report = session(engine)
                .update_rows(&before, &table(&before), &gone, &new)
                .unwrap();
            assert_eq!(
                (report.written, report.replaced),
                (2, 2),
                "{duplicates:?}, {state}"
            );
            let expected = ["11 a - 7", "20 a 2 2", "10 c 8 -"];
            assert_eq!(points_of(engine), expected, "{duplicates:?}, {state}");
            let then = rows_of(&before, vec![0, 1, 3, 4]);
            assert_eq!(
                then,
                ["10 a 1 1", "20 a 2 2", "10 b 3 3"],
                "{duplicates:?}, {state}"
            );
            engine.settle().unwrap();
            assert_eq!(
                points_of(engine),
                expected,
                "{duplicates:?}, {state}, settled"
            );
        });
    }
}

#[test]
fn an_update_in_place_sets_a_field_to_null() {
    for duplicates in ALL {
        in_every_state(duplicates, prepare, |engine, state| {
            let snapshot = engine.snapshot();
            let gone = [key_of(engine, "a", 10)];
            let new = points(&[("a", 10, None, Some(1))]);
            session(engine)
                .update_rows(&snapshot, &table(&snapshot), &gone, &new)
                .unwrap();
            let expected = ["10 a - 1", "20 a 2 2", "10 b 3 3"];
            assert_eq!(points_of(engine), expected, "{duplicates:?}, {state}");
            engine.settle().unwrap();
            assert_eq!(
                points_of(engine),
                expected,
                "{duplicates:?}, {state}, settled"
            );
        });
    }
}

#[test]
fn deleted_rows_are_gone_and_others_stay() {
    for duplicates in ALL {
        in_every_state(duplicates, prepare, |engine, state| {
            let snapshot = engine.snapshot();
            let table = table(&snapshot);
            assert_eq!(engine.delete_rows(&snapshot, &table, &[]).unwrap(), None);
            let gone = [key_of(engine, "b", 10), key_of(engine, "a", 20)];
            let lsn = engine.delete_rows(&snapshot, &table, &gone).unwrap();
            assert!(lsn > Some(snapshot.lsn()));
            assert_eq!(points_of(engine), ["10 a 1 1"], "{duplicates:?}, {state}");
            write(
                engine,
                &points(&[("b", 10, Some(9.0), None)]),
                OnConflict::Replace,
            )
            .unwrap();
            let expected = ["10 a 1 1", "10 b 9 -"];
            assert_eq!(points_of(engine), expected, "{duplicates:?}, {state}");
            engine.settle().unwrap();
            assert_eq!(
                points_of(engine),
                expected,
                "{duplicates:?}, {state}, settled"
            );
        });
    }
}

#[test]
fn of_rows_with_one_key_those_that_are_not_named_stay() {
    in_every_state(
        Duplicates::Keep,
        |engine| {
            for count in 0..4 {
                let rows = points(&[("a", 10, None, Some(count)), ("a", 11, None, Some(count))]);
                write(engine, &rows, OnConflict::Replace).unwrap();
            }
        },
        |engine, state| {
            let snapshot = engine.snapshot();
            let table = table(&snapshot);
            let first = key_of(engine, "a", 10);
            let shown = rows_of(&snapshot, vec![ScanRequest::NTH, 0, 4]);
            assert_eq!(shown.get(1).unwrap(), "1 10 1", "{state}");
            let gone = [RowKey { nth: 1, ..first }, RowKey { nth: 2, ..first }];
            engine.delete_rows(&snapshot, &table, &gone).unwrap();
            let rest = ["11 a - 0", "11 a - 1", "11 a - 2", "11 a - 3"];
            let mut expected = vec!["10 a - 0", "10 a - 3"];
            expected.extend(rest);
            assert_eq!(points_of(engine), expected, "{state}");
            let snapshot = engine.snapshot();
            let gone = [RowKey { nth: 1, ..first }];
            let new = points(&[("a", 10, None, Some(33))]);
            session(engine)
                .update_rows(&snapshot, &table, &gone, &new)
                .unwrap();
            let mut expected = vec!["10 a - 0", "10 a - 33"];
            expected.extend(rest);
            assert_eq!(points_of(engine), expected, "{state}");
            engine.settle().unwrap();
            assert_eq!(points_of(engine), expected, "{state}, settled");
        },
    );
}

#[test]
fn what_was_written_or_deleted_after_the_read_is_not_lost() {
    for duplicates in ALL {
        for flushed in [false, true] {
            let engine = store(duplicates);
            prepare(&engine);
            let snapshot = engine.snapshot();
            let table = table(&snapshot);
            let gone = [key_of(&engine, "a", 20), key_of(&engine, "a", 10)];
            let new = points(&[("a", 30, None, Some(1))]);
            write(
                &engine,
                &points(&[("a", 10, Some(5.0), Some(5))]),
                OnConflict::Replace,
            )
            .unwrap();
            if flushed {
                engine.settle().unwrap();
            }
            let before = points_of(&engine);
            let mut session = session(&engine);
            for _ in 0..2 {
                let refused = session
                    .update_rows(&snapshot, &table, &gone, &new)
                    .unwrap_err();
                assert_eq!(
                    refused.to_string(),
                    "a row of table \"m\", series (host=a), time 10, was written or deleted after this statement had read it; nothing was changed: run the statement again"
                );
                let refused = engine.delete_rows(&snapshot, &table, &gone);
                assert!(matches!(
                    refused,
                    Err(Error::ChangedMeanwhile { time: 10, .. })
                ));
            }
            assert_eq!(points_of(&engine), before);
            // A new snapshot has read it.
            let snapshot = engine.snapshot();
            engine
                .delete_rows(&snapshot, &table, &gone[..1])
                .unwrap()
                .unwrap();
            let snapshot = engine.snapshot();
            let again = engine.delete_rows(&snapshot, &table, &gone[..1]);
            assert!(matches!(
                again,
                Err(Error::ChangedMeanwhile { time: 20, .. })
            ));
        }
    }
}

#[test]
fn a_flush_after_the_read_is_nobodys_concern() {
    for duplicates in ALL {
        let engine = store(duplicates);
        prepare(&engine);
        let gone = [key_of(&engine, "a", 20), key_of(&engine, "b", 10)];
        let snapshot = engine.snapshot();
        // Others write other rows, and a new series gives the log one record more.
        write(
            &engine,
            &points(&[("z", 1, None, Some(1))]),
            OnConflict::Replace,
        )
        .unwrap();
        engine.flush().unwrap();
        write(
            &engine,
            &points(&[("z", 2, None, Some(1))]),
            OnConflict::Replace,
        )
        .unwrap();
        let table = table(&snapshot);
        engine
            .delete_rows(&snapshot, &table, &gone[..1])
            .unwrap()
            .unwrap();
        assert_eq!(
            points_of(&engine),
            ["10 a 1 1", "10 b 3 3", "1 z - 1", "2 z - 1"]
        );
        // What that delete took is not there any more, although the head that it was in is a file now.
        engine.flush().unwrap();
        let refused = engine.delete_rows(&snapshot, &table, &gone[..1]);
        assert!(matches!(
            refused,
            Err(Error::ChangedMeanwhile { time: 20, .. })
        ));
    }
}

#[test]
fn a_row_that_came_between_two_deletes_of_one_head_is_there() {
    let engine = store(Duplicates::Unique);
    prepare(&engine);
    // So that the deletes have something to wait for.
    engine.flush().unwrap();
    let table = table(&engine.snapshot());
    let gone = [key_of(&engine, "a", 20), key_of(&engine, "b", 10)];
    engine
        .delete_rows(&engine.snapshot(), &table, &gone[..1])
        .unwrap();
    write(
        &engine,
        &points(&[("a", 20, None, Some(7))]),
        OnConflict::Error,
    )
    .unwrap();
    engine
        .delete_rows(&engine.snapshot(), &table, &gone[1..])
        .unwrap();
    let snapshot = engine.snapshot();
    engine.flush().unwrap();
    let new = points(&[("a", 20, None, Some(8))]);
    session(&engine)
        .update_rows(&snapshot, &table, &gone[..1], &new)
        .unwrap();
    assert_eq!(points_of(&engine), ["10 a 1 1", "20 a - 8"]);
}

#[test]
fn what_a_flush_has_deleted_for_good_is_missed() {
    let engine = store(Duplicates::Last);
    prepare(&engine);
    let snapshot = engine.snapshot();
    let table = table(&snapshot);
    let gone = [key_of(&engine, "a", 20)];
    engine
        .delete_rows(&snapshot, &table, &gone)
        .unwrap()
        .unwrap();
    engine.flush().unwrap();
    let refused = engine.delete_rows(&snapshot, &table, &gone);
    assert!(matches!(
        refused,
        Err(Error::ChangedMeanwhile { time: 20, .. })
    ));
}

#[test]
fn an_update_of_a_unique_table_does_not_run_into_rows_that_stay() {
    in_every_state(Duplicates::Unique, prepare, |engine, state| {
        let snapshot = engine.snapshot();
        let table = table(&snapshot);
        let gone = [key_of(engine, "a", 10)];
        let mut session = session(engine);
        let new = points(&[("c", 5, None, None), ("a", 20, None, Some(9))]);
        let refused = session
            .update_rows(&snapshot, &table, &gone, &new)
            .unwrap_err();
        assert!(
            matches!(
                refused,
                Error::RowConflict {
                    row: 2,
                    time: 20,
                    ..
                }
            ),
            "{state}: {refused}"
        );
        let new = points(&[("a", 30, None, Some(9)), ("a", 30, None, Some(8))]);
        let refused = session
            .update_rows(&snapshot, &table, &gone, &new)
            .unwrap_err();
        assert!(
            matches!(
                refused,
                Error::RowConflict {
                    row: 2,
                    time: 30,
                    ..
                }
            ),
            "{state}: {refused}"
        );
        assert_eq!(
            points_of(engine),
            ["10 a 1 1", "20 a 2 2", "10 b 3 3"],
            "{state}"
        );
        // Rows may change places: what goes is in nobody's way.
        let gone = [key_of(engine, "a", 10), key_of(engine, "a", 20)];
        let new = points(&[("a", 20, Some(1.0), None), ("a", 10, Some(2.0), None)]);
        session.update_rows(&snapshot, &table, &gone, &new).unwrap();
        assert_eq!(
            points_of(engine),
            ["10 a 2 -", "20 a 1 -", "10 b 3 3"],
            "{state}"
        );
    });
}

#[test]
fn a_dropped_table_is_said_to_be_dropped() {
    let engine = store(Duplicates::Last);
    prepare(&engine);
    let snapshot = engine.snapshot();
    let table = table(&snapshot);
    let gone = [key_of(&engine, "a", 10)];
    engine.drop_table("d", "public", "m").unwrap();
    let refused = engine.delete_rows(&snapshot, &table, &gone);
    assert!(matches!(refused, Err(Error::TableDropped { .. })));
    let new = points(&[("a", 20, None, None)]);
    let refused = session(&engine).update_rows(&snapshot, &table, &gone, &new);
    assert!(matches!(refused, Err(Error::TableDropped { .. })));
}

/// Writers who add one to the same row, and run again when somebody was faster, lose no step.
#[test]
fn concurrent_increments_add_up() {
    const WRITERS: usize = 3;
    const STEPS: usize = 30;
    for duplicates in ALL {
        let engine = store(duplicates);
        write(
            &engine,
            &points(&[("a", 10, None, Some(0))]),
            OnConflict::Replace,
        )
        .unwrap();
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let engine = &engine;
                scope.spawn(move || {
                    let mut session = session(engine);
                    let mut steps = 0;
                    while steps < STEPS {
                        if writer == 0 && steps % 10 == 9 {
                            engine.flush().unwrap();
                        }
                        let snapshot = engine.snapshot();
                        let rows = rows_of(&snapshot, vec![ScanRequest::SERIES, 4]);
                        assert_eq!(rows.len(), 1, "{rows:?}");
                        let (series, count) = rows.first().unwrap().split_once(' ').unwrap();
                        let key = RowKey {
                            series: SeriesId(series.parse().unwrap()),
                            time: 10,
                            nth: 0,
                        };
                        let next = count.parse::<i64>().unwrap() + 1;
                        let new = points(&[("a", 10, None, Some(next))]);
                        match session.update_rows(&snapshot, &table(&snapshot), &[key], &new) {
                            Ok(_) => steps += 1,
                            Err(Error::ChangedMeanwhile { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        let total = WRITERS * STEPS;
        assert_eq!(
            points_of(&engine),
            [format!("10 a - {total}")],
            "{duplicates:?}"
        );
    }
}
