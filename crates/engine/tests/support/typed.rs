//! What the tests of typed writes need: a store in memory with one table, batches from cells, and rows as text.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::{OnConflict, Session, Target, TypedReport};
use nilometer_engine::{
    ColumnKind, Duplicates, Engine, Error, NewColumn, Options, ScanRequest, Snapshot, SystemClock,
    TableSchema, TableSettings,
};

/// Opens the store of a disk.
pub(crate) fn open(disk: &MemoryDisk) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = Options::default();
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
    Arc::new(engine.expect("the store opens"))
}

/// Makes the table `m` of database `d` with tags `host` and `disk`, and a field of each type.
pub(crate) fn make_table(engine: &Engine, duplicates: Duplicates) {
    engine.create_database("d").expect("a database");
    let field = |name, kind| NewColumn {
        name,
        kind: ColumnKind::Field(kind),
    };
    let tag = |name| NewColumn {
        name,
        kind: ColumnKind::Tag,
    };
    let columns = [
        tag("host"),
        tag("disk"),
        field("busy", PhysicalType::F64),
        field("count", PhysicalType::I64),
        field("size", PhysicalType::U64),
        field("up", PhysicalType::Bool),
        field("note", PhysicalType::Text),
        field("raw", PhysicalType::Bytes),
    ];
    let settings = TableSettings {
        duplicates,
        ..TableSettings::default()
    };
    engine
        .create_table("d", "public", "m", &columns, settings)
        .expect("a table");
}

/// A store with the table.
pub(crate) fn store(duplicates: Duplicates) -> Arc<Engine> {
    let engine = open(&MemoryDisk::new());
    make_table(&engine, duplicates);
    engine
}

/// A writer.
pub(crate) fn session(engine: &Arc<Engine>) -> Session {
    Session::new(Arc::clone(engine), "d").expect("a session")
}

/// A batch of named columns.
pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    use arrow_schema::{Field, Schema};
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("columns of one length")
}

/// Rows of `host`, time, `busy` and `count`.
pub(crate) fn points(rows: &[(&str, i64, Option<f64>, Option<i64>)]) -> RecordBatch {
    let times: Int64Array = rows.iter().map(|row| Some(row.1)).collect();
    let hosts: StringArray = rows.iter().map(|row| Some(row.0)).collect();
    let busy: Float64Array = rows.iter().map(|row| row.2).collect();
    let count: Int64Array = rows.iter().map(|row| row.3).collect();
    batch(vec![
        ("time", Arc::new(times)),
        ("host", Arc::new(hosts)),
        ("busy", Arc::new(busy)),
        ("count", Arc::new(count)),
    ])
}

/// Writes rows into the table.
pub(crate) fn write(
    engine: &Arc<Engine>,
    rows: &RecordBatch,
    on_conflict: OnConflict,
) -> Result<TypedReport, Error> {
    session(engine).write_arrow(Target::table("m"), rows, on_conflict)
}

/// The table as a snapshot shows it.
pub(crate) fn table(snapshot: &Snapshot) -> Arc<TableSchema> {
    snapshot.table("d", "public", "m").expect("the table")
}

/// Some columns of all rows of the table, a row a text, null as `-`.
pub(crate) fn rows_of(snapshot: &Snapshot, projection: Vec<usize>) -> Vec<String> {
    let request = ScanRequest {
        table: table(snapshot),
        projection,
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
    };
    let scan = snapshot.scan(&request).expect("a scan");
    let mut rows = Vec::new();
    for morsel in 0..scan.morsels() {
        for batch in scan.read(morsel) {
            let batch = batch.expect("rows");
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter();
                let cells: Vec<String> = cells.map(|column| cell(column, row)).collect();
                rows.push(cells.join(" "));
            }
        }
    }
    rows
}

/// Time, host, `busy` and `count` of all rows now.
pub(crate) fn points_of(engine: &Arc<Engine>) -> Vec<String> {
    rows_of(&engine.snapshot(), vec![0, 1, 3, 4])
}

fn cell(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return "-".to_owned();
    }
    if let Some(times) = column.as_primitive_opt::<TimestampNanosecondType>() {
        return times.value(row).to_string();
    }
    if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
        return numbers.value(row).to_string();
    }
    if let Some(numbers) = column.as_primitive_opt::<UInt64Type>() {
        return numbers.value(row).to_string();
    }
    if let Some(numbers) = column.as_primitive_opt::<UInt32Type>() {
        return numbers.value(row).to_string();
    }
    if let Some(numbers) = column.as_primitive_opt::<Float64Type>() {
        return numbers.value(row).to_string();
    }
    if let Some(tags) = column.as_dictionary_opt::<Int32Type>() {
        let key = usize::try_from(tags.keys().value(row)).expect("a key");
        return tags.values().as_string::<i32>().value(key).to_owned();
    }
    if let Some(flags) = column.as_boolean_opt() {
        return flags.value(row).to_string();
    }
    if let Some(bytes) = column.as_binary_opt::<i32>() {
        return format!("{:?}", bytes.value(row));
    }
    column.as_string::<i32>().value(row).to_owned()
}

/// Runs a check on what `prepare` wrote, while it is in the head, in a segment, compacted, and after the store was opened
/// again.
pub(crate) fn in_every_state(
    duplicates: Duplicates,
    prepare: impl Fn(&Arc<Engine>),
    check: impl Fn(&Arc<Engine>, &str),
) {
    for state in [
        "head",
        "replayed head",
        "segment",
        "settled",
        "opened again",
    ] {
        let disk = MemoryDisk::new();
        let mut engine = open(&disk);
        make_table(&engine, duplicates);
        prepare(&engine);
        match state {
            "head" => {}
            "replayed head" => {
                drop(engine);
                engine = open(&disk);
            }
            "segment" => engine.flush().expect("a flush"),
            "settled" => engine.settle().expect("compactions"),
            _ => {
                engine.settle().expect("compactions");
                drop(engine);
                engine = open(&disk);
            }
        }
        check(&engine, state);
    }
}
