//! Times in which something was alive: `heartbeat_agg`.
//!
//! Each heartbeat says that it lives for so long; ranges that touch are one. Rows may come in any order. A range that goes beyond
//! the end of the summary is kept whole, so that a later summary goes on where it ended, and is cut when it is shown.

use std::collections::BTreeMap;

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};

/// Ranges of life within a range of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Heartbeats {
    start: i64,
    end: i64,
    /// Nanoseconds that a heartbeat is good for.
    liveness: i64,
    /// Starts and ends, which neither meet nor touch.
    ranges: BTreeMap<i64, i64>,
}

impl Heartbeats {
    /// Without heartbeats.
    pub fn new(start: i64, duration: i64, liveness: i64) -> Result<Self, Error> {
        if duration <= 0 || liveness <= 0 {
            return Err(Error::Argument(
                "heartbeat_agg: agg_duration and heartbeat_liveness are longer than nothing"
                    .to_owned(),
            ));
        }
        let Some(end) = start.checked_add(duration) else {
            return Err(Error::Argument(
                "heartbeat_agg: agg_start and agg_duration go beyond the times that there are"
                    .to_owned(),
            ));
        };
        Ok(Self {
            start,
            end,
            liveness,
            ranges: BTreeMap::new(),
        })
    }

    /// Takes a heartbeat in.
    pub fn add(&mut self, time: i64) -> Result<(), Error> {
        if time < self.start || time >= self.end {
            return Err(Error::Outside);
        }
        self.live(time, time.saturating_add(self.liveness));
        Ok(())
    }

    fn live(&mut self, mut start: i64, mut end: i64) {
        if let Some((before, until)) = self.ranges.range(..=start).next_back()
            && *until >= start
        {
            start = *before;
            end = end.max(*until);
        }
        while let Some((&after, &until)) = self.ranges.range(start..=end).next() {
            self.ranges.remove(&after);
            end = end.max(until);
        }
        self.ranges.insert(start, end);
    }

    /// Takes in what was seen elsewhere.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        if self.liveness != other.liveness {
            return Err(Error::Parameters {
                what: "heartbeat_liveness in nanoseconds",
                one: self.liveness.to_string(),
                other: other.liveness.to_string(),
            });
        }
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        for (start, end) in &other.ranges {
            self.live(*start, *end);
        }
        Ok(())
    }

    /// With the last heartbeat of the summary before, which may go on into this one.
    pub fn after(mut self, before: Option<&Self>) -> Result<Self, Error> {
        let Some(before) = before else {
            return Ok(self);
        };
        if before.end > self.start {
            return Err(Error::Overlap {
                kind: "heartbeat_agg",
            });
        }
        if let Some((_, until)) = before.ranges.last_key_value()
            && *until > self.start
        {
            self.live(self.start, *until);
        }
        Ok(self)
    }

    /// The ranges of life, cut at the end.
    pub fn live_ranges(&self) -> impl Iterator<Item = (i64, i64)> {
        self.ranges
            .iter()
            .map(|(start, end)| (*start, *end.min(&self.end)))
    }

    /// The ranges between them.
    pub fn dead_ranges(&self) -> Vec<(i64, i64)> {
        let mut dead = Vec::new();
        let mut at = self.start;
        for (start, end) in self.live_ranges() {
            if start > at {
                dead.push((at, start));
            }
            at = end;
        }
        if self.end > at {
            dead.push((at, self.end));
        }
        dead
    }

    /// How long it lived.
    pub fn uptime(&self) -> i64 {
        let live = self
            .live_ranges()
            .map(|(start, end)| end.saturating_sub(start));
        live.fold(0, i64::saturating_add)
    }

    /// How long it did not.
    pub fn downtime(&self) -> i64 {
        self.end
            .saturating_sub(self.start)
            .saturating_sub(self.uptime())
    }

    /// Whether it lived at a time.
    pub fn live_at(&self, time: i64) -> Result<bool, Error> {
        if time < self.start || time >= self.end {
            return Err(Error::Argument(
                "live_at: the time lies outside of the range of the summary".to_owned(),
            ));
        }
        let before = self.ranges.range(..=time).next_back();
        Ok(before.is_some_and(|(_, end)| time < *end))
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        self.ranges.len() * 40
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.i64(self.start);
        to.i64(self.end);
        to.i64(self.liveness);
        to.count(self.ranges.len());
        for (start, end) in &self.ranges {
            to.i64(*start);
            to.i64(*end);
        }
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        let (start, end, liveness) = (from.i64()?, from.i64()?, from.i64()?);
        let duration = end.checked_sub(start).ok_or(damaged("a range"))?;
        let mut read = Self::new(start, duration, liveness).map_err(|_| damaged("a range"))?;
        let mut at = None;
        for _ in 0..from.count(16)? {
            let (from, to) = (from.i64()?, from.i64()?);
            let is_apart = at.is_none_or(|at| from > at);
            if !is_apart || to <= from || from < start || from >= end {
                return Err(damaged("a range"));
            }
            at = Some(to);
            read.ranges.insert(from, to);
        }
        Ok(read)
    }
}
