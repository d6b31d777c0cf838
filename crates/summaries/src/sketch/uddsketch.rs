//! Quantile sketch with a relative error: `uddsketch`, `percentile_agg`.
//!
//! Epicoco, Melle, Cafaro, Pulimeno, Morleo: "`UDDSketch`: Accurate Tracking of Quantiles in Data Streams", 2020. Buckets are as
//! wide as their values are large, so a quantile is off by at most [`UddSketch::error`] of itself; when there are too many
//! buckets, each two become one and the error grows. The order of the rows changes nothing. What is not a number does not
//! count; infinite values have buckets of their own.

use std::collections::BTreeMap;

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};

/// Buckets that one sketch may ask for: 256 KiB of them.
const BUCKETS_MAX: usize = 16_384;

/// Compactions after which every value that a `double` can have is in one bucket.
const COMPACTIONS_MAX: u8 = 64;

/// Counts of values in buckets.
#[derive(Debug, Clone, PartialEq)]
pub struct UddSketch {
    buckets_max: usize,
    /// As it was asked for.
    first_error: f64,
    error: f64,
    compactions: u8,
    count: u64,
    sum: f64,
    below: BTreeMap<i64, u64>,
    zeros: u64,
    above: BTreeMap<i64, u64>,
    /// Infinite values: negative, positive.
    infinite: [u64; 2],
}

/// Where a quantile is looked for, from the smallest value on.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Place {
    NegativeInfinity,
    /// The negated bucket of the absolute value.
    Below(i64),
    Zero,
    Above(i64),
    Infinity,
}

impl UddSketch {
    /// Without values.
    pub fn new(buckets_max: i64, error: f64) -> Result<Self, Error> {
        let count = usize::try_from(buckets_max).ok();
        let Some(buckets) = count.filter(|count| (1..=BUCKETS_MAX).contains(count)) else {
            return Err(Error::Argument(format!(
                "uddsketch: size is the number of buckets, from 1 to {BUCKETS_MAX}, not {buckets_max}"
            )));
        };
        if !(1e-12..1.0).contains(&error) {
            return Err(Error::Argument(format!(
                "uddsketch: max_error is a share from 1e-12 to below 1, not {error}"
            )));
        }
        Ok(Self {
            buckets_max: buckets,
            first_error: error,
            error,
            compactions: 0,
            count: 0,
            sum: 0.0,
            below: BTreeMap::new(),
            zeros: 0,
            above: BTreeMap::new(),
            infinite: [0; 2],
        })
    }

    fn gamma(&self) -> f64 {
        (1.0 + self.error) / (1.0 - self.error)
    }

