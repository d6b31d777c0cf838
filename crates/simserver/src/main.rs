//! The simulation of requests by hand: one seed, as many as the time allows, or what was found before.
//!
//! Does: say what a seed's run is. Does not: read the command line or keep findings (`crates/soak` does), or judge.

use std::process::ExitCode;

use nilometer_service::Sabotage;
use nilometer_simserver::{Counts, Finding, explain, random_plan, run, shrink};
use nilometer_soak::{Broken, Simulation};

fn main() -> ExitCode {
    nilometer_soak::main::<Requests>()
}

/// The server's routes.
#[derive(Debug)]
struct Requests;

impl Simulation for Requests {
    type Counts = Counts;
    type Bug = Sabotage;

    const PROGRAM: &'static str = "nilometer-simserver";
    const COMMAND: &'static str = "target/release/nilometer-simserver";
    const SUFFIX: &'static str = "-requests.txt";
    const BUGS: &'static [Sabotage] = &Sabotage::ALL;

    fn show(seed: u64) -> String {
        random_plan(seed).to_string()
    }

    fn step(seed: u64, _nth: u64) -> Result<Counts, Broken> {
        let plan = random_plan(seed);
        run(&plan, None).map_err(|failure| {
            let story = explain(&plan, &failure, None);
            let finding = Finding::of(&plan);
            Broken {
                file_name: finding.file_name(),
                text: finding.spell(&story),
                story,
            }
        })
    }

    fn again(text: &str) -> Result<Option<String>, String> {
        let plan = Finding::plan(text)?;
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
