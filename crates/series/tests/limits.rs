//! Promise: a query ends when it is told to, takes no more than it is given, gives everything back, and is refused with an
//! error that says what to change.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed unwrap is the report, and the numbers are small"
)]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::{OnConflict, Session, Target};
use nilometer_engine::{
    ColumnKind, DeleteRequest, Engine, NewColumn, Options, PhysicalType, Scan, Snapshot,
    SystemClock, TableSettings,
};
use nilometer_series::{
    Aggregate, Binary, Bucket, Column, Context, Error, Expr, Fill, Limit, Limits, Literal,
    MemoryAccount, MemoryFull, Order, OrderBy, Rules, SeriesQuery, Shape, Source, TableName,
    TagExpr, Threads, Transform, Value, Watch, Width, Zone,
};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

/// A table `m` with the tag `host` and the field `load`, and rows of so many hosts, one a second each.
fn store(hosts: i64, rows_each: i64) -> Snapshot {
    written(hosts, rows_each).snapshot()
}

/// The same while it can be changed.
fn written(hosts: i64, rows_each: i64) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let engine = Engine::open(
        disk,
        Arc::new(SystemClock),
        Path::new("/d"),
        Options::default(),
    );
    let engine = Arc::new(engine.unwrap());
    engine.create_database("d").unwrap();
    let columns = [
        NewColumn {
            name: "host",
            kind: ColumnKind::Tag,
        },
        NewColumn {
            name: "load",
            kind: ColumnKind::Field(PhysicalType::F64),
        },
    ];
    engine
        .create_table("d", "public", "m", &columns, TableSettings::default())
        .unwrap();
    let keys = (0..hosts).flat_map(|host| (0..rows_each).map(move |row| (host, row)));
    let names: StringArray = keys
        .clone()
        .map(|(host, _)| Some(format!("h{host}")))
        .collect();
    let times: Int64Array = keys.clone().map(|(_, row)| Some(row * SECOND)).collect();
    let loads: Float64Array = keys.map(|(host, row)| Some((host + row) as f64)).collect();
    write_columns(&engine, names, times, loads);
    engine
}

/// Writes rows of hosts at seconds, whose load is 7.
fn write(engine: &Arc<Engine>, rows: &[(&str, i64)]) {
    let names = rows.iter().map(|(host, _)| Some(*host)).collect();
    let times = rows.iter().map(|(_, at)| Some(at * SECOND)).collect();
    write_columns(
        engine,
        names,
        times,
        Float64Array::from(vec![7.0; rows.len()]),
    );
}

fn write_columns(engine: &Arc<Engine>, names: StringArray, times: Int64Array, loads: Float64Array) {
    let arrays: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(times), Arc::new(loads)];
    let fields: Vec<Field> = ["host", "time", "load"]
        .iter()
        .zip(&arrays)
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    let mut session = Session::new(Arc::clone(engine), "d").unwrap();
    session
        .write_arrow(Target::table("m"), &batch, OnConflict::Replace)
        .unwrap();
}

fn shape() -> Shape {
    let table = TableName {
        database: "d".to_owned(),
        schema: None,
        table: "m".to_owned(),
    };
    let mut shape = Shape::of(Rules::Postgres, Source::Tables(vec![table]));
    shape.columns.push(Column {
        name: "load".to_owned(),
        expr: Expr::field("load"),
    });
    shape
}

fn sum_by(bucket: Bucket) -> Shape {
    let mut shape = shape();
    shape.columns[0].expr = Expr::aggregate(Aggregate::Sum(Expr::field("load")));
    shape.bucket = Some(bucket);
    shape
}

fn by_time(mut shape: Shape) -> Shape {
    shape.order = Order {
        by: OrderBy::Time,
        descending: false,
    };
    shape
}

fn query(shape: Shape) -> SeriesQuery {
    SeriesQuery::new(shape, Limits::default()).unwrap()
}

