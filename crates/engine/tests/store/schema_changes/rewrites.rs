//! Tags of a table that has rows: it has the same rows before and after, wherever they are, whoever writes and reads meanwhile.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampNanosecondType};
use nilometer_engine::disk::{CrashPlan, FaultyDisk, MemoryDisk};
use nilometer_engine::{DeleteRequest, Duplicates, Engine, Error, Options, SystemClock};

use super::{everywhere, lines, open, rows, scan_all, session, table, write};

/// Rows by hand: two of one time that only a field tells apart, one that lacks it, text that line protocol would quote.
const BODY: &str = "m,host=a room=\"hall\",level=7i,v=1.5 10\n\
    m,host=a room=\"a room, with a view\",level=-3i,v=2.5 20\n\
    m,host=b room=\"hall\",v=3.5 20\n\
    m level=9223372036854775807i,v=4.5,big=18446744073709551615u 30\n\
    m,host=b room=\"\u{fc}ber \\\"uns\\\"\",ok=true 86400000000040";

fn sorted(engine: &Arc<Engine>) -> Vec<String> {
    let mut rows = rows(engine);
    rows.sort();
    rows
}

fn rewrite(engine: &Arc<Engine>, columns: &[&str]) -> Result<(), Error> {
    let columns: Vec<String> = columns.iter().map(|it| (*it).to_owned()).collect();
    engine.rewrite_tags("d", "public", "m", &columns, false, &|| false)
}

fn tags(engine: &Arc<Engine>) -> Vec<String> {
    let table = table(engine, "m");
    table.tags.iter().map(|tag| tag.name.clone()).collect()
}

#[test]
fn a_table_that_is_rewritten_has_the_same_rows_wherever_they_are() {
    let expected = {
        let engine = open(&MemoryDisk::new());
        write(&engine, BODY);
        write(&engine, "m,host=a room=\"new\",v=9.5 50");
        sorted(&engine)
    };
    assert_eq!(expected.len(), 6);
    everywhere(
        |engine| write(engine, BODY),
        |engine| {
            let before = table(engine, "m");
            rewrite(engine, &["room", "level"]).unwrap();
            let after = table(engine, "m");
            assert_ne!(before.id, after.id);
            assert_eq!(before.kept_id(), after.kept_id());
            // What is done is done.
            rewrite(engine, &["room"]).unwrap();
            assert_eq!(table(engine, "m").id, after.id);
        },
        |engine| write(engine, "m,host=a,room=new v=9.5 50"),
        |engine, told| {
            assert_eq!(sorted(engine), expected, "{told}");
            let tags: BTreeSet<String> = tags(engine).into_iter().collect();
            let wanted = ["host", "room", "level"].map(str::to_owned);
            assert_eq!(tags, BTreeSet::from(wanted), "{told}");
            let names = engine.snapshot().tables("d", "public").unwrap();
            assert_eq!(names, ["m"], "{told}");
        },
    );
}

#[test]
fn a_table_keeps_its_id_for_others_through_several_rewrites() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    write(&engine, BODY);
    let first = table(&engine, "m").id;
    rewrite(&engine, &["room"]).unwrap();
    drop(engine);
    let engine = open(&disk);
    rewrite(&engine, &["level"]).unwrap();
    engine.flush().unwrap();
    drop(engine);
    let engine = open(&disk);
    assert_eq!(table(&engine, "m").kept_id(), first);
    // A copy in its place keeps what was set.
    let mut settings = table(&engine, "m").settings;
    settings.retention_ns = Some(i64::MAX - 1);
    engine.set_table("d", "public", "m", settings).unwrap();
    assert_eq!(
        engine.snapshot().retention_ns(first),
        Some(i64::MAX - 1),
        "it is known by the id that others keep"
    );
}

