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

use std::fmt;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use nilometer_engine::{Engine, Error, Maintained, OnDamage, Sabotage, Snapshot};

mod acts;
mod retention;
mod typed;
mod visit;

use self::retention::Believed;
use crate::generate::closing_steps;
use crate::model::{self, Found, Model, Moment};
use crate::plan::{Act, Plan, Probe, Restart, Step};
use crate::world::{BACKUP_DIR, World, compare_aggregates, read_all, read_probe};

/// What runs added up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs.
    pub runs: u64,
    /// Times that the store was opened.
    pub opens: u64,
    /// Lives that ended by a crash at a chosen call.
    pub crashes_at_a_call: u64,
    /// Power cuts, at a chosen call or between two steps.
    pub power_cuts: u64,
    /// Processes killed, at a chosen call or between two steps.
    pub kills: u64,
    /// Disk calls that were made to fail, crashes aside.
    pub failed_calls: u64,
    /// Batches that were acknowledged.
    pub batches: u64,
    /// Batches that a failure left in doubt.
    pub in_doubt: u64,
    /// Deletes that were acknowledged.
    pub deletes: u64,
    /// Changes of tables and columns that were acknowledged.
    pub changes: u64,
    /// Typed writes that were acknowledged.
    pub typed: u64,
    /// Updates and deletes of single rows that were acknowledged.
    pub updates: u64,
    /// Typed writes and updates that were refused for a row in their way.
    pub conflicts: u64,
    /// Batches that were sent again and answered as before.
    pub repeats: u64,
    /// Compactions, settling aside.
    pub compactions: u64,
    /// Stores that were settled: flushed and compacted to the end.
    pub settles: u64,
    /// Visits while a segment was written.
    pub visits: u64,
    /// Backups that ended well.
    pub backups: u64,
    /// Backups that were restored and compared.
    pub restores: u64,
    /// Rows that retention took.
    pub expired: u64,
    /// Tables whose aggregates were compared.
    pub aggregates: u64,
    /// Hours and blocks that the store did not read for them.
    pub spared: u64,
    /// Rows compared with the model.
    pub rows_compared: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.opens += other.opens;
        self.crashes_at_a_call += other.crashes_at_a_call;
        self.power_cuts += other.power_cuts;
        self.kills += other.kills;
        self.failed_calls += other.failed_calls;
        self.batches += other.batches;
        self.in_doubt += other.in_doubt;
        self.deletes += other.deletes;
        self.changes += other.changes;
        self.typed += other.typed;
        self.updates += other.updates;
        self.conflicts += other.conflicts;
        self.repeats += other.repeats;
        self.compactions += other.compactions;
        self.settles += other.settles;
        self.visits += other.visits;
        self.backups += other.backups;
        self.restores += other.restores;
        self.expired += other.expired;
        self.aggregates += other.aggregates;
        self.spared += other.spared;
        self.rows_compared += other.rows_compared;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "runs={} opens={} power_cuts={} kills={} crashes_at_a_call={} failed_calls={} batches={} in_doubt={} \
             deletes={} changes={} typed={} updates={} conflicts={} repeats={} compactions={} settles={} visits={} backups={} restores={} expired={} aggregates={} spared={} rows_compared={}",
            self.runs,
            self.opens,
            self.power_cuts,
            self.kills,
            self.crashes_at_a_call,
            self.failed_calls,
            self.batches,
            self.in_doubt,
            self.deletes,
            self.changes,
            self.typed,
            self.updates,
            self.conflicts,
            self.repeats,
            self.compactions,
            self.settles,
            self.visits,
            self.backups,
            self.restores,
            self.expired,
            self.aggregates,
            self.spared,
            self.rows_compared
        )
    }
}

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
        world: World::new(plan.seed, options),
        model: Model::default(),
        batch_rows_max: plan.limits.batch_rows_max,
        flush_rows: plan.limits.flush_rows,
        backups: Vec::new(),
        backup_whole: false,
        believed: Believed::default(),
        held: None,
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
    believed: Believed,
    /// A snapshot, and what it must show as long as it lives.
    held: Option<(Snapshot, Moment)>,
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
        if self.world.engine().is_none() {
            // Closed, or dead since a crash: the next restart opens it.
            return Ok(());
        }
        self.world.disk().set_plan(step.faults.clone());
        let visit = match &step.visit {
            Some(visit) => self.send_visitor(visit)?,
            None => None,
        };
        self.act(&step.act)?;
        if matches!(step.act, Act::Maintain | Act::MaintainAll) {
            self.note_expired()?;
        }
        if let Some(visit) = visit {
            self.judge_visit(visit)?;
        }
        self.counts.failed_calls += self.world.disk().failures();
        self.counts.crashes_at_a_call += u64::from(self.world.disk().crashed());
        Ok(())
    }

    fn act(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::CreateDatabase(name) => self.create_database(name)?,
            Act::Write {
                database,
                lines,
                key,
            } => self.write(database, lines, *key)?,
            Act::WriteTyped {
                database,
                table,
                lines,
                on_conflict,
            } => {
                let prepared = self.prepare_write(database, table, lines, *on_conflict)?;
                self.typed(prepared)?;
            }
            Act::Update {
                database,
                table,
                which,
                lines,
            } => {
                let prepared = self.prepare_update(database, table, *which, lines)?;
                self.typed(prepared)?;
            }
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
            Act::Advance { ms, jump_ns } => self.world.advance(*ms, *jump_ns),
            Act::Compare(probe) => self.compare(Some(probe))?,
            Act::Hold => {
                let snapshot = self.engine()?.snapshot();
                self.held = Some((snapshot, self.model.moment()));
            }
            Act::Backup => self.back_up()?,
            Act::Restore => self.restore_backup()?,
            Act::Room(_) | Act::Restart(_) => {}
        }
        Ok(())
    }

    fn back_up(&mut self) -> Result<(), String> {
        let outcome = self.engine()?.backup(Path::new(BACKUP_DIR));
        if self.allow("backup", outcome)?.is_some() {
            self.backups.clear();
            self.backup_whole = true;
            self.counts.backups += 1;
        }
        // One that did not end may be whole nevertheless.
        self.backups.push(self.model.moment());
        Ok(())
    }

    fn restore_backup(&mut self) -> Result<(), String> {
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
            Err(error) => Err(format!("{what} failed without a cause: {error}")),
        }
    }

    fn restart(&mut self, how: Restart, step: &Step) -> Result<(), String> {
        if self.world.engine().is_some() {
            self.compare(None)
                .map_err(|what| format!("before the restart, {what}"))?;
        }
        self.held = None;
        self.believed.start_life();
        match how {
            Restart::PowerCut(_) => self.counts.power_cuts += 1,
            Restart::Kill => self.counts.kills += 1,
            Restart::Clean => {}
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
        let snapshot = engine.snapshot();
        let found = read_all(&snapshot)?;
        self.count_rows(&found);
        self.model
            .settle(&found, self.believed.latest_ns)
            .map_err(|what| format!("after {how:?}, {what}"))?;
        self.check_databases(&snapshot)
    }

    fn check_databases(&self, snapshot: &Snapshot) -> Result<(), String> {
        let found = snapshot.databases();
        match self
            .model
            .databases()
            .iter()
            .find(|name| !found.contains(name))
        {
            Some(missing) => Err(format!(
                "database {missing} was acknowledged and is missing"
            )),
            None => Ok(()),
        }
    }

    fn create_database(&mut self, name: &str) -> Result<(), String> {
        let outcome = self.engine()?.create_database(name);
        match self.allow("create database", outcome)? {
            Some(true) if self.model.databases().contains(name) => {
                Err(format!("database {name} was made twice"))
            }
            Some(_) => {
                self.model.acknowledge_database(name);
                Ok(())
            }
            None => Ok(()),
        }
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
        self.check_databases(&snapshot)?;
        if let Some(probe) = probe {
            self.probe(&snapshot, probe)?;
            self.compare_aggregates(&snapshot, probe)?;
        }
        if let Some((snapshot, moment)) = &self.held {
            let found = read_all(snapshot)?;
            self.model
                .check_held(moment, &found)
                .map_err(|what| format!("a held snapshot changed: {what}"))?;
        }
        Ok(())
    }

    fn probe(&self, snapshot: &Snapshot, probe: &Probe) -> Result<(), String> {
        let state = self.model.state();
        for name in state.names().filter(|name| name.1 == probe.table) {
            if let Some(found) = read_probe(snapshot, &name.0, probe)? {
                let expected = model::probed(&state.shown(name), probe);
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
        let rows = found.values().flat_map(|table| table.rows.values());
        self.counts.rows_compared += rows.map(|rows| rows.len() as u64).sum::<u64>();
    }
}
