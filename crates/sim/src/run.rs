//! One run: a plan, step by step, against the model.
//!
//! Does: decide for each answer of the store whether it was allowed, and compare what is read after every restart.
//! Does not: draw or shrink plans.
//!
//! The rules. An acknowledged batch is in every read from then on, whole and once. A batch whose write failed is in no
//! read before the next restart; after it, either there or not, and then for good, unless the store had refused it
//! before touching the log: then never. A call fails only if the disk failed it, or the store had said that it takes
//! no more. Opening fails only if the disk fails while it opens.

use std::fmt;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nilometer_engine::{Engine, Error, Sabotage, Snapshot};

use crate::generate::closing_steps;
use crate::model::{self, Model, Prediction, Rows};
use crate::plan::{Act, Line, Plan, Probe, Restart, Step, spell};
use crate::world::{World, read_all, read_probe};

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
        self.rows_compared += other.rows_compared;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "runs={} opens={} power_cuts={} kills={} crashes_at_a_call={} failed_calls={} batches={} in_doubt={} \
             rows_compared={}",
            self.runs,
            self.opens,
            self.power_cuts,
            self.kills,
            self.crashes_at_a_call,
            self.failed_calls,
            self.batches,
            self.in_doubt,
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
    let mut run = Run {
        world: World::new(plan.seed, options),
        model: Model::default(),
        batch_rows_max: plan.limits.batch_rows_max,
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

struct Run {
    world: World,
    model: Model,
    batch_rows_max: u64,
    /// A snapshot, and the rows that it must show as long as it lives.
    held: Option<(Snapshot, Rows)>,
    counts: Counts,
}

impl Run {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        if let Act::Restart(how) = step.act {
            return self.restart(how, step);
        }
        if self.world.engine().is_none() {
            // Closed, or dead since a crash: the next restart opens it.
            return Ok(());
        }
        self.world.disk().set_plan(step.faults.clone());
        match &step.act {
            Act::CreateDatabase(name) => self.create_database(name)?,
            Act::Write { database, lines } => self.write(database, lines)?,
            Act::Flush => {
                let outcome = self.engine()?.flush();
                self.allow("flush", outcome)?;
            }
            Act::Maintain => {
                let outcome = self.engine()?.maintain();
                self.allow("maintain", outcome)?;
            }
            Act::Advance { ms, jump_ns } => self.world.advance(*ms, *jump_ns),
            Act::Compare(probe) => self.compare(Some(probe))?,
            Act::Hold => {
                let snapshot = self.engine()?.snapshot();
                self.held = Some((snapshot, self.model.rows().clone()));
            }
            Act::Restart(_) => {}
        }
        self.counts.failed_calls += self.world.disk().failures();
        self.counts.crashes_at_a_call += u64::from(self.world.disk().crashed());
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
            Err(_) if disk.crashed() || disk.failures() > 0 => return Ok(()),
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
            .settle(&found)
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

    fn write(&mut self, database: &str, lines: &[Line]) -> Result<(), String> {
        let known = self.engine()?.snapshot().databases();
        if !known.iter().any(|name| name == database) {
            return self.write_nowhere(database);
        }
        let types = self.world.types(database);
        let prediction = model::predict(database, lines, types, self.world.now_ns());
        let stopped = self.world.poisoned();
        let outcome = self.world.write(database, &spell(lines));
        let rows = prediction.batch.rows();
        let too_large = rows > self.batch_rows_max;
        match outcome {
            Ok(_) if too_large => Err(format!("a batch of {rows} rows passed the limit")),
            Ok(_) if stopped && rows > 0 => {
                Err("a write was acknowledged after the store had stopped".to_owned())
            }
            Ok(report) => {
                check_report(&report, &prediction)?;
                self.model.acknowledge(&prediction.batch);
                self.counts.batches += u64::from(rows > 0);
                Ok(())
            }
            Err(Error::Limit { .. }) if too_large => Ok(()),
            Err(Error::Poisoned { .. }) if stopped => Ok(()),
            Err(error) if stopped => Err(format!("a stopped store answered {error}")),
            Err(error) => {
                self.allow::<()>("write", Err(error))?;
                // A store that goes on had not touched the log for this batch.
                if self.world.disk().crashed() || self.world.poisoned() {
                    self.model.doubt(prediction.batch);
                    self.counts.in_doubt += 1;
                }
                Ok(())
            }
        }
    }

    fn write_nowhere(&mut self, database: &str) -> Result<(), String> {
        match self.world.write(database, "cpu busy=1 1\n") {
            Err(Error::UnknownDatabase { .. }) => Ok(()),
            other => Err(format!(
                "database {database} does not exist, yet: {other:?}"
            )),
        }
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
        }
        if let Some((snapshot, rows)) = &self.held {
            let found = read_all(snapshot)?;
            if *rows != found {
                let what = model::difference(rows, &found);
                return Err(format!("a held snapshot changed: {what}"));
            }
        }
        Ok(())
    }

    fn probe(&self, snapshot: &Snapshot, probe: &Probe) -> Result<(), String> {
        for ((database, table), rows) in self.model.rows() {
            if *table != probe.table {
                continue;
            }
            if let Some(found) = read_probe(snapshot, database, probe)? {
                let name = (database.clone(), table.clone());
                let expected = Rows::from([(name.clone(), model::probed(rows, probe))]);
                let found = Rows::from([(name, found)]);
                if expected != found {
                    let what = model::difference(&expected, &found);
                    return Err(format!("{probe:?}: {what}"));
                }
            }
        }
        Ok(())
    }

    fn count_rows(&mut self, found: &Rows) {
        let rows: usize = found.values().map(std::collections::BTreeMap::len).sum();
        self.counts.rows_compared += rows as u64;
    }
}

fn check_report(
    report: &nilometer_engine::ingest::WriteReport,
    prediction: &Prediction,
) -> Result<(), String> {
    let rejected: Vec<usize> = report
        .rejected
        .iter()
        .map(|line| line.line_number)
        .collect();
    let shown: Vec<usize> = prediction
        .rejected
        .iter()
        .copied()
        .take(nilometer_engine::ingest::REJECTED_SHOWN_MAX)
        .collect();
    let wanted = (prediction.batch.rows(), prediction.rejected.len() as u64);
    if (report.rows, report.rejected_total) != wanted || rejected != shown {
        return Err(format!(
            "{} rows and lines {shown:?} refused were expected, but {} rows were kept and lines {rejected:?} refused",
            wanted.0, report.rows
        ));
    }
    Ok(())
}
