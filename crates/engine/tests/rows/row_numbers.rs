//! Promise: a relation without a key keeps every row that it is given, equal ones and nulls too; each has a number that no other row of
//! the relation ever has, through transactions, flushes and kills; and nobody is shown the number.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{CrashPlan, FaultyDisk, MemoryDisk};
use nilometer_engine::{
    Beside, ColumnKind, Declarations, DeclaredTable, DeclaredTime, Duplicates, Engine, Error,
    NewColumn, NewRelation, ROW_NUMBER, RelationChange, RelationColumn, RelationSchema, Snapshot,
    Swapped, TableOfRelation, TableSettings, TimeKind, Value,
};

use crate::relations::{open, open_on};
use crate::support::everything;

fn definition(unique: &[&str]) -> NewRelation {
    let column = |name: &str, kind| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable: true,
    };
    NewRelation {
        columns: vec![
            column("word", PhysicalType::Text),
            column("n", PhysicalType::I64),
        ],
        primary_key: Vec::new(),
        unique: unique.iter().map(|name| vec![(*name).to_owned()]).collect(),
    }
}

fn made(disk: &MemoryDisk, unique: &[&str]) -> Arc<Engine> {
    let engine = open(disk);
    let new = definition(unique);
    assert!(engine.create_relation("d", "public", "r", &new).unwrap());
    engine
}

fn schema(snapshot: &Snapshot) -> Arc<RelationSchema> {
    let reader = snapshot.relation("d", "public", "r").unwrap();
    Arc::clone(reader.schema())
}

fn row(word: Option<&str>, n: Option<i64>) -> Vec<Value> {
    vec![word.into(), n.into(), Value::Null]
}

fn insert(engine: &Arc<Engine>, rows: Vec<Vec<Value>>) -> Result<(), Error> {
    let change = RelationChange::Insert(schema(&engine.snapshot()), rows);
    engine.write_relations(&[change]).map(drop)
}

/// The rows with their numbers, in the order of these.
fn numbered(snapshot: &Snapshot) -> Vec<(i64, String)> {
    let reader = snapshot.relation("d", "public", "r").unwrap();
    let rows = reader.rows().into_iter().map(|row| {
        let Value::I64(number) = row[2] else {
            panic!("a row without a number: {row:?}");
        };
        (number, format!("{} {}", row[0], row[1]).replace('"', ""))
    });
    let mut rows: Vec<(i64, String)> = rows.collect();
    rows.sort();
    rows
}

fn words(snapshot: &Snapshot) -> Vec<String> {
    numbered(snapshot).into_iter().map(|(_, row)| row).collect()
}

