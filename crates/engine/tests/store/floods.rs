//! Promise: a store that is flooded with names stays small, refuses what it has no room for by the limit's name, and goes on.
//!
//! A hundred thousand tables once took four kilobytes each, and twenty thousand tags of a table a place for each of its
//! series in each of them: no query had memory left afterwards, and the next flush took all that the machine had.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    ColumnKind, Engine, Error, NewColumn, Options, ScanRequest, SystemClock, TableSettings,
};
use nilometer_lineproto::Precision;

const MIB: u64 = 1 << 20;

fn open(disk: &MemoryDisk, options: Options) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Arc::new(Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options).unwrap())
}

/// A store with the database `d` that may have so much memory.
fn with_memory(bytes: u64) -> Arc<Engine> {
    let options = Options {
        memory_bytes_max: bytes,
        ..Options::default()
    };
    let engine = open(&MemoryDisk::new(), options);
    engine.create_database("d").unwrap();
    engine
}

fn write(engine: &Arc<Engine>, body: &str) -> Result<u64, Error> {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond)?;
    assert_eq!(report.rejected, []);
    Ok(report.rows)
}

fn tables(first: usize, count: usize) -> String {
    (first..first + count).fold(String::new(), |mut text, n| {
        writeln!(text, "table_{n} v=1 {n}").unwrap();
        text
    })
}

/// One series a tag, and each tag of one series.
fn tags(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        writeln!(text, "tagged,t{n}=a v=1 {n}").unwrap();
        text
    })
}

