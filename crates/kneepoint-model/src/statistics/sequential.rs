//! The anytime-valid paired test: look after every pair, stop when it is clear.
//!
//! Gaussian effect-size mixture of the t statistic (Wang and Ramdas, arXiv 2310.03722; docs/noise.md). Two things are added
//! to it. A pair may be known to scatter more than others, by a factor on its variance that was set before anybody looked at
//! its difference: it counts for so much less. And something may be known of the scatter before the first pair
//! ([`Scatter`]), which lets a large effect end a test after three pairs.
//!
//! Pairs of several kinds, such as the CPU time of a request and the throughput, are evidence of one effect
//! ([`Combined`]): each kind has a scatter of its own, and their e-values are multiplied, since their steps are others.

use super::Interval;

/// Width of the mixture over effect sizes.
const MIXTURE: f64 = 0.5;
/// Evidence at which a test stops: 1 in 20 false stops at most, whenever one looks.
pub const ENOUGH: f64 = 20.0;
/// Fewest pairs at which anything is said, however large their differences.
pub const MIN_PAIRS: usize = 3;
/// Fewest pairs where nothing is known of the scatter before: with fewer the e-value cannot reach [`ENOUGH`].
pub const MIN_PAIRS_UNKNOWN: usize = 6;
/// Pairs that what is known of the scatter counts as where it is told.
const HINT: f64 = 2.0;
/// Smallest standard deviation of paired differences taken at face value. Steps that all clip at the same
/// value have none at all, which says that they are far apart, not that the instrument is perfect.
const SD_FLOOR: f64 = 1e-3;

/// What is known of the scatter of pairs before the first of them: as if `pairs` of them had been seen with this standard
/// deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scatter {
    /// Standard deviation of a paired difference.
    pub sd: f64,
    /// Pairs that it counts as.
    pub pairs: f64,
}

impl Scatter {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self {
        sd: 0.0,
        pairs: 0.0,
    };
}

/// Paired differences of one kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Paired {
    known: Scatter,
    count: f64,
    /// Sums over the pairs of their weight, of weight times difference, and of weight times its square.
    weights: f64,
    sum: f64,
    squares: f64,
    /// Standard deviation of an error that all of them share.
    shared: f64,
}

impl Paired {
    /// No pairs yet.
    #[must_use]
    pub fn new(known: Scatter) -> Self {
        Self {
            known,
            count: 0.0,
            weights: 0.0,
            sum: 0.0,
            squares: 0.0,
            shared: 0.0,
        }
    }

    /// The same where every difference holds one error of this standard deviation, such as an estimate that was added to all of
    /// them: more pairs do not average it out.
    #[must_use]
    pub fn with_shared_error(self, sd: f64) -> Self {
        Self { shared: sd, ..self }
    }

    /// Pairs that scatter alike, of whose scatter nothing is known.
    #[must_use]
    pub fn of(differences: &[f64]) -> Self {
        let mut paired = Self::new(Scatter::UNKNOWN);
        for difference in differences {
            paired.push(*difference, 1.0);
        }
        paired
    }

