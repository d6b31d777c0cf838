//! Acquisition times through lives that end badly: what was said to be complete stays as it was.
//!
//! Does: draw a plan from a seed, in which writers with stamps, questions for what is complete and the snapshots after them stand
//! between each other, clocks are set back, syncs fail and the machine stops at a chosen call; run it against the store and a list
//! of what was answered; shrink what fails. One seed is one run. Does not: speak the protocol (`crates/surfaces/tstorage` tests do),
//! or run threads: a write that takes its stamps in one step and stores its rows in a later one passes others as threads would.
//!
//! The promises, after every look and in every later life:
//! - what is complete never goes back, and no stamp is below it;
//! - below a time that was said to be complete there are the records that were there first, no more and no fewer;
//! - what was acknowledged is there.

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use nilometer_engine::disk::{CrashPlan, Disk, FaultyDisk};
use nilometer_engine::ingest::Session;
use nilometer_engine::{
    Clock, ColumnKind, Duplicates, Engine, NewColumn, Options, PhysicalType, ScanRequest, Snapshot,
    TableSettings,
};
use nilometer_lineproto::Precision;
use nilometer_service::{AcquisitionBug, Acquisitions, Error, Stamps};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SECOND_NS: i64 = 1_000_000_000;
/// When a plan begins.
const START_NS: i64 = 1_000 * SECOND_NS;
/// Runs that shrinking may take.
const RUNS_MAX: usize = 400;

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A writer takes stamps for so many records.
    Begin(usize),
    /// One of those on their way stores its rows.
    Store(usize),
    /// One of them gives up before it has begun to store.
    GiveUp(usize),
    /// Somebody asks what is complete.
    Ask,
    /// One of those who asked takes a snapshot and reads.
    Look(usize),
    /// The head becomes a segment.
    Flush,
    /// The clock moves, or is set back.
    Clock(i64),
    /// The n-th sync from now on fails.
    FailSync(u64),
    /// The power goes at the n-th call from now on.
    CrashAt(u64),
    /// The store is closed and opened.
    Close,
    /// The process is killed.
    Kill,
    /// The power goes now.
    PowerCut,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What it was drawn from, and what decides which unsynced bytes survive.
    pub seed: u64,
    /// In their order.
    pub steps: Vec<Step>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "{at:4} {step:?}")?;
        }
        Ok(())
    }
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The step after which it showed.
    pub step: usize,
    /// What was promised, and what is.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after step {}: {}", self.step, self.what)
    }
}

/// What runs did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Writes that were acknowledged.
    pub stored: usize,
    /// Answers that were looked at again, each time counted.
    pub compared: usize,
    /// Answers that had to leave out records of a write that was on its way.
    pub cut_short: usize,
    /// Lives that ended by a kill, a power cut or a failed sync.
    pub bad_ends: usize,
    /// Writes that failed and left records behind, which a later life found.
    pub came_back: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.stored += other.stored;
        self.compared += other.compared;
        self.cut_short += other.cut_short;
        self.bad_ends += other.bad_ends;
        self.came_back += other.came_back;
    }
}

/// The plan of a seed.
pub fn random_plan(seed: u64) -> Plan {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xAC_0000);
    let count = random.random_range(20..70);
    let mut steps = Vec::with_capacity(count);
    for _ in 0..count {
        steps.push(match random.random_range(0..100_u32) {
            0..22 => Step::Begin(*pick(&mut random, &[1, 1, 2, 5])),
            22..42 => Step::Store(random.random_range(0..4)),
            42..45 => Step::GiveUp(random.random_range(0..4)),
            45..58 => Step::Ask,
            58..72 => Step::Look(random.random_range(0..3)),
            72..77 => Step::Flush,
            77..87 => {
                let seconds = *pick(&mut random, &[0, 1, 3, 12, 60, -1, -12, -3_600]);
                Step::Clock(seconds * SECOND_NS + random.random_range(0..3))
            }
            87..90 => Step::FailSync(random.random_range(1..8)),
            90..93 => Step::CrashAt(random.random_range(1..30)),
            93..95 => Step::Close,
            95..98 => Step::Kill,
            _ => Step::PowerCut,
        });
    }
    Plan { seed, steps }
}

