//! Counters and gauges: `counter_agg` and `gauge_agg`.
//!
//! A counter only grows; a value below the one before means that it began again from 0. A gauge goes up and down. Does: keep
//! the ends, the resets and the regression of the values over the time in seconds. Does not: sort; values come in the order
//! of their times, and of those at one time the first counts.

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};
use crate::moments::Pairs;
use crate::{SECOND, Sample, difference};

/// Whether values may fall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// A fall is a reset.
    Counter,
    /// A fall is a fall.
    Gauge,
}

/// Nanoseconds from 1970 to 2000, where the axis of the regression begins as in `TimescaleDB`.
const AXIS_FROM: i64 = 946_684_800_000_000_000;

/// The end of a range is open, and Prometheus reckons in milliseconds up to the last one inside.
const LAST_INSIDE: f64 = 1e6;

/// A counter or a gauge over a range of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counter {
    flavour: Flavour,
    first: Sample,
    second: Sample,
    before_last: Sample,
    last: Sample,
    lost: f64,
    resets: u64,
    changes: u64,
    line: Pairs,
    bounds: Option<(i64, i64)>,
}

fn seconds(time: i64) -> f64 {
    difference(time, AXIS_FROM) / SECOND
}

impl Counter {
    /// One value.
    pub fn new(flavour: Flavour, sample: Sample) -> Self {
        let mut line = Pairs::default();
        line.add(sample.value, seconds(sample.time));
        Self {
            flavour,
            first: sample,
            second: sample,
            before_last: sample,
            last: sample,
            lost: 0.0,
            resets: 0,
            changes: 0,
            line,
            bounds: None,
        }
    }

    /// Takes in the next value in the order of time.
    pub fn add(&mut self, sample: Sample) {
        if sample.time <= self.last.time {
            return;
        }
        self.meet(sample.value);
        if self.is_single() {
            self.second = sample;
        }
        self.before_last = self.last;
        self.last = sample;
        self.line
            .add(sample.value + self.lost, seconds(sample.time));
    }

