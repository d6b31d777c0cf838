//! The simulation by hand: one seed, as many as the time allows, or what was found before.
//!
//! Does: read the command line, print counts, keep each broken promise as a file with its shrunk plan, run such files
//! again. Does not: judge.
#![expect(
    clippy::print_stdout,
    reason = "a program for people at a terminal; the library prints nothing"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nilometer_engine::Sabotage;
use nilometer_sim::{
    Counts, Finding, calm_plan, crash_everywhere, explain, random_plan, run, shrink,
};

const USAGE: &str = "usage: nilometer-sim soak [--minutes m] [--from seed] [--keep folder]
       nilometer-sim replay file-or-folder
       nilometer-sim seed n
       nilometer-sim bug name";
/// Random runs for each plan that is crashed at every call; both kinds then take about the same time.
const RANDOM_PER_EXHAUSTIVE: u64 = 200;
/// A store that breaks so many promises needs no more of them.
const FINDINGS_MAX: u64 = 50;
/// Seeds within which a planted bug must show.
const BUG_SEEDS: u64 = 2_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["seed", seed] => match seed.parse() {
            Ok(seed) => one(seed),
            Err(_) => usage(),
        },
        ["replay", path] => replay(Path::new(path)),
        ["bug", name] => match Sabotage::ALL.iter().find(|bug| format!("{bug:?}") == *name) {
            Some(bug) => show_bug(*bug),
            None => usage(),
        },
        ["soak", options @ ..] => match Soak::read(options) {
            Some(soak) => soak.run(),
            None => usage(),
        },
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    println!("{USAGE}");
    println!("bugs: {:?}", Sabotage::ALL);
    ExitCode::from(2)
}

fn one(seed: u64) -> ExitCode {
    println!("{}", random_plan(seed));
    match step(seed, true) {
        Ok(counts) => {
            println!("{counts}");
            ExitCode::SUCCESS
        }
        Err((_, story)) => {
            println!("{story}");
            ExitCode::FAILURE
        }
    }
}

/// One seed's random plan, and the plan without faults crashed at every call if asked for.
fn step(seed: u64, exhaustive: bool) -> Result<Counts, (Finding, String)> {
    let plan = random_plan(seed);
    let mut counts = match run(&plan, None) {
        Ok(report) => report.counts,
        Err(failure) => return Err((Finding::random(&plan), explain(&plan, &failure, None))),
    };
    if exhaustive {
        counts += crash_everywhere(&calm_plan(seed), None).map_err(|broken| {
            let story = explain(&broken.0, &broken.1, None);
            (Finding::crashed(&broken), story)
        })?;
    }
    Ok(counts)
}

/// Runs what was found before, one file or all of a folder.
fn replay(path: &Path) -> ExitCode {
    let mut paths = vec![path.to_owned()];
    if let Ok(entries) = std::fs::read_dir(path) {
        paths = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
    }
    let mut broken = 0;
    for path in &paths {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let plan = text.and_then(|text| Finding::parse(&text)?.plan());
        let outcome = plan.map(|plan| (run(&plan, None), plan));
        let said = match outcome {
            Ok((Ok(_), _)) => "keeps every promise now".to_owned(),
            Ok((Err(failure), plan)) => explain(&plan, &failure, None),
            Err(what) => what,
        };
        broken += u64::from(said != "keeps every promise now");
        println!("{}: {said}", path.display());
    }
    if broken == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Plants a bug and shows what the simulation has to say of it.
fn show_bug(bug: Sabotage) -> ExitCode {
    for seed in 1..=BUG_SEEDS {
        let plan = random_plan(seed);
        if let Err(failure) = run(&plan, Some(bug)) {
            let (short, failure) = shrink(&plan, failure, Some(bug));
            let (before, after) = (plan.steps.len(), short.steps.len());
            println!("{bug:?}: found by seed {seed}\n{failure}\n{before} steps became {after}:");
            println!("{short}");
            return ExitCode::SUCCESS;
        }
    }
    println!("{bug:?}: not found by {BUG_SEEDS} seeds");
    ExitCode::FAILURE
}

/// Runs until it is stopped.
struct Soak {
    limit: Option<Duration>,
    from: u64,
    keep: Option<PathBuf>,
}

impl Soak {
    fn read(mut options: &[&str]) -> Option<Self> {
        // Another start each time, so that each soak sees new seeds; it is printed.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut soak = Self {
            limit: None,
            from: since.map_or(0, |since| since.as_secs()) << 24,
            keep: None,
        };
        while let [name, value, rest @ ..] = options {
            match *name {
                "--minutes" => {
                    soak.limit = Some(Duration::from_secs(60 * value.parse::<u64>().ok()?));
                }
                "--from" => soak.from = value.parse().ok()?,
                "--keep" => soak.keep = Some(PathBuf::from(value)),
                _ => return None,
            }
            options = rest;
        }
        options.is_empty().then_some(soak)
    }

    fn run(&self) -> ExitCode {
        let start = Instant::now();
        let mut counts = Counts::default();
        let mut reported = Duration::ZERO;
        let (mut seeds, mut found) = (0, 0);
        println!("from seed {}", self.from);
        loop {
            let seed = self.from.wrapping_add(seeds);
            match step(seed, seeds % RANDOM_PER_EXHAUSTIVE == 0) {
                Ok(more) => counts += more,
                Err((finding, story)) => {
                    found += 1;
                    println!("{story}");
                    if let Some(folder) = &self.keep {
                        println!("{}", keep(folder, &finding, &story));
                    }
                }
            }
            seeds += 1;
            let passed = start.elapsed();
            // With nowhere to keep what is found, the first is as good as many.
            let over = self.limit.is_some_and(|limit| passed >= limit)
                || found >= FINDINGS_MAX
                || (found > 0 && self.keep.is_none());
            if over || passed >= reported + Duration::from_secs(30) {
                reported = passed;
                println!(
                    "{:6} s  seeds={seeds} found={found} {counts}",
                    passed.as_secs()
                );
            }
            if over {
                return ExitCode::from(u8::from(found > 0));
            }
        }
    }
}

/// Writes a finding down, and says where and how to run it again.
fn keep(folder: &Path, finding: &Finding, story: &str) -> String {
    let path = folder.join(finding.file_name());
    let written =
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, finding.spell(story)));
    match written {
        Ok(()) => format!(
            "kept; again with: cargo run --release -p nilometer-sim -- replay {}",
            path.display()
        ),
        Err(error) => format!("{} cannot be written: {error}", path.display()),
    }
}
