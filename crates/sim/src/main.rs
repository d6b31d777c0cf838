//! The simulation by hand: one seed, or as many as the time allows.
//!
//! Does: read the command line, print counts, stop at the first broken promise with its shrunk plan. Does not: judge.
#![expect(
    clippy::print_stdout,
    reason = "a program for people at a terminal; the library prints nothing"
)]

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nilometer_sim::{Counts, calm_plan, crash_everywhere, explain, random_plan, run};

const USAGE: &str =
    "usage: nilometer-sim soak [--minutes m] [--from seed]\n       nilometer-sim seed n";
/// Random runs for each plan that is crashed at every call; both kinds then take about the same time.
const RANDOM_PER_EXHAUSTIVE: u64 = 200;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["seed", seed] => match seed.parse() {
            Ok(seed) => one(seed),
            Err(_) => usage(),
        },
        ["soak", options @ ..] => match soak_options(options) {
            Some((minutes, from)) => soak(minutes, from),
            None => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    println!("{USAGE}");
    ExitCode::from(2)
}

/// Minutes, if bounded, and the first seed.
fn soak_options(mut options: &[&str]) -> Option<(Option<u64>, u64)> {
    let mut minutes = None;
    // Another start each time, so that each soak sees new seeds; it is printed.
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut from = since.map_or(0, |since| since.as_secs()) << 24;
    while let [name, value, rest @ ..] = options {
        match *name {
            "--minutes" => minutes = Some(value.parse().ok()?),
            "--from" => from = value.parse().ok()?,
            _ => return None,
        }
        options = rest;
    }
    options.is_empty().then_some((minutes, from))
}

fn one(seed: u64) -> ExitCode {
    let plan = random_plan(seed);
    println!("{plan}");
    match step(seed, true) {
        Ok(counts) => {
            println!("{counts}");
            ExitCode::SUCCESS
        }
        Err(story) => {
            println!("{story}");
            ExitCode::FAILURE
        }
    }
}

/// One seed's random plan, and the plan without faults crashed at every call if asked for.
fn step(seed: u64, exhaustive: bool) -> Result<Counts, String> {
    let plan = random_plan(seed);
    let mut counts = match run(&plan, None) {
        Ok(report) => report.counts,
        Err(failure) => return Err(explain(&plan, &failure, None)),
    };
    if exhaustive {
        let plan = calm_plan(seed);
        counts +=
            crash_everywhere(&plan, None).map_err(|broken| explain(&broken.0, &broken.1, None))?;
    }
    Ok(counts)
}

fn soak(minutes: Option<u64>, from: u64) -> ExitCode {
    let start = Instant::now();
    let limit = minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let mut counts = Counts::default();
    let mut reported = Duration::ZERO;
    let mut seeds = 0;
    println!("from seed {from}");
    loop {
        let seed = from.wrapping_add(seeds);
        match step(seed, seeds % RANDOM_PER_EXHAUSTIVE == 0) {
            Ok(more) => counts += more,
            Err(story) => {
                println!("{story}");
                println!("seeds={seeds} {counts}");
                return ExitCode::FAILURE;
            }
        }
        seeds += 1;
        let passed = start.elapsed();
        let over = limit.is_some_and(|limit| passed >= limit);
        if over || passed >= reported + Duration::from_secs(30) {
            reported = passed;
            println!("{:6} s  seeds={seeds} {counts}", passed.as_secs());
        }
        if over {
            return ExitCode::SUCCESS;
        }
    }
}
