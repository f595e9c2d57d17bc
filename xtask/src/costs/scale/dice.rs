//! Seeded randomness of the simulation.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Random numbers that follow from a seed.
pub(super) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Uniform in [0, 1).
    pub(super) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Between two positive numbers, every factor as likely: as often from 1 to 2 as from 10 to 20.
    pub(super) fn by_factor(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    /// Exponentially distributed.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (-self.uniform()).ln_1p()
    }

    /// Normally distributed around 0 (Box and Muller).
    pub(super) fn normal(&mut self, sd: f64) -> f64 {
        let radius = (-2.0 * (-self.uniform()).ln_1p()).sqrt();
        sd * radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Whether something of this probability happens.
    pub(super) fn happens(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and standard deviation of many draws.
    fn moments(mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let drawn: Vec<f64> = (0..20_000).map(|_| draw()).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let square = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        (mean, square.sqrt())
    }

    /// Within four standard errors of 20 000 draws.
    #[test]
    fn draws_have_the_moments_they_are_asked_for() {
        let mut dice = Dice::new(1);
        let (mean, sd) = moments(|| dice.exponential(3.0));
        assert!(
            (mean - 3.0).abs() < 0.09 && (sd - 3.0).abs() < 0.2,
            "{mean} {sd}"
        );
        let (mean, sd) = moments(|| dice.normal(2.0));
        assert!(mean.abs() < 0.06 && (sd - 2.0).abs() < 0.05, "{mean} {sd}");
        let (mean, _) = moments(|| dice.by_factor(1.0, 100.0).ln());
        assert!((mean - 10f64.ln()).abs() < 0.04, "{mean}");
    }

    #[test]
    fn equal_seeds_draw_equal_numbers() {
        let draws = |seed| -> Vec<f64> {
            let mut dice = Dice::new(seed);
            (0..5).map(|_| dice.uniform()).collect()
        };
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
    }
}
