//! Acquisition times and what GET promises of them: below the time that it answers, nothing is added any more.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use nilometer_engine::disk::{CrashPlan, FaultyDisk};

use crate::client::{Answer, Client, Key, MAX, MIN, Record, record};
use crate::server::{Server, World};

const HOUR: i64 = 3_600_000_000_000;

fn until(acq0: i64) -> Key {
    (MAX.0, MAX.1, MAX.2, MAX.3, acq0)
}

#[test]
fn stamps_rise_across_restarts_and_clocks_that_are_set_back() {
    let world = World::default();
    let mut last = i64::MIN;
    let mut answered: Vec<(i64, Vec<Record>)> = Vec::new();
    for run in 0..4 {
        let server = world.start();
        let mut client = server.connect();
        for n in 0..3 {
            let (first, until_last) = client
                .put(&[
                    record((run, n, 0, 1, 0), "x"),
                    record((run, n, 1, 1, 0), ""),
                ])
                .ok();
            assert!(first > last && until_last > first, "run {run}");
            last = until_last;
        }
        for (acq0, records) in &answered {
            assert_eq!(client.get(MIN, until(*acq0)).ok().0, *records, "run {run}");
        }
        let (records, acq0) = client.get(MIN, MAX).ok();
        assert!(acq0 > last);
        last = acq0 - 1;
        answered.push((acq0, records));
        world.clock.move_by(-HOUR);
    }
}

/// A box that ends in the past is answered with its end, one that ends later with what is complete.
#[test]
fn the_end_of_a_box_is_complete_no_later_than_it_is() {
    let server = World::default().start();
    let mut client = server.connect();
    let (first, last) = client
        .put(&[record((1, 1, 1, 1, 0), "a"), record((1, 1, 1, 1, 0), "b")])
        .ok();
    let (records, acq0) = client.get(MIN, until(last)).ok();
    assert_eq!((records.len(), acq0), (1, last));
    assert_eq!(client.get_acq(MIN, until(first)).ok(), first);
    assert!(client.get_acq(MIN, until(last + HOUR)).ok() < last + HOUR);
    // What is copied with a later time waits until that time has come.
    client
        .puta(&[record((1, 1, 1, 1, last + HOUR), "later")])
        .ok();
    assert_eq!(client.get(MIN, MAX).ok().0.len(), 2);
}

#[test]
fn a_record_copied_with_a_later_time_is_read_when_that_time_has_come() {
    let world = World::default();
    let server = world.start();
    let mut client = server.connect();
    let now = client.get_acq(MIN, MAX).ok();
    let later = record((1, 1, 1, 1, now + HOUR), "later");
    client.puta(std::slice::from_ref(&later)).ok();
    assert_eq!(client.get(MIN, MAX).ok().0, []);
    world.clock.move_by(2 * HOUR);
    assert_eq!(client.get(MIN, MAX).ok().0, [later]);
}

/// The promise, under writers that do not wait for each other.
#[test]
fn what_was_answered_below_its_end_is_answered_again_under_concurrent_writers() {
    let world = World::default();
    let server = world.start();
    let address = server.address;
    let is_over = Arc::new(AtomicBool::new(false));
    let answers: Arc<Mutex<HashMap<i64, Vec<Record>>>> = Arc::default();
    let written = Arc::new(AtomicI64::new(0));
    let writers: Vec<_> = (0..4_i32)
        .map(|writer| {
            let is_over = Arc::clone(&is_over);
            let written = Arc::clone(&written);
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                let mut n = 0_i64;
                // No more than these: on a machine with much to do, where readers come late, each of their answers held all that
                // four writers had written meanwhile, and three runs beside each other did not end.
                while n < WRITES_MAX && !is_over.load(Ordering::Relaxed) {
                    let records: Vec<Record> = (0..=n % 7)
                        .map(|at| {
                            record(
                                (writer, n, i32::try_from(at).unwrap(), n, 0),
                                n.to_le_bytes(),
                            )
                        })
                        .collect();
                    client.put(&records).ok();
                    n += 1;
                    written.fetch_add(1, Ordering::Relaxed);
                    // A disk in memory syncs at once: without a pause, records outgrow what is compared below.
                    std::thread::sleep(Duration::from_millis(2));
                }
            })
        })
        .collect();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let answers = Arc::clone(&answers);
            let written = Arc::clone(&written);
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                let mut last = i64::MIN;
                for ask in 0..ASKS_MAX {
                    if ask >= 60 && written.load(Ordering::Relaxed) > 100 {
                        break;
                    }
                    let (records, acq0) = client.get(MIN, MAX).ok();
                    assert!(acq0 >= last, "{acq0} after {last}");
                    assert!(records.iter().all(|it| it.key.4 < acq0));
                    last = acq0;
                    answers.lock().unwrap().insert(acq0, records);
                }
            })
        })
        .collect();
    for reader in readers {
        reader.join().unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.join().unwrap();
    }
    let writes = written.load(Ordering::Relaxed);
    assert!(writes > 100, "{writes}");
    let check = |server: &Server| {
        let mut client = server.connect();
        for (acq0, records) in answers.lock().unwrap().iter() {
            let (again, _) = client.get(MIN, until(*acq0)).ok();
            assert_eq!(again.len(), records.len());
            assert_eq!(&again, records);
        }
    };
    check(&server);
    drop(server);
    check(&world.start());
}

