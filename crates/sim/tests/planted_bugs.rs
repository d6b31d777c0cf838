//! A simulation proves nothing unless it finds the bugs that are put in front of it.

use nilometer_engine::Sabotage;
use nilometer_sim::{calm_plan, crash_everywhere, random_plan, run};

/// Seeds within which each planted bug must be found.
const RANDOM_MAX: u64 = 600;
/// Plans, crashed at every call, within which a planted bug must be found.
const EXHAUSTIVE_MAX: u64 = 20;
const FIRST_SEED: u64 = 1_000_000;

/// Runs seeds with the bug until one fails, which must pass without it.
fn find(sabotage: Sabotage) -> String {
    for n in 0..RANDOM_MAX {
        let plan = random_plan(FIRST_SEED + n);
        if let Err(failure) = run(&plan, Some(sabotage)) {
            run(&plan, None).expect("without the bug, every promise holds");
            return format!("{sabotage:?}: found by random plan {}: {failure}", n + 1);
        }
    }
    panic!("{sabotage:?} was not found in {RANDOM_MAX} random plans");
}

/// The same with plans that crash at every call.
fn find_by_crashing_everywhere(sabotage: Sabotage) -> String {
    for n in 0..EXHAUSTIVE_MAX {
        let plan = calm_plan(FIRST_SEED + n);
        crash_everywhere(&plan, None).expect("without the bug, every promise holds");
        if let Err(broken) = crash_everywhere(&plan, Some(sabotage)) {
            let failure = &broken.1;
            return format!(
                "{sabotage:?}: found by exhaustive plan {}: {failure}",
                n + 1
            );
        }
    }
    panic!("{sabotage:?} was not found in {EXHAUSTIVE_MAX} exhaustive plans");
}

#[test]
fn a_head_out_of_log_order_is_found() {
    println!("{}", find(Sabotage::HeadOutOfLogOrder));
}

#[test]
fn a_manifest_written_before_the_data_is_synced_is_found() {
    println!("{}", find(Sabotage::ManifestBeforeDataSync));
    println!(
        "{}",
        find_by_crashing_everywhere(Sabotage::ManifestBeforeDataSync)
    );
}

#[test]
fn a_log_trimmed_before_the_manifest_is_found() {
    println!("{}", find(Sabotage::LogTrimmedBeforeManifest));
}

#[test]
fn a_failed_sync_that_is_tried_again_is_found() {
    println!("{}", find(Sabotage::RetryFailedSync));
}

#[test]
fn a_delete_that_a_compaction_forgets_is_found() {
    println!("{}", find(Sabotage::TombstoneDropped));
}

#[test]
fn an_id_given_to_a_second_owner_is_found() {
    println!("{}", find(Sabotage::SeriesIdReused));
}

#[test]
fn a_short_write_taken_for_a_whole_one_is_found() {
    println!("{}", find(Sabotage::ShortWriteIgnored));
}

#[test]
fn a_name_that_is_not_made_durable_is_found() {
    println!("{}", find(Sabotage::DirectorySyncSkipped));
    println!(
        "{}",
        find_by_crashing_everywhere(Sabotage::DirectorySyncSkipped)
    );
}

#[test]
fn a_batch_that_a_crash_may_split_is_found() {
    println!("{}", find(Sabotage::PartialBatchVisible));
    println!(
        "{}",
        find_by_crashing_everywhere(Sabotage::PartialBatchVisible)
    );
}

#[test]
fn a_mark_that_says_durable_before_it_is_so_is_found() {
    println!("{}", find(Sabotage::MarkBeforeSync));
    println!("{}", find_by_crashing_everywhere(Sabotage::MarkBeforeSync));
}

/// A table whose interval became much shorter lost four fifths of its rows in silence.
#[test]
fn rows_that_a_compaction_leaves_out_are_found() {
    println!("{}", find(Sabotage::RowsLeftOut));
}

/// Overwritten values came back when a compaction took a part of the files that one flush had been divided into.
#[test]
fn a_compaction_that_divides_the_files_of_one_flush_is_found() {
    println!("{}", find(Sabotage::RunCutInTie));
}

#[test]
fn a_second_writer_of_a_key_who_is_not_noticed_is_found() {
    println!("{}", find(Sabotage::KeysNotCheckedAgain));
}

#[test]
fn a_row_of_a_relation_that_a_flush_believes_to_be_filed_is_found() {
    println!("{}", find(Sabotage::RelationFiledEarly));
}

#[test]
fn a_unique_key_that_replay_forgets_is_found() {
    println!("{}", find(Sabotage::UniqueKeysNotReplayed));
}

#[test]
fn a_file_that_goes_while_it_is_read_is_found() {
    println!("{}", find(Sabotage::FileRemovedUnderReader));
}

#[test]
fn a_rollup_that_stands_for_rows_of_two_files_is_found() {
    println!("{}", find(Sabotage::RollupOverOverlap));
}

/// Rows in memory were of a series that nobody knew.
#[test]
fn a_series_that_is_forgotten_with_rows_in_memory_is_found() {
    println!("{}", find(Sabotage::SeriesOfHeadForgotten));
}
