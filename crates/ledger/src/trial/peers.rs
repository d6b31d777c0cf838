//! SIGKILL and power cuts of other databases, and of ours under the same reduced load.
//!
//! Does: what `kills.rs` does, through a driver: load, strike, start again without any repair, read everything back.
//! Does not: ask what a peer does not promise: keys, deletes, bad input, a reader at the same time.

use std::fmt::Write as _;
use std::fs::File;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};

use super::Context;
use crate::disk::Disk;
use crate::peer::content::Content;
use crate::peer::life::{Count, Life};
use crate::peer::process::{self, Process};
use crate::peer::{Peer, Site};
use crate::random::Random;

/// Strikes in one life; then another data directory is begun.
const LIFE_STRIKES: u64 = 10;
/// One start in this many is struck before it is known to be up.
const EARLY_ONE_IN: u64 = 5;
/// Room for the files that a cluster of PostgreSQL begins with and its log; our own reserve fits in, too. The image is sparse.
const DISK_MIB: u64 = 2048;
/// The first batch has a time of so long ago.
const SINCE: Duration = Duration::from_hours(24);
/// Longest wait for a disk to be let go by processes that were killed.
const UNMOUNT_MAX: Duration = Duration::from_secs(10);

/// What strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL of all its processes.
    Kill,
    /// The power of its disk is cut, then the same.
    PowerCut,
}

/// What is tried.
#[derive(Debug, Clone)]
pub struct Trial {
    /// As for every trial.
    pub context: Context,
    /// Whose driver.
    pub peer: &'static dyn Peer,
    /// What strikes.
    pub fault: Fault,
    /// Arguments for the server beside those that it needs.
    pub flags: Vec<String>,
    /// How long a load lasts at least and at most.
    pub load_ms: [u64; 2],
    /// Whether the first cut may meet files from the making of the store. Otherwise it is given the time in which a
    /// kernel writes everything by itself: the empty store is synced.
    pub is_young: bool,
}

impl Trial {
    /// A store is young only once.
    fn strikes(&self) -> u64 {
        if self.is_young { 1 } else { LIFE_STRIKES }
    }
}

/// The disk of a life; without one it is a folder.
struct Ground(Option<Disk>);

impl Ground {
    /// Strikes; `moment` is called before anything else happens.
    fn strike(
        &self,
        life: &Life,
        server: &mut Process,
        linger: Duration,
        moment: &dyn Fn(),
    ) -> Result<()> {
        match &self.0 {
            None => moment(),
            Some(disk) => {
                disk.cut(|| {
                    moment();
                    life.set_power(false);
                })?;
                // The processes live on for a moment, and their clients see errors.
                thread::sleep(linger);
            }
        }
        server.strike()
    }

    /// Makes everything durable that was written so far.
    fn age(&self) -> Result<()> {
        if let Some(disk) = &self.0 {
            rustix::fs::syncfs(File::open(disk.path())?)?;
        }
        Ok(())
    }

    /// After the processes are gone.
    fn recover(&mut self, life: &Life) -> Result<()> {
        life.set_power(true);
        let Some(disk) = &mut self.0 else {
            return Ok(());
        };
        let deadline = Instant::now() + UNMOUNT_MAX;
        while let Err(e) = disk.unmount() {
            if Instant::now() > deadline {
                return Err(e);
            }
            thread::sleep(Duration::from_millis(20));
        }
        disk.mount()
    }
}

