//! Seeded randomness. Written out down to the bits, so that a seed means the same load in every version.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// What numbers are drawn for. Each purpose has a stretch of the generator's period of its own, so that a seed that
/// serves several shares no numbers between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Arrivals = 0,
    Mix = 1,
    Visitors = 2,
}

/// The random numbers of one thread for one purpose.
#[derive(Debug, Clone)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Streams of 2^128 numbers that do not overlap.
    pub(crate) fn new(seed: u64, purpose: Purpose, thread: usize) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..purpose as u32).for_each(|_| random.long_jump());
        (0..thread).for_each(|_| random.jump());
        Self(random)
    }

    /// A uniform number in [0, 1) with all 53 bits.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An exponentially distributed number with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(-self.uniform()).ln_1p()
    }
}

/// A choice among things with weights.
#[derive(Debug, Clone)]
pub(crate) struct Weighted {
    /// Sums of the weights so far, scaled to end at 1.
    upper: Vec<f64>,
}

impl Weighted {
    /// Weights are at least 0, and not all 0.
    pub(crate) fn new(weights: impl Iterator<Item = f64> + Clone) -> Self {
        let total: f64 = weights.clone().sum();
        let mut sum = 0.0;
        let upper = weights.map(|weight| {
            sum += weight / total;
            sum
        });
        Self {
            upper: upper.collect(),
        }
    }

    /// The index of one of them.
    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        if self.upper.len() == 1 {
            return 0;
        }
        let at = random.uniform();
        let index = self.upper.partition_point(|&upper| upper <= at);
        // The sums may end a hair below 1: fall back on the last one that has a weight at all.
        index.min(self.last_weighted())
    }

    fn last_weighted(&self) -> usize {
        let end = self.upper[self.upper.len() - 1];
        self.upper.partition_point(|&upper| upper < end)
    }
}
