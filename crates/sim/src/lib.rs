//! Seeded simulation of the store over a disk that fails and a clock that stands still.
//!
//! Does: draw a plan from a seed, run it against the engine and against plain maps, compare after every restart, and
//! shrink what fails. One seed is one run: single-threaded, the same each time; other writers come in while a segment is
//! written, at calls that the plan chooses. Does not: model time or bit rot on its own, or run threads (one test does);
//! nothing here is part of a release.
//!
//! Start at [`plan`] for what a run is, at [`run()`] for the rules. `NILOMETER_SIM_SEED=n` makes the tests run one
//! seed, `NILOMETER_SIM_SEEDS=n` that many; `make soak` runs until it is stopped and keeps what it finds ([`finding`]).

pub mod acquisition;
mod aggregate;
pub mod corrupt;
pub mod exhaustive;
pub mod finding;
pub mod generate;
pub mod model;
pub mod plan;
mod read;
pub mod run;
pub mod shrink;
mod typed;
mod visitor;
pub mod world;

pub use corrupt::flip_bytes;
pub use exhaustive::crash_everywhere;
pub use finding::Finding;
pub use generate::{calm_plan, random_plan};
pub use plan::Plan;
pub use run::{Counts, Failure, Report, run};
pub use shrink::shrink;

/// What a failed run says: the promise, the short plan, and how to repeat it.
pub fn explain(
    plan: &Plan,
    failure: &Failure,
    sabotage: Option<nilometer_engine::Sabotage>,
) -> String {
    let (short, failure) = shrink(plan, failure.clone(), sabotage);
    format!(
        "seed {} breaks a promise.\n{failure}\nshrunk from {} steps to {}:\n{short}repeat with NILOMETER_SIM_SEED={}",
        plan.seed,
        plan.steps.len(),
        short.steps.len(),
        plan.seed
    )
}

/// The seeds that a test runs: one if `NILOMETER_SIM_SEED` names it, else `count`, or as many as `NILOMETER_SIM_SEEDS`
/// says, from `first` on. The same ones each time, so that a test that passed passes again.
pub fn seeds(first: u64, count: u64) -> std::ops::Range<u64> {
    let number = |name| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    if let Some(seed) = number("NILOMETER_SIM_SEED") {
        return seed..seed + 1;
    }
    first..first + number("NILOMETER_SIM_SEEDS").unwrap_or(count)
}
