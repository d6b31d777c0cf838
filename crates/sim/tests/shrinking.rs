//! A plan that fails is made short, and still fails.

use nilometer_engine::Sabotage;
use nilometer_sim::{random_plan, run, shrink};

#[test]
fn a_failing_plan_becomes_short_and_fails_still() {
    let bug = Some(Sabotage::HeadOutOfLogOrder);
    let (plan, failure) = (0..100)
        .find_map(|seed| {
            let plan = random_plan(seed);
            let failure = run(&plan, bug).err()?;
            (plan.steps.len() > 12).then_some((plan, failure))
        })
        .expect("the bug is found");
    let (short, _) = shrink(&plan, failure, bug);
    println!("{} steps became\n{short}", plan.steps.len());
    // Opening, a database, two writes of the same row, and a look at them; one to spare.
    assert!(short.steps.len() <= 6, "{short}");
    assert!(run(&short, bug).is_err());
    assert!(run(&short, None).is_ok());
}
