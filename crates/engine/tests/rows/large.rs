//! Large values: a row may have values of megabytes, the others are read without them, and they go with their row.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::OnConflict;
use nilometer_engine::{
    CompactionOptions, DeleteRequest, Duplicates, Engine, Options, ScanRequest, SystemClock, Tier,
};

use crate::typed_store as typed;

fn open(disk: &MemoryDisk, value_bytes_max: u64) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = Options {
        flush_idle_ms: 0,
        value_bytes_max,
        memory_bytes_max: 2 << 30,
        compaction: CompactionOptions {
            partition_rows_min: 1,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    Arc::new(Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options).unwrap())
}

/// Bytes that say which row they are of, and that no compression makes small.
fn payload(row: i64) -> Option<Vec<u8>> {
    let bytes = match row % 10 {
        0 => 40_000,
        1 => 3_000_000,
        5 => return None,
        n => usize::try_from(n).unwrap() * 700,
    };
    let mut state = row.unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[4]
    };
    Some((0..bytes).map(next).collect())
}

fn rows(from: i64, to: i64) -> RecordBatch {
    let times: Int64Array = (from..to).map(Some).collect();
    let hosts: StringArray = (from..to).map(|_| Some("a")).collect();
    let counts: Int64Array = (from..to).map(Some).collect();
    let payloads: Vec<Option<Vec<u8>>> = (from..to).map(payload).collect();
    let raw: BinaryArray = payloads.iter().map(Option::as_deref).collect();
    typed::batch(vec![
        ("time", Arc::new(times) as ArrayRef),
        ("host", Arc::new(hosts)),
        ("count", Arc::new(counts)),
        ("raw", Arc::new(raw)),
    ])
}

/// Every row's count and payload.
fn read(engine: &Arc<Engine>, time: std::ops::RangeInclusive<i64>) -> Vec<(i64, Option<Vec<u8>>)> {
    let snapshot = engine.snapshot();
    let table = typed::table(&snapshot);
    let at = |name: &str| table.arrow_schema().index_of(name).unwrap();
    let request = ScanRequest {
        projection: vec![at("count"), at("raw")],
        table: Arc::clone(&table),
        time,
        tags: Vec::new(),
        limit: None,
    };
    let scan = snapshot.scan(&request).unwrap();
    let mut rows = Vec::new();
    for batch in (0..scan.morsels()).flat_map(|morsel| scan.read(morsel)) {
        let batch = batch.unwrap();
        let counts = batch
            .column(0)
            .as_primitive::<arrow_array::types::Int64Type>();
        for row in 0..batch.num_rows() {
            let raw = batch.column(1);
            let value = raw
                .is_valid(row)
                .then(|| raw.as_binary::<i32>().value(row).to_vec());
            rows.push((counts.value(row), value));
        }
    }
    rows
}

fn expected(rows: impl Iterator<Item = i64>) -> Vec<(i64, Option<Vec<u8>>)> {
    rows.map(|row| (row, payload(row))).collect()
}

#[test]
fn values_of_megabytes_are_read_merged_moved_and_gone_with_their_rows() {
    let disk = MemoryDisk::new();
    let engine = open(&disk, 32 << 20);
    typed::make_table(&engine, Duplicates::Unique);
    for from in [0, 60, 30] {
        typed::write(&engine, &rows(from, from + 30), OnConflict::Error).unwrap();
        engine.flush().unwrap();
    }
    let all = expected(0..90);
    assert!(read(&engine, i64::MIN..=i64::MAX) == all, "three files");
    assert!(read(&engine, 10..=12) == all[10..=12], "some rows");
    for tier in [Tier::Cold, Tier::Hot] {
        engine.settle_for(Some(tier)).unwrap();
        assert!(read(&engine, i64::MIN..=i64::MAX) == all, "{tier}");
    }
    let before = engine.metrics().segment_bytes;
    assert!(before > 9 * 3_000_000, "{before}");
    drop(engine);
    // What is there is read whatever the limit is now.
    let engine = open(&disk, 1000);
    assert!(read(&engine, i64::MIN..=i64::MAX) == all, "opened again");
    let request = DeleteRequest {
        table: typed::table(&engine.snapshot()),
        time: 0..=59,
        tags: Vec::new(),
    };
    engine.delete(&request).unwrap();
    assert!(read(&engine, i64::MIN..=i64::MAX) == all[60..], "deleted");
    engine.settle().unwrap();
    assert!(read(&engine, i64::MIN..=i64::MAX) == all[60..], "gone");
    let after = engine.metrics().segment_bytes;
    assert!(
        after < before / 2,
        "{after} of {before} bytes are left of a third"
    );
}

