//! Cost of the questions of the Time Series Benchmark Suite, cpu-only, inside the process.
//!
//! `cargo run --release -p nilometer-series --example tsbs -- load DIR [HOSTS] [HOURS]` makes a settled store.
//! `... -- settle DIR hot|cold` writes its partitions for a tier.
//! `... -- ask DIR [TYPE|all] [REPEATS] [THREADS]` asks it. Instructions of the questions alone, after a first one that warms
//! the caches, are counted by
//! `valgrind --tool=callgrind --toggle-collect='*measured*' target/release/examples/tsbs ask DIR TYPE 3 1`; divide by 3.
//!
//! The data are as the suite's: ten tags, ten integers that walk between 0 and 100, one row every ten seconds. Windows are
//! not aligned to buckets.
#![expect(clippy::print_stdout, reason = "an example prints what it measured")]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array, RecordBatch};
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options, Snapshot, Tier};
use nilometer_lineproto::Precision;
use nilometer_series::{
    Aggregate, Binary, Bucket, Column, Context, Expr, Inline, Limit, Limits, Literal, Order,
    OrderBy, Rules, SeriesQuery, Shape, Source, TableName, TagExpr, Threads, Value,
};

type Failure = Box<dyn std::error::Error>;

const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const INTERVAL: i64 = 10 * SECOND;
/// 2016-01-01T00:00:00Z.
const START: i64 = 1_451_606_400_000_000_000;
/// By how much windows miss the edges of buckets.
const ODD: i64 = 2_646_325_000;
const TAGS: [&str; 9] = [
    "region",
    "datacenter",
    "rack",
    "os",
    "arch",
    "team",
    "service",
    "service_version",
    "service_environment",
];
const CPU: [&str; 10] = [
    "usage_user",
    "usage_system",
    "usage_idle",
    "usage_nice",
    "usage_iowait",
    "usage_irq",
    "usage_softirq",
    "usage_steal",
    "usage_guest",
    "usage_guest_nice",
];

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: i64| -> Result<i64, Failure> {
        Ok(arguments
            .get(at)
            .map_or(Ok(default), |text| text.parse::<i64>())?)
    };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["load", dir, ..] => load(Path::new(dir), number(2, 1000)?, number(3, 12)?),
        ["ask", dir, ..] => {
            let wanted = arguments.get(2).map_or("all", String::as_str);
            let repeats = usize::try_from(number(3, 11)?)?;
            ask(Path::new(dir), wanted, repeats, number(4, 2)? > 1)
        }
        ["settle", dir, tier] => settle(Path::new(dir), tier),
        _ => Err(
            "usage: tsbs load DIR [HOSTS] [HOURS] | settle DIR hot|cold | ask DIR [TYPE] [REPEATS] [THREADS]".into(),
        ),
    }
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A step of about a normal distribution of variance 1.
    fn step(&mut self) -> f64 {
        let parts = (0..12).map(|_| (self.next() >> 11) as f64 / (1_u64 << 53) as f64);
        parts.sum::<f64>() - 6.0
    }
}

fn load(dir: &Path, hosts: i64, hours: i64) -> Result<(), Failure> {
    let engine = Arc::new(Engine::open_dir(dir, Options::default())?);
    engine.create_database("benchmark")?;
    let mut session = Session::new(Arc::clone(&engine), "benchmark")?;
    let mut random = Random(88_172_645_463_325_252);
    let tags: Vec<String> = (0..hosts)
        .map(|host| {
            let region = random.next() % 9;
            format!(
                "cpu,hostname=host_{host},region=region-{region},datacenter=region-{region}{},rack={},os=Ubuntu{},arch=x{},team=T{},service={},service_version={},service_environment=E{}",
                random.next() % 3,
                random.next() % 100,
                random.next() % 3,
                random.next() % 2,
                random.next() % 4,
                random.next() % 20,
                random.next() % 2,
                random.next() % 3
            )
        })
        .collect();
    let mut walks: Vec<[f64; 10]> = tags
        .iter()
        .map(|_| std::array::from_fn(|_| (random.next() % 101) as f64))
        .collect();
    let mut body = Vec::new();
    let (mut rows, mut time) = (0, START);
    while time < START + hours * HOUR {
        for (tags, walks) in tags.iter().zip(&mut walks) {
            body.extend_from_slice(tags.as_bytes());
            for (at, (walk, name)) in walks.iter_mut().zip(CPU).enumerate() {
                *walk = (*walk + random.step()).clamp(0.0, 100.0);
                let before = if at == 0 { ' ' } else { ',' };
                write!(body, "{before}{name}={walk:.0}i")?;
            }
            writeln!(body, " {time}")?;
            rows += 1;
            if rows % 10_000 == 0 {
                session.write_lines(&body, Precision::Nanosecond)?;
                engine.maintain()?;
                body.clear();
            }
        }
        time += INTERVAL;
    }
    session.write_lines(&body, Precision::Nanosecond)?;
    engine.flush()?;
    engine.settle()?;
    let metrics = engine.metrics();
    println!(
        "{rows} rows in {} segments of {} bytes",
        metrics.segments, metrics.segment_bytes
    );
    Ok(())
}

