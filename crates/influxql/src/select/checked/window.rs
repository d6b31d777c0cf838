//! Buckets of `GROUP BY time(width, offset)`, in a time zone or in UTC.

use chrono::{DateTime, Offset, TimeZone};
use chrono_tz::Tz;

use crate::select::checked::condition::{TIME_MAX, TIME_MIN};

/// Buckets of one width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    /// Above 0.
    pub(crate) width: i64,
    pub(crate) offset: i64,
    pub(crate) zone: Option<Tz>,
}

fn zone_offset(zone: Tz, time_ns: i64) -> i64 {
    let utc = DateTime::from_timestamp_nanos(time_ns).naive_utc();
    i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()) * 1_000_000_000
}

impl Window {
    /// First instant of the bucket of a time.
    pub(crate) fn start(&self, time_ns: i64) -> i64 {
        let time = time_ns.saturating_sub(self.offset);
        let shift = self.zone.map_or(0, |zone| zone_offset(zone, time));
        let into = time.saturating_add(shift).rem_euclid(self.width);
        let mut start = if TIME_MIN.saturating_add(into) >= time {
            TIME_MIN
        } else {
            time - into
        };
        start = start.saturating_add(self.offset);
        if let Some(zone) = self.zone {
            // The clocks may have been set since then; a jump as wide as the bucket is none of this bucket.
            let moved = shift - zone_offset(zone, start);
            if moved != 0 && moved.abs() < self.width {
                start += moved;
            }
        }
        start
    }

    /// The end of the bucket of a time, as InfluxDB counts it: where clocks are set in a bucket it is longer or shorter.
    pub(crate) fn end(&self, time_ns: i64) -> i64 {
        let time = time_ns.saturating_sub(self.offset);
        let shift = self.shift(time);
        let into = time.saturating_add(shift).rem_euclid(self.width);
        let end = time.saturating_add(self.width - into).min(TIME_MAX);
        let end = end.saturating_add(self.offset);
        let moved = shift - self.shift(end);
        if moved != 0 && moved.abs() < self.width {
            end.saturating_add(moved)
        } else {
            end
        }
    }

    /// The start of the next bucket in the order of the answer, and the clock's offset there. `shift` is that of the last one.
    pub(crate) fn step(&self, start: i64, ascending: bool, shift: &mut i64) -> i64 {
        let mut next = if ascending {
            start.saturating_add(self.width)
        } else {
            start.saturating_sub(self.width)
        };
        if let Some(zone) = self.zone {
            let now = zone_offset(zone, next.saturating_sub(1));
            if now != *shift {
                let moved = *shift - now;
                if moved.abs() < self.width {
                    next += moved;
                }
                *shift = now;
            }
        }
        next
    }

    /// The clock's offset at a time.
    pub(crate) fn shift(&self, time_ns: i64) -> i64 {
        self.zone.map_or(0, |zone| zone_offset(zone, time_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::Window;

    const HOUR: i64 = 3_600_000_000_000;

    fn at(text: &str) -> i64 {
        chrono::DateTime::parse_from_rfc3339(text)
            .unwrap()
            .timestamp_nanos_opt()
            .unwrap()
    }

    /// A day of 25 hours was one of 24, and the integral over it made a bucket anew for each point of its last hour.
    #[test]
    fn a_day_ends_where_the_next_begins_when_clocks_are_set() {
        let day = |width| Window {
            width: width * HOUR,
            offset: 0,
            zone: Some(chrono_tz::Europe::Berlin),
        };
        for (width, inside, start, end) in [
            (
                24,
                "2020-10-25T12:00:00Z",
                "2020-10-24T22:00:00Z",
                "2020-10-25T23:00:00Z",
            ),
            (
                24,
                "2020-10-25T22:59:59Z",
                "2020-10-24T22:00:00Z",
                "2020-10-25T23:00:00Z",
            ),
            (
                24,
                "2020-03-29T12:00:00Z",
                "2020-03-28T23:00:00Z",
                "2020-03-29T22:00:00Z",
            ),
            (
                24,
                "2020-06-01T12:00:00Z",
                "2020-05-31T22:00:00Z",
                "2020-06-01T22:00:00Z",
            ),
            (
                6,
                "2020-10-25T00:30:00Z",
                "2020-10-24T22:00:00Z",
                "2020-10-25T05:00:00Z",
            ),
        ] {
            let window = day(width);
            assert_eq!(window.start(at(inside)), at(start), "{inside}");
            assert_eq!(window.end(at(inside)), at(end), "{inside}");
        }
    }

    #[test]
    fn weeks_start_on_thursday_and_days_at_local_midnight() {
        let week = Window {
            width: 7 * 24 * HOUR,
            offset: 0,
            zone: None,
        };
        assert_eq!(
            week.start(at("2016-01-01T00:00:00Z")),
            at("2015-12-31T00:00:00Z")
        );
        let offset = Window {
            width: 24 * HOUR,
            offset: 6 * HOUR,
            zone: None,
        };
        assert_eq!(
            offset.start(at("2016-01-01T05:00:00Z")),
            at("2015-12-31T06:00:00Z")
        );
        let day = Window {
            width: 24 * HOUR,
            offset: 0,
            zone: Some(chrono_tz::America::Los_Angeles),
        };
        // The clocks were set forward on 2000-04-02.
        assert_eq!(
            day.start(at("2000-04-01T12:00:00Z")),
            at("2000-04-01T08:00:00Z")
        );
        assert_eq!(
            day.start(at("2000-04-02T20:00:00Z")),
            at("2000-04-02T08:00:00Z")
        );
        assert_eq!(
            day.start(at("2000-04-03T20:00:00Z")),
            at("2000-04-03T07:00:00Z")
        );
        let mut shift = day.shift(at("2000-04-02T08:00:00Z"));
        let next = day.step(at("2000-04-02T08:00:00Z"), true, &mut shift);
        assert_eq!(next, at("2000-04-03T07:00:00Z"));
    }
}
