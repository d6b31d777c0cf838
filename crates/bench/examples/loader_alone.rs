//! Cost of the loader alone: sends a file to a server in this process that reads and forgets.
//!
//! `cargo run --release -p nilometer-bench --example loader_alone -- FILE [WORKERS]`
//!
//! The rate is the ceiling that the loader puts on any measurement; the processor time is what it takes from a server
//! on the same machine. A batch file is sent from the file by the kernel, plain line protocol through memory, so the two
//! kinds of file compare the two ways.

#[path = "../tests/support/mod.rs"]
mod support;

use nilometer_bench::{LoadOptions, load};
use support::{Faults, Server};

#[expect(clippy::print_stdout, reason = "an example talks to whoever runs it")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments
        .next()
        .ok_or("usage: loader_alone FILE [WORKERS]")?;
    let server = Server::start(Faults::default(), false);
    let mut options = LoadOptions::new(&server.url, "nowhere", file);
    if let Some(workers) = arguments.next() {
        options.workers = workers.parse()?;
    }
    let report = load(&options, |_| {})?;
    let per_million = report.loader_cpu_seconds / report.rows as f64 * 1e6;
    println!(
        "{}loader CPU  {per_million:.3} s per million rows",
        report.table()
    );
    let seen = server.seen();
    println!(
        "the server saw {} rows over {} connections",
        seen.rows, seen.write_connections
    );
    Ok(())
}
