//! Seeded randomness of simulations and resampling: a seed means the same numbers on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream of a seed for a purpose: streams of one seed do not overlap.
    pub(crate) fn new(seed: u64, purpose: u32) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..purpose).for_each(|_| random.jump());
        Self(random)
    }

    /// The source, for a library that draws by itself.
    pub(crate) fn source(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.0
    }

    /// A uniform number in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An exponentially distributed number with this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (-self.uniform()).ln_1p()
    }

    /// A standard normal number (Box and Muller, one of the pair).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential(1.0)).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// A fair coin.
    pub(crate) fn coin(&mut self) -> bool {
        self.0.next_u64() >> 63 == 1
    }

    /// A whole number below `bound`, which is at least 1.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        ((self.uniform() * bound as f64) as usize).min(bound.saturating_sub(1))
    }
}