fn pick<'a, T>(random: &mut Xoshiro256PlusPlus, from: &'a [T]) -> &'a T {
    let at = random.random_range(0..from.len());
    from.get(at).expect("it is below their number")
}

/// Runs a plan.
pub fn run(plan: &Plan, bug: Option<AcquisitionBug>) -> Result<Counts, Failure> {
    let mut run = Run::new(plan.seed, bug).map_err(|what| Failure { step: 0, what })?;
    let last = [Step::Kill, Step::Close];
    for (at, step) in plan.steps.iter().chain(&last).enumerate() {
        run.step(step).map_err(|what| Failure { step: at, what })?;
    }
    Ok(run.counts)
}

/// A shorter plan that fails, with its failure: steps go as long as some promise is still broken.
pub fn shrink(plan: &Plan, failure: Failure, bug: Option<AcquisitionBug>) -> (Plan, Failure) {
    let (mut best, mut failure) = (plan.clone(), failure);
    best.steps.truncate(failure.step + 1);
    let mut runs = 0;
    let mut width = best.steps.len().max(1);
    while width > 0 && runs < RUNS_MAX {
        let mut at = 0;
        let mut is_shorter = false;
        while at < best.steps.len() && runs < RUNS_MAX {
            let mut shorter = best.clone();
            let end = (at + width).min(shorter.steps.len());
            shorter.steps.drain(at..end);
            runs += 1;
            match run(&shorter, bug) {
                Err(broken) => {
                    (best, failure) = (shorter, broken);
                    is_shorter = true;
                }
                Ok(_) => at += width,
            }
        }
        if !is_shorter || width > 1 {
            width /= 2;
        }
    }
    (best, failure)
}

/// A clock that only the plan moves.
#[derive(Debug)]
struct PlanClock(AtomicI64);

impl Clock for PlanClock {
    fn now_ns(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn monotonic_ms(&self) -> u64 {
        0
    }
}

/// What somebody was told, and saw.
struct Answer {
    below: i64,
    /// Stamps of the records.
    records: BTreeSet<i64>,
}

/// The store of one life.
struct Life {
    engine: Arc<Engine>,
    acquisitions: Arc<Acquisitions>,
    session: Session,
    on_their_way: Vec<Stamps>,
    /// What those were told who have not looked yet.
    asked: Vec<i64>,
}

struct Run {
    seed: u64,
    bug: Option<AcquisitionBug>,
    disk: FaultyDisk,
    clock: Arc<PlanClock>,
    /// Taken while a life ends.
    life: Option<Life>,
    lives: u64,
    answers: Vec<Answer>,
    /// The latest time that was said to be complete.
    complete: i64,
    acknowledged: BTreeSet<i64>,
    failed: BTreeSet<i64>,
    counts: Counts,
}

impl Run {
    fn new(seed: u64, bug: Option<AcquisitionBug>) -> Result<Self, String> {
        let mut run = Self {
            seed,
            bug,
            disk: FaultyDisk::new(seed, CrashPlan::default()),
            clock: Arc::new(PlanClock(AtomicI64::new(START_NS))),
            life: None,
            lives: 0,
            answers: Vec::new(),
            complete: i64::MIN,
            acknowledged: BTreeSet::new(),
            failed: BTreeSet::new(),
            counts: Counts::default(),
        };
        run.open()?;
        let engine = &run.life()?.engine;
        let made = engine.create_database("d").and_then(|_| {
            let acq = NewColumn {
                name: "acq",
                kind: ColumnKind::Field(PhysicalType::I64),
            };
            let settings = TableSettings {
                duplicates: Duplicates::Keep,
                ..TableSettings::default()
            };
            engine.create_table("d", "public", "records", &[acq], settings)
        });
        made.map_err(|error| error.to_string())?;
        run.life()?.session = session(&run.life()?.engine)?;
        Ok(run)
    }

    fn open(&mut self) -> Result<(), String> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let options = Options {
            flush_idle_ms: 0,
            ..Options::default()
        };
        let engine = Engine::open(disk, clock, Path::new("/data"), options);
        let engine = Arc::new(engine.map_err(|error| format!("it does not open: {error}"))?);
        self.life = Some(Life {
            acquisitions: Acquisitions::with_bug(Arc::clone(&engine), self.bug),
            session: session(&engine)?,
            engine,
            on_their_way: Vec::new(),
            asked: Vec::new(),
        });
        Ok(())
    }

