//! Buckets of a continuous aggregate, in nanoseconds.
//!
//! Does: find the buckets that a range of times touches; keep them as text and read it. Does not: read a statement.

use std::collections::BTreeSet;
use std::str::FromStr;

use arrow::array::timezone::Tz;
use nilometer_service::Span;

use crate::function::{Buckets, Shift, Width};

const DAY_NS: i128 = 86_400_000_000_000;
/// No month has more days.
const MONTH_DAYS: i128 = 31;
/// Starts of buckets that are looked at for the end of one.
const GRID_MAX: usize = 1_000;

/// The buckets that time is cut into.
#[derive(Debug, Clone)]
pub(crate) struct AggregateBuckets {
    pub(crate) buckets: Buckets,
    /// Nanoseconds of one unit in which widths are; 1, unless the time is an integer.
    pub(crate) unit_ns: i64,
    /// The time zone by its name.
    pub(crate) zone: Option<String>,
}

impl AggregateBuckets {
    /// The first instant of the bucket of a time; the earliest time there is if it begins before that.
    pub(crate) fn start(&self, time_ns: i64) -> i64 {
        let unit = i128::from(self.unit_ns.max(1));
        match self.buckets.around(i128::from(time_ns).div_euclid(unit)) {
            Some((start, _)) => clamp(start * unit),
            None => i64::MIN,
        }
    }

    /// The first instant of the next bucket; the last time there is if that is behind it.
    pub(crate) fn end(&self, time_ns: i64) -> i64 {
        let unit = i128::from(self.unit_ns.max(1));
        let time = i128::from(time_ns).div_euclid(unit);
        if self.zone.is_none() && self.buckets.offset.months == 0 {
            return match self.buckets.around(time) {
                Some((_, end)) => clamp(end * unit),
                None => i64::MAX,
            };
        }
        let width = self.width();
        let Some((start, _)) = self.buckets.around(time) else {
            return i64::MAX;
        };
        let grid = self
            .buckets
            .grid(start, time + 2 * width + 2 * DAY_NS, GRID_MAX);
        let after = grid.and_then(|grid| grid.into_iter().find(|it| *it > start && *it > time));
        after.map_or(i64::MAX, |end| clamp(end * unit))
    }

    /// The buckets that a range from the first time to the last one touches: where they begin and end.
    pub(crate) fn around(&self, first_ns: i64, last_ns: i64) -> (i64, i64) {
        let start = if first_ns == i64::MIN {
            i64::MIN
        } else {
            self.start(first_ns)
        };
        let end = if last_ns == i64::MAX {
            i64::MAX
        } else {
            self.end(last_ns)
        };
        (start, end)
    }

    /// The buckets that lie wholly in a range from a time up to, without, another one.
    pub(crate) fn within(&self, from_ns: i64, until_ns: i64) -> (i64, i64) {
        let end = if until_ns == i64::MAX {
            i64::MAX
        } else {
            self.start(until_ns)
        };
        (self.first_from(from_ns), end)
    }

    /// Where the first bucket begins that begins at a time or after it.
    pub(crate) fn first_from(&self, time_ns: i64) -> i64 {
        match time_ns {
            i64::MIN | i64::MAX => time_ns,
            time if self.start(time) == time => time,
            time => self.end(time),
        }
    }

    /// Whether each bucket of others is made of whole ones of these.
    pub(crate) fn divides(&self, wider: &Self) -> bool {
        let (own, other) = (&self.buckets, &wider.buckets);
        let has_clocks = self.zone.is_some() || wider.zone.is_some();
        let has_months = own.offset.months != 0 || other.offset.months != 0;
        if has_clocks || has_months || self.unit_ns != wider.unit_ns {
            return false;
        }
        // Where one edge of the wider ones is an edge of these, all are.
        let edge = wider.start(0);
        let is_aligned = edge > i64::MIN && self.start(edge) == edge;
        match (own.width, other.width) {
            (Width::Fixed(own), Width::Fixed(other)) => own > 0 && other % own == 0 && is_aligned,
            // Months begin at one time of the day.
            (Width::Fixed(own), Width::Months(_)) => {
                own > 0 && self.unit_ns == 1 && DAY_NS % own == 0 && is_aligned
            }
            (Width::Months(months), Width::Months(more)) => {
                let is_from_first = |it: &Buckets| it.origin.is_none() && it.offset.fixed == 0;
                months > 0
                    && more % months == 0
                    && is_from_first(own)
                    && is_from_first(other)
                    && is_aligned
            }
            (Width::Months(_), Width::Fixed(_)) => false,
        }
    }