#[test]
fn a_value_beyond_its_limit_names_the_setting() {
    let engine = open(&MemoryDisk::new(), 2_999_999);
    typed::make_table(&engine, Duplicates::Unique);
    let error = typed::write(&engine, &rows(1, 2), OnConflict::Error).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(
            "it has 3000000 bytes, and a value may have 2999999 (setting value-bytes-max)"
        ),
        "{text}"
    );
    assert_eq!(read(&engine, i64::MIN..=i64::MAX), []);
}

/// Sizes around what a page of several values holds, and the largest.
const LARGEST: [usize; 4] = [(16 << 20) - 1, 16 << 20, (16 << 20) + 1, 32 << 20];

/// Bytes that nothing makes small in one row, and that are nearly nothing in the next.
fn largest(row: usize, bytes: usize) -> Vec<u8> {
    let mut state = row as u64 + 1;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[4]
    };
    (0..bytes)
        .map(|at| {
            if row.is_multiple_of(2) {
                noise()
            } else {
                (at / 4096).to_le_bytes()[0]
            }
        })
        .collect()
}

/// A value between 16 and 32 MiB was refused as damage to the store, because a page of the log could not hold it. It has to
/// be there from the log, from a file, from a compacted one, and with its neighbours in one batch.
#[test]
fn values_of_up_to_32_mib_are_there_wherever_they_stand() {
    let disk = MemoryDisk::new();
    let mut engine = open(&disk, u64::MAX);
    typed::make_table(&engine, Duplicates::Unique);
    let values: Vec<Vec<u8>> = (0..)
        .zip(LARGEST)
        .map(|(row, bytes)| largest(row, bytes))
        .collect();
    let batch = |rows: std::ops::Range<usize>| {
        let times: Int64Array = rows.clone().map(|row| Some(row as i64)).collect();
        let hosts: StringArray = rows.clone().map(|_| Some("a")).collect();
        let raw: BinaryArray = rows.map(|row| values.get(row % 5)).collect();
        typed::batch(vec![
            ("time", Arc::new(times.clone()) as ArrayRef),
            ("host", Arc::new(hosts)),
            ("count", Arc::new(times)),
            ("raw", Arc::new(raw)),
        ])
    };
    let check = |engine: &Arc<Engine>, rows: usize, when: &str| {
        let found = read(engine, i64::MIN..=i64::MAX);
        assert_eq!(found.len(), rows, "{when}");
        for (row, (count, value)) in found.iter().enumerate() {
            assert_eq!(*count, row as i64, "{when}");
            assert!(value.as_ref() == values.get(row % 5), "{when}: row {row}");
        }
    };
    // Each by itself, and then all of them, and a null, in one.
    for row in 0..5 {
        typed::write(&engine, &batch(row..row + 1), OnConflict::Error).unwrap();
    }
    check(&engine, 5, "in memory");
    drop(engine);
    engine = open(&disk, 1000);
    check(&engine, 5, "from the log");
    engine.flush().unwrap();
    check(&engine, 5, "from a file");
    drop(engine);
    engine = open(&disk, u64::MAX);
    typed::write(&engine, &batch(5..10), OnConflict::Error).unwrap();
    check(&engine, 10, "from a file and memory");
    drop(engine);
    engine = open(&disk, u64::MAX);
    check(&engine, 10, "from a file and the log");
    engine.flush().unwrap();
    for tier in [Tier::Cold, Tier::Hot] {
        engine.settle_for(Some(tier)).unwrap();
        check(&engine, 10, &format!("compacted, {tier}"));
    }
    drop(engine);
    engine = open(&disk, u64::MAX);
    check(&engine, 10, "compacted and opened again");

    let more = largest(0, (32 << 20) + 1);
    let raw: BinaryArray = [Some(&more)].into_iter().collect();
    let time: ArrayRef = Arc::new(Int64Array::from(vec![10]));
    let columns = vec![
        ("time", Arc::clone(&time)),
        ("host", Arc::new(StringArray::from(vec!["a"])) as ArrayRef),
        ("count", time),
        ("raw", Arc::new(raw)),
    ];
    let refused = typed::write(&engine, &typed::batch(columns), OnConflict::Error);
    let text = refused.unwrap_err().to_string();
    assert!(
        text.contains(
            "it has 33554433 bytes, and a value may have 33554432 (setting value-bytes-max)"
        ),
        "{text}"
    );
    check(&engine, 10, "after a value that is too large");
}
