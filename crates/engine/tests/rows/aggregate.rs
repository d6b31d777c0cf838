//! Promise: aggregates are those of the rows that a scan shows, wherever the rows are and whatever stood for them.
//!
//! Integers, counts, extremes, first and last values agree exactly, sums of floats to 1e-12 of the sum of magnitudes.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    clippy::cast_possible_truncation,
    reason = "a failed unwrap is the report, and the bodies are small"
)]

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};
use nilometer_codec::PhysicalType;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    AggregateRequest, AggregateRow, AggregateSources, AggregateSum, AggregateValue,
    CompactionOptions, DeleteRequest, Duplicates, Engine, Maintained, Options, Sabotage,
    ScanRequest, SystemClock, TableSettings, TagMatch, TagPredicate,
};
use nilometer_lineproto::Precision;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
/// The start of a day, so that its hours are those of one partition.
const START: i64 = 20_000 * 24 * HOUR;

fn open_with(disk: &MemoryDisk, sabotage: Option<Sabotage>) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = Options {
        sabotage,
        compaction: CompactionOptions {
            fan_in: 2,
            partition_rows_min: 1000,
            widen_rows_max: 1000,
            ..CompactionOptions::default()
        },
        ..Options::default()
    };
    let engine = Engine::open(disk, Arc::new(SystemClock), Path::new("/d"), options);
    Arc::new(engine.expect("the store opens"))
}

fn open() -> Arc<Engine> {
    let engine = open_with(&MemoryDisk::new(), None);
    engine.create_database("d").unwrap();
    engine
}

fn write(engine: &Arc<Engine>, body: &str) {
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    let report = session.write_lines(body.as_bytes(), Precision::Nanosecond);
    assert_eq!(report.unwrap().rejected, []);
}

fn compact(engine: &Engine) {
    while engine.maintain().unwrap() != Maintained::Idle {}
}

/// What is asked for.
#[derive(Debug, Clone)]
struct Question {
    time: RangeInclusive<i64>,
    tags: Vec<TagPredicate>,
    bucket_ns: Option<i64>,
}

impl Question {
    fn everything(bucket_ns: Option<i64>) -> Self {
        Self {
            time: i64::MIN..=i64::MAX,
            tags: Vec::new(),
            bucket_ns,
        }
    }
}

/// Aggregates of one field.
#[derive(Debug, Clone, PartialEq)]
struct Expected {
    count: u64,
    min: String,
    max: String,
    first: (i64, String),
    last: (i64, String),
    integers: i128,
    floats: f64,
    magnitude: f64,
}

/// Value as text, as a number that orders as it does, and as an integer.
type Cell = (String, f64, i128);

fn cell(column: &dyn Array, row: usize) -> Option<Cell> {
    if column.is_null(row) {
        return None;
    }
    Some(
        if let Some(values) = column.as_primitive_opt::<Int64Type>() {
            let value = values.value(row);
            (value.to_string(), value as f64, i128::from(value))
        } else if let Some(values) = column.as_primitive_opt::<UInt64Type>() {
            let value = values.value(row);
            (value.to_string(), value as f64, i128::from(value))
        } else if let Some(values) = column.as_primitive_opt::<Float64Type>() {
            let value = values.value(row);
            (format!("{value:?}"), value, 0)
        } else if let Some(values) = column.as_boolean_opt() {
            let value = values.value(row);
            (
                value.to_string(),
                f64::from(u8::from(value)),
                i128::from(value),
            )
        } else {
            (column.as_string::<i32>().value(row).to_owned(), 0.0, 0)
        },
    )
}

impl Expected {
    fn of(time: i64, (text, number, integer): Cell) -> Self {
        Self {
            count: 1,
            min: text.clone(),
            max: text.clone(),
            first: (time, text.clone()),
            last: (time, text),
            integers: integer,
            floats: number,
            magnitude: number.abs(),
        }
    }

