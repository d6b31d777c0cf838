//! Read time of one field of one series: plan, fetch, decode, and an Arrow batch.
//!
//! `cargo run --release -p nilometer-engine --example one_series -- DATA_DIR DATABASE TABLE TAG VALUE FIELD [REPEATS]`
#![expect(clippy::print_stdout, reason = "an example prints what it measured")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nilometer_engine::{Engine, Options, ScanRequest, TagMatch, TagPredicate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dir, database, table, tag, value, field, rest @ ..] = arguments.as_slice() else {
        return Err("usage: one_series DATA_DIR DATABASE TABLE TAG VALUE FIELD [REPEATS]".into());
    };
    let repeats: usize = rest.first().map_or(Ok(1000), |n| n.parse())?;
    let begin = Instant::now();
    let engine = Arc::new(Engine::open_dir(Path::new(dir), Options::default())?);
    let opened = begin.elapsed();
    let snapshot = engine.snapshot();
    let table = snapshot
        .table(database, "public", table)
        .ok_or("no such table")?;
    let position = |name: &str| table.arrow_schema().index_of(name);
    let request = ScanRequest {
        projection: vec![0, position(field)?],
        time: i64::MIN..=i64::MAX,
        tags: vec![TagPredicate {
            column: position(tag)?,
            matches: TagMatch::OneOf(vec![Some(value.clone())]),
            negated: false,
        }],
        limit: None,
        table: Arc::clone(&table),
    };
    let mut times: Vec<Duration> = Vec::new();
    let mut rows = 0;
    for _ in 0..repeats {
        let begin = Instant::now();
        let scan = snapshot.scan(&request)?;
        rows = 0;
        for morsel in 0..scan.morsels() {
            for batch in scan.read(morsel) {
                rows += batch?.num_rows();
            }
        }
        times.push(begin.elapsed());
    }
    let first = times.first().copied().unwrap_or_default();
    times.sort_unstable();
    let best = times.first().copied().unwrap_or_default();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!(
        "opened in {opened:?}; {rows} rows of one field: first {first:?}, median {median:?}, best {best:?} of {repeats}"
    );
    Ok(())
}
