//! A power cut and a kill at every single disk call of a plan.

use nilometer_sim::{Counts, calm_plan, crash_everywhere, explain, seeds};

#[test]
fn every_promise_holds_wherever_the_machine_stops() {
    let mut counts = Counts::default();
    let seeds = seeds(1, 30);
    let plans = seeds.end - seeds.start;
    for seed in seeds {
        match crash_everywhere(&calm_plan(seed), None) {
            Ok(more) => counts += more,
            Err(broken) => panic!("{}", explain(&broken.0, &broken.1, None)),
        }
    }
    println!("exhaustive: plans={plans} {counts}");
    assert!(counts.crashes_at_a_call > plans, "{counts}");
}
