//! Promise: a narrowed scan has every row that is asked for, as a whole scan shows it, wherever the rows are.
//!
//! Rows that are not asked for may come too; that few of them do is checked where it is known which blocks are read.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap is the report, and the bodies are small"
)]

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::{Field, Schema};
use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::{OnConflict, Session, Target};
use nilometer_engine::{
    ColumnKind, CompactionOptions, DeleteRequest, Duplicates, Engine, FieldMatch, FieldPredicate,
    Maintained, Narrowing, NewColumn, Options, Scan, ScanReport, ScanRequest, SystemClock,
    TableSettings, TagPredicate, TextRange,
};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
const START: i64 = 20_000 * 24 * 3600 * SECOND;

/// Positions in the table's schema.
const FLOAT: usize = 2;
const INT: usize = 3;
const UNSIGNED: usize = 4;
const BOOL: usize = 5;
const TEXT: usize = 6;

fn store(duplicates: Duplicates) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let options = Options {
        compaction: CompactionOptions {
            fan_in: 2,
            partition_rows_min: 1000,
            widen_rows_max: 1000,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options).unwrap();
    engine.create_database("d").unwrap();
    let field = |name, kind| NewColumn {
        name,
        kind: ColumnKind::Field(kind),
    };
    let columns = [
        NewColumn {
            name: "host",
            kind: ColumnKind::Tag,
        },
        field("f", PhysicalType::F64),
        field("i", PhysicalType::I64),
        field("u", PhysicalType::U64),
        field("b", PhysicalType::Bool),
        field("s", PhysicalType::Text),
    ];
    let settings = TableSettings {
        duplicates,
        ..TableSettings::default()
    };
    engine
        .create_table("d", "public", "m", &columns, settings)
        .unwrap();
    Arc::new(engine)
}

/// Rows of a host, some of them without some fields.
#[derive(Debug, Clone)]
struct Rows {
    host: &'static str,
    start: i64,
    count: i64,
    step: i64,
    salt: i64,
}

fn write(engine: &Arc<Engine>, rows: &Rows) {
    let all = || 0..rows.count;
    let noise = |at: i64| (at / 40 * 7919 + rows.salt * 31) % 100 + at % 3;
    let floats: Float64Array = all()
        .map(|at| match (at + rows.salt) % 97 {
            0 => Some(f64::NAN),
            1 => Some(-0.0),
            2 => Some(f64::INFINITY),
            n if n % 5 == 0 => None,
            _ => Some(noise(at) as f64 / 2.0),
        })
        .collect();
    let ints: Int64Array = all()
        .map(|at| (at % 7 != 0).then(|| noise(at) - 50))
        .collect();
    let unsigned: UInt64Array = all().map(|at| Some(noise(at) as u64)).collect();
    let bools: BooleanArray = all().map(|at| Some(noise(at) > 90)).collect();
    let texts: StringArray = all()
        .map(|at| (noise(at) % 4 != 0).then(|| format!("a longer text {}", noise(at))))
        .collect();
    let times: Int64Array = all()
        .map(|at| Some(START + (rows.start + at * rows.step) * SECOND))
        .collect();
    let hosts: StringArray = all().map(|_| Some(rows.host)).collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("time", Arc::new(times)),
        ("host", Arc::new(hosts)),
        ("f", Arc::new(floats)),
    ];
    if rows.salt % 4 != 1 {
        columns.push(("i", Arc::new(ints)));
    }
    if rows.salt % 4 != 2 {
        columns.push(("u", Arc::new(unsigned)));
    }
    columns.push(("b", Arc::new(bools)));
    columns.push(("s", Arc::new(texts)));
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    session
        .write_arrow(Target::table("m"), &batch, OnConflict::Replace)
        .unwrap();
}

fn compact(engine: &Engine) {
    while engine.maintain().unwrap() != Maintained::Idle {}
}

/// A row: series, time, then its values.
type Row = (String, i64, Vec<Value>);

#[derive(Debug, Clone, PartialEq, PartialOrd)]
enum Value {
    Null,
    Number(i128),
    /// Bit for bit.
    Float(u64),
    Text(String),
}