    /// About how wide one is.
    pub(crate) fn width_ns(&self) -> i64 {
        clamp(self.width() * i128::from(self.unit_ns.max(1)))
    }

    /// How wide one is by the calendar.
    pub(crate) fn span(&self) -> Span {
        match self.buckets.width {
            Width::Fixed(_) => Span::of_ns(self.width_ns()),
            Width::Months(months) => Span { months, ns: 0 },
        }
    }

    fn width(&self) -> i128 {
        match self.buckets.width {
            Width::Fixed(width) => width,
            Width::Months(months) => i128::from(months) * MONTH_DAYS * DAY_NS,
        }
    }

    /// As it is kept.
    pub(crate) fn text(&self) -> String {
        let (fixed, months) = match self.buckets.width {
            Width::Fixed(width) => (width, 0),
            Width::Months(months) => (0, months),
        };
        let origin = self.buckets.origin;
        let origin = origin.map_or_else(|| "-".to_owned(), |origin| origin.to_string());
        format!(
            "{fixed} {months} {origin} {} {} {} {}",
            self.buckets.offset.months,
            self.buckets.offset.fixed,
            self.unit_ns,
            self.zone.as_deref().unwrap_or("-"),
        )
    }

    /// `None` = a later version keeps it otherwise.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.splitn(7, ' ').collect();
        let [fixed, months, origin, offset_months, offset, unit_ns, zone] =
            <[&str; 7]>::try_from(parts).ok()?;
        let fixed: i128 = fixed.parse().ok()?;
        let origin = match origin {
            "-" => None,
            origin => Some(origin.parse().ok()?),
        };
        let zone = (zone != "-").then(|| zone.to_owned());
        let tz = match &zone {
            Some(name) => Some(Tz::from_str(name).ok()?),
            None => None,
        };
        Some(Self {
            buckets: Buckets {
                width: if fixed > 0 {
                    Width::Fixed(fixed)
                } else {
                    Width::Months(months.parse().ok()?)
                },
                origin,
                offset: Shift {
                    months: offset_months.parse().ok()?,
                    fixed: offset.parse().ok()?,
                },
                zone: tz,
            },
            unit_ns: unit_ns.parse().ok()?,
            zone,
        })
    }
}

fn clamp(time: i128) -> i64 {
    i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX })
}

