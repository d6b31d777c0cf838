//! Most frequent values: `freq_agg`, `topn_agg`, `mcv_agg`.
//!
//! Metwally, Agrawal and El Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data Streams" (Space-Saving),
//! 2005. As many values as fit are counted; one that does not fit takes the place of the least frequent and its count, which is
//! then how much the count may be too high. Merging is that of Agarwal and others, "Mergeable Summaries", 2012.

use std::collections::{BTreeSet, HashMap};

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};
use crate::scalar::{SCALAR_BYTES_MIN, Scalar, ScalarKind};

/// Values that one summary counts.
const COUNTED_MAX: usize = 100_000;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Count {
    times: u64,
    /// By how much the count may be too high.
    over: u64,
    /// When the value came, so that of equally frequent ones the newest goes.
    since: u64,
}

/// Counts of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Frequencies {
    /// The least frequency that is shown, or none where the most frequent are asked for.
    least: Option<f64>,
    /// How many of the most frequent are shown.
    top: usize,
    counted_max: usize,
    total: u64,
    came: u64,
    counts: HashMap<Scalar, Count>,
    /// (count, how early it came, hash): the first is the next to go.
    order: BTreeSet<(u64, std::cmp::Reverse<u64>)>,
    by_since: HashMap<u64, Scalar>,
    bytes: usize,
}

/// A value with its frequencies.
#[derive(Debug, Clone, PartialEq)]
pub struct Frequency {
    /// The value.
    pub value: Scalar,
    /// The least share of all values that it has.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Frequencies {
    fn sized(least: Option<f64>, top: usize, counted_max: usize) -> Result<Self, Error> {
        if counted_max > COUNTED_MAX {
            return Err(Error::Argument(format!(
                "{counted_max} values would be counted, at most {COUNTED_MAX} are: ask for fewer, or for a higher frequency"
            )));
        }
        Ok(Self {
            least,
            top,
            counted_max,
            total: 0,
            came: 0,
            counts: HashMap::new(),
            order: BTreeSet::new(),
            by_since: HashMap::new(),
            bytes: 0,
        })
    }