fn value(column: &dyn Array, row: usize) -> Value {
    if column.is_null(row) {
        Value::Null
    } else if let Some(values) = column.as_primitive_opt::<Int64Type>() {
        Value::Number(values.value(row).into())
    } else if let Some(values) = column.as_primitive_opt::<UInt64Type>() {
        Value::Number(values.value(row).into())
    } else if let Some(values) = column.as_primitive_opt::<UInt32Type>() {
        Value::Number(values.value(row).into())
    } else if let Some(values) = column.as_primitive_opt::<Float64Type>() {
        Value::Float(values.value(row).to_bits())
    } else if let Some(values) = column.as_boolean_opt() {
        Value::Number(values.value(row).into())
    } else {
        Value::Text(column.as_string::<i32>().value(row).to_owned())
    }
}

fn request(engine: &Arc<Engine>, time: RangeInclusive<i64>) -> ScanRequest {
    let table = engine.snapshot().table("d", "public", "m").unwrap();
    ScanRequest {
        projection: (0..table.arrow_schema().fields().len()).collect(),
        table,
        time,
        tags: Vec::new(),
        limit: None,
    }
}

fn read(scan: &Scan) -> Vec<Row> {
    let mut rows = Vec::new();
    for batch in (0..scan.morsels()).flat_map(|morsel| scan.read(morsel)) {
        let batch = batch.unwrap();
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        let hosts = batch.column(1).as_dictionary::<Int32Type>();
        for row in 0..batch.num_rows() {
            let key = hosts.keys().value(row) as usize;
            let host = hosts.values().as_string::<i32>().value(key).to_owned();
            let values = batch.columns().iter().skip(2);
            let values = values.map(|column| value(column.as_ref(), row)).collect();
            rows.push((host, times.value(row), values));
        }
    }
    rows
}

fn narrowed(
    engine: &Arc<Engine>,
    request: &ScanRequest,
    narrowing: &Narrowing,
) -> (Vec<Row>, ScanReport) {
    let scan = engine.snapshot().scan_narrowed(request, narrowing).unwrap();
    let rows = read(&scan);
    (rows, scan.report())
}

fn whole(engine: &Arc<Engine>, request: &ScanRequest) -> Vec<Row> {
    read(&engine.snapshot().scan(request).unwrap())
}

/// Whether a row has what a predicate asks for, to the bit: NaN never qualifies.
fn qualifies(row: &Row, predicate: &FieldPredicate) -> bool {
    let value = &row.2[predicate.column - 2];
    match (&predicate.matches, value) {
        (_, Value::Null) => false,
        (FieldMatch::Int(ranges), Value::Number(value)) => ranges
            .iter()
            .any(|it| i128::from(*it.start()) <= *value && *value <= i128::from(*it.end())),
        (FieldMatch::Unsigned(ranges), Value::Number(value)) => ranges
            .iter()
            .any(|it| i128::from(*it.start()) <= *value && *value <= i128::from(*it.end())),
        (FieldMatch::Float(ranges), Value::Float(bits)) => {
            ranges.iter().any(|it| it.contains(&f64::from_bits(*bits)))
        }
        (FieldMatch::Bool(wanted), Value::Number(value)) => *wanted == (*value != 0),
        (FieldMatch::Text(ranges), Value::Text(text)) => ranges.iter().any(|it| {
            it.first
                .as_ref()
                .is_none_or(|first| first.as_slice() <= text.as_bytes())
                && it
                    .last
                    .as_ref()
                    .is_none_or(|last| text.as_bytes() <= last.as_slice())
        }),
        // Any value, or one of another type than the predicate speaks of.
        _ => true,
    }
}

/// Every row of `some` is among those of `all`, as often.
fn assert_among(some: &[Row], all: &[Row], what: &str) {
    let text = |row: &Row| format!("{row:?}");
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for row in all {
        *counts.entry(text(row)).or_default() += 1;
    }
    for row in some {
        let left = counts.entry(text(row)).or_default();
        *left -= 1;
        assert!(*left >= 0, "{what}: {row:?} is not there");
    }
}

