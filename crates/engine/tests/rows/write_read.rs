//! What is written reads back: from the head, from segments, after reopening; duplicates, tags, times, nulls.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    clippy::format_push_string,
    reason = "a failed unwrap is the report, and the bodies are small"
)]

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, RecordBatch};
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    CompactionOptions, Engine, Error, Options, ScanRequest, Snapshot, SystemClock, TagMatch,
    TagPredicate,
};
use nilometer_lineproto::Precision;

fn open(disk: &MemoryDisk) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let engine = Engine::open(
        disk,
        Arc::new(SystemClock),
        Path::new("/d"),
        Options::default(),
    );
    Arc::new(engine.expect("the store opens"))
}

fn write(engine: &Arc<Engine>, body: &str) {
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
}

fn scan(engine: &Arc<Engine>, request: impl FnOnce(&mut ScanRequest)) -> Vec<RecordBatch> {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "m").expect("the table");
    let columns = table.arrow_schema().fields().len();
    let mut wanted = ScanRequest {
        table,
        projection: (0..columns).collect(),
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    request(&mut wanted);
    let scan = snapshot.scan(&wanted).unwrap();
    (0..scan.morsels())
        .flat_map(|morsel| scan.read(morsel))
        .collect::<Result<_, _>>()
        .unwrap()
}

/// Rows as text, one a line: every column, null as `-`.
fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut lines = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = batch
                .columns()
                .iter()
                .map(|column| cell(column.as_ref(), row))
                .collect();
            lines.push(cells.join(" "));
        }
    }
    lines
}

fn cell(column: &dyn Array, row: usize) -> String {
    if column.is_null(row) {
        return "-".to_owned();
    }
    if let Some(times) = column.as_primitive_opt::<TimestampNanosecondType>() {
        return times.value(row).to_string();
    }
    if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
        return numbers.value(row).to_string();
    }
    if let Some(numbers) = column.as_primitive_opt::<Float64Type>() {
        return numbers.value(row).to_string();
    }
    if let Some(tags) = column.as_dictionary_opt::<Int32Type>() {
        let key = usize::try_from(tags.keys().value(row)).unwrap();
        return tags.values().as_string::<i32>().value(key).to_owned();
    }
    column.as_string::<i32>().value(row).to_owned()
}

/// Every state that the same rows can be in.
fn in_every_state(body: &[&str], check: impl Fn(&Arc<Engine>, &str)) {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    for part in body {
        write(&engine, part);
    }
    check(&engine, "head");
    drop(engine);
    let engine = open(&disk);
    check(&engine, "replayed head");
    engine.flush().unwrap();
    assert_eq!(engine.metrics().head_rows, 0);
    check(&engine, "one segment");
    drop(engine);
    check(&open(&disk), "reopened segment");

    let disk = MemoryDisk::new();
    let engine = open(&disk);
    for part in body {
        write(&engine, part);
        engine.flush().unwrap();
    }
    check(&engine, "a segment a part");
    drop(engine);

    let disk = MemoryDisk::new();
    let engine = open(&disk);
    for (at, part) in body.iter().enumerate() {
        write(&engine, part);
        if at == 0 {
            engine.flush().unwrap();
        }
    }
    check(&engine, "segment and head");
}

#[test]
fn rows_come_back_by_series_and_time() {
    let body = [
        "m,host=b v=2,i=7i 20\nm,host=a v=1.5 10\n",
        "m,host=a v=-0.5,s=\"x y\" 5\n",
    ];
    in_every_state(&body, |engine, state| {
        let expected = ["20 b 2 7 -", "5 a -0.5 - x y", "10 a 1.5 - -"];
        assert_eq!(rows(&scan(engine, |_| {})), expected, "{state}");
    });
}

#[test]
fn a_newer_write_wins_per_field_and_absent_fields_stay() {
    let body = [
        "m,host=a v=1,i=1i 10\nm,host=a v=2 10\n",
        "m,host=a i=3i 10\nm,host=a v=9 11\n",
        "m,host=a w=4 10\n",
    ];
    in_every_state(&body, |engine, state| {
        let expected = ["10 a 2 3 4", "11 a 9 - -"];
        assert_eq!(rows(&scan(engine, |_| {})), expected, "{state}");
    });
}