/// Rows of an answer.
fn count(shape: Shape, snapshot: &Snapshot, context: &Context) -> Result<usize, Error> {
    let mut rows = 0;
    for batch in query(shape).run(snapshot, context)? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

/// An account of so many bytes.
#[derive(Debug)]
struct Small {
    bytes_max: usize,
    taken: AtomicUsize,
    most: AtomicUsize,
}

impl Small {
    fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            taken: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }
}

impl MemoryAccount for Small {
    fn charge(&self, bytes: usize) -> Result<(), MemoryFull> {
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.bytes_max {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
            return Err(MemoryFull {
                problem: "raise query_bytes_max".to_owned(),
            });
        }
        self.most.fetch_max(before + bytes, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// An account whose owner wants no slices.
#[derive(Debug)]
struct AtOnce(Arc<Small>);

impl MemoryAccount for AtOnce {
    fn charge(&self, bytes: usize) -> Result<(), MemoryFull> {
        self.0.charge(bytes)
    }

    fn release(&self, bytes: usize) {
        self.0.release(bytes);
    }

    fn slice_rows(&self) -> u64 {
        u64::MAX
    }
}

/// Threads that are counted.
#[derive(Debug, Default)]
struct Counted(AtomicUsize);

impl Threads for Counted {
    fn count(&self) -> usize {
        2
    }

    fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync)) {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for task in 0..tasks {
                scope.spawn(move || work(task));
            }
        });
    }
}

#[test]
fn a_cancelled_query_gives_nothing_more() {
    let snapshot = store(4, 40_000);
    let context = Context::default();
    let mut answer = query(shape()).run(&snapshot, &context).unwrap();
    assert!(answer.next().unwrap().is_ok());
    context.cancel.store(true, Ordering::Relaxed);
    assert!(matches!(answer.next(), Some(Err(Error::Cancelled))));
    assert!(answer.next().is_none());
    let bucket = Bucket::fixed(SECOND);
    for shape in [shape(), by_time(shape()), sum_by(bucket)] {
        assert!(matches!(
            count(shape, &snapshot, &context),
            Err(Error::Cancelled)
        ));
    }
}

#[test]
fn a_query_beyond_its_memory_ends_with_the_accounts_error_and_gives_everything_back() {
    let snapshot = store(2, 20_000);
    let mut median = sum_by(Bucket::fixed(DAY));
    median.columns[0].expr = Expr::aggregate(Aggregate::Median(Expr::field("load")));
    let mut neighbours = shape();
    neighbours.columns[0].expr = Expr::Neighbour(Transform::Next, Box::new(Expr::field("load")));
    let many = sum_by(Bucket::fixed(SECOND));
    let mut nested = shape();
    nested.source = Source::Nested(Box::new(shape()));
    for shape in [by_time(shape()), median, neighbours, many, nested] {
        let account = Small::new(400_000);
        let context = Context {
            memory: Arc::<Small>::clone(&account),
            ..Context::default()
        };
        let text = shape.to_string();
        match count(shape, &snapshot, &context) {
            Err(Error::Memory(full)) => assert_eq!(full.problem, "raise query_bytes_max"),
            other => panic!("{text}: {other:?}"),
        }
        assert_eq!(account.taken.load(Ordering::Relaxed), 0, "{text}");
        assert!(account.most.load(Ordering::Relaxed) > 0, "{text}");
    }
}

/// A sum over four hundred segments of twenty rows each was refused where their rows were read: a full block of each was
/// charged, ten megabytes for some thousand rows.
#[test]
fn a_sum_over_many_small_segments_takes_what_their_rows_take() {
    let engine = written(1, 1);
    for at in 1..=400 {
        let rows = (0..10).flat_map(|host| [(host, at), (host, 10_000 - at)]);
        let rows: Vec<(String, i64)> = rows.map(|(host, at)| (format!("h{host}"), at)).collect();
        let rows: Vec<(&str, i64)> = rows.iter().map(|(host, at)| (host.as_str(), *at)).collect();
        write(&engine, &rows);
        engine.flush().unwrap();
    }
    let account = Small::new(2_000_000);
    let context = Context {
        memory: Arc::<Small>::clone(&account),
        ..Context::default()
    };
    let sum = query(sum_by(Bucket::fixed(DAY)));
    let batches = sum.run(&engine.snapshot(), &context).unwrap();
    let batches: Vec<RecordBatch> = batches.map(Result::unwrap).collect();
    let sums = batches
        .iter()
        .map(|batch| batch.column_by_name("load").unwrap());
    let sums: Vec<f64> = sums
        .flat_map(|sums| sums.as_primitive::<Float64Type>().values().to_vec())
        .collect();
    assert_eq!(sums, [7.0 * 8000.0]);
    drop(batches);
    assert_eq!(account.taken.load(Ordering::Relaxed), 0);
}

