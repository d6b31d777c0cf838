//! A disk without room for a segment: writes are refused when memory is full, nothing is lost, and writing goes on by
//! itself once there is room.

use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::{CrashPlan, FaultyDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Error, Options, ScanRequest, SystemClock};
use nilometer_lineproto::Precision;

const FLUSH_ROWS: u64 = 10;
/// Writers help to flush when memory holds four times `flush_rows`.
const FULL_ROWS: u64 = 40;

fn write(engine: &Arc<Engine>, time: u64) -> Result<u64, Error> {
    let mut session = Session::new(Arc::clone(engine), "d")?;
    let body = format!("m v={time} {time}");
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond)?;
    Ok(report.rows)
}

fn count(engine: &Arc<Engine>) -> u64 {
    let snapshot = engine.snapshot();
    let request = ScanRequest {
        table: snapshot.table("d", "public", "m").expect("the table"),
        projection: Vec::new(),
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = snapshot.scan(&request).expect("the scan plans");
    (0..scan.morsels())
        .flat_map(|morsel| scan.read(morsel))
        .map(|batch| batch.expect("the page reads").num_rows() as u64)
        .sum()
}

#[test]
fn a_full_disk_refuses_writes_loses_nothing_and_ends_by_itself() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = Engine::open(
        Arc::new(disk.clone()),
        Arc::new(SystemClock),
        Path::new("/d"),
        Options {
            flush_rows: FLUSH_ROWS,
            ..Options::default()
        },
    );
    let engine = Arc::new(engine.unwrap());
    engine.create_database("d").unwrap();
    for time in 0..FULL_ROWS {
        assert_eq!(write(&engine, time).unwrap(), 1);
    }

    disk.set_plan(CrashPlan {
        fail_write_at: (1..10_000).collect(),
        ..CrashPlan::default()
    });
    let refused = write(&engine, FULL_ROWS).expect_err("there is no room for a segment");
    let is_full = matches!(&refused, Error::Io { source, .. }
        if source.kind() == std::io::ErrorKind::StorageFull);
    assert!(is_full, "{refused}");
    assert_eq!(
        count(&engine),
        FULL_ROWS,
        "reads go on, and see what was acknowledged"
    );
    assert_eq!(
        engine.metrics().poisoned,
        None,
        "a full disk is not a failed one"
    );

    disk.set_plan(CrashPlan::default());
    assert_eq!(write(&engine, FULL_ROWS).unwrap(), 1);
    engine.flush().unwrap();
    let metrics = engine.metrics();
    assert_eq!(
        (metrics.head_rows, metrics.segment_rows),
        (0, FULL_ROWS + 1)
    );
    assert_eq!(count(&engine), FULL_ROWS + 1);
}
