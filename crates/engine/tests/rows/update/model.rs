//! Promise: whatever order typed writes, updates, deletes of rows, flushes, compactions and restarts come in, the table
//! is what a map would be.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::typed_store::{make_table, open, points, rows_of, session, table, write};
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::ingest::OnConflict;
use nilometer_engine::{Duplicates, Engine, Error, RowKey, ScanRequest, SeriesId};
use proptest::prelude::*;

const HOSTS: [&str; 3] = ["a", "b", "c"];

/// Host, time, `busy` and `count`; the values are small, so that they say which write they are from.
type Row = (usize, i64, Option<u8>, Option<u8>);
type Values = (Option<u8>, Option<u8>);
type Model = BTreeMap<(usize, i64), Vec<Values>>;

#[derive(Debug, Clone)]
enum Step {
    Write(Vec<Row>, OnConflict),
    /// Every row whose number in the scan gives 1 in this pattern goes, and these come.
    Update(u64, Vec<Row>),
    /// As an update without new rows.
    Delete(u64),
    /// The same on a snapshot from before this write, and maybe a flush: refused if the write touches one of its rows.
    Late(u64, Vec<Row>, bool),
    Flush,
    Settle,
    Reopen,
}

fn row() -> impl Strategy<Value = Row> {
    let value = || proptest::option::weighted(0.7, any::<u8>());
    (0..HOSTS.len(), 0..6i64, value(), value())
}

fn step() -> impl Strategy<Value = Step> {
    let rows = || proptest::collection::vec(row(), 0..6);
    let on_conflict = prop_oneof![
        Just(OnConflict::Error),
        Just(OnConflict::Skip),
        Just(OnConflict::Replace)
    ];
    prop_oneof![
        6 => (rows(), on_conflict).prop_map(|(rows, on)| Step::Write(rows, on)),
        3 => (any::<u64>(), rows()).prop_map(|(which, rows)| Step::Update(which, rows)),
        2 => any::<u64>().prop_map(Step::Delete),
        1 => (any::<u64>(), rows(), any::<bool>()).prop_map(|(which, rows, flush)| Step::Late(which, rows, flush)),
        2 => Just(Step::Flush),
        1 => Just(Step::Settle),
        1 => Just(Step::Reopen),
    ]
}

fn batch_of(rows: &[Row]) -> arrow_array::RecordBatch {
    let cells: Vec<_> = rows
        .iter()
        .map(|(host, time, busy, count)| {
            (
                HOSTS[*host],
                *time,
                busy.map(f64::from),
                count.map(i64::from),
            )
        })
        .collect();
    points(&cells)
}

/// Writes a row as a table of this kind does, `Replace` among unique ones.
fn put(model: &mut Model, duplicates: Duplicates, row: &Row) {
    let (host, time, busy, count) = *row;
    let slot = model.entry((host, time)).or_default();
    match (duplicates, slot.last_mut()) {
        (Duplicates::Keep, _) | (_, None) => slot.push((busy, count)),
        (Duplicates::Last, Some(old)) => *old = (busy.or(old.0), count.or(old.1)),
        (Duplicates::Unique, Some(old)) => *old = (busy, count),
    }
}

/// What a write says that it did: written, skipped and replaced rows, or the row that is in the way.
fn write_model(
    model: &mut Model,
    duplicates: Duplicates,
    rows: &[Row],
    on_conflict: OnConflict,
) -> Result<(u64, u64, u64), usize> {
    let is_there = |model: &Model, row: &Row| model.contains_key(&(row.0, row.1));
    let before = model.clone();
    let (mut written, mut skipped, mut replaced) = (0, 0, 0);
    for (at, row) in rows.iter().enumerate() {
        if duplicates == Duplicates::Unique && is_there(model, row) {
            match on_conflict {
                OnConflict::Error => {
                    *model = before;
                    return Err(at + 1);
                }
                OnConflict::Skip => {
                    skipped += 1;
                    continue;
                }
                OnConflict::Replace => replaced += 1,
            }
        }
        put(model, duplicates, row);
        written += 1;
    }
    if duplicates == Duplicates::Unique && on_conflict == OnConflict::Replace {
        // Of the rows of the batch only the last of each key is there now.
        let keys: std::collections::BTreeSet<_> = rows.iter().map(|row| (row.0, row.1)).collect();
        written = keys.len() as u64;
    }
    Ok((written, skipped, replaced))
}

/// The rows of a snapshot, as keys and as positions in the model.
fn read(engine: &Arc<Engine>) -> Vec<(RowKey, (usize, i64), usize)> {
    let projection = vec![ScanRequest::SERIES, 0, ScanRequest::NTH, 1];
    let rows = rows_of(&engine.snapshot(), projection);
    let parse = |row: &String| {
        let cells: Vec<&str> = row.split(' ').collect();
        let series = SeriesId(cells[0].parse().unwrap());
        let time: i64 = cells[1].parse().unwrap();
        let nth: u32 = cells[2].parse().unwrap();
        let host = HOSTS.iter().position(|host| *host == cells[3]).unwrap();
        (RowKey { series, time, nth }, (host, time), nth as usize)
    };
    rows.iter().map(parse).collect()
}

