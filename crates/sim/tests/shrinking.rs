//! A plan that fails is made short, and still fails.

use nilometer_engine::Sabotage;
use nilometer_sim::{random_plan, run, shrink};

/// Plans within which each bug is found.
const SEEDS: u64 = 600;
/// A plan that needs no shrinking proves nothing.
const STEPS_MIN: usize = 12;

/// Shrinks the first long plan that finds the bug, and checks that what is left is short and to the point.
fn becomes_short(bug: Sabotage, steps_max: usize) {
    let (plan, failure) = (0..SEEDS)
        .find_map(|seed| {
            let plan = random_plan(seed);
            let failure = run(&plan, Some(bug)).err()?;
            (plan.steps.len() > STEPS_MIN).then_some((plan, failure))
        })
        .expect("the bug is found");
    let (short, _) = shrink(&plan, failure, Some(bug));
    assert!(short.steps.len() <= steps_max, "{short}");
    assert!(run(&short, Some(bug)).is_err());
    assert!(run(&short, None).is_ok());
}

#[test]
fn a_failing_plan_becomes_short_and_fails_still() {
    // Opening, a database, two writes of the same row, and a look at them; one to spare.
    becomes_short(Sabotage::HeadOutOfLogOrder, 6);
}

#[test]
fn a_race_becomes_two_writers_of_one_key() {
    // Opening, a database, its table, a first row, and the write that is raced; one to spare.
    becomes_short(Sabotage::KeysNotCheckedAgain, 6);
}

#[test]
fn a_lost_row_of_a_relation_becomes_a_write_while_a_flush_files_it() {
    // Opening, a database, the relation, a flush with its visitor, and a crash; one to spare.
    becomes_short(Sabotage::RelationFiledEarly, 6);
}

#[test]
fn a_forgotten_key_becomes_a_restart_between_two_rows() {
    // Opening, a database, the relation, a row, a crash, and a second row; one to spare.
    becomes_short(Sabotage::UniqueKeysNotReplayed, 7);
}
