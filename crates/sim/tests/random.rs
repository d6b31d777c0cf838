//! Random lives: crashes, also while recovering, failed syncs, full disks, short writes, and every promise after each.

use nilometer_sim::{Counts, explain, random_plan, run, seeds};

#[test]
fn every_promise_holds_through_random_lives() {
    let mut counts = Counts::default();
    for seed in seeds(1, 2500) {
        let plan = random_plan(seed);
        match run(&plan, None) {
            Ok(report) => counts += report.counts,
            Err(failure) => panic!("{}", explain(&plan, &failure, None)),
        }
    }
    println!("random: {counts}");
    assert!(counts.rows_compared > counts.batches, "{counts}");
    if counts.runs > 100 {
        let now = nilometer_engine::Options::default().segment_format;
        assert_eq!(counts.earlier.len() + 1, usize::from(now));
        let is_upgraded = counts.earlier.iter().all(|segments| *segments > 0);
        assert!(
            is_upgraded,
            "no store of some format was upgraded: {counts}"
        );
        assert!(counts.cold > 0, "no store was settled cold: {counts}");
    }
}

#[test]
fn a_seed_runs_the_same_each_time() {
    for seed in seeds(50_000, 20) {
        let plan = random_plan(seed);
        assert_eq!(plan, random_plan(seed));
        let first = run(&plan, None).map(|report| (report.counts, report.calls));
        let second = run(&plan, None).map(|report| (report.counts, report.calls));
        assert_eq!(first, second, "seed {seed}");
    }
}
