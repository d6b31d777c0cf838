//! Time-weighted means: `time_weight`.
//!
//! Does: integrate values over the time between them, each kept until the next (LOCF) or on straight lines (Linear). Does
//! not: sort; values come in the order of their times, and of those at one time the first counts.

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};
use crate::{Sample, difference};

/// What a value is between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// The last one.
    Locf,
    /// On the line from one to the other.
    Linear,
}

impl Method {
    /// By its name in SQL.
    pub fn named(name: &str) -> Result<Self, Error> {
        match name.to_ascii_lowercase().as_str() {
            "linear" | "trapezoidal" => Ok(Self::Linear),
            "locf" => Ok(Self::Locf),
            _ => Err(Error::Argument(format!(
                "time_weight: the method is 'Linear' or 'LOCF', not {name:?}"
            ))),
        }
    }

    fn area(self, from: Sample, to: Sample) -> f64 {
        let height = match self {
            Self::Locf => from.value,
            // Not the half of the sum, which may be too large.
            Self::Linear => from.value / 2.0 + to.value / 2.0,
        };
        height * to.since(from)
    }
}

/// The integral of values over a range of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeWeight {
    method: Method,
    first: Sample,
    last: Sample,
    /// In values times nanoseconds.
    area: f64,
}

impl TimeWeight {
    /// One value.
    pub fn new(method: Method, sample: Sample) -> Self {
        Self {
            method,
            first: sample,
            last: sample,
            area: 0.0,
        }
    }

    /// Takes in the next value in the order of time.
    pub fn add(&mut self, sample: Sample) {
        if sample.time > self.last.time {
            self.area += self.method.area(self.last, sample);
            self.last = sample;
        }
    }

    /// Takes in what comes after it.
    pub fn append(&mut self, later: &Self) -> Result<(), Error> {
        if self.method != later.method {
            return Err(Error::Parameters {
                what: "method",
                one: format!("{:?}", self.method),
                other: format!("{:?}", later.method),
            });
        }
        if later.first.time <= self.last.time {
            return Err(Error::Overlap {
                kind: "time_weight",
            });
        }
        self.area += self.method.area(self.last, later.first) + later.area;
        self.last = later.last;
        Ok(())
    }

    /// The first value.
    pub fn first(&self) -> Sample {
        self.first
    }

    /// The last value.
    pub fn last(&self) -> Sample {
        self.last
    }

    /// The time-weighted mean; none of a single value, which has no duration.
    pub fn average(&self) -> Option<f64> {
        let duration = self.last.since(self.first);
        (duration > 0.0).then(|| self.area / duration)
    }

    /// The integral, in values times nanoseconds.
    pub fn integral(&self) -> f64 {
        self.area
    }

    /// The same from one time to another, with what the ranges before and after say about the ends.
    pub fn interpolated(
        &self,
        from: i64,
        to: i64,
        before: Option<&Self>,
        after: Option<&Self>,
    ) -> Result<Self, Error> {
        let overlap = Error::Overlap {
            kind: "time_weight",
        };
        let mut whole = *self;
        if let Some(before) = before.filter(|_| self.first.time > from) {
            if before.last.time >= self.first.time || before.last.time > from {
                return Err(overlap);
            }
            let value = match self.method {
                Method::Locf => before.last.value,
                Method::Linear => before.last.on_line(self.first, from),
            };
            let start = Sample { time: from, value };
            whole.area += self.method.area(start, self.first);
            whole.first = start;
        }
        let value = match (self.method, after) {
            _ if self.last.time >= to => None,
            (_, Some(after)) if after.first.time <= self.last.time || after.first.time < to => {
                return Err(overlap);
            }
            (Method::Locf, _) => Some(self.last.value),
            (Method::Linear, Some(after)) => Some(self.last.on_line(after.first, to)),
            (Method::Linear, None) => None,
        };
        if let Some(value) = value {
            let end = Sample { time: to, value };
            whole.area += self.method.area(self.last, end);
            whole.last = end;
        }
        Ok(whole)
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.u8(u8::from(self.method == Method::Linear));
        for sample in [self.first, self.last] {
            to.i64(sample.time);
            to.f64(sample.value);
        }
        to.f64(self.area);
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        let method = if from.flag()? {
            Method::Linear
        } else {
            Method::Locf
        };
        let mut sample = || -> Result<Sample, Error> {
            Ok(Sample {
                time: from.i64()?,
                value: from.f64()?,
            })
        };
        let (first, last) = (sample()?, sample()?);
        if difference(last.time, first.time) < 0.0 {
            return Err(damaged("times that are out of order"));
        }
        Ok(Self {
            method,
            first,
            last,
            area: from.f64()?,
        })
    }
}