/// Writes every partition for a tier, and tells what that takes.
fn settle(dir: &Path, tier: &str) -> Result<(), Failure> {
    let engine = Engine::open_dir(dir, Options::default())?;
    let tier = match tier {
        "hot" => Tier::Hot,
        "cold" => Tier::Cold,
        other => return Err(format!("{other} is neither hot nor cold").into()),
    };
    let start = Instant::now();
    engine.settle_for(Some(tier))?;
    let took = start.elapsed();
    let metrics = engine.metrics();
    println!(
        "{tier}: {} rows in {} segments of {} bytes, in {took:.2?}",
        metrics.segment_rows, metrics.segments, metrics.segment_bytes
    );
    engine.close()?;
    Ok(())
}

/// Two threads: the caller's, and one more where there is work for it.
#[derive(Debug)]
struct Two;

impl Threads for Two {
    fn count(&self) -> usize {
        2
    }

    fn run(&self, tasks: usize, work: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            for task in 1..tasks {
                scope.spawn(move || work(task));
            }
            work(0);
        });
    }
}

/// The first answer. Two versions of this program are compared by the sum of its bytes.
struct First {
    rows: usize,
    sum: u64,
    time: Duration,
}

fn ask(dir: &Path, wanted: &str, repeats: usize, is_parallel: bool) -> Result<(), Failure> {
    let engine = Arc::new(Engine::open_dir(dir, Options::default())?);
    let snapshot = engine.snapshot();
    let context = Context {
        threads: if is_parallel {
            Arc::new(Two)
        } else {
            Arc::new(Inline)
        },
        ..Context::default()
    };
    println!("type                     rows        sum of bytes   first us  median us    best us");
    for (name, shape) in types() {
        if wanted != "all" && wanted != name {
            continue;
        }
        let first = warm(&shape, &snapshot, &context)?;
        let mut times = Vec::with_capacity(repeats);
        for _ in 0..repeats {
            let begin = Instant::now();
            let found = measured(&shape, &snapshot, &context)?;
            times.push(begin.elapsed());
            if found != first.rows {
                return Err(format!("{name}: {found} rows, and {} at first", first.rows).into());
            }
        }
        times.sort_unstable();
        let micros = |time: Option<&Duration>| time.map_or(0.0, |it| it.as_secs_f64() * 1e6);
        println!(
            "{name:<22} {:>6} {:>18x} {:>10.0} {:>10.0} {:>10.0}",
            first.rows,
            first.sum,
            micros(Some(&first.time)),
            micros(times.get(times.len() / 2)),
            micros(times.first())
        );
    }
    Ok(())
}

#[inline(never)]
fn warm(shape: &Shape, snapshot: &Snapshot, context: &Context) -> Result<First, Failure> {
    let begin = Instant::now();
    let query = SeriesQuery::new(shape.clone(), Limits::default())?;
    let batches: Vec<RecordBatch> = query.run(snapshot, context)?.collect::<Result<_, _>>()?;
    let time = begin.elapsed();
    let mut first = First {
        rows: 0,
        sum: 0,
        time,
    };
    for batch in &batches {
        first.rows += batch.num_rows();
        for column in batch.columns() {
            for buffer in column.to_data().buffers() {
                let bytes = buffer.iter().map(|byte| u64::from(*byte));
                first.sum += bytes.sum::<u64>();
            }
        }
    }
    Ok(first)
}

