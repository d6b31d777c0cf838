//! A simulation proves nothing unless it finds the bugs that are put in front of it, and makes a short plan of them.

use nilometer_service::Sabotage;
use nilometer_simserver::{Plan, influx_plan, random_plan, run, shrink};

/// Seeds within which each planted bug must be found.
const SEEDS_MAX: u64 = 600;
const FIRST_SEED: u64 = 2_000_000;

/// Runs seeds with the bug until one fails, which must pass without it; and shrinks its plan.
fn becomes_short(bug: Sabotage, steps_max: usize) {
    becomes_short_of(random_plan, bug, steps_max);
}

fn becomes_short_of(draw: fn(u64) -> Plan, bug: Sabotage, steps_max: usize) {
    for n in 0..SEEDS_MAX {
        let plan = draw(FIRST_SEED + n);
        let Err(failure) = run(&plan, Some(bug)) else {
            continue;
        };
        run(&plan, None).expect("without the bug, every promise holds");
        let (short, _) = shrink(&plan, failure, Some(bug));
        assert!(run(&short, Some(bug)).is_err());
        assert!(run(&short, None).is_ok());
        assert!(short.steps.len() <= steps_max, "{short}");
        return;
    }
    panic!("{bug:?} was not found in {SEEDS_MAX} plans");
}

#[test]
fn a_write_whose_time_is_over_and_that_is_called_stored_is_found() {
    // Two writes for one turn, a few polls, and time that passes; four to spare.
    becomes_short(Sabotage::TimeLimitIsSuccess, 8);
}

#[test]
fn a_write_that_is_answered_before_it_is_stored_is_found() {
    becomes_short(Sabotage::AnsweredBeforeStored, 4);
}

#[test]
fn a_key_that_is_stored_apart_from_its_rows_is_found() {
    // What goes wrong, the write, a few polls, and the write again; four to spare, because which call goes wrong is a number
    // that other steps move.
    becomes_short(Sabotage::KeyApartFromRows, 8);
}

#[test]
fn a_body_that_broke_off_and_is_stored_is_found() {
    becomes_short(Sabotage::HalfBodyStored, 3);
}

#[test]
fn memory_of_a_body_whose_client_went_is_missed() {
    becomes_short(Sabotage::BodyMemoryKept, 4);
}

#[test]
fn a_turn_of_a_query_whose_client_went_is_missed() {
    becomes_short(Sabotage::TurnKept, 6);
}

#[test]
fn an_answer_of_two_moments_is_found() {
    becomes_short(Sabotage::TwoSnapshots, 8);
}

#[test]
fn a_parquet_file_that_lacks_rows_is_found() {
    // Two writes and a question, and turns for each; one to spare.
    becomes_short(Sabotage::ParquetCutShort, 7);
}

#[test]
fn a_definition_that_is_answered_before_it_holds_is_found() {
    becomes_short(Sabotage::DefinedAfterAnswer, 5);
}

#[test]
fn a_clock_that_is_accepted_and_not_believed_is_found() {
    // Rows, a jump, somebody who looked at the clock, turns for them, and time; one to spare.
    becomes_short(Sabotage::ClockNotAccepted, 7);
}

#[test]
fn a_series_that_an_answer_in_influxql_lacks_is_found() {
    // A write, and turns for it; audits ask in InfluxQL too.
    becomes_short(Sabotage::SeriesLeftOut, 4);
}

#[test]
fn a_drop_in_influxql_that_is_answered_and_not_carried_out_is_found() {
    // A write, the drop, and turns for both; one to spare.
    becomes_short(Sabotage::DropForgotten, 5);
}

#[test]
fn points_in_another_retention_policy_are_found() {
    // A database, a policy, points, and turns for each; two to spare.
    becomes_short_of(influx_plan, Sabotage::PolicyIgnored, 8);
}

#[test]
fn a_delete_that_reaches_too_far_is_found() {
    // A database, points, a delete, and turns for each; two to spare.
    becomes_short_of(influx_plan, Sabotage::DeleteTooFar, 8);
}

#[test]
fn rows_in_another_order_are_found() {
    // A database, points, a question, and turns for each; two to spare.
    becomes_short_of(influx_plan, Sabotage::OrderIgnored, 8);
}

#[test]
fn a_device_whose_progress_is_not_kept_with_its_rows_is_found() {
    // A page, turns, the same page again, and turns; four to spare.
    becomes_short(Sabotage::ProgressForgotten, 8);
}

#[test]
fn every_planted_bug_has_its_test() {
    assert_eq!(Sabotage::ALL.len(), 16);
}
