//! Opening a store with replay workers on the other processors; the engine starts no threads.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use nilometer_engine::disk::RealDisk;
use nilometer_engine::{Engine, Error as EngineError, Options, ReplayWorkers, SystemClock};

/// More would wait for the thread that applies what they decode.
const THREADS_MAX: usize = 3;

/// Opens the store in `dir`, or starts one if the folder is empty or absent. While its log is replayed, threads decode
/// ahead; they have ended when this returns.
pub fn open_store(dir: &Path, options: Options) -> Result<Engine, EngineError> {
    let others = thread::available_parallelism().map_or(0, |all| all.get() - 1);
    let lent = ReplayWorkers::default();
    thread::scope(|scope| {
        for _ in 0..others.min(THREADS_MAX) {
            let name = "opening".to_owned();
            // A machine that has no thread to spare opens the store with this one.
            drop(
                thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, || lent.work()),
            );
        }
        let (disk, clock) = (Arc::new(RealDisk), Arc::new(SystemClock));
        Engine::open_with(disk, clock, dir, options, &lent)
    })
}
