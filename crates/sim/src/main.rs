//! The simulation by hand: one seed, as many as the time allows, or what was found before.
//!
//! Does: say what a seed's runs are. Does not: read the command line or keep findings (`crates/soak` does), or judge.

use std::process::ExitCode;

use nilometer_engine::Sabotage;
use nilometer_sim::{
    Counts, Finding, calm_plan, crash_everywhere, explain, random_plan, run, shrink,
};
use nilometer_soak::{Broken, Simulation};

/// Random runs for each plan that is crashed at every call; both kinds then take about the same time.
const RANDOM_PER_EXHAUSTIVE: u64 = 200;

fn main() -> ExitCode {
    nilometer_soak::main::<Store>()
}

/// The store on a disk that fails.
#[derive(Debug)]
struct Store;

impl Simulation for Store {
    type Counts = Counts;
    type Bug = Sabotage;

    const PROGRAM: &'static str = "nilometer-sim";
    const COMMAND: &'static str = "cargo run --release -p nilometer-sim --";
    const SUFFIX: &'static str = ".txt";
    const BUGS: &'static [Sabotage] = &Sabotage::ALL;

    fn show(seed: u64) -> String {
        random_plan(seed).to_string()
    }

    /// The random plan, and now and then the plan without faults crashed at every call.
    fn step(seed: u64, nth: u64) -> Result<Counts, Broken> {
        let plan = random_plan(seed);
        let mut counts = match run(&plan, None) {
            Ok(report) => report.counts,
            Err(failure) => {
                let story = explain(&plan, &failure, None);
                return Err(broken(Finding::random(&plan), story));
            }
        };
        if nth.is_multiple_of(RANDOM_PER_EXHAUSTIVE) {
            counts += crash_everywhere(&calm_plan(seed), None).map_err(|crashed| {
                let story = explain(&crashed.0, &crashed.1, None);
                broken(Finding::crashed(&crashed), story)
            })?;
        }
        Ok(counts)
    }

    fn again(text: &str) -> Result<Option<String>, String> {
        let plan = Finding::parse(text)?.plan()?;
        let failed = run(&plan, None).err();
        Ok(failed.map(|failure| explain(&plan, &failure, None)))
    }

    fn with_bug(seed: u64, bug: Sabotage) -> Option<String> {
        let plan = random_plan(seed);
        let failure = run(&plan, Some(bug)).err()?;
        let (short, failure) = shrink(&plan, failure, Some(bug));
        let (before, after) = (plan.steps.len(), short.steps.len());
        Some(format!(
            "{failure}\n{before} steps became {after}:\n{short}"
        ))
    }
}

fn broken(finding: Finding, story: String) -> Broken {
    Broken {
        file_name: finding.file_name(),
        text: finding.spell(&story),
        story,
    }
}
