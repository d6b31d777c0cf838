//! SIGKILL, and power cuts: of a server under load, and of one that is just opening its store.
//!
//! Does: load a server with writes, deletes, queries and bad input while it flushes and compacts, strike, start it again,
//! read everything back; in some lives in a store that an earlier version wrote, whose files it rewrites meanwhile.
//! Does not: choose the moment by what the server does; `syscalls.rs` does.

mod frozen;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Signal, kill_process};

use self::frozen::Frozen;
use super::{Context, Outcome, busy_flags};
use crate::batch::read_csv;
use crate::disk::{Disk, run};
use crate::ledger::When;
use crate::life::Life;
use crate::load::{Round, until_struck};
use crate::random::Random;
use crate::server::{DB, Server, Start};
use crate::tally::Tally;

/// Strikes in one life; then another data directory is begun, so that reading everything back stays quick.
const LIFE_STRIKES: u64 = 20;
/// A round ends after this many acknowledged batches at most.
const ROUND_BATCHES_MAX: u64 = 40;
/// Rows of a batch, about.
const ROWS_MEAN: u64 = 40;
/// One start in this many is struck before it is known to be up.
const EARLY_ONE_IN: u64 = 5;
const EARLY_US_MAX: u64 = 40_000;
/// One life in so many begins in a store that an earlier version wrote.
const FROZEN_ONE_IN: u64 = 3;
/// Before one strike in so many a table says when it is cold.
const COOL_ONE_IN: u64 = 3;
/// Strikes after which there must have been files of every kind.
const ALL_KINDS: u64 = 2 * LIFE_STRIKES;
/// The format of segments that is written.
const SEGMENT_FORMAT: u64 = 4;
/// The image of a disk whose power is cut. A life writes a few megabytes.
const DISK_MIB: u64 = 256;

/// Where a life takes place, and so how it is struck.
#[derive(Debug)]
enum Ground {
    /// A folder: the process is killed.
    Folder(PathBuf),
    /// A disk of our own: its power is cut, then the process is killed.
    Disk(Disk),
}

impl Ground {
    fn data(&self) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.join("data"),
            Self::Disk(disk) => disk.path().join("data"),
        }
    }

    /// Flags that fit the ground: the default reserve is made for larger disks.
    fn flags(&self) -> Vec<String> {
        match self {
            Self::Folder(_) => Vec::new(),
            Self::Disk(_) => vec!["--disk-reserve-bytes".to_owned(), "1048576".to_owned()],
        }
    }

    /// Before the process is killed; `moment` is called before anything else happens.
    fn strike(&self, life: &Life, moment: &dyn Fn()) -> Result<()> {
        match self {
            Self::Folder(_) => {
                moment();
                Ok(())
            }
            Self::Disk(disk) => disk.cut(|| {
                moment();
                life.set_power(false);
            }),
        }
    }

    /// After the process is gone.
    fn recover(&mut self, life: &Life) -> Result<()> {
        life.set_power(true);
        match self {
            Self::Folder(_) => Ok(()),
            Self::Disk(disk) => {
                disk.unmount()?;
                disk.mount()
            }
        }
    }
}

/// Kills the server.
pub fn kills(context: &Context) -> Result<Outcome> {
    let mut tally = Tally::default();
    let mut sights = Seen::default();
    for number in 0.. {
        if !context.goes_on(tally.faults) {
            break;
        }
        let folder = context.folder()?;
        let mut ground = Ground::Folder(folder.path().to_owned());
        life(
            context,
            number,
            folder.path(),
            &mut ground,
            &mut tally,
            &mut sights,
        )?;
    }
    sights.note(&mut tally);
    Ok(Outcome::Ran(tally))
}

/// Cuts the power of the server's disk.
pub fn power_cuts(context: &Context) -> Result<Outcome> {
    let mut tally = Tally::default();
    let mut sights = Seen::default();
    for number in 0.. {
        if !context.goes_on(tally.faults) {
            break;
        }
        let folder = context.folder()?;
        let disk = match Disk::make_with_cuts(folder.path(), DISK_MIB)? {
            Ok(disk) => disk,
            Err(why) => return Ok(Outcome::Skipped(why)),
        };
        let mut ground = Ground::Disk(disk);
        life(
            context,
            number,
            folder.path(),
            &mut ground,
            &mut tally,
            &mut sights,
        )?;
    }
    sights.note(&mut tally);
    match a_lying_disk_is_noticed(context) {
        Ok(None) => write!(tally.notes, " lying_disk=refused")?,
        Ok(Some(points)) if points > 0 => {
            write!(tally.notes, " lost_on_a_lying_disk={points}")?;
        }
        Ok(Some(_)) => tally.broke(
            "no sync reached a disk whose power was cut, and nothing was missing".to_owned(),
        ),
        Err(e) => write!(tally.notes, " lying_disk=skipped({e:#})")?,
    }
    Ok(Outcome::Ran(tally))
}