fn check_fields(engine: &Arc<Engine>, request: &ScanRequest, predicates: &[FieldPredicate]) {
    let keep = |rows: Vec<Row>| -> Vec<Row> {
        let mut rows = rows;
        rows.retain(|row| predicates.iter().all(|it| qualifies(row, it)));
        rows
    };
    let all = whole(engine, request);
    let (rows, _) = narrowed(engine, request, &Narrowing::Fields(predicates.to_vec()));
    let what = format!("{predicates:?}");
    assert_among(&rows, &all, &what);
    assert_eq!(keep(rows), keep(all), "{what}");
}

/// Rows at the ends of each host, with all of the time at which the last of them stands.
fn at_ends(all: &[Row], first: usize, last: usize, keeps: bool) -> Vec<Row> {
    let mut times: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for row in all {
        times.entry(&row.0).or_default().push(row.1);
    }
    for times in times.values_mut() {
        times.sort_unstable();
        if !keeps {
            times.dedup();
        }
    }
    let is_wanted = |row: &&Row| {
        let times = &times[row.0.as_str()];
        let is_first = first > 0 && times.get(first - 1).is_none_or(|&bound| row.1 <= bound);
        let at = times.len().checked_sub(last);
        let is_last = last > 0 && at.is_none_or(|at| row.1 >= times[at]);
        is_first || is_last
    };
    all.iter().filter(is_wanted).cloned().collect()
}

