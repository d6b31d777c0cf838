//! The suite's thirteen questions about trucks against answers that `scripts/iot_answers.py` computed from the same points.
//!
//! The answers of TimescaleDB are not used: the suite's loader keeps one row of tags per truck there, whichever came first,
//! so they do not follow from the points. The statements are those of `nilometer bench queries`, which a test of the crate
//! `bench` compares.

use crate::answers::{TagSets, check_file};
use crate::support::Server;
use crate::{states, tsbs};

#[test]
fn every_question_about_trucks_is_answered_as_its_points_say_from_head_to_segment() {
    states::from_head_to_segment(|server| tsbs::IOT.load(server), check_all);
}

#[test]
fn every_question_about_trucks_is_answered_as_its_points_say_through_live_flushes() {
    states::through_live_flushes(|server| tsbs::IOT.load(server), check_all);
}

#[test]
fn every_question_about_trucks_is_answered_as_its_points_say_through_live_compaction() {
    states::through_live_compaction(|server| tsbs::IOT.load(server), check_all);
}

fn check_all(server: &Server, state: &str) {
    let no_ids = TagSets::new();
    check_file(server, tsbs::IOT, "iot.sql.jsonl.gz", 70, &no_ids, state);
}
