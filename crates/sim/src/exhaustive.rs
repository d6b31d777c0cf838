//! Every call of a plan, crashed at.
//!
//! Does: run a plan without faults to count its disk calls, then once for each of them with a power cut there and once
//! with a kill, each followed by what every run ends with. Does not: combine two crashes; random plans do.

use nilometer_engine::Sabotage;

use crate::plan::{Act, Plan, Restart, Step};
use crate::run::{Counts, Failure, run};

/// The plan that failed, and how.
pub type Broken = Box<(Plan, Failure)>;

/// Crashes at every call of `plan`, which has no faults of its own.
pub fn crash_everywhere(plan: &Plan, sabotage: Option<Sabotage>) -> Result<Counts, Broken> {
    let calm = run(plan, sabotage).map_err(|failure| Box::new((plan.clone(), failure)))?;
    let mut counts = calm.counts;
    for (at, &calls) in calm.calls.iter().enumerate() {
        for call in 1..=calls {
            let seed = plan.seed ^ ((at as u64) << 32) ^ (call << 16);
            for how in [Restart::PowerCut(seed), Restart::Kill] {
                let crashed = crashed_at(plan, at, call, how);
                let report =
                    run(&crashed, sabotage).map_err(|failure| Box::new((crashed, failure)))?;
                counts += report.counts;
            }
        }
    }
    Ok(counts)
}

/// The steps up to `at`, which crashes at its n-th call.
pub(crate) fn crashed_at(plan: &Plan, at: usize, call: u64, how: Restart) -> Plan {
    let mut crashed = plan.clone();
    crashed.steps.truncate(at + 1);
    if let Some(last) = crashed.steps.last_mut() {
        last.faults.crash_at = Some(call);
    }
    crashed.steps.push(Step::new(Act::Restart(how)));
    crashed
}
