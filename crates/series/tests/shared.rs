//! Promise: of series with few rows each, blocks that several share are read as wholes, of a count no page at all; and the answer
//! is that of going over all rows, whatever late rows, overwrites and deletes say.
//!
//! Story: `region, count(*)` and `count(DISTINCT hostname)` of 100,000 series with ten rows each decoded all rows and handed them out
//! series by series, 32 to 53 ms; the property test has too few series for that way, and its stores no such question.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, RecordBatch};
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    AggregateSources, DeleteRequest, Engine, Options, SystemClock, TagPredicate,
};
use nilometer_lineproto::Precision;
use nilometer_series::{
    Aggregate, Bucket, Column, Context, Expr, Limits, Order, OrderBy, Rules, SeriesQuery, Shape,
    Source, TableName, Watch,
};

const HOSTS: i64 = 1500;
const ROWS: i64 = 5;
const MINUTE: i64 = 60_000_000_000;
const BUCKET: i64 = 2 * MINUTE;

#[derive(Debug, Default)]
struct Used(Mutex<AggregateSources>);

impl Watch for Used {
    fn has_aggregated(&self, used: &AggregateSources) {
        self.0.lock().unwrap().add(used);
    }
}

/// Values by host and time; `None` = the row has no value.
type Model = BTreeMap<(i64, i64), Option<i64>>;

/// Every seventh host has no region.
fn region(host: i64) -> Option<String> {
    (host % 7 != 0).then(|| format!("r{}", host % 3))
}

fn open() -> Arc<Engine> {
    let disk = Arc::new(MemoryDisk::new());
    let clock = Arc::new(SystemClock);
    let engine = Engine::open(disk, clock, Path::new("/d"), Options::default());
    let engine = Arc::new(engine.unwrap());
    engine.create_database("d").unwrap();
    engine
}

/// Writes rows; what a row has of a key that is there wins.
fn write(engine: &Arc<Engine>, model: &mut Model, hosts: Range<i64>, rows: Range<i64>, salt: i64) {
    let mut lines = String::new();
    for host in hosts {
        let region = region(host).map_or(String::new(), |it| format!(",region={it}"));
        for row in rows.clone() {
            let time = row * MINUTE + host % 11;
            let value = (host + row) % 5 > 0;
            let value = value.then_some((host * 37 + row * 11 + salt) % 1009);
            let text = value.map_or("w=1i".to_owned(), |value| format!("v={value}i"));
            writeln!(lines, "m,host=h{host:04}{region} {text} {time}").unwrap();
            let known = model.entry((host, time)).or_default();
            *known = value.or(*known);
        }
    }
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    session
        .write_lines(lines.as_bytes(), Precision::Nanosecond)
        .unwrap();
}

fn run(engine: &Arc<Engine>, shape: Shape) -> (Vec<RecordBatch>, AggregateSources) {
    let used = Arc::new(Used::default());
    let context = Context {
        watch: Arc::<Used>::clone(&used),
        ..Context::default()
    };
    let query = SeriesQuery::new(shape, Limits::default()).unwrap();
    let batches = query.run(&engine.snapshot(), &context).unwrap();
    let batches = batches.collect::<Result<Vec<_>, _>>().unwrap();
    let used = *used.0.lock().unwrap();
    (batches, used)
}

fn table(range: Option<(i64, i64)>) -> Shape {
    let name = TableName {
        database: "d".to_owned(),
        schema: None,
        table: "m".to_owned(),
    };
    let mut shape = Shape::of(Rules::Postgres, Source::Tables(vec![name]));
    if let Some((from, to)) = range {
        shape.time.from = Some(from.into());
        shape.time.to = Some(to.into());
    }
    shape
}

/// Rows, values, their sum and greatest, first and last time.
type Row = (i64, i64, Option<i64>, Option<i64>, i64, i64);
type Rows = BTreeMap<(Option<String>, i64), Row>;

fn by_region(
    engine: &Arc<Engine>,
    range: Option<(i64, i64)>,
    bucketed: bool,
) -> (Rows, AggregateSources) {
    let mut shape = table(range);
    shape.group = vec!["region".to_owned()];
    shape.bucket = bucketed.then(|| Bucket::fixed(BUCKET));
    let value = || Expr::field("v");
    let aggregates = [
        Aggregate::Rows,
        Aggregate::Count(value()),
        Aggregate::Sum(value()),
        Aggregate::Max(value()),
        Aggregate::Min(Expr::Time),
        Aggregate::Max(Expr::Time),
    ];
    for (at, aggregate) in aggregates.into_iter().enumerate() {
        shape.columns.push(Column {
            name: format!("c{at}"),
            expr: Expr::aggregate(aggregate),
        });
    }
    if bucketed {
        shape.order = Order {
            by: OrderBy::Time,
            descending: false,
        };
    }
    let (batches, used) = run(engine, shape);
    let mut found = Rows::new();
    for batch in &batches {
        let first = usize::from(bucketed);
        let tags = batch.column(first).as_dictionary::<Int32Type>();
        let texts = tags.values().as_string::<i32>();
        for row in 0..batch.num_rows() {
            let bucket = if bucketed {
                batch
                    .column(0)
                    .as_primitive::<TimestampNanosecondType>()
                    .value(row)
            } else {
                0
            };
            let code = tags.keys().is_valid(row).then(|| tags.keys().value(row));
            let region = code.map(|code| texts.value(code as usize).to_owned());
            let int = |at: usize| {
                let column = batch.column(first + 1 + at).as_primitive::<Int64Type>();
                column.is_valid(row).then(|| column.value(row))
            };
            let time = |at: usize| {
                let column = batch.column(first + 1 + at);
                let column = column.as_primitive::<TimestampNanosecondType>();
                column.value(row)
            };
            let known = (
                int(0).unwrap(),
                int(1).unwrap(),
                int(2),
                int(3),
                time(4),
                time(5),
            );
            assert!(found.insert((region, bucket), known).is_none());
        }
    }
    (found, used)
}