/// The trial tries itself: under a server whose every sync does nothing, though it says it did, a cut must cost
/// acknowledged points. How many it cost; `None` = the store itself knows that some are missing, because the mark beside
/// its log got to the disk and the log did not. An error says why it could not be tried.
fn a_lying_disk_is_noticed(context: &Context) -> Result<Option<u64>> {
    let folder = context.folder()?;
    let disk = Disk::make_with_cuts(folder.path(), DISK_MIB)?.map_err(anyhow::Error::msg)?;
    let mut ground = Ground::Disk(disk);
    let data = ground.data();
    let life = Life::create(
        &context.program,
        folder.path(),
        data,
        context.seed,
        ROWS_MEAN,
        ground.flags(),
    )?;
    let server = life.launch.start_up()?;
    life.prepare(&server)?;
    server.stop()?;
    let lies = [
        "-o",
        "/dev/null",
        "--seccomp-bpf",
        "-e",
        "trace=fdatasync,fsync",
        "-e",
        "inject=fdatasync,fsync:retval=0",
    ];
    let server = life
        .launch
        .under_strace(&lies.map(str::to_owned))
        .start_up()?;
    let round = Round {
        seed: context.seed,
        batches: ROUND_BATCHES_MAX,
        pause_us: 0,
    };
    let pid = server.pid();
    until_struck(&life, &server, round, |moment| {
        ground.strike(&life, moment)?;
        Ok(kill_process(pid, Signal::KILL)?)
    })?;
    server.kill()?;
    ground.recover(&life)?;
    let server = match life.launch.start()? {
        Start::Up(server) => server,
        Start::Ended(ended) if ended.stderr.contains("was durable") => return Ok(None),
        Start::Ended(ended) => bail!("{}: {}", ended.status, ended.stderr),
    };
    let mut tally = Tally::default();
    life.check(&server, When::Settled, &mut tally, "a lying disk")?;
    server.kill()?;
    Ok(Some(tally.missing))
}

/// What servers were seen to do, so that a trial that interrupts nothing does not pass for one that does.
#[derive(Debug, Default)]
struct Seen {
    segments_max: f64,
    partitions_max: f64,
    early: u64,
    /// Files of cold partitions, and of an earlier format, whenever a server was looked at.
    cold: u64,
    earlier: u64,
}

impl Seen {
    fn look(&mut self, server: &Server) -> Result<()> {
        self.segments_max = self.segments_max.max(server.metric("nilometer_segments")?);
        self.partitions_max = self
            .partitions_max
            .max(server.metric("nilometer_partitions")?);
        for file in files(server)? {
            self.cold += u64::from(file.is_cold);
            self.earlier += u64::from(file.format < SEGMENT_FORMAT);
        }
        Ok(())
    }

    fn note(&self, tally: &mut Tally) {
        if tally.faults >= LIFE_STRIKES && (self.segments_max < 1.0 || self.partitions_max < 1.0) {
            tally.broke(format!(
                "no flush or no compaction was ever interrupted: {self:?}"
            ));
        }
        if tally.faults >= ALL_KINDS && self.cold == 0 {
            tally.broke("no partition was ever cold".to_owned());
        }
        if tally.faults >= ALL_KINDS && self.earlier == 0 && Frozen::are_here() {
            tally.broke("no file of an earlier format was ever there".to_owned());
        }
        tally.notes = format!(
            " while_opening={} segments_max={} partitions_max={} cold={} earlier={}",
            self.early, self.segments_max, self.partitions_max, self.cold, self.earlier
        );
    }
}

/// A segment, as the server tells.
struct File {
    is_cold: bool,
    format: u64,
}

fn files(server: &Server) -> Result<Vec<File>> {
    let answer = server
        .client()
        .sql(DB, "SELECT tier, format FROM system.segments")?;
    if answer.status != 200 {
        bail!("segments: {}: {:.300}", answer.status, answer.text());
    }
    let records = read_csv(&answer.text()).into_iter().skip(1);
    let file = |cells: Vec<String>| -> Result<File> {
        let [tier, format] = cells.as_slice() else {
            bail!("a segment is {cells:?}");
        };
        Ok(File {
            is_cold: tier == "cold",
            format: format.parse()?,
        })
    };
    records.map(file).collect()
}