/// Rows of a table, and how many values its tags have in them; every column is asked for.
fn read(engine: &Arc<Engine>, table: &str) -> (usize, usize) {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", table).unwrap();
    let columns = table.arrow_schema().fields().len();
    let tags = table.tags.len();
    let request = ScanRequest {
        table,
        projection: (0..columns).collect(),
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = snapshot.scan(&request).unwrap();
    let (mut rows, mut values) = (0, 0);
    for batch in (0..scan.morsels()).flat_map(|at| scan.read(at)) {
        let batch = batch.unwrap();
        // A batch has a place for each row in each column.
        assert!(
            batch.num_rows() * columns <= 1 << 21,
            "{}",
            batch.num_rows()
        );
        rows += batch.num_rows();
        let tags = batch.columns().get(1..=tags).unwrap();
        values += tags
            .iter()
            .map(|tag| tag.len() - tag.null_count())
            .sum::<usize>();
    }
    (rows, values)
}

#[test]
fn a_tag_that_one_series_has_costs_what_one_value_costs() {
    const TAGS: usize = 3_000;
    let disk = MemoryDisk::new();
    let options = || Options {
        memory_bytes_max: 64 * MIB,
        ..Options::default()
    };
    let engine = open(&disk, options());
    engine.create_database("d").unwrap();
    assert_eq!(write(&engine, &tags(TAGS)).unwrap(), TAGS as u64);
    // A byte for each series in each tag would be 9 MB.
    let bytes = engine.metrics().memory_index_bytes;
    assert!(bytes < 4 * MIB, "{bytes} in memory");
    assert_eq!(read(&engine, "tagged"), (TAGS, TAGS));
    engine.flush().unwrap();
    assert_eq!(read(&engine, "tagged"), (TAGS, TAGS));
    // What no writer remembers any more is found in the file.
    drop(engine);
    let engine = open(&disk, options());
    assert_eq!(write(&engine, &tags(100)).unwrap(), 100);
    let metrics = engine.metrics();
    assert_eq!((metrics.series, metrics.memory_refusals), (TAGS as u64, 0));
    assert_eq!(read(&engine, "tagged"), (TAGS, TAGS));
}

#[test]
fn a_table_takes_so_many_tags_and_who_writes_more_is_told() {
    let disk = MemoryDisk::new();
    let options = Options {
        table_tags_max: 10,
        ..Options::default()
    };
    let engine = open(&disk, options);
    engine.create_database("d").unwrap();
    assert_eq!(write(&engine, &tags(10)).unwrap(), 10);
    let told = |outcome: Result<(), Error>| {
        let error = outcome.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Limit {
                    limit: 10,
                    needed: 11,
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.to_string().contains("tags of one table"), "{error}");
    };
    told(write(&engine, &tags(11)).map(drop));
    told(write(&engine, "other v=1 1\ntagged,t3=b,new=c v=1 1\n").map(drop));
    let tag = |name| NewColumn {
        name,
        kind: ColumnKind::Tag,
    };
    told(
        engine
            .add_column("d", "public", "tagged", tag("new"))
            .map(drop),
    );
    let names: Vec<String> = (0..11).map(|n| format!("t{n}")).collect();
    let columns: Vec<NewColumn<'_>> = names.iter().map(|name| tag(name)).collect();
    let settings = TableSettings::default();
    told(
        engine
            .create_table("d", "public", "wide", &columns, settings)
            .map(drop),
    );
    // Nothing of the refused bodies was kept, and what needs no new tag is taken.
    assert_eq!(read(&engine, "tagged"), (10, 10));
    assert_eq!(write(&engine, "tagged,t3=b,t4=c v=1 1\n").unwrap(), 1);
    let field = NewColumn {
        name: "w",
        kind: ColumnKind::Field(nilometer_codec::PhysicalType::I64),
    };
    assert!(engine.add_column("d", "public", "tagged", field).unwrap());
}

#[test]
fn names_are_in_the_memory_budget_and_a_body_that_does_not_fit_is_refused_whole() {
    let engine = with_memory(16 * MIB);
    let error = write(&engine, &tables(0, 40_000)).unwrap_err();
    assert!(matches!(error, Error::Memory { .. }), "{error}");
    let text = error.to_string();
    for part in ["index", "memory_bytes_max", "tables"] {
        assert!(text.contains(part), "{text}");
    }
    let metrics = engine.metrics();
    assert_eq!((metrics.rows_written, metrics.series), (0, 0));
    assert!(metrics.memory_index_bytes <= 8 * MIB, "{metrics:?}");
    // Tables that are there are written, also after the store was opened again, and dropping makes room for others.
    assert_eq!(write(&engine, &tables(0, 500)).unwrap(), 500);
    engine.drop_database("d").unwrap();
    engine.create_database("d").unwrap();
    assert_eq!(write(&engine, &tables(100_000, 1_000)).unwrap(), 1_000);
    engine.flush().unwrap();
    assert_eq!(read(&engine, "table_100999"), (1, 0));
}

/// The story: the new series of a body are in memory beside the budget while the body is read. 240,000 of them with tags of a hundred
/// bytes took 130 MB more than the budget knew of, and a server of 512 MiB that was busy with a flood came within 11 MiB of
/// its end.
#[test]
fn new_series_are_in_the_memory_budget_while_their_body_is_read() {
    let engine = with_memory(16 * MIB);
    let series = |from: usize, to: usize| {
        (from..to).fold(String::new(), |mut text, n| {
            writeln!(text, "long,id={n:0100} v=1 {n}").unwrap();
            text
        })
    };
    // 40,000 need less than the index may have, 8 MiB, and more than the 4 MiB of bodies at work.
    let body = series(0, 40_000);
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    let error = session
        .write_lines(body.as_bytes(), Precision::Nanosecond)
        .unwrap_err();
    let text = error.to_string();
    for part in [
        "memory for batch",
        "4194304",
        "memory_bytes_max",
        "fewer new series",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let metrics = engine.metrics();
    assert_eq!((metrics.rows_written, metrics.series), (0, 0));
    assert_eq!(metrics.memory_batch_bytes, 0);
    for from in (0..40_000).step_by(10_000) {
        let body = series(from, from + 10_000);
        let report = session
            .write_lines(body.as_bytes(), Precision::Nanosecond)
            .unwrap();
        assert_eq!((report.rows, report.rejected), (10_000, Vec::new()));
        assert_eq!(engine.metrics().memory_batch_bytes, 0);
    }
    assert_eq!(read(&engine, "long"), (40_000, 40_000));
}

/// The story: a million new series in one body took 150 MB until the last line was read, and only then were they too many; in
/// a control group of 512 MiB the server was killed for it. What a body of known series takes is not the limit's.
#[test]
fn too_many_new_series_are_refused_before_the_body_is_read_to_its_end() {
    let options = Options {
        batch_series_max: 1000,
        ..Options::default()
    };
    let disk = MemoryDisk::default();
    let engine = open(&disk, options.clone());
    engine.create_database("d").unwrap();
    let series = |from: usize, to: usize| {
        (from..to).fold(String::new(), |mut text, n| {
            writeln!(text, "m,id={n} v=1 {n}").unwrap();
            text
        })
    };
    let error = write(&engine, &series(0, 20_000)).unwrap_err();
    let Error::Limit { limit, needed, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(limit, 1000);
    assert!(needed <= 1500, "{needed} were read");
    for from in (0..5000).step_by(1000) {
        assert_eq!(write(&engine, &series(from, from + 1000)).unwrap(), 1000);
    }
    drop(engine);
    // Every series has to be looked up in a store that was just opened, and most are known to it.
    let engine = open(&disk, options);
    assert_eq!(write(&engine, &series(0, 5500)).unwrap(), 5500);
    assert!(write(&engine, &series(0, 9000)).is_err());
}