#[inline(never)]
fn measured(shape: &Shape, snapshot: &Snapshot, context: &Context) -> Result<usize, Failure> {
    let mut rows = 0;
    let query = SeriesQuery::new(shape.clone(), Limits::default())?;
    for batch in query.run(snapshot, context)? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

fn time(offset: i64) -> Literal {
    Literal::Value(Value::Time(START + offset))
}

fn cpu(from: Option<Literal>, to: Option<Literal>) -> Shape {
    let table = TableName {
        database: "benchmark".to_owned(),
        schema: None,
        table: "cpu".to_owned(),
    };
    let mut shape = Shape::of(Rules::Postgres, Source::Tables(vec![table]));
    shape.time.from = from;
    shape.time.to = to;
    shape
}

fn order(by: OrderBy, descending: bool) -> Order {
    Order { by, descending }
}

fn limit(rows: i64) -> Limit {
    Limit {
        rows: Literal::from(rows),
        skip: Literal::from(0),
    }
}

fn of_hosts(mut shape: Shape, hosts: usize) -> Shape {
    let hosts = (1..=hosts).map(|at| Literal::from(format!("host_{}", 7 * at + 3).as_str()));
    shape.tags = TagExpr::OneOf("hostname".to_owned(), hosts.collect());
    shape
}

fn fields(mut shape: Shape, names: usize, prefix: &str, make: impl Fn(Expr) -> Expr) -> Shape {
    for name in CPU.iter().take(names) {
        shape.columns.push(Column {
            name: format!("{prefix}{name}"),
            expr: make(Expr::field(name)),
        });
    }
    shape
}

fn maxima((from, hours): (i64, i64), hosts: usize, names: usize, width: i64) -> Shape {
    let shape = cpu(Some(time(from)), Some(time(from + hours * HOUR)));
    let max = |of| Expr::aggregate(Aggregate::Max(of));
    let mut shape = fields(of_hosts(shape, hosts), names, "max_", max);
    shape.bucket = Some(Bucket::fixed(width));
    shape.order = order(OrderBy::Time, false);
    shape
}

fn means(names: usize) -> Shape {
    let from = 40 * MINUTE + ODD;
    let shape = cpu(Some(time(from)), Some(time(from + 12 * HOUR)));
    let mean = |of| Expr::aggregate(Aggregate::Mean(of));
    let mut shape = fields(shape, names, "mean_", mean);
    shape.group = vec!["hostname".to_owned()];
    shape.bucket = Some(Bucket::fixed(HOUR));
    shape.order = order(OrderBy::Time, false);
    shape
}

fn high() -> Shape {
    let from = 40 * MINUTE + ODD;
    let mut shape = cpu(Some(time(from)), Some(time(from + 12 * HOUR)));
    let above = Expr::binary(
        Binary::Greater,
        Expr::field("usage_user"),
        Expr::literal(90.0),
    );
    shape.rows = Some(above);
    shape.columns.push(Column {
        name: "hostname".to_owned(),
        expr: Expr::tag("hostname"),
    });
    fields(shape, 10, "", |of| of)
}

/// All columns, as `SELECT *` has them.
fn whole(mut shape: Shape) -> Shape {
    let others = TAGS.iter().map(|tag| Column {
        name: (*tag).to_owned(),
        expr: Expr::tag(tag),
    });
    shape.columns.splice(0..0, others);
    shape
}

fn types() -> Vec<(&'static str, Shape)> {
    let hour = (7 * HOUR + 47 * MINUTE + ODD, 1);
    let twelve = (40 * MINUTE + ODD, 12);
    let eight = (4 * HOUR + 32 * MINUTE + ODD, 8);
    let max = |of| Expr::aggregate(Aggregate::Max(of));
    let mut newest = fields(
        cpu(None, Some(time(8 * HOUR + 47 * MINUTE + ODD))),
        1,
        "max_",
        max,
    );
    newest.bucket = Some(Bucket::fixed(MINUTE));
    newest.order = order(OrderBy::Time, true);
    newest.limit = Some(limit(5));
    let mut last = fields(cpu(None, None), 10, "", |of| of);
    last.group = vec!["hostname".to_owned()];
    last.order = order(OrderBy::Group, true);
    last.limit_per_group = Some(limit(1));
    let count = |mut shape: Shape| {
        shape.columns = vec![Column {
            name: "rows".to_owned(),
            expr: Expr::aggregate(Aggregate::Rows),
        }];
        shape
    };
    vec![
        ("single-groupby-1-1-1", maxima(hour, 1, 1, MINUTE)),
        ("single-groupby-1-1-12", maxima(twelve, 1, 1, MINUTE)),
        ("single-groupby-1-8-1", maxima(hour, 8, 1, MINUTE)),
        ("single-groupby-5-1-1", maxima(hour, 1, 5, MINUTE)),
        ("single-groupby-5-1-12", maxima(twelve, 1, 5, MINUTE)),
        ("single-groupby-5-8-1", maxima(hour, 8, 5, MINUTE)),
        ("cpu-max-all-1", maxima(eight, 1, 10, HOUR)),
        ("cpu-max-all-8", maxima(eight, 8, 10, HOUR)),
        ("double-groupby-1", means(1)),
        ("double-groupby-5", means(5)),
        ("double-groupby-all", means(10)),
        ("high-cpu-1", of_hosts(high(), 1)),
        ("high-cpu-all", high()),
        ("high-cpu-all-whole", whole(high())),
        ("lastpoint", last.clone()),
        ("lastpoint-whole", whole(last)),
        ("groupby-orderby-limit", newest),
        ("count", count(cpu(None, None))),
        ("min-time", {
            let mut shape = count(cpu(None, None));
            let first = Aggregate::Min(Expr::Time);
            if let Some(column) = shape.columns.first_mut() {
                column.expr = Expr::aggregate(first);
            }
            shape
        }),
        ("newest-rows", {
            let mut shape = fields(cpu(None, None), 10, "", |of| of);
            shape.order = order(OrderBy::Time, true);
            shape.limit = Some(limit(10));
            shape
        }),
    ]
}
