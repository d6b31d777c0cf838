//! Cost of opening when everything is in the log: time, and the most memory that the process ever had.
//!
//! `cargo run --release -p nilometer-engine --example recovery -- fill FILE DIR [BATCH_ROWS]` writes the line protocol of a file, flushes
//! nothing, and ends as a killed process does; `... -- open DIR [THREADS]` opens what it left, with so many threads
//! lent. Both print the most memory that was resident, so that recovery is compared with serving.
#![expect(clippy::print_stdout, reason = "an example prints what it measured")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use nilometer_engine::disk::RealDisk;
use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options, ReplayWorkers, SystemClock};
use nilometer_lineproto::Precision;

type Failure = Box<dyn std::error::Error>;

const USAGE: &str = "usage: recovery fill FILE DIR [BATCH_ROWS] | recovery open DIR [THREADS]";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["fill", file, dir, rest @ ..] => {
            let rows = rest.first().map_or(Ok(10_000), |n| n.parse())?;
            fill(Path::new(file), Path::new(dir), rows)
        }
        ["open", dir, rest @ ..] => {
            let lent = rest.first().map_or(Ok(0), |n| n.parse())?;
            open(Path::new(dir), lent)
        }
        _ => Err(USAGE.into()),
    }
}

/// Nothing leaves the head, however much there is.
fn options() -> Options {
    Options {
        flush_rows: u64::MAX,
        flush_bytes: u64::MAX,
        flush_idle_ms: 0,
        log_bytes_max: 1 << 30,
        ..Options::default()
    }
}

fn fill(file: &Path, dir: &Path, batch_rows: usize) -> Result<(), Failure> {
    let mut input = BufReader::with_capacity(1 << 20, File::open(file)?);
    let engine = Arc::new(Engine::open_dir(dir, options())?);
    engine.create_database("d")?;
    let mut session = Session::new(Arc::clone(&engine), "d")?;
    let mut body = Vec::new();
    loop {
        body.clear();
        for _ in 0..batch_rows {
            input.read_until(b'\n', &mut body)?;
        }
        if body.is_empty() {
            break;
        }
        session.write_lines(&body, Precision::Nanosecond)?;
    }
    print("filled", &engine)
}

fn open(dir: &Path, threads: usize) -> Result<(), Failure> {
    let begin = Instant::now();
    let lent = ReplayWorkers::default();
    let engine = std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| lent.work());
        }
        let (disk, clock) = (Arc::new(RealDisk), Arc::new(SystemClock));
        Engine::open_with(disk, clock, dir, options(), &lent)
    })?;
    print(
        &format!("opened in {:.3} s", begin.elapsed().as_secs_f64()),
        &engine,
    )
}

fn print(what: &str, engine: &Engine) -> Result<(), Failure> {
    let metrics = engine.metrics();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    println!(
        "{what}: {} rows in {} bytes of head, {} bytes of log; resident {}, at most {}",
        metrics.head_rows,
        metrics.head_bytes,
        metrics.log_bytes,
        line("VmRSS:").unwrap_or("?").trim(),
        line("VmHWM:").unwrap_or("?").trim(),
    );
    Ok(())
}
