//! What a test by resampling says of the pairs, looked at once at the end: it assumes no distribution, and it does not
//! allow for peeking. It stands beside the anytime-valid verdict and never decides (method.md section 2).

use crate::random::Random;
use kneepoint_model::Interval;
use kneepoint_model::statistics::sequential::MIN_PAIRS_UNKNOWN;

/// Random sign patterns, and resamples.
const DRAWS: usize = 2000;

/// Two-sided p of "the signs are as good as random", by flipping them; `None` with too few pairs.
pub(super) fn sign_flip_p(differences: &[f64], seed: u64) -> Option<f64> {
    if differences.len() < MIN_PAIRS_UNKNOWN {
        return None;
    }
    let seen = differences.iter().sum::<f64>().abs();
    let mut random = Random::new(seed, 4);
    let as_far = (0..DRAWS)
        .filter(|_| {
            let flipped = differences.iter().map(|difference| {
                if random.coin() {
                    *difference
                } else {
                    -difference
                }
            });
            flipped.sum::<f64>().abs() >= seen * (1.0 - 1e-12)
        })
        .count();
    Some((as_far as f64 + 1.0) / (DRAWS as f64 + 1.0))
}

/// 95 % percentile interval of the mean difference by a bootstrap over pairs; `None` with too few of them.
pub(super) fn bootstrap(differences: &[f64], seed: u64) -> Option<Interval> {
    let n = differences.len();
    if n < MIN_PAIRS_UNKNOWN {
        return None;
    }
    let mut random = Random::new(seed, 5);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| (0..n).map(|_| differences[random.below(n)]).sum::<f64>() / n as f64)
        .collect();
    means.sort_by(f64::total_cmp);
    Some(Interval {
        low: means[DRAWS / 40],
        estimate: differences.iter().sum::<f64>() / n as f64,
        high: means[DRAWS - 1 - DRAWS / 40],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scattered(mean: f64, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed, 0);
        (0..16).map(|_| mean + random.normal()).collect()
    }

    #[test]
    fn p_is_uniform_without_an_effect_and_small_with_one() {
        let p = |mean, seed| sign_flip_p(&scattered(mean, seed), 1).expect("enough pairs");
        let small = (0..400).filter(|seed| p(0.0, *seed) < 0.1).count();
        assert!((20..=62).contains(&small), "{small} of 400 below 0.1");
        assert!((0..20).all(|seed| p(3.0, seed) < 0.01));
        assert_eq!(sign_flip_p(&[1.0; 3], 1), None);
    }

    #[test]
    fn the_bootstrap_covers_about_as_often_as_it_says() {
        let covers = |seed| bootstrap(&scattered(1.0, seed), 1).is_some_and(|ci| ci.contains(1.0));
        let covered = (0..400).filter(|seed| covers(*seed)).count();
        assert!((340..=395).contains(&covered), "{covered} of 400");
    }
}