#[test]
fn few_rows_are_read_on_the_calling_thread_and_many_on_several() {
    // What is added up as it is decoded is handed out in parts of some 250,000 rows.
    for (rows_each, is_many) in [(1000, false), (100_000, true)] {
        let snapshot = store(4, rows_each);
        let by_host = |mut shape: Shape| {
            shape.group = vec!["host".to_owned()];
            shape
        };
        let mut condition = sum_by(Bucket::fixed(DAY));
        let bound = Expr::literal(-1.0);
        condition.rows = Some(Expr::binary(Binary::Greater, Expr::field("load"), bound));
        for shape in [shape(), by_host(condition)] {
            let threads = Arc::new(Counted::default());
            let context = Context {
                threads: Arc::<Counted>::clone(&threads),
                ..Context::default()
            };
            count(shape, &snapshot, &context).unwrap();
            assert_eq!(
                threads.0.load(Ordering::Relaxed) > 0,
                is_many,
                "{rows_each}"
            );
        }
    }
}

#[test]
fn buckets_that_would_be_too_many_are_refused_before_they_are_made() {
    let mut filled = sum_by(Bucket::fixed(1));
    filled.fill = Fill::Null;
    filled.time.from = Some(Literal::Value(Value::Time(0)));
    filled.time.to = Some(Literal::Value(Value::Time(DAY)));
    let refused = SeriesQuery::new(filled.clone(), Limits::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the query would make 86400000000000 buckets, and may make 1000000; take wider buckets, a shorter range of time, or raise the limit of buckets"
    );
    // Where the rows end is seen when there are any.
    let snapshot = store(1, 100);
    filled.time.to = None;
    let found = count(filled, &snapshot, &Context::default());
    assert!(
        matches!(found, Err(Error::TooManyBuckets { .. })),
        "{found:?}"
    );
    // Without filling there are as many as rows make.
    let context = Context {
        limits: Limits { buckets: 50 },
        ..Context::default()
    };
    let each = count(sum_by(Bucket::fixed(SECOND)), &snapshot, &context);
    assert!(
        matches!(
            each,
            Err(Error::TooManyBuckets {
                buckets: 51,
                buckets_max: 50
            })
        ),
        "{each:?}"
    );
    let pairs = count(sum_by(Bucket::fixed(2 * SECOND)), &snapshot, &context);
    assert_eq!(pairs.unwrap(), 50);
}

#[test]
fn a_shape_is_bound_to_values() {
    let snapshot = store(3, 10);
    let mut shape = shape();
    shape.time.from = Some(Literal::Parameter(1));
    shape.tags = TagExpr::OneOf("host".to_owned(), vec![Literal::Parameter(0)]);
    shape.limit = Some(Limit {
        rows: Literal::Parameter(2),
        skip: Literal::from(0),
    });
    assert!(shape.to_string().contains("tags host = $1"), "{shape}");
    let run = |values: &[Value]| {
        let query = shape.bind(values, Limits::default())?;
        let batches = query.run(&snapshot, &Context::default())?;
        batches
            .map(|batch| Ok(batch?.num_rows()))
            .sum::<Result<usize, Error>>()
    };
    let values = |host: &str, from: i64, rows: i64| {
        [
            Value::from(host),
            Value::Time(from * SECOND),
            Value::Int(rows),
        ]
    };
    assert_eq!(run(&values("h1", 0, 100)).unwrap(), 10);
    assert_eq!(run(&values("h1", 7, 100)).unwrap(), 3);
    assert_eq!(run(&values("h1", 7, 2)).unwrap(), 2);
    assert_eq!(run(&values("h9", 0, 100)).unwrap(), 0);
    let missing = run(&[Value::from("h1"), Value::Time(0)]).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "the parameter $3: it has no value; 2 were given"
    );
    let wrong = run(&values("h1", 0, -1)).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "a series query cannot be asked so: -1 is no number of rows"
    );
}