    fn place(&self, value: f64) -> Place {
        if value == f64::INFINITY {
            return Place::Infinity;
        }
        if value == f64::NEG_INFINITY {
            return Place::NegativeInfinity;
        }
        if value == 0.0 {
            return Place::Zero;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "logarithms of doubles to a base above 1 + 1e-12 are below 2^50"
        )]
        let bucket = (value.abs().ln() / self.gamma().ln()).ceil() as i64;
        if value < 0.0 {
            Place::Below(-bucket)
        } else {
            Place::Above(bucket)
        }
    }

    fn value(&self, place: Place) -> f64 {
        let middle = |bucket: i64| self.gamma().powf(bucket as f64 - 1.0) * (1.0 + self.error);
        match place {
            Place::NegativeInfinity => f64::NEG_INFINITY,
            Place::Below(bucket) => -middle(-bucket),
            Place::Zero => 0.0,
            Place::Above(bucket) => middle(bucket),
            Place::Infinity => f64::INFINITY,
        }
    }

    /// Takes a value in.
    pub fn add(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        let count = match self.place(value) {
            Place::NegativeInfinity => &mut self.infinite[0],
            Place::Below(bucket) => self.below.entry(-bucket).or_default(),
            Place::Zero => &mut self.zeros,
            Place::Above(bucket) => self.above.entry(bucket).or_default(),
            Place::Infinity => &mut self.infinite[1],
        };
        *count = count.saturating_add(1);
        self.count = self.count.saturating_add(1);
        self.sum += value;
        self.shrink();
    }

    fn buckets(&self) -> usize {
        self.below.len() + self.above.len() + usize::from(self.zeros > 0)
    }

    fn shrink(&mut self) {
        while self.buckets() > self.buckets_max && self.compactions < COMPACTIONS_MAX {
            self.compact();
        }
    }

    /// Makes one bucket of each two; the error becomes 2a / (1 + a^2).
    fn compact(&mut self) {
        for side in [&mut self.below, &mut self.above] {
            let mut halved = BTreeMap::new();
            for (bucket, count) in std::mem::take(side) {
                let place: &mut u64 = halved.entry((bucket + 1).div_euclid(2)).or_default();
                *place = place.saturating_add(count);
            }
            *side = halved;
        }
        self.error = 2.0 * self.error / (1.0 + self.error * self.error);
        self.compactions += 1;
    }

    /// Takes in what was counted elsewhere.
    pub fn merge(&mut self, mut other: Self) -> Result<(), Error> {
        if self.buckets_max != other.buckets_max {
            return Err(Error::Parameters {
                what: "sizes",
                one: self.buckets_max.to_string(),
                other: other.buckets_max.to_string(),
            });
        }
        if self.first_error.to_bits() != other.first_error.to_bits() {
            return Err(Error::Parameters {
                what: "errors",
                one: self.first_error.to_string(),
                other: other.first_error.to_string(),
            });
        }
        while self.compactions < other.compactions {
            self.compact();
        }
        while other.compactions < self.compactions {
            other.compact();
        }
        for (side, more) in [
            (&mut self.below, other.below),
            (&mut self.above, other.above),
        ] {
            for (bucket, count) in more {
                let place = side.entry(bucket).or_default();
                *place = place.saturating_add(count);
            }
        }
        self.zeros = self.zeros.saturating_add(other.zeros);
        for (count, more) in self.infinite.iter_mut().zip(other.infinite) {
            *count = count.saturating_add(more);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
        self.shrink();
        Ok(())
    }

    fn places(&self) -> impl Iterator<Item = (Place, u64)> {
        let ends = [
            (Place::NegativeInfinity, self.infinite[0]),
            (Place::Zero, self.zeros),
            (Place::Infinity, self.infinite[1]),
        ];
        let [low, zero, high] = ends;
        let below = self.below.iter().rev();
        let below = below.map(|(bucket, count)| (Place::Below(-bucket), *count));
        let above = self.above.iter();
        let above = above.map(|(bucket, count)| (Place::Above(*bucket), *count));
        let all = [low].into_iter().chain(below).chain([zero]);
        all.chain(above)
            .chain([high])
            .filter(|(_, count)| *count > 0)
    }

    /// The value that this share of the values is not above.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a share of a count, rounded down"
        )]
        let mut left = ((self.count as f64 * share) as u64).saturating_add(1);
        let mut last = None;
        for (place, count) in self.places() {
            last = Some(place);
            if left <= count {
                break;
            }
            left -= count;
        }
        last.map(|place| self.value(place))
    }

    /// The share of the values that are below a value.
    pub fn rank(&self, value: f64) -> Option<f64> {
        if self.count == 0 {
            return None;
        }
        let target = self.place(value);
        let mut below = 0.0;
        for (place, count) in self.places() {
            if place < target {
                below += count as f64;
            } else if place == target {
                // Half of those in its bucket.
                below += count as f64 / 2.0;
            }
        }
        Some(below / self.count as f64)
    }

    /// What a quantile may be off by, as a share of itself.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean of the values, which is exact.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        // A node of the tree has 11 places and is half full at least.
        (self.below.len() + self.above.len()) * 40
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.count(self.buckets_max);
        to.f64(self.first_error);
        to.u8(self.compactions);
        to.f64(self.sum);
        to.u64(self.zeros);
        for count in self.infinite {
            to.u64(count);
        }
        for side in [&self.below, &self.above] {
            to.count(side.len());
            for (bucket, count) in side {
                to.i64(*bucket);
                to.u64(*count);
            }
        }
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        let buckets_max = i64::try_from(from.u64()?).map_err(|_| damaged("a size"))?;
        let error = from.f64()?;
        let mut read = Self::new(buckets_max, error).map_err(|_| damaged("a size"))?;
        let compactions = from.u8()?;
        if compactions > COMPACTIONS_MAX {
            return Err(damaged("a size"));
        }
        for _ in 0..compactions {
            read.compact();
        }
        read.sum = from.f64()?;
        read.zeros = from.u64()?;
        read.infinite = [from.u64()?, from.u64()?];
        for is_above in [false, true] {
            let count = from.count(16)?;
            let mut side = BTreeMap::new();
            for _ in 0..count {
                let (bucket, count) = (from.i64()?, from.u64()?);
                // Far beyond every double, and far from what the next bucket would overflow at.
                if count == 0 || bucket.unsigned_abs() > 1 << 52 {
                    return Err(damaged("a bucket"));
                }
                if side.insert(bucket, count).is_some() {
                    return Err(damaged("a bucket"));
                }
            }
            if is_above {
                read.above = side;
            } else {
                read.below = side;
            }
        }
        let all = read
            .places()
            .map(|(_, count)| count)
            .try_fold(0u64, u64::checked_add);
        read.count = all.filter(|all| *all < 1 << 62).ok_or(damaged("a count"))?;
        if read.buckets() > read.buckets_max {
            return Err(damaged("a count"));
        }
        Ok(read)
    }
}