fn check_ends(engine: &Arc<Engine>, request: &ScanRequest, first: usize, last: usize) {
    let keeps = request.table.settings.duplicates == Duplicates::Keep;
    let expected = at_ends(&whole(engine, request), first, last, keeps);
    let (rows, _) = narrowed(engine, request, &Narrowing::Ends { first, last });
    let text = |rows: &[Row]| {
        rows.iter()
            .map(|row| format!("{row:?}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(text(&rows), text(&expected), "first {first}, last {last}");
}

fn check_top(engine: &Arc<Engine>, request: &ScanRequest, rows: usize, newest: bool) {
    let sorted = |rows: &[Row]| {
        let mut times: Vec<i64> = rows.iter().map(|row| row.1).collect();
        times.sort_unstable();
        if newest {
            times.reverse();
        }
        times
    };
    let all = whole(engine, request);
    let mut expected = sorted(&all);
    expected.truncate(rows);
    for ties in [false, true] {
        let what = format!("{rows} rows, newest {newest}, ties {ties}");
        let (found, _) = narrowed(engine, request, &Narrowing::Top { rows, newest, ties });
        assert_among(&found, &all, &what);
        let mut times = sorted(&found);
        times.truncate(rows);
        assert_eq!(times, expected, "{what}");
        if let (true, Some(&bar)) = (ties, expected.last()) {
            let count = |rows: &[Row]| rows.iter().filter(|row| row.1 == bar).count();
            assert_eq!(count(&found), count(&all), "{what}");
        }
    }
}

fn fields(predicates: &[(usize, FieldMatch)]) -> Narrowing {
    let predicates = predicates.iter().cloned();
    Narrowing::Fields(
        predicates
            .map(|(column, matches)| FieldPredicate { column, matches })
            .collect(),
    )
}

fn above(low: f64) -> FieldMatch {
    FieldMatch::Float(vec![low.next_up()..=f64::INFINITY])
}

/// Four blocks of a host; numbers grow from block to block.
fn growing(engine: &Arc<Engine>, host: &'static str) {
    let all = || 0..4096_i64;
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "time",
            Arc::new(
                all()
                    .map(|at| Some(START + at * SECOND))
                    .collect::<Int64Array>(),
            ),
        ),
        (
            "host",
            Arc::new(all().map(|_| Some(host)).collect::<StringArray>()),
        ),
        (
            "f",
            Arc::new(all().map(|at| Some(at as f64)).collect::<Float64Array>()),
        ),
        (
            "i",
            Arc::new(
                all()
                    .map(|at| (at < 1024).then_some(at))
                    .collect::<Int64Array>(),
            ),
        ),
    ];
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    session
        .write_arrow(Target::table("m"), &batch, OnConflict::Replace)
        .unwrap();
}

#[test]
fn blocks_whose_statistics_refuse_them_are_not_read() {
    let engine = store(Duplicates::Last);
    growing(&engine, "a");
    growing(&engine, "b");
    engine.flush().unwrap();
    let all = request(&engine, i64::MIN..=i64::MAX);
    let (rows, report) = narrowed(&engine, &all, &fields(&[(FLOAT, above(4000.0))]));
    assert_eq!(rows.len(), 2 * 95);
    assert_eq!((report.blocks_ruled_out, report.blocks_read), (6, 2));
    // Where the field has no value there is no page.
    let (rows, report) = narrowed(&engine, &all, &fields(&[(INT, FieldMatch::Present)]));
    assert_eq!(rows.len(), 2 * 1024);
    assert_eq!((report.blocks_ruled_out, report.blocks_read), (6, 2));
    let (rows, report) = narrowed(&engine, &all, &fields(&[(TEXT, FieldMatch::Present)]));
    assert_eq!((rows.len(), report.blocks_ruled_out), (0, 8));
    // Within the extremes of a block, but none of its values: only the field itself is read.
    let between = FieldMatch::Float(vec![7.25..=7.5]);
    let (rows, report) = narrowed(&engine, &all, &fields(&[(FLOAT, between)]));
    assert_eq!((rows.len(), report.blocks_ruled_out), (0, 6));
    assert_eq!((report.blocks_without_hit, report.pages_read), (2, 2));
}

#[test]
fn a_block_that_newer_rows_overlap_is_read_whatever_its_statistics_say() {
    let engine = store(Duplicates::Last);
    growing(&engine, "a");
    engine.flush().unwrap();
    // Row 100 of the first block had f = 100 and i = 100.
    let newer = |engine: &Arc<Engine>| {
        let times = Int64Array::from(vec![START + 100 * SECOND, START + 101 * SECOND]);
        let hosts = StringArray::from(vec!["a", "a"]);
        let floats = Float64Array::from(vec![9000.0, 0.0]);
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("time", Arc::new(times)),
            ("host", Arc::new(hosts)),
            ("f", Arc::new(floats)),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut session = Session::new(Arc::clone(engine), "d").unwrap();
        session
            .write_arrow(Target::table("m"), &batch, OnConflict::Replace)
            .unwrap();
    };
    newer(&engine);
    let all = request(&engine, i64::MIN..=i64::MAX);
    let narrowing = fields(&[(FLOAT, above(4090.0))]);
    for state in ["head", "flushed"] {
        let (mut rows, report) = narrowed(&engine, &all, &narrowing);
        rows.retain(|row| matches!(row.2[0], Value::Float(bits) if f64::from_bits(bits) > 4090.0));
        let old: Vec<i64> = rows.iter().map(|row| (row.1 - START) / SECOND).collect();
        assert_eq!(old, [100, 4091, 4092, 4093, 4094, 4095], "{state}");
        // The older row's other field is still the row's.
        assert_eq!(rows[0].2[1], Value::Number(100), "{state}");
        assert_eq!(report.blocks_ruled_out, 2, "{state}");
        engine.flush().unwrap();
    }
}

#[test]
fn of_a_type_that_changed_values_are_looked_at_and_not_statistics() {
    let engine = store(Duplicates::Last);
    growing(&engine, "a");
    engine.flush().unwrap();
    engine
        .change_type("d", "public", "m", "i", PhysicalType::F64)
        .unwrap();
    let all = request(&engine, i64::MIN..=i64::MAX);
    let (rows, report) = narrowed(&engine, &all, &fields(&[(INT, above(1000.0))]));
    assert_eq!(rows.len(), 23);
    // Three blocks have no page of the field, whatever its type.
    assert_eq!((report.blocks_ruled_out, report.blocks_read), (3, 1));
}

#[test]
fn the_last_rows_of_series_come_from_statistics_where_those_know_them() {
    let engine = store(Duplicates::Last);
    growing(&engine, "a");
    growing(&engine, "b");
    engine.flush().unwrap();
    let mut last = request(&engine, i64::MIN..=i64::MAX);
    last.projection = vec![0, 1, FLOAT, INT, UNSIGNED, BOOL];
    let ends = Narrowing::Ends { first: 0, last: 1 };
    let (rows, report) = narrowed(&engine, &last, &ends);
    assert_eq!(rows.len(), 2);
    assert_eq!((report.blocks_read, report.pages_read), (0, 0));
    // Text is in no statistics.
    last.projection.push(TEXT);
    let (rows, report) = narrowed(&engine, &last, &ends);
    assert_eq!((rows.len(), report.blocks_read), (2, 2));
    // Nor is a row inside a block.
    let until = request(&engine, i64::MIN..=START + 2000 * SECOND);
    let (rows, report) = narrowed(&engine, &until, &ends);
    assert_eq!((rows.len(), report.blocks_read), (2, 2));
    assert!(rows.iter().all(|row| row.1 == START + 2000 * SECOND));
}

/// A series' first row stood in the first block of one partition and its last row alone in the first block of the next:
/// the two blocks have one number, were taken for one block of one row, and the last row was left out.
#[test]
fn the_ends_of_a_series_may_stand_in_first_blocks_of_two_partitions() {
    let engine = store(Duplicates::Last);
    let rows = Rows {
        host: "a",
        start: -290,
        count: 19,
        step: 17,
        salt: 0,
    };
    write(&engine, &rows);
    engine.flush().unwrap();
    let mut request = request(&engine, i64::MIN..=i64::MAX);
    request.projection = vec![0, 1, FLOAT, INT, UNSIGNED, BOOL];
    check_ends(&engine, &request, 1, 1);
    check_ends(&engine, &request, 0, 1);
    check_ends(&engine, &request, 1, 0);
}

#[test]
fn the_newest_rows_are_found_in_the_newest_blocks() {
    let engine = store(Duplicates::Last);
    growing(&engine, "a");
    growing(&engine, "b");
    engine.flush().unwrap();
    let all = request(&engine, i64::MIN..=i64::MAX);
    for (newest, end) in [(true, START + 4095 * SECOND), (false, START)] {
        let top = Narrowing::Top {
            rows: 1,
            newest,
            ties: false,
        };
        let (rows, report) = narrowed(&engine, &all, &top);
        assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), [end]);
        assert_eq!((report.series, report.blocks_read), (1, 1));
    }
}