#[test]
fn contradictions_are_refused() {
    let with = |change: &dyn Fn(&mut Shape)| {
        let mut shape = shape();
        change(&mut shape);
        SeriesQuery::new(shape, Limits::default())
            .unwrap_err()
            .to_string()
    };
    let sum = || Expr::aggregate(Aggregate::Sum(Expr::field("load")));
    let cases = [
        (
            with(&|it| it.source = Source::Tables(Vec::new())),
            "names no table",
        ),
        (
            with(&|it| it.fill = Fill::Null),
            "fills buckets and has none",
        ),
        (
            with(&|it| {
                it.columns[0].expr = sum();
                it.bucket = Some(Bucket::fixed(0));
            }),
            "has no width",
        ),
        (
            with(&|it| it.bucket = Some(Bucket::fixed(1))),
            "\"load\" has load, which is not the same",
        ),
        (
            with(&|it| it.rows = Some(sum())),
            "put the aggregate into a nested query",
        ),
        (
            with(&|it| it.group = vec!["load".to_owned()]),
            "two columns of the answer are called \"load\"",
        ),
        (
            with(&|it| it.time.to = Some(Literal::from("noon"))),
            "'noon' is no time",
        ),
        (
            with(&|it| {
                it.columns[0].expr = sum();
                it.order.by = OrderBy::Time;
            }),
            "groups without buckets have no time",
        ),
        (
            with(&|it| {
                let of = Expr::Neighbour(Transform::Next, Box::new(Expr::field("load")));
                it.columns[0].expr = Expr::Neighbour(Transform::Next, Box::new(of));
            }),
            "is two rows away",
        ),
        (
            with(&|it| {
                let of = Expr::field("load");
                let half = Aggregate::Percentile(of, 101.0, nilometer_series::Percentile::Nearest);
                it.columns[0].expr = Expr::aggregate(half);
            }),
            "101 is no percentile",
        ),
    ];
    for (found, expected) in cases {
        assert!(found.contains(expected), "{found:?} has no {expected:?}");
    }
}

#[test]
fn a_column_that_is_not_there_is_an_error_or_absent_as_the_language_says() {
    let snapshot = store(1, 3);
    let mut shape = shape();
    shape.columns[0].expr = Expr::field("laod");
    let refused = count(shape.clone(), &snapshot, &Context::default()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "there is no field \"laod\" in m; did you mean \"load\"?"
    );
    shape.rules = Rules::Influx;
    let answer = query(shape).run(&snapshot, &Context::default()).unwrap();
    for batch in answer {
        let batch = batch.unwrap();
        assert_eq!(batch.column(1).null_count(), 3);
    }
}

/// 2024-03-31 has 23 hours in Berlin: it begins at 23:00 of UTC, and ends at 22:00.
#[test]
fn days_follow_the_clocks_of_a_zone() {
    let snapshot = store(1, 1);
    // 2024-03-30T00:00:00Z.
    let saturday = 19_812 * DAY;
    let hour = 3600 * SECOND;
    let mut shape = sum_by(Bucket {
        width: Width::Fixed(DAY),
        // 1970-01-01T00:00 there.
        origin_ns: -hour,
        offset: nilometer_series::Shift::default(),
        zone: Zone::of("Europe/Berlin"),
    });
    assert!(shape.bucket.as_ref().unwrap().zone.is_some());
    shape.fill = Fill::Null;
    // From the row, which is of 1970, to that weekend.
    shape.time.from = Some(Literal::Value(Value::Time(0)));
    shape.time.to = Some(Literal::Value(Value::Time(saturday + 3 * DAY)));
    let far = SeriesQuery::new(shape.clone(), Limits { buckets: 100 });
    assert!(matches!(far, Err(Error::TooManyBuckets { .. })));
    let answer = query(shape).run(&snapshot, &Context::default()).unwrap();
    let mut starts = Vec::new();
    for batch in answer {
        let batch = batch.unwrap();
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        starts.extend(times.values().iter().copied());
    }
    let weekend: Vec<i64> = starts
        .into_iter()
        .filter(|start| *start >= saturday)
        .collect();
    assert_eq!(
        weekend,
        [
            saturday + 23 * hour,
            saturday + DAY + 22 * hour,
            saturday + 2 * DAY + 22 * hour,
        ]
    );
}

