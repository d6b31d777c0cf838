//! Promise: a `unique` table never has two rows of one series and time, whoever writes them and wherever the first one
//! is, and the writer hears which rows were in the way.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier};

use crate::counting::CountingDisk;
use nilometer_engine::disk::Disk;

use crate::typed_store::{self, in_every_state, points, points_of, store, write};
use nilometer_engine::ingest::{OnConflict, Session, TypedReport};
use nilometer_engine::{DeleteRequest, Duplicates, Engine, Error, Options, SystemClock};
use nilometer_lineproto::Precision;

fn counts(report: TypedReport) -> (u64, u64, u64) {
    (report.written, report.skipped, report.replaced)
}

fn prepare(engine: &Arc<Engine>) {
    let rows = points(&[
        ("a", 10, Some(1.0), Some(1)),
        ("a", 20, Some(2.0), Some(2)),
        ("b", 10, Some(3.0), Some(3)),
    ]);
    write(engine, &rows, OnConflict::Error).unwrap();
}

#[test]
fn error_refuses_all_and_names_the_first_row_in_the_way() {
    in_every_state(Duplicates::Unique, prepare, |engine, state| {
        let rows = points(&[
            ("c", 10, None, Some(9)),
            ("b", 10, None, Some(9)),
            ("a", 10, None, Some(9)),
        ]);
        let refused = write(engine, &rows, OnConflict::Error).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "row 2 for table \"m\" is refused: its series (host=b) has a row at time 10 there already; nothing of the batch was written: leave such rows out, or write with another choice for conflicts: skip or replace",
            "{state}"
        );
        assert_eq!(
            points_of(engine),
            ["10 a 1 1", "20 a 2 2", "10 b 3 3"],
            "{state}"
        );
        let fine = points(&[("b", 20, None, Some(9)), ("b", 9, None, Some(8))]);
        let report = write(engine, &fine, OnConflict::Error).unwrap();
        assert_eq!(counts(report), (2, 0, 0), "{state}");
    });
}

#[test]
fn a_key_given_twice_in_a_batch_is_a_conflict_too() {
    let engine = store(Duplicates::Unique);
    let rows = points(&[
        ("a", 1, Some(1.0), None),
        ("b", 1, Some(2.0), None),
        ("a", 1, Some(3.0), None),
        ("a", 1, None, Some(4)),
    ]);
    let refused = write(&engine, &rows, OnConflict::Error).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "row 3 for table \"m\" is refused: its series (host=a) has a row at time 1 earlier in the batch; nothing of the batch was written: give each series and time once, or write with another choice for conflicts: skip or replace"
    );
    assert!(points_of(&engine).is_empty());
    let report = write(&engine, &rows, OnConflict::Skip).unwrap();
    assert_eq!(counts(report), (2, 2, 0));
    assert_eq!(points_of(&engine), ["1 a 1 -", "1 b 2 -"]);
    let report = write(&engine, &rows, OnConflict::Replace).unwrap();
    assert_eq!(counts(report), (2, 0, 4));
    assert_eq!(points_of(&engine), ["1 a - 4", "1 b 2 -"]);
}

#[test]
fn skip_writes_what_is_new_and_replace_takes_rows_whole() {
    let rows = points(&[
        ("a", 10, None, Some(7)),
        ("a", 15, None, Some(7)),
        ("b", 10, None, None),
    ]);
    in_every_state(Duplicates::Unique, prepare, |engine, state| {
        let report = write(engine, &rows, OnConflict::Skip).unwrap();
        assert_eq!(counts(report), (1, 2, 0), "{state}");
        let expected = ["10 a 1 1", "15 a - 7", "20 a 2 2", "10 b 3 3"];
        assert_eq!(points_of(engine), expected, "{state}");
        let report = write(engine, &rows, OnConflict::Skip).unwrap();
        assert_eq!((counts(report), report.lsn), ((0, 3, 0), 0), "{state}");
        let report = write(engine, &rows, OnConflict::Replace).unwrap();
        assert_eq!(counts(report), (3, 0, 3), "{state}");
        let expected = ["10 a - 7", "15 a - 7", "20 a 2 2", "10 b - -"];
        assert_eq!(points_of(engine), expected, "{state}");
        engine.settle().unwrap();
        assert_eq!(points_of(engine), expected, "{state}, settled");
    });
}

#[test]
fn what_was_deleted_is_in_nobodys_way() {
    in_every_state(
        Duplicates::Unique,
        |engine| {
            prepare(engine);
            let table = typed_store::table(&engine.snapshot());
            let request = DeleteRequest {
                table,
                time: 10..=10,
                tags: Vec::new(),
            };
            engine.delete(&request).unwrap().unwrap();
        },
        |engine, state| {
            let rows = points(&[("a", 10, Some(9.0), None), ("b", 10, None, Some(9))]);
            let report = write(engine, &rows, OnConflict::Error).unwrap();
            assert_eq!(counts(report), (2, 0, 0), "{state}");
            let again = write(engine, &rows, OnConflict::Error);
            assert!(
                matches!(again, Err(Error::RowConflict { row: 1, .. })),
                "{state}"
            );
            assert_eq!(
                points_of(engine),
                ["10 a 9 -", "20 a 2 2", "10 b - 9"],
                "{state}"
            );
        },
    );
}

#[test]
fn lines_take_the_place_of_rows_whole() {
    in_every_state(
        Duplicates::Unique,
        |engine| {
            prepare(engine);
            let mut session = Session::new(Arc::clone(engine), "d").unwrap();
            let body = b"m,host=a count=5i 10\nm,host=a busy=6 10";
            session.write_lines(body, Precision::Nanosecond).unwrap();
        },
        |engine, state| {
            assert_eq!(
                points_of(engine),
                ["10 a 6 -", "20 a 2 2", "10 b 3 3"],
                "{state}"
            );
        },
    );
}

