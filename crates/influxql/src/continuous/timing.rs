//! Timing of continuous queries: when each runs, and for which buckets.
//!
//! Does: calculate as InfluxDB does, from the width of the buckets, `RESAMPLE EVERY` and `FOR`, and up to when it has run.
//! Does not: look at a clock.

use nilometer_influxql_syntax::ast::CreateContinuousQuery;

use crate::select::checked::compile::{compile, zone_of};
use crate::select::checked::window::Window;

/// What says when a continuous query runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timing {
    /// Its buckets.
    window: Window,
    /// `EVERY`; 0 = none.
    every_ns: i64,
    /// `FOR`; 0 = none.
    for_ns: i64,
}

/// Times of a run, the end not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from_ns: i64,
    pub(crate) to_ns: i64,
}

/// A run that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Up to when it has run then.
    pub(crate) ran_to_ns: i64,
    /// What it reads; `None` = no bucket has passed yet.
    pub(crate) range: Option<Range>,
}

impl Timing {
    /// `None` = it never runs: without buckets there is no time for it.
    pub(crate) fn of(create: &CreateContinuousQuery, now_ns: i64) -> Option<Self> {
        let width = create.select.interval().ok().flatten()?;
        if width <= 0 || create.select.is_raw() {
            return None;
        }
        // One that cannot be checked is due like any other, and says why when it runs.
        let compiled = compile(&create.select, now_ns).ok();
        let window = compiled.and_then(|compiled| compiled.window);
        Some(Self {
            window: window.unwrap_or(Window {
                width,
                offset: 0,
                zone: zone_of(&create.select),
            }),
            every_ns: create.resample_every,
            for_ns: create.resample_for,
        })
    }

    /// The run that is due at a time, for one that was made at another and has run up to a third; `None` = it has never run.
    /// The first run reads from the bucket on in which it was made, however late it comes: the process may have ended before.
    pub(crate) fn next(
        &self,
        (made_ns, ran_to_ns): (i64, Option<i64>),
        now_ns: i64,
    ) -> Option<Turn> {
        let width = self.window.width;
        let every = if self.every_ns > 0 {
            self.every_ns
        } else {
            width
        };
        let next = match ran_to_ns {
            // A run reads what is before its time, and here that of the bucket that has begun counts.
            None => made_ns.min(now_ns).saturating_add(1),
            Some(last) => {
                let next = self.after(last, every);
                if next > now_ns {
                    return None;
                }
                next
            }
        };
        let ran_to_ns = self.start(now_ns, every);
        let over = match self.for_ns {
            0 => width.max(every),
            over => over,
        };
        let from_ns = self.start(next.saturating_add(width - over - 1), width);
        let to_ns = self.start(now_ns.saturating_add(width - every.min(width)), width);
        let range = Range { from_ns, to_ns };
        Some(Turn {
            ran_to_ns,
            range: (to_ns > from_ns).then_some(range),
        })
    }

    /// The start of the stretch of this width that a time is in.
    fn start(&self, time_ns: i64, width: i64) -> i64 {
        Window {
            width,
            ..self.window
        }
        .start(time_ns)
    }

    /// The time of the next run. Where the clocks are set in between, it is that on the clock.
    fn after(&self, last_ns: i64, every: i64) -> i64 {
        let next = last_ns.saturating_add(every);
        let before = self.window.shift(last_ns.saturating_sub(1));
        let moved = before - self.window.shift(next.saturating_sub(1));
        if moved != 0 && moved.abs() < every {
            next + moved
        } else {
            next
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::continuous::parsed;

    const SECOND: i64 = 1_000_000_000;

    fn timing(resample: &str, group: &str) -> Timing {
        let text = format!(
            "CREATE CONTINUOUS QUERY c ON d {resample} BEGIN SELECT mean(v) INTO x FROM m GROUP BY {group} END"
        );
        Timing::of(&parsed(&text).unwrap(), 0).unwrap()
    }

    /// The ranges are those of the examples in InfluxDB's documentation of continuous queries ("Basic syntax", "RESAMPLE"),
    /// in seconds after 08:00, for a query that ran at 08:00.
    #[test]
    fn the_ranges_are_those_of_the_documentation() {
        let at = |minutes: i64| minutes * 60 * SECOND;
        for (resample, group, now, expected) in [
            ("", "time(1h)", 59, None),
            ("", "time(1h)", 60, Some((0, 60))),
            ("RESAMPLE EVERY 30m", "time(1h)", 30, Some((0, 60))),
            ("RESAMPLE FOR 1h", "time(30m)", 30, Some((-30, 30))),
            (
                "RESAMPLE EVERY 1h FOR 90m",
                "time(30m)",
                60,
                Some((-30, 60)),
            ),
            ("RESAMPLE EVERY 30m FOR 2h", "time(1h)", 30, Some((-60, 60))),
            ("RESAMPLE EVERY 2h", "time(1h)", 120, Some((0, 120))),
        ] {
            let turn = timing(resample, group).next((0, Some(0)), at(now));
            let range = turn.and_then(|turn| turn.range);
            let range = range.map(|range| (range.from_ns, range.to_ns));
            let expected = expected.map(|(from, to)| (at(from), at(to)));
            assert_eq!(range, expected, "{resample} {group} {now}");
        }
    }

    #[test]
    fn one_that_never_ran_waits_for_the_end_of_its_bucket_and_none_is_left_out_after_a_stop() {
        let minute = timing("", "time(1m)");
        let first = minute.next((90 * SECOND, None), 90 * SECOND).unwrap();
        assert_eq!((first.ran_to_ns, first.range), (60 * SECOND, None));
        assert_eq!(minute.next((0, Some(60 * SECOND)), 119 * SECOND), None);
        // Nothing ran for five minutes.
        let late = minute.next((0, Some(60 * SECOND)), 400 * SECOND).unwrap();
        let range = late.range.unwrap();
        assert_eq!((range.from_ns, range.to_ns), (60 * SECOND, 360 * SECOND));
        assert_eq!(late.ran_to_ns, 360 * SECOND);
    }

    /// A query whose first look never came, because the process ended before, once began at the restart: its buckets up to
    /// there were never written.
    #[test]
    fn the_first_run_begins_with_the_bucket_in_which_it_was_made() {
        let range = |resample: &str, made: i64, now: i64| {
            let turn = timing(resample, "time(1m)").next((made * SECOND, None), now * SECOND);
            let range = turn.unwrap().range;
            range.map(|range| (range.from_ns / SECOND, range.to_ns / SECOND))
        };
        assert_eq!(range("", 70, 400), Some((60, 360)));
        // Made at the edge, the bucket before it is none of its.
        assert_eq!(range("", 60, 60), None);
        assert_eq!(range("", 60, 120), Some((60, 120)));
        // The clock was set back meanwhile.
        assert_eq!(range("", 400, 130), None);
        // As far back as it says.
        assert_eq!(range("RESAMPLE FOR 3m", 190, 190), Some((60, 180)));
        assert_eq!(range("RESAMPLE FOR 3m", 190, 310), Some((60, 300)));
        assert_eq!(range("RESAMPLE EVERY 30s", 190, 215), Some((180, 240)));
    }

    #[test]
    fn buckets_with_an_offset_run_when_they_have_passed() {
        let offset = timing("", "time(1m, 20s)");
        assert_eq!(offset.next((0, Some(20 * SECOND)), 79 * SECOND), None);
        let turn = offset.next((0, Some(20 * SECOND)), 81 * SECOND).unwrap();
        let range = turn.range.unwrap();
        assert_eq!((range.from_ns, range.to_ns), (20 * SECOND, 80 * SECOND));
    }
}
