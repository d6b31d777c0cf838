//! Promise: rows of a relation that are changed as a snapshot shows them are changed so or not at all; and a record batch
//! becomes rows without loss, or an error that names the column.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::path::Path;
use std::sync::Arc;
use std::thread;

use arrow_array::{
    ArrayRef, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use nilometer_codec::PhysicalType;
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{
    Engine, Error, NewRelation, Options, RelationChange, RelationColumn, RelationSchema, Snapshot,
    SystemClock, Value,
};

fn engine() -> Arc<Engine> {
    let disk = Arc::new(MemoryDisk::default());
    let clock = Arc::new(SystemClock);
    let engine = Engine::open(disk, clock, Path::new("/d"), Options::default()).unwrap();
    engine.create_database("d").unwrap();
    let column = |name: &str, kind, nullable| RelationColumn {
        name: name.to_owned(),
        kind,
        nullable,
    };
    let new = NewRelation {
        columns: vec![
            column("id", PhysicalType::I64, false),
            column("count", PhysicalType::I64, true),
            column("name", PhysicalType::Text, true),
        ],
        primary_key: vec!["id".to_owned()],
        unique: vec![vec!["name".to_owned()]],
    };
    engine.create_relation("d", "public", "r", &new).unwrap();
    Arc::new(engine)
}

fn schema(snapshot: &Snapshot) -> Arc<RelationSchema> {
    let reader = snapshot.relation("d", "public", "r").unwrap();
    Arc::clone(reader.schema())
}

fn row(id: i64, count: i64) -> Vec<Value> {
    vec![id.into(), count.into(), Value::Null]
}

fn count(snapshot: &Snapshot, id: i64) -> Option<Value> {
    let reader = snapshot.relation("d", "public", "r").unwrap();
    let row = reader.get(&[id.into()])?;
    row.get(1).cloned()
}

#[test]
fn a_row_that_changed_since_it_was_seen_stays_as_it_is() {
    let engine = engine();
    let schema = schema(&engine.snapshot());
    let insert = RelationChange::Insert(Arc::clone(&schema), vec![row(1, 10), row(2, 20)]);
    engine.write_relations(&[insert]).unwrap();
    let seen = engine.snapshot();
    let replace = |count| RelationChange::Replace(Arc::clone(&schema), vec![row(1, count)]);
    let delete = |id: i64| RelationChange::Delete(Arc::clone(&schema), vec![vec![id.into()]]);

    engine
        .write_relations_as_seen(&seen, &[replace(11)])
        .unwrap();
    for changes in [
        vec![replace(99)],
        vec![delete(1)],
        vec![delete(2), replace(99)],
        vec![delete(3)],
    ] {
        let error = engine.write_relations_as_seen(&seen, &changes).unwrap_err();
        assert!(matches!(error, Error::RelationChanged { .. }), "{error}");
    }
    let now = engine.snapshot();
    assert_eq!(count(&now, 1), Some(11_i64.into()));
    assert_eq!(
        count(&now, 2),
        Some(20_i64.into()),
        "nothing of a batch happens"
    );

    engine
        .write_relations_as_seen(&now, &[delete(1), delete(2)])
        .unwrap();
    assert_eq!(count(&engine.snapshot(), 1), None);
    // Rows that come are checked by their keys, whenever they were seen.
    let insert = RelationChange::Insert(Arc::clone(&schema), vec![row(1, 5)]);
    let insert = std::slice::from_ref(&insert);
    engine.write_relations_as_seen(&seen, insert).unwrap();
    let error = engine.write_relations_as_seen(&seen, insert).unwrap_err();
    assert!(matches!(error, Error::RelationKey { .. }), "{error}");
}

#[test]
fn of_many_who_count_at_once_each_counts() {
    const WRITERS: i64 = 4;
    const EACH: i64 = 50;
    let engine = engine();
    let schema = schema(&engine.snapshot());
    let insert = RelationChange::Insert(Arc::clone(&schema), vec![row(1, 0)]);
    engine.write_relations(&[insert]).unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (engine, schema) = (Arc::clone(&engine), Arc::clone(&schema));
            thread::spawn(move || {
                for _ in 0..EACH {
                    loop {
                        let seen = engine.snapshot();
                        let Some(Value::I64(count)) = count(&seen, 1) else {
                            panic!("the row is there")
                        };
                        let next =
                            RelationChange::Replace(Arc::clone(&schema), vec![row(1, count + 1)]);
                        match engine.write_relations_as_seen(&seen, &[next]) {
                            Ok(_) => break,
                            Err(Error::RelationChanged { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(count(&engine.snapshot(), 1), Some((WRITERS * EACH).into()));
}

#[test]
fn a_record_batch_becomes_rows_without_loss() {
    let engine = engine();
    let schema = schema(&engine.snapshot());
    let batch = |columns: Vec<(&str, ArrayRef)>| RecordBatch::try_from_iter(columns).unwrap();
    let names: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None]));
    let ids: ArrayRef = Arc::new(Int16Array::from(vec![7, 8]));
    let counts: ArrayRef = Arc::new(UInt64Array::from(vec![Some(3), None]));
    let rows = schema.rows_of(&batch(vec![
        ("name", Arc::clone(&names)),
        ("id", Arc::clone(&ids)),
    ]));
    let expected = vec![
        vec![7_i64.into(), Value::Null, "a".into()],
        vec![8_i64.into(), Value::Null, Value::Null],
    ];
    assert_eq!(rows.unwrap(), expected);

    let half: ArrayRef = Arc::new(Float64Array::from(vec![1.5, 2.0]));
    let large: ArrayRef = Arc::new(UInt64Array::from(vec![1, u64::MAX]));
    for (columns, part) in [
        (vec![("id", Arc::clone(&ids)), ("count", half)], "count"),
        (vec![("id", large)], "id"),
        (vec![("id", names)], "id"),
        (vec![("nothing", Arc::clone(&ids))], "\"nothing\""),
    ] {
        let error = schema.rows_of(&batch(columns)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let whole = schema.rows_of(&batch(vec![("id", ids), ("count", counts)]));
    let second: Vec<Value> = whole
        .unwrap()
        .into_iter()
        .map(|mut row| row.remove(1))
        .collect();
    match second.as_slice() {
        [Value::I64(3), Value::Null] => {}
        other => panic!("{other:?}"),
    }

    // And back again, of the columns that are asked for.
    let rows = vec![vec![1_i64.into(), Value::Null, "x".into()].into()];
    let batches: Vec<RecordBatch> = schema.batches(rows, &[2, 0]).collect();
    let [back] = batches.as_slice() else {
        panic!("{} batches", batches.len())
    };
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert_eq!(back.num_columns(), 2);
    assert_eq!(back.column_by_name("id"), Some(&ids));
}
