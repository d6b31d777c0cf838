//! Promise: an inspection says where every byte of a data directory is, and changes nothing.

#![expect(
    clippy::unwrap_used,
    clippy::format_collect,
    reason = "a failed unwrap is the report, and the bodies are small"
)]

use std::path::Path;
use std::sync::Arc;

use nilometer_codec::{Encoding, PhysicalType};
use nilometer_engine::disk::{Disk, RealDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::inspect::{ColumnRole, InspectedColumn, InspectedHome, inspect};
use nilometer_engine::{Engine, Error, Options};
use nilometer_lineproto::Precision;

fn write(engine: &Arc<Engine>, body: &str) {
    engine.create_database("d").unwrap();
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session.write_lines(body.as_bytes(), Precision::Second);
    assert_eq!(report.unwrap().rejected, []);
}

/// Paths, sizes and times of change of everything in a folder.
fn files(dir: &Path) -> Vec<(String, u64, std::time::SystemTime)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let meta = path.metadata().unwrap();
            let path = path.to_str().unwrap().to_owned();
            all.push((path, meta.len(), meta.modified().unwrap()));
        }
    }
    all.sort();
    all
}

fn size_of(dir: &Path, ending: &str) -> u64 {
    let all = files(dir).into_iter();
    let ours = all.filter(|(path, _, _)| path.ends_with(ending));
    ours.map(|(_, size, _)| size).sum()
}

#[test]
fn every_byte_of_a_running_store_has_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Arc::new(Engine::open_dir(dir.path(), Options::default()).unwrap());
    let own: String = (0..2000)
        .map(|at| format!("m,h=a v={}i,w={at} {}\n", at % 50, 3 * at))
        .collect();
    let few: String = (0..60)
        .map(|at| format!("m,h=b{} v={at}i {at}\n", at % 3))
        .collect();
    write(&engine, &own);
    write(&engine, &few);
    write(&engine, "other s=\"x\" 5\n");
    engine.flush().unwrap();
    write(&engine, "m,h=a u=1u 5000\n");
    engine.flush().unwrap();
    let before = files(dir.path());
    let found = inspect(&RealDisk, dir.path()).unwrap();
    assert_eq!(files(dir.path()), before);

    let [first, second] = found.segments.as_slice() else {
        panic!("{:?}", found.segments)
    };
    assert_eq!((first.rows, first.groups), (2061, 2));
    assert_eq!((first.own_blocks, first.shared_blocks), (3, 1));
    assert_eq!((second.rows, second.own_blocks), (1, 1));
    assert_eq!(first.home, InspectedHome::Mixed);
    assert!(first.max_lsn < second.min_lsn);
    assert!(first.statistics_bytes > 0 && first.rollup_bytes > 0);
    assert!(second.rest_bytes() > 104);
    assert_eq!(found.flushed_lsn, second.max_lsn);

    let bytes = found.bytes;
    let segments: u64 = found.segments.iter().map(|segment| segment.bytes).sum();
    assert_eq!(segments, size_of(dir.path(), ".seg"));
    // The second flush wrote the definitions of the first again with its own; the first file goes with the next flush.
    let replaced = size_of(dir.path(), "0000000000000001.def");
    assert!(replaced > 0);
    let names = size_of(dir.path(), ".def") - replaced + size_of(dir.path(), ".idx");
    assert_eq!(bytes.index, names);
    let log = size_of(dir.path(), ".log") + size_of(dir.path(), "durable");
    assert_eq!(bytes.log, log);
    let manifest = size_of(dir.path(), "manifest");
    assert_eq!(bytes.total(), segments + bytes.index + manifest);

    let [m, other] = found.tables.as_slice() else {
        panic!("{:?}", found.tables)
    };
    assert_eq!(m.name, Some(["d", "public", "m"].map(str::to_owned)));
    assert_eq!((m.rows, other.rows), (2061, 1));
    let columns: Vec<_> = m
        .columns
        .iter()
        .map(|column| (column.name.as_deref(), column.kind, column.values()))
        .collect();
    assert_eq!(
        columns,
        [
            (Some("time"), PhysicalType::I64, 2061),
            (None, PhysicalType::I64, 60),
            (Some("v"), PhysicalType::I64, 2060),
            (Some("w"), PhysicalType::F64, 2000),
            (Some("u"), PhysicalType::U64, 1),
        ]
    );
    assert_eq!(m.columns[1].role, ColumnRole::Series);
    // Evenly spaced times of two own blocks are a stride each; a single time is a constant.
    let strides = m.columns[0]
        .encodings
        .iter()
        .find(|used| used.encoding == Encoding::Stride);
    assert_eq!(strides.unwrap().values, 2000);
    assert!(m.columns[0].bytes_per_value().unwrap() < 0.2);
    let all = found.tables.iter().flat_map(|table| &table.columns);
    assert_eq!(all.map(InspectedColumn::bytes).sum::<u64>(), bytes.pages);
}

#[test]
fn damage_and_strange_folders_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        inspect(&RealDisk, dir.path()),
        Err(Error::Io { .. })
    ));
    let engine = Arc::new(Engine::open_dir(dir.path(), Options::default()).unwrap());
    assert_eq!(inspect(&RealDisk, dir.path()).unwrap().segments, []);
    write(&engine, "m v=1 1\n");
    engine.close().unwrap();
    drop(engine);
    let (path, _, _) = files(dir.path())
        .into_iter()
        .find(|(path, _, _)| path.contains("/segments/"))
        .unwrap();
    let file = RealDisk.open(Path::new(&path)).unwrap();
    file.write_at(b"damage", 64).unwrap();
    let error = inspect(&RealDisk, dir.path()).unwrap_err();
    assert!(error.to_string().contains(&path), "{error}");
}
