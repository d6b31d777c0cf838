//! Promise: a query that has to end ends within some thousand rows, whatever its operator is at; and who looks on is told where
//! the time goes and how much is read.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::{OnConflict, Session, Target};
use nilometer_engine::{
    ColumnKind, Engine, NewColumn, Options, PhysicalType, Snapshot, SystemClock, TableSettings,
};
use nilometer_series::{
    Aggregate, Binary, Bucket, Choice, Column, Context, Error, Expr, Fill, Limit, Limits, Literal,
    Order, OrderBy, Percentile, Reads, Rules, SeriesQuery, Shape, Source, Step, TableName, Top,
    Transform, Unlimited, Watch,
};

const SECOND: i64 = 1_000_000_000;

const HOSTS: u32 = 4;
const ROWS_EACH: u32 = 40_000;
const ROWS: u64 = HOSTS as u64 * ROWS_EACH as u64;

/// Rows that are worked on without a look, by the promise of `long.rs`, and those of a batch.
const ASK_ROWS: u64 = 65_536;
const BATCH_ROWS: u64 = 8192;

/// A table `m` with the tag `host` and the field `load`: of each host a row every two seconds, no value twice, in no order.
fn store() -> Snapshot {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let clock = Arc::new(SystemClock);
    let engine = Engine::open(disk, clock, Path::new("/d"), Options::default());
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
    let rows = (0..ROWS_EACH).flat_map(|row| (0..HOSTS).map(move |host| (host, row)));
    let hosts: StringArray = rows
        .clone()
        .map(|(host, _)| Some(format!("h{host}")))
        .collect();
    let times = rows.clone();
    let times: Int64Array = times
        .map(|(_, row)| Some(i64::from(row) * 2 * SECOND))
        .collect();
    // A number and its product with an odd one have as many different values as there are bits.
    let spread = |row: u32| f64::from(row.wrapping_mul(2_654_435_761));
    let loads: Float64Array = rows
        .map(|(host, row)| Some(spread(row * HOSTS + host)))
        .collect();
    let arrays: Vec<ArrayRef> = vec![Arc::new(hosts), Arc::new(times), Arc::new(loads)];
    let names = ["host", "time", "load"].iter().zip(&arrays);
    let fields = names.map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch = RecordBatch::try_new(schema, arrays).unwrap();
    let mut session = Session::new(Arc::clone(&engine), "d").unwrap();
    session
        .write_arrow(Target::table("m"), &batch, OnConflict::Replace)
        .unwrap();
    engine.flush().unwrap();
    engine.settle().unwrap();
    engine.snapshot()
}

/// Counts the looks, and ends the query at one of them. Its clock goes on by a nanosecond each time it is asked.
#[derive(Debug)]
struct Looks {
    asks: AtomicU64,
    ends_at: u64,
    /// Looks before the last row was read.
    asks_when_read: AtomicU64,
    has_clock: bool,
    clock: AtomicU64,
    begun: AtomicU64,
    spent: Mutex<Vec<(Step, Duration)>>,
    reads: Mutex<Reads>,
}

impl Looks {
    fn ending_at(ends_at: u64) -> Arc<Self> {
        Arc::new(Self {
            asks: AtomicU64::new(0),
            ends_at,
            asks_when_read: AtomicU64::new(0),
            has_clock: false,
            clock: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            spent: Mutex::default(),
            reads: Mutex::default(),
        })
    }

    fn with_clock() -> Arc<Self> {
        let looks = Self::ending_at(u64::MAX);
        Arc::new(Self {
            has_clock: true,
            ..Arc::into_inner(looks).unwrap()
        })
    }
}

impl Watch for Looks {
    fn has_to_end(&self) -> bool {
        self.asks.fetch_add(1, Ordering::Relaxed) >= self.ends_at
    }

