mod device;

use std::path::Path;

use nilometer_lineproto::Precision;

use super::*;
use crate::clock::SystemClock;
use crate::compaction::CompactionOptions;
use crate::disk::{Disk, MemoryDisk};
use crate::engine::{Engine, Options};
use crate::ingest::Session;
use crate::segment::Window;

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
    let first = engine.jobs.claim(false, None, None).unwrap();
    let Job::Rewrite { segments, parts } = &first.job else {
        panic!("{:?}", first.job);
    };
    assert_eq!((segments.len(), parts.len()), (2, 1));
    let day = (parts[0].window.start, parts[0].window.end);
    assert_eq!((day, parts[0].own), ((DAY, 2 * DAY), true));

    let second = engine.jobs.claim(false, None, None);
    assert!(second.is_none(), "{:?}", second.map(|claim| claim.job));
    let outcome = engine.jobs.work(&first);
    engine.jobs.release(&first, &outcome);
    outcome.unwrap();
    assert_eq!(engine.metrics().partitions, 3);

    // Its turn comes when the first is done, and then it has all three.
    let second = engine.jobs.claim(false, None, None).unwrap();
    let Job::Widen { from, to } = &second.job else {
        panic!("{:?}", second.job);
    };
    assert_eq!((from.len(), to.start, to.end), (3, 0, 8 * DAY));
    let outcome = engine.jobs.work(&second);
    engine.jobs.release(&second, &outcome);
    outcome.unwrap();
    assert_eq!(engine.metrics().partitions, 1);
    drop((first, second, engine));
    assert_eq!(open(&disk, 1000).metrics().partitions, 1);
}

/// Days 0 to 3 in two segments, each a row of each day.
fn two_flushes(engine: &Arc<Engine>) {
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    for second in 0..2 {
        let lines = (0..4).map(|day| format!("m v={second} {}\n", day * DAY + second));
        let body: String = lines.collect();
        let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
        assert_eq!(report.unwrap().rows, 4);
        engine.flush().unwrap();
    }
}

/// A compaction left out what no part of it was for, and its inputs were removed all the same: four fifths of a table were gone
/// in silence. Such a job is refused, the files stay, and it is not tried again and again.
#[test]
fn a_compaction_that_does_not_account_for_every_row_changes_nothing() {
    let disk = MemoryDisk::new();
    let engine = open(&disk, 0);
    two_flushes(&engine);
    let mut claim = engine.jobs.claim(false, None, None).unwrap();
    let Job::Rewrite { parts, .. } = &mut claim.job else {
        panic!("{:?}", claim.job);
    };
    assert_eq!(parts.len(), 4);
    parts.remove(1);
    let before = engine.snapshot().segments();
    let outcome = engine.jobs.work(&claim);
    engine.jobs.release(&claim, &outcome);
    let refused = outcome.unwrap_err().to_string();
    assert!(
        refused.starts_with("a compaction is not carried out: of 8 rows of table 1 that went in, 6 would be written, 0 merged with newer ones and 0 deleted;"),
        "{refused}"
    );
    let after = engine.snapshot().segments();
    let ids = |segments: &[crate::SegmentReport]| -> Vec<u64> {
        segments.iter().map(|it| it.file_id).collect()
    };
    assert_eq!(ids(&before), ids(&after));
    let metrics = engine.metrics();
    assert_eq!((metrics.refused_edits, metrics.segments_damaged), (1, 2));
    assert_eq!(metrics.segment_rows, 8);
    assert!(
        engine.jobs.claim(true, None, None).is_none(),
        "it is not tried again"
    );
    let named = engine.damaged_segments();
    assert!(named.iter().all(|it| it.reason == refused), "{named:?}");
    // Writes, flushes and other compactions go on, and the next life tries again.
    flush_day(&engine, 9, 0);
    flush_day(&engine, 9, 1);
    engine.settle().unwrap();
    engine.close().unwrap();
    drop((claim, engine));
    let engine = open(&disk, 0);
    engine.settle().unwrap();
    let metrics = engine.metrics();
    assert_eq!((metrics.segment_rows, metrics.refused_edits), (10, 0));
    assert_eq!(metrics.partitions, 5);
}