    /// Takes in a pair: its difference, and its variance as a multiple of that of a quiet pair.
    pub fn push(&mut self, difference: f64, variance: f64) {
        let weight = 1.0 / variance;
        self.count += 1.0;
        self.weights += weight;
        self.sum += weight * difference;
        self.squares += weight * difference * difference;
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Their weighted mean; 0 without any.
    #[must_use]
    #[inline]
    pub fn mean(&self) -> f64 {
        if self.weights > 0.0 {
            self.sum / self.weights
        } else {
            0.0
        }
    }

    /// Weighted sum of squares around a value.
    #[inline]
    fn squares_around(&self, value: f64) -> f64 {
        (self.squares - 2.0 * value * self.sum + value * value * self.weights).max(0.0)
    }

    /// Standard deviation of a quiet pair. What was known of it before counts as [`HINT`] pairs at most: enough to say
    /// something of the first pairs, and little beside a dozen.
    #[must_use]
    #[inline]
    pub fn sd(&self) -> f64 {
        let hint = self.known.pairs.min(HINT);
        let seen = self.squares_around(self.mean()) + hint * self.known.sd.powi(2);
        let degrees = (self.count - 1.0).max(0.0) + hint;
        if degrees > 0.0 {
            (seen / degrees).sqrt().max(SD_FLOOR)
        } else {
            f64::INFINITY
        }
    }

    /// Standard error of the mean.
    #[must_use]
    #[inline]
    pub fn standard_error(&self) -> f64 {
        self.own_error().hypot(self.shared)
    }

    /// Standard error of the mean by the scatter of the pairs alone.
    #[inline]
    fn own_error(&self) -> f64 {
        self.sd() / self.weights.sqrt()
    }

    /// ln of the e-value against a mean that is this far from the one seen: the mean of two e-values, which is one. One takes
    /// the scatter for what was known of it before, so that it sees a large effect early; the other knows nothing of it, so
    /// that it sees a small one where pairs scatter less.
    #[inline]
    fn ln_e(&self, distance: f64) -> f64 {
        if self.count < 2.0 {
            return 0.0;
        }
        // A distance that the shared error explains as well is no evidence: it counts in standard errors of both together.
        let own = self.own_error();
        let distance = distance * (own / own.hypot(self.shared));
        let (known, unknown) = (
            self.ln_e_with(distance, self.known),
            self.ln_e_with(distance, Scatter::UNKNOWN),
        );
        let most = known.max(unknown);
        most + (((known - most).exp() + (unknown - most).exp()) / 2.0).ln()
    }

    #[inline]
    fn ln_e_with(&self, distance: f64, known: Scatter) -> f64 {
        // The mixture is over effects in standard deviations of a usual pair of this comparison, so that it is their number
        // that counts, whether all of them scatter much or none.
        let widened = 1.0 + self.count * MIXTURE;
        let floor = (self.count - 1.0) * SD_FLOOR.powi(2);
        let before = known.pairs * known.sd.powi(2);
        let within = self.squares_around(self.mean()).max(floor) + before;
        let beyond = self.weights * distance * distance;
        let ratio = (within + beyond) / (within + beyond / widened);
        -0.5 * widened.ln() + 0.5 * (self.count + known.pairs) * ratio.ln()
    }
}

/// Pairs of several kinds, all of which measure one effect.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Combined {
    kinds: Vec<Paired>,
    mean: f64,
    /// By how much the kinds disagree beyond their scatter, as a factor on the interval, at least 1: the Birge ratio
    /// (Birge, "The Calculation of Errors by the Method of Least Squares", 1932).
    disagreement: f64,
}

impl Combined {
    /// Of these kinds. One of which there are fewer than two pairs says nothing.
    #[must_use]
    pub fn of(kinds: impl IntoIterator<Item = Paired>) -> Self {
        let kinds: Vec<Paired> = kinds.into_iter().filter(|it| it.count >= 2.0).collect();
        let precision = |kind: &Paired| kind.standard_error().powi(-2);
        let whole: f64 = kinds.iter().map(precision).sum();
        let mean = if whole > 0.0 {
            kinds
                .iter()
                .map(|it| precision(it) * it.mean())
                .sum::<f64>()
                / whole
        } else {
            0.0
        };
        let chi_squared: f64 = kinds
            .iter()
            .map(|it| precision(it) * (it.mean() - mean).powi(2))
            .sum();
        let degrees = kinds.len().saturating_sub(1).max(1) as f64;
        Self {
            kinds,
            mean,
            disagreement: (chi_squared / degrees).sqrt().max(1.0),
        }
    }

    /// The mean of the kinds, each weighed by the inverse of its variance; 0 without any.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// By how much the kinds disagree beyond their scatter, as a factor on the interval; 1 where they agree.
    #[must_use]
    pub fn disagreement(&self) -> f64 {
        self.disagreement
    }

