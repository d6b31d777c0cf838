//! Acquisition times keep their promise through random lives, and a simulation of them that finds no planted bug proves nothing.

use nilometer_service::AcquisitionBug;
use nilometer_sim::acquisition::{Counts, random_plan, run, shrink};
use nilometer_sim::seeds;

/// Seeds within which each planted bug must be found.
const SEEDS_MAX: u64 = 1_000;
/// Steps of the shortest plan, with some to spare.
const STEPS_MAX: usize = 10;

#[test]
fn what_is_complete_stays_as_it_was_through_random_lives() {
    let mut counts = Counts::default();
    let seeds = seeds(1, 1_500);
    let many = seeds.end - seeds.start > 100;
    for seed in seeds {
        let plan = random_plan(seed);
        match run(&plan, None) {
            Ok(more) => counts += more,
            Err(failure) => {
                let (short, failure) = shrink(&plan, failure, None);
                panic!(
                    "seed {seed} breaks a promise.\n{failure}\n{short}repeat with NILOMETER_SIM_SEED={seed}"
                );
            }
        }
    }
    println!("acquisition: {counts:?}");
    if many {
        // It reached what it is for.
        assert!(counts.cut_short > 0 && counts.came_back > 0, "{counts:?}");
        assert!(counts.compared > counts.stored, "{counts:?}");
    }
}

#[test]
fn a_seed_runs_the_same_each_time() {
    for seed in seeds(70_000, 20) {
        let plan = random_plan(seed);
        assert_eq!(plan, random_plan(seed));
        assert_eq!(run(&plan, None), run(&plan, None), "seed {seed}");
    }
}

#[test]
fn every_planted_bug_is_found_and_becomes_a_short_plan() {
    for bug in AcquisitionBug::ALL {
        let found = (1_000_000..1_000_000 + SEEDS_MAX).find_map(|seed| {
            let plan = random_plan(seed);
            let failure = run(&plan, Some(bug)).err()?;
            run(&plan, None).expect("without the bug, every promise holds");
            let (short, failure) = shrink(&plan, failure, Some(bug));
            Some((seed, short, failure))
        });
        let (seed, short, failure) =
            found.unwrap_or_else(|| panic!("{bug:?} was not found in {SEEDS_MAX} plans"));
        println!("{bug:?}: found by seed {seed}: {failure}\n{short}");
        assert!(run(&short, Some(bug)).is_err());
        assert!(run(&short, None).is_ok());
        assert!(short.steps.len() <= STEPS_MAX, "{bug:?}:\n{short}");
    }
}
