//! kill -9, a hundred times, of a server that is loading, flushing and answering.
//!
//! A ledger keeps what became of each batch. After every restart: each acknowledged batch is there, once and whole;
//! each batch that a query has shown is there; a batch without an answer is there whole or not at all, and from then
//! on stays as it was found. The ledger lives in this process, which is not the one that is killed.

mod ledger;
mod traffic;

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

use self::ledger::{Ledger, WRITERS};
use crate::support::{Server, wait_for};

/// How often the server is killed.
const KILLS: u64 = 100;
/// Few rows make a segment and few segments a compaction, so that most kills fall near either.
const FLAGS: &[&str] = &[
    "--flush-rows",
    "150",
    "--compaction-fan-in",
    "2",
    "--partition-rows-min",
    "100",
    "--widen-rows-max",
    "1000",
    "--settle-ms",
    "1",
];
/// A round ends after this many acknowledged batches at most.
const ROUND_BATCHES_MAX: u64 = 40;
/// One start in this many is killed before the server is up.
const EARLY_KILL_ONE_IN: u64 = 5;

#[test]
fn acknowledged_batches_survive_a_hundred_kills_once_and_whole() {
    let seed = std::env::var("NILOMETER_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(42);
    println!("NILOMETER_TEST_SEED={seed}");
    let mut random = Random(seed);
    let directory = TempDir::new().expect("a directory for the data");
    let mut ledger = Ledger::default();
    let mut segments_max = 0.0_f64;
    let mut partitions_max = 0.0_f64;
    let mut kills = 0;

    let server = Server::start(directory.path(), FLAGS);
    traffic::write_first_batches(&server, &mut ledger);
    server.kill();
    while kills < KILLS {
        if random.below(EARLY_KILL_ONE_IN) == 0 {
            let pause = Duration::from_micros(random.below(40_000));
            Server::start_and_kill(directory.path(), FLAGS, || thread::sleep(pause));
            kills += 1;
        }
        let server = Server::start(directory.path(), FLAGS);
        ledger.check(&server, &format!("after {kills} kills"));
        segments_max = segments_max.max(server.metric("nilometer_segments"));
        partitions_max = partitions_max.max(server.metric("nilometer_partitions"));
        ledger = load_until_killed(server, ledger, &mut random);
        kills += 1;
    }

    let server = Server::start(directory.path(), FLAGS);
    ledger.check(&server, "after the last kill");
    server.stop();
    let server = Server::start(directory.path(), FLAGS);
    ledger.check(&server, "after the last kill and a graceful stop");
    server.stop();
    println!(
        "kills={kills} segments_max={segments_max} partitions_max={partitions_max} {}",
        ledger.summary()
    );
    assert!(
        segments_max >= 1.0,
        "no round saw a segment, so flushing was never interrupted"
    );
    assert!(
        partitions_max >= 1.0,
        "no round saw a partition, so compaction was never interrupted"
    );
    assert!(
        ledger.acknowledged() >= kills,
        "too few batches were acknowledged: {}",
        ledger.summary()
    );
}

/// Writes and queries from several threads, and kills the server under them.
fn load_until_killed(server: Server, ledger: Ledger, random: &mut Random) -> Ledger {
    let target = ledger.acknowledged() + 1 + random.below(ROUND_BATCHES_MAX);
    let pause = Duration::from_micros(random.below(3_000));
    let ledger = Mutex::new(ledger);
    let killed = traffic::Killed::default();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for writer in 0..WRITERS {
            let (server, ledger, killed) = (&server, &ledger, &killed);
            threads.push(
                scope.spawn(move || traffic::write_until_killed(server, ledger, killed, writer)),
            );
        }
        threads.push(scope.spawn(|| traffic::query_until_killed(&server, &ledger, &killed)));
        wait_for("acknowledged batches", || {
            let is_failed = threads.iter().any(thread::ScopedJoinHandle::is_finished);
            (is_failed || ledger::lock(&ledger).acknowledged() >= target).then_some(())
        });
        // The kill shall not always come right after an acknowledgement.
        let deadline = Instant::now() + pause;
        while Instant::now() < deadline {
            std::hint::spin_loop();
        }
        killed.announce();
        kill_process(server.pid(), Signal::KILL).expect("the server is running");
    });
    server.kill();
    ledger
        .into_inner()
        .expect("a thread that panics ends the test above")
}

/// `SplitMix64`: a seed gives one run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
