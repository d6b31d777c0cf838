//! Makes a cpu-only batch file and says how fast.
//!
//! `cargo run --release -p nilometer-bench --example generate -- FILE HOSTS HOURS [lines]`

use std::path::PathBuf;
use std::time::Instant;

use nilometer_bench::workload::{Spec, Workload};
use nilometer_bench::{FileFormat, generate};

const START_NS: i64 = 1_451_606_400_000_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;

#[expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, hosts, hours, rest @ ..] = arguments.as_slice() else {
        return Err("usage: generate FILE HOSTS HOURS [lines]".into());
    };
    let spec = Spec {
        workload: Workload::CpuOnly,
        hosts: hosts.parse()?,
        start_ns: START_NS,
        end_ns: START_NS + hours.parse::<i64>()? * HOUR_NS,
        interval_ns: 10_000_000_000,
        seed: 123,
    };
    let format = if rest.is_empty() {
        FileFormat::BatchFile
    } else {
        FileFormat::LineProtocol
    };
    let begin = Instant::now();
    let mut points = spec.points()?;
    let mut text = Vec::new();
    while points.write_batch(10_000, &mut text) > 0 {
        text.clear();
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "made    {} rows in {seconds:.2} s, {:.0} rows/s",
        spec.rows()?,
        spec.rows()? as f64 / seconds
    );
    let begin = Instant::now();
    let done = generate(&spec, &PathBuf::from(path), format, 10_000, |_| {})?;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "written {} rows, {} bytes of text in {seconds:.2} s",
        done.rows, done.text_bytes
    );
    Ok(())
}
