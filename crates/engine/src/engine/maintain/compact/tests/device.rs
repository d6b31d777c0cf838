//! A store that has a file of a device's pages: it is read as any other, and a compaction makes rows of it.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType};
use nilometer_lineproto::Precision;

use super::super::*;
use crate::clock::SystemClock;
use crate::compaction::CompactionOptions;
use crate::disk::{Disk, MemoryDisk};
use crate::engine::{Engine, Options};
use crate::ingest::Session;
use crate::kept_page::{BlockPlace, KeptPage};
use crate::{AggregateRequest, AggregateValue, ScanRequest};

const HOUR: i64 = 3_600_000_000_000;
/// Time of the first row of the golden page, whose rows are ten seconds apart.
const START: i64 = 1_700_000_000_000_000_000;

fn open(disk: &MemoryDisk) -> Arc<Engine> {
    let options = Options {
        flush_idle_ms: 0,
        // So few rows are worth a partition.
        compaction: CompactionOptions {
            fan_in: 2,
            partition_rows_min: 1,
            settle_ms: 0,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
    Arc::new(engine.unwrap())
}

fn write(engine: &Arc<Engine>, body: &str) {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
}

/// Adds a file of the golden page `one_series`, which comes twice, the second time with its clock an hour later.
fn add_device_pages(engine: &Arc<Engine>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/device-1");
    let page = std::fs::read(folder.join("one_series.bin")).unwrap();
    let table = engine.snapshot().table("d", "public", "climate").unwrap();
    let segments = engine.snapshot().moment().state.version.segments.clone();
    let groups = || segments.iter().flat_map(|it| it.groups(table.id));
    let (_, group) = groups().next().unwrap();
    let series = group.first_series;
    assert_eq!(group.last_series, series);
    let id = |name: &str| table.fields.iter().find(|it| it.name == name).unwrap().id;
    let file_id = engine.jobs.new_file_id();
    let site = engine.jobs.site();
    let path = segment_dir(Path::new("/d")).join(segment_name(file_id));
    let mut writer = site.device_writer(&path, file_id).unwrap();
    let place = BlockPlace {
        table: table.id,
        series,
        columns: vec![id("temperature"), id("humidity")],
    };
    let kept = |start_ns: i64| KeptPage {
        bytes: page.as_slice().into(),
        start_ns,
        blocks: vec![Some(place.clone())],
    };
    writer.write_device_pages(&[kept(0), kept(HOUR)]).unwrap();
    let (bytes, rows) = writer.finish(true).unwrap();
    // Of the row in another table that was flushed last.
    let lsn = engine.metrics().visible_lsn;
    let meta = SegmentMeta {
        file_id,
        bytes,
        rows,
        min_lsn: lsn,
        max_lsn: lsn,
        applied_lsn: lsn,
        home: Home::Mixed,
    };
    let cache = site.segment_cache();
    let segment = Segment::open(cache, path, site.uuid(), meta.clone()).unwrap();
    let mut balance = Balance::default();
    balance.of(table.id).read = rows;
    let edit = Edit {
        added_segments: vec![meta],
        ..Edit::default()
    };
    let published = Published::Compaction(balance);
    engine
        .jobs
        .publish(edit, &[Arc::new(segment)], published)
        .unwrap();
}

/// Time, temperature and humidity of each row, by time.
fn rows(engine: &Arc<Engine>) -> Vec<(i64, f64, f64)> {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "climate").unwrap();
    let schema = table.arrow_schema();
    let place = |name: &str| schema.index_of(name).unwrap();
    let scan = snapshot
        .scan(&ScanRequest {
            projection: vec![place("time"), place("temperature"), place("humidity")],
            table,
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            limit: None,
        })
        .unwrap();
    let mut rows = Vec::new();
    for batch in (0..scan.morsels()).flat_map(|morsel| scan.read(morsel)) {
        let batch = batch.unwrap();
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        let values = |at: usize| batch.column(at).as_primitive::<Float64Type>().values();
        let both = values(1).iter().zip(values(2));
        let both = times.values().iter().zip(both);
        rows.extend(both.map(|(time, (one, other))| (*time, *one, *other)));
    }
    rows
}

/// The rows that the golden page was packed from: `make.py` beside it has the formulas.
fn expected() -> Vec<(i64, f64, f64)> {
    let of_page = |shift: i64| {
        (0..40_i32).map(move |at| {
            let temperature = f64::from(340 + at * at % 32) / 16.0;
            let humidity = f64::from(2000 + at * 37 % 64) / 100.0;
            (
                START + shift + i64::from(at) * 10_000_000_000,
                temperature,
                humidity,
            )
        })
    };
    let first = (START - HOUR, 1.5, 2.5);
    [first]
        .into_iter()
        .chain(of_page(0))
        .chain(of_page(HOUR))
        .collect()
}

#[test]
fn a_store_reads_pages_of_a_device_and_makes_rows_of_them() {
    let disk = MemoryDisk::new();
    let engine = open(&disk);
    engine.create_database("d").unwrap();
    let first = START - HOUR;
    write(
        &engine,
        &format!("climate,room=attic,sensor=7 temperature=1.5,humidity=2.5 {first}"),
    );
    engine.flush().unwrap();
    write(&engine, "other v=1 5");
    engine.flush().unwrap();
    add_device_pages(&engine);
    assert_eq!(rows(&engine), expected());
    engine.close().unwrap();
    drop(engine);

    let engine = open(&disk);
    assert_eq!(engine.quarantined(), []);
    assert_eq!(rows(&engine), expected());
    check_aggregates(&engine);
    check_inspection(&disk);
    engine.settle().unwrap();
    assert_eq!(rows(&engine), expected());
    check_aggregates(&engine);
    let segments = engine.snapshot().moment().state.version.segments.clone();
    let table = engine.snapshot().table("d", "public", "climate").unwrap();
    let mut homes = segments
        .iter()
        .filter(|it| it.groups(table.id).next().is_some());
    assert!(homes.all(|it| it.meta.home != Home::Mixed));
    for (segment, group) in segments
        .iter()
        .flat_map(|it| it.groups(table.id).map(move |group| (it, group.0)))
    {
        assert!(segment.directory(group).unwrap().units.is_empty());
    }
}

/// Counts and greatest temperatures by hour, of which the last two have pages only.
fn check_aggregates(engine: &Arc<Engine>) {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "climate").unwrap();
    let place = table.arrow_schema().index_of("temperature").unwrap();
    let aggregation = snapshot
        .aggregate(&AggregateRequest {
            table,
            fields: vec![place],
            // Cuts the first page in the middle.
            time: START + 95_000_000_000..=i64::MAX,
            tags: Vec::new(),
            bucket_ns: Some(HOUR),
        })
        .unwrap();
    let mut wanted = BTreeMap::new();
    for (time, temperature, _) in expected() {
        if time >= START + 95_000_000_000 {
            let bucket = time.div_euclid(HOUR) * HOUR;
            let (count, greatest) = wanted.entry(bucket).or_insert((0_u64, f64::MIN));
            *count += 1;
            *greatest = f64::max(*greatest, temperature);
        }
    }
    let found = aggregation.read_all().unwrap().rows;
    let found: BTreeMap<i64, (u64, f64)> = found
        .iter()
        .map(|row| {
            let field = row.fields[0].as_ref().unwrap();
            let AggregateValue::Float(greatest) = field.max else {
                panic!("{field:?}");
            };
            (row.bucket, (field.count, greatest))
        })
        .collect();
    assert_eq!(found, wanted);
    assert!(found.len() >= 2);
}

fn check_inspection(disk: &MemoryDisk) {
    let found = crate::inspect::inspect(disk, Path::new("/d")).unwrap();
    let tables = found.tables.iter();
    let climate = tables.filter(|it| it.name.as_ref().is_some_and(|name| name[2] == "climate"));
    let climate: Vec<_> = climate.collect();
    assert_eq!((climate.len(), climate[0].rows), (1, 81));
    let of_devices = found.segments.iter().map(|it| it.device_pages);
    assert_eq!(of_devices.sum::<u64>(), 2);
    let temperature = climate[0].columns.iter();
    let mut temperature = temperature.filter(|it| it.name.as_deref() == Some("temperature"));
    let dyadic = temperature.next().unwrap().encodings.iter();
    let dyadic: u64 = dyadic
        .filter(|it| it.encoding == nilometer_codec::Encoding::Dyadic)
        .map(|it| it.values)
        .sum();
    assert!(dyadic >= 80, "{dyadic}");
}
