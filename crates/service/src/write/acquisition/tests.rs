//! The promise of acquisition times, held under clocks that jump, failures and restarts.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_engine::{Clock, Options};

use super::*;

/// A clock that is set by hand.
#[derive(Debug)]
struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        0
    }
}

struct World {
    disk: Arc<MemoryDisk>,
    clock: Arc<HandClock>,
}

impl World {
    fn at(ns: i64) -> Self {
        Self {
            disk: Arc::default(),
            clock: Arc::new(HandClock(AtomicI64::new(ns))),
        }
    }

    fn set(&self, ns: i64) {
        self.clock.0.store(ns, Ordering::Relaxed);
    }

    fn open(&self) -> (Arc<Engine>, Arc<Acquisitions>) {
        let disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let engine = Engine::open(disk, clock, Path::new("/data"), Options::default()).unwrap();
        let engine = Arc::new(engine);
        (Arc::clone(&engine), Acquisitions::new(engine))
    }
}

#[test]
fn stamps_follow_the_clock_and_never_go_back() {
    let world = World::at(1_000);
    let (_engine, acquisitions) = world.open();
    let first = acquisitions.begin(3).unwrap();
    assert_eq!((first.first, first.last), (1_000, 1_002));
    let second = acquisitions.begin(1).unwrap();
    assert_eq!((second.first, second.last), (1_003, 1_003));
    world.set(5_000);
    assert_eq!(acquisitions.begin(1).unwrap().first, 5_000);
    world.set(10);
    assert_eq!(acquisitions.begin(1).unwrap().first, 5_001);
}

#[test]
fn what_is_complete_ends_before_the_first_write_on_its_way() {
    let world = World::at(1_000);
    let (_engine, acquisitions) = world.open();
    let first = acquisitions.begin(2).unwrap();
    let second = acquisitions.begin(2).unwrap();
    assert_eq!(acquisitions.complete().unwrap(), 1_000);
    second.store(|| Ok(())).unwrap();
    assert_eq!(acquisitions.complete().unwrap(), 1_000);
    first.store(|| Ok(())).unwrap();
    assert_eq!(acquisitions.complete().unwrap(), 1_004);
    // What was said stays true: nothing is stamped below it.
    assert_eq!(acquisitions.begin(1).unwrap().first, 1_004);
}

#[test]
fn rows_that_may_come_back_keep_everything_after_them_incomplete() {
    let world = World::at(1_000);
    let (_engine, acquisitions) = world.open();
    let refused = acquisitions.begin(1).unwrap();
    refused.store(|| Err::<(), _>(Error::Stopping)).unwrap_err();
    assert_eq!(acquisitions.complete().unwrap(), 1_001);
    let poisoned = EngineError::Poisoned {
        reason: "planted".to_owned(),
    };
    let lost = acquisitions.begin(1).unwrap();
    assert_eq!(lost.first, 1_001);
    lost.store(|| Err::<(), _>(Error::Engine(poisoned)))
        .unwrap_err();
    world.set(9_000);
    acquisitions.begin(1).unwrap().store(|| Ok(())).unwrap();
    assert_eq!(acquisitions.complete().unwrap(), 1_001);
}

#[test]
fn a_panic_while_rows_are_stored_counts_as_rows_that_may_come_back() {
    let world = World::at(1_000);
    let (_engine, acquisitions) = world.open();
    let stamps = acquisitions.begin(1).unwrap();
    let stored = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = stamps.store(|| -> Result<(), Error> { panic!("planted") });
    }));
    stored.unwrap_err();
    assert_eq!(acquisitions.complete().unwrap(), 1_000);
}

#[test]
fn neither_a_restart_nor_a_clock_set_back_lowers_a_stamp() {
    let world = World::at(1_000);
    let last = {
        let (engine, acquisitions) = world.open();
        let last = acquisitions.begin(5).unwrap().last;
        // As in a crash: nothing is closed but the files.
        drop((engine, acquisitions));
        last
    };
    world.set(0);
    let answered = {
        let (engine, acquisitions) = world.open();
        assert!(acquisitions.begin(1).unwrap().first > last);
        world.set(50_000);
        let answered = acquisitions.complete().unwrap();
        acquisitions.close().unwrap();
        engine.close().unwrap();
        answered
    };
    world.set(0);
    let (_engine, acquisitions) = world.open();
    let next = acquisitions.begin(1).unwrap().first;
    // Closed in order, nothing is skipped.
    assert_eq!(next, answered);
}

#[test]
fn more_stamps_than_the_bound_leaves_room_for_raise_it() {
    let world = World::at(0);
    let (_engine, acquisitions) = world.open();
    acquisitions.begin(1).unwrap();
    let many = usize::try_from(3 * AHEAD_NS).unwrap();
    let stamps = acquisitions.begin(many).unwrap();
    assert_eq!(stamps.last - stamps.first + 1, 3 * AHEAD_NS);
}
