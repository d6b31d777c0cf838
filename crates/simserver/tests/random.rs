//! Random lives of a server: requests that meet, go, wait and come again, and every promise after each.

use nilometer_simserver::{Counts, explain, number, random_plan, run};

/// Seeds of a test run.
const SEEDS: u64 = 300;

#[test]
fn every_promise_holds_through_random_requests() {
    let (first, count) = match number("NILOMETER_SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (1, number("NILOMETER_SIM_SEEDS").unwrap_or(SEEDS)),
    };
    let mut counts = Counts::default();
    for seed in first..first + count {
        let plan = random_plan(seed);
        match run(&plan, None) {
            Ok(more) => counts += more,
            Err(failure) => panic!("{}", explain(&plan, &failure, None)),
        }
    }
    println!("requests: {counts}");
}

#[test]
fn a_seed_runs_the_same_each_time() {
    for seed in 1_000_000..1_000_010 {
        let plan = random_plan(seed);
        assert_eq!(plan, random_plan(seed));
        assert_eq!(run(&plan, None), run(&plan, None), "seed {seed}");
    }
}