    /// Of values that are at least this share of all.
    pub fn above(least: f64) -> Result<Self, Error> {
        if !(least > 0.0 && least < 1.0) {
            return Err(Error::Argument(format!(
                "freq_agg: the least frequency is above 0 and below 1, not {least}"
            )));
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what is too many is refused"
        )]
        let counted_max = (1.0 / least) as usize + 1;
        Self::sized(Some(least), 0, counted_max)
    }

    /// Of the so many most frequent values, whose frequencies fall like a zeta distribution with this exponent.
    pub fn top(top: i64, skew: f64) -> Result<Self, Error> {
        let Some(top) = usize::try_from(top).ok().filter(|top| *top > 0) else {
            return Err(Error::Argument(format!(
                "topn_agg: the number of values is 1 or more, not {top}"
            )));
        };
        if !(skew > 1.0 && skew.is_finite()) {
            return Err(Error::Argument(format!(
                "topn_agg: the skew is above 1, not {skew}"
            )));
        }
        if top > COUNTED_MAX {
            return Self::sized(None, top, top);
        }
        // The share that the last of them has of all values that are not before it.
        let zeta = zeta(skew);
        let terms = (1..top).map(|place| (place as f64).powf(-skew) / zeta);
        let before: f64 = terms.sum();
        let share = (top as f64).powf(-skew) / zeta / (1.0 - before);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "what is too many is refused"
        )]
        let counted_max = top + (1.0 / share.max(1e-9)) as usize;
        Self::sized(None, top, counted_max)
    }

    /// Takes a value in.
    pub fn add(&mut self, value: Scalar) {
        self.total = self.total.saturating_add(1);
        if let Some(count) = self.counts.get_mut(&value) {
            self.order
                .remove(&(count.times, std::cmp::Reverse(count.since)));
            count.times = count.times.saturating_add(1);
            self.order
                .insert((count.times, std::cmp::Reverse(count.since)));
            return;
        }
        let mut over = 0;
        if self.counts.len() >= self.counted_max
            && let Some((count, since)) = self.order.pop_first()
            && let Some(gone) = self.by_since.remove(&since.0)
        {
            self.bytes -= 2 * gone.bytes();
            self.counts.remove(&gone);
            over = count;
        }
        self.put(value, over.saturating_add(1), over);
    }

    fn put(&mut self, value: Scalar, count: u64, over: u64) {
        let since = self.came;
        self.came += 1;
        self.bytes += 2 * value.bytes();
        self.order.insert((count, std::cmp::Reverse(since)));
        self.by_since.insert(since, value.clone());
        self.counts.insert(
            value,
            Count {
                times: count,
                over,
                since,
            },
        );
    }

    /// What a value that is not counted may have had.
    fn missed(&self) -> u64 {
        if self.counts.len() < self.counted_max {
            return 0;
        }
        self.order.first().map_or(0, |(count, _)| *count)
    }

    /// Takes in what was counted elsewhere.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        let is_alike = self.counted_max == other.counted_max
            && self.top == other.top
            && self.least.map(f64::to_bits) == other.least.map(f64::to_bits);
        if !is_alike {
            return Err(Error::Parameters {
                what: "numbers of counted values",
                one: self.counted_max.to_string(),
                other: other.counted_max.to_string(),
            });
        }
        if let (Some(one), Some(other)) = (self.value_kind(), other.value_kind())
            && one != other
        {
            return Err(Error::Parameters {
                what: "values of type",
                one: one.name().to_owned(),
                other: other.name().to_owned(),
            });
        }
        let (missed, missed_there) = (self.missed(), other.missed());
        let mut all: Vec<(Scalar, u64, u64)> = Vec::new();
        for (value, count) in self.in_order() {
            let (more, over) = match other.counts.get(&value) {
                Some(more) => (more.times, more.over),
                None => (missed_there, missed_there),
            };
            let over = count.over.saturating_add(over);
            all.push((value, count.times.saturating_add(more), over));
        }
        for (value, count) in other.in_order() {
            if !self.counts.contains_key(&value) {
                let over = count.over.saturating_add(missed);
                all.push((value, count.times.saturating_add(missed), over));
            }
        }
        all.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
        all.truncate(self.counted_max);
        let mut merged = Self::sized(self.least, self.top, self.counted_max)?;
        merged.total = self.total.saturating_add(other.total);
        for (value, count, over) in all {
            merged.put(value, count, over);
        }
        *self = merged;
        Ok(())
    }

    /// The most frequent first.
    fn in_order(&self) -> Vec<(Scalar, Count)> {
        let places = self.order.iter().rev();
        let values = places.filter_map(|(_, since)| {
            let value = self.by_since.get(&since.0)?;
            Some((value.clone(), *self.counts.get(value)?))
        });
        values.collect()
    }

    /// The type of the values.
    pub fn value_kind(&self) -> Option<ScalarKind> {
        self.counts.keys().next().map(Scalar::kind)
    }

    fn share(&self, count: u64) -> f64 {
        count as f64 / self.total as f64
    }

    /// The least and the most share of all values that a value has.
    pub fn frequency(&self, value: &Scalar) -> (f64, f64) {
        match self.counts.get(value) {
            Some(count) => (
                self.share(count.times.saturating_sub(count.over)),
                self.share(count.times),
            ),
            None => (0.0, 0.0),
        }
    }

    /// The values that may be frequent enough, the most frequent first.
    pub fn values(&self) -> Vec<Frequency> {
        let least = self.least.unwrap_or(0.0);
        let shown = self.in_order().into_iter().map(|(value, count)| Frequency {
            value,
            min: self.share(count.times.saturating_sub(count.over)),
            max: self.share(count.times),
        });
        shown.filter(|it| it.max >= least).collect()
    }

    /// The most frequent values.
    pub fn most(&self, count: Option<i64>) -> Result<Vec<Scalar>, Error> {
        let count = match count {
            None if self.top == 0 => {
                return Err(Error::Argument(
                    "topn of freq_agg takes the number of values: topn(agg, n)".to_owned(),
                ));
            }
            None => self.top,
            Some(count) => {
                let wanted = usize::try_from(count).unwrap_or(0);
                if self.top > 0 && wanted > self.top {
                    return Err(Error::Argument(format!(
                        "topn: {count} values are asked for, the summary was made for {}",
                        self.top
                    )));
                }
                wanted
            }
        };
        let values = self.in_order().into_iter();
        let least = self.least.unwrap_or(0.0);
        let values = values.filter(|(_, it)| self.share(it.times) >= least);
        Ok(values.take(count).map(|(value, _)| value).collect())
    }

    /// Bytes held, about.
    pub fn bytes(&self) -> usize {
        self.counts.len() * 160 + self.bytes
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.f64(self.least.unwrap_or(0.0));
        to.count(self.top);
        to.count(self.counted_max);
        to.u64(self.total);
        to.count(self.counts.len());
        for (value, count) in self.in_order() {
            value.write(to);
            to.u64(count.times);
            to.u64(count.over);
        }
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        let least = from.f64()?;
        let least = (least > 0.0).then_some(least);
        let size = |value: u64| usize::try_from(value).map_err(|_| damaged("a size"));
        let top = size(from.u64()?)?;
        let counted_max = size(from.u64()?)?;
        let mut read = Self::sized(least, top, counted_max).map_err(|_| damaged("a size"))?;
        read.total = from.u64()?;
        let count = from.count(SCALAR_BYTES_MIN + 16)?;
        if count > counted_max {
            return Err(damaged("a size"));
        }
        for _ in 0..count {
            let value = Scalar::read(from)?;
            let (count, over) = (from.u64()?, from.u64()?);
            let is_alike = read.value_kind().is_none_or(|kind| kind == value.kind());
            if over > count || count > read.total || !is_alike || read.counts.contains_key(&value) {
                return Err(damaged("a frequency"));
            }
            read.put(value, count, over);
        }
        Ok(read)
    }
}

/// Riemann's zeta function: some terms, and the integral of the rest.
fn zeta(exponent: f64) -> f64 {
    const TERMS: u32 = 1000;
    let terms: f64 = (1..TERMS).map(|n| f64::from(n).powf(-exponent)).sum();
    let n = f64::from(TERMS);
    // Euler and Maclaurin, to the first correction.
    terms
        + n.powf(1.0 - exponent) / (exponent - 1.0)
        + 0.5 * n.powf(-exponent)
        + exponent * n.powf(-exponent - 1.0) / 12.0
}