/// A count of all rows went over all series, however many there were.
#[test]
fn rows_are_counted_by_metadata_where_those_say_it() {
    let of = |aggregate: Aggregate| {
        let mut shape = shape();
        shape.columns[0].expr = Expr::aggregate(aggregate);
        shape
    };
    let shapes = [
        of(Aggregate::Rows),
        of(Aggregate::Min(Expr::Time)),
        of(Aggregate::Max(Expr::Time)),
    ];
    let engine = written(3, 1000);
    let ask = |expected: [i64; 3]| {
        for (shape, expected) in shapes.iter().zip(expected) {
            let snapshot = engine.snapshot();
            let mut answer = query(shape.clone())
                .run(&snapshot, &Context::default())
                .unwrap();
            let batch = answer.next().unwrap().unwrap();
            let column = batch.column(0);
            let found = column.as_primitive_opt::<TimestampNanosecondType>();
            let found = match found {
                Some(times) => times.value(0),
                None => column.as_primitive::<Int64Type>().value(0),
            };
            assert_eq!(found, expected, "{shape}");
        }
    };
    ask([3000, 0, 999 * SECOND]);
    engine.flush().unwrap();
    ask([3000, 0, 999 * SECOND]);
    // Of two rows of one series and time one is left.
    write(&engine, &[("h1", 5), ("h1", 2000)]);
    ask([3001, 0, 2000 * SECOND]);
    engine.flush().unwrap();
    ask([3001, 0, 2000 * SECOND]);
    engine.settle().unwrap();
    ask([3001, 0, 2000 * SECOND]);
}

/// The last rows of series are kept with the files that they are in, and what a file says is not the last word.
#[test]
fn a_last_row_is_that_of_the_moment() {
    let engine = written(3, 1000);
    engine.flush().unwrap();
    let mut last = shape();
    last.group = vec!["host".to_owned()];
    last.order = Order {
        by: OrderBy::Group,
        descending: true,
    };
    last.limit_per_group = Some(Limit {
        rows: Literal::from(1),
        skip: Literal::from(0),
    });
    let ask = |last: &Shape, expected: [(i64, f64); 3]| {
        let snapshot = engine.snapshot();
        let mut answer = query(last.clone())
            .run(&snapshot, &Context::default())
            .unwrap();
        let batch = answer.next().unwrap().unwrap();
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        let loads = batch.column(2).as_primitive::<Float64Type>();
        let found = times.values().iter().zip(loads.values());
        let found: Vec<(i64, f64)> = found.map(|(time, load)| (time / SECOND, *load)).collect();
        assert_eq!(found, expected);
    };
    ask(&last, [(999, 999.0), (999, 1000.0), (999, 1001.0)]);
    // A late row is not the last, a new one is, and one of the same time is in its place.
    write(&engine, &[("h0", 10), ("h1", 1500), ("h2", 999)]);
    ask(&last, [(999, 999.0), (1500, 7.0), (999, 7.0)]);
    engine.flush().unwrap();
    ask(&last, [(999, 999.0), (1500, 7.0), (999, 7.0)]);
    let table = engine.snapshot().table("d", "public", "m").unwrap();
    let everything_from = |from: i64| DeleteRequest {
        table: Arc::clone(&table),
        time: from * SECOND..=i64::MAX,
        tags: Vec::new(),
    };
    engine.delete(&everything_from(998)).unwrap();
    ask(&last, [(997, 997.0), (997, 998.0), (997, 999.0)]);
    engine.settle().unwrap();
    ask(&last, [(997, 997.0), (997, 998.0), (997, 999.0)]);
    // Another field of the name is another field.
    engine
        .rename_column("d", "public", "m", "load", "work")
        .unwrap();
    last.columns[0].expr = Expr::field("work");
    ask(&last, [(997, 997.0), (997, 998.0), (997, 999.0)]);
}