    fn life(&mut self) -> Result<&mut Life, String> {
        self.life
            .as_mut()
            .ok_or_else(|| "no store is open".to_owned())
    }

    /// Whether something failed in this life that was told to.
    fn is_hurt(&self) -> bool {
        self.disk.failures() > 0 || self.disk.crashed()
    }

    /// What may fail only where something was told to; `None` = it did.
    fn allow<T>(&self, done: Result<T, Error>, what: &str) -> Result<Option<T>, String> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(_) if self.is_hurt() => Ok(None),
            Err(error) => Err(format!("{what} failed for no reason: {error}")),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Begin(records) => self.begin(*records),
            Step::Store(nth) => self.store(*nth),
            Step::GiveUp(nth) => {
                let on_their_way = &mut self.life()?.on_their_way;
                if !on_their_way.is_empty() {
                    on_their_way.remove(nth % on_their_way.len());
                }
                Ok(())
            }
            Step::Ask => {
                let complete = self.life()?.acquisitions.complete();
                let Some(complete) = self.allow(complete, "to ask what is complete")? else {
                    return Ok(());
                };
                if complete < self.complete {
                    let was = self.complete;
                    return Err(format!("complete up to {was} went back to {complete}"));
                }
                self.complete = complete;
                self.life()?.asked.push(complete);
                Ok(())
            }
            Step::Look(nth) => self.look(*nth),
            Step::Flush => {
                let flushed = self.life()?.engine.flush();
                self.allow(flushed.map_err(Error::Engine), "a flush")?;
                Ok(())
            }
            Step::Clock(ns) => {
                self.clock.0.fetch_add(*ns, Ordering::Relaxed);
                Ok(())
            }
            Step::FailSync(calls) => {
                // The n-th sync is somewhere among these calls; one that failed poisons the store.
                let calls = *calls..*calls + 3;
                self.plan_faults(CrashPlan {
                    fail_sync_at: calls.collect(),
                    ..CrashPlan::default()
                });
                Ok(())
            }
            Step::CrashAt(calls) => {
                self.plan_faults(CrashPlan {
                    crash_at: Some(*calls),
                    ..CrashPlan::default()
                });
                Ok(())
            }
            Step::Close => {
                let is_hurt = self.is_hurt();
                let life = self.life()?;
                // Whoever was writing has gone.
                life.on_their_way.clear();
                let acquisitions = life.acquisitions.close();
                let engine = life.engine.close().map_err(Error::Engine);
                self.allow(acquisitions, "to close acquisition times")?;
                self.allow(engine, "to close the store")?;
                let after = if self.disk.crashed() {
                    self.disk.after_power_cut(self.seed, CrashPlan::default())
                } else {
                    self.disk.after_kill(CrashPlan::default())
                };
                self.counts.bad_ends += usize::from(is_hurt);
                self.next_life(after)
            }
            Step::Kill => {
                let after = if self.disk.crashed() {
                    self.disk.after_power_cut(self.seed, CrashPlan::default())
                } else {
                    self.disk.after_kill(CrashPlan::default())
                };
                self.counts.bad_ends += 1;
                self.next_life(after)
            }
            Step::PowerCut => {
                let seed = self.seed.wrapping_add(self.lives);
                let after = self.disk.after_power_cut(seed, CrashPlan::default());
                self.counts.bad_ends += 1;
                self.next_life(after)
            }
        }
    }

    /// Faults, unless there were some in this life: counting anew would make them forgotten.
    fn plan_faults(&self, plan: CrashPlan) {
        if !self.is_hurt() {
            self.disk.set_plan(plan);
        }
    }

    fn begin(&mut self, records: usize) -> Result<(), String> {
        let begun = self.life()?.acquisitions.begin(records);
        let Some(stamps) = self.allow(begun, "to take stamps")? else {
            return Ok(());
        };
        if stamps.first < self.complete {
            let (first, complete) = (stamps.first, self.complete);
            return Err(format!(
                "stamped {first}, below {complete} which was complete"
            ));
        }
        let used = self.acknowledged.iter().chain(&self.failed);
        if let Some(twice) = used
            .filter(|it| (stamps.first..=stamps.last).contains(it))
            .min()
        {
            return Err(format!("stamped {twice} twice"));
        }
        self.life()?.on_their_way.push(stamps);
        Ok(())
    }

    fn store(&mut self, nth: usize) -> Result<(), String> {
        let life = self.life()?;
        if life.on_their_way.is_empty() {
            return Ok(());
        }
        let stamps = life.on_their_way.remove(nth % life.on_their_way.len());
        let own: Vec<i64> = (stamps.first..=stamps.last).collect();
        let mut lines = String::new();
        for stamp in &own {
            writeln!(lines, "records acq={stamp}i {stamp}").map_err(|error| error.to_string())?;
        }
        let session = &mut life.session;
        let stored = stamps.store(|| {
            let written = session.write_lines(lines.as_bytes(), Precision::Nanosecond);
            written.map_err(Error::Engine)
        });
        if self.allow(stored, "a write")?.is_some() {
            self.acknowledged.extend(own);
            self.counts.stored += 1;
        } else {
            self.failed.extend(own);
        }
        Ok(())
    }

    /// Reads as somebody who has asked before.
    fn look(&mut self, nth: usize) -> Result<(), String> {
        let life = self.life()?;
        if life.asked.is_empty() {
            return Ok(());
        }
        let below = life.asked.remove(nth % life.asked.len());
        let found = match records(&life.engine.snapshot()) {
            Ok(found) => found,
            // A machine that has stopped reads nothing; whoever asked has no answer.
            Err(_) if self.disk.crashed() => return Ok(()),
            Err(what) => return Err(what),
        };
        let records: BTreeSet<i64> = found.range(..below).copied().collect();
        self.counts.cut_short += usize::from(records.len() < found.len());
        self.answers.push(Answer { below, records });
        self.check(&found)
    }

    /// Every answer that was given is given again.
    fn check(&mut self, found: &BTreeSet<i64>) -> Result<(), String> {
        for answer in &self.answers {
            let again: BTreeSet<i64> = found.range(..answer.below).copied().collect();
            self.counts.compared += 1;
            if again != answer.records {
                let more: Vec<_> = again.difference(&answer.records).collect();
                let fewer: Vec<_> = answer.records.difference(&again).collect();
                return Err(format!(
                    "below {} there are {more:?} that were not there, and {fewer:?} are gone",
                    answer.below
                ));
            }
        }
        if let Some(lost) = self.acknowledged.difference(found).next() {
            return Err(format!("{lost} was acknowledged and is not there"));
        }
        Ok(())
    }

    fn next_life(&mut self, disk: FaultyDisk) -> Result<(), String> {
        self.life = None;
        self.disk = disk;
        self.lives += 1;
        self.open()?;
        let found = records(&self.life()?.engine.snapshot())?;
        let back = self.failed.intersection(&found).count();
        self.counts.came_back += back;
        // From now on they are records as any others.
        let known: BTreeSet<i64> = self.failed.intersection(&found).copied().collect();
        self.acknowledged.extend(known);
        self.check(&found)
    }
}