    /// Rows come in the order of time.
    fn add(&mut self, time: i64, (text, number, integer): Cell) {
        let is_below = |a: &str, b: &str| match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) => a.total_cmp(&b).is_lt(),
            _ => a < b,
        };
        if is_below(&text, &self.min) {
            self.min.clone_from(&text);
        }
        if is_below(&self.max, &text) {
            self.max.clone_from(&text);
        }
        self.count += 1;
        self.last = (time, text);
        self.integers += integer;
        self.floats += number;
        self.magnitude += number.abs();
    }
}

/// By host and bucket: rows, and aggregates by field.
type Buckets = BTreeMap<(String, i64), (u64, Vec<Option<Expected>>)>;

/// Adds up what a scan shows.
fn brute_force(engine: &Arc<Engine>, question: &Question) -> Buckets {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "m").expect("the table");
    let columns = table.arrow_schema().fields().len();
    let scan = snapshot.scan(&ScanRequest {
        table,
        projection: (0..columns).collect(),
        time: question.time.clone(),
        tags: question.tags.clone(),
        limit: None,
    });
    let scan = scan.unwrap();
    let mut all = Buckets::new();
    for batch in (0..scan.morsels()).flat_map(|morsel| scan.read(morsel)) {
        add_batch(&batch.unwrap(), question.bucket_ns, &mut all);
    }
    all
}

fn add_batch(batch: &RecordBatch, bucket_ns: Option<i64>, all: &mut Buckets) {
    let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
    let hosts = batch.column(1).as_dictionary::<Int32Type>();
    let fields = &batch.columns()[2..];
    for row in 0..batch.num_rows() {
        let time = times.value(row);
        let key = hosts.keys().value(row) as usize;
        let host = hosts.values().as_string::<i32>().value(key).to_owned();
        let bucket = bucket_ns.map_or(i64::MIN, |width| time - time.rem_euclid(width));
        let empty = || (0, vec![None; fields.len()]);
        let (rows, known) = all.entry((host, bucket)).or_insert_with(empty);
        *rows += 1;
        for (slot, column) in known.iter_mut().zip(fields) {
            match (cell(column.as_ref(), row), slot) {
                (None, _) => {}
                (Some(value), Some(known)) => known.add(time, value),
                (Some(value), slot) => *slot = Some(Expected::of(time, value)),
            }
        }
    }
}

fn aggregate(
    engine: &Arc<Engine>,
    question: &Question,
) -> (Vec<(String, AggregateRow)>, AggregateSources) {
    let snapshot = engine.snapshot();
    let table = snapshot.table("d", "public", "m").expect("the table");
    let columns = table.arrow_schema().fields().len();
    let aggregation = snapshot.aggregate(&AggregateRequest {
        table,
        fields: (2..columns).collect(),
        time: question.time.clone(),
        tags: question.tags.clone(),
        bucket_ns: question.bucket_ns,
    });
    let aggregation = aggregation.unwrap();
    let found = aggregation.read_all().unwrap();
    let host = |row: &AggregateRow| aggregation.tag(0, row.position).unwrap().to_owned();
    let rows = found
        .rows
        .into_iter()
        .map(|row| (host(&row), row))
        .collect();
    (rows, found.used)
}

fn text(value: &AggregateValue) -> String {
    match value {
        AggregateValue::Int(value) => value.to_string(),
        AggregateValue::Unsigned(value) => value.to_string(),
        AggregateValue::Float(value) => format!("{value:?}"),
        AggregateValue::Bool(value) => value.to_string(),
        AggregateValue::Text(bytes) | AggregateValue::Bytes(bytes) => {
            String::from_utf8(bytes.clone()).unwrap()
        }
    }
}