/// Keeps what was planned to be read.
#[derive(Debug, Default)]
struct Planned(Mutex<Vec<Scan>>);

impl Watch for Planned {
    fn has_planned(&self, scan: &Scan) {
        self.0.lock().unwrap().push(scan.clone());
    }
}

/// `SELECT DISTINCT ON (host) *` read a block of every series, because a tag that is no group's was looked up row by row.
#[test]
fn last_rows_with_their_tags_are_known_without_reading() {
    let engine = written(3, 1000);
    engine.flush().unwrap();
    let mut last = shape();
    last.columns.push(Column {
        name: "the host".to_owned(),
        expr: Expr::tag("host"),
    });
    last.limit_per_group = Some(Limit {
        rows: Literal::from(2),
        skip: Literal::from(0),
    });
    last.order = Order {
        by: OrderBy::Group,
        descending: true,
    };
    let ask = |last: &Shape| {
        let planned = Arc::new(Planned::default());
        let context = Context {
            watch: Arc::<Planned>::clone(&planned),
            ..Context::default()
        };
        let snapshot = engine.snapshot();
        let mut hosts = Vec::new();
        for batch in query(last.clone()).run(&snapshot, &context).unwrap() {
            let batch = batch.unwrap();
            let tags = batch.column(batch.num_columns() - 1);
            let tags = tags.as_dictionary::<Int32Type>();
            let tags = tags.downcast_dict::<StringArray>().unwrap();
            hosts.extend(tags.into_iter().flatten().map(str::to_owned));
        }
        let planned = planned.0.lock().unwrap();
        let read = planned.iter().map(|scan| scan.report().blocks_read);
        (hosts, read.sum::<u64>())
    };
    // Two rows of all series are read: what is kept is the last one.
    let (hosts, read) = ask(&last);
    assert_eq!(hosts, ["h2", "h1"]);
    assert!(read > 0);
    last.group = vec!["host".to_owned()];
    last.limit_per_group.as_mut().unwrap().rows = Literal::from(1);
    assert_eq!(ask(&last), (vec!["h0".into(), "h1".into(), "h2".into()], 0));
    // A row in memory is newer.
    write(&engine, &[("h1", 5000), ("new", 1)]);
    let (hosts, read) = ask(&last);
    assert_eq!((hosts.len(), hosts[3].as_str(), read), (4, "new", 0));
}

/// All rows of a series were decoded before the first was given, where it was one of several.
#[test]
fn rows_in_no_order_take_the_memory_of_a_slice() {
    const ROWS: i64 = 1_200_000;
    let engine = written(1, ROWS);
    write(&engine, &[("h1", 3), ("h2", 4), ("h2", 2 * ROWS)]);
    engine.flush().unwrap();
    let snapshot = engine.snapshot();
    // 1.2 million times and loads are 19 MB, and with what else they have while they are read twice as much.
    let account = Small::new(16 << 20);
    let context = Context {
        memory: Arc::<Small>::clone(&account),
        ..Context::default()
    };
    for parts in [1, 3] {
        let mut sum = 0.0;
        let mut rows = 0;
        for part in query(shape())
            .run(&snapshot, &context)
            .unwrap()
            .parts(parts)
        {
            for batch in part {
                let batch = batch.unwrap();
                let loads = batch.column(1).as_primitive::<Float64Type>();
                sum += loads.values().iter().sum::<f64>();
                rows += batch.num_rows() as i64;
            }
        }
        assert_eq!(rows, ROWS + 3);
        assert_eq!(sum as i64, ROWS * (ROWS - 1) / 2 + 3 * 7);
        assert_eq!(account.taken.load(Ordering::Relaxed), 0);
    }
}