/// The rows of the table that a pattern picks: their keys, and the model without them.
fn pick(engine: &Arc<Engine>, model: &Model, which: u64) -> (Vec<RowKey>, Model) {
    let mut left = model.clone();
    let rows = read(engine).into_iter().enumerate();
    let picked: Vec<_> = rows
        .filter(|(at, _)| which >> (at % 64) & 1 == 1)
        .map(|(_, row)| row)
        .collect();
    for (_, key, nth) in picked.iter().rev() {
        left.get_mut(key).unwrap().remove(*nth);
    }
    left.retain(|_, rows| !rows.is_empty());
    (picked.into_iter().map(|(key, _, _)| key).collect(), left)
}

fn check(engine: &Arc<Engine>, model: &Model) {
    let mut found: Vec<String> = rows_of(&engine.snapshot(), vec![1, 0, 3, 4]);
    // Rows of one key keep their order.
    found.sort_by_key(|row| {
        let mut cells = row.split(' ').map(str::to_owned);
        (cells.next(), cells.next())
    });
    let shown = |value: Option<u8>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let expected = model.iter().flat_map(|((host, time), rows)| {
        rows.iter().map(move |(busy, count)| {
            format!("{} {time} {} {}", HOSTS[*host], shown(*busy), shown(*count))
        })
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
}

/// Puts the new rows of an update: none may run into another in a unique table.
fn put_new(model: &mut Model, duplicates: Duplicates, rows: &[Row]) -> Result<(), usize> {
    let on_conflict = OnConflict::Error;
    write_model(model, duplicates, rows, on_conflict).map(drop)
}

fn run(duplicates: Duplicates, steps: &[Step]) {
    let disk = MemoryDisk::new();
    let mut engine = open(&disk);
    make_table(&engine, duplicates);
    let mut model = Model::new();
    for step in steps {
        match step {
            Step::Write(rows, on_conflict) => {
                let on_conflict = match duplicates {
                    Duplicates::Unique => *on_conflict,
                    _ => OnConflict::Replace,
                };
                let expected = write_model(&mut model, duplicates, rows, on_conflict);
                match (write(&engine, &batch_of(rows), on_conflict), expected) {
                    (Ok(report), Ok(expected)) => {
                        let counts = (report.written, report.skipped, report.replaced);
                        assert_eq!(counts, expected);
                    }
                    (Err(Error::RowConflict { row, .. }), Err(expected)) => {
                        assert_eq!(row, expected);
                    }
                    (got, expected) => panic!("{got:?} instead of {expected:?}"),
                }
            }
            Step::Update(which, rows) => {
                let (gone, mut left) = pick(&engine, &model, *which);
                let snapshot = engine.snapshot();
                let outcome = session(&engine).update_rows(
                    &snapshot,
                    &table(&snapshot),
                    &gone,
                    &batch_of(rows),
                );
                match (outcome, put_new(&mut left, duplicates, rows)) {
                    (Ok(report), Ok(())) => {
                        assert_eq!(report.written, rows.len() as u64);
                        assert_eq!(report.replaced, gone.len() as u64);
                        model = left;
                    }
                    (Err(Error::RowConflict { .. }), Err(_)) => {}
                    (got, expected) => panic!("{got:?} instead of {expected:?}"),
                }
            }
            Step::Delete(which) => {
                let (gone, left) = pick(&engine, &model, *which);
                let snapshot = engine.snapshot();
                let lsn = engine
                    .delete_rows(&snapshot, &table(&snapshot), &gone)
                    .unwrap();
                assert_eq!(lsn.is_some(), !gone.is_empty());
                model = left;
            }
            Step::Late(which, rows, flush) => {
                let (gone, _) = pick(&engine, &model, *which);
                let keys: Vec<_> = read(&engine)
                    .into_iter()
                    .filter(|it| gone.contains(&it.0))
                    .collect();
                let snapshot = engine.snapshot();
                write(&engine, &batch_of(rows), OnConflict::Replace).unwrap();
                write_model(&mut model, duplicates, rows, OnConflict::Replace).unwrap();
                if *flush {
                    engine.flush().unwrap();
                }
                let touched = keys
                    .iter()
                    .any(|(_, key, _)| rows.iter().any(|row| (row.0, row.1) == *key));
                let deleted = engine.delete_rows(&snapshot, &table(&snapshot), &gone);
                if touched {
                    assert!(matches!(deleted, Err(Error::ChangedMeanwhile { .. })));
                } else {
                    assert_eq!(deleted.unwrap().is_some(), !gone.is_empty());
                    for (_, key, nth) in keys.iter().rev() {
                        model.get_mut(key).unwrap().remove(*nth);
                    }
                    model.retain(|_, rows| !rows.is_empty());
                }
            }
            Step::Flush => engine.flush().unwrap(),
            Step::Settle => engine.settle().unwrap(),
            Step::Reopen => {
                drop(engine);
                engine = open(&disk);
            }
        }
        check(&engine, &model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_table_that_merges_is_a_map(steps in proptest::collection::vec(step(), 1..25)) {
        run(Duplicates::Last, &steps);
    }

    #[test]
    fn a_table_that_keeps_is_a_map_of_lists(steps in proptest::collection::vec(step(), 1..25)) {
        run(Duplicates::Keep, &steps);
    }

    #[test]
    fn a_unique_table_is_a_map_of_whole_rows(steps in proptest::collection::vec(step(), 1..25)) {
        run(Duplicates::Unique, &steps);
    }
}
