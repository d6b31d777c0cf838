//! The unit of the timestamps in a request, as the three generations of the HTTP API spell it.

use crate::{TIME_NS_MAX, TIME_NS_MIN};

const SECOND_NS: i64 = 1_000_000_000;

/// The unit of a request's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Precision {
    /// 1 ns, what every API assumes when nothing is said, except the third.
    #[default]
    Nanosecond,
    /// 1 000 ns.
    Microsecond,
    /// 1 000 000 ns.
    Millisecond,
    /// 1 000 000 000 ns.
    Second,
    /// 60 s, in the first API only.
    Minute,
    /// 3600 s, in the first API only.
    Hour,
    /// Each timestamp's size tells its unit, in the third API only; see [`Precision::of`].
    Auto,
}

impl Precision {
    /// Reads the `precision` parameter of `/write`. `us` and the Greek letter are refused there.
    pub fn from_v1(text: &str) -> Option<Self> {
        match text {
            "" | "n" | "ns" => Some(Self::Nanosecond),
            "u" => Some(Self::Microsecond),
            "ms" => Some(Self::Millisecond),
            "s" => Some(Self::Second),
            "m" => Some(Self::Minute),
            "h" => Some(Self::Hour),
            _ => None,
        }
    }

    /// Reads the `precision` parameter of `/api/v2/write`. The caller decides what its absence means.
    pub fn from_v2(text: &str) -> Option<Self> {
        match text {
            "ns" => Some(Self::Nanosecond),
            "us" => Some(Self::Microsecond),
            "ms" => Some(Self::Millisecond),
            "s" => Some(Self::Second),
            _ => None,
        }
    }

    /// Reads the `precision` parameter of `/api/v3/write_lp`, whose default is `auto`.
    pub fn from_v3(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Self::Auto),
            "nanosecond" | "ns" | "n" => Some(Self::Nanosecond),
            "microsecond" | "us" | "u" => Some(Self::Microsecond),
            "millisecond" | "ms" => Some(Self::Millisecond),
            "second" | "s" => Some(Self::Second),
            _ => None,
        }
    }

    /// Nanoseconds in one unit. [`Precision::Auto`] has no unit of its own and says 1, so that truncating to it is no change.
    pub fn multiplier(self) -> i64 {
        match self {
            Self::Nanosecond | Self::Auto => 1,
            Self::Microsecond => 1_000,
            Self::Millisecond => 1_000_000,
            Self::Second => SECOND_NS,
            Self::Minute => 60 * SECOND_NS,
            Self::Hour => 3_600 * SECOND_NS,
        }
    }

    /// The unit that `timestamp` is in: itself, or for [`Precision::Auto`] what InfluxDB 3 takes a number of that size for.
    /// Seconds up to the year 2128 are below 5e9, milliseconds of the same years below 5e12, microseconds below 5e15.
    #[must_use]
    pub fn of(self, timestamp: i64) -> Self {
        if self != Self::Auto {
            return self;
        }
        match timestamp.unsigned_abs() {
            0..5_000_000_000 => Self::Second,
            5_000_000_000..5_000_000_000_000 => Self::Millisecond,
            5_000_000_000_000..5_000_000_000_000_000 => Self::Microsecond,
            _ => Self::Nanosecond,
        }
    }

    /// `timestamp` in nanoseconds, or `None` where that is not a time a point may have.
    pub fn nanoseconds(self, timestamp: i64) -> Option<i64> {
        timestamp
            .checked_mul(self.of(timestamp).multiplier())
            .filter(|time_ns| (TIME_NS_MIN..=TIME_NS_MAX).contains(time_ns))
    }

    /// Cuts a time in nanoseconds down to a whole unit: what a point without a timestamp gets from the server's clock.
    pub fn truncate(self, time_ns: i64) -> i64 {
        time_ns - time_ns % self.multiplier()
    }
}