/// All rows were gathered before the first was given, however many they were.
#[test]
fn rows_in_an_order_are_given_a_slice_at_a_time() {
    const ROWS: i64 = 500_000;
    let engine = written(2, ROWS);
    engine.flush().unwrap();
    let snapshot = engine.snapshot();
    for (by, descending, grouped) in [
        (OrderBy::Time, false, false),
        (OrderBy::Time, true, true),
        (OrderBy::Group, true, true),
        (OrderBy::Group, false, false),
    ] {
        let mut shape = shape();
        shape.order = Order { by, descending };
        if grouped {
            shape.group = vec!["host".to_owned()];
        }
        // A million rows with their keys take some 80 bytes each.
        let account = Small::new(56 << 20);
        let context = Context {
            memory: Arc::<Small>::clone(&account),
            ..Context::default()
        };
        let load_at = shape.group.len() + 1;
        let (mut rows, mut before) = (0, None);
        for batch in query(shape.clone()).run(&snapshot, &context).unwrap() {
            let batch = batch.unwrap();
            let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
            let loads = batch.column(load_at).as_primitive::<Float64Type>();
            for (time, load) in times.values().iter().zip(loads.values()) {
                // The load of host 0 is the second, that of host 1 one more.
                let second = time / SECOND;
                let host = *load as i64 - second;
                let time = if descending { -second } else { second };
                let host_in_time = if descending && !grouped { -host } else { host };
                let key = match (by, grouped) {
                    (OrderBy::Group, true) => (host, time),
                    _ => (time, host_in_time),
                };
                assert!(before < Some(key), "{shape}\n{before:?} {key:?}");
                before = Some(key);
                rows += 1;
            }
        }
        assert_eq!(rows, 2 * ROWS, "{shape}");
        assert_eq!(account.taken.load(Ordering::Relaxed), 0, "{shape}");
    }
}

/// The pages of all blocks of a series were held until the last of its rows was added up, where more than fields is added up.
#[test]
fn aggregates_of_a_long_series_take_the_memory_of_a_slice() {
    const ROWS: i64 = 1_200_000;
    let engine = written(1, ROWS);
    write(&engine, &[("h1", 3), ("h2", 4), ("h2", 2 * ROWS)]);
    engine.flush().unwrap();
    let snapshot = engine.snapshot();
    let account = Small::new(16 << 20);
    let context = Context {
        memory: Arc::<Small>::clone(&account),
        ..Context::default()
    };
    let all = ROWS * (ROWS - 1) / 2 + 3 * 7;
    let doubled = Expr::binary(Binary::Multiply, Expr::field("load"), Expr::literal(2.0));
    let above = |bound: f64| {
        Expr::binary(
            Binary::GreaterOrEqual,
            Expr::field("load"),
            Expr::literal(bound),
        )
    };
    // What is below 100: 0 to 99 of one host, and three times 7 of the others.
    let below = 100 * 99 / 2 + 3 * 7;
    for (of, rows, expected) in [
        (doubled.clone(), None, 2 * all),
        (doubled, Some(above(100.0)), 2 * (all - below)),
    ] {
        let mut shape = shape();
        shape.columns[0].expr = Expr::aggregate(Aggregate::Sum(of));
        shape.rows = rows;
        let batches = query(shape.clone()).run(&snapshot, &context).unwrap();
        let batches: Vec<RecordBatch> = batches.collect::<Result<_, _>>().unwrap();
        let sums = batches[0].column(0).as_primitive::<Float64Type>();
        assert_eq!(sums.value(0) as i64, expected, "{shape}");
        drop(batches);
        assert_eq!(account.taken.load(Ordering::Relaxed), 0, "{shape}");
        // At once they are more than there is.
        let whole = Context {
            memory: Arc::new(AtOnce(Arc::clone(&account))),
            ..Context::default()
        };
        let refused = query(shape.clone()).run(&snapshot, &whole).map(drop);
        assert!(matches!(refused, Err(Error::Memory(_))), "{shape}");
        assert_eq!(account.taken.load(Ordering::Relaxed), 0, "{shape}");
    }
}
