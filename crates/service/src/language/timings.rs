//! Times of the steps of a statement, and how much it read.
//!
//! Does: add up what languages and surfaces measure by the clock of the service, for who shows it. Does not: measure, or decide
//! how it is shown.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::executor::Executor;

/// A step of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedStep {
    /// Waiting for a turn.
    Turn,
    /// From text to a statement.
    Parse,
    /// From a statement to a query that can run.
    Plan,
    /// Waiting for rows, whatever is done for them: by the clock, and not by the thread.
    Read,
    /// Of a series query: finding series, segments and blocks.
    Prune,
    /// Of a series query: reading rows, and what is stored of them; on all threads together.
    Decode,
    /// Of a series query: what becomes of rows; on all threads together.
    Operate,
    /// Writing rows in the form of an answer.
    Encode,
}

impl TimedStep {
    /// All steps, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Turn,
        Self::Parse,
        Self::Plan,
        Self::Read,
        Self::Prune,
        Self::Decode,
        Self::Operate,
        Self::Encode,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Parse => "parse",
            Self::Plan => "plan",
            Self::Read => "read",
            Self::Prune => "prune",
            Self::Decode => "decode",
            Self::Operate => "operate",
            Self::Encode => "encode",
        }
    }
}

/// Rows and blocks that were read, and those that statistics and rollups stood for or ruled out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimedReads {
    /// Rows that were looked at.
    pub rows: u64,
    /// Rows that were not, because what is stored of them says enough.
    pub rows_skipped: u64,
    /// Blocks that were decoded.
    pub blocks: u64,
    /// Blocks that were not, because of what is stored of them.
    pub blocks_skipped: u64,
}

impl TimedReads {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.rows_skipped += other.rows_skipped;
        self.blocks += other.blocks;
        self.blocks_skipped += other.blocks_skipped;
    }
}

#[derive(Debug, Default)]
struct Spent {
    /// By step; `None` = it was not met.
    steps: [Option<Duration>; TimedStep::ALL.len()],
    /// `None` = nobody has counted.
    reads: Option<TimedReads>,
}

/// Where the time of a statement goes. Shared by all who work on it.
#[derive(Debug)]
pub struct Timings {
    executor: Arc<dyn Executor>,
    start: Instant,
    spent: Mutex<Spent>,
}

impl Timings {
    /// Of a statement that begins now, by the clock of an executor.
    pub fn start(executor: &Arc<dyn Executor>) -> Arc<Self> {
        Arc::new(Self {
            start: executor.now(),
            executor: Arc::clone(executor),
            spent: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Spent> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long ago the start was.
    pub fn now(&self) -> Duration {
        self.executor.now().saturating_duration_since(self.start)
    }

    /// Adds time to a step.
    pub fn add(&self, step: TimedStep, time: Duration) {
        if let Some(known) = self.lock().steps.get_mut(step as usize) {
            *known = Some(known.unwrap_or_default() + time);
        }
    }

    /// Adds what was read.
    pub fn add_reads(&self, reads: &TimedReads) {
        self.lock().reads.get_or_insert_default().add(reads);
    }

    /// The time of a step so far.
    pub fn spent(&self, step: TimedStep) -> Duration {
        let known = self.lock().steps.get(step as usize).copied().flatten();
        known.unwrap_or_default()
    }

    /// The steps that were met, and their times so far.
    pub fn steps(&self) -> Vec<(TimedStep, Duration)> {
        let spent = self.lock();
        let steps = TimedStep::ALL.into_iter().zip(spent.steps);
        steps
            .filter_map(|(step, time)| Some((step, time?)))
            .collect()
    }

    /// What was read so far; `None` = nobody has counted.
    pub fn reads(&self) -> Option<TimedReads> {
        self.lock().reads
    }
}

/// Steps that follow one another on one thread.
#[derive(Debug)]
pub struct Laps {
    timings: Arc<Timings>,
    since: Duration,
}

impl Laps {
    /// From now on.
    pub fn of(timings: &Arc<Timings>) -> Self {
        Self {
            since: timings.now(),
            timings: Arc::clone(timings),
        }
    }

    /// Where the times go.
    pub fn timings(&self) -> &Arc<Timings> {
        &self.timings
    }

    /// Leaves out the time since the last step.
    pub fn leave_out(&mut self) {
        self.since = self.timings.now();
    }

    /// Ends a step: it has the time since the last one.
    pub fn end(&mut self, step: TimedStep) {
        self.end_without(step, Duration::ZERO);
    }

    /// The same without time that others have counted as theirs.
    pub fn end_without(&mut self, step: TimedStep, others: Duration) {
        let now = self.timings.now();
        let took = now.saturating_sub(self.since).saturating_sub(others);
        self.since = now;
        self.timings.add(step, took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Threads;

    #[test]
    fn steps_that_were_met_are_added_up_in_their_order() {
        let timings = Timings::start(&Threads::of_caller());
        let ms = Duration::from_millis;
        assert!(timings.steps().is_empty());
        timings.add(TimedStep::Encode, ms(3));
        timings.add(TimedStep::Parse, ms(1));
        timings.add(TimedStep::Encode, ms(4));
        timings.add(TimedStep::Prune, Duration::ZERO);
        let expected = [
            (TimedStep::Parse, ms(1)),
            (TimedStep::Prune, Duration::ZERO),
            (TimedStep::Encode, ms(7)),
        ];
        assert_eq!(timings.steps(), expected);
        assert_eq!(timings.reads(), None);
        let reads = TimedReads {
            rows: 5,
            rows_skipped: 70,
            blocks: 1,
            blocks_skipped: 2,
        };
        timings.add_reads(&reads);
        timings.add_reads(&reads);
        let rows = timings.reads().map(|it| (it.rows, it.rows_skipped));
        assert_eq!(rows, Some((10, 140)));
    }
}
