//! Rows a second through the engine alone: line protocol from a file in, synced log, head, one segment out.
//!
//! `cargo run --release -p nilometer-engine --example ingest_rate -- FILE SCRATCH_DIR [BATCH_ROWS]`
#![expect(clippy::print_stdout, reason = "an example prints what it measured")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use nilometer_engine::ingest::Session;
use nilometer_engine::{Engine, Options};
use nilometer_lineproto::Precision;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(dir)) = (arguments.next(), arguments.next()) else {
        return Err("usage: ingest_rate FILE SCRATCH_DIR [BATCH_ROWS]".into());
    };
    let batch_rows: usize = arguments.next().map_or(Ok(10_000), |n| n.parse())?;
    let text = std::fs::read(file)?;
    let mut batches = Vec::new();
    let (mut start, mut rows) = (0, 0);
    for (at, byte) in text.iter().enumerate() {
        rows += usize::from(*byte == b'\n');
        if rows == batch_rows {
            batches.push(&text[start..=at]);
            (start, rows) = (at + 1, 0);
        }
    }
    batches.push(&text[start..]);
    let engine = Arc::new(Engine::open_dir(Path::new(&dir), Options::default())?);
    engine.create_database("d")?;
    let mut session = Session::new(Arc::clone(&engine), "d")?;
    let begin = Instant::now();
    let mut written = 0;
    for batch in batches {
        written += session.write_lines(batch, Precision::Nanosecond)?.rows;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let flush = Instant::now();
    engine.flush()?;
    let flush_seconds = flush.elapsed().as_secs_f64();
    let metrics = engine.metrics();
    println!(
        "{written} rows in {seconds:.3} s = {:.0} rows/s, one thread, synced; flush {flush_seconds:.3} s; log {:.1} bytes/row; segments and definitions {:.2} bytes/row",
        written as f64 / seconds,
        metrics.log_bytes_written as f64 / written as f64,
        (metrics.segment_bytes + metrics.definition_bytes) as f64 / written as f64,
    );
    Ok(())
}