#[test]
fn equal_rows_and_nulls_are_kept_and_numbers_are_shown_to_nobody() {
    let engine = made(&MemoryDisk::default(), &[]);
    let twice = || row(Some("a"), Some(1));
    insert(&engine, vec![twice(), row(None, None), twice()]).unwrap();
    insert(&engine, vec![twice()]).unwrap();
    let rows = numbered(&engine.snapshot());
    let numbers: Vec<i64> = rows.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let schema = schema(&engine.snapshot());
    let shown = schema.shown_columns().schema;
    let names: Vec<&str> = shown.fields().iter().map(|it| it.name().as_str()).collect();
    assert_eq!(names, ["word", "n"]);
    assert_eq!(schema.keys().count(), 0);
    assert_eq!(schema.row_number(), Some(2));
    let all = schema.columns_with_number().schema;
    assert_eq!(all.field(2).name(), ROW_NUMBER);
    // One of two equal rows goes by its number, and the other stays.
    let change = RelationChange::Delete(Arc::clone(&schema), vec![vec![1_i64.into()]]);
    engine.write_relations(&[change]).unwrap();
    let left = numbered(&engine.snapshot());
    assert_eq!(left.iter().map(|it| it.0).collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn a_number_is_never_given_again_whatever_becomes_of_its_row() {
    for flushes in [false, true] {
        let disk = MemoryDisk::default();
        let mut engine = made(&disk, &[]);
        let mut seen = BTreeSet::new();
        for round in 0..4 {
            insert(&engine, vec![row(None, Some(round)), row(None, None)]).unwrap();
            // A transaction that comes to nothing, and one that writes.
            let own = engine.begin().unwrap();
            let change =
                || RelationChange::Insert(schema(&engine.snapshot()), vec![row(None, None)]);
            own.write_relations(None, &[change()]).unwrap();
            drop(own);
            let own = engine.begin().unwrap();
            own.write_relations(None, &[change(), change()]).unwrap();
            own.commit().unwrap();
            drop(own);
            let rows = numbered(&engine.snapshot());
            assert_eq!(rows.len(), 4);
            for (number, _) in &rows {
                assert!(seen.insert(*number), "{number} twice, {flushes}");
            }
            // All go, the one with the highest number too.
            let keys = rows.iter().map(|(number, _)| vec![(*number).into()]);
            let gone = RelationChange::Delete(schema(&engine.snapshot()), keys.collect());
            engine.write_relations(&[gone]).unwrap();
            if flushes {
                engine.flush().unwrap();
            }
            drop(engine);
            engine = open(&disk);
        }
    }
}

#[test]
fn a_transaction_changes_its_own_rows_and_those_of_others_by_their_numbers() {
    let engine = made(&MemoryDisk::default(), &[]);
    let equal = || row(Some("a"), Some(1));
    insert(&engine, vec![equal(), equal()]).unwrap();
    let (one, other) = (engine.begin().unwrap(), engine.begin().unwrap());
    let insert =
        |word| RelationChange::Insert(schema(&engine.snapshot()), vec![row(Some(word), None)]);
    // Rows that two transactions add are in nobody's way.
    one.write_relations(None, &[insert("one")]).unwrap();
    other.write_relations(None, &[insert("other")]).unwrap();
    let own = numbered(&one.snapshot());
    let place = one.savepoint().unwrap();
    let replaced = own
        .iter()
        .map(|(number, _)| vec!["b".into(), 2_i64.into(), (*number).into()]);
    let replace = RelationChange::Replace(schema(&engine.snapshot()), replaced.collect());
    one.write_relations(Some(&one.snapshot()), std::slice::from_ref(&replace))
        .unwrap();
    assert_eq!(words(&one.snapshot()), ["b 2"; 3]);
    one.rollback_to(&place).unwrap();
    assert_eq!(words(&one.snapshot()), ["a 1", "a 1", "one null"]);
    one.write_relations(Some(&one.snapshot()), &[replace])
        .unwrap();
    one.commit().unwrap();
    other.commit().unwrap();
    assert_eq!(words(&engine.snapshot()).len(), 4);
    assert_eq!(
        words(&engine.snapshot())
            .iter()
            .filter(|it| *it == "b 2")
            .count(),
        3
    );
}

#[test]
fn other_keys_hold_and_a_new_one_keeps_the_numbers() {
    let disk = MemoryDisk::default();
    let engine = made(&disk, &["n"]);
    insert(
        &engine,
        vec![
            row(Some("a"), Some(1)),
            row(Some("b"), None),
            row(None, None),
        ],
    )
    .unwrap();
    let taken = insert(&engine, vec![row(None, Some(1))]).unwrap_err();
    assert!(matches!(taken, Error::RelationKey { .. }), "{taken}");
    let gone = RelationChange::Delete(schema(&engine.snapshot()), vec![vec![3_i64.into()]]);
    engine.write_relations(&[gone]).unwrap();
    let place = ("d", "public", "r");
    let columns = ["word".to_owned()];
    engine
        .add_unique_key(place, ("words", &columns), |_, _| Vec::new())
        .unwrap();
    insert(&engine, vec![row(Some("c"), None)]).unwrap();
    let taken = insert(&engine, vec![row(Some("c"), None)]).unwrap_err();
    assert!(matches!(taken, Error::RelationKey { .. }), "{taken}");
    for _ in 0..2 {
        let rows = numbered(&engine.snapshot());
        let numbers: BTreeSet<i64> = rows.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers.len(), 3);
        assert!(numbers.contains(&1) && numbers.contains(&2) && !numbers.contains(&3));
        engine.flush().unwrap();
    }
}

#[test]
fn a_column_of_that_name_is_refused_where_rows_are_numbered() {
    let engine = open(&MemoryDisk::default());
    let mut new = definition(&[]);
    new.columns[1].name = ROW_NUMBER.to_owned();
    let refused = engine
        .create_relation("d", "public", "r", &new)
        .unwrap_err();
    assert!(refused.to_string().contains(ROW_NUMBER), "{refused}");
}

/// The table that takes the place of `r`, kept by `n`.
fn as_table(engine: &Arc<Engine>) -> Result<(), Error> {
    let declared = Declarations {
        table: DeclaredTable {
            time: Some(DeclaredTime {
                name: "n".to_owned(),
                kind: TimeKind::Integer { unit_ns: 1 },
                ..DeclaredTime::default()
            }),
            ..DeclaredTable::default()
        },
        columns: Vec::new(),
    };
    let columns = [NewColumn {
        name: "word",
        kind: ColumnKind::Field(PhysicalType::Text),
    }];
    let table = TableOfRelation {
        columns: &columns,
        settings: TableSettings {
            duplicates: Duplicates::Keep,
            ..TableSettings::default()
        },
        declared: &declared,
    };
    let made = engine.make_table_of_relation(("d", "public", "r"), &table);
    made.map(drop)
}

/// Rows over time, under the name that the store has for it.
fn over_time(rows: &[(&str, i64)]) -> Vec<BTreeMap<String, String>> {
    let each = rows.iter().map(|(word, n)| {
        let cells = [("time", n.to_string()), ("word", (*word).to_owned())];
        cells.map(|(name, value)| (name.to_owned(), value)).into()
    });
    each.collect()
}

#[test]
fn it_becomes_a_table_over_time_with_its_rows_or_stays_as_it_is() {
    let disk = MemoryDisk::default();
    let engine = made(&disk, &[]);
    let twice = || row(Some("a"), Some(5));
    insert(&engine, vec![twice(), row(Some("b"), Some(3)), twice()]).unwrap();
    insert(&engine, vec![row(Some("c"), None)]).unwrap();
    // A row without a time is in the way, and nothing has changed.
    let refused = as_table(&engine).unwrap_err();
    assert!(refused.to_string().contains("needs a time"), "{refused}");
    assert_eq!(words(&engine.snapshot()).len(), 4);
    assert_eq!(engine.snapshot().tables("d", "public").unwrap(), [""; 0]);
    let gone = RelationChange::Delete(schema(&engine.snapshot()), vec![vec![4_i64.into()]]);
    engine.write_relations(&[gone]).unwrap();
    let old = schema(&engine.snapshot());
    let before = engine.snapshot();
    let own = engine.begin().unwrap();
    own.write_relations(
        None,
        &[RelationChange::Insert(Arc::clone(&old), vec![twice()])],
    )
    .unwrap();
    as_table(&engine).unwrap();
    // Who wrote to the relation and has not come to an end does not write to it any more.
    assert!(own.commit().is_err());
    let late = engine.write_relations(&[RelationChange::Insert(old, vec![twice()])]);
    assert!(
        matches!(late, Err(Error::RelationDropped { .. })),
        "{late:?}"
    );
    assert_eq!(words(&before).len(), 3);
    let expected = over_time(&[("b", 3), ("a", 5), ("a", 5)]);
    drop((own, before));
    let mut engine = engine;
    for state in ["memory", "log", "files", "settled"] {
        let snapshot = engine.snapshot();
        assert!(snapshot.relation("d", "public", "r").is_none(), "{state}");
        let all = everything(&engine).unwrap();
        assert_eq!(all.get("d.public.r"), Some(&expected), "{state}");
        assert_eq!(all.len(), 1, "{state}: {all:?}");
        if state == "log" {
            engine.flush().unwrap();
        }
        if state == "files" {
            engine.settle().unwrap();
        }
        drop((snapshot, engine));
        engine = open(&disk);
    }
}

/// Power goes at every call of the conversion, and of what a flush makes of it.
#[test]
fn a_crash_leaves_the_relation_or_the_table_with_all_rows() {
    let life = |disk: &FaultyDisk| -> Result<(), Error> {
        let engine = open_on(Arc::new(disk.clone()))?;
        let new = definition(&[]);
        engine.create_relation("d", "public", "r", &new)?;
        insert(
            &engine,
            vec![row(Some("a"), Some(5)), row(Some("b"), Some(3))],
        )?;
        as_table(&engine)?;
        engine.flush()
    };
    let whole = FaultyDisk::new(3, CrashPlan::default());
    life(&whole).unwrap();
    let mut seen = BTreeSet::new();
    for crash_at in 1..=whole.calls() {
        let plan = CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        };
        let disk = FaultyDisk::new(crash_at, plan);
        let done = life(&disk).is_ok();
        let disk = disk.after_power_cut(crash_at, CrashPlan::default());
        let engine = open_on(Arc::new(disk)).unwrap();
        let snapshot = engine.snapshot();
        let is_table = snapshot.table("d", "public", "r").is_some();
        let is_relation = snapshot.relation("d", "public", "r").is_some();
        assert!(
            !(is_table && is_relation) && (is_table || !done),
            "call {crash_at}"
        );
        if is_table {
            let all = everything(&engine).unwrap();
            let rows = all.get("d.public.r");
            assert_eq!(
                rows,
                Some(&over_time(&[("b", 3), ("a", 5)])),
                "call {crash_at}"
            );
        }
        if is_relation {
            // The insert may not have been acknowledged.
            assert!([0, 2].contains(&words(&snapshot).len()), "call {crash_at}");
        }
        seen.insert((is_table, is_relation));
    }
    assert!(
        seen.contains(&(true, false)) && seen.contains(&(false, true)),
        "{seen:?}"
    );
}