/// Sixteen files of one last LSN and of older ones were merged, and five of that LSN left out: what was written counted as
/// newer than those. A job that would leave two such files is refused.
#[test]
fn a_compaction_that_leaves_two_files_without_an_order_changes_nothing() {
    let disk = MemoryDisk::new();
    let engine = open(&disk, 0);
    two_flushes(&engine);
    engine.settle().unwrap();
    drop(engine);
    // Four files of one last LSN, one a day.
    let engine = open(&disk, 0);
    two_flushes(&engine);
    let mut claim = engine.jobs.claim(true, None, None).unwrap();
    let Job::Rewrite { segments, parts } = &mut claim.job else {
        panic!("{:?}", claim.job);
    };
    // Three days become one file around the fourth, which stays.
    let all = Window {
        table: parts[0].window.table,
        start: 0,
        end: 4 * DAY,
    };
    let homes = &claim.state.version.segments;
    let own = homes.iter().filter(|it| it.meta.home != Home::Mixed);
    let days: Vec<u64> = own.map(|it| it.meta.file_id).collect();
    assert_eq!(days.len(), 4);
    let some = vec![days[0], days[2], days[3]];
    segments.clone_from(&some);
    *parts = vec![Part {
        window: all,
        own: false,
        segments: some,
    }];
    let outcome = engine.jobs.work(&claim);
    engine.jobs.release(&claim, &outcome);
    let refused = outcome.unwrap_err().to_string();
    assert!(
        refused.starts_with("a compaction is not carried out: the files ")
            && refused.contains("would both have rows of one table and time, and no order;"),
        "{refused}"
    );
    assert_eq!(engine.metrics().segment_rows, 16);
    assert_eq!(engine.metrics().refused_edits, 1);
}

/// Should a flush not account for every row, the store stops: the log keeps what the flush had, and so does the next life.
#[test]
fn a_flush_that_does_not_account_for_every_row_loses_nothing() {
    let disk = MemoryDisk::new();
    let engine = open(&disk, 0);
    flush_day(&engine, 0, 0);
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let body = format!("m v=2 {DAY}");
    session
        .write_lines(body.as_bytes(), Precision::Nanosecond)
        .unwrap();
    let table = engine.snapshot().table("d", "public", "m").unwrap().id;
    let mut balance = Balance::default();
    balance.of(table).read = 1;
    let edit = Edit {
        flushed_lsn: engine.metrics().visible_lsn,
        ..Edit::default()
    };
    let flush = Published::Flush {
        deletes: Vec::new(),
        series: None,
        balance,
    };
    let refused = engine.jobs.publish(edit, &[], flush).unwrap_err();
    assert!(
        matches!(refused, Error::RowsUnaccounted { .. }),
        "{refused}"
    );
    let refused = refused.to_string();
    assert!(
        refused.starts_with("a flush is not carried out: of 1 rows of table 1"),
        "{refused}"
    );
    assert_eq!(engine.metrics().poisoned, Some(refused));
    assert!(matches!(engine.close(), Err(Error::Poisoned { .. })));
    let again = session.write_lines(b"m v=3 7", Precision::Nanosecond);
    assert!(again.is_err(), "nothing more is acknowledged");
    drop((session, engine));
    let engine = open(&disk, 0);
    let metrics = engine.metrics();
    assert_eq!((metrics.segment_rows, metrics.head_rows), (1, 1));
    engine.close().unwrap();
    assert_eq!(engine.metrics().segment_rows, 2);
}

/// Every segment was gone over for each table: reading ten thousand tables, each with files of its own, took a hundred million
/// looks. Now each is looked for among its own files, in every version of the store.
#[test]
fn a_table_is_looked_for_in_its_own_segments() {
    let disk = MemoryDisk::new();
    let engine = open(&disk, 0);
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let tables = 60;
    let mut write = |from: usize, second: i64| {
        let lines = (from..tables).map(|table| format!("m{table} v={table} {second}\n"));
        let body: String = lines.collect();
        session
            .write_lines(body.as_bytes(), Precision::Nanosecond)
            .unwrap();
        engine.flush().unwrap();
    };
    write(0, 1);
    engine.settle().unwrap();
    // A later segment has rows of the upper tables only.
    write(50, 2);
    let check = |expected_each: &dyn Fn(usize) -> usize| {
        let snapshot = engine.snapshot();
        let version = &snapshot.moment().state.version;
        assert!(
            version.segments.len() > tables,
            "{}",
            version.segments.len()
        );
        for table in 0..tables {
            let id = snapshot
                .table("d", "public", &format!("m{table}"))
                .unwrap()
                .id;
            let listed: Vec<_> = version.segments_of(id).map(|it| it.meta.file_id).collect();
            let with_rows = version.segments.iter();
            let with_rows = with_rows.filter(|it| it.groups(id).next().is_some());
            let with_rows: Vec<_> = with_rows.map(|it| it.meta.file_id).collect();
            assert_eq!(listed, with_rows);
            assert_eq!(listed.len(), expected_each(table), "m{table}");
        }
    };
    check(&|table| if table < 50 { 1 } else { 2 });
    engine.settle().unwrap();
    write(0, 3);
    check(&|_| 2);
    let snapshot = engine.snapshot();
    let version = &snapshot.moment().state.version;
    let newest = version.since(version.segments.last().unwrap().meta.max_lsn - 1);
    assert!(newest.segments.len() < version.segments.len());
    let id = snapshot.table("d", "public", "m7").unwrap().id;
    assert_eq!(newest.segments_of(id).count(), 1);
}
