//! A unique index on a relation that is there: whatever ends in between, it is there as a whole or not at all.

use std::path::Path as FilePath;
use std::sync::Arc;

use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk};
use nilometer_engine::{
    Declarations, Engine, Error as EngineError, NewRelation, Options, PhysicalType, RelationChange,
    RelationColumn, SystemClock, Value,
};

use super::super::*;
use super::create_database;
use crate::{Error, Principal, Scope};

pub(super) fn open(disk: &FaultyDisk) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let clock = Arc::new(SystemClock);
    let engine = Engine::open(disk, clock, FilePath::new("/data"), Options::default());
    Arc::new(engine.unwrap())
}

pub(super) fn change(engine: &Arc<Engine>, change: Change) -> Result<(), Error> {
    run(
        engine,
        &Principal::anyone(),
        &Scope::of_database("d"),
        change,
    )
}

pub(super) fn index(name: &str, is_unique: bool, column: &str) -> Change {
    Change::CreateIndex {
        path: "r".into(),
        new: NewIndex {
            name: Some(name.to_owned()),
            if_not_exists: false,
            is_unique,
            columns: vec![Some(column.to_owned())],
            definition: format!("USING btree ({column})"),
        },
    }
}

/// Three rows, and a plain index on each column.
pub(super) fn filled(disk: &FaultyDisk) -> Arc<Engine> {
    let engine = open(disk);
    change(&engine, create_database("d")).unwrap();
    let column = |name: &str| RelationColumn {
        name: name.to_owned(),
        kind: PhysicalType::I64,
        nullable: true,
    };
    let mut columns = vec![column("id"), column("a"), column("b")];
    columns[0].nullable = false;
    let new = NewRelation {
        columns,
        primary_key: vec!["id".to_owned()],
        unique: Vec::new(),
    };
    let made = Change::CreateRelation {
        path: "r".into(),
        if_not_exists: false,
        new,
        declared: Declarations::default(),
    };
    change(&engine, made).unwrap();
    insert(&engine, [1, 10, 7]).unwrap();
    insert(&engine, [2, 20, 7]).unwrap();
    insert(&engine, [3, 30, 8]).unwrap();
    change(&engine, index("plain_a", false, "a")).unwrap();
    change(&engine, index("plain_b", false, "b")).unwrap();
    engine
}

pub(super) fn insert(engine: &Arc<Engine>, row: [i64; 3]) -> Result<(), EngineError> {
    let relation = engine.snapshot().relation("d", "public", "r").unwrap();
    let rows = vec![row.map(Value::I64).to_vec()];
    let insert = RelationChange::Insert(Arc::clone(relation.schema()), rows);
    engine.write_relations(&[insert]).map(drop)
}

/// Its rows, the names of its plain indexes, and whether its column `a` is a key.
fn found(engine: &Arc<Engine>) -> (Vec<[i64; 3]>, Vec<String>, bool) {
    let snapshot = engine.snapshot();
    let relation = snapshot.relation("d", "public", "r").unwrap();
    let number = |value: &Value| match value {
        Value::I64(number) => *number,
        other => panic!("{other:?}"),
    };
    let rows = relation.rows();
    let mut rows: Vec<[i64; 3]> = rows
        .iter()
        .map(|row| [number(&row[0]), number(&row[1]), number(&row[2])])
        .collect();
    rows.sort_unstable();
    let owner = Owner::Relation(relation.schema().id);
    let plain = indexes_of(&snapshot, ("d", "public"), owner);
    let names = plain.into_iter().map(|it| it.name).collect();
    (rows, names, relation.schema().unique == [vec![1]])
}

fn expected(is_key: bool) -> (Vec<[i64; 3]>, Vec<String>, bool) {
    let rows = vec![[1, 10, 7], [2, 20, 7], [3, 30, 8]];
    let names = ["plain_a", "plain_b"].map(str::to_owned);
    (rows, names.to_vec(), is_key)
}

#[test]
fn a_relation_with_rows_takes_a_key_that_its_rows_keep() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = filled(&disk);
    // Rows of before the last flush, and rows of after it.
    engine.flush().unwrap();
    let refused = change(&engine, index("one_b", true, "b")).unwrap_err();
    assert!(
        matches!(&refused, Error::Engine(EngineError::RelationKey { constraint, values, .. })
            if constraint == "one_b" && values == "7"),
        "{refused}"
    );
    assert_eq!(found(&engine), expected(false));
    change(&engine, index("one_a", true, "a")).unwrap();
    let check = |engine: &Arc<Engine>| {
        assert_eq!(found(engine), expected(true));
        let refused = insert(engine, [4, 20, 9]).unwrap_err();
        assert!(
            matches!(&refused, EngineError::RelationKey { constraint, .. } if constraint == "one_a"),
            "{refused}"
        );
    };
    check(&engine);
    drop(engine);
    let engine = open(&disk.after_kill(CrashPlan::default()));
    check(&engine);
    engine.flush().unwrap();
    check(&engine);
    // The indexes go with the relation that has the key now.
    let drop_table = Change::DropTable {
        path: "r".into(),
        if_exists: false,
    };
    change(&engine, drop_table).unwrap();
    assert!(indexes(&engine.snapshot(), ("d", "public")).is_empty());
}

/// The key was one record and the plain indexes, which are kept by the relation's id, another: a kill between them left indexes
/// that no relation had, and a relation that had none.
#[test]
fn a_machine_that_stops_anywhere_leaves_key_and_indexes_together() {
    let calls = {
        let disk = FaultyDisk::new(1, CrashPlan::default());
        let engine = filled(&disk);
        disk.set_plan(CrashPlan::default());
        change(&engine, index("one_a", true, "a")).unwrap();
        disk.calls()
    };
    assert!(calls > 1, "{calls}");
    for at in 1..=calls {
        for seed in 1..=4 {
            let disk = FaultyDisk::new(1, CrashPlan::default());
            let engine = filled(&disk);
            disk.set_plan(CrashPlan {
                crash_at: Some(at),
                ..CrashPlan::default()
            });
            let made = change(&engine, index("one_a", true, "a"));
            drop(engine);
            let after = disk.after_power_cut(seed, CrashPlan::default());
            let left = found(&open(&after));
            let is_whole = left == expected(true) || (made.is_err() && left == expected(false));
            assert!(is_whole, "stopped at call {at}, seed {seed}: {left:?}");
        }
    }
}
