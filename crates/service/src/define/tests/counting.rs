//! Sequences by themselves: how they count, what outlives a server, and what a machine that stops leaves of one.

use std::path::Path as FilePath;
use std::sync::Arc;

use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk};
use nilometer_engine::{Engine, Options, SystemClock};

use super::super::*;
use super::{create_database, done, in_public};
use crate::{Principal, Scope};

fn open(disk: &FaultyDisk) -> Arc<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let clock = Arc::new(SystemClock);
    let engine = Engine::open(disk, clock, FilePath::new("/data"), Options::default());
    Arc::new(engine.unwrap())
}

const BY_FIVES: Counting = Counting {
    start: 1,
    increment: 5,
    min: 1,
    max: 1_000,
    cycles: false,
};

fn create(counting: Counting) -> Change {
    Change::CreateSequence {
        path: "s".into(),
        if_not_exists: false,
        counting,
    }
}

#[test]
fn a_sequence_counts_on_behind_what_an_earlier_server_gave() {
    let disk = FaultyDisk::new(1, CrashPlan::default());
    let engine = open(&disk);
    done(&engine, create_database("d"));
    done(&engine, create(BY_FIVES));
    let sequence = in_public("s");
    let one = Sequences::default();
    let mut given = one.take(&engine, &sequence, 3).unwrap();
    assert_eq!(given, [1, 6, 11]);
    given.extend(Sequences::default().take(&engine, &sequence, 2).unwrap());
    given.extend(one.take(&engine, &sequence, 40).unwrap());
    drop((one, engine));
    let engine = open(&disk.after_kill(CrashPlan::default()));
    let after = Sequences::default();
    given.extend(after.take(&engine, &sequence, 1).unwrap());
    let all: std::collections::BTreeSet<i64> = given.iter().copied().collect();
    assert_eq!(all.len(), given.len(), "{given:?}");
    assert!(given.iter().all(|number| number % 5 == 1), "{given:?}");
    // What it is set to counts, and not what is left of the numbers before.
    after.set(&engine, &sequence, (7, true)).unwrap();
    assert_eq!(after.take(&engine, &sequence, 2).unwrap(), [12, 17]);
    after.set(&engine, &sequence, (7, false)).unwrap();
    assert_eq!(after.take(&engine, &sequence, 1).unwrap(), [7]);
    let beyond = after.set(&engine, &sequence, (1_001, true)).unwrap_err();
    assert!(beyond.to_string().contains("out of bounds"), "{beyond}");
    // The last numbers are given, and no more: also of a statement that wants several.
    after.set(&engine, &sequence, (990, true)).unwrap();
    let refused = after.take(&engine, &sequence, 3).unwrap_err();
    assert!(refused.to_string().contains("reached maximum"), "{refused}");
    // Another of the name begins anew.
    let drop_it = Change::DropSequences {
        paths: vec!["s".into()],
        if_exists: false,
    };
    done(&engine, drop_it);
    after.take(&engine, &sequence, 1).unwrap_err();
    done(&engine, create(Counting::default()));
    assert_eq!(after.take(&engine, &sequence, 2).unwrap(), [1, 2]);
}

#[test]
fn a_machine_that_stops_anywhere_leaves_a_sequence_with_its_way_to_count_or_none() {
    let before = || {
        let disk = FaultyDisk::new(1, CrashPlan::default());
        let engine = open(&disk);
        done(&engine, create_database("d"));
        disk.set_plan(CrashPlan::default());
        (disk, engine)
    };
    let calls = {
        let (disk, engine) = before();
        done(&engine, create(BY_FIVES));
        disk.calls()
    };
    for at in 1..=calls {
        for seed in 1..=4 {
            let (disk, engine) = before();
            disk.set_plan(CrashPlan {
                crash_at: Some(at),
                ..CrashPlan::default()
            });
            let scope = Scope::of_database("d");
            let made = run(&engine, &Principal::anyone(), &scope, create(BY_FIVES));
            drop(engine);
            let engine = open(&disk.after_power_cut(seed, CrashPlan::default()));
            let given = Sequences::default().take(&engine, &in_public("s"), 2);
            match given {
                Ok(given) => assert_eq!(given, [1, 6], "stopped at call {at}, seed {seed}"),
                Err(_) => assert!(made.is_err(), "stopped at call {at}, seed {seed}"),
            }
        }
    }
}

/// `DROP SEQUENCE` forgot the sequence in one record and how it counts in another. A machine that stopped between them left the
/// second, and the next sequence of the name, which counts by ones, counted by fives.
#[test]
fn a_machine_that_stops_while_a_sequence_is_dropped_leaves_nothing_to_the_next_of_its_name() {
    let drop_it = || Change::DropSequences {
        paths: vec!["s".into()],
        if_exists: false,
    };
    let before = || {
        let disk = FaultyDisk::new(1, CrashPlan::default());
        let engine = open(&disk);
        done(&engine, create_database("d"));
        done(&engine, create(BY_FIVES));
        disk.set_plan(CrashPlan::default());
        (disk, engine)
    };
    let calls = {
        let (disk, engine) = before();
        done(&engine, drop_it());
        disk.calls()
    };
    let mut gone = 0;
    for at in 1..=calls {
        for seed in 1..=4 {
            let (disk, engine) = before();
            disk.set_plan(CrashPlan {
                crash_at: Some(at),
                ..CrashPlan::default()
            });
            let scope = Scope::of_database("d");
            let dropped = run(&engine, &Principal::anyone(), &scope, drop_it());
            drop(engine);
            let engine = open(&disk.after_power_cut(seed, CrashPlan::default()));
            let sequences = Sequences::default();
            if let Ok(given) = sequences.take(&engine, &in_public("s"), 2) {
                assert!(dropped.is_err(), "stopped at call {at}, seed {seed}");
                assert_eq!(given, [1, 6], "stopped at call {at}, seed {seed}");
                continue;
            }
            gone += 1;
            done(&engine, create(Counting::default()));
            let given = sequences.take(&engine, &in_public("s"), 2).unwrap();
            assert_eq!(given, [1, 2], "stopped at call {at}, seed {seed}");
        }
    }
    assert!(gone > 0, "no drop came as far as the log");
}