/// Checks one question; returns where the answer came from.
fn assert_agrees(engine: &Arc<Engine>, question: &Question, state: &str) -> AggregateSources {
    let expected = brute_force(engine, question);
    let (found, used) = aggregate(engine, question);
    let keys: Vec<(String, i64)> = found
        .iter()
        .map(|(host, row)| (host.clone(), row.bucket))
        .collect();
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(
        sorted,
        expected.keys().cloned().collect::<Vec<_>>(),
        "{state}: {question:?}"
    );
    for ((_, row), key) in found.iter().zip(keys) {
        let what = format!("{state}: {question:?}: {key:?}");
        let (rows, fields) = &expected[&key];
        assert_eq!(row.rows, *rows, "{what}");
        assert_eq!(row.fields.len(), fields.len(), "{what}");
        for (field, (found, expected)) in row.fields.iter().zip(fields).enumerate() {
            let what = format!("{what}, field {field}");
            let (Some(found), Some(expected)) = (found, expected) else {
                assert!(
                    found.is_none() && expected.is_none(),
                    "{what}: {found:?} {expected:?}"
                );
                continue;
            };
            assert_eq!(found.count, expected.count, "{what}");
            assert_eq!(text(&found.min), expected.min, "{what}: min");
            assert_eq!(text(&found.max), expected.max, "{what}: max");
            let (first, last) = (&found.first, &found.last);
            assert_eq!((first.0, text(&first.1)), expected.first, "{what}: first");
            assert_eq!((last.0, text(&last.1)), expected.last, "{what}: last");
            match found.sum {
                Some(AggregateSum::Int(sum)) => assert_eq!(sum, expected.integers, "{what}"),
                Some(AggregateSum::Unsigned(sum)) => {
                    assert_eq!(sum as i128, expected.integers, "{what}");
                }
                Some(AggregateSum::Float(sum)) => {
                    let off = (sum - expected.floats).abs();
                    assert!(
                        off <= 1e-12 * expected.magnitude,
                        "{what}: {sum} {expected:?}"
                    );
                }
                None => assert!(matches!(found.min, AggregateValue::Text(_)), "{what}"),
            }
        }
    }
    used
}

fn host(names: &[&str], negated: bool) -> TagPredicate {
    TagPredicate {
        column: 1,
        matches: TagMatch::OneOf(names.iter().map(|name| Some((*name).to_owned())).collect()),
        negated,
    }
}

/// Ranges and widths that meet hours, blocks and days, and some that meet nothing.
fn questions() -> Vec<Question> {
    let mut all = Vec::new();
    let ranges = [
        i64::MIN..=i64::MAX,
        START..=START + 4 * HOUR - 1,
        START + HOUR / 2..=START + 9 * HOUR / 2,
        START + 7..=START + 7,
        START - 30 * HOUR..=START - 1,
    ];
    for time in ranges {
        for bucket_ns in [
            None,
            Some(HOUR),
            Some(24 * HOUR),
            Some(2 * HOUR),
            Some(HOUR / 4),
            Some(7 * SECOND * 60),
        ] {
            all.push(Question {
                time: time.clone(),
                tags: Vec::new(),
                bucket_ns,
            });
        }
    }
    all.push(Question {
        tags: vec![host(&["a"], true)],
        ..Question::everything(Some(HOUR))
    });
    all
}

/// Rows of a host every `step` seconds: all types, nulls here and there, and few distinct times.
fn regular(name: &str, start: i64, rows: i64, step: i64, salt: i64) -> String {
    let mut lines = String::new();
    for at in 0..rows {
        let time = start + at * step * SECOND;
        let n = (at * 7919 + salt * 31) % 1000 - 400;
        let mut fields = format!("i={n}i");
        if at % 5 != 0 {
            fields += &format!(",f={}.{}", n / 10, (at % 10).abs());
        }
        if at % 3 == 0 {
            fields += &format!(",u={}u,b={}", at * 1_000_003, n > 0);
        }
        lines += &format!("m,host={name} {fields} {time}\n");
    }
    lines
}

