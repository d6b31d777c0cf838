//! The trials: each brings one kind of fault over the real server, again and again.
//!
//! Does: hold what all of them need. Does not: share a data directory between two lives.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::random::Random;
use crate::tally::Tally;

pub mod answers;
pub mod full_disk;
pub mod hostile;
pub mod kills;
pub mod mutations;
pub mod peers;
pub mod syscalls;

/// What every trial is given.
#[derive(Debug, Clone)]
pub struct Context {
    /// The program under trial.
    pub program: PathBuf,
    /// Where folders for data and journals are made.
    pub scratch: PathBuf,
    /// What everything random follows from.
    pub seed: u64,
    /// No new fault begins after this.
    pub until: Instant,
    /// How many faults at most.
    pub faults: u64,
}

/// What became of a trial.
#[derive(Debug)]
pub enum Outcome {
    /// Its figures.
    Ran(Tally),
    /// Why it cannot be done here, in one line.
    Skipped(String),
}

impl Context {
    /// A folder that goes when it is dropped.
    pub fn folder(&self) -> Result<TempDir> {
        let folder = tempfile::Builder::new()
            .prefix("nilometer-ledger-")
            .tempdir_in(&self.scratch);
        folder.with_context(|| self.scratch.display().to_string())
    }

    /// Whether another fault may begin.
    pub fn goes_on(&self, faults: u64) -> bool {
        faults < self.faults && Instant::now() < self.until
    }
}

/// Flags under which a small load flushes, compacts and recycles its log all the time; which, varies.
pub(crate) fn busy_flags(random: &mut Random) -> Vec<String> {
    let mut flags = Vec::new();
    let mut flag = |name: &str, value: u64| flags.extend([format!("--{name}"), value.to_string()]);
    flag("flush-rows", *random.pick(&[120, 400, 2000]));
    flag("flush-idle-ms", *random.pick(&[5, 50]));
    flag("flush-idle-rows-min", 1);
    flag("compaction-fan-in", *random.pick(&[2, 3]));
    flag("partition-rows-min", *random.pick(&[100, 1000]));
    flag("widen-rows-max", *random.pick(&[1000, 20_000]));
    flag("settle-ms", *random.pick(&[1, 20]));
    flag(
        "log-bytes-max",
        *random.pick(&[256 << 10, 2 << 20, 256 << 20]),
    );
    flags.extend(crate::bad_input::FLAGS.map(str::to_owned));
    flags
}
