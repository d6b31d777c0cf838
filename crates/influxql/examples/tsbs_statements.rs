//! Cost of the statements of the Time Series Benchmark Suite in InfluxQL inside the process, from text to the last set.
//!
//! `cargo run --release -p nilometer-influxql --example tsbs_statements -- load DIR FILE` makes a settled store of a file of line protocol,
//! such as `nilometer bench generate --workload iot --format line-protocol` writes one.
//! `... -- ask DIR TYPE [REPEATS] [THREADS]` asks it the first statement of a type in `testdata/tsbs`, or another statement in place of a type.
//! Instructions of the statements alone, after a first one that warms the caches, are counted by
//! `valgrind --tool=callgrind --toggle-collect='*measured*' target/release/examples/tsbs_statements ask DIR TYPE 3 1`; divide by 3.
#![expect(clippy::print_stdout, reason = "an example prints what it measured")]

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options, Snapshot};
use nilometer_influxql::select::{self, SelectContext};
use nilometer_influxql_syntax::ast::Statement;
use nilometer_influxql_syntax::{Params, parse};
use nilometer_lineproto::Precision;
use nilometer_series::{Context, Inline, Threads};
use serde_json::Value;

type Failure = Box<dyn std::error::Error>;

/// What `now()` stands for: long after all points.
const NOW_NS: i64 = 1_900_000_000_000_000_000;

/// Lines that are written at once.
const LINES: usize = 10_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| -> Result<usize, Failure> {
        Ok(arguments.get(at).map_or(Ok(default), |text| text.parse())?)
    };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["load", dir, file] => load(Path::new(dir), Path::new(file)),
        ["ask", dir, wanted, ..] => ask(Path::new(dir), wanted, number(3, 11)?, number(4, 2)? > 1),
        _ => Err("usage: tsbs_statements load DIR FILE | ask DIR TYPE [REPEATS] [THREADS]".into()),
    }
}

fn load(dir: &Path, file: &Path) -> Result<(), Failure> {
    let engine = Arc::new(Engine::open_dir(dir, Options::default())?);
    engine.create_database("benchmark")?;
    let mut session = Session::new(Arc::clone(&engine), "benchmark")?;
    let mut lines = BufReader::new(std::fs::File::open(file)?);
    let (mut body, mut count) = (Vec::new(), 0);
    while lines.read_until(b'\n', &mut body)? > 0 {
        count += 1;
        if count % LINES == 0 {
            session.write_lines(&body, Precision::Nanosecond)?;
            engine.maintain()?;
            body.clear();
        }
    }
    session.write_lines(&body, Precision::Nanosecond)?;
    engine.flush()?;
    engine.settle()?;
    let metrics = engine.metrics();
    let (segments, bytes) = (metrics.segments, metrics.segment_bytes);
    println!("{count} lines in {segments} segments of {bytes} bytes");
    Ok(())
}

/// The first statement of a type, or the statement itself.
fn statement(wanted: &str) -> Result<String, Failure> {
    if wanted.starts_with("SELECT ") {
        return Ok(wanted.to_owned());
    }
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tsbs/answers.influxdb.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(std::fs::File::open(path)?).read_to_string(&mut text)?;
    for line in text.lines() {
        let question: Value = serde_json::from_str(line)?;
        if question.get("type").and_then(Value::as_str) == Some(wanted) {
            let text = question.get("q").and_then(Value::as_str);
            return Ok(text.unwrap_or_default().to_owned());
        }
    }
    Err(format!("{wanted} is no type of the suite").into())
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
    // Of several statements the first: the others ask what it has written.
    let text = statement(wanted)?;
    let begin = Instant::now();
    let first = answer(&text, &snapshot, &context)?;
    let warmed = begin.elapsed();
    let mut times: Vec<Duration> = Vec::with_capacity(repeats);
    for _ in 0..repeats {
        let begin = Instant::now();
        let found = measured(&text, &snapshot, &context)?;
        times.push(begin.elapsed());
        if found != first {
            return Err(format!("{found:?} series and rows, and {first:?} at first").into());
        }
    }
    times.sort_unstable();
    let micros = |time: Option<&Duration>| time.map_or(0.0, |it| it.as_secs_f64() * 1e6);
    println!(
        "{wanted:<36} {:>6} series {:>8} rows, first {:>9.0} us, median {:>9.0} us, best {:>9.0} us",
        first.0,
        first.1,
        micros(Some(&warmed)),
        micros(times.get(times.len() / 2)),
        micros(times.first())
    );
    Ok(())
}

/// What is counted: of a function of its own, which is no other name of another.
#[inline(never)]
fn measured(text: &str, snapshot: &Snapshot, context: &Context) -> Result<(u64, u64), Failure> {
    let found = answer(text, snapshot, context)?;
    Ok(black_box(found))
}

/// Series and rows of the answer.
#[inline(never)]
fn answer(text: &str, snapshot: &Snapshot, context: &Context) -> Result<(u64, u64), Failure> {
    let asked = SelectContext {
        snapshot,
        database: "benchmark",
        policy: None,
        now_ns: NOW_NS,
        context,
    };
    let (mut series, mut rows) = (0, 0);
    let mut last = None;
    if let Some(Statement::Select(select)) = parse(text, &Params::default())?.into_iter().next() {
        for set in select::run(&select, &asked)? {
            let set = set?;
            rows += set.rows.len() as u64;
            if last.as_ref() != Some(&set.head) {
                series += 1;
                last = Some(set.head);
            }
        }
    }
    Ok((series, rows))
}
