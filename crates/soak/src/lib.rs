//! The program of a simulation: one seed, as many as the time allows, or what was found before.
//!
//! Does: read the command line, print counts, keep each broken promise as a file with its shrunk plan, have such files
//! run again. Does not: know what is simulated, or judge; a [`Simulation`] does. Not a part of any release.
#![expect(
    clippy::print_stdout,
    reason = "a program for people at a terminal; the simulations print nothing"
)]

use std::fmt::Display;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What breaks so many promises needs no more of them.
const FINDINGS_MAX: u64 = 50;
/// Seeds within which a planted bug must show.
const BUG_SEEDS: u64 = 2_000;
/// How often a soak says that it goes on.
const REPORT: Duration = Duration::from_secs(30);

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// A name for the file that keeps it.
    pub file_name: String,
    /// The file.
    pub text: String,
    /// What a person wants to know.
    pub story: String,
}

/// What a program needs of a simulation.
pub trait Simulation {
    /// What runs did.
    type Counts: AddAssign + Default + Display;
    /// A bug that can be planted.
    type Bug: Copy + std::fmt::Debug + 'static;

    /// The program's name.
    const PROGRAM: &'static str;
    /// How the program is started from the repository.
    const COMMAND: &'static str;
    /// How the names of files with findings end.
    const SUFFIX: &'static str;
    /// All bugs that can be planted.
    const BUGS: &'static [Self::Bug];

    /// The plan of a seed, for people.
    fn show(seed: u64) -> String;

    /// Runs what belongs to a seed; `nth` counts the seeds of a soak, of which some may be worth more.
    fn step(seed: u64, nth: u64) -> Result<Self::Counts, Broken>;

    /// Runs a file with a finding again: the story, if the promise is broken still.
    fn again(text: &str) -> Result<Option<String>, String>;

    /// Runs a seed's plan with a bug planted: the story with the short plan, if it is found.
    fn with_bug(seed: u64, bug: Self::Bug) -> Option<String>;
}

/// The program.
pub fn main<S: Simulation>() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["seed", seed] => match seed.parse() {
            Ok(seed) => one::<S>(seed),
            Err(_) => usage::<S>(),
        },
        ["replay", path] => replay::<S>(Path::new(path)),
        ["bug", name] => match S::BUGS.iter().find(|bug| format!("{bug:?}") == *name) {
            Some(bug) => show_bug::<S>(*bug),
            None => usage::<S>(),
        },
        ["soak", options @ ..] => match Soak::read(options) {
            Some(soak) => soak.run::<S>(),
            None => usage::<S>(),
        },
        _ => usage::<S>(),
    }
}

fn usage<S: Simulation>() -> ExitCode {
    let name = S::PROGRAM;
    println!("usage: {name} soak [--minutes m] [--from seed] [--keep folder]");
    println!("       {name} replay file-or-folder");
    println!("       {name} seed n");
    println!("       {name} bug name");
    println!("bugs: {:?}", S::BUGS);
    ExitCode::from(2)
}

fn one<S: Simulation>(seed: u64) -> ExitCode {
    println!("{}", S::show(seed));
    match S::step(seed, 0) {
        Ok(counts) => {
            println!("{counts}");
            ExitCode::SUCCESS
        }
        Err(broken) => {
            println!("{}", broken.story);
            ExitCode::FAILURE
        }
    }
}

/// Runs what was found before, one file or all of a folder that are of this simulation.
fn replay<S: Simulation>(path: &Path) -> ExitCode {
    let mut paths = vec![path.to_owned()];
    if let Ok(entries) = std::fs::read_dir(path) {
        paths = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.to_string_lossy().ends_with(S::SUFFIX));
        paths.sort();
    }
    let mut broken = 0;
    for path in &paths {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let said = match text.and_then(|text| S::again(&text)) {
            Ok(None) => None,
            Ok(Some(story)) => Some(story),
            Err(what) => Some(what),
        };
        broken += u64::from(said.is_some());
        let said = said.unwrap_or_else(|| "keeps every promise now".to_owned());
        println!("{}: {said}", path.display());
    }
    ExitCode::from(u8::from(broken > 0))
}

/// Plants a bug and shows what the simulation has to say of it.
fn show_bug<S: Simulation>(bug: S::Bug) -> ExitCode {
    for seed in 1..=BUG_SEEDS {
        if let Some(story) = S::with_bug(seed, bug) {
            println!("{bug:?}: found by seed {seed}\n{story}");
            return ExitCode::SUCCESS;
        }
    }
    println!("{bug:?}: not found by {BUG_SEEDS} seeds");
    ExitCode::FAILURE
}

/// Runs until it is stopped.
#[derive(Debug, PartialEq, Eq)]
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
                    let seconds = value.parse::<u64>().ok()?.checked_mul(60)?;
                    soak.limit = Some(Duration::from_secs(seconds));
                }
                "--from" => soak.from = value.parse().ok()?,
                "--keep" => soak.keep = Some(PathBuf::from(value)),
                _ => return None,
            }
            options = rest;
        }
        options.is_empty().then_some(soak)
    }

    fn run<S: Simulation>(&self) -> ExitCode {
        let start = Instant::now();
        let mut counts = S::Counts::default();
        let mut reported = Duration::ZERO;
        let (mut seeds, mut found) = (0, 0);
        println!("from seed {}", self.from);
        loop {
            match S::step(self.from.wrapping_add(seeds), seeds) {
                Ok(more) => counts += more,
                Err(broken) => {
                    found += 1;
                    println!("{}", broken.story);
                    if let Some(folder) = &self.keep {
                        println!("{}", keep(folder, &broken, S::COMMAND));
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
fn keep(folder: &Path, broken: &Broken, command: &str) -> String {
    let path = folder.join(&broken.file_name);
    let written =
        std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, &broken.text));
    match written {
        Ok(()) => format!("kept; again with: {command} replay {}", path.display()),
        Err(error) => format!("{} cannot be written: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_soak_are_read_or_refused() {
        let soak = Soak::read(&["--minutes", "3", "--from", "7", "--keep", "found"]);
        let expected = Soak {
            limit: Some(Duration::from_mins(3)),
            from: 7,
            keep: Some(PathBuf::from("found")),
        };
        assert_eq!(soak, Some(expected));
        for wrong in [
            &["--minutes"][..],
            &["--minutes", "x"],
            &["--minutes", "18446744073709551615"],
            &["--from", "-1"],
            &["--other", "1"],
        ] {
            assert_eq!(Soak::read(wrong), None, "{wrong:?}");
        }
    }
}