#[test]
fn whole_hours_and_blocks_are_not_decoded() {
    let engine = open();
    write(&engine, &regular("a", START, 4000, 10, 1));
    write(&engine, &regular("b", START, 3600, 10, 2));
    for question in questions() {
        assert_eq!(assert_agrees(&engine, &question, "head").rollups, 0);
    }
    engine.flush().unwrap();
    write(&engine, &regular("c", START, 4000, 9, 3));
    engine.flush().unwrap();
    for question in questions() {
        assert_agrees(&engine, &question, "flushed");
    }
    let by_hour = assert_agrees(&engine, &Question::everything(Some(HOUR)), "flushed");
    assert_eq!(
        by_hour,
        AggregateSources {
            rollups: 12 + 10 + 10,
            statistics: 0,
            shared: 0,
            rows_known: 4000 + 3600 + 4000,
            blocks: 0,
            rows: 0
        }
    );
    // Nulls at a block's ends leave its statistics without the times of first and last values; hours know them.
    let all = assert_agrees(&engine, &Question::everything(None), "flushed");
    assert_eq!(all.rows, 0);
    // Two hours and the rows at both ends: half an hour of each host is 180 rows.
    let question = Question {
        time: START + HOUR / 2..=START + 3 * HOUR + HOUR / 2 - 1,
        ..Question::everything(Some(HOUR))
    };
    let some = assert_agrees(&engine, &question, "flushed");
    assert_eq!(
        some,
        AggregateSources {
            rollups: 6,
            statistics: 0,
            shared: 0,
            rows_known: 4 * 360 + 2 * 400,
            // A block has 1024 rows, so that the first half hour of each host is in its first and the other in its second.
            blocks: 3 * 2,
            rows: 4 * 180 + 2 * 200
        }
    );
    compact(&engine);
    assert!(engine.metrics().partitions > 0, "{:?}", engine.metrics());
    for question in questions() {
        assert_agrees(&engine, &question, "compacted");
    }
    let by_hour = assert_agrees(&engine, &Question::everything(Some(HOUR)), "compacted");
    assert_eq!((by_hour.rollups, by_hour.rows), (12 + 10 + 10, 0));
}

#[test]
fn blocks_without_nulls_stand_for_their_rows() {
    let engine = open();
    let lines = |from: i64| -> String {
        let mut lines = String::new();
        for at in from..from + 5000 {
            lines += &format!(
                "m,host=a v={at}i,w={}.5 {}\n",
                at % 9,
                START + at * 60 * SECOND
            );
        }
        lines
    };
    write(&engine, &lines(0));
    engine.flush().unwrap();
    // A row a minute is too few for rollups. Two blocks are a day's 1440 rows.
    let used = assert_agrees(&engine, &Question::everything(None), "flushed");
    assert_eq!((used.rollups, used.rows), (0, 0));
    assert_eq!(used.statistics, 3 * 2 + 1);
    let used = assert_agrees(&engine, &Question::everything(Some(24 * HOUR)), "flushed");
    assert_eq!((used.statistics, used.rows), (7, 0));
    // Another source in the time of one block: that one is decoded.
    write(&engine, &format!("m,host=a v=1i {}\n", START + 30 * SECOND));
    let used = assert_agrees(&engine, &Question::everything(None), "flushed and head");
    assert_eq!((used.statistics, used.rows), (6, 1024 + 1));
    engine.flush().unwrap();
    let used = assert_agrees(&engine, &Question::everything(None), "flushed twice");
    assert_eq!((used.statistics, used.rows), (6, 1024 + 1));
}

#[test]
fn deleted_rows_are_in_no_aggregate() {
    let engine = open();
    write(&engine, &regular("a", START, 4000, 10, 1));
    write(&engine, &regular("b", START, 4000, 10, 2));
    engine.flush().unwrap();
    let table = engine.snapshot().table("d", "public", "m").unwrap();
    engine
        .delete(&DeleteRequest {
            table,
            time: START + 2 * HOUR + 5..=START + 3 * HOUR + 5,
            tags: vec![host(&["a"], false)],
        })
        .unwrap();
    for question in questions() {
        assert_agrees(&engine, &question, "deleted");
    }
    let used = assert_agrees(&engine, &Question::everything(Some(HOUR)), "deleted");
    // Two hours of host a are touched.
    assert_eq!((used.rollups, used.rows), (2 * 12 - 2, 720 - 360));
    write(&engine, &regular("c", START, 8000, 10, 1));
    engine.flush().unwrap();
    compact(&engine);
    assert!(engine.metrics().partitions > 0, "{:?}", engine.metrics());
    for question in questions() {
        assert_agrees(&engine, &question, "compacted");
    }
}

