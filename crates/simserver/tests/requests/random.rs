//! Random lives of a server: requests that meet, go, wait and come again, and every promise after each.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nilometer_simserver::run::LIMITS;
use nilometer_simserver::{Counts, explain, number, random_plan, run};

/// Seeds that are the same in every test run.
const SEEDS: u64 = 600;
/// Seeds after those, which are others each time.
const NEW_SEEDS: u64 = 600;
/// No new seed is begun later than this, so that a slow machine is not busy with them for ever.
const NEW_SEEDS_TIME_MAX: Duration = Duration::from_secs(45);

fn keeps_every_promise(seed: u64) -> Counts {
    let plan = random_plan(seed);
    run(&plan, None).unwrap_or_else(|failure| panic!("{}", explain(&plan, &failure, None)))
}

#[test]
fn every_promise_holds_through_random_requests() {
    let mut counts = Counts::default();
    if let Some(seed) = number("NILOMETER_SIM_SEED") {
        println!("{}", keeps_every_promise(seed));
        return;
    }
    let count = number("NILOMETER_SIM_SEEDS").unwrap_or(SEEDS);
    for seed in 1..=count {
        counts += keeps_every_promise(seed);
    }
    println!("requests, seeds 1 to {count}: {counts}");
    // A simulation in which nothing happens keeps every promise too.
    for (name, met) in LIMITS.iter().zip(counts.limits) {
        assert!(met > 0 || count < SEEDS, "nobody met {name}: {counts}");
    }
    let lively = counts.crashes > 0
        && counts.compared_midway > 0
        && counts.unanswered > 0
        && counts.expired > 0
        && counts.defined > 0;
    assert!(lively || count < SEEDS, "{counts}");
}

#[test]
fn every_promise_holds_through_requests_that_nobody_has_seen() {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let first = since.map_or(0, |since| since.as_secs()) << 24;
    println!("from seed {first}");
    let (start, mut counts, mut seeds) = (Instant::now(), Counts::default(), 0);
    while seeds < NEW_SEEDS && start.elapsed() < NEW_SEEDS_TIME_MAX {
        counts += keeps_every_promise(first + seeds);
        seeds += 1;
    }
    println!("requests, {seeds} seeds: {counts}");
    assert!(counts.requests > 0);
}

#[test]
fn a_seed_runs_the_same_each_time() {
    for seed in 1_000_000..1_000_030 {
        let plan = random_plan(seed);
        assert_eq!(plan, random_plan(seed));
        assert_eq!(run(&plan, None), run(&plan, None), "seed {seed}");
    }
}
