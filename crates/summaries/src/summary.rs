//! A summary of any kind, to and from bytes.

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};
use crate::{
    Candlestick, Counter, Extremes, Flavour, Frequencies, Heartbeats, HyperLogLog, Moments, Pairs,
    States, TDigest, TimeWeight, UddSketch,
};

/// A summary.
#[derive(Debug, Clone, PartialEq)]
pub enum Summary {
    /// Moments of one variable.
    Moments(Moments),
    /// Moments of two variables.
    Pairs(Box<Pairs>),
    /// A counter or a gauge.
    Counter(Box<Counter>),
    /// A time-weighted mean.
    TimeWeight(TimeWeight),
    /// A candlestick.
    Candlestick(Box<Candlestick>),
    /// The largest or smallest values.
    Extremes(Extremes),
    /// A quantile sketch.
    UddSketch(Box<UddSketch>),
    /// A quantile sketch of the other sort.
    TDigest(TDigest),
    /// A count of distinct values.
    HyperLogLog(HyperLogLog),
    /// Frequent values.
    Frequencies(Box<Frequencies>),
    /// A timeline of states.
    States(Box<States>),
    /// Ranges of life.
    Heartbeats(Heartbeats),
}

/// What a summary is of, as its bytes say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `stats_agg(x)`.
    Moments = 1,
    /// `stats_agg(y, x)`.
    Pairs = 2,
    /// `counter_agg`.
    Counter = 3,
    /// `gauge_agg`.
    Gauge = 4,
    /// `time_weight`.
    TimeWeight = 5,
    /// `candlestick_agg`.
    Candlestick = 6,
    /// `max_n`, `min_n` and `..._by`.
    Extremes = 7,
    /// `uddsketch`.
    UddSketch = 8,
    /// `tdigest`.
    TDigest = 9,
    /// `hyperloglog`.
    HyperLogLog = 10,
    /// `freq_agg`, `topn_agg`.
    Frequencies = 11,
    /// `state_agg`, `compact_state_agg`.
    States = 12,
    /// `heartbeat_agg`.
    Heartbeats = 13,
}