/// Copies were written in batches of 16,384 rows, which a store with a lower limit refused.
#[test]
fn rows_are_copied_in_batches_as_small_as_the_store_allows() {
    let options = Options {
        batch_rows_max: 3,
        batch_series_max: 2,
        ..Options::default()
    };
    let disk = Arc::new(MemoryDisk::new());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
    let engine = Arc::new(engine.unwrap());
    for at in 0..8 {
        write(&engine, &format!("m room=\"r{at}\",v=1 {at}"));
    }
    let before = sorted(&engine);
    assert_eq!(before.len(), 8);
    rewrite(&engine, &["room"]).unwrap();
    assert_eq!(sorted(&engine), before);
    assert_eq!(tags(&engine), ["room"]);
}

#[test]
fn rows_of_one_time_stay_apart_in_a_table_that_keeps_them() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "m room=\"a\",v=1 10");
    let mut settings = table(&engine, "m").settings;
    settings.duplicates = Duplicates::Keep;
    engine.set_table("d", "public", "m", settings).unwrap();
    write(
        &engine,
        "m room=\"a\",v=1 10\nm room=\"a\",v=2 10\nm room=\"b\",v=1 10",
    );
    let before = sorted(&engine);
    assert_eq!(before.len(), 4);
    rewrite(&engine, &["room"]).unwrap();
    assert_eq!(sorted(&engine), before);
}

#[test]
fn a_value_that_no_tag_has_is_refused_and_the_table_stays_as_it_was() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    write(&engine, "m room=\"a\",v=1 10\nm room=\"\",v=2 20");
    let before = (sorted(&engine), table(&engine, "m").id);
    let refused = rewrite(&engine, &["room"]).unwrap_err();
    assert!(
        matches!(&refused, Error::NoTagValue { time: 20, .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("empty text"), "{refused}");
    assert_eq!((sorted(&engine), table(&engine, "m").id), before);
    let long = "x".repeat(70_000);
    write(&engine, &format!("m note=\"{long}\" 30"));
    let refused = rewrite(&engine, &["note"]).unwrap_err();
    assert!(
        matches!(&refused, Error::NoTagValue { time: 30, .. }),
        "{refused}"
    );
    let refused = rewrite(&engine, &["v"]).unwrap_err();
    assert!(matches!(refused, Error::TypedColumn { .. }), "{refused}");
    // And it can be done once the rows allow it.
    let request = DeleteRequest {
        table: table(&engine, "m"),
        time: 20..=30,
        tags: Vec::new(),
    };
    engine.delete(&request).unwrap();
    rewrite(&engine, &["room", "note"]).unwrap();
    assert_eq!(rows(&engine), ["d.public.m room=a time=10 v=1.0"]);
}

/// A dropped tag goes on telling rows apart. Written anew without it, two rows of one time would be one, and a value be lost.
#[test]
fn rows_that_a_dropped_tag_tells_apart_are_not_made_one() {
    let body = "m,host=a room=\"r\",v=1 10\nm,host=b room=\"r\",v=2 10";
    let engine = open(&MemoryDisk::new());
    write(&engine, body);
    engine.drop_column("d", "public", "m", "host").unwrap();
    let before = sorted(&engine);
    assert_eq!(before.len(), 2);
    let refused = rewrite(&engine, &["room"]).unwrap_err();
    assert!(matches!(refused, Error::HiddenTag { .. }), "{refused}");
    assert_eq!(sorted(&engine), before);
    // Where rows of one time are several anyway, nothing is lost.
    let engine = open(&MemoryDisk::new());
    write(&engine, "m,host=a room=\"r\",v=0 5");
    let mut settings = table(&engine, "m").settings;
    settings.duplicates = Duplicates::Keep;
    engine.set_table("d", "public", "m", settings).unwrap();
    write(&engine, body);
    engine.drop_column("d", "public", "m", "host").unwrap();
    let before = sorted(&engine);
    rewrite(&engine, &["room"]).unwrap();
    assert_eq!(sorted(&engine), before);
    assert_eq!(before.len(), 3);
}

#[test]
fn another_rewrite_of_the_same_table_is_refused_by_name() {
    let engine = open(&MemoryDisk::new());
    write(&engine, BODY);
    let is_done = AtomicBool::new(false);
    let refused = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                match rewrite(&engine, &["level"]) {
                    Err(Error::RewriteRunning { table }) => {
                        assert_eq!(table, "m");
                        refused.store(true, Ordering::Relaxed);
                    }
                    other => other.unwrap(),
                }
                let reports = engine.rewrites();
                assert!(reports.iter().all(|it| it.table[2] == "m"));
            }
        });
        rewrite_until_done(&engine);
        is_done.store(true, Ordering::Relaxed);
    });
    let tags: BTreeSet<String> = tags(&engine).into_iter().collect();
    assert!(tags.contains("room"), "{tags:?}");
    assert_eq!(engine.rewrites(), []);
}