    fn has_begun(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> Option<Duration> {
        let clock = || Duration::from_nanos(self.clock.fetch_add(1, Ordering::Relaxed));
        self.has_clock.then(clock)
    }

    fn has_spent(&self, step: Step, time: Duration) {
        self.spent.lock().unwrap().push((step, time));
    }

    fn has_read(&self, reads: &Reads) {
        let mut all = self.reads.lock().unwrap();
        all.rows += reads.rows;
        all.rows_skipped += reads.rows_skipped;
        all.blocks += reads.blocks;
        all.blocks_skipped += reads.blocks_skipped;
        let asks = self.asks.load(Ordering::Relaxed);
        self.asks_when_read.store(asks, Ordering::Relaxed);
    }
}

/// How many rows the answer has. All memory is given back, however it ends.
fn run(shape: &Shape, snapshot: &Snapshot, looks: &Arc<Looks>) -> Result<u64, Error> {
    let memory = Arc::new(Unlimited::default());
    let context = Context {
        memory: Arc::<Unlimited>::clone(&memory),
        watch: Arc::<Looks>::clone(looks),
        ..Context::default()
    };
    let query = SeriesQuery::new(shape.clone(), Limits::default()).unwrap();
    let rows = query.run(snapshot, &context).and_then(|batches| {
        let mut rows = 0;
        for batch in batches {
            rows += batch?.num_rows() as u64;
        }
        Ok(rows)
    });
    assert_eq!(memory.taken(), 0, "{shape}");
    rows
}

fn shape(rules: Rules, of: Expr) -> Shape {
    let table = TableName {
        database: "d".to_owned(),
        schema: None,
        table: "m".to_owned(),
    };
    let mut shape = Shape::of(rules, Source::Tables(vec![table]));
    shape.columns.push(Column {
        name: "value".to_owned(),
        expr: of,
    });
    shape
}

fn load() -> Expr {
    Expr::field("load")
}

fn by(mut shape: Shape, by: OrderBy, descending: bool) -> Shape {
    shape.order = Order { by, descending };
    shape
}

fn choosing(choice: Choice) -> Shape {
    let mut shape = by(shape(Rules::Influx, load()), OrderBy::Group, false);
    shape.choice = Some(choice);
    shape
}

fn around(inner: Shape, of: Expr) -> Shape {
    let mut outer = shape(inner.rules, of);
    outer.source = Source::Nested(Box::new(inner));
    outer
}

/// Questions of which each holds all rows, or as many buckets; rows of the answer; and how often it looks up at least once the
/// last row was read.
fn questions() -> Vec<(&'static str, Shape, u64, u64)> {
    let aggregate = |of| shape(Rules::Postgres, Expr::aggregate(of));
    let (parts, batches) = (ROWS / ASK_ROWS, ROWS / BATCH_ROWS);
    let rows = by(shape(Rules::Postgres, load()), OrderBy::Group, false);
    let neighbour = Expr::Neighbour(Transform::Previous, Box::new(load()));
    let neighbours = by(shape(Rules::Postgres, neighbour), OrderBy::Group, false);
    let mut buckets = by(aggregate(Aggregate::Max(load())), OrderBy::Time, true);
    buckets.group = vec!["host".to_owned()];
    buckets.bucket = Some(Bucket::fixed(2 * SECOND));
    let mut filled = buckets.clone();
    filled.bucket = Some(Bucket::fixed(SECOND));
    filled.fill = Fill::Null;
    // The last bucket with a row begins with it: between two rows lies one without.
    let filled_rows = (2 * u64::from(ROWS_EACH) - 1) * u64::from(HOSTS);
    let mut newest = by(aggregate(Aggregate::Max(load())), OrderBy::Time, true);
    newest.bucket = Some(Bucket::fixed(2 * SECOND));
    newest.limit = Some(Limit {
        rows: Literal::from(30_000),
        skip: Literal::from(0),
    });
    let top = Choice::Top(Top {
        by: load(),
        rows: Literal::from(100_000),
        smallest: true,
        each: Vec::new(),
    });
    let percentile = Aggregate::Percentile(load(), 90.0, Percentile::Nearest);
    let of_value = || Expr::field("value");
    let nested = Expr::aggregate(Aggregate::Median(of_value()));
    let outer = around(rows.clone(), nested);
    let deviation = Expr::Binary(
        Binary::Subtract,
        Box::new(of_value()),
        Box::new(Expr::Neighbour(Transform::Next, Box::new(of_value()))),
    );
    let outer_neighbours = by(around(rows.clone(), deviation), OrderBy::Group, true);
    vec![
        ("median", aggregate(Aggregate::Median(load())), 1, parts),
        ("percentile", aggregate(percentile), 1, parts),
        ("mode", aggregate(Aggregate::Mode(load())), 1, parts),
        (
            "distinct values",
            aggregate(Aggregate::CountDistinct(load())),
            1,
            2 * parts,
        ),
        ("sorted rows", rows, ROWS, batches),
        ("neighbours", neighbours, ROWS, 3 * batches),
        ("buckets", buckets, ROWS, batches),
        (
            "filled buckets",
            filled,
            filled_rows,
            filled_rows / BATCH_ROWS,
        ),
        ("newest buckets", newest, 30_000, 30_000 / BATCH_ROWS),
        ("top", choosing(top), 100_000, 100_000 / BATCH_ROWS),
        (
            "chosen values",
            choosing(Choice::Distinct(load())),
            ROWS,
            batches,
        ),
        ("median of a query", outer, 1, 2 * batches),
        ("neighbours of a query", outer_neighbours, ROWS, 4 * batches),
    ]
}

/// A percentile sorted millions of values in one call, and rows with neighbours were put into one batch: nobody could end a query
/// that was at either.
#[test]
fn a_query_looks_up_whatever_it_is_at() {
    let snapshot = store();
    for (what, shape, rows, looks_min) in questions() {
        let whole = Looks::ending_at(u64::MAX);
        assert_eq!(run(&shape, &snapshot, &whole).unwrap(), rows, "{what}");
        let asks = whole.asks.load(Ordering::Relaxed);
        let read = whole.asks_when_read.load(Ordering::Relaxed);
        assert!(
            asks - read >= looks_min,
            "{what}: {asks} looks, {read} of them before the last row was read"
        );
        // Each look is one at which it ends, the last one too.
        for ends_at in [0, read, read + (asks - read) / 2, asks - 1] {
            let ended = run(&shape, &snapshot, &Looks::ending_at(ends_at));
            assert!(
                matches!(ended, Err(Error::Cancelled)),
                "{what}: at {ends_at} of {asks}: {ended:?}"
            );
        }
    }
}

/// Time that no step has is nobody's: with a clock that goes on at each look at it, each step takes at least one.
#[test]
fn steps_and_reads_are_told() {
    let snapshot = store();
    for (what, shape, _, _) in questions() {
        let looks = Looks::with_clock();
        run(&shape, &snapshot, &looks).unwrap();
        assert_eq!(looks.begun.load(Ordering::Relaxed), 1, "{what}");
        let spent = looks.spent.lock().unwrap();
        for step in [Step::Prune, Step::Decode, Step::Operate] {
            let own = spent.iter().filter(|(of, _)| *of == step);
            assert!(
                own.map(|it| it.1).sum::<Duration>() > Duration::ZERO,
                "{what}"
            );
        }
        // No time is told twice.
        let all: Duration = spent.iter().map(|it| it.1).sum();
        let ticks = looks.clock.load(Ordering::Relaxed);
        assert!(all <= Duration::from_nanos(ticks), "{what}: {all:?}");
        // A block has 1024 rows; which of the newest buckets are needed is found in steps.
        let reads = *looks.reads.lock().unwrap();
        if !what.contains("newest") {
            assert_eq!((reads.rows, reads.rows_skipped), (ROWS, 0), "{what}");
            assert!(reads.blocks >= ROWS / 1024, "{what}: {reads:?}");
        }
    }
    // Whole hours need not be read.
    let mut hours = shape(Rules::Postgres, Expr::aggregate(Aggregate::Sum(load())));
    hours.bucket = Some(Bucket::fixed(3600 * SECOND));
    let looks = Looks::with_clock();
    run(&hours, &snapshot, &looks).unwrap();
    let reads = *looks.reads.lock().unwrap();
    assert_eq!(
        reads,
        Reads {
            rows_skipped: ROWS,
            ..Reads::default()
        }
    );
    // Without a clock nothing is told.
    let looks = Looks::ending_at(u64::MAX);
    run(&hours, &snapshot, &looks).unwrap();
    assert!(looks.spent.lock().unwrap().is_empty());
}
