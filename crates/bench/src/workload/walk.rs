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

#[cfg(test)]
mod tests {
    use super::PercentWalk;
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
}
