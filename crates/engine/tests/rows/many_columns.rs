//! Promise: what a table with very many columns takes grows as they do, not as their square.
//!
//! A body of one point with 100,000 fields once took ten minutes, during which no other name could be defined, and the
//! store it left did not open within two: each new column copied the table and looked through all columns before it.
//! Tests measure no time; this one would be the one that does not end.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options, ScanRequest, SystemClock};
use nilometer_lineproto::Precision;

const FIELDS: usize = 20_000;
const TAGS: usize = 2_000;

fn open(disk: &MemoryDisk) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = Options::default();
    Arc::new(Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options).unwrap())
}

/// Columns that have a value in the only row.
fn values(engine: &Arc<Engine>, table: &str) -> usize {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", table).unwrap();
    let columns = table.arrow_schema().fields().len();
    let request = ScanRequest {
        table,
        projection: (0..columns).collect(),
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = snapshot.scan(&request).unwrap();
    let batches: Vec<_> = (0..scan.morsels()).flat_map(|at| scan.read(at)).collect();
    let [Ok(batch)] = batches.as_slice() else {
        panic!("{} batches", batches.len());
    };
    assert_eq!(batch.num_rows(), 1);
    let columns = batch.columns().iter();
    columns.filter(|column| column.null_count() == 0).count()
}

#[test]
fn a_point_with_twenty_thousand_fields_is_written_replayed_flushed_and_read() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    engine.create_database("d").unwrap();
    let mut fields = String::from("wide f0=0");
    for n in 1..FIELDS {
        write!(fields, ",f{n}={n}").unwrap();
    }
    let mut tags = String::from("tagged");
    for n in 0..TAGS {
        write!(tags, ",t{n}=a").unwrap();
    }
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let body = format!("{fields} 1\n{tags} v=1 1\n");
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
    let wanted = (1 + FIELDS, 1 + TAGS + 1);
    assert_eq!((values(&engine, "wide"), values(&engine, "tagged")), wanted);
    drop((session, engine));
    let engine = open(&disk);
    assert_eq!((values(&engine, "wide"), values(&engine, "tagged")), wanted);
    engine.flush().unwrap();
    drop(engine);
    let engine = open(&disk);
    assert_eq!((values(&engine, "wide"), values(&engine, "tagged")), wanted);
}
