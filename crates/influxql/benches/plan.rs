//! Prints how long the statements of TSBS take from text to plan, and to plan as `EXPLAIN` shows it.
//!
//! `cargo bench -p nilometer-influxql --bench plan`. Each line is the best of several rounds on one core, for the slowest
//! statement of its type; the store holds the points of `testdata/tsbs` in memory.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "the figures are the output, and a failed unwrap is the report"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options, SystemClock};
use nilometer_influxql::select::{self, SelectContext};
use nilometer_influxql_syntax::ast::Statement;
use nilometer_influxql_syntax::{Params, parse};
use nilometer_lineproto::Precision;
use nilometer_series::Context;
use serde_json::Value;

/// What `now()` stands for: long after all points.
const NOW_NS: i64 = 1_900_000_000_000_000_000;

fn read(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/tsbs")
        .join(name);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

fn store(lines: &[u8]) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (clock, folder) = (Arc::new(SystemClock), Path::new("/d"));
    let engine = Engine::open(disk, clock, folder, Options::default());
    let engine = Arc::new(engine.unwrap());
    engine.create_database("db").unwrap();
    let mut session = Session::new(Arc::clone(&engine), "db").unwrap();
    for lines in lines
        .split_inclusive(|byte| *byte == b'\n')
        .collect::<Vec<_>>()
        .chunks(10_000)
    {
        session
            .write_lines(&lines.concat(), Precision::Nanosecond)
            .unwrap();
    }
    engine
}

/// The least time of one call.
fn best_of(mut call: impl FnMut()) -> Duration {
    const ROUNDS: u32 = 20;
    const CALLS: u32 = 50;
    let round = |_| {
        let start = Instant::now();
        for _ in 0..CALLS {
            call();
        }
        start.elapsed() / CALLS
    };
    (0..ROUNDS).map(round).min().unwrap_or_default()
}

fn main() {
    println!("us a statement: parsed; parsed, planned and shown as text; type");
    let questions = String::from_utf8(read("answers.influxdb.jsonl.gz")).unwrap();
    for use_case in ["cpu-only", "iot"] {
        let engine = store(&read(&format!("{use_case}.influx.gz")));
        let snapshot = engine.snapshot();
        let context = SelectContext {
            snapshot: &snapshot,
            database: "db",
            policy: None,
            now_ns: NOW_NS,
            context: &Context::default(),
        };
        let mut slowest: BTreeMap<String, [Duration; 2]> = BTreeMap::new();
        for line in questions.lines() {
            let question: Value = serde_json::from_str(line).unwrap();
            if question["use_case"] != use_case {
                continue;
            }
            let text = question["q"].as_str().unwrap();
            let parsing = best_of(|| {
                black_box(parse(black_box(text), &Params::default()).unwrap());
            });
            let planning = best_of(|| {
                for statement in parse(black_box(text), &Params::default()).unwrap() {
                    let Statement::Select(select) = statement else {
                        continue;
                    };
                    black_box(select::explain(&select, &context).unwrap());
                }
            });
            let kind = question["type"].as_str().unwrap().to_owned();
            let most = slowest.entry(kind).or_default();
            *most = [most[0].max(parsing), most[1].max(planning)];
        }
        for (kind, [parsing, planning]) in slowest {
            let us = |time: Duration| time.as_nanos() as f64 / 1000.0;
            println!("{:6.1} {:6.1} {kind}", us(parsing), us(planning));
        }
    }
}
