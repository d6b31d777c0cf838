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
        (state >> 32) as u8
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
