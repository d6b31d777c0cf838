//! Candlesticks: `candlestick_agg`, `ohlc`, `candlestick`.
//!
//! Rows may come in any order. Of prices at one time the first that came opens and closes; of equal extremes the earliest is
//! kept.

use std::cmp::Ordering;

use crate::Sample;
use crate::bytes::{Reader, Writer};
use crate::error::Error;
use crate::scalar::order;

/// The first, highest, lowest and last price of a range of time, and what was traded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candlestick {
    open: Sample,
    high: Sample,
    low: Sample,
    close: Sample,
    /// The volume, and the sum of price times volume; none once a volume was missing.
    traded: Option<(f64, f64)>,
}

impl Candlestick {
    /// One trade.
    pub fn of_tick(tick: Sample, volume: Option<f64>) -> Self {
        Self {
            open: tick,
            high: tick,
            low: tick,
            close: tick,
            traded: volume.map(|volume| (volume, volume * tick.value)),
        }
    }

    /// A candlestick that was made elsewhere: open, high, low and close at one time. The volume is taken to have been
    /// traded at the typical price, the mean of high, low and close.
    pub fn of_prices(time: i64, prices: [f64; 4], volume: Option<f64>) -> Self {
        let [open, high, low, close] = prices.map(|value| Sample { time, value });
        let typical = (high.value + low.value + close.value) / 3.0;
        Self {
            open,
            high,
            low,
            close,
            traded: volume.map(|volume| (volume, volume * typical)),
        }
    }

    /// Takes another in.
    pub fn merge(&mut self, other: &Self) {
        if other.open.time < self.open.time {
            self.open = other.open;
        }
        if other.close.time > self.close.time {
            self.close = other.close;
        }
        let is_before = |one: Sample, other: Sample| one.time < other.time;
        match order(other.high.value, self.high.value) {
            Ordering::Greater => self.high = other.high,
            Ordering::Equal if is_before(other.high, self.high) => self.high = other.high,
            _ => {}
        }
        match order(other.low.value, self.low.value) {
            Ordering::Less => self.low = other.low,
            Ordering::Equal if is_before(other.low, self.low) => self.low = other.low,
            _ => {}
        }
        self.traded = match (self.traded, other.traded) {
            (Some(one), Some(other)) => Some((one.0 + other.0, one.1 + other.1)),
            _ => None,
        };
    }

    /// The first price.
    pub fn open(&self) -> Sample {
        self.open
    }

    /// The highest price.
    pub fn high(&self) -> Sample {
        self.high
    }

    /// The lowest price.
    pub fn low(&self) -> Sample {
        self.low
    }

    /// The last price.
    pub fn close(&self) -> Sample {
        self.close
    }

    /// What was traded, if every row says it.
    pub fn volume(&self) -> Option<f64> {
        self.traded.map(|(volume, _)| volume)
    }

    /// The mean price, weighted by volume.
    pub fn vwap(&self) -> Option<f64> {
        let (volume, value) = self.traded?;
        (volume > 0.0 && value.is_finite()).then(|| value / volume)
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        for sample in [self.open, self.high, self.low, self.close] {
            to.i64(sample.time);
            to.f64(sample.value);
        }
        to.u8(u8::from(self.traded.is_some()));
        if let Some((volume, value)) = self.traded {
            to.f64(volume);
            to.f64(value);
        }
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        let mut sample = || -> Result<Sample, Error> {
            Ok(Sample {
                time: from.i64()?,
                value: from.f64()?,
            })
        };
        Ok(Self {
            open: sample()?,
            high: sample()?,
            low: sample()?,
            close: sample()?,
            traded: from.optional(|from| Ok((from.f64()?, from.f64()?)))?,
        })
    }
}
