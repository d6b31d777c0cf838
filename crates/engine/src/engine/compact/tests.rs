use std::path::Path;

use nilometer_lineproto::Precision;

use super::*;
use crate::clock::SystemClock;
use crate::compaction::CompactionOptions;
use crate::disk::{Disk, MemoryDisk};
use crate::engine::Options;
use crate::ingest::Session;

const DAY: i64 = 86_400_000_000_000;

fn open(disk: &MemoryDisk, widen_rows_max: u64) -> Arc<Engine> {
    let options = Options {
        flush_idle_ms: 0,
        compaction: CompactionOptions {
            fan_in: 2,
            partition_rows_min: 1,
            widen_rows_max,
            settle_ms: 0,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
    Arc::new(engine.unwrap())
}

/// A segment with one row of a day.
fn flush_day(engine: &Arc<Engine>, day: i64, second: i64) {
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let body = format!("m v=1 {}", day * DAY + second);
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rows, 1);
    engine.flush().unwrap();
}

/// Days 0 and 2 are partitions, sparse enough to become one of eight days; day 1 is in two mixed segments, which become
/// a partition of their own. Each is right by itself, and together they overlap.
#[test]
fn no_two_jobs_that_make_partitions_are_claimed_at_once() {
    let disk = MemoryDisk::new();
    let engine = open(&disk, 0);
    for day in [0, 2] {
        flush_day(&engine, day, 0);
    }
    engine.settle().unwrap();
    assert_eq!(engine.metrics().partitions, 2);
    drop(engine);

    let engine = open(&disk, 1000);
    flush_day(&engine, 1, 0);
    flush_day(&engine, 1, 1);
    let first = engine.claim(false).unwrap();
    let Job::Rewrite { segments, parts } = &first.job else {
        panic!("{:?}", first.job);
    };
    assert_eq!((segments.len(), parts.len()), (2, 1));
    let day = (parts[0].window.start, parts[0].window.end);
    assert_eq!((day, parts[0].own), ((DAY, 2 * DAY), true));

    let second = engine.claim(false);
    assert!(second.is_none(), "{:?}", second.map(|claim| claim.job));
    let outcome = engine.work(&first);
    engine.release(&first, &outcome);
    outcome.unwrap();
    assert_eq!(engine.metrics().partitions, 3);

    // Its turn comes when the first is done, and then it has all three.
    let second = engine.claim(false).unwrap();
    let Job::Widen { from, to } = &second.job else {
        panic!("{:?}", second.job);
    };
    assert_eq!((from.len(), to.start, to.end), (3, 0, 8 * DAY));
    let outcome = engine.work(&second);
    engine.release(&second, &outcome);
    outcome.unwrap();
    assert_eq!(engine.metrics().partitions, 1);
    drop((first, second, engine));
    assert_eq!(open(&disk, 1000).metrics().partitions, 1);
}