#[test]
fn extreme_numbers_are_exact_and_odd_floats_are_decoded() {
    let engine = open();
    let mut lines = String::new();
    for at in 0..720 {
        let i = [i64::MAX, i64::MIN, i64::MAX, -1][at as usize % 4];
        let u = [u64::MAX, 0, u64::MAX - 7][at as usize % 3];
        let f = if at < 360 { "1e308" } else { "-0" };
        lines += &format!(
            "m,host=a i={i}i,u={u}u,f={f} {}\n",
            START + at * 10 * SECOND
        );
    }
    write(&engine, &lines);
    engine.flush().unwrap();
    let question = Question::everything(Some(HOUR));
    // 360 times 1e308 is infinite although no value is: the promise is about the magnitudes, which are infinite too.
    let (rows, used) = aggregate(&engine, &question);
    assert_eq!(used.rollups, 2);
    let sums: Vec<_> = rows
        .iter()
        .map(|(_, row)| {
            row.fields
                .iter()
                .map(|f| f.as_ref().unwrap().sum.unwrap())
                .collect::<Vec<_>>()
        })
        .collect();
    let ints = 90 * (2 * i128::from(i64::MAX) + i128::from(i64::MIN) - 1);
    let unsigned = 120 * (2 * u128::from(u64::MAX) - 7);
    for hour in &sums {
        assert!(hour.contains(&AggregateSum::Int(ints)));
        assert!(hour.contains(&AggregateSum::Unsigned(unsigned)));
    }
    assert!(sums[0].contains(&AggregateSum::Float(f64::INFINITY)));
    let zeros = rows[1]
        .1
        .fields
        .iter()
        .flatten()
        .find(|f| matches!(f.min, AggregateValue::Float(_)));
    assert_eq!(text(&zeros.unwrap().min), "-0.0");
}

#[test]
fn a_table_that_kept_duplicates_counts_them_as_it_says_now() {
    for now in [Duplicates::Last, Duplicates::Unique] {
        let engine = open();
        write(&engine, "m,host=a i=1i 1\n");
        let set = |duplicates| {
            let settings = TableSettings {
                duplicates,
                ..TableSettings::default()
            };
            engine.set_table("d", "public", "m", settings).unwrap();
        };
        set(Duplicates::Keep);
        write(&engine, &regular("a", START, 2000, 5, 1));
        write(&engine, &regular("a", START, 2000, 5, 2));
        engine.flush().unwrap();
        write(&engine, &regular("a", START + HOUR, 300, 5, 3));
        engine.flush().unwrap();
        write(&engine, &regular("a", START + HOUR, 100, 5, 4));
        for question in questions() {
            assert_agrees(&engine, &question, "kept");
        }
        let used = assert_agrees(&engine, &Question::everything(Some(HOUR)), "kept");
        assert!(used.rollups >= 3, "{used:?}");
        set(now);
        for question in questions() {
            assert_agrees(&engine, &question, "merged by reading");
        }
        compact(&engine);
        for question in questions() {
            assert_agrees(&engine, &question, "compacted");
        }
    }
}

#[test]
fn a_field_of_another_type_than_before_is_read_from_rows() {
    let engine = open();
    let lines = |from: i64| -> String {
        let mut lines = String::new();
        for at in from..from + 1000 {
            lines += &format!("m,host=a v={at}i {}\n", START + at * 10 * SECOND);
        }
        lines
    };
    write(&engine, &lines(0));
    engine.flush().unwrap();
    let question = Question::everything(Some(HOUR));
    let used = assert_agrees(&engine, &question, "integers");
    assert_eq!((used.rollups, used.rows), (3, 0));
    engine
        .change_type("d", "public", "m", "v", PhysicalType::F64)
        .unwrap();
    let used = assert_agrees(&engine, &question, "floats");
    assert_eq!((used.rollups, used.rows), (0, 1000));
}

