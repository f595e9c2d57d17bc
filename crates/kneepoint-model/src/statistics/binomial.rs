//! How likely so many of so many are by chance.

/// The chance that at least so many of so many independent trials succeed, when each does with probability `p`.
#[must_use]
pub fn at_least(successes: u64, trials: u64, p: f64) -> f64 {
    if successes == 0 {
        return 1.0;
    }
    if successes > trials || p <= 0.0 {
        return 0.0;
    }
    if p >= 1.0 {
        return 1.0;
    }
    // The logarithm of each term from the one before: factorials run over. Terms beyond the middle only shrink.
    let (n, odds) = (trials as f64, (p / (1.0 - p)).ln());
    let mut ln_term = n * (1.0 - p).ln();
    let mut sum = 0.0;
    for k in 0..=trials {
        if k >= successes {
            sum += ln_term.exp();
        }
        let k = k as f64;
        ln_term += ((n - k) / (k + 1.0)).ln() + odds;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(successes: u64, trials: u64, p: f64, expected: f64) {
        let found = at_least(successes, trials, p);
        assert!((found - expected).abs() < 1e-6, "{found}");
    }

    #[test]
    fn chances_are_those_of_the_tables() {
        check(0, 10, 0.1, 1.0);
        check(8, 8, 0.1, 1e-8);
        check(1, 3, 0.5, 0.875);
        // scipy.stats.binom.sf(4, 40, 0.1)
        check(5, 40, 0.1, 0.370_982);
        check(11, 10, 0.5, 0.0);
        check(3, 10, 0.0, 0.0);
        check(3, 10, 1.0, 1.0);
    }

    proptest! {
        #[test]
        fn more_successes_are_less_likely(trials in 1_u64..2000, part in 0.0..1.0_f64, p in 0.001..0.999_f64) {
            let successes = (part * trials as f64) as u64;
            let (fewer, more) = (at_least(successes, trials, p), at_least(successes + 1, trials, p));
            prop_assert!((0.0..=1.0).contains(&fewer) && more <= fewer);
        }
    }
}