fn expected(model: &Model, range: Option<(i64, i64)>, bucketed: bool) -> Rows {
    let mut rows = Rows::new();
    let (from, to) = range.unwrap_or((i64::MIN, i64::MAX));
    for (&(host, time), &value) in model {
        if time < from || time >= to {
            continue;
        }
        let bucket = if bucketed { time - time % BUCKET } else { 0 };
        let row = rows.entry((region(host), bucket)).or_default();
        let is_first = row.0 == 0;
        row.0 += 1;
        if let Some(value) = value {
            row.1 += 1;
            row.2 = Some(row.2.unwrap_or(0) + value);
            row.3 = row.3.max(Some(value));
        }
        row.4 = if is_first { time } else { row.4.min(time) };
        row.5 = row.5.max(time);
    }
    rows
}

/// `count(DISTINCT host)` and the number of groups, of the hosts whose tag is asked for.
fn distinct(
    engine: &Arc<Engine>,
    tag: &str,
    range: Option<(i64, i64)>,
) -> (i64, i64, AggregateSources) {
    let mut inner = table(range);
    inner.group = vec![tag.to_owned()];
    inner.columns.push(Column {
        name: "rows".to_owned(),
        expr: Expr::aggregate(Aggregate::Rows),
    });
    let mut shape = Shape::of(Rules::Postgres, Source::Nested(Box::new(inner)));
    for (name, aggregate) in [
        ("tags", Aggregate::Count(Expr::tag(tag))),
        ("groups", Aggregate::Rows),
    ] {
        shape.columns.push(Column {
            name: name.to_owned(),
            expr: Expr::aggregate(aggregate),
        });
    }
    let (batches, used) = run(engine, shape);
    let [batch] = batches.as_slice() else {
        panic!("{batches:?}");
    };
    let at = |at: usize| batch.column(at).as_primitive::<Int64Type>().value(0);
    assert_eq!(batch.num_rows(), 1);
    (at(0), at(1), used)
}

fn check(engine: &Arc<Engine>, model: &Model, state: &str) -> (AggregateSources, AggregateSources) {
    let ranges = [
        None,
        Some((MINUTE, 3 * MINUTE + 6)),
        Some((2 * MINUTE + 3, 2 * MINUTE + 4)),
        Some((-MINUTE, 0)),
        Some((0, ROWS * MINUTE)),
    ];
    for range in ranges {
        for bucketed in [false, true] {
            let (found, _) = by_region(engine, range, bucketed);
            let expected = expected(model, range, bucketed);
            assert_eq!(found, expected, "{state}: {range:?} {bucketed}");
        }
        let (from, to) = range.unwrap_or((i64::MIN, i64::MAX));
        let rows = model.keys().filter(|(_, time)| (from..to).contains(time));
        let hosts: BTreeSet<i64> = rows.map(|(host, _)| *host).collect();
        let regions: BTreeSet<Option<String>> = hosts.iter().map(|host| region(*host)).collect();
        let named = regions.iter().flatten().count();
        let (tags, groups, _) = distinct(engine, "host", range);
        let all = hosts.len() as i64;
        assert_eq!((tags, groups), (all, all), "{state}: {range:?}");
        let (tags, groups, _) = distinct(engine, "region", range);
        let wanted = (named as i64, regions.len() as i64);
        assert_eq!((tags, groups), wanted, "{state}: {range:?}");
    }
    (
        by_region(engine, None, false).1,
        distinct(engine, "host", None).2,
    )
}

#[test]
fn blocks_of_several_series_are_read_as_wholes_where_all_of_their_rows_count() {
    let engine = open();
    let mut model = Model::new();
    write(&engine, &mut model, 0..HOSTS, 0..ROWS, 0);
    check(&engine, &model, "in memory");
    engine.flush().unwrap();
    engine.settle().unwrap();
    let (values, counted) = check(&engine, &model, "settled");
    let rows = (HOSTS * ROWS) as u64;
    assert_eq!((values.rows, values.rows_known), (rows, 0));
    assert!(values.shared >= rows / 1024, "{values:?}");
    assert_eq!((counted.rows, counted.rows_known), (0, rows));
    assert_eq!(counted.blocks, 0, "{counted:?}");
    // Rows that come later than all others: the segment is by itself still.
    write(&engine, &mut model, 40..60, ROWS..ROWS + 2, 5);
    let (_, counted) = check(&engine, &model, "with rows in memory");
    assert_eq!(counted.shared, values.shared);
    assert_eq!((counted.rows, counted.rows_known), (40, rows));
    // Rows of keys that are there, of some hosts.
    write(&engine, &mut model, 700..705, 1..3, 9);
    check(&engine, &model, "overwritten");
    engine.flush().unwrap();
    check(&engine, &model, "overwritten in two files");
    engine.settle().unwrap();
    check(&engine, &model, "settled again");
    // A delete of a host touches its block alone.
    let schema = engine.snapshot().table("d", "public", "m").unwrap();
    let host = schema.tags.iter().position(|tag| tag.name == "host");
    engine
        .delete(&DeleteRequest {
            table: schema,
            time: 0..=2 * MINUTE,
            tags: vec![TagPredicate::one_of(
                1 + host.unwrap(),
                vec![Some("h0300".to_owned())],
            )],
        })
        .unwrap();
    model.retain(|(host, time), _| *host != 300 || *time > 2 * MINUTE);
    check(&engine, &model, "deleted");
    engine.settle().unwrap();
    check(&engine, &model, "settled without them");
}