fn life(
    context: &Context,
    number: u64,
    folder: &Path,
    ground: &mut Ground,
    tally: &mut Tally,
    sights: &mut Seen,
) -> Result<()> {
    let seed = Random::of(&[context.seed, 0x11fe, number]).draw();
    let mut random = Random::of(&[seed]);
    let mut flags = busy_flags(&mut random);
    flags.extend(ground.flags());
    let frozen = if number.is_multiple_of(FROZEN_ONE_IN) {
        Frozen::copied(&ground.data(), &mut random)?
    } else {
        None
    };
    let mut life = Life::create(
        &context.program,
        folder,
        ground.data(),
        seed,
        ROWS_MEAN,
        flags.clone(),
    )?;
    // Of a store that an earlier version wrote nothing was left to strike at: all was written anew before the first strike.
    let mut settles_from = 0;
    if frozen.is_some() {
        settles_from = 1 + random.below(LIFE_STRIKES);
        life.launch.flags = unsettled(&flags);
    }
    let server = life.launch.start_up()?;
    life.prepare(&server)?;
    Life::look_at(&server.kill()?, tally, "the first server");
    for strike in 0..LIFE_STRIKES {
        if !context.goes_on(tally.faults) {
            break;
        }
        if strike == settles_from {
            life.launch.flags.clone_from(&flags);
        }
        let label = format!("seed {} life {number} after {strike} strikes", context.seed);
        if random.one_in(EARLY_ONE_IN) {
            strike_early(&life, ground, tally, &label, &mut random)?;
            sights.early += 1;
        }
        let Some(server) = open(&life, tally, &label) else {
            break;
        };
        life.check(&server, When::Settled, tally, &label)?;
        if let Some(frozen) = &frozen {
            frozen.check(&server, tally, &label)?;
        }
        sights.look(&server)?;
        if random.one_in(COOL_ONE_IN) {
            life.cool(&mut server.client(), &mut random)?;
        }
        life.send_again(&mut server.client(), tally, &mut random)?;
        let round = Round {
            seed: random.draw(),
            batches: 1 + random.below(ROUND_BATCHES_MAX),
            pause_us: 3000,
        };
        strike_under_load(&life, ground, (server, round), tally, &label, &mut random)?;
    }
    last_check(&life, frozen.as_ref(), tally, number)
}

/// Strikes while a server opens the store, or soon after.
fn strike_early(
    life: &Life,
    ground: &mut Ground,
    tally: &mut Tally,
    label: &str,
    random: &mut Random,
) -> Result<()> {
    let process = life.launch.spawn()?;
    thread::sleep(Duration::from_micros(random.below(EARLY_US_MAX)));
    ground.strike(life, &|| {})?;
    Life::look_at(&process.kill()?, tally, label);
    ground.recover(life)?;
    tally.faults += 1;
    Ok(())
}

/// Strikes amid requests.
fn strike_under_load(
    life: &Life,
    ground: &mut Ground,
    (server, round): (Server, Round),
    tally: &mut Tally,
    label: &str,
    random: &mut Random,
) -> Result<()> {
    let pid = server.pid();
    let part = until_struck(life, &server, round, |moment| {
        ground.strike(life, moment)?;
        // A cut leaves the process alive, and its clients want to see errors for a moment.
        if matches!(ground, Ground::Disk(_)) {
            thread::sleep(Duration::from_millis(random.below(20)));
        }
        Ok(kill_process(pid, Signal::KILL)?)
    })?;
    tally.add(part);
    Life::look_at(&server.kill()?, tally, label);
    ground.recover(life)?;
    tally.faults += 1;
    Ok(())
}

/// The same flags for a server that leaves files of an earlier format as they are, unless new ones are merged with them.
fn unsettled(flags: &[String]) -> Vec<String> {
    let mut flags = flags.to_vec();
    let value = flags.iter().position(|flag| flag == "--settle-ms");
    if let Some(value) = value.and_then(|at| flags.get_mut(at + 1)) {
        "0".clone_into(value);
    }
    flags
}

/// After the last strike, and after a stop that nothing interrupts, everything is still there, and every checksum holds.
fn last_check(life: &Life, frozen: Option<&Frozen>, tally: &mut Tally, number: u64) -> Result<()> {
    let label = format!("life {number} after its last strike");
    if let Some(server) = open(life, tally, &label) {
        life.check(&server, When::Settled, tally, &label)?;
        Life::look_at(&server.stop()?, tally, &label);
    }
    let label = format!("life {number} after a stop");
    let program = &life.launch.program;
    let checked = run(std::process::Command::new(program)
        .arg("check")
        .arg("--data")
        .arg(&life.launch.data));
    if let Err(why) = checked {
        tally.broke(format!("{label}: nilometer check: {why}"));
    }
    let tier = ["hot", "cold"].get(usize::try_from(number % 3).unwrap_or(0));
    let mut settle = std::process::Command::new(program);
    settle.arg("settle").arg("--data").arg(&life.launch.data);
    if let Some(tier) = tier {
        settle.args(["--tier", *tier]);
    }
    if let Err(why) = run(&mut settle) {
        tally.broke(format!("{label}: nilometer settle: {why}"));
    }
    let label = format!("life {number} after settling for {tier:?}");
    if let Some(server) = open(life, tally, &label) {
        life.check(&server, When::Settled, tally, &label)?;
        if let Some(frozen) = frozen {
            frozen.check(&server, tally, &label)?;
        }
        // A flush since it was settled writes the newest format, too.
        let files = files(&server)?;
        if let Some(file) = files.iter().find(|it| it.format != SEGMENT_FORMAT) {
            tally.broke(format!("{label}: a file of format {}", file.format));
        }
        Life::look_at(&server.kill()?, tally, &label);
    }
    life.finish(tally).context(label)
}

/// Starts a server; one that does not come up is a broken promise.
fn open(life: &Life, tally: &mut Tally, label: &str) -> Option<Server> {
    match life.launch.start_up() {
        Ok(server) => Some(server),
        Err(e) => {
            tally.broke(format!("{label}: {e:#}"));
            None
        }
    }
}
