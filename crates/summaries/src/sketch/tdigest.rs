//! Quantile sketch that is finest at the ends: `tdigest`.
//!
//! Dunning and Ertl: "Computing Extremely Accurate Quantiles Using t-Digests", 2019, the merging digest, with the quadratic
//! scale of folly's `TDigest` (Apache-2.0) that `TimescaleDB`'s has too. Values are gathered and merged many at once. What is
//! not a number does not count.

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};
use crate::scalar::order;

/// Centroids that one digest may ask for.
const SIZE_MAX: usize = 10_000;

/// Values that are gathered before they are merged, for each centroid.
const GATHERED_TIMES: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Centroid {
    mean: f64,
    weight: u64,
}

/// Means of neighbouring values.
#[derive(Debug, Clone, PartialEq)]
pub struct TDigest {
    size: usize,
    centroids: Vec<Centroid>,
    gathered: Vec<f64>,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

/// Up to which share of the values the centroid of a number goes.
fn share_of(number: f64, size: f64) -> f64 {
    let part = number / size;
    if part >= 0.5 {
        let rest = 1.0 - part;
        1.0 - 2.0 * rest * rest
    } else {
        2.0 * part * part
    }
}

impl TDigest {
    /// Without values.
    pub fn new(size: i64) -> Result<Self, Error> {
        let count = usize::try_from(size).ok();
        let Some(size) = count.filter(|count| (1..=SIZE_MAX).contains(count)) else {
            return Err(Error::Argument(format!(
                "tdigest: buckets are from 1 to {SIZE_MAX}, not {size}"
            )));
        };
        Ok(Self {
            size,
            centroids: Vec::new(),
            gathered: Vec::new(),
            count: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
        })
    }

    /// Takes a value in.
    pub fn add(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        self.count = self.count.saturating_add(1);
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.gathered.push(value);
        if self.gathered.len() >= self.size * GATHERED_TIMES {
            self.settle();
        }
    }

    /// Merges what was gathered.
    pub fn settle(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let gathered = std::mem::take(&mut self.gathered).into_iter();
        let mut all = std::mem::take(&mut self.centroids);
        all.extend(gathered.map(|mean| Centroid { mean, weight: 1 }));
        self.compress(all);
    }

    fn compress(&mut self, mut all: Vec<Centroid>) {
        all.sort_by(|one, other| order(one.mean, other.mean));
        let weights = all.iter().map(|centroid| centroid.weight);
        let count = weights.fold(0, u64::saturating_add);
        let limit = |number: f64| share_of(number, self.size as f64) * count as f64;
        let mut number = 1.0;
        let mut up_to = limit(number);
        let mut done = 0u64;
        let mut compressed: Vec<Centroid> = Vec::new();
        for next in all {
            done = done.saturating_add(next.weight);
            match compressed.last_mut() {
                Some(last) if done as f64 <= up_to => {
                    last.weight = last.weight.saturating_add(next.weight);
                    let share = next.weight as f64 / last.weight as f64;
                    // Infinite means stay what they are.
                    if last.mean.is_finite() {
                        last.mean += (next.mean - last.mean) * share;
                    }
                }
                Some(_) => {
                    number += 1.0;
                    up_to = limit(number);
                    compressed.push(next);
                }
                None => compressed.push(next),
            }
        }
        self.centroids = compressed;
    }

    /// Takes in what was counted elsewhere.
    pub fn merge(&mut self, mut other: Self) -> Result<(), Error> {
        if self.size != other.size {
            return Err(Error::Parameters {
                what: "numbers of buckets",
                one: self.size.to_string(),
                other: other.size.to_string(),
            });
        }
        if other.count == 0 {
            return Ok(());
        }
        self.settle();
        other.settle();
        let mut all = std::mem::take(&mut self.centroids);
        all.append(&mut other.centroids);
        self.compress(all);
        self.count = self.count.saturating_add(other.count);
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        Ok(())
    }

