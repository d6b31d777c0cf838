//! Cost of questions about very many series of few rows, inside the process.
//!
//! `nilometer bench generate --hosts 100000 --duration 10m --interval 60s` makes the rows, and `nilometer bench load -d many` puts them
//! into a store, which `cargo run --release -p nilometer-series --example many -- DIR [QUESTION|all] [REPEATS] [THREADS]` asks while no
//! server runs. Instructions of the questions alone are counted as `tsbs.rs` says.
#![expect(clippy::print_stdout, reason = "an example prints what it measured")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nilometer_engine::{Engine, Options, Snapshot};
use nilometer_series::{
    Aggregate, Column, Context, Expr, Inline, Limits, Rules, SeriesQuery, Shape, Source, TableName,
    Threads,
};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(dir) = arguments.first() else {
        return Err("usage: many DIR [QUESTION|all] [REPEATS] [THREADS]".into());
    };
    let wanted = arguments.get(1).map_or("all", String::as_str);
    let number = |at: usize, default: usize| -> Result<usize, Failure> {
        let text = arguments.get(at);
        Ok(text.map_or(Ok(default), |text| text.parse())?)
    };
    let (repeats, threads) = (number(2, 11)?, number(3, 2)?);
    let engine = Arc::new(Engine::open_dir(Path::new(dir), Options::default())?);
    let snapshot = engine.snapshot();
    let context = Context {
        threads: if threads > 1 {
            Arc::new(Two)
        } else {
            Arc::new(Inline)
        },
        ..Context::default()
    };
    println!("question            rows   first us  median us    best us");
    for (name, shape) in questions() {
        if wanted != "all" && wanted != name {
            continue;
        }
        let begin = Instant::now();
        let rows = measured(&shape, &snapshot, &context)?;
        let first = begin.elapsed();
        let mut times = Vec::with_capacity(repeats);
        for _ in 0..repeats {
            let begin = Instant::now();
            measured(&shape, &snapshot, &context)?;
            times.push(begin.elapsed());
        }
        times.sort_unstable();
        let micros = |time: Option<&Duration>| time.map_or(0.0, |it| it.as_secs_f64() * 1e6);
        println!(
            "{name:<16} {rows:>7} {:>10.0} {:>10.0} {:>10.0}",
            micros(Some(&first)),
            micros(times.get(times.len() / 2)),
            micros(times.first())
        );
    }
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

#[inline(never)]
fn measured(shape: &Shape, snapshot: &Snapshot, context: &Context) -> Result<usize, Failure> {
    let mut rows = 0;
    let query = SeriesQuery::new(shape.clone(), Limits::default())?;
    for batch in query.run(snapshot, context)? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

fn by(group: &str, columns: &[(&str, Aggregate)]) -> Shape {
    let table = TableName {
        database: "many".to_owned(),
        schema: None,
        table: "cpu".to_owned(),
    };
    let mut shape = Shape::of(Rules::Postgres, Source::Tables(vec![table]));
    shape.group = vec![group.to_owned()];
    let columns = columns.iter().map(|(name, aggregate)| Column {
        name: (*name).to_owned(),
        expr: Expr::aggregate(aggregate.clone()),
    });
    shape.columns = columns.collect();
    shape
}

fn questions() -> Vec<(&'static str, Shape)> {
    let user = || Expr::field("usage_user");
    let of = |aggregate: Aggregate| by("region", &[("value", aggregate)]);
    let hosts = Source::Nested(Box::new(by("hostname", &[("rows", Aggregate::Rows)])));
    let mut distinct = Shape::of(Rules::Postgres, hosts);
    distinct.columns.push(Column {
        name: "hosts".to_owned(),
        expr: Expr::aggregate(Aggregate::Count(Expr::tag("hostname"))),
    });
    vec![
        ("distinct", distinct),
        ("count", of(Aggregate::Rows)),
        ("max", of(Aggregate::Max(user()))),
        ("mean", of(Aggregate::Mean(user()))),
        ("last", of(Aggregate::Last(user()))),
        (
            "count-by-host",
            by("hostname", &[("value", Aggregate::Rows)]),
        ),
    ]
}
