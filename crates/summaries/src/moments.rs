//! Moments of one and of two variables: `stats_agg`.
//!
//! Sums of powers of the distance from the mean, updated value by value (Youngs and Cramer for the second, as `PostgreSQL` has
//! it; Pebay, "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical moments",
//! 2008, for the third and fourth and for merging). Does not: count NULL. A value that is infinite or not a number makes the
//! moments NaN, as in `PostgreSQL`.

use crate::bytes::{Reader, Writer};
use crate::error::{Error, damaged};

/// Whether the values are all there are or a sample of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Divides by the number of values.
    Population,
    /// Divides by one less.
    Sample,
}

impl Basis {
    /// By its name in SQL.
    pub fn named(name: &str) -> Result<Self, Error> {
        match name.to_ascii_lowercase().as_str() {
            "population" | "pop" => Ok(Self::Population),
            "sample" | "samp" => Ok(Self::Sample),
            _ => Err(Error::Argument(format!(
                "the method is 'population' or 'sample', not {name:?}"
            ))),
        }
    }
}

/// Moments of one variable.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moments {
    count: u64,
    sum: f64,
    second: f64,
    third: f64,
    fourth: f64,
}

impl Moments {
    /// Takes a value in.
    pub fn add(&mut self, value: f64) {
        let before = self.count as f64;
        let mean = if self.count == 0 {
            0.0
        } else {
            self.sum / before
        };
        self.count = self.count.saturating_add(1);
        let count = self.count as f64;
        self.sum += value;
        if self.count == 1 {
            // What is infinite is at no distance from its mean.
            let spread = if value.is_finite() { 0.0 } else { f64::NAN };
            (self.second, self.third, self.fourth) = (spread, spread, spread);
            return;
        }
        let delta = value - mean;
        let step = delta / count;
        let part = delta * step * before;
        self.fourth += part * step * step * (count * count - 3.0 * count + 3.0)
            + 6.0 * step * step * self.second
            - 4.0 * step * self.third;
        self.third += part * step * (count - 2.0) - 3.0 * step * self.second;
        let apart = value * count - self.sum;
        self.second += apart * apart / (count * before);
    }

    /// Takes in what was counted elsewhere.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let n = a + b;
        let delta = other.sum / b - self.sum / a;
        let square = delta * delta;
        let fourth = self.fourth
            + other.fourth
            + square * square * a * b * (a * a - a * b + b * b) / (n * n * n)
            + 6.0 * square * (a * a * other.second + b * b * self.second) / (n * n)
            + 4.0 * delta * (a * other.third - b * self.third) / n;
        let third = self.third
            + other.third
            + square * delta * a * b * (a - b) / (n * n)
            + 3.0 * delta * (a * other.second - b * self.second) / n;
        self.second += other.second + square * a * b / n;
        self.third = third;
        self.fourth = fourth;
        self.sum += other.sum;
        self.count = self.count.saturating_add(other.count);
    }

    /// Adds a number to every value.
    pub(crate) fn shift(&mut self, by: f64) {
        self.sum += by * self.count as f64;
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> Option<f64> {
        (self.count > 0).then_some(self.sum)
    }

    /// Their mean.
    pub fn mean(&self) -> Option<f64> {
        Some(self.sum()? / self.count as f64)
    }

    fn divisor(&self, basis: Basis) -> Option<f64> {
        let count = match basis {
            Basis::Population => self.count,
            Basis::Sample => self.count.checked_sub(1)?,
        };
        (count > 0).then_some(count as f64)
    }

    /// The variance.
    pub fn variance(&self, basis: Basis) -> Option<f64> {
        Some(self.second / self.divisor(basis)?)
    }

    /// The standard deviation.
    pub fn deviation(&self, basis: Basis) -> Option<f64> {
        Some(self.variance(basis)?.sqrt())
    }

    /// The third standardised moment; not a number if all values are the same.
    pub fn skewness(&self, basis: Basis) -> Option<f64> {
        Some(self.third / self.divisor(basis)? / self.deviation(basis)?.powi(3))
    }

    /// The fourth standardised moment; 3 for a normal distribution.
    pub fn kurtosis(&self, basis: Basis) -> Option<f64> {
        Some(self.fourth / self.divisor(basis)? / self.deviation(basis)?.powi(4))
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.u64(self.count);
        for value in [self.sum, self.second, self.third, self.fourth] {
            to.f64(value);
        }
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        Ok(Self {
            count: from.u64()?,
            sum: from.f64()?,
            second: from.f64()?,
            third: from.f64()?,
            fourth: from.f64()?,
        })
    }
}

