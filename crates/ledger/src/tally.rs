//! The figures of a trial, and the line that they are printed in.
//!
//! Does: add figures up, print them. Does not: judge; a figure that must be zero is in [`Tally::is_clean`].

use std::fmt;
use std::time::Duration;

use crate::ledger::Verdict;

/// Stories that are kept of a trial; a store that is broken breaks in many places.
const STORIES_MAX: usize = 20;

/// What a trial has seen.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    /// Faults that came about: kills, cuts, errors, fills, mutations.
    pub faults: u64,
    /// Requests that were wrong on purpose.
    pub bad_inputs: u64,
    /// Points in batches that were acknowledged.
    pub acked: u64,
    /// Points that were acknowledged and are not there.
    pub missing: u64,
    /// Points that are there twice.
    pub duplicated: u64,
    /// Points that nobody wrote like this, or that ought to be gone.
    pub altered: u64,
    /// Other promises that were broken: a panic, a hang, a store that does not open, an answer with a wrong status.
    pub broken: u64,
    /// Time under load.
    pub load: Duration,
    /// How often everything was read back.
    pub checks: u64,
    /// A sentence for each thing that is not zero.
    pub stories: Vec<String>,
    /// Figures of this kind of trial only, as ` name=value`.
    pub notes: String,
}

impl Tally {
    /// Adds what a comparison has found.
    pub fn take(&mut self, verdict: Verdict, when: &str) {
        self.checks += 1;
        self.missing += verdict.missing;
        self.duplicated += verdict.duplicated;
        self.altered += verdict.altered;
        for story in verdict.stories {
            self.tell(format!("{when}: {story}"));
        }
    }

    /// Counts a promise that is not about points.
    pub fn broke(&mut self, story: String) {
        self.broken += 1;
        self.tell(story);
    }

    fn tell(&mut self, story: String) {
        if self.stories.len() < STORIES_MAX {
            self.stories.push(story);
        }
    }

    /// Adds another trial, or a part of this one.
    pub fn add(&mut self, other: Self) {
        self.faults += other.faults;
        self.bad_inputs += other.bad_inputs;
        self.acked += other.acked;
        self.missing += other.missing;
        self.duplicated += other.duplicated;
        self.altered += other.altered;
        self.broken += other.broken;
        self.load += other.load;
        self.checks += other.checks;
        for story in other.stories {
            self.tell(story);
        }
    }

    /// Whether everything that must be zero is.
    pub fn is_clean(&self) -> bool {
        self.missing + self.duplicated + self.altered + self.broken == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.acked as f64 / self.load.as_secs_f64().max(1e-3);
        let Self {
            faults,
            bad_inputs,
            acked,
            missing,
            duplicated,
            altered,
            broken,
            checks,
            notes,
            ..
        } = self;
        write!(
            f,
            "held={held:.0} points/s faults={faults} bad_inputs={bad_inputs} acked={acked} missing={missing} \
             duplicated={duplicated} altered={altered} broken={broken} checks={checks}{notes}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_every_figure_and_is_clean_only_with_zeros() {
        let mut tally = Tally {
            faults: 3,
            bad_inputs: 4,
            acked: 5000,
            load: Duration::from_secs(2),
            checks: 6,
            notes: " kills=3".to_owned(),
            ..Tally::default()
        };
        assert!(tally.is_clean());
        assert_eq!(
            tally.to_string(),
            "held=2500 points/s faults=3 bad_inputs=4 acked=5000 missing=0 duplicated=0 altered=0 broken=0 checks=6 \
             kills=3"
        );
        tally.broke("a panic".to_owned());
        assert!(!tally.is_clean());
        let verdict = Verdict {
            missing: 7,
            ..Verdict::default()
        };
        let mut sum = Tally::default();
        sum.take(verdict, "after");
        sum.add(tally);
        assert_eq!((sum.missing, sum.broken, sum.acked), (7, 1, 5000));
    }
}
