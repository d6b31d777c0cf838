//! Seeded simulation of the server's request paths, over a disk that fails and a clock that stands still.
//!
//! Does: draw a plan of requests from a seed, run it against the routes on one thread whose order the plan chooses, and
//! against plain maps; cancel, interleave, read slowly, restart; compare, look for what is left behind, and shrink what
//! fails. One seed is one run. Does not: open sockets, look into the engine (`nilometer-sim` does that at every disk
//! call), or run on threads; nothing here is part of a release.
//!
//! Start at [`plan`] for what a run is, at [`run()`] for the rules. `NILOMETER_SIM_SEED=n` makes the tests run one seed,
//! `NILOMETER_SIM_SEEDS=n` that many; `make soak` runs until it is stopped and keeps what it finds ([`finding`]).

mod answer;
mod client;
mod device;
pub mod finding;
pub mod generate;
pub mod influx;
mod influxql;
mod machine;
mod model;
pub mod plan;
mod request;
pub mod run;
pub mod shrink;

pub use client::Ending;
pub use finding::Finding;
pub use generate::random_plan;
pub use influx::draw::influx_plan;
pub use model::{OpId, Tables};
pub use plan::Plan;
pub use run::{Counts, Failure, run};
pub use shrink::shrink;

/// What a failed run says: the promise, the short plan, and how to repeat it.
pub fn explain(
    plan: &Plan,
    failure: &Failure,
    sabotage: Option<nilometer_service::Sabotage>,
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

/// A number from the environment.
pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