/// Moments of two variables, the dependent one first in SQL: `stats_agg(y, x)`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pairs {
    y: Moments,
    x: Moments,
    product: f64,
}

impl Pairs {
    /// Takes a pair in.
    pub fn add(&mut self, y: f64, x: f64) {
        self.y.add(y);
        self.x.add(x);
        let count = self.x.count as f64;
        if self.x.count == 1 {
            let is_finite = x.is_finite() && y.is_finite();
            self.product = if is_finite { 0.0 } else { f64::NAN };
            return;
        }
        let apart = (x * count - self.x.sum) * (y * count - self.y.sum);
        self.product += apart / (count * (count - 1.0));
    }

    /// Takes in what was counted elsewhere.
    pub fn merge(&mut self, other: &Self) {
        if other.x.count == 0 {
            return;
        }
        if self.x.count == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.x.count as f64, other.x.count as f64);
        let delta_x = other.x.sum / b - self.x.sum / a;
        let delta_y = other.y.sum / b - self.y.sum / a;
        self.product += other.product + delta_x * delta_y * a * b / (a + b);
        self.x.merge(&other.x);
        self.y.merge(&other.y);
    }

    pub(crate) fn shift_y(&mut self, by: f64) {
        self.y.shift(by);
    }

    /// The moments of the dependent variable.
    pub fn y(&self) -> &Moments {
        &self.y
    }

    /// The moments of the independent variable.
    pub fn x(&self) -> &Moments {
        &self.x
    }

    /// The slope of the line of least squares; none through one point or upright.
    pub fn slope(&self) -> Option<f64> {
        (self.x.count > 0 && self.x.second != 0.0).then(|| self.product / self.x.second)
    }

    /// Where that line meets the axis of the dependent variable.
    pub fn intercept(&self) -> Option<f64> {
        let slope = self.slope()?;
        Some((self.y.sum - self.x.sum * slope) / self.x.count as f64)
    }

    /// Where that line meets the axis of the independent variable.
    pub fn x_intercept(&self) -> Option<f64> {
        if self.x.count > 1 && self.x.second == 0.0 {
            return self.x.mean();
        }
        if self.y.second == 0.0 {
            return None;
        }
        Some(-self.intercept()? / self.slope()?)
    }

    /// The correlation coefficient.
    pub fn correlation(&self) -> Option<f64> {
        let is_line = self.x.second == 0.0 || self.y.second == 0.0;
        (self.x.count > 0 && !is_line)
            .then(|| self.product / (self.x.second * self.y.second).sqrt())
    }

    /// The share of the variance that the line explains.
    pub fn determination(&self) -> Option<f64> {
        if self.x.count == 0 || self.x.second == 0.0 {
            return None;
        }
        if self.y.second == 0.0 {
            return Some(1.0);
        }
        Some(self.product * self.product / (self.x.second * self.y.second))
    }

    /// The covariance.
    pub fn covariance(&self, basis: Basis) -> Option<f64> {
        Some(self.product / self.x.divisor(basis)?)
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        self.y.write(to);
        self.x.write(to);
        to.f64(self.product);
    }

    pub(crate) fn read(from: &mut Reader) -> Result<Self, Error> {
        let read = Self {
            y: Moments::read(from)?,
            x: Moments::read(from)?,
            product: from.f64()?,
        };
        if read.x.count != read.y.count {
            return Err(damaged("two counts of the same pairs"));
        }
        Ok(read)
    }
}