#[derive(Debug, Clone)]
enum Event {
    Write(Rows),
    Flush,
    Compact,
    Delete { from: i64, span: i64, host: bool },
    Retype,
    Duplicates(Duplicates),
}

fn duplicates() -> impl Strategy<Value = Duplicates> {
    prop::sample::select(vec![Duplicates::Last, Duplicates::Keep, Duplicates::Unique])
}

fn event() -> impl Strategy<Value = Event> {
    let host = prop::sample::select(vec!["a", "b", "c", "d"]);
    let start = prop_oneof![Just(0_i64), 0..6000_i64, -2000..2000_i64];
    let count = prop_oneof![1..40_i64, 100..3000_i64];
    let step = prop_oneof![Just(1_i64), Just(10), 1..30_i64];
    let rows = (host, start, count, step, 0..9_i64);
    let rows = rows.prop_map(|(host, start, count, step, salt)| {
        Event::Write(Rows {
            host,
            start,
            count,
            step,
            salt,
        })
    });
    prop_oneof![
        6 => rows,
        2 => Just(Event::Flush),
        1 => Just(Event::Compact),
        1 => (-2000..30_000_i64, 0..9000_i64, any::<bool>())
            .prop_map(|(from, span, host)| Event::Delete { from, span, host }),
        1 => Just(Event::Retype),
        1 => duplicates().prop_map(Event::Duplicates),
    ]
}