/// The relation as ALTER TABLE makes it: without the numbers, and with a key or none.
fn with_key(known: &RelationSchema, rows: &[Arc<[Value]>], key: &[u32]) -> Swapped {
    let mut columns = known.named_columns().to_vec();
    for at in key {
        columns[*at as usize].nullable = false;
    }
    let shown = columns.len();
    Swapped {
        schema: RelationSchema {
            columns,
            primary_key: key.to_vec(),
            declared: None,
            ..known.clone()
        },
        declared: Declarations::default(),
        rows: rows.iter().map(|row| row[..shown].to_vec()).collect(),
    }
}

fn swap(engine: &Arc<Engine>, key: &[u32]) {
    let place = ("d", "public", "r");
    let make = |known: &Arc<RelationSchema>, rows: &[Arc<[Value]>]| Ok(with_key(known, rows, key));
    engine
        .swap_relation(place, None, make, |_, _| Beside::default())
        .unwrap();
}

#[test]
fn a_key_takes_the_numbers_away_and_its_end_brings_others() {
    for flushes in [false, true] {
        let disk = MemoryDisk::default();
        let mut engine = made(&disk, &[]);
        let rows = ["a", "b", "c"].into_iter().zip(1..);
        let rows = rows.map(|(word, n)| row(Some(word), Some(n)));
        insert(&engine, rows.collect()).unwrap();
        let before = schema(&engine.snapshot());
        let gone = RelationChange::Delete(Arc::clone(&before), vec![vec![1_i64.into()]]);
        engine.write_relations(&[gone]).unwrap();

        swap(&engine, &[1]);
        let keyed = schema(&engine.snapshot());
        assert_eq!((keyed.row_number(), keyed.columns.len()), (None, 2));
        let own = |word: &str, n: i64| vec![Value::from(word), Value::from(n)];
        let insert_own = |row| RelationChange::Insert(Arc::clone(&keyed), vec![row]);
        let refused = engine.write_relations(&[insert_own(own("x", 2))]);
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::RelationKey { .. }), "{refused}");
        engine.write_relations(&[insert_own(own("d", 4))]).unwrap();
        if flushes {
            engine.flush().unwrap();
        }

        swap(&engine, &[]);
        let first: Vec<(i64, String)> = [(1, "b 2"), (2, "c 3"), (3, "d 4")]
            .map(|(number, row)| (number, row.to_owned()))
            .to_vec();
        assert_eq!(numbered(&engine.snapshot()), first);
        // Whoever knows it as it was writes to what is not there.
        for old in [&before, &keyed] {
            let write = RelationChange::Delete(Arc::clone(old), vec![vec![2_i64.into()]]);
            let refused = engine.write_relations(&[write]).unwrap_err();
            assert!(
                matches!(refused, Error::RelationDropped { .. }),
                "{refused}"
            );
        }
        insert(&engine, vec![row(Some("b"), Some(2))]).unwrap();
        if flushes {
            engine.flush().unwrap();
        }
        drop(engine);
        engine = open(&disk);
        insert(&engine, vec![row(None, Some(9))]).unwrap();
        let all = numbered(&engine.snapshot());
        let numbers: BTreeSet<i64> = all.iter().map(|(number, _)| *number).collect();
        assert_eq!((all.len(), numbers.len()), (5, 5), "{all:?}");
        assert!(all.starts_with(&first), "{all:?}");
        assert_eq!(schema(&engine.snapshot()).keys().count(), 0);
    }
}