impl Summary {
    /// What it is of.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Moments(_) => Kind::Moments,
            Self::Pairs(_) => Kind::Pairs,
            Self::Counter(it) if it.name() == "gauge_agg" => Kind::Gauge,
            Self::Counter(_) => Kind::Counter,
            Self::TimeWeight(_) => Kind::TimeWeight,
            Self::Candlestick(_) => Kind::Candlestick,
            Self::Extremes(_) => Kind::Extremes,
            Self::UddSketch(_) => Kind::UddSketch,
            Self::TDigest(_) => Kind::TDigest,
            Self::HyperLogLog(_) => Kind::HyperLogLog,
            Self::Frequencies(_) => Kind::Frequencies,
            Self::States(_) => Kind::States,
            Self::Heartbeats(_) => Kind::Heartbeats,
        }
    }

    /// The aggregate that makes it, as users know it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Moments(_) => "stats_agg",
            Self::Pairs(_) => "stats_agg of two variables",
            Self::Counter(it) => it.name(),
            Self::TimeWeight(_) => "time_weight",
            Self::Candlestick(_) => "candlestick_agg",
            Self::Extremes(it) => it.name(),
            Self::UddSketch(_) => "uddsketch",
            Self::TDigest(_) => "tdigest",
            Self::HyperLogLog(_) => "hyperloglog",
            Self::Frequencies(_) => "freq_agg",
            Self::States(it) => it.name(),
            Self::Heartbeats(_) => "heartbeat_agg",
        }
    }

    /// Where it begins, if it can be merged with what comes after it only.
    pub fn begins(&self) -> Option<i64> {
        match self {
            Self::Counter(it) => Some(it.first().time),
            Self::TimeWeight(it) => Some(it.first().time),
            Self::States(it) => Some(it.first()),
            _ => None,
        }
    }

    /// Takes another in, which comes after it where it has to.
    pub fn merge(&mut self, other: Self) -> Result<(), Error> {
        match (self, other) {
            (Self::Moments(one), Self::Moments(other)) => one.merge(&other),
            (Self::Pairs(one), Self::Pairs(other)) => one.merge(&other),
            (Self::Counter(one), Self::Counter(other)) => return one.append(&other),
            (Self::TimeWeight(one), Self::TimeWeight(other)) => return one.append(&other),
            (Self::Candlestick(one), Self::Candlestick(other)) => one.merge(&other),
            (Self::Extremes(one), Self::Extremes(other)) => return one.merge(other),
            (Self::UddSketch(one), Self::UddSketch(other)) => return one.merge(*other),
            (Self::TDigest(one), Self::TDigest(other)) => return one.merge(other),
            (Self::HyperLogLog(one), Self::HyperLogLog(other)) => return one.merge(&other),
            (Self::Frequencies(one), Self::Frequencies(other)) => return one.merge(&other),
            (Self::States(one), Self::States(other)) => return one.append(&other),
            (Self::Heartbeats(one), Self::Heartbeats(other)) => return one.merge(&other),
            (one, other) => {
                return Err(Error::Kinds {
                    one: one.name(),
                    other: other.name(),
                });
            }
        }
        Ok(())
    }

    /// Bytes held beside itself.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Moments(_) | Self::TimeWeight(_) => 0,
            Self::Pairs(_) => size_of::<Pairs>(),
            Self::Counter(_) => size_of::<Counter>(),
            Self::Candlestick(_) => size_of::<Candlestick>(),
            Self::Extremes(it) => it.bytes(),
            Self::UddSketch(it) => size_of::<UddSketch>() + it.bytes(),
            Self::TDigest(it) => it.bytes(),
            Self::HyperLogLog(it) => it.bytes(),
            Self::Frequencies(it) => size_of::<Frequencies>() + it.bytes(),
            Self::States(it) => size_of::<States>() + it.bytes(),
            Self::Heartbeats(it) => it.bytes(),
        }
    }

    /// The bytes that stand for it.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new(self.kind() as u8);
        match self {
            Self::Moments(it) => it.write(&mut to),
            Self::Pairs(it) => it.write(&mut to),
            Self::Counter(it) => it.write(&mut to),
            Self::TimeWeight(it) => it.write(&mut to),
            Self::Candlestick(it) => it.write(&mut to),
            Self::Extremes(it) => it.write(&mut to),
            Self::UddSketch(it) => it.write(&mut to),
            Self::TDigest(it) => it.write(&mut to),
            Self::HyperLogLog(it) => it.write(&mut to),
            Self::Frequencies(it) => it.write(&mut to),
            Self::States(it) => it.write(&mut to),
            Self::Heartbeats(it) => it.write(&mut to),
        }
        to.finish()
    }

    /// What bytes stand for.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (kind, mut from) = Reader::open(bytes)?;
        let from = &mut from;
        let read = match kind {
            1 => Self::Moments(Moments::read(from)?),
            2 => Self::Pairs(Box::new(Pairs::read(from)?)),
            3 => Self::Counter(Box::new(Counter::read(Flavour::Counter, from)?)),
            4 => Self::Counter(Box::new(Counter::read(Flavour::Gauge, from)?)),
            5 => Self::TimeWeight(TimeWeight::read(from)?),
            6 => Self::Candlestick(Box::new(Candlestick::read(from)?)),
            7 => Self::Extremes(Extremes::read(from)?),
            8 => Self::UddSketch(Box::new(UddSketch::read(from)?)),
            9 => Self::TDigest(TDigest::read(from)?),
            10 => Self::HyperLogLog(HyperLogLog::read(from)?),
            11 => Self::Frequencies(Box::new(Frequencies::read(from)?)),
            12 => Self::States(Box::new(States::read(from)?)),
            13 => Self::Heartbeats(Heartbeats::read(from)?),
            _ => return Err(damaged("its kind")),
        };
        from.end()?;
        Ok(read)
    }
}