fn happen(engine: &Arc<Engine>, event: &Event) {
    match event {
        Event::Write(rows) => write(engine, rows),
        Event::Flush => engine.flush().unwrap(),
        Event::Compact => compact(engine),
        Event::Delete { from, span, host } => {
            let from = START + from * SECOND;
            let tag = TagPredicate::one_of(1, vec![Some("a".to_owned())]);
            let request = DeleteRequest {
                table: engine.snapshot().table("d", "public", "m").unwrap(),
                time: from..=from + span * SECOND,
                tags: host.then_some(tag).into_iter().collect(),
            };
            engine.delete(&request).unwrap();
        }
        Event::Retype => engine
            .change_type("d", "public", "m", "i", PhysicalType::F64)
            .unwrap(),
        Event::Duplicates(duplicates) => {
            let settings = TableSettings {
                duplicates: *duplicates,
                ..TableSettings::default()
            };
            engine.set_table("d", "public", "m", settings).unwrap();
        }
    }
}

fn predicate() -> impl Strategy<Value = FieldPredicate> {
    let float = (0..110_i32, 0..60_i32).prop_map(|(low, span)| {
        let low = f64::from(low) / 2.0;
        FieldMatch::Float(vec![low..=low + f64::from(span) / 2.0])
    });
    let int = (-60..60_i64, 0..40_i64)
        .prop_map(|(low, span)| FieldMatch::Int(vec![low..=low + span, low + 60..=low + 61]));
    let unsigned = (0..110_u64, 0..30_u64)
        .prop_map(|(low, span)| FieldMatch::Unsigned(vec![low..=low + span]));
    let text = (0..110_i64, 0..110_i64).prop_map(|(low, high)| {
        FieldMatch::Text(vec![TextRange {
            first: Some(format!("a longer text {low}").into_bytes()),
            last: (high > 30).then(|| format!("a longer text {high}").into_bytes()),
        }])
    });
    prop_oneof![
        float.prop_map(|it| (FLOAT, it)),
        int.prop_map(|it| (INT, it)),
        unsigned.prop_map(|it| (UNSIGNED, it)),
        any::<bool>().prop_map(|it| (BOOL, FieldMatch::Bool(it))),
        text.prop_map(|it| (TEXT, it)),
        (FLOAT..=TEXT).prop_map(|column| (column, FieldMatch::Present)),
        Just((FLOAT, above(99.0))),
        Just((FLOAT, FieldMatch::Float(vec![0.0..=0.0]))),
    ]
    .prop_map(|(column, matches)| FieldPredicate { column, matches })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn narrowed_scans_of_any_history_have_every_row_that_is_asked_for(
        events in prop::collection::vec(event(), 1..9),
        kind in duplicates(),
        from in -2500..8000_i64,
        span in 0..30_000_i64,
        predicates in prop::collection::vec(prop::collection::vec(predicate(), 1..3), 1..4),
        (first, last) in (0..4_usize, 0..4_usize),
        rows in prop_oneof![1..12_usize, 12..5000_usize],
    ) {
        let engine = store(kind);
        for event in &events {
            happen(&engine, event);
        }
        let from = START + from * SECOND;
        for time in [i64::MIN..=i64::MAX, from..=from + span * SECOND] {
            let mut request = request(&engine, time);
            for tags in [Vec::new(), vec![TagPredicate::one_of(1, vec![Some("b".to_owned()), Some("c".to_owned())])]] {
                request.tags = tags;
                for predicates in &predicates {
                    check_fields(&engine, &request, predicates);
                }
                // Without text the statistics may know all that is asked for.
                let all = request.projection.clone();
                for projection in [all.clone(), vec![0, 1, FLOAT, INT, UNSIGNED, BOOL]] {
                    request.projection = projection;
                    for (first, last) in [(0, 1), (1, 0), (1, 1), (first, last)] {
                        check_ends(&engine, &request, first, last);
                    }
                }
                request.projection = all;
                check_top(&engine, &request, rows, true);
                check_top(&engine, &request, rows, false);
            }
        }
    }
}