    /// Notes what lies between the last value and the next.
    fn meet(&mut self, next: f64) {
        #[expect(
            clippy::float_cmp,
            reason = "a value that was not rounded is another or the same"
        )]
        if next != self.last.value {
            self.changes = self.changes.saturating_add(1);
        }
        if self.flavour == Flavour::Counter && next < self.last.value {
            self.lost += self.last.value;
            self.resets = self.resets.saturating_add(1);
        }
    }

    fn is_single(&self) -> bool {
        self.first.time == self.last.time
    }

    /// Takes in what comes after it.
    pub fn append(&mut self, later: &Self) -> Result<(), Error> {
        if self.flavour != later.flavour {
            return Err(Error::Kinds {
                one: self.name(),
                other: later.name(),
            });
        }
        if later.first.time <= self.last.time {
            return Err(Error::Overlap { kind: self.name() });
        }
        self.meet(later.first.value);
        if self.is_single() {
            self.second = later.first;
        }
        self.before_last = if later.is_single() {
            self.last
        } else {
            later.before_last
        };
        let mut line = later.line;
        line.shift_y(self.lost);
        self.line.merge(&line);
        self.last = later.last;
        self.lost += later.lost;
        self.resets = self.resets.saturating_add(later.resets);
        self.changes = self.changes.saturating_add(later.changes);
        self.bounds = match (self.bounds, later.bounds) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
        Ok(())
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.flavour {
            Flavour::Counter => "counter_agg",
            Flavour::Gauge => "gauge_agg",
        }
    }

    /// The first value.
    pub fn first(&self) -> Sample {
        self.first
    }

    /// The last value.
    pub fn last(&self) -> Sample {
        self.last
    }

    /// How often the counter began again.
    pub fn resets(&self) -> u64 {
        self.resets
    }

    /// How often the value was another than the one before.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The regression of the values, resets made up for, over the seconds since 2000.
    pub fn line(&self) -> &Pairs {
        &self.line
    }

    /// By how much the value has grown.
    pub fn delta(&self) -> f64 {
        self.last.value + self.lost - self.first.value
    }

    /// Seconds from the first value to the last.
    pub fn duration(&self) -> f64 {
        self.last.since(self.first) / SECOND
    }

    /// Growth in a second; none of a single value.
    pub fn rate(&self) -> Option<f64> {
        (!self.is_single()).then(|| self.delta() / self.duration())
    }

    fn grown(&self, from: Sample, to: Sample) -> f64 {
        if self.flavour == Flavour::Counter && to.value < from.value {
            to.value
        } else {
            to.value - from.value
        }
    }

    /// Growth from the first value to the second.
    pub fn growth_left(&self) -> f64 {
        self.grown(self.first, self.second)
    }

    /// Growth from the value before the last to the last.
    pub fn growth_right(&self) -> f64 {
        self.grown(self.before_last, self.last)
    }

    /// [`Counter::growth_left`] in a second.
    pub fn rate_left(&self) -> Option<f64> {
        let seconds = self.second.since(self.first) / SECOND;
        (!self.is_single()).then(|| self.growth_left() / seconds)
    }

    /// [`Counter::growth_right`] in a second.
    pub fn rate_right(&self) -> Option<f64> {
        let seconds = self.last.since(self.before_last) / SECOND;
        (!self.is_single()).then(|| self.growth_right() / seconds)
    }

    /// When the line of the regression was at 0, in nanoseconds since 1970.
    pub fn zero_time(&self) -> Option<i64> {
        let at = self.line.x_intercept()? * SECOND;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a time out of range is caught by the sum"
        )]
        let at = at.is_finite().then_some(at as i64)?;
        at.checked_add(AXIS_FROM)
    }

    /// The same with the range that the values are from: its start, and its end, which is not inside.
    pub fn with_bounds(mut self, from: i64, to: i64) -> Result<Self, Error> {
        if from > self.first.time || to <= self.last.time {
            return Err(Error::Argument(format!(
                "{}: the values lie outside of the bounds; filter by time, or take wider bounds",
                self.name()
            )));
        }
        self.bounds = Some((from, to));
        Ok(self)
    }

    /// Growth over the whole of the bounds as Prometheus extrapolates it; none of a single value.
    pub fn extrapolated_delta(&self) -> Result<Option<f64>, Error> {
        let Some((from, to)) = self.bounds else {
            return Err(Error::Argument(format!(
                "{}: extrapolation needs the bounds of the range: with_bounds(agg, tstzrange(start, finish))",
                self.name()
            )));
        };
        if self.is_single() {
            return Ok(None);
        }
        let sampled = self.last.since(self.first);
        let apart = sampled / (self.line.x().count().saturating_sub(1)).max(1) as f64;
        let delta = self.delta();
        let mut to_start = difference(self.first.time, from);
        let to_end = difference(to, self.last.time) - LAST_INSIDE;
        if self.flavour == Flavour::Counter && delta > 0.0 && self.first.value >= 0.0 {
            // Where it would have been 0: it was not below.
            to_start = to_start.min(sampled * (self.first.value / delta));
        }
        // An end that is further away than values are from each other was not reached by the series.
        let reach = |distance: f64| {
            if distance < apart * 1.1 {
                distance
            } else {
                apart / 2.0
            }
        };
        let covered = sampled + reach(to_start) + reach(to_end);
        Ok(Some(delta * (covered / sampled)))
    }

    /// [`Counter::extrapolated_delta`] in a second of the bounds.
    pub fn extrapolated_rate(&self) -> Result<Option<f64>, Error> {
        let Some(delta) = self.extrapolated_delta()? else {
            return Ok(None);
        };
        let duration = self
            .bounds
            .map_or(0.0, |(from, to)| difference(to, from) - LAST_INSIDE);
        Ok((duration > 0.0).then(|| delta / (duration / SECOND)))
    }

    /// Growth from one time to another, between the ranges before and after on straight lines, and the seconds of that.
    pub fn interpolated(
        &self,
        from: i64,
        to: i64,
        before: Option<&Self>,
        after: Option<&Self>,
    ) -> Result<(f64, f64), Error> {
        let mut delta = self.delta();
        let (mut start, mut end) = (self.first.time, self.last.time);
        if let Some(before) = before.filter(|_| self.first.time > from) {
            if before.last.time >= self.first.time || before.last.time > from {
                return Err(Error::Overlap { kind: self.name() });
            }
            let share = difference(self.first.time, from) / self.first.since(before.last);
            delta += self.grown(before.last, self.first) * share;
            start = from;
        }
        if let Some(after) = after.filter(|_| self.last.time < to) {
            if after.first.time <= self.last.time || after.first.time < to {
                return Err(Error::Overlap { kind: self.name() });
            }
            let share = difference(to, self.last.time) / after.first.since(self.last);
            delta += self.grown(self.last, after.first) * share;
            end = to;
        }
        Ok((delta, difference(end, start) / SECOND))
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        for sample in [self.first, self.second, self.before_last, self.last] {
            to.i64(sample.time);
            to.f64(sample.value);
        }
        to.f64(self.lost);
        to.u64(self.resets);
        to.u64(self.changes);
        self.line.write(to);
        to.u8(u8::from(self.bounds.is_some()));
        if let Some((from, until)) = self.bounds {
            to.i64(from);
            to.i64(until);
        }
    }

    pub(crate) fn read(flavour: Flavour, from: &mut Reader) -> Result<Self, Error> {
        let mut sample = || -> Result<Sample, Error> {
            Ok(Sample {
                time: from.i64()?,
                value: from.f64()?,
            })
        };
        let (first, second, before_last, last) = (sample()?, sample()?, sample()?, sample()?);
        let read = Self {
            flavour,
            first,
            second,
            before_last,
            last,
            lost: from.f64()?,
            resets: from.u64()?,
            changes: from.u64()?,
            line: Pairs::read(from)?,
            bounds: from.optional(|from| Ok((from.i64()?, from.i64()?)))?,
        };
        let is_ordered = first.time <= second.time
            && second.time <= last.time
            && first.time <= before_last.time
            && before_last.time <= last.time;
        let is_counted = read.line.x().count() > 0
            && (read.line.x().count() == 1) == (first.time == last.time)
            && (first.time == last.time
                || (first.time < second.time && before_last.time < last.time));
        if !is_ordered || !is_counted {
            return Err(damaged("times that are out of order"));
        }
        Ok(read)
    }
}
