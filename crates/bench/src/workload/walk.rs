//! The suite's distributions that the workloads are made of.

use rand::RngExt;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A random walk with steps of the standard normal distribution that stops at 0 and at 100.
#[derive(Debug, Clone, Copy)]
pub(super) struct PercentWalk {
    state: f64,
}

impl PercentWalk {
    /// Starts anywhere between the bounds, all places alike.
    pub(super) fn start(random: &mut Xoshiro256PlusPlus) -> Self {
        Self {
            state: random.random::<f64>() * 100.0,
        }
    }

    /// The value as it is reported: cut to an integer, as the suite does.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "cutting is what the suite does, and the walk stays within 0..=100"
    )]
    pub(super) fn percent(self) -> usize {
        self.state as usize
    }

    /// One step.
    pub(super) fn advance(&mut self, random: &mut Xoshiro256PlusPlus) {
        let step: f64 = StandardNormal.sample(random);
        self.state = (self.state + step).clamp(0.0, 100.0);
    }
}

/// The distribution of a walk's steps.
#[derive(Debug, Clone, Copy)]
enum Steps {
    Normal { mean: f64, deviation: f64 },
    Uniform { low: f64, high: f64 },
}

impl Steps {
    fn sample(self, random: &mut Xoshiro256PlusPlus) -> f64 {
        match self {
            Self::Normal { mean, deviation } => {
                let step: f64 = StandardNormal.sample(random);
                step * deviation + mean
            }
            Self::Uniform { low, high } => random.random::<f64>() * (high - low) + low,
        }
    }
}

/// A random walk between two bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Walk {
    state: f64,
    steps: Steps,
    min: f64,
    max: f64,
    /// The sign of a step does not count: the walk never falls.
    is_counter: bool,
}

impl Walk {
    /// Steps of a normal distribution between bounds.
    pub(super) fn normal(mean: f64, deviation: f64, bounds: [f64; 2], state: f64) -> Self {
        let [min, max] = bounds;
        Self {
            state,
            steps: Steps::Normal { mean, deviation },
            min,
            max,
            is_counter: false,
        }
    }

    /// Steps of a normal distribution with a deviation of 1, without bounds, from 0.
    pub(super) fn drift(mean: f64) -> Self {
        Self::normal(mean, 1.0, [f64::NEG_INFINITY, f64::INFINITY], 0.0)
    }

    /// A counter from 0: sizes of steps of a normal distribution with a deviation of 1.
    pub(super) fn counter(mean: f64) -> Self {
        Self {
            is_counter: true,
            ..Self::drift(mean)
        }
    }

    /// Uniform steps between bounds.
    pub(super) fn uniform(step: [f64; 2], bounds: [f64; 2], state: f64) -> Self {
        let [low, high] = step;
        Self {
            steps: Steps::Uniform { low, high },
            ..Self::normal(0.0, 0.0, bounds, state)
        }
    }

    /// Moves the walk to its upper bound if it is at its lower one.
    pub(super) fn refill(&mut self) {
        if self.state <= self.min {
            self.state = self.max;
        }
    }

    /// The value cut to an integer, as the suite does.
    pub(super) fn integer(&self) -> i64 {
        cut(self.state)
    }

    /// The value cut to so many decimals: `scale` is 10 to their number.
    pub(super) fn decimals(&self, scale: f64) -> f64 {
        // Through an integer, as the suite does, so that there is no negative zero.
        cut(self.state * scale) as f64 / scale
    }

    /// One step.
    pub(super) fn advance(&mut self, random: &mut Xoshiro256PlusPlus) {
        let step = self.steps.sample(random);
        let step = if self.is_counter { step.abs() } else { step };
        self.state = (self.state + step).clamp(self.min, self.max);
    }
}

/// A number without what stands behind its point.
#[expect(
    clippy::cast_possible_truncation,
    reason = "cutting is what the suite does, and no walk comes near the ends of 64 bits"
)]
pub(super) fn cut(value: f64) -> i64 {
    value as i64
}

#[cfg(test)]
mod tests {
    use super::{PercentWalk, Walk};
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn steps_away_from_the_bounds_are_standard_normal() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let steps: Vec<f64> = (0..100_000)
            .map(|_| {
                let mut walk = PercentWalk { state: 50.0 };
                walk.advance(&mut random);
                walk.state - 50.0
            })
            .collect();
        let n = steps.len() as f64;
        let mean = steps.iter().sum::<f64>() / n;
        let sd = (steps.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n).sqrt();
        let within_one = steps.iter().filter(|s| s.abs() < 1.0).count() as f64 / n;
        assert!(mean.abs() < 0.02, "mean {mean}");
        assert!((sd - 1.0).abs() < 0.02, "sd {sd}");
        // The normal distribution has 68.27 % within one deviation; a uniform one of the same deviation has 57.7 %.
        assert!((within_one - 0.6827).abs() < 0.01, "{within_one}");
    }

    #[test]
    fn the_walk_stays_within_its_bounds() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
        for start in [0.0, 100.0] {
            let mut walk = PercentWalk { state: start };
            let mut touched = false;
            for _ in 0..10_000 {
                walk.advance(&mut random);
                assert!((0.0..=100.0).contains(&walk.state), "{}", walk.state);
                touched |= (walk.state - start).abs() < f64::EPSILON;
            }
            assert!(touched, "a walk that starts at a bound comes back to it");
        }
    }

    #[test]
    fn counters_rise_and_bounded_walks_stay_between_their_bounds() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
        let mut counter = Walk::counter(0.0);
        let mut bounded = Walk::normal(5.0, 1.0, [0.0, 100.0], 0.0);
        let mut uniform = Walk::uniform([-10.0, 10.0], [0.0, 50.0], 25.0);
        let (mut sum, mut seen) = (0.0, [f64::MAX, f64::MIN]);
        for step in 1..=10_000 {
            let before = counter.state;
            counter.advance(&mut random);
            assert!(counter.state >= before, "step {step}");
            sum += counter.state - before;
            bounded.advance(&mut random);
            uniform.advance(&mut random);
            seen = [seen[0].min(uniform.state), seen[1].max(uniform.state)];
        }
        // The mean of the absolute value of a standard normal is the square root of 2/pi, 0.798.
        assert!((sum / 10_000.0 - 0.798).abs() < 0.02, "{sum}");
        assert_eq!(
            bounded.integer(),
            100,
            "steps of 5 on average end at the bound"
        );
        assert!(
            seen[0] >= 0.0 && seen[1] <= 50.0 && seen[0] < 1.0 && seen[1] > 49.0,
            "{seen:?}"
        );
    }

    #[test]
    fn values_are_cut_toward_zero_without_a_negative_zero() {
        let at = |state| Walk::uniform([0.0, 1.0], [-200.0, 200.0], state);
        assert_eq!(format!("{}", at(24.3999).decimals(10.0)), "24.3");
        assert_eq!(format!("{}", at(-1.239).decimals(100.0)), "-1.23");
        assert_eq!(format!("{}", at(-0.000_001).decimals(100_000.0)), "0");
        assert_eq!(at(-0.9).integer(), 0);
        let mut empty = Walk::uniform([-0.001, 0.0], [0.0, 1.0], 0.0);
        empty.refill();
        assert_eq!(format!("{}", empty.decimals(10.0)), "1");
    }
}