fn session(engine: &Arc<Engine>) -> Result<Session, String> {
    // Before the first plan has made the database there is none to write to.
    if engine.snapshot().schemas("d").is_none() {
        engine
            .create_database("d")
            .map_err(|error| error.to_string())?;
    }
    Session::new(Arc::clone(engine), "d").map_err(|error| error.to_string())
}

/// The stamps of all records; each is there once.
fn records(snapshot: &Snapshot) -> Result<BTreeSet<i64>, String> {
    let mut stamps = BTreeSet::new();
    let Some(table) = snapshot.table("d", "public", "records") else {
        return Ok(stamps);
    };
    let at = table.arrow_schema().index_of("acq");
    let request = ScanRequest {
        projection: vec![at.map_err(|error| error.to_string())?],
        time: i64::MIN..=i64::MAX,
        tags: Vec::new(),
        limit: None,
        table,
    };
    let scan = snapshot.scan(&request).map_err(|error| error.to_string())?;
    for batch in (0..scan.morsels()).flat_map(|morsel| scan.read(morsel)) {
        let batch = batch.map_err(|error| error.to_string())?;
        for stamp in batch.column(0).as_primitive::<Int64Type>() {
            match stamp {
                Some(stamp) if stamps.insert(stamp) => {}
                other => return Err(format!("a record with {other:?}, or there twice")),
            }
        }
    }
    Ok(stamps)
}
