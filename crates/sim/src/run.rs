//! One run: a plan, step by step, against the model.
//!
//! Does: decide for each answer of the store whether it was allowed, and compare what is read after every restart.
//! Does not: draw or shrink plans.
//!
//! The rules. An acknowledged batch is in every read from then on, whole and once, until a delete or a drop takes rows
//! of it; what was deleted or dropped never comes back. An operation that failed is in no read before the next restart;
//! after it, either there as a whole or not, and then for good, unless the store had refused it before touching the log:
//! then never. A batch with a key is there once, however often it is sent. Maintenance changes no answer and comes to an
//! end. A call fails only if the disk failed it, the store had said that it takes no more, or the call was wrong. Opening
//! fails only if the disk fails while it opens.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_engine::disk::CrashPlan;
use nilometer_engine::{Engine, Error, Maintained, OnDamage, Sabotage, Snapshot, Tier};

mod acts;
mod contended;
mod counts;
mod damage;
mod held;
mod in_transaction;
mod places;
mod relations;
mod retention;
mod typed;
mod visit;

pub use self::counts::Counts;
use self::held::Held;
use self::retention::Believed;
use crate::generate::closing_steps;
use crate::model::{self, Found, Model, Moment};
use crate::plan::{Act, MEMORY_BYTES, Plan, Probe, Restart, Step, Visit};
use crate::visitor::Door;
use crate::world::{BACKUP_DIR, World, compare_aggregates, read_all, read_probe};

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("step {step}: {what}")]
pub struct Failure {
    /// Position in the plan; past its end for the closing steps.
    pub step: usize,
    /// What was wrong.
    pub what: String,
}

/// A run that kept every promise.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it did.
    pub counts: Counts,
    /// Changing disk calls of each step of the plan.
    pub calls: Vec<u64>,
}

/// Runs a plan and the closing steps after it. A panic is a broken promise too.
pub fn run(plan: &Plan, sabotage: Option<Sabotage>) -> Result<Report, Failure> {
    let mut at = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| run_steps(plan, sabotage, &mut at)));
    match outcome {
        Ok(Ok(report)) => Ok(report),
        Ok(Err(what)) => Err(Failure { step: at, what }),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            let what = format!("panicked: {}", text.unwrap_or("without a text"));
            Err(Failure { step: at, what })
        }
    }
}

fn run_steps(plan: &Plan, sabotage: Option<Sabotage>, at: &mut usize) -> Result<Report, String> {
    let mut options = plan.limits.options();
    options.sabotage = sabotage;
    // No crash damages a file, so nothing may ever be found to put aside.
    options.on_damage = OnDamage::Refuse;
    let mut run = Run {
        world: World::new(plan.seed, options).with_earlier_formats(&plan.limits.earlier_formats),
        model: Model::default(),
        batch_rows_max: plan.limits.batch_rows_max,
        flush_rows: plan.limits.flush_rows,
        backups: Vec::new(),
        backup_whole: false,
        backup_spoiled: false,
        believed: Believed::default(),
        held: Vec::new(),
        damaged: None,
        has_little_memory: plan.limits.memory_bytes < MEMORY_BYTES,
        counts: Counts {
            runs: 1,
            ..Counts::default()
        },
    };
    let mut calls = Vec::new();
    for step in plan.steps.iter().chain(&closing_steps(plan.seed)) {
        run.step(step)?;
        calls.push(run.world.disk().calls());
        *at += 1;
    }
    calls.truncate(plan.steps.len());
    Ok(Report {
        counts: run.counts,
        calls,
    })
}

/// Segments have tiers from this format on.
const TIERED_FORMAT: u16 = 2;

/// Far more jobs of maintenance than any plan's rows can give.
const JOBS_MAX: u32 = 1000;

struct Run {
    world: World,
    model: Model,
    batch_rows_max: u64,
    flush_rows: u64,
    /// What the backup may hold: the last one, and those after it that did not end.
    backups: Vec<Moment>,
    /// A backup has ended well.
    backup_whole: bool,
    /// It may share a file with the store that was damaged.
    backup_spoiled: bool,
    believed: Believed,
    /// Who reads, oldest first.
    held: Vec<Held>,
    /// A segment that was damaged and that no opening has judged yet.
    damaged: Option<PathBuf>,
    /// The memory budget may refuse calls.
    has_little_memory: bool,
    counts: Counts,
}