/// Runs the trial; the inner error says why it cannot be done here.
pub fn run(trial: &Trial) -> Result<Result<Count, String>> {
    let mut count = Count::default();
    let mut early = 0;
    for number in 0.. {
        if !trial.context.goes_on(count.tally.faults) {
            break;
        }
        let folder = trial.context.folder()?;
        let (ground, data) = match trial.fault {
            Fault::Kill => (Ground(None), folder.path().join("data")),
            Fault::PowerCut => match Disk::make_with_cuts(folder.path(), DISK_MIB)? {
                Ok(disk) => {
                    let data = disk.path().join("data");
                    (Ground(Some(disk)), data)
                }
                Err(why) => return Ok(Err(why)),
            },
        };
        let output = folder.path().to_owned();
        early += life(trial, number, output, data, ground, &mut count)?;
    }
    let Count {
        unopened,
        in_part,
        oldest_lost,
        ..
    } = &count;
    let oldest_ms = oldest_lost.as_millis();
    let mut notes = String::new();
    write!(
        notes,
        " while_opening={early} unopened={unopened} in_part={in_part} oldest_lost_ms={oldest_ms}"
    )?;
    count.tally.notes = notes;
    Ok(Ok(count))
}

/// One store and its strikes. How many of them came while it opened.
fn life(
    trial: &Trial,
    number: u64,
    output: PathBuf,
    data: PathBuf,
    mut ground: Ground,
    count: &mut Count,
) -> Result<u64> {
    let (context, peer) = (&trial.context, trial.peer);
    let seed = Random::of(&[context.seed, 0x9ee7, number]).draw();
    let mut random = Random::of(&[seed]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let first_ms = i64::try_from(now.saturating_sub(SINCE).as_millis())?;
    let site = Site {
        program: context.program.clone(),
        data,
        output,
        flags: trial.flags.clone(),
    };
    let life = Life::create(peer, site, Content { seed, first_ms })?;
    let begun = Instant::now();
    let server = match process::start(peer, &life.site)? {
        Ok(server) => server,
        Err(why) => bail!("{} does not start on an empty folder: {why}", peer.name()),
    };
    let mut start_time = begun.elapsed();
    life.prepare(&server)?;
    server.stop(peer)?;
    if !trial.is_young {
        ground.age()?;
    }
    let mut early = 0;
    for strike in 0..trial.strikes() {
        if !context.goes_on(count.tally.faults) {
            break;
        }
        let label = format!("seed {} life {number} after {strike} strikes", context.seed);
        if random.one_in(EARLY_ONE_IN) {
            let moment = start_time.mul_f64(random.below(1000) as f64 / 1000.0);
            strike_early(&life, &mut ground, moment)?;
            count.tally.faults += 1;
            early += 1;
        }
        let begun = Instant::now();
        let Some(mut server) = open(&life, count, &label)? else {
            life.finish(&mut count.tally)?;
            return Ok(early);
        };
        start_time = begun.elapsed();
        life.check(&server, count, &label)?;
        life.send_again(&server, &mut count.tally)?;
        let [least, most] = trial.load_ms;
        let time = Duration::from_millis(least + random.below(most.saturating_sub(least)));
        let linger = Duration::from_millis(random.below(20));
        let part = life.load(&mut server, time, |server, moment| {
            ground.strike(&life, server, linger, moment)
        })?;
        count.tally.add(part);
        drop(server);
        ground.recover(&life)?;
        count.tally.faults += 1;
    }
    for what in ["after its last strike", "after a stop"] {
        let label = format!("life {number} {what}");
        let Some(server) = open(&life, count, &label)? else {
            break;
        };
        life.check(&server, count, &label)?;
        server.stop(peer).context(label)?;
    }
    life.finish(&mut count.tally)?;
    Ok(early)
}

/// Strikes a server that may not be up yet.
fn strike_early(life: &Life, ground: &mut Ground, moment: Duration) -> Result<()> {
    let mut process = process::spawn(life.peer, &life.site)?;
    thread::sleep(moment);
    ground.strike(life, &mut process, Duration::ZERO, &|| {})?;
    drop(process);
    ground.recover(life)
}

/// Starts a server. One that does not come up is counted; nobody repairs it.
fn open(life: &Life, count: &mut Count, label: &str) -> Result<Option<Process>> {
    match process::start(life.peer, &life.site)? {
        Ok(server) => Ok(Some(server)),
        Err(why) => {
            count.unopened += 1;
            count
                .tally
                .broke(format!("{label}: it does not start again: {why}"));
            Ok(None)
        }
    }
}
