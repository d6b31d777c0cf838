//! The guarded clock of retention: a leap of the system's clock removes nothing.
//!
//! Does: compare the wall clock with the time that must have passed. Does not: delete anything (`engine/maintain/expire.rs`
//! does) or read a clock: everything here is given.
//!
//! A wall clock that jumps a year ahead would make every row old, so retention believes no time later than the latest
//! one it has believed, plus what the monotonic clock counted since, plus a day. That mark is kept in the manifest.
//! When the wall clock says more, retention pauses until the clock is right again or somebody says that it is: after
//! a machine was off for a week, both look the same from here.

const DAY_NS: i64 = 86_400_000_000_000;
const MS_NS: i64 = 1_000_000;
/// A mark in the manifest that is older than this is worth an edit: if it got a day behind, an ordinary restart would
/// look like a jump.
const PERSIST_AFTER_NS: i64 = DAY_NS / 24;

/// What retention takes the time to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetentionTime {
    /// This, in nanoseconds since 1970.
    Believed(i64),
    /// The wall clock is further ahead than time can have passed: nothing is removed until it is right or accepted.
    Paused {
        /// What the wall clock says.
        wall: i64,
        /// The latest time that could be believed.
        believed: i64,
    },
}

/// The guarded clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RetentionClock {
    /// The latest time believed; 0 = none yet.
    mark_ns: i64,
    /// What the monotonic clock said then.
    mark_ms: u64,
    /// The mark that the manifest has.
    persisted_ns: i64,
}

impl RetentionClock {
    /// A clock that goes on from the manifest's mark; 0 = retention never ran, so the first time is believed.
    pub(crate) fn new(persisted_ns: i64, monotonic_ms: u64) -> Self {
        Self {
            mark_ns: persisted_ns,
            mark_ms: monotonic_ms,
            persisted_ns,
        }
    }

    /// What the time is. Moves the mark when it is believed and later; a clock that jumps back just makes fewer rows
    /// old.
    pub(crate) fn look(&mut self, wall_ns: i64, monotonic_ms: u64) -> RetentionTime {
        let latest = self.latest(monotonic_ms);
        if self.mark_ns != 0 && wall_ns > latest {
            return RetentionTime::Paused {
                wall: wall_ns,
                believed: latest,
            };
        }
        self.believe(wall_ns, monotonic_ms);
        RetentionTime::Believed(wall_ns)
    }

    /// Takes the wall clock's word: the command of somebody who looked at it.
    pub(crate) fn accept(&mut self, wall_ns: i64, monotonic_ms: u64) {
        self.believe(wall_ns, monotonic_ms);
    }

    /// The mark, if the manifest's is so old that the next edit should carry it.
    pub(crate) fn unpersisted(&self) -> Option<i64> {
        let behind = self.mark_ns.saturating_sub(self.persisted_ns);
        (behind >= PERSIST_AFTER_NS || (self.persisted_ns == 0 && self.mark_ns != 0))
            .then_some(self.mark_ns)
    }

    /// Notes that the manifest has this mark now.
    pub(crate) fn persisted(&mut self, mark_ns: i64) {
        self.persisted_ns = self.persisted_ns.max(mark_ns);
    }

    fn latest(&self, monotonic_ms: u64) -> i64 {
        let passed_ms = monotonic_ms.saturating_sub(self.mark_ms);
        let passed = i64::try_from(passed_ms).map_or(i64::MAX, |ms| ms.saturating_mul(MS_NS));
        self.mark_ns.saturating_add(passed).saturating_add(DAY_NS)
    }

    fn believe(&mut self, wall_ns: i64, monotonic_ms: u64) {
        if wall_ns > self.mark_ns || self.mark_ns == 0 {
            self.mark_ns = wall_ns;
            self.mark_ms = monotonic_ms;
        }
    }
}

/// Rows before this time are older than `retention_ns`. What is kept for less than no time is kept for none.
pub(crate) fn cutoff(now_ns: i64, retention_ns: i64) -> i64 {
    now_ns.saturating_sub(retention_ns.max(0))
}

/// When retention looked last, and what it takes the time to be.
#[derive(Debug)]
pub(crate) struct Retention {
    pub(crate) clock: RetentionClock,
    /// Monotonic milliseconds; `None` = not yet.
    pub(crate) looked_ms: Option<u64>,
    pub(crate) time: Option<RetentionTime>,
    /// Monotonic milliseconds of the first look that was not believed, if the last was not either.
    pub(crate) paused_ms: Option<u64>,
}