impl Run {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        if let Act::Restart(how) = step.act {
            return self.restart(how, step);
        }
        // A disk is there whether the store is open or not.
        if let Act::Room(bytes) = step.act {
            self.world.leave_room(bytes);
            return Ok(());
        }
        if let Act::Damage(number) = step.act {
            return self.damage(number, step);
        }
        if self.world.engine().is_none() {
            // Closed, or dead since a crash: the next restart opens it.
            return Ok(());
        }
        self.world.disk().set_plan(step.faults.clone());
        if step.act.writes_itself() {
            self.contended(&step.act, step.visit.as_deref())?;
        } else {
            self.alone(&step.act, step.visit.as_deref())?;
        }
        self.counts.failed_calls += self.world.disk().failures();
        self.counts.crashes_at_a_call += u64::from(self.world.disk().crashed());
        Ok(())
    }

    /// After settling every segment is of the format of this life, and every partition of the tier that was asked for.
    fn check_settled(&mut self, tier: Tier) -> Result<(), String> {
        let written = self.world.segment_format();
        // The disk may have died when all was done.
        let Some(engine) = self.world.engine() else {
            return Ok(());
        };
        for segment in engine.snapshot().segments() {
            if segment.is_damaged {
                continue;
            }
            if segment.format < written {
                return Err(format!(
                    "a settled store has a file of format {}",
                    segment.format
                ));
            }
            let is_own = segment.partition.is_some() && segment.format >= TIERED_FORMAT;
            if is_own && segment.tier != tier {
                return Err(format!(
                    "a store settled as {tier} has a file that is {}",
                    segment.tier
                ));
            }
            self.counts.cold += u64::from(segment.tier == Tier::Cold);
        }
        Ok(())
    }

    /// A step that nobody races, though somebody may come while it writes a segment.
    fn alone(&mut self, act: &Act, visit: Option<&Visit>) -> Result<(), String> {
        let visit = match visit {
            Some(visit) => self.send_visitor(Door::Segment, visit)?,
            None => None,
        };
        self.act(act)?;
        if matches!(act, Act::Maintain | Act::MaintainAll) {
            self.note_expired()?;
        }
        match visit {
            Some(visit) => self.judge_visit(visit).map(drop),
            None => Ok(()),
        }
    }

    fn act(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::Place(change) => self.change_place(change)?,
            Act::CreateRelation {
                database,
                relation,
                shape,
            } => self.create_relation(database, relation, *shape)?,
            Act::DropRelation { database, relation } => self.drop_relation(database, relation)?,
            Act::Write {
                database,
                lines,
                key,
            } => self.write(database, lines, *key)?,
            Act::Delete { database, delete } => self.delete(database, delete)?,
            Act::Change { database, change } => self.change(database, change)?,
            Act::Flush => {
                let outcome = self.engine()?.flush();
                self.allow("flush", outcome)?;
            }
            Act::Maintain => {
                self.maintain()?;
            }
            Act::MaintainAll => self.maintain_all()?,
            Act::Settle => {
                let outcome = self.engine()?.settle();
                self.allow("settle", outcome)?;
                self.counts.settles += 1;
            }
            Act::SettleFor(tier) => {
                let outcome = self.engine()?.settle_for(Some(*tier));
                let is_done = outcome.is_ok();
                self.allow("settle", outcome)?;
                self.counts.settles += 1;
                // A disk without room, or a store that takes no more, leaves things as they are.
                if is_done && !self.world.is_tight() && !self.world.poisoned() {
                    self.check_settled(*tier)?;
                }
            }
            Act::Scrub(bytes) => self.scrub(*bytes)?,
            Act::Advance { ms, jump_ns } => self.world.advance(*ms, *jump_ns),
            Act::AcceptClock => self.accept_clock()?,
            Act::Compare(probe) => self.compare(Some(probe))?,
            Act::Hold => self.hold()?,
            Act::ReadOn(batches) => self.read_on(*batches)?,
            Act::LetGo => self.let_go()?,
            Act::Backup => self.back_up()?,
            Act::Restore => self.restore_backup()?,
            // The steps that write are contended, and the others concern the machine.
            Act::WriteTyped { .. }
            | Act::Update { .. }
            | Act::Relate(_)
            | Act::Cancel
            | Act::Damage(_)
            | Act::Room(_)
            | Act::Restart(_) => {}
        }
        Ok(())
    }

    fn back_up(&mut self) -> Result<(), String> {
        let outcome = self.engine()?.backup(Path::new(BACKUP_DIR));
        if self.allow("backup", outcome)?.is_some() {
            self.backups.clear();
            self.backup_whole = true;
            self.backup_spoiled = false;
            self.counts.backups += 1;
        }
        // One that did not end may be whole nevertheless.
        self.backups.push(self.model.moment());
        Ok(())
    }

    fn restore_backup(&mut self) -> Result<(), String> {
        if self.backup_spoiled {
            return Ok(());
        }
        let found = match self.world.restore() {
            Err(Error::NotABackup { .. }) if !self.backup_whole => return Ok(()),
            outcome => match self.allow("restore", outcome)? {
                Some(Ok(found)) => found,
                Some(Err(what)) if !self.world.disk().crashed() => return Err(what),
                _ => return Ok(()),
            },
        };
        let misfits: Vec<String> = self
            .backups
            .iter()
            .filter_map(|moment| moment.check(&found).err())
            .collect();
        if misfits.len() == self.backups.len() {
            return Err(format!("the restored backup: {}", misfits.join("; or ")));
        }
        self.counts.restores += 1;
        Ok(())
    }

    fn engine(&self) -> Result<&Arc<Engine>, String> {
        self.world
            .engine()
            .ok_or_else(|| "the store is closed".to_owned())
    }

    /// A call may fail for what the disk did to it, or because the store had stopped.
    fn allow<T>(&self, what: &str, outcome: Result<T, Error>) -> Result<Option<T>, String> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(_) if self.world.disk().crashed() || self.world.disk().failures() > 0 => Ok(None),
            Err(Error::DiskFull { .. } | Error::Io { .. }) if self.world.is_tight() => Ok(None),
            Err(Error::Poisoned { .. }) => Ok(None),
            Err(Error::Memory { .. }) if self.has_little_memory => Ok(None),
            Err(error) => Err(format!("{what} failed without a cause: {error}")),
        }
    }

    fn restart(&mut self, how: Restart, step: &Step) -> Result<(), String> {
        if self.world.engine().is_some() {
            self.compare(None)
                .map_err(|what| format!("before the restart, {what}"))?;
        }
        if how == Restart::Clean && self.is_held() && self.world.engine().is_some() {
            self.world.close();
            if !self.world.disk().crashed() && !self.world.is_locked() {
                return Err("a store that somebody still reads was opened again".to_owned());
            }
        }
        if let (Restart::Stop, Some(engine)) = (how, self.world.engine().cloned()) {
            self.world.disk().set_plan(CrashPlan::default());
            let outcome = engine.close();
            self.allow("a graceful stop", outcome)?;
        }
        self.let_all_go()?;
        self.believed.start_life();
        match how {
            Restart::PowerCut(_) => self.counts.power_cuts += 1,
            Restart::Kill => self.counts.kills += 1,
            Restart::Clean | Restart::Stop => {}
        }
        let outcome = self.world.restart(how, step.faults.clone());
        self.counts.opens += 1;
        let disk = self.world.disk();
        self.counts.failed_calls += disk.failures();
        self.counts.crashes_at_a_call += u64::from(disk.crashed());
        match outcome {
            Err(_) if disk.crashed() || disk.failures() > 0 || self.world.is_tight() => {
                return Ok(());
            }
            Err(error) => return Err(format!("the store does not open: {error}")),
            Ok(()) => {}
        }
        let Some(engine) = self.world.engine() else {
            return Ok(());
        };
        for segment in engine.snapshot().segments() {
            let count = usize::from(segment.format).checked_sub(1);
            if let Some(count) = count.and_then(|at| self.counts.earlier.get_mut(at)) {
                *count += 1;
            }
        }
        let found = read_all(&engine.snapshot())?;
        self.count_rows(&found);
        if self.is_damage_put_aside()? {
            return self.judge_damage(&found);
        }
        self.model
            .settle(&found, self.believed.latest_ns)
            .map_err(|what| format!("after {how:?}, {what}"))
    }

    /// Does one job; true = there was one.
    fn maintain(&mut self) -> Result<bool, String> {
        let Some(engine) = self.world.engine() else {
            return Ok(false);
        };
        let outcome = engine.maintain();
        let done = self.allow("maintain", outcome)?;
        self.counts.compactions += u64::from(matches!(done, Some(Maintained::Compacted { .. })));
        Ok(done.is_some_and(|done| done != Maintained::Idle))
    }

    fn maintain_all(&mut self) -> Result<(), String> {
        for _ in 0..JOBS_MAX {
            if !self.maintain()? {
                return Ok(());
            }
        }
        Err(format!("{JOBS_MAX} jobs did not end maintenance"))
    }

    fn compare(&mut self, probe: Option<&Probe>) -> Result<(), String> {
        let snapshot = match self.world.engine() {
            Some(engine) => engine.snapshot(),
            None => return Ok(()),
        };
        let found = read_all(&snapshot)?;
        self.count_rows(&found);
        self.model.check(&found)?;
        if let Some(probe) = probe {
            self.probe(&snapshot, probe)?;
            self.compare_aggregates(&snapshot, probe)?;
        }
        self.compare_held()
    }

    fn probe(&self, snapshot: &Snapshot, probe: &Probe) -> Result<(), String> {
        let state = self.model.state();
        for name in state.names().filter(|name| name.1 == probe.table) {
            let rows = state.shown(name);
            if let Some(found) = read_probe(snapshot, &name.0, probe, &rows)? {
                let expected = model::probed(&rows, probe);
                if !model::same_rows(&expected, &found) {
                    let what = model::difference(name, &expected, &found);
                    return Err(format!("{probe:?}: {what}"));
                }
            }
        }
        Ok(())
    }

    fn compare_aggregates(&mut self, snapshot: &Snapshot, probe: &Probe) -> Result<(), String> {
        let state = self.model.state();
        for name in state.names().filter(|name| state.tells_series_apart(name)) {
            let spared =
                compare_aggregates(snapshot, name, &state.shown(name), probe).map_err(|what| {
                    format!("aggregates of {}.{}, {probe:?}: {what}", name.0, name.1)
                })?;
            self.counts.aggregates += 1;
            self.counts.spared += spared;
        }
        Ok(())
    }

    fn count_rows(&mut self, found: &Found) {
        let rows = found.tables.values().flat_map(|table| table.rows.values());
        self.counts.rows_compared += rows.map(|rows| rows.len() as u64).sum::<u64>();
    }
}