    #[inline]
    fn ln_e(&self, distance: f64) -> f64 {
        let distance = distance / self.disagreement;
        self.kinds.iter().map(|kind| kind.ln_e(distance)).sum()
    }

    /// The e-value against "their mean is zero". 1 with fewer than [`MIN_PAIRS`] pairs: they say nothing yet.
    #[must_use]
    pub fn e_value(&self) -> f64 {
        if self.count() < MIN_PAIRS {
            return 1.0;
        }
        self.ln_e(self.mean).exp()
    }

    /// How many pairs of all kinds there are.
    fn count(&self) -> usize {
        self.kinds.iter().map(Paired::count).sum()
    }

    /// The 95 % confidence sequence of the mean: the values that the e-test does not reject. It is valid at every time of
    /// looking. `None` where there are too few pairs to reject any.
    #[must_use]
    #[inline]
    pub fn confidence_sequence(&self) -> Option<Interval> {
        let scale = self.standard_error();
        if self.count() < MIN_PAIRS || !scale.is_finite() {
            return None;
        }
        let rejects = |distance: f64| self.ln_e(distance) >= ENOUGH.ln();
        let (mut inside, mut outside) = (0.0, scale);
        while !rejects(outside) {
            outside *= 2.0;
            if outside > FARTHEST {
                return None;
            }
        }
        for _ in 0..60 {
            let middle = f64::midpoint(inside, outside);
            if rejects(middle) {
                outside = middle;
            } else {
                inside = middle;
            }
        }
        Some(Interval {
            low: self.mean - outside,
            estimate: self.mean,
            high: self.mean + outside,
        })
    }

    /// Standard error of the mean; infinite without pairs.
    #[must_use]
    #[inline]
    pub fn standard_error(&self) -> f64 {
        let precision: f64 = self
            .kinds
            .iter()
            .map(|it| it.standard_error().powi(-2))
            .sum();
        self.disagreement / precision.sqrt()
    }

    /// Smallest mean difference that is visible with 80 % power: as far from zero as the confidence sequence reaches, and as
    /// much further as the mean scatters in four of five cases (0.84 standard errors). It is never less than half of the
    /// interval it stands beside. Infinite without pairs enough for one.
    #[must_use]
    pub fn smallest_visible(&self) -> f64 {
        self.confidence_sequence().map_or(f64::INFINITY, |it| {
            it.high - it.estimate + POWER * self.standard_error()
        })
    }
}

/// Standard errors by which a mean exceeds its expectation less than in four of five cases: the normal quantile of 0.8.
const POWER: f64 = 0.84;
/// Distance of logarithms beyond which an interval says nothing: a factor of 10^8.
const FARTHEST: f64 = 20.0;

/// Mean and standard deviation (n - 1) of paired differences.
#[must_use]
pub fn mean_and_sd(differences: &[f64]) -> (f64, f64) {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, variance.sqrt().max(SD_FLOOR))
}

/// The e-value of paired differences, of whose scatter nothing is known, against "their mean is zero". 1 with fewer than two.
#[must_use]
pub fn e_value(differences: &[f64]) -> f64 {
    Combined::of([Paired::of(differences)]).e_value()
}