impl Retention {
    pub(crate) fn new(persisted_ns: i64, monotonic_ms: u64) -> Self {
        Self {
            clock: RetentionClock::new(persisted_ns, monotonic_ms),
            looked_ms: None,
            time: None,
            paused_ms: None,
        }
    }

    pub(crate) fn note(&mut self, time: RetentionTime, monotonic_ms: u64) {
        self.time = Some(time);
        match time {
            RetentionTime::Believed(_) => self.paused_ms = None,
            RetentionTime::Paused { .. } => {
                self.paused_ms.get_or_insert(monotonic_ms);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RetentionTime::{Believed, Paused};

    const HOUR_MS: u64 = 3_600_000;
    const HOUR_NS: i64 = DAY_NS / 24;
    /// 2026-01-01.
    const START: i64 = 1_767_225_600_000_000_000;

    #[test]
    fn time_that_passes_is_believed_and_a_jump_ahead_pauses_until_accepted() {
        let mut clock = RetentionClock::new(START, 0);
        for hours in 0..100 {
            let wall = START + hours * HOUR_NS;
            assert_eq!(clock.look(wall, hours as u64 * HOUR_MS), Believed(wall));
        }
        let (ms, at) = (99 * HOUR_MS, START + 99 * HOUR_NS);
        assert_eq!(
            clock.look(at + DAY_NS, ms),
            Believed(at + DAY_NS),
            "a day is leeway"
        );

        let at = at + DAY_NS;
        let far = at + 365 * DAY_NS;
        let believed = at + DAY_NS;
        assert_eq!(
            clock.look(far, ms),
            Paused {
                wall: far,
                believed
            }
        );
        // A mistake that is corrected ends by itself, one that is not does not.
        let later = Paused {
            wall: far + HOUR_NS,
            believed: believed + HOUR_NS,
        };
        assert_eq!(clock.look(far + HOUR_NS, ms + HOUR_MS), later);
        assert_eq!(
            clock.look(at + HOUR_NS, ms + HOUR_MS),
            Believed(at + HOUR_NS)
        );
        clock.accept(far, ms + HOUR_MS);
        assert_eq!(clock.look(far, ms + HOUR_MS), Believed(far));
    }

    #[test]
    fn a_jump_back_is_believed_and_does_not_lower_the_mark() {
        let mut clock = RetentionClock::new(START, 0);
        assert_eq!(
            clock.look(START - 50 * DAY_NS, 5),
            Believed(START - 50 * DAY_NS)
        );
        assert_eq!(clock.mark_ns, START);
        assert_eq!(clock.look(START + HOUR_NS, 6), Believed(START + HOUR_NS));
        assert_eq!(clock.look(-1, 7), Believed(-1));
    }

    #[test]
    fn a_machine_that_was_off_for_long_pauses_and_a_store_without_a_mark_does_not() {
        let mut clock = RetentionClock::new(START, 77);
        let week = START + 7 * DAY_NS;
        let paused = Paused {
            wall: week,
            believed: START + DAY_NS,
        };
        assert_eq!(clock.look(week, 77), paused);
        assert_eq!(clock.mark_ns, START, "what is not believed leaves no mark");
        let mut fresh = RetentionClock::new(0, 77);
        assert_eq!(fresh.look(week, 77), Believed(week));
        assert!(matches!(fresh.look(week + 2 * DAY_NS, 77), Paused { .. }));
    }

    #[test]
    fn the_mark_is_persisted_at_first_and_then_hourly() {
        let mut clock = RetentionClock::new(0, 0);
        assert_eq!(clock.unpersisted(), None);
        clock.look(START, 0);
        assert_eq!(clock.unpersisted(), Some(START));
        clock.persisted(START);
        clock.look(START + HOUR_NS - 1, HOUR_MS);
        assert_eq!(clock.unpersisted(), None);
        clock.look(START + HOUR_NS, HOUR_MS);
        assert_eq!(clock.unpersisted(), Some(START + HOUR_NS));
    }

    #[test]
    fn the_ends_of_time_overflow_nothing() {
        for mark in [i64::MIN, -1, 0, 1, i64::MAX] {
            for wall in [i64::MIN, -1, 0, 1, i64::MAX] {
                for ms in [0, 1, u64::MAX] {
                    let mut clock = RetentionClock::new(mark, 0);
                    clock.look(wall, ms);
                    clock.unpersisted();
                    clock.accept(wall, ms);
                    for retention in [i64::MIN, -1, 0, 1, i64::MAX] {
                        assert!(cutoff(wall, retention) <= wall);
                    }
                }
            }
        }
    }
}