/// A rewrite could not be ended: whoever had asked for one of a large table waited for it, or killed the server.
#[test]
fn a_rewrite_that_is_stopped_anywhere_leaves_the_table_as_it_was() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    let day = 86_400_000_000_000_i64;
    let lines =
        (0..120_000_i64).map(|n| format!("m room=\"r{}\",v={n}i {}\n", n % 7, n * (day / 1000)));
    let lines: Vec<String> = lines.collect();
    for body in lines.chunks(25_000) {
        write(&engine, &body.concat());
    }
    let (id, before) = (table(&engine, "m").id, values(&engine));
    assert_eq!(before.len(), 120_000);
    let mut stopped = 0;
    // It is asked before all of it, before each part of the rows, and before the copy takes the place of the table.
    let mut allowed = 0_usize;
    loop {
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) >= allowed;
        let done = engine.rewrite_tags("d", "public", "m", &["room".to_owned()], false, &stop);
        match done {
            Err(Error::RewriteStopped { table }) => assert_eq!(table, "m"),
            other => {
                other.unwrap();
                break;
            }
        }
        stopped += 1;
        allowed = allowed * 2 + 1;
        assert_eq!(table(&engine, "m").id, id);
        assert_eq!(values(&engine), before);
        assert_eq!(engine.rewrites(), []);
        assert_eq!(engine.snapshot().tables("d", "public").unwrap(), ["m"]);
    }
    assert!(stopped >= 3, "{stopped}");
    assert_eq!(tags(&engine), ["room"]);
    assert_eq!(values(&engine), before);
    drop(engine);
    assert_eq!(values(&open(&disk)), before);
}

fn rewrite_until_done(engine: &Arc<Engine>) {
    loop {
        match rewrite(engine, &["room"]) {
            Err(Error::RewriteRunning { .. }) => {}
            other => return other.unwrap(),
        }
    }
}

/// The values of `v` in one moment.
fn values(engine: &Arc<Engine>) -> Vec<(i64, i64)> {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "m").unwrap();
    let at = |name: &str| table.arrow_schema().index_of(name).unwrap();
    let mut request = scan_all(Arc::clone(&table));
    request.projection = vec![0, at("v")];
    let scan = snapshot.scan(&request).unwrap();
    let mut found = Vec::new();
    for batch in (0..scan.morsels()).flat_map(|morsel| scan.read(morsel)) {
        let batch = batch.unwrap();
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        let values = batch.column(1).as_primitive::<Int64Type>();
        let rows = (0..batch.num_rows()).map(|row| (times.value(row), values.value(row)));
        found.extend(rows);
    }
    found.sort_unstable();
    found
}