/// Ranges [start, end) in order, those that overlap or touch as one.
pub(crate) fn merged(mut ranges: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    ranges.retain(|(start, end)| start < end);
    ranges.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (start, end) in ranges {
        match merged.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// The same, no more than `most`: the nearest are joined.
pub(crate) fn few(ranges: Vec<(i64, i64)>, most: usize) -> Vec<(i64, i64)> {
    let all = merged(ranges);
    if all.len() <= most.max(1) {
        return all;
    }
    let gaps = all.windows(2).enumerate().map(|(at, pair)| match pair {
        [(_, end), (start, _)] => (start.abs_diff(*end), at + 1),
        _ => (0, at + 1),
    });
    let mut gaps: Vec<(u64, usize)> = gaps.collect();
    gaps.sort_unstable_by(|one, other| other.cmp(one));
    gaps.truncate(most.max(1) - 1);
    let starts: BTreeSet<usize> = gaps.into_iter().map(|(_, at)| at).collect();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (at, (start, end)) in all.into_iter().enumerate() {
        match joined.last_mut() {
            Some((_, last)) if !starts.contains(&at) => *last = end,
            _ => joined.push((start, end)),
        }
    }
    joined
}

/// What ranges leave of all time; both in order.
pub(crate) fn complement(ranges: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut left = Vec::new();
    let mut from = i64::MIN;
    for &(start, end) in ranges {
        if from < start {
            left.push((from, start));
        }
        from = end;
    }
    if from < i64::MAX {
        left.push((from, i64::MAX));
    }
    left
}

/// What is left of a range from a first time to a last one without ranges [start, end) in order.
pub(crate) fn without((first, last): (i64, i64), computed: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut left = Vec::new();
    let mut from = Some(first);
    for &(start, end) in computed {
        let Some(begin) = from else { break };
        // The last time there is ends a range that has no end.
        let until = if end == i64::MAX { None } else { Some(end) };
        if until.is_some_and(|until| until <= begin) || start > last {
            continue;
        }
        if start > begin {
            left.push((begin, start - 1));
        }
        from = until.filter(|until| *until <= last);
    }
    if let Some(begin) = from
        && begin <= last
    {
        left.push((begin, last));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(zone: Option<&str>) -> AggregateBuckets {
        AggregateBuckets {
            buckets: Buckets {
                width: Width::Fixed(DAY_NS),
                origin: None,
                offset: Shift::default(),
                zone: zone.map(|zone| Tz::from_str(zone).unwrap()),
            },
            unit_ns: 1,
            zone: zone.map(str::to_owned),
        }
    }

    /// 2024-03-31 has 23 hours in Berlin: from 23:00 of the day before to 22:00 in UTC.
    #[test]
    fn a_day_ends_where_the_next_one_begins_also_where_clocks_are_set() {
        const HOUR_NS: i64 = 3_600_000_000_000;
        let start = 1_711_839_600_000_000_000;
        let berlin = hours(Some("Europe/Berlin"));
        let noon = start + 12 * HOUR_NS;
        assert_eq!(berlin.start(noon), start);
        assert_eq!(berlin.end(noon), start + 23 * HOUR_NS);
        assert_eq!(berlin.within(start, noon), (start, start));
        let utc = hours(None);
        assert_eq!(utc.end(noon) - utc.start(noon), 24 * HOUR_NS);
        assert_eq!(utc.around(i64::MIN, i64::MAX), (i64::MIN, i64::MAX));
    }

    /// By the calendar: weeks begin on Mondays, 2000-01-03 was one, and months begin on any day of a week.
    #[test]
    fn wider_buckets_are_made_of_whole_ones_or_not() {
        const HOUR_NS: i128 = 3_600_000_000_000;
        let of = |width: Width, fixed: i128, zone: Option<&str>| AggregateBuckets {
            buckets: Buckets {
                width,
                origin: None,
                offset: Shift { months: 0, fixed },
                zone: zone.map(|zone| Tz::from_str(zone).unwrap()),
            },
            unit_ns: 1,
            zone: zone.map(str::to_owned),
        };
        let fixed = |hours: i128| of(Width::Fixed(hours * HOUR_NS), 0, None);
        let months = |months: i32| of(Width::Months(months), 0, None);
        for (own, wider, divides) in [
            (fixed(1), fixed(6), true),
            (fixed(6), fixed(1), false),
            (fixed(4), fixed(6), false),
            (fixed(1), of(Width::Fixed(6 * HOUR_NS), HOUR_NS, None), true),
            (
                fixed(1),
                of(Width::Fixed(6 * HOUR_NS), HOUR_NS / 2, None),
                false,
            ),
            (fixed(24), fixed(7 * 24), true),
            (fixed(24), months(1), true),
            (fixed(7 * 24), months(1), false),
            (fixed(5), months(1), false),
            (fixed(12), of(Width::Months(1), 12 * HOUR_NS, None), true),
            (fixed(24), of(Width::Months(1), 12 * HOUR_NS, None), false),
            (months(1), months(3), true),
            (months(2), months(3), false),
            (months(1), fixed(24 * 365), false),
            (
                fixed(1),
                of(Width::Fixed(24 * HOUR_NS), 0, Some("Europe/Berlin")),
                false,
            ),
        ] {
            assert_eq!(
                own.divides(&wider),
                divides,
                "{} {}",
                own.text(),
                wider.text()
            );
        }
    }

    #[test]
    fn buckets_are_kept_as_text() {
        for buckets in [hours(None), hours(Some("Europe/Berlin"))] {
            let read = AggregateBuckets::read(&buckets.text()).unwrap();
            assert_eq!(read.text(), buckets.text());
        }
        assert!(AggregateBuckets::read("something else").is_none());
    }

    #[test]
    fn ranges_are_what_sets_of_times_are() {
        assert_eq!(merged(vec![(5, 9), (1, 5), (7, 7)]), vec![(1, 9)]);
        assert_eq!(
            few(vec![(0, 1), (3, 4), (10, 11)], 2),
            vec![(0, 4), (10, 11)]
        );
        assert_eq!(
            complement(&[(1, 2), (4, 5)]),
            vec![(i64::MIN, 1), (2, 4), (5, i64::MAX)]
        );
        assert_eq!(complement(&[(i64::MIN, i64::MAX)]), vec![]);
        assert_eq!(without((0, 9), &[(2, 4), (8, 20)]), vec![(0, 1), (4, 7)]);
        assert_eq!(without((0, 9), &[(0, 10)]), vec![]);
        assert_eq!(
            without((i64::MIN, i64::MAX), &[(i64::MIN, 5)]),
            vec![(5, i64::MAX)]
        );
        assert_eq!(without((3, i64::MAX), &[(1, i64::MAX)]), vec![]);
        assert_eq!(without((3, 5), &[(9, 10)]), vec![(3, 5)]);
    }
}