/// Writers of one key at once, half of them through what another kind of write sees: a flush in between as well.
#[test]
fn of_writers_of_one_key_exactly_one_wins() {
    const WRITERS: usize = 4;
    const ROUNDS: i64 = 60;
    let engine = store(Duplicates::Unique);
    let barrier = Barrier::new(WRITERS + 1);
    let wins: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (engine, barrier) = (&engine, &barrier);
                scope.spawn(move || {
                    let mut wins = Vec::new();
                    for round in 0..ROUNDS {
                        let value = i64::try_from(writer).unwrap();
                        let rows = points(&[("a", round, None, Some(value))]);
                        barrier.wait();
                        let written = if writer % 2 == 0 {
                            write(engine, &rows, OnConflict::Skip).unwrap().written
                        } else {
                            match write(engine, &rows, OnConflict::Error) {
                                Ok(report) => report.written,
                                Err(Error::RowConflict { .. }) => 0,
                                Err(error) => panic!("{error}"),
                            }
                        };
                        wins.push(written);
                    }
                    wins
                })
            })
            .collect();
        for round in 0..ROUNDS {
            barrier.wait();
            if round % 3 == 0 {
                engine.flush().unwrap();
            }
        }
        writers.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let rows = points_of(&engine);
    assert_eq!(rows.len(), usize::try_from(ROUNDS).unwrap());
    for (round, row) in rows.iter().enumerate() {
        let winners: Vec<usize> = (0..WRITERS)
            .filter(|&writer| wins.get(writer).unwrap().get(round) == Some(&1))
            .collect();
        assert_eq!(winners.len(), 1, "round {round}: {winners:?}");
        let winner = winners.first().unwrap();
        assert_eq!(*row, format!("{round} a - {winner}"));
    }
}

/// Increments that read, skip or replace never lose one: each writer adds a row until it is his.
#[test]
fn writers_who_try_the_next_key_until_it_is_theirs_leave_no_gap() {
    const WRITERS: i64 = 3;
    const ROWS: i64 = 40;
    let engine = store(Duplicates::Unique);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let engine = &engine;
            scope.spawn(move || {
                let mut time = 0;
                for _ in 0..ROWS {
                    while write(
                        engine,
                        &points(&[("a", time, None, Some(writer))]),
                        OnConflict::Skip,
                    )
                    .unwrap()
                    .written
                        == 0
                    {
                        time += 1;
                    }
                }
            });
        }
    });
    let rows = points_of(&engine);
    let times: Vec<String> = (0..WRITERS * ROWS).map(|time| time.to_string()).collect();
    let found: Vec<&str> = rows
        .iter()
        .filter_map(|row| row.split(' ').next())
        .collect();
    assert_eq!(found, times);
}

/// A store of twenty segments, each with an hour of every series at each second; and what it read so far.
fn hours(hosts: usize) -> (Arc<Engine>, CountingDisk) {
    let disk = CountingDisk::default();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let path = std::path::Path::new("/d");
    let engine = Engine::open(shared, Arc::new(SystemClock), path, Options::default());
    let engine = Arc::new(engine.unwrap());
    typed_store::make_table(&engine, Duplicates::Unique);
    let names: Vec<String> = (0..hosts).map(|host| format!("h{host}")).collect();
    for hour in 0..20 {
        let all = (0..3600).flat_map(|second| {
            let time = (hour * 3600 + second) * 1_000_000_000;
            names
                .iter()
                .map(move |name| (name.as_str(), time, Some(1.0), None))
        });
        let rows: Vec<_> = all.collect();
        let report = write(&engine, &points(&rows), OnConflict::Error).unwrap();
        assert_eq!(report.written, rows.len() as u64);
        engine.flush().unwrap();
    }
    (engine, disk)
}

#[test]
fn rows_newer_than_all_of_their_series_cost_no_read() {
    for hosts in [1, 3] {
        let (engine, disk) = hours(hosts);
        let read = || disk.counts.bytes_read.load(Ordering::SeqCst);
        let choices = [OnConflict::Error, OnConflict::Skip, OnConflict::Replace];
        let before = read();
        for (time, on_conflict) in (20 * 3600 * 1_000_000_000..).zip(choices) {
            let rows = points(&[("h0", time, Some(1.0), None), ("new", 5, None, None)]);
            let report = write(&engine, &rows, on_conflict).unwrap();
            assert!(report.written >= 1);
        }
        assert_eq!(read(), before, "{hosts} hosts");
    }
}

#[test]
fn a_row_that_may_be_there_costs_the_pages_of_one_block() {
    let (engine, disk) = hours(1);
    let read = || disk.counts.bytes_read.load(Ordering::SeqCst);
    let between = (7 * 3600 + 1800) * 1_000_000_000 + 1;
    let report = write(
        &engine,
        &points(&[("h0", between, None, None)]),
        OnConflict::Error,
    );
    assert_eq!(report.unwrap().written, 1);
    let warm = read();
    let report = write(
        &engine,
        &points(&[("h0", between + 1, None, None)]),
        OnConflict::Skip,
    );
    assert_eq!(report.unwrap().written, 1);
    // One page of 1024 times at a fixed distance, which takes a few dozen bytes.
    assert!(read() - warm < 200, "{} bytes", read() - warm);
    let there = points(&[("h0", between - 1, None, None)]);
    let refused = write(&engine, &there, OnConflict::Error);
    assert!(matches!(refused, Err(Error::RowConflict { row: 1, .. })));
}
