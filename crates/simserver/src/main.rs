//! The simulation of requests by hand: one seed, as many as the time allows, or what was found before.
//!
//! Does: say what a seed's run is. Does not: read the command line or keep findings (`crates/soak` does), or judge.

use std::process::ExitCode;

use nilometer_service::Sabotage;
use nilometer_simserver::{Counts, Finding, Plan, explain, influx_plan, random_plan, run, shrink};
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
        format!("{}\n{}", random_plan(seed), influx_plan(seed))
    }

    fn step(seed: u64, _nth: u64) -> Result<Counts, Broken> {
        let mut counts = kept(&random_plan(seed))?;
        counts += kept(&influx_plan(seed))?;
        Ok(counts)
    }

    fn again(text: &str) -> Result<Option<String>, String> {
        let plan = Finding::plan(text)?;
        let failed = run(&plan, None).err();
        Ok(failed.map(|failure| explain(&plan, &failure, None)))
    }

    fn with_bug(seed: u64, bug: Sabotage) -> Option<String> {
        let plans = [random_plan(seed), influx_plan(seed)];
        let mut runs = plans
            .into_iter()
            .map(|plan| (run(&plan, Some(bug)).err(), plan));
        let (failure, plan) = runs.find_map(|(failed, plan)| Some((failed?, plan)))?;
        let (short, failure) = shrink(&plan, failure, Some(bug));
        let (before, after) = (plan.steps.len(), short.steps.len());
        Some(format!(
            "{failure}\n{before} steps became {after}:\n{short}"
        ))
    }
}

/// What a run did, or the finding that it is.
fn kept(plan: &Plan) -> Result<Counts, Broken> {
    run(plan, None).map_err(|failure| {
        let story = explain(plan, &failure, None);
        let finding = Finding::of(plan);
        Broken {
            file_name: finding.file_name(),
            text: finding.spell(&story),
            story,
        }
    })
}