#[test]
fn text_fields_are_read_from_rows() {
    let engine = open();
    let mut lines = String::new();
    for at in 0..500 {
        let note = if at % 3 == 0 {
            format!(",s=\"t{}\"", (at * 37) % 101)
        } else {
            String::new()
        };
        lines += &format!("m,host=a v={at}i{note} {}\n", START + at * 10 * SECOND);
    }
    write(&engine, &lines);
    assert_agrees(&engine, &Question::everything(Some(HOUR)), "head");
    engine.flush().unwrap();
    let used = assert_agrees(&engine, &Question::everything(Some(HOUR)), "flushed");
    assert_eq!((used.rollups, used.statistics, used.rows), (0, 0, 500));
}

#[test]
fn a_rollup_over_another_source_would_be_noticed() {
    let disk = MemoryDisk::new();
    let engine = open_with(&disk, Some(Sabotage::RollupOverOverlap));
    engine.create_database("d").unwrap();
    write(&engine, &regular("a", START, 4000, 10, 1));
    engine.flush().unwrap();
    write(&engine, &regular("a", START + HOUR, 10, 10, 5));
    let question = Question::everything(Some(HOUR));
    let rows =
        |found: Vec<(String, AggregateRow)>| -> u64 { found.iter().map(|(_, row)| row.rows).sum() };
    assert_eq!(rows(aggregate(&engine, &question).0), 4010);
    drop(engine);
    let engine = open_with(&disk, None);
    assert_agrees(&engine, &question, "sound");
    assert_eq!(rows(aggregate(&engine, &question).0), 4000);
}

/// One step of a random history.
#[derive(Debug, Clone)]
enum Event {
    Write {
        host: u8,
        start: i64,
        rows: i64,
        step: i64,
        salt: i64,
    },
    Flush,
    Compact,
    Delete {
        from: i64,
        span: i64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let start = prop_oneof![Just(0), 0i64..8 * 3600, -40_000i64..40_000];
    let write = (
        0u8..3,
        start,
        1i64..1500,
        prop_oneof![Just(10), Just(1), 1i64..60],
        0i64..9,
    )
        .prop_map(|(host, start, rows, step, salt)| Event::Write {
            host,
            start,
            rows,
            step,
            salt,
        });
    prop_oneof![
        5 => write,
        2 => Just(Event::Flush),
        1 => Just(Event::Compact),
        1 => (-3600i64..30_000, 0i64..9000).prop_map(|(from, span)| Event::Delete { from, span }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn aggregates_of_any_history_are_those_of_its_rows(
        events in proptest::collection::vec(event(), 1..8),
        duplicates in prop_oneof![Just(Duplicates::Last), Just(Duplicates::Keep), Just(Duplicates::Unique)],
        from in -3600i64..20_000,
        span in 0i64..40_000,
        width in prop_oneof![Just(3600), Just(7200), 1i64..20_000],
    ) {
        let engine = open();
        write(&engine, &format!("m,host=a i=1i,f=0.5,u=1u,b=true {START}\n"));
        let settings = TableSettings { duplicates, ..TableSettings::default() };
        engine.set_table("d", "public", "m", settings).unwrap();
        for event in &events {
            match event {
                Event::Write { host, start, rows, step, salt } => {
                    let name = ["a", "b", "c"][usize::from(*host)];
                    write(&engine, &regular(name, START + start * SECOND, *rows, *step, *salt));
                }
                Event::Flush => engine.flush().unwrap(),
                Event::Compact => compact(&engine),
                Event::Delete { from, span } => {
                    let table = engine.snapshot().table("d", "public", "m").unwrap();
                    let from = START + from * SECOND;
                    let request = DeleteRequest { table, time: from..=from + span * SECOND, tags: Vec::new() };
                    engine.delete(&request).unwrap();
                }
            }
        }
        let from = START + from * SECOND;
        for bucket_ns in [None, Some(width * SECOND)] {
            assert_agrees(&engine, &Question::everything(bucket_ns), "any");
            let time = from..=from + span * SECOND;
            assert_agrees(&engine, &Question { time, tags: Vec::new(), bucket_ns }, "any");
        }
    }
}
