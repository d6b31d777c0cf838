//! ALTER TABLE of a relation: whatever ends in between, all of it is done or nothing, with what others keep of the relation.

use std::sync::Arc;

use nilometer_engine::disk::{CrashPlan, FaultyDisk};
use nilometer_engine::{
    Declarations, Engine, Error as EngineError, NewRelation, PhysicalType, RelationChange,
    RelationColumn, Value,
};

use super::super::*;
use super::unique::{change, filled, insert, open};
use crate::write::references::foreign_keys;
use crate::{Error, ForeignKey, OnChange};

/// The relation of three rows and two indexes, and another that points to it.
fn pointed_to(disk: &FaultyDisk) -> Arc<Engine> {
    let engine = filled(disk);
    let column = |name: &str, nullable: bool| RelationColumn {
        name: name.to_owned(),
        kind: PhysicalType::I64,
        nullable,
    };
    let key = ForeignKey {
        columns: vec!["r_id".to_owned()],
        to: "r".to_owned(),
        to_columns: vec!["id".to_owned()],
        on_delete: OnChange::NoAction,
        on_update: OnChange::NoAction,
    };
    let mut declared = Declarations::default();
    declared.table.checks.push(nilometer_engine::Check {
        name: "points".to_owned(),
        expression: key.expression(),
    });
    let made = Change::CreateRelation {
        path: "other".into(),
        if_not_exists: false,
        new: NewRelation {
            columns: vec![column("id", false), column("r_id", true)],
            primary_key: vec!["id".to_owned()],
            unique: Vec::new(),
        },
        declared,
    };
    change(&engine, made).unwrap();
    engine
}

fn alter(changes: Vec<TableChange>) -> Change {
    Change::AlterTable {
        path: "r".into(),
        if_exists: false,
        change: TableChange::Several(changes),
        seen: None,
    }
}

/// The key has another name, a column that an index names is gone, and there is a key more.
fn several() -> Change {
    alter(vec![
        TableChange::RenameColumn {
            column: "id".to_owned(),
            to: "number".to_owned(),
        },
        TableChange::Drop {
            column: "b".to_owned(),
            if_exists: false,
        },
        TableChange::AddKey {
            name: Some("one_a".to_owned()),
            columns: vec!["a".to_owned()],
            is_primary: false,
        },
    ])
}

/// Names of columns, rows, names of indexes and of keys, and what the other relation points to.
type Found = (
    Vec<String>,
    Vec<Vec<Value>>,
    Vec<String>,
    Vec<String>,
    String,
);

fn found(engine: &Arc<Engine>) -> Found {
    let snapshot = engine.snapshot();
    let relation = snapshot.relation("d", "public", "r").unwrap();
    let schema = relation.schema();
    let columns = schema.columns.iter().map(|it| it.name.clone()).collect();
    let mut rows: Vec<Vec<Value>> = relation.rows().iter().map(|row| row.to_vec()).collect();
    rows.sort_by_key(|row| format!("{row:?}"));
    let indexes = indexes_of(&snapshot, ("d", "public"), Owner::Relation(schema.id));
    let indexes = indexes.into_iter().map(|it| it.name).collect();
    let keys = (0..=schema.unique.len()).map(|key| schema.key_name(key));
    let other = snapshot.relation("d", "public", "other").unwrap();
    let (_, key) = foreign_keys(other.schema()).pop().unwrap();
    // Without columns it points to the primary key.
    let first = schema
        .primary_key
        .first()
        .map(|at| schema.columns[*at as usize].name.clone());
    let column = key.to_columns.first().cloned().or(first).unwrap();
    let to = format!("{}.{column}", key.to);
    (columns, rows, indexes, keys.collect(), to)
}

fn expected(is_done: bool) -> Found {
    let texts = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let row = |values: &[i64]| values.iter().map(|it| Value::I64(*it)).collect::<Vec<_>>();
    if is_done {
        let rows = vec![row(&[1, 10]), row(&[2, 20]), row(&[3, 30])];
        let keys = texts(&["r_pkey", "one_a"]);
        let (columns, indexes) = (texts(&["number", "a"]), texts(&["plain_a"]));
        return (columns, rows, indexes, keys, "r.number".to_owned());
    }
    let rows = vec![row(&[1, 10, 7]), row(&[2, 20, 7]), row(&[3, 30, 8])];
    let (columns, indexes) = (texts(&["id", "a", "b"]), texts(&["plain_a", "plain_b"]));
    (
        columns,
        rows,
        indexes,
        texts(&["r_pkey"]),
        "r.id".to_owned(),
    )
}