/// The 95 % confidence sequence of the mean of paired differences, of whose scatter nothing is known. `None` with fewer than
/// [`MIN_PAIRS_UNKNOWN`].
#[must_use]
pub fn confidence_sequence(differences: &[f64]) -> Option<Interval> {
    Combined::of([Paired::of(differences)]).confidence_sequence()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::chance::normals;

    fn rejects_within(true_mean: f64, pairs: usize, seed: u64) -> bool {
        let all: Vec<f64> = normals(seed).take(pairs).map(|z| z + true_mean).collect();
        (MIN_PAIRS..=pairs).any(|n| e_value(&all[..n]) >= ENOUGH)
    }

    #[test]
    fn peeking_after_every_pair_keeps_false_alarms_at_five_percent() {
        let false_alarms = (0..2000)
            .filter(|seed| rejects_within(0.0, 48, *seed))
            .count();
        assert!(false_alarms <= 100, "{false_alarms} of 2000");
    }

    #[test]
    fn an_effect_of_one_and_a_half_sd_is_found() {
        let found = (0..500)
            .filter(|seed| rejects_within(1.5, 24, *seed))
            .count();
        assert!(found >= 450, "{found} of 500");
    }

    #[test]
    fn the_confidence_sequence_is_the_inverted_test() {
        let differences: Vec<f64> = normals(7).take(12).map(|z| z + 1.0).collect();
        let sequence = confidence_sequence(&differences).expect("enough pairs");
        let shifted = |by: f64| differences.iter().map(|d| d - by).collect::<Vec<_>>();
        assert!(e_value(&shifted(sequence.high + 1e-6)) >= ENOUGH);
        assert!(e_value(&shifted(sequence.high - 1e-3)) < ENOUGH);
        assert!(sequence.contains(1.0));
        assert_eq!(
            confidence_sequence(&differences[..MIN_PAIRS_UNKNOWN - 1]),
            None
        );
    }

    #[test]
    fn identical_differences_do_not_divide_by_zero() {
        assert!(e_value(&[2.0; 6]) >= ENOUGH);
        assert!(e_value(&[0.0; 6]) < 1.0);
    }

    /// What is known of the scatter in these tests, as a third of what it mostly is.
    const KNOWN: Scatter = Scatter {
        sd: 1.0,
        pairs: 10.0,
    };

    /// Pairs around a mean whose scatter is `sd` times a variance of each pair's own.
    fn pairs(mean: f64, sd: f64, variances: &[f64], seed: u64) -> Vec<(f64, f64)> {
        let scattered = normals(seed).zip(variances.iter().cycle());
        let pairs = scattered.map(|(z, variance)| (mean + sd * z * variance.sqrt(), *variance));
        pairs.take(24).collect()
    }

    fn paired(known: Scatter, pairs: &[(f64, f64)]) -> Paired {
        let mut paired = Paired::new(known);
        pairs
            .iter()
            .for_each(|(d, variance)| paired.push(*d, *variance));
        paired
    }

    /// Share of 2000 series without an effect that are called one at any of 24 looks.
    fn false_alarms(sd: f64, variances: &[f64]) -> f64 {
        let wrong = |seed| {
            let all = pairs(0.0, sd, variances, seed);
            (MIN_PAIRS..=all.len())
                .any(|n| Combined::of([paired(KNOWN, &all[..n])]).e_value() >= ENOUGH)
        };
        (0..2000).filter(|seed| wrong(*seed)).count() as f64 / 2000.0
    }

    #[test]
    fn what_is_known_of_the_scatter_may_be_off_by_a_factor_of_two() {
        for sd in [0.3, 1.0, 2.0] {
            let wrong = false_alarms(sd, &[1.0]);
            assert!(wrong <= 0.05, "{wrong} with a scatter of {sd}");
        }
    }

    #[test]
    fn pairs_that_scatter_more_count_for_less_and_raise_no_false_alarm() {
        let uneven = [1.0, 25.0, 1.0, 9.0];
        assert!(false_alarms(1.0, &uneven) <= 0.05);
        // The same pairs, their variances known and not known.
        let sd = |weighed: bool| {
            let means: Vec<f64> = (0..300)
                .map(|seed| {
                    let mut all = pairs(0.0, 1.0, &uneven, seed);
                    if !weighed {
                        all.iter_mut().for_each(|(_, variance)| *variance = 1.0);
                    }
                    paired(KNOWN, &all).mean()
                })
                .collect();
            mean_and_sd(&means).1
        };
        assert!(sd(true) < 0.6 * sd(false), "{} {}", sd(true), sd(false));
    }

    #[test]
    fn a_large_effect_ends_after_three_pairs_and_a_small_one_does_not() {
        let e = |difference: f64| {
            Combined::of([paired(KNOWN, &[(difference, 1.0); MIN_PAIRS])]).e_value()
        };
        assert!(e(8.0) >= ENOUGH, "{}", e(8.0));
        assert!(e(1.5) < ENOUGH, "{}", e(1.5));
        let two = Combined::of([paired(KNOWN, &[(100.0, 1.0); 2])]);
        assert!(two.e_value() < ENOUGH && two.confidence_sequence().is_none());
    }

    /// Two kinds of pairs of one effect, one of which scatters five times as much.
    fn two_kinds(effect: f64, apart: f64, seed: u64) -> Combined {
        let fine = paired(KNOWN, &pairs(effect, 1.0, &[1.0], seed)[..12]);
        let known = Scatter { sd: 5.0, ..KNOWN };
        let coarse = paired(
            known,
            &pairs(effect + apart, 5.0, &[1.0], seed + 9000)[..12],
        );
        Combined::of([fine, coarse])
    }

    #[test]
    fn two_kinds_are_combined_by_how_well_each_is_known() {
        let covered = (0..500)
            .filter(|seed| {
                let interval = two_kinds(2.0, 0.0, *seed).confidence_sequence();
                interval.is_some_and(|it| it.contains(2.0))
            })
            .count();
        assert!(covered >= 475, "{covered} of 500");
        let both = two_kinds(2.0, 0.0, 3);
        let means = both.kinds.iter().map(Paired::mean).collect::<Vec<_>>();
        assert!((both.mean() - means[0]).abs() < (both.mean() - means[1]).abs());
        assert!(both.standard_error() <= both.kinds[0].standard_error() * both.disagreement());
    }

    #[test]
    fn an_error_that_all_pairs_share_does_not_average_out() {
        let called_one = |shared: f64| {
            let wrong = |seed: u64| {
                let error = normals(seed + 9000).next().expect("endless");
                let all = pairs(error, 1.0, &[1.0], seed);
                (MIN_PAIRS..=all.len()).any(|n| {
                    let kind = paired(KNOWN, &all[..n]).with_shared_error(shared);
                    Combined::of([kind]).e_value() >= ENOUGH
                })
            };
            (0..1000).filter(|seed| wrong(*seed)).count()
        };
        assert!(called_one(0.0) > 300, "{} of 1000", called_one(0.0));
        assert!(called_one(1.0) <= 50, "{} of 1000", called_one(1.0));
        let half = |shared: f64| {
            let kind = paired(KNOWN, &pairs(0.0, 1.0, &[1.0], 3)).with_shared_error(shared);
            let interval = Combined::of([kind]).confidence_sequence();
            let interval = interval.expect("enough pairs");
            (interval.high - interval.low) / 2.0
        };
        assert!(half(1.0) > 3.0 * half(0.0), "{} {}", half(1.0), half(0.0));
        assert!(half(1.0) > 1.96, "{}", half(1.0));
    }

    #[test]
    fn kinds_that_disagree_widen_the_interval() {
        let half = |apart| {
            let interval = two_kinds(2.0, apart, 3).confidence_sequence();
            let interval = interval.expect("enough pairs");
            (interval.high - interval.low) / 2.0
        };
        assert!(half(12.0) > 2.0 * half(0.0), "{} {}", half(12.0), half(0.0));
    }

    #[test]
    fn what_is_visible_lies_outside_the_interval_around_no_difference() {
        for pairs in [
            vec![0.1, -0.1, 0.05, -0.02],
            vec![0.01; 8],
            vec![0.3, -0.2, 0.1, 0.0, -0.3],
        ] {
            let known = Combined::of([Paired::of(&pairs)]);
            let interval = known.confidence_sequence();
            let visible = known.smallest_visible();
            match interval {
                Some(it) => assert!(
                    visible > it.high - it.estimate && visible < 3.0 * (it.high - it.estimate)
                ),
                None => assert!(visible.is_infinite()),
            }
        }
        assert!(Combined::default().smallest_visible().is_infinite());
    }
}
