//! Summaries of rows: the states of two-step aggregates (counters, time-weighted means, moments, sketches, timelines).
//!
//! Does: take rows in, merge summaries, answer questions about them, and turn each into bytes that say what they are and are
//! checked when they are read. Does not: know SQL, types of columns or limits of a query (the query engine does).
//! Next: docs/format/summary.md for the bytes, [`Summary`] for the kinds.

mod bytes;
mod candlestick;
mod counter;
mod error;
mod extremes;
mod heartbeats;
mod moments;
pub mod rows;
mod scalar;
mod sketch;
mod smooth;
mod states;
mod summary;
mod time_weight;

pub use candlestick::Candlestick;
pub use counter::{Counter, Flavour};
pub use error::Error;
pub use extremes::{End, Extremes};
pub use heartbeats::Heartbeats;
pub use moments::{Basis, Moments, Pairs};
pub use scalar::{Scalar, ScalarKind};
pub use sketch::frequencies::{Frequencies, Frequency};
pub use sketch::hyperloglog::HyperLogLog;
pub use sketch::tdigest::TDigest;
pub use sketch::uddsketch::UddSketch;
pub use smooth::asap;
pub use states::{Period, States};
pub use summary::{Kind, Summary};
pub use time_weight::{Method, TimeWeight};

/// A time in nanoseconds since 1970, or in whatever an integer time counts, and the value at it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// The time.
    pub time: i64,
    /// The value.
    pub value: f64,
}

impl Sample {
    /// From one time to another, which may be further apart than an `i64` can say.
    fn since(self, other: Self) -> f64 {
        difference(self.time, other.time)
    }

    /// The value at a time on the line through two samples.
    fn on_line(self, other: Self, time: i64) -> f64 {
        let share = difference(time, self.time) / other.since(self);
        self.value + (other.value - self.value) * share
    }
}

/// `later - earlier` in the unit of the times.
fn difference(later: i64, earlier: i64) -> f64 {
    (i128::from(later) - i128::from(earlier)) as f64
}

/// Nanoseconds in a second.
const SECOND: f64 = 1e9;
