//! The project's own tools, run as `cargo xtask <command>`.
//!
//! Does: `tidy` reads the tree and reports what breaks our rules; `deny` and `graph` check what we depend on.
//! Does not: change a file or take part in what is released.
//! Next: the list of checks is in `tidy.rs`; each check is one file below `tidy/`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod deny;
mod graph;
mod tidy;
mod tree;
mod workspace;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy     layers, file sizes, links, words, manifests, format pages and the changelog
  deny     licences, sources and banned crates of everything we depend on, against deny.toml
  graph    whether the program and its tests compile the same third-party code
  circles  the largest circle of files of each crate, and what each of its files imports there
";

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let outcome = match command.as_str() {
        "tidy" => tidy::run(&root()),
        "deny" => deny::run(&root()),
        "graph" => graph::run(&root()),
        "circles" => tidy::circles(&root()),
        _ => {
            say(USAGE);
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(report) => {
            say(&report.text);
            if report.findings == 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            say(&format!("{command}: could not finish: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

/// What a command has to say, and how many of its lines are findings.
#[derive(Debug)]
struct Report {
    text: String,
    findings: usize,
}

/// The folder of the workspace: this crate lies one level below it.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

#[expect(
    clippy::print_stdout,
    reason = "these tools are read at a terminal; this is their one way out"
)]
fn say(text: &str) {
    print!("{text}");
}