#[test]
fn what_is_refused_changes_nothing() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = pointed_to(&disk);
    let key = |column: &str| TableChange::AddKey {
        name: None,
        columns: vec![column.to_owned()],
        is_primary: false,
    };
    let rename = TableChange::RenameColumn {
        column: "a".to_owned(),
        to: "c".to_owned(),
    };
    // The first would do; the second does not.
    let refused = change(&engine, alter(vec![rename, key("b")])).unwrap_err();
    assert!(
        matches!(&refused, Error::Engine(EngineError::RelationKey { constraint, .. }) if constraint == "r_b_key"),
        "{refused}"
    );
    let drop_key = TableChange::DropConstraint {
        name: "r_pkey".to_owned(),
        if_exists: false,
        cascades: false,
    };
    let refused = change(&engine, alter(vec![drop_key])).unwrap_err();
    let counted_on = "because constraint points on table other depends on it";
    assert!(refused.to_string().contains(counted_on), "{refused}");
    assert_eq!(found(&engine), expected(false));
}

/// Rows that were looked at before a change are not those that it is about, if somebody has written meanwhile.
#[test]
fn rows_that_were_written_after_the_look_are_looked_at_again() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = pointed_to(&disk);
    let snapshot = engine.snapshot();
    let rows = snapshot.relation("d", "public", "r").unwrap().rows();
    let seen = |change: Change| match change {
        Change::AlterTable {
            path,
            if_exists,
            change,
            ..
        } => Change::AlterTable {
            path,
            if_exists,
            change,
            seen: Some(SeenRows {
                lsn: snapshot.lsn(),
                rows: Arc::new(rows.clone()),
            }),
        },
        other => other,
    };
    insert(&engine, [4, 40, 9]).unwrap();
    let refused = change(&engine, seen(several())).unwrap_err();
    assert!(
        matches!(refused, Error::Engine(EngineError::RelationChanged { .. })),
        "{refused}"
    );
}

/// A statement that was planned before the change writes to a relation that is not there any more.
#[test]
fn a_writer_of_before_is_refused() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = pointed_to(&disk);
    let before = engine.snapshot().relation("d", "public", "r").unwrap();
    change(&engine, several()).unwrap();
    let row = [5, 50, 5].map(Value::I64).to_vec();
    let write = RelationChange::Insert(Arc::clone(before.schema()), vec![row]);
    let refused = engine.write_relations(&[write]).unwrap_err();
    assert!(
        matches!(refused, EngineError::RelationDropped { .. }),
        "{refused}"
    );
    assert_eq!(found(&engine), expected(true));
}

#[test]
fn a_machine_that_stops_anywhere_leaves_all_of_a_change_or_nothing() {
    let calls = {
        let disk = FaultyDisk::new(1, CrashPlan::default());
        let engine = pointed_to(&disk);
        disk.set_plan(CrashPlan::default());
        change(&engine, several()).unwrap();
        assert_eq!(found(&engine), expected(true));
        engine.flush().unwrap();
        let calls = disk.calls();
        drop(engine);
        let again = open(&disk.after_kill(CrashPlan::default()));
        assert_eq!(found(&again), expected(true));
        calls
    };
    assert!(calls > 1, "{calls}");
    for at in 1..=calls {
        for seed in 1..=2 {
            let disk = FaultyDisk::new(1, CrashPlan::default());
            let engine = pointed_to(&disk);
            disk.set_plan(CrashPlan {
                crash_at: Some(at),
                ..CrashPlan::default()
            });
            let made = change(&engine, several());
            let _ = engine.flush();
            drop(engine);
            let after = disk.after_power_cut(seed, CrashPlan::default());
            let left = found(&open(&after));
            let is_whole = left == expected(true) || (made.is_err() && left == expected(false));
            assert!(is_whole, "stopped at call {at}, seed {seed}: {left:?}");
        }
    }
}