/// The power goes while writers write: what was acknowledged is there, what was answered below its end is answered again, and
/// nothing new is stamped below it.
#[test]
fn a_power_cut_takes_back_neither_records_nor_promises() {
    for seed in 1..=5 {
        let disk = FaultyDisk::new(seed, CrashPlan::default());
        let world = World {
            disk: Arc::new(disk.clone()),
            ..World::default()
        };
        let server = world.start();
        let address = server.address;
        let is_over = AtomicBool::new(false);
        let acknowledged = AtomicI64::new(0);
        let (records, acq0, sure, after) = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = Client::connect(address);
                for n in 1.. {
                    client
                        .put(&[record((1, n, 0, 0, 0), "x"), record((2, n, 0, 0, 0), "y")])
                        .ok();
                    acknowledged.store(n, Ordering::SeqCst);
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
            let mut client = Client::connect(address);
            for ask in 0..ASKS_MAX {
                if ask >= 20 && acknowledged.load(Ordering::SeqCst) >= 10 {
                    break;
                }
                client.get(MIN, MAX).ok();
            }
            let (records, acq0) = client.get(MIN, MAX).ok();
            let sure = acknowledged.load(Ordering::SeqCst);
            let after = disk.after_power_cut(seed, CrashPlan::default());
            is_over.store(true, Ordering::SeqCst);
            (records, acq0, sure, after)
        });
        drop(server);
        let world = World {
            disk: Arc::new(after),
            ..World::default()
        };
        world.clock.move_by(-HOUR);
        let server = world.start();
        let mut client = server.connect();
        assert_eq!(client.get(MIN, until(acq0)).ok().0, records, "seed {seed}");
        let whole = client.get(MIN, MAX).ok().0;
        for cid in [1, 2] {
            let mids: BTreeSet<i64> = whole
                .iter()
                .filter(|it| it.key.0 == cid)
                .map(|it| it.key.1)
                .collect();
            assert!(
                (1..=sure).all(|n| mids.contains(&n)),
                "seed {seed}: {sure} of {cid}"
            );
        }
        assert!(client.put(&[record((3, 1, 1, 1, 0), "new")]).ok().0 >= acq0);
    }
}

/// What readers were answered, by the time below which it is complete.
type Answers = Mutex<HashMap<i64, Vec<Record>>>;

/// Writes of one writer in the test of concurrent writers.
const WRITES_MAX: i64 = 300;

/// Asks of one reader in a life, if no more are needed for what a life has to see; far more than a life takes.
const ASKS_MAX: usize = 10_000;

