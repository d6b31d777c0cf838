//! Times of jobs: lengths of time with months, and when a job is due again.
//!
//! Does: calculate. Does not: read a clock.

use chrono::{DateTime, Months};

/// Of the schedule's interval: a job that fails again and again waits no longer than so many.
const INTERVALS_MAX: i64 = 5;
/// A wait is doubled at most so often.
const DOUBLINGS_MAX: i64 = 20;

/// A length of time by the calendar: months, whose lengths differ, and nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Whole months.
    pub months: i32,
    /// What is beside these.
    pub ns: i64,
}

impl Span {
    /// Of nanoseconds alone.
    pub fn of_ns(ns: i64) -> Self {
        Self { months: 0, ns }
    }

    /// Whether it is longer than nothing.
    pub fn is_positive(self) -> bool {
        self.months >= 0 && self.ns >= 0 && (self.months > 0 || self.ns > 0)
    }

    /// The time that is so long before another; the first that there is, where the calendar ends before it.
    pub fn before(self, time_ns: i64) -> i64 {
        self.moved(time_ns, false)
    }

    /// The time that is so long after another.
    pub fn after(self, time_ns: i64) -> i64 {
        self.moved(time_ns, true)
    }

    fn moved(self, time_ns: i64, forward: bool) -> i64 {
        let is_forward = (self.months >= 0) == forward;
        let months = Months::new(self.months.unsigned_abs());
        let time = DateTime::from_timestamp_nanos(time_ns);
        let time = if is_forward {
            time.checked_add_months(months)
        } else {
            time.checked_sub_months(months)
        };
        let end = if is_forward { i64::MAX } else { i64::MIN };
        let moved = time.and_then(|time| time.timestamp_nanos_opt());
        let Some(moved) = moved else {
            return end;
        };
        if forward {
            moved.saturating_add(self.ns)
        } else {
            moved.saturating_sub(self.ns)
        }
    }
}

/// When a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobSchedule {
    /// From the end of a run to the start of the next, or from start to start where the first is set.
    pub interval: Span,
    /// The first start, from which the others are counted; `None` = at once, and then from the end of each.
    pub initial_ns: Option<i64>,
    /// A run that takes longer is ended, in nanoseconds; 0 = it may take as long as it takes.
    pub runtime_ns_max: i64,
    /// Failures one after the other after which it stops to run; -1 = it goes on.
    pub retries_max: i64,
    /// Wait after the first failure, in nanoseconds; it doubles with each other.
    pub retry_ns: i64,
    /// It runs by itself.
    pub is_on: bool,
}

impl JobSchedule {
    /// Every so often, as jobs of `TimescaleDB` are made.
    pub fn every(interval: Span) -> Self {
        Self {
            interval,
            initial_ns: None,
            runtime_ns_max: 0,
            retries_max: -1,
            retry_ns: 5 * 60 * 1_000_000_000,
            is_on: true,
        }
    }

    /// The next start after a run that ended well.
    pub(super) fn next_after(&self, finished_ns: i64) -> i64 {
        let Some(first_ns) = self.initial_ns else {
            return self.interval.after(finished_ns);
        };
        if finished_ns < first_ns {
            return first_ns;
        }
        if self.interval.months == 0 {
            let step = self.interval.ns.max(1);
            let passed = finished_ns.saturating_sub(first_ns) / step + 1;
            return first_ns.saturating_add(passed.saturating_mul(step));
        }
        // Months are counted from the first start, so that its day of the month stays.
        let month_ns = 28 * 86_400_000_000_000_i64;
        let at_least = i64::from(self.interval.months)
            .max(1)
            .saturating_mul(31)
            .saturating_mul(month_ns / 28);
        let mut nth =
            finished_ns.saturating_sub(first_ns) / at_least.saturating_add(self.interval.ns).max(1);
        loop {
            let factor = i32::try_from(nth).unwrap_or(i32::MAX);
            let span = Span {
                months: self.interval.months.saturating_mul(factor),
                ns: self.interval.ns.saturating_mul(nth),
            };
            let next_ns = span.after(first_ns);
            if next_ns > finished_ns {
                return next_ns;
            }
            nth += 1;
        }
    }

    /// The next start after so many failures, the last of which ended at this time; `None` = it has failed often enough.
    pub(super) fn next_after_failures(&self, finished_ns: i64, failures: i64) -> Option<i64> {
        if self.retries_max >= 0 && failures > self.retries_max {
            return None;
        }
        let doublings = u32::try_from((failures - 1).clamp(0, DOUBLINGS_MAX)).unwrap_or(0);
        let wait = self.retry_ns.max(1).saturating_mul(1 << doublings);
        let interval = self.interval.after(finished_ns).saturating_sub(finished_ns);
        let longest = interval.saturating_mul(INTERVALS_MAX).max(1);
        Some(finished_ns.saturating_add(wait.min(longest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000_000;
    /// 2024-03-31, by `date -u -d 2024-03-31 +%s`.
    const MARCH_31: i64 = 1_711_843_200_000_000_000;

    #[test]
    fn months_are_those_of_the_calendar() {
        let month = Span { months: 1, ns: 0 };
        // 2024-02-29 and 2024-04-30, each at midnight.
        assert_eq!(month.before(MARCH_31), MARCH_31 - 31 * DAY);
        assert_eq!(month.after(MARCH_31), MARCH_31 + 30 * DAY);
        let both = Span { months: 1, ns: DAY };
        assert_eq!(both.before(MARCH_31), MARCH_31 - 32 * DAY);
        let ages = Span {
            months: 12_000,
            ns: 0,
        };
        assert_eq!((ages.before(0), ages.after(0)), (i64::MIN, i64::MAX));
        assert!(!Span::default().is_positive() && month.is_positive());
    }

    #[test]
    fn a_job_is_due_an_interval_after_its_end_or_at_the_next_of_its_fixed_times() {
        let drifting = JobSchedule::every(Span::of_ns(DAY));
        assert_eq!(drifting.next_after(100), 100 + DAY);
        let fixed = JobSchedule {
            initial_ns: Some(7),
            ..drifting
        };
        for (finished, next) in [
            (0, 7),
            (7, 7 + DAY),
            (6 + DAY, 7 + DAY),
            (7 + 9 * DAY, 7 + 10 * DAY),
        ] {
            assert_eq!(fixed.next_after(finished), next, "{finished}");
        }
        let monthly = JobSchedule {
            initial_ns: Some(MARCH_31),
            interval: Span { months: 1, ns: 0 },
            ..drifting
        };
        // The 30th of April, the 31st of May, and the 31st of March a year later.
        assert_eq!(monthly.next_after(MARCH_31), MARCH_31 + 30 * DAY);
        assert_eq!(monthly.next_after(MARCH_31 + 30 * DAY), MARCH_31 + 61 * DAY);
        assert_eq!(
            monthly.next_after(MARCH_31 + 364 * DAY),
            MARCH_31 + 365 * DAY
        );
    }

    #[test]
    fn a_job_that_fails_waits_twice_as_long_each_time_and_stops_when_it_may_fail_no_more() {
        let schedule = JobSchedule {
            retry_ns: DAY,
            retries_max: 9,
            ..JobSchedule::every(Span::of_ns(3 * DAY))
        };
        let waits: Vec<Option<i64>> = (1..=5)
            .map(|failures| schedule.next_after_failures(0, failures))
            .collect();
        let days = [1, 2, 4, 8, 15].map(|days| Some(days * DAY));
        assert_eq!(waits, days);
        assert_eq!(schedule.next_after_failures(0, 10), None);
    }
}
