//! Rows a second through the engine alone: line protocol from a file in, synced log, head, segments out, one thread.
//!
//! `cargo run --release -p nilometer-engine --example ingest_rate -- FILE SCRATCH_DIR [BATCH_ROWS]`
//!
//! The file is read piece by piece outside the measured time, so that it may be larger than memory. Rates are given twice:
//! by the clock, and by the time that the thread had the processor, which other programs disturb less and which leaves
//! out waiting for the disk. Afterwards the store settles and is opened again, because what many series cost shows there
//! too; what it leaves is what the example `one_series` reads.
#![expect(clippy::print_stdout, reason = "an example prints what it measured")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Metrics, Options};
use nilometer_lineproto::Precision;

type Failure = Box<dyn std::error::Error>;

/// Time by the clock, and of it on the processor.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    wall: Duration,
    processor: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Start {
    wall: Instant,
    processor: Duration,
}

impl Start {
    fn now() -> Result<Self, Failure> {
        // The first number is the thread's time on the processor in nanoseconds.
        let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
        let nanoseconds = text.split_whitespace().next().ok_or("no schedstat")?;
        Ok(Self {
            wall: Instant::now(),
            processor: Duration::from_nanos(nanoseconds.parse()?),
        })
    }

    fn elapsed(self) -> Result<Times, Failure> {
        let now = Self::now()?;
        Ok(Times {
            wall: now.wall - self.wall,
            processor: now.processor.saturating_sub(self.processor),
        })
    }
}

impl AddAssign for Times {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.processor += other.processor;
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (wall, processor) = (self.wall.as_secs_f64(), self.processor.as_secs_f64());
        write!(f, "{wall:.3} s, {processor:.3} s on the processor")
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(dir)) = (arguments.next(), arguments.next()) else {
        return Err("usage: ingest_rate FILE SCRATCH_DIR [BATCH_ROWS]".into());
    };
    let batch_rows: usize = arguments.next().map_or(Ok(10_000), |n| n.parse())?;
    let mut input = BufReader::with_capacity(1 << 20, File::open(file)?);
    let mut body = Vec::new();
    let resident_before = resident_bytes()?;
    let engine = Arc::new(Engine::open_dir(Path::new(&dir), Options::default())?);
    engine.create_database("d")?;
    let mut session = Session::new(Arc::clone(&engine), "d")?;
    let mut written = 0;
    let (mut writing, mut all) = (Times::default(), Times::default());
    let mut first_pass: Option<(u64, Times, u64)> = None;
    while read_rows(&mut input, batch_rows, &mut body)? {
        let begin = Start::now()?;
        written += session.write_lines(&body, Precision::Nanosecond)?.rows;
        writing += begin.elapsed()?;
        engine.maintain()?;
        all += begin.elapsed()?;
        let series = engine.metrics().series;
        if first_pass.is_none() && series < written {
            first_pass = Some((written, writing, series));
        }
    }
    if let Some((rows, time, series)) = first_pass {
        println!(
            "until every series was there: {series} series, {} without flushes",
            rate(rows, time)
        );
    }
    let metrics = engine.metrics();
    println!(
        "{written} rows of {} series: {} with flushes, {} without; log {:.1} bytes/row",
        metrics.series,
        rate(written, all),
        rate(written, writing),
        metrics.log_bytes_written as f64 / written as f64,
    );
    print_memory(&metrics, resident_before)?;
    let begin = Start::now()?;
    engine.flush()?;
    println!("last flush {}", begin.elapsed()?);
    let metrics = engine.metrics();
    println!(
        "segments {:.2} bytes/row, definitions {:.2} bytes/series",
        metrics.segment_bytes as f64 / written as f64,
        metrics.definition_bytes as f64 / metrics.series as f64
    );
    print_memory(&metrics, resident_before)?;
    let begin = Start::now()?;
    engine.settle()?;
    let metrics = engine.metrics();
    println!(
        "settled in {}; {} segments of {:.2} bytes/row, {:.2} times as much was written",
        begin.elapsed()?,
        metrics.segments,
        metrics.segment_bytes as f64 / written as f64,
        metrics.segment_bytes_written as f64 / metrics.segment_bytes as f64,
    );
    drop(session);
    drop(engine);
    let begin = Start::now()?;
    let engine = Engine::open_dir(Path::new(&dir), Options::default())?;
    println!(
        "opened again in {}; {} series",
        begin.elapsed()?,
        engine.metrics().series
    );
    Ok(())
}

fn rate(rows: u64, times: Times) -> String {
    let rows_f64 = rows as f64;
    format!(
        "{rows} rows in {times} = {:.0} and {:.0} rows/s",
        rows_f64 / times.wall.as_secs_f64(),
        rows_f64 / times.processor.as_secs_f64()
    )
}

/// The next rows of the file; false = there are none.
fn read_rows(input: &mut impl BufRead, rows: usize, body: &mut Vec<u8>) -> Result<bool, Failure> {
    body.clear();
    for _ in 0..rows {
        if input.read_until(b'\n', body)? == 0 {
            break;
        }
    }
    Ok(!body.is_empty())
}

fn print_memory(metrics: &Metrics, before: u64) -> Result<(), Failure> {
    let resident = resident_bytes()?.saturating_sub(before);
    let beside = resident.saturating_sub(metrics.head_bytes);
    println!(
        "memory {resident} bytes, of them head {}, series {}, memo {}; beside the head {:.0} bytes/series",
        metrics.head_bytes,
        metrics.series_bytes,
        metrics.memo_bytes,
        beside as f64 / metrics.series as f64
    );
    Ok(())
}

/// Memory of this process.
fn resident_bytes() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|text| text.trim().strip_suffix(" kB"));
    Ok(kibibytes.ok_or("no VmRSS")?.trim().parse::<u64>()? * 1024)
}
