//! From a plan that fails to a short plan that fails.
//!
//! Does: drop steps as long as some promise is still broken, within a bounded number of runs. Does not: change a step, so
//! that a seed and the numbers of its steps say which plan it is; or insist on the same words of the failure.

use nilometer_service::Sabotage;

use crate::plan::Plan;
use crate::run::{Failure, run};

/// Runs that shrinking may take.
const RUNS_MAX: u32 = 400;

/// The shortest failing plan found, with its failure.
pub fn shrink(plan: &Plan, failure: Failure, sabotage: Option<Sabotage>) -> (Plan, Failure) {
    let (mut best, mut failure) = (plan.clone(), failure);
    let mut runs = 0;
    let mut length = best.steps.len();
    // What comes after the step that failed first, then runs of steps, long ones first.
    let mut candidate = best.clone();
    candidate.steps.truncate(failure.step + 1);
    if let Err(other) = run(&candidate, sabotage) {
        (best, failure) = (candidate, other);
    }
    while length > 0 && runs < RUNS_MAX {
        let before = best.steps.len();
        let mut at = best.steps.len();
        while at > 0 && runs < RUNS_MAX {
            let from = at.saturating_sub(length);
            let mut candidate = best.clone();
            candidate.steps.drain(from..at.min(candidate.steps.len()));
            runs += 1;
            if let Err(other) = run(&candidate, sabotage) {
                (best, failure) = (candidate, other);
            }
            at = from;
        }
        if length > 1 || best.steps.len() == before {
            length /= 2;
        }
    }
    while runs < RUNS_MAX {
        let Some(found) = without_two(&best, sabotage, &mut runs) else {
            break;
        };
        (best, failure) = found;
    }
    (best, failure)
}

/// Two steps may need each other and nobody else: one makes room for what the other takes.
fn without_two(plan: &Plan, sabotage: Option<Sabotage>, runs: &mut u32) -> Option<(Plan, Failure)> {
    for first in 0..plan.steps.len() {
        for second in first + 1..plan.steps.len() {
            if *runs >= RUNS_MAX {
                return None;
            }
            *runs += 1;
            let mut candidate = plan.clone();
            candidate.steps.remove(second);
            candidate.steps.remove(first);
            if let Err(failure) = run(&candidate, sabotage) {
                return Some((candidate, failure));
            }
        }
    }
    None
}