#[test]
fn tag_predicates_follow_presence() {
    let body = [
        "m,host=a,dc=x v=1 1\nm,host=b v=2 2\n",
        "m,dc=y v=3 3\nm v=4 4\n",
    ];
    let predicate = |values: &[Option<&str>], negated| TagPredicate {
        column: 2,
        matches: TagMatch::OneOf(values.iter().map(|v| v.map(str::to_owned)).collect()),
        negated,
    };
    // Tags are sorted by key when a point defines them, so column 1 is `dc` and column 2 is `host`.
    in_every_state(&body, |engine, state| {
        let find = |predicate: TagPredicate| {
            let batches = scan(engine, |request| {
                request.tags.push(predicate);
                request.projection = vec![3];
            });
            rows(&batches)
        };
        assert_eq!(find(predicate(&[Some("a")], false)), ["1"], "{state}");
        assert_eq!(
            find(predicate(&[Some("a")], true)),
            ["2", "3", "4"],
            "{state}"
        );
        assert_eq!(find(predicate(&[None], false)), ["3", "4"], "{state}");
        assert_eq!(
            find(predicate(&[None, Some("b")], false)),
            ["2", "3", "4"],
            "{state}"
        );
        assert_eq!(
            find(predicate(&[Some("nobody")], false)),
            [""; 0],
            "{state}"
        );
    });
}

#[test]
fn a_time_range_cuts_at_both_ends_inclusive() {
    let lines: String = (0..3000)
        .map(|t| format!("m,host=h{} v={t} {t}\n", t % 3))
        .collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    let cut = first.rfind('\n').unwrap() + 1;
    let rest = format!("{}{second}", &first[cut..]);
    in_every_state(&[&first[..cut], &rest], |engine, state| {
        for (from, to) in [(0, 2999), (10, 10), (1000, 1999), (2990, 9999), (-5, 2)] {
            let batches = scan(engine, |request| request.time = from..=to);
            let mut times: Vec<i64> = batches
                .iter()
                .flat_map(|batch| {
                    let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
                    times.values().to_vec()
                })
                .collect();
            times.sort_unstable();
            let expected: Vec<i64> = (from.max(0)..=to.min(2999)).collect();
            assert_eq!(times, expected, "{state} {from}..={to}");
        }
    });
}

#[test]
fn series_of_all_sizes_share_and_own_blocks_without_mixing() {
    let mut lines = String::new();
    for (host, count) in [
        (0, 1),
        (1, 127),
        (2, 128),
        (3, 5000),
        (4, 3),
        (5, 1024),
        (6, 1025),
        (7, 2),
    ] {
        for t in 0..count {
            lines.push_str(&format!("m,host=h{host} v={t} {}\n", t * 10));
        }
    }
    in_every_state(&[&lines], |engine, state| {
        let batches = scan(engine, |_| {});
        let total: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(total, 7310, "{state}");
        for host in 0..8 {
            let found = scan(engine, |request| {
                request.tags.push(TagPredicate {
                    column: 1,
                    matches: TagMatch::OneOf(vec![Some(format!("h{host}"))]),
                    negated: false,
                });
                request.projection = vec![2];
            });
            let values: Vec<f64> = found
                .iter()
                .flat_map(|batch| {
                    batch
                        .column(0)
                        .as_primitive::<Float64Type>()
                        .values()
                        .to_vec()
                })
                .collect();
            let count = [1, 127, 128, 5000, 3, 1024, 1025, 2][host];
            let expected: Vec<f64> = (0..count).map(f64::from).collect();
            assert_eq!(values, expected, "{state} host {host}");
        }
    });
}

/// Every batch once carried all values of a tag, whatever rows it had: a grouping by a tag of a million values looked at
/// each of them for each batch and took 28 seconds.
#[test]
fn a_batch_carries_no_more_tag_values_than_rows() {
    let mut lines = String::new();
    for host in 0..30_000 {
        lines.push_str(&format!("m,host=h{host},zone=z{} v=1 1\n", host % 2));
    }
    in_every_state(&[&lines], |engine, state| {
        let batches = scan(engine, |_| {});
        assert!(batches.len() > 1, "{state}");
        let mut hosts = Vec::new();
        for batch in &batches {
            for tag in ["host", "zone"] {
                let column = batch.column_by_name(tag).unwrap();
                let column = column.as_dictionary::<Int32Type>();
                assert!(column.values().len() <= batch.num_rows(), "{state}");
                assert_eq!(column.null_count(), 0, "{state}");
            }
            hosts.extend(rows(std::slice::from_ref(batch)));
        }
        let mut expected: Vec<String> = (0..30_000)
            .map(|host| format!("1 h{host} z{} 1", host % 2))
            .collect();
        hosts.sort();
        expected.sort();
        assert_eq!(hosts, expected, "{state}");
    });
}

