//! From a plan that fails to a short plan that fails.
//!
//! Does: drop steps, faults and lines as long as some promise is still broken, within a bounded number of runs. Does
//! not: insist on the same words of the failure; a shorter plan that fails is a better report.

use nilometer_engine::Sabotage;
use nilometer_engine::disk::CrashPlan;

use crate::plan::{Act, Plan};
use crate::run::{Failure, run};

/// Runs that shrinking may take.
const RUNS_MAX: u32 = 600;

/// The shortest failing plan found, with its failure.
pub fn shrink(plan: &Plan, failure: Failure, sabotage: Option<Sabotage>) -> (Plan, Failure) {
    let mut shrinking = Shrinking {
        best: plan.clone(),
        failure,
        sabotage,
        runs: 0,
    };
    loop {
        let before = shrinking.best.clone();
        shrinking.drop_steps();
        shrinking.drop_faults();
        shrinking.drop_lines();
        if shrinking.best == before || shrinking.runs >= RUNS_MAX {
            return (shrinking.best, shrinking.failure);
        }
    }
}

struct Shrinking {
    best: Plan,
    failure: Failure,
    sabotage: Option<Sabotage>,
    runs: u32,
}

impl Shrinking {
    /// Keeps the candidate if it fails too.
    fn keeps(&mut self, candidate: Plan) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        self.runs += 1;
        match run(&candidate, self.sabotage) {
            Ok(_) => false,
            Err(failure) => {
                self.best = candidate;
                self.failure = failure;
                true
            }
        }
    }

    /// Drops runs of steps, long ones first.
    fn drop_steps(&mut self) {
        let mut length = self.best.steps.len().div_ceil(2);
        while length > 0 {
            let mut at = self.best.steps.len();
            while at > 0 {
                let from = at.saturating_sub(length);
                let mut candidate = self.best.clone();
                candidate.steps.drain(from..at.min(self.best.steps.len()));
                self.keeps(candidate);
                at = from;
            }
            length /= 2;
        }
    }

    fn drop_faults(&mut self) {
        for at in 0..self.best.steps.len() {
            let Some(step) = self.best.steps.get(at) else {
                return;
            };
            let faults = step.faults.clone();
            let mut without = vec![
                CrashPlan::default(),
                faults.clone(),
                faults.clone(),
                faults.clone(),
                faults,
            ];
            if let [_, crash, syncs, writes, short] = without.as_mut_slice() {
                crash.crash_at = None;
                syncs.fail_sync_at.clear();
                writes.fail_write_at.clear();
                short.short_write_every = 0;
            }
            for faults in without {
                let mut candidate = self.best.clone();
                let Some(step) = candidate.steps.get_mut(at) else {
                    return;
                };
                if step.faults != faults {
                    step.faults = faults;
                    self.keeps(candidate);
                }
            }
        }
    }

    fn drop_lines(&mut self) {
        for at in 0..self.best.steps.len() {
            let mut length = self.lines(at).div_ceil(2);
            while length > 0 {
                let mut end = self.lines(at);
                while end > 0 {
                    let from = end.saturating_sub(length);
                    let mut candidate = self.best.clone();
                    if let Some(
                        Act::Write { lines, .. }
                        | Act::WriteTyped { lines, .. }
                        | Act::Update { lines, .. },
                    ) = candidate.steps.get_mut(at).map(|step| &mut step.act)
                    {
                        lines.drain(from..end.min(lines.len()));
                    }
                    self.keeps(candidate);
                    end = from;
                }
                length /= 2;
            }
        }
    }

    fn lines(&self, at: usize) -> usize {
        match self.best.steps.get(at).map(|step| &step.act) {
            Some(
                Act::Write { lines, .. }
                | Act::WriteTyped { lines, .. }
                | Act::Update { lines, .. },
            ) => lines.len(),
            _ => 0,
        }
    }
}
