//! From a plan that fails to a short plan that fails.
//!
//! Does: drop steps, faults, visits and lines as long as some promise is still broken, within a bounded number of runs. Does
//! not: insist on the same words of the failure; a shorter plan that fails is a better report.

use nilometer_engine::Sabotage;
use nilometer_engine::disk::CrashPlan;

use crate::plan::{Act, Line, Plan, RelationStep, Step};
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
        shrinking.drop_the_rest();
        shrinking.drop_steps();
        shrinking.drop_faults();
        shrinking.drop_visits();
        shrinking.drop_lines();
        shrinking.drop_rows();
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

    /// Drops what comes after the step that failed; what every run ends with stays.
    fn drop_the_rest(&mut self) {
        let mut candidate = self.best.clone();
        candidate.steps.truncate(self.failure.step + 1);
        if candidate.steps.len() < self.best.steps.len() {
            self.keeps(candidate);
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

    /// Drops who comes in, or lets him come at the first call.
    fn drop_visits(&mut self) {
        for at in 0..self.best.steps.len() {
            for without in [true, false] {
                let mut candidate = self.best.clone();
                let Some(visit) = candidate.steps.get_mut(at).map(|step| &mut step.visit) else {
                    return;
                };
                match visit {
                    Some(_) if without => *visit = None,
                    Some(visit) if visit.call > 1 => visit.call = 1,
                    _ => continue,
                }
                self.keeps(candidate);
            }
        }
    }

    fn drop_lines(&mut self) {
        for at in 0..self.best.steps.len() {
            for of_visit in [false, true] {
                self.drop_from(at, |step| lines_of(step.act_mut(of_visit)?));
            }
        }
    }

    /// Drops steps and rows of changes of relations.
    fn drop_rows(&mut self) {
        for at in 0..self.best.steps.len() {
            for of_visit in [false, true] {
                self.drop_from(at, |step| steps_of(step.act_mut(of_visit)?));
                let steps = self.best.steps.get_mut(at);
                let steps = steps.and_then(|step| steps_of(step.act_mut(of_visit)?));
                for nth in 0..steps.map_or(0, |steps| steps.len()) {
                    self.drop_from(at, |step| {
                        let steps = steps_of(step.act_mut(of_visit)?)?;
                        steps.get_mut(nth).map(RelationStep::rows_mut)
                    });
                }
            }
        }
    }

    /// Drops runs of what a step has, long ones first.
    fn drop_from<T>(&mut self, at: usize, of: impl Fn(&mut Step) -> Option<&mut Vec<T>>) {
        let count = |plan: &mut Plan| {
            let step = plan.steps.get_mut(at);
            step.and_then(&of).map_or(0, |all| all.len())
        };
        let mut length = count(&mut self.best).div_ceil(2);
        while length > 0 {
            let mut end = count(&mut self.best);
            while end > 0 {
                let from = end.saturating_sub(length);
                let mut candidate = self.best.clone();
                if let Some(all) = candidate.steps.get_mut(at).and_then(&of) {
                    let to = end.min(all.len());
                    all.drain(from.min(to)..to);
                }
                self.keeps(candidate);
                end = from;
            }
            length /= 2;
        }
    }
}

fn lines_of(act: &mut Act) -> Option<&mut Vec<Line>> {
    match act {
        Act::Write { lines, .. } | Act::WriteTyped { lines, .. } | Act::Update { lines, .. } => {
            Some(lines)
        }
        Act::Relate(relate) => Some(&mut relate.lines),
        _ => None,
    }
}

fn steps_of(act: &mut Act) -> Option<&mut Vec<RelationStep>> {
    match act {
        Act::Relate(relate) => Some(&mut relate.steps),
        _ => None,
    }
}
