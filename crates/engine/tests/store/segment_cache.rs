//! Promise: however many segments there are, few files are open and little is decoded at once, and no answer changes.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    reason = "a failed unwrap is the report, and the bodies are small"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::counting::CountingDisk;
use crate::support::{Answer, everything};
use nilometer_engine::disk::Disk;
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options, SystemClock};
use nilometer_lineproto::Precision;

fn open(disk: &CountingDisk, options: Options) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
    Arc::new(engine.unwrap())
}

/// A store of 40 segments, and what it answers.
fn store() -> (CountingDisk, Answer) {
    let disk = CountingDisk::default();
    let engine = open(&disk, Options::default());
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    for part in 0..40 {
        let lines: String = (0..200)
            .map(|at| {
                format!(
                    "m,host=h{} v={}i,w=\"{part}\" {}\n",
                    part % 3,
                    at * at * 31 % 997,
                    part * 100 + at
                )
            })
            .collect();
        let report = session.write_lines(lines.as_bytes(), Precision::Second);
        assert_eq!(report.unwrap().rejected, []);
        engine.flush().unwrap();
    }
    let answer = everything(&engine).unwrap();
    (disk, answer)
}

#[test]
fn few_files_are_open_and_little_is_decoded_at_once() {
    let (disk, answer) = store();
    assert_eq!(disk.counts.open.load(Ordering::SeqCst), 0);
    let options = Options {
        open_files_max: 4,
        directory_cache_bytes_max: 2000,
        ..Options::default()
    };
    let engine = open(&disk, options);
    for _ in 0..3 {
        assert!(everything(&engine).unwrap() == answer);
        let metrics = engine.metrics();
        assert_eq!(metrics.segments, 40);
        assert!(metrics.open_files <= 4);
        assert!(metrics.directory_cache_bytes <= 2000);
        assert_eq!(disk.counts.open.load(Ordering::SeqCst), metrics.open_files);
    }
    assert!(engine.metrics().directory_cache_misses >= 3 * 30);
}

#[test]
fn what_fits_is_opened_and_decoded_once() {
    let (disk, answer) = store();
    let before = disk.counts.opened.load(Ordering::SeqCst);
    let engine = open(&disk, Options::default());
    for _ in 0..3 {
        assert!(everything(&engine).unwrap() == answer);
    }
    let metrics = engine.metrics();
    assert_eq!(
        (metrics.open_files, metrics.directory_cache_misses),
        (40, 40)
    );
    assert_eq!(metrics.directory_cache_hits, 80);
    assert!(metrics.directory_cache_bytes > 0);
    assert_eq!(disk.counts.opened.load(Ordering::SeqCst) - before, 40);
}

#[test]
fn opening_a_store_reads_headers_and_footers_only() {
    let (disk, _) = store();
    let before = disk.counts.bytes_read.load(Ordering::SeqCst);
    let engine = open(&disk, Options::default());
    let read = disk.counts.bytes_read.load(Ordering::SeqCst) - before;
    // A header of 64 bytes, a tail of 40, and a footer of one group, which takes less than 100.
    assert!(read <= 40 * (64 + 40 + 100), "{read} bytes");
    assert_eq!(engine.metrics().directory_cache_misses, 0);
    assert!(engine.metrics().segment_bytes > 2 * read);
}

#[test]
fn a_cache_without_room_serves_too() {
    let (disk, answer) = store();
    let options = Options {
        open_files_max: 0,
        directory_cache_bytes_max: 0,
        ..Options::default()
    };
    let engine = open(&disk, options);
    assert!(everything(&engine).unwrap() == answer);
    assert_eq!(disk.counts.open.load(Ordering::SeqCst), 0);
    assert_eq!(engine.metrics().directory_cache_bytes, 0);
}