/// Writers add rows, some of them late, and change and delete earlier ones, while the table is rewritten again and again with other
/// tags. At every moment a reader sees every row that was acknowledged before it looked, and none twice.
#[test]
fn readers_and_writers_go_on_while_a_table_is_rewritten() {
    let engine = open(&MemoryDisk::new());
    write(&engine, "m room=\"r0\",shelf=\"s0\",box=\"b0\",v=-1i 0");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut session = session(&engine, "d");
            let mut n = 1_i64;
            while !is_done.load(Ordering::Relaxed) || n < 200 {
                // Every fifth row is a late one; times are multiples of a second, so that they are ranges of their own.
                let time = if n % 5 == 0 { -n } else { n } * 1_000_000_000;
                let tagged = engine.snapshot().table("d", "public", "m").unwrap();
                let column = |name: &str| {
                    let is_tag = tagged.tags.iter().any(|tag| tag.name == name);
                    (is_tag, format!("{name}{}", n % 7))
                };
                let (mut key, mut fields) = ("m".to_owned(), format!("v={n}i"));
                for name in ["box", "room", "shelf"] {
                    match column(name) {
                        (true, value) => key += &format!(",{name}={value}"),
                        (false, value) => fields += &format!(",{name}=\"{value}\""),
                    }
                }
                lines(&mut session, &format!("{key} {fields} {time}"));
                let own = values(&engine);
                let count = own.iter().filter(|it| it.1 == n).count();
                assert_eq!(
                    count, 1,
                    "the row {n} is there once after it was acknowledged"
                );
                if n % 11 == 0 {
                    // The oldest rows go.
                    let request = DeleteRequest {
                        table: engine.snapshot().table("d", "public", "m").unwrap(),
                        time: i64::MIN..=-1,
                        tags: Vec::new(),
                    };
                    match engine.delete(&request) {
                        Ok(_) => {
                            let left = values(&engine);
                            assert!(left.iter().all(|it| it.0 >= 0), "{left:?}");
                        }
                        // The table was another one a moment later; nothing was deleted.
                        Err(Error::TableRewritten { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
                n += 1;
            }
            n
        });
        let reader = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let found = values(&engine);
                let mut distinct: Vec<i64> = found.iter().map(|it| it.1).collect();
                distinct.sort_unstable();
                let rows = distinct.len();
                distinct.dedup();
                assert_eq!(distinct.len(), rows, "a row is there twice");
            }
        });
        for column in ["room", "shelf", "box"] {
            rewrite(&engine, &[column]).unwrap();
            engine.flush().unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        let last = writer.join().unwrap();
        reader.join().unwrap();
        assert!(last >= 200);
    });
    let found = values(&engine);
    let present: BTreeSet<i64> = found.iter().map(|it| it.1).collect();
    let expected = (1..200).filter(|n| n % 5 != 0);
    for n in expected {
        assert!(present.contains(&n), "the row {n} is gone");
    }
    assert_eq!(tags(&engine).len(), 3);
}

fn open_faulty(disk: &FaultyDisk) -> Arc<Engine> {
    let (disk, dir) = (Arc::new(disk.clone()), Path::new("/d"));
    let opened = Engine::open(disk, Arc::new(SystemClock), dir, Options::default());
    Arc::new(opened.unwrap())
}

/// The copy of a table that a power cut has left, under the name that nobody else may give.
fn has_copy(engine: &Arc<Engine>, of: u32) -> bool {
    let name = format!("\u{1}{of}");
    engine.snapshot().table("d", "public", &name).is_some()
}

#[test]
fn a_copy_that_a_power_cut_has_left_goes_with_the_first_maintenance() {
    let (mut left, mut done) = (0, 0);
    for crash_at in 1.. {
        let disk = FaultyDisk::new(3, CrashPlan::default());
        let engine = open_faulty(&disk);
        write(&engine, BODY);
        let before = sorted(&engine);
        let id = table(&engine, "m").id.0;
        disk.set_plan(CrashPlan {
            crash_at: Some(crash_at),
            ..CrashPlan::default()
        });
        let is_over = rewrite(&engine, &["room"]).is_ok();
        drop(engine);
        let disk = disk.after_power_cut(crash_at, CrashPlan::default());
        let engine = open_faulty(&disk);
        assert_eq!(sorted(&engine), before, "call {crash_at}");
        assert_eq!(engine.snapshot().tables("d", "public").unwrap(), ["m"]);
        let found = has_copy(&engine, id);
        left += usize::from(found);
        done += usize::from(table(&engine, "m").id.0 != id);
        engine.maintain().unwrap();
        assert!(!has_copy(&engine, id), "call {crash_at}");
        // It can be done now, or was.
        rewrite(&engine, &["room"]).unwrap();
        assert_eq!(sorted(&engine), before, "call {crash_at}");
        if is_over {
            break;
        }
    }
    assert!(left > 1 && done > 0, "left {left} times, done {done} times");
}