    /// The value that this share of the values is not above.
    pub fn quantile(&mut self, share: f64) -> Option<f64> {
        self.settle();
        let last = self.centroids.len().checked_sub(1)?;
        if share <= 0.0 {
            return Some(self.min);
        }
        if share >= 1.0 {
            return Some(self.max);
        }
        let rank = share * self.count as f64;
        let mut before = 0.0;
        let mut at = last;
        for (place, centroid) in self.centroids.iter().enumerate() {
            if rank < before + centroid.weight as f64 || place == last {
                at = place;
                break;
            }
            before += centroid.weight as f64;
        }
        let mean = |place: usize| self.centroids.get(place).map(|it| it.mean);
        let (one, left, right) = (
            self.centroids.get(at)?,
            at.checked_sub(1).and_then(mean),
            mean(at + 1),
        );
        let (delta, low, high) = match (left, right) {
            (None, None) => (0.0, self.min, self.max),
            (None, Some(right)) => (right - one.mean, self.min, right),
            (Some(left), None) => (one.mean - left, left, self.max),
            (Some(left), Some(right)) => ((right - left) / 2.0, left, right),
        };
        let inside = (rank - before) / one.weight as f64 - 0.5;
        let value = one.mean + inside * delta;
        Some(if value.is_nan() {
            one.mean
        } else {
            value.max(low).min(high)
        })
    }

    /// The share of the values that are below a value.
    pub fn rank(&mut self, value: f64) -> Option<f64> {
        self.settle();
        if self.count == 0 {
            return None;
        }
        if value < self.min {
            return Some(0.0);
        }
        if value > self.max {
            return Some(1.0);
        }
        // Half of a centroid's values are on either side of its mean, and between two means they are spread evenly.
        let (mut at, mut share) = (self.min, 0.0);
        let mut before = 0.0;
        let total = self.count as f64;
        for centroid in &self.centroids {
            let middle = before + centroid.weight as f64 / 2.0;
            before += centroid.weight as f64;
            if value < centroid.mean {
                let part = (value - at) / (centroid.mean - at);
                return Some((share + (middle - share) * part) / total);
            }
            (at, share) = (centroid.mean, middle);
        }
        let part = if self.max > at {
            (value - at) / (self.max - at)
        } else {
            0.0
        };
        Some((share + (total - share) * part) / total)
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean of the values, which is exact.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }

    /// The smallest value.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.centroids.capacity() * size_of::<Centroid>() + self.gathered.capacity() * 8
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        let mut settled = self.clone();
        settled.settle();
        to.count(settled.size);
        to.u64(settled.count);
        for value in [settled.sum, settled.min, settled.max] {
            to.f64(value);
        }
        to.count(settled.centroids.len());
        for centroid in &settled.centroids {
            to.f64(centroid.mean);
            to.u64(centroid.weight);
        }
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        let size = i64::try_from(from.u64()?).map_err(|_| damaged("a size"))?;
        let mut read = Self::new(size).map_err(|_| damaged("a size"))?;
        read.count = from.u64()?;
        read.sum = from.f64()?;
        read.min = from.f64()?;
        read.max = from.f64()?;
        let count = from.count(16)?;
        let mut weights = 0u64;
        for _ in 0..count {
            let centroid = Centroid {
                mean: from.f64()?,
                weight: from.u64()?,
            };
            weights = weights
                .checked_add(centroid.weight)
                .filter(|all| *all < 1 << 62)
                .ok_or(damaged("a count"))?;
            if centroid.weight == 0 || centroid.mean.is_nan() {
                return Err(damaged("a centroid"));
            }
            read.centroids.push(centroid);
        }
        let is_sorted = read
            .centroids
            .is_sorted_by(|one, other| one.mean <= other.mean);
        if weights != read.count || !is_sorted {
            return Err(damaged("a count"));
        }
        Ok(read)
    }
}
