//! Writers, readers, deletes and maintenance at once, on threads of the machine: not repeatable to the step, so what is
//! checked must hold in any order of things.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::{OnConflict, Session, Target};
use nilometer_engine::{
    ColumnKind, CompactionOptions, DeleteRequest, Duplicates, Engine, Error, Lsn, NewColumn,
    NewRelation, Options, PhysicalType, RelationChange, RelationColumn, ScanRequest, Snapshot,
    SystemClock, TableSettings, Value as StoredValue,
};
use nilometer_lineproto::Precision;
use nilometer_sim::model::Found;
use nilometer_sim::plan::Value;
use nilometer_sim::world::read_all;

const WRITERS: usize = 3;
const BATCHES: i64 = 400;
const HOSTS: i64 = 3;
/// Times of the series that all writers write.
const SHARED_TIMES: i64 = 20;
/// Batches lie in so many days.
const DAYS: i64 = 4;
const DAY_NS: i64 = 86_400_000_000_000;

fn options() -> Options {
    Options {
        flush_rows: 300,
        flush_idle_ms: 0,
        compaction: CompactionOptions {
            fan_in: 2,
            partition_rows_min: 50,
            widen_rows_max: 100,
            settle_ms: 1,
            ..CompactionOptions::default()
        },
        ..Options::default()
    }
}

fn open(disk: &MemoryDisk) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Arc::new(Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options()).unwrap())
}

fn time_of(batch: i64) -> i64 {
    (batch % DAYS) * DAY_NS + batch
}

/// Rows of one batch in two tables, and one of the series that all write.
fn body(writer: usize, batch: i64) -> String {
    let mut body = String::new();
    let time = time_of(batch);
    for table in ["a", "b"] {
        for host in 0..HOSTS {
            writeln!(body, "{table},w=w{writer},host=h{host} v={batch}i {time}").unwrap();
        }
    }
    let value = batch * 10 + i64::try_from(writer).unwrap();
    writeln!(body, "shared v={value}i {}", batch % SHARED_TIMES).unwrap();
    body
}

/// What the writers know: by time of the shared series, the LSN and value of the last write.
type Newest = Mutex<BTreeMap<i64, (Lsn, i64)>>;

fn write(engine: &Arc<Engine>, writer: usize, acknowledged: &AtomicI64, newest: &Newest) {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    for batch in 0..BATCHES {
        let body = body(writer, batch);
        let report = session
            .write_lines(body.as_bytes(), Precision::Nanosecond)
            .unwrap();
        let value = batch * 10 + i64::try_from(writer).unwrap();
        let mut newest = newest.lock().unwrap();
        let last = newest.entry(batch % SHARED_TIMES).or_default();
        *last = (*last).max((report.lsn, value));
        drop(newest);
        acknowledged.store(batch, Ordering::Release);
    }
}

/// Writes rows and deletes them, and never finds one again.
fn delete(engine: &Arc<Engine>) {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    for round in 0..BATCHES / 4 {
        let line = format!("gone,host=h{} v=1i {}", round % 3, time_of(round));
        session
            .write_lines(line.as_bytes(), Precision::Nanosecond)
            .unwrap();
        let table = engine.snapshot().table("d", "public", "gone").unwrap();
        let request = DeleteRequest {
            table,
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
        };
        engine.delete(&request).unwrap();
        let found = read_all(&engine.snapshot()).unwrap();
        assert_eq!(rows_of(&found, "gone"), 0, "round {round}");
    }
}

fn rows_of(found: &Found, table: &str) -> usize {
    let table = found.tables.get(&("d".to_owned(), table.to_owned()));
    table.map_or(0, |table| table.rows.len())
}

/// Every batch up to the one acknowledged is there, and every one that is there is whole.
fn check_batches(snapshot: &Snapshot, acknowledged: &[i64]) -> Found {
    let found = read_all(snapshot).unwrap();
    let mut batches: BTreeMap<(String, i64), usize> = BTreeMap::new();
    for table in ["a", "b"] {
        let table = found.tables.get(&("d".to_owned(), table.to_owned()));
        for ((tags, time), rows) in table.iter().flat_map(|table| &table.rows) {
            assert_eq!(rows.len(), 1);
            let batch = time % DAY_NS;
            assert_eq!(rows[0].get("v"), Some(&Value::Integer(batch)));
            *batches.entry((tags["w"].clone(), batch)).or_default() += 1;
        }
    }
    let whole = usize::try_from(HOSTS).unwrap() * 2;
    for (batch, rows) in &batches {
        assert_eq!(*rows, whole, "{batch:?}");
    }
    for (writer, &last) in acknowledged.iter().enumerate() {
        for batch in 0..=last {
            let name = (format!("w{writer}"), batch);
            assert!(batches.contains_key(&name), "{name:?} is missing");
        }
    }
    found
}

fn check_shared(found: &Found, newest: &Newest) {
    let table = &found.tables[&("d".to_owned(), "shared".to_owned())];
    let newest = newest.lock().unwrap();
    assert_eq!(table.rows.len(), newest.len());
    for ((_, time), rows) in &table.rows {
        let (lsn, value) = newest[time];
        assert_eq!(rows[0].get("v"), Some(&Value::Integer(value)), "LSN {lsn}");
    }
}