#[test]
fn an_empty_projection_counts_rows() {
    in_every_state(&["m v=1 1\nm v=2 2\n", "m v=3 2\n"], |engine, state| {
        let batches = scan(engine, |request| request.projection.clear());
        let total: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(total, 2, "{state}");
    });
}

#[test]
fn rows_of_many_partitions_and_extreme_times_come_back() {
    let body = format!(
        "m v=1 {}\nm v=2 -1\nm v=3 0\nm v=4 {}\nm v=5 86400000000000\n",
        nilometer_lineproto::TIME_NS_MIN,
        nilometer_lineproto::TIME_NS_MAX
    );
    in_every_state(&[&body], |engine, state| {
        let values: Vec<String> = rows(&scan(engine, |request| request.projection = vec![1]));
        assert_eq!(values, ["1", "2", "3", "5", "4"], "{state}");
    });
}

#[test]
fn bad_lines_are_named_and_good_ones_kept() {
    let engine = open(&MemoryDisk::new());
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let body = "m,host=a v=1 1\nm,host= v=1 2\nm,host=a v=\"text\" 3\nm,host=a time=5 4\nm,time=x v=1 5\nm,host=a v=6,time=7i 6\n";
    let report = session
        .write_lines(body.as_bytes(), Precision::Nanosecond)
        .unwrap();
    assert_eq!(report.rows, 2);
    let reasons: Vec<(usize, &str, bool)> = report
        .rejected
        .iter()
        .map(|r| (r.line_number, r.reason.as_str(), r.parse))
        .collect();
    let stripped = "invalid field name: input field \"time\" on measurement \"m\" is invalid";
    assert_eq!(
        reasons,
        [
            (2, "missing tag value", true),
            (
                3,
                "field type conflict: input field \"v\" on measurement \"m\" is type string, already exists as type float",
                false
            ),
            (4, stripped, false),
            (
                5,
                "invalid tag key: input tag \"time\" on measurement \"m\" is invalid",
                false
            ),
            (6, stripped, false),
        ]
    );
    assert_eq!(rows(&scan(&engine, |_| {})), ["1 a 1", "6 a 6"]);
}

#[test]
fn a_refused_row_leaves_nothing_of_itself() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "m a=1,b=1i 1\n");
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let body = "m a=2,b=2i 2\nm a=3,b=3.5 3\nm a=4 4\nm b=5i 5\n";
    let report = session
        .write_lines(body.as_bytes(), Precision::Nanosecond)
        .unwrap();
    assert_eq!((report.rows, report.rejected_total), (3, 1));
    assert_eq!(
        rows(&scan(&engine, |_| {})),
        ["1 1 1", "2 2 2", "4 4 -", "5 - 5"]
    );
}

/// A device with a wrong type once shut out the good points of all others: its point was refused for one field, but had
/// given another, new one its type, and made a measurement and tags that nobody else has. InfluxDB 1.6.7, too, keeps the point
/// of 26 and refuses that of 50.
#[test]
fn a_refused_point_gives_no_new_name_a_type() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "m y=1.5 45\n");
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let mut rejected = |body: &str| -> Vec<usize> {
        let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
        let rejected = report.unwrap().rejected;
        rejected.iter().map(|line| line.line_number).collect()
    };
    // In one body, the conflict behind the new field and before it, on a new series with a new tag, and with a tag that is refused.
    let body = "m x=false,y=1250i 19\nm y=1250i,x=false 20\nm,host=a x=false,y=1i 21\nm x=1251i 26\nm x=false 50\n";
    assert_eq!(rejected(body), [1, 2, 3, 5]);
    // Over several bodies.
    assert_eq!(rejected("m z=1i,y=5i 20\nm,host=b z=1i,y=5i 20\n"), [1, 2]);
    assert_eq!(rejected("m z=\"s\" 21\n"), [0; 0]);
    // A point without a field, one with a text that is too long; of measurements that are new.
    let long = "x".repeat(nilometer_lineproto::FIELD_TEXT_BYTES_MAX + 1);
    let body = format!("n,host=a time=1 1\no a=1i,t=\"{long}\" 1\n");
    assert_eq!(rejected(&body), [1, 2]);

    let snapshot = engine.snapshot();
    let columns = |table: &str| -> Option<Vec<String>> {
        let table = snapshot.table("d", "public", table)?;
        let columns = table.tags.iter().chain(&table.fields);
        Some(columns.map(|column| column.name.clone()).collect())
    };
    assert_eq!(columns("n"), None);
    assert_eq!(columns("o"), None);
    assert_eq!(columns("m").unwrap(), ["y", "x", "z"]);
    assert_eq!(
        rows(&scan(&engine, |_| {})),
        ["21 - - s", "26 - 1251 -", "45 1.5 - -"]
    );
}

