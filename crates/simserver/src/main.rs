//! The simulation of requests by hand: one seed, as many as the time allows, or what was found before.
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

use nilometer_server::Sabotage;
use nilometer_simserver::{Counts, Finding, explain, random_plan, run, shrink};

const USAGE: &str = "usage: nilometer-simserver soak [--minutes m] [--from seed] [--keep folder]
       nilometer-simserver replay file-or-folder
       nilometer-simserver seed n
       nilometer-simserver bug name";
/// A server that breaks so many promises needs no more of them.
const FINDINGS_MAX: u64 = 50;
/// Seeds within which a planted bug must show.
const BUG_SEEDS: u64 = 2_000;
/// How often a soak says that it goes on.
const REPORT: Duration = Duration::from_secs(30);

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
    let plan = random_plan(seed);
    println!("{plan}");
    match run(&plan, None) {
        Ok(counts) => {
            println!("{counts}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{}", explain(&plan, &failure, None));
            ExitCode::FAILURE
        }
    }
}

/// Runs what was found before, one file or all of a folder that are of this simulation.
fn replay(path: &Path) -> ExitCode {
    let mut paths = vec![path.to_owned()];
    if let Ok(entries) = std::fs::read_dir(path) {
        paths = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.to_string_lossy().ends_with("-requests.txt"));
        paths.sort();
    }
    let mut broken = 0;
    for path in &paths {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let plan = text.and_then(|text| Finding::plan(&text));
        let said = match plan.map(|plan| (run(&plan, None), plan)) {
            Ok((Ok(_), _)) => None,
            Ok((Err(failure), plan)) => Some(explain(&plan, &failure, None)),
            Err(what) => Some(what),
        };
        broken += u64::from(said.is_some());
        let said = said.unwrap_or_else(|| "keeps every promise now".to_owned());
        println!("{}: {said}", path.display());
    }
    ExitCode::from(u8::from(broken > 0))
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
            let plan = random_plan(self.from.wrapping_add(seeds));
            match run(&plan, None) {
                Ok(more) => counts += more,
                Err(failure) => {
                    found += 1;
                    let story = explain(&plan, &failure, None);
                    println!("{story}");
                    if let Some(folder) = &self.keep {
                        println!("{}", keep(folder, &Finding::of(&plan), &story));
                    }
                }
            }
            seeds += 1;
            let passed = start.elapsed();
            // With nowhere to keep what is found, the first is as good as many.
            let over = self.limit.is_some_and(|limit| passed >= limit)
                || found >= FINDINGS_MAX
                || (found > 0 && self.keep.is_none());
            if over || passed >= reported + REPORT {
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
            "kept; again with: target/release/nilometer-simserver replay {}",
            path.display()
        ),
        Err(error) => format!("{} cannot be written: {error}", path.display()),
    }
}