#[test]
fn every_promise_holds_while_many_threads_work() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    engine.create_database("d").unwrap();
    let acknowledged: Vec<AtomicI64> = (0..WRITERS).map(|_| AtomicI64::new(-1)).collect();
    let newest = Newest::default();
    let working = AtomicUsize::new(WRITERS + 1);
    let reads = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let (engine, newest, working) = (&engine, &newest, &working);
            scope.spawn(move || {
                let _done = Done(working);
                write(engine, writer, acknowledged, newest);
            });
        }
        scope.spawn(|| {
            let _done = Done(&working);
            delete(&engine);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while working.load(Ordering::Acquire) > 0 {
                    engine.maintain().unwrap();
                    std::thread::yield_now();
                }
            });
        }
        scope.spawn(|| {
            let mut held: Vec<(Snapshot, Found)> = Vec::new();
            while working.load(Ordering::Acquire) > 0 {
                let known: Vec<i64> = acknowledged
                    .iter()
                    .map(|last| last.load(Ordering::Acquire))
                    .collect();
                let snapshot = engine.snapshot();
                let found = check_batches(&snapshot, &known);
                if reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(8) {
                    held.push((snapshot, found));
                }
            }
            for (snapshot, found) in &held {
                let again = read_all(snapshot).unwrap();
                for (name, table) in &found.tables {
                    assert_eq!(again.tables[name].rows, table.rows, "{name:?}");
                }
            }
        });
    });
    assert!(reads.load(Ordering::Relaxed) > 0);
    let all: Vec<i64> = acknowledged
        .iter()
        .map(|last| last.load(Ordering::Acquire))
        .collect();
    let check = |engine: &Arc<Engine>| {
        let found = check_batches(&engine.snapshot(), &all);
        check_shared(&found, &newest);
        assert_eq!(rows_of(&found, "gone"), 0);
    };
    check(&engine);
    drop(engine);
    let engine = open(&disk);
    check(&engine);
    engine.settle().unwrap();
    check(&engine);
}

/// Counts down even if its thread panics, so that the others end.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Value by time of the table of keys.
fn values_of(snapshot: &Snapshot) -> BTreeMap<i64, i64> {
    let table = snapshot.table("d", "public", "keys").unwrap();
    let request = ScanRequest {
        table,
        projection: vec![0, 1],
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = snapshot.scan(&request).unwrap();
    let mut found = BTreeMap::new();
    for batch in (0..scan.morsels()).flat_map(|morsel| scan.read(morsel)) {
        let batch = batch.unwrap();
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        let values = batch.column(1).as_primitive::<Int64Type>();
        for (time, value) in times.values().iter().zip(values.values()) {
            assert_eq!(found.insert(*time, *value), None, "two rows of time {time}");
        }
    }
    found
}

/// Keys that every writer wants.
const WANTED: i64 = 300;

/// The keys that one writer got.
#[derive(Default)]
struct Claims {
    rows: Vec<i64>,
    relation: Vec<i64>,
}

/// Tries to be the first with each key, in a `unique` table and in a relation.
fn claim(engine: &Arc<Engine>, writer: i64) -> Claims {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let snapshot = engine.snapshot();
    let relation = snapshot.relation("d", "public", "owners").unwrap();
    let mut claims = Claims::default();
    for key in 0..WANTED {
        let column = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("time", column(key)), ("v", column(writer))]);
        match session.write_arrow(Target::table("keys"), &batch.unwrap(), OnConflict::Error) {
            Ok(_) => claims.rows.push(key),
            Err(Error::RowConflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        let row = vec![key.into(), writer.into()];
        let insert = RelationChange::Insert(Arc::clone(relation.schema()), vec![row]);
        match engine.write_relations(&[insert]) {
            Ok(_) => claims.relation.push(key),
            Err(Error::RelationKey { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    claims
}

#[test]
fn of_many_writers_of_a_key_one_has_it() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    engine.create_database("d").unwrap();
    let settings = TableSettings {
        duplicates: Duplicates::Unique,
        ..TableSettings::default()
    };
    let value = NewColumn {
        name: "v",
        kind: ColumnKind::Field(PhysicalType::I64),
    };
    engine
        .create_table("d", "public", "keys", &[value], settings)
        .unwrap();
    let column = |name: &str| RelationColumn {
        name: name.to_owned(),
        kind: PhysicalType::I64,
        nullable: false,
    };
    let owners = NewRelation {
        columns: vec![column("key"), column("owner")],
        primary_key: vec!["key".to_owned()],
        unique: Vec::new(),
    };
    engine
        .create_relation("d", "public", "owners", &owners)
        .unwrap();
    let working = AtomicUsize::new(WRITERS);
    let claims: Vec<Claims> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (engine, working) = (&engine, &working);
                scope.spawn(move || {
                    let _done = Done(working);
                    claim(engine, i64::try_from(writer).unwrap())
                })
            })
            .collect();
        scope.spawn(|| {
            while working.load(Ordering::Acquire) > 0 {
                engine.flush().unwrap();
                engine.maintain().unwrap();
                std::thread::yield_now();
            }
        });
        writers.into_iter().map(|it| it.join().unwrap()).collect()
    });
    drop(engine);
    let engine = open(&disk);
    let snapshot = engine.snapshot();
    let found = values_of(&snapshot);
    let relation = snapshot.relation("d", "public", "owners").unwrap();
    for key in 0..WANTED {
        let winners = |has: &dyn Fn(&Claims) -> bool| -> Vec<i64> {
            let all = (0..).zip(&claims);
            all.filter(|(_, claims)| has(claims))
                .map(|(writer, _)| writer)
                .collect()
        };
        let wrote = winners(&|claims| claims.rows.contains(&key));
        let inserted = winners(&|claims| claims.relation.contains(&key));
        assert_eq!(wrote.len(), 1, "key {key}: {wrote:?}");
        assert_eq!(inserted.len(), 1, "key {key}: {inserted:?}");
        assert_eq!(found.get(&key), wrote.first(), "key {key}");
        let owner = &relation.get(&[key.into()]).unwrap()[1];
        assert_eq!(*owner, StoredValue::I64(inserted[0]), "key {key}");
    }
}