#[test]
fn a_snapshot_does_not_change_while_writes_and_flushes_go_on() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "m v=1 1\nm v=2 2\n");
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "m").unwrap();
    write(&engine, "m v=9 1\nm v=3 3\n");
    engine.flush().unwrap();
    write(&engine, "m v=8 2\n");
    let request = ScanRequest {
        table,
        projection: vec![0, 1],
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let batches: Vec<RecordBatch> = snapshot
        .scan(&request)
        .unwrap()
        .read(0)
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(rows(&batches), ["1 1", "2 2"]);
    assert_eq!(rows(&scan(&engine, |_| {})), ["1 9", "2 8", "3 3"]);
}

#[test]
fn a_directory_has_one_owner_and_strangers_are_refused() {
    let disk = MemoryDisk::new();
    let first = open(&disk);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let again = Engine::open(
        Arc::clone(&shared),
        Arc::new(SystemClock),
        Path::new("/d"),
        Options::default(),
    );
    assert!(matches!(again, Err(Error::Locked { .. })), "{again:?}");
    drop(first);
    drop(open(&disk));
    disk.create(Path::new("/other/holiday.jpg")).unwrap();
    let strange = Engine::open(
        shared,
        Arc::new(SystemClock),
        Path::new("/other"),
        Options::default(),
    );
    assert!(
        matches!(strange, Err(Error::NotAStore { .. })),
        "{strange:?}"
    );
}

#[test]
fn the_log_is_recycled_and_stays_below_its_cap() {
    let disk = MemoryDisk::new();
    let engine = Engine::open(
        Arc::new(disk.clone()),
        Arc::new(SystemClock),
        Path::new("/d"),
        Options {
            flush_rows: 500,
            log_bytes_max: 64 << 10,
            // So that each flush can be counted by its file.
            compaction: CompactionOptions {
                fan_in: usize::MAX,
                settle_ms: 0,
                ..CompactionOptions::default()
            },
            ..Options::default()
        },
    );
    let engine = Arc::new(engine.unwrap());
    for batch in 0..200 {
        let lines: String = (0..50)
            .map(|row| format!("m,host=h{row} v={batch} {batch}\n"))
            .collect();
        write(&engine, &lines);
        engine.maintain().unwrap();
    }
    assert!(engine.metrics().segments >= 15, "{:?}", engine.metrics());
    let names = disk.list(Path::new("/d/log")).unwrap();
    assert!(names.len() <= 16, "{names:?}");
    drop(engine);
    let engine = open(&disk);
    let total: usize = scan(&engine, |_| {})
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    assert_eq!(total, 10_000);
}

/// What is durable is visible, so its rows must all be in the head before another writer can make it durable. They
/// were put there after the log had them, and a snapshot could grow between two looks at it.
#[test]
fn a_snapshot_sees_a_batch_in_all_its_tables_or_in_none() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "a v=0 0\nb v=0 0\n");
    let at_work = std::sync::atomic::AtomicUsize::new(3);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (engine, at_work) = (&engine, &at_work);
            scope.spawn(move || {
                let mut session = Session::new(Arc::clone(engine), "d").unwrap();
                for time in 1..=500 {
                    let body = format!("a,w={writer} v=1 {time}\nb,w={writer} v=1 {time}\n");
                    session
                        .write_lines(body.as_bytes(), Precision::Nanosecond)
                        .unwrap();
                }
                at_work.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            });
        }
        while at_work.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            let snapshot = engine.snapshot();
            let [a, b] = ["a", "b"].map(|table| count(&snapshot, table));
            assert_eq!(a, b);
        }
    });
    assert_eq!(count(&engine.snapshot(), "b"), 1501);
}

fn count(snapshot: &Snapshot, table: &str) -> usize {
    let request = ScanRequest {
        table: snapshot.table("d", "public", table).expect("the table"),
        projection: Vec::new(),
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = snapshot.scan(&request).unwrap();
    (0..scan.morsels())
        .flat_map(|morsel| scan.read(morsel))
        .map(|batch| batch.unwrap().num_rows())
        .sum()
}