/// Writers, readers and flushes at once, until each reader has seen `ends` different times of completeness and an answer of
/// `records` records; then the power goes: what the disk is after that. Of what was answered only that counts which came before.
///
/// A fixed number of asks would not do: on a machine that reads faster than it writes, readers see the same answer again and
/// again, and in one run of twenty-four answers so many were equal that too few were left to say anything.
fn live(
    server: &Server,
    answers: &Answers,
    (ends, records_min): (usize, usize),
    after: impl Fn() -> FaultyDisk,
) -> FaultyDisk {
    let address = server.address;
    let is_over = AtomicBool::new(false);
    let highest = AtomicI64::new(i64::MIN);
    std::thread::scope(|scope| {
        for writer in 0..3_i32 {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut client = Client::connect(address);
                let mut n = 0;
                while !is_over.load(Ordering::SeqCst) {
                    // One record or many, so that writes pass each other.
                    let records: Vec<Record> = (0..[1, 6, 2][writer as usize])
                        .map(|at| record((writer, n, at, n, 0), n.to_le_bytes()))
                        .collect();
                    let (first, last) = client.put(&records).ok();
                    assert_eq!(last - first + 1, i64::try_from(records.len()).unwrap());
                    n += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
        }
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                server.engine.flush().unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Client::connect(address);
                    let (mut seen, mut most) = (BTreeSet::new(), 0);
                    for _ in 0..ASKS_MAX {
                        if seen.len() >= ends && most >= records_min {
                            break;
                        }
                        let before = highest.load(Ordering::SeqCst);
                        let (records, acq0) = client.get(MIN, MAX).ok();
                        assert!(acq0 >= before, "{acq0} after {before}");
                        assert!(records.iter().all(|it| it.key.4 < acq0));
                        highest.fetch_max(acq0, Ordering::SeqCst);
                        seen.insert(acq0);
                        most = most.max(records.len());
                        let mut answers = answers.lock().unwrap();
                        let first = answers.entry(acq0).or_insert_with(|| records.clone());
                        assert!(*first == records, "{acq0}");
                    }
                })
            })
            .collect();
        let ended: Vec<_> = readers.into_iter().map(ScopedJoinHandle::join).collect();
        // Writers and flushes are still at it.
        let after = after();
        is_over.store(true, Ordering::SeqCst);
        for reader in ended {
            reader.unwrap();
        }
        after
    })
}

/// The promise, through lives that end with a power cut or a kill while writers, readers and flushes are at work, under a clock
/// that is set back each time: every answer of every life is answered again in each that follows.
#[test]
fn every_answer_is_answered_again_in_every_later_life() {
    for seed in 1..=2 {
        let answers = Answers::default();
        let mut disk = FaultyDisk::new(seed, CrashPlan::default());
        for life in 0..3_u64 {
            let world = World {
                disk: Arc::new(disk.clone()),
                ..World::default()
            };
            world.clock.move_by(-HOUR * i64::try_from(life).unwrap());
            let server = world.start();
            let mut client = server.connect();
            for (acq0, records) in answers.lock().unwrap().iter() {
                let (again, _) = client.get(MIN, until(*acq0)).ok();
                assert!(again == *records, "seed {seed}, life {life}, below {acq0}");
            }
            let last = answers.lock().unwrap().keys().copied().max();
            if let Some(last) = last {
                assert!(client.get_acq(MIN, MAX).ok() >= last, "seed {seed}");
            }
            let after = live(&server, &answers, (8, 25), || {
                if life % 2 == 0 {
                    disk.after_power_cut(seed + life, CrashPlan::default())
                } else {
                    disk.after_kill(CrashPlan::default())
                }
            });
            drop(server);
            disk = after;
        }
        let answers = answers.into_inner().unwrap();
        let most = answers.values().map(Vec::len).max().unwrap();
        assert!(answers.len() > 20 && most > 20, "{} {most}", answers.len());
    }
}

/// A sync that fails: the rows may be in the log and come back with the next start, so nothing above them is complete.
#[test]
fn what_a_failed_sync_leaves_behind_is_below_no_promise() {
    for seed in 1..=5 {
        let disk = FaultyDisk::new(seed, CrashPlan::default());
        let world = World {
            disk: Arc::new(disk.clone()),
            ..World::default()
        };
        let mut server = world.start();
        server.closes = false;
        server
            .connect()
            .put(&[record((1, 1, 0, 0, 0), "kept")])
            .ok();
        disk.set_plan(CrashPlan {
            fail_sync_at: (0..100).collect(),
            ..CrashPlan::default()
        });
        let lost = server.connect().put(&[record((1, 2, 0, 0, 0), "lost")]);
        assert_eq!(lost, Answer::Status(-1));
        let (records, acq0) = server.connect().get(MIN, MAX).ok();
        assert_eq!(records.len(), 1);
        assert_eq!(server.connect().get_acq(MIN, MAX).ok(), acq0);
        drop(server);
        let after = disk.after_kill(CrashPlan::default());
        let world = World {
            disk: Arc::new(after),
            ..World::default()
        };
        let server = world.start();
        assert_eq!(
            server.connect().get(MIN, until(acq0)).ok().0,
            records,
            "seed {seed}"
        );
    }
}
