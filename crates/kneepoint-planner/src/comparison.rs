//! What a comparison of two configurations starts from, and what came of it in words.

use crate::ab::Verdict;
use kneepoint_model::run::LimitResult;
use kneepoint_model::statistics::sequential::ENOUGH;
use kneepoint_model::units::format_share;
use kneepoint_model::{Effect, Setting};
use std::time::Duration;

/// The e-value that holds among six comparisons, as many as a run usually makes.
pub const AMONG_OTHERS: f64 = 6.0 * ENOUGH;

/// What an A/B starts from.
#[derive(Debug, Clone, Copy)]
pub struct ComparisonBase {
    /// The rate per second at which a change shows: R* of the arm without it, or one that was seen to fail.
    pub rate_hz: f64,
    /// Slope of the limit fit.
    pub slope: f64,
    /// How far R* follows the machine's speed.
    pub speed_exponent: f64,
    /// Most pairs of each kind.
    pub max_pairs: usize,
    /// Length of a step.
    pub step: Duration,
}

/// Half the width of R*'s interval, as a share, from which on its estimate is no rate to compare at \[ours\].
const VAGUE: f64 = 0.25;
/// Violating shares of a step of the search that make its rate the better one: well to be seen, and not all.
const FAILING: std::ops::RangeInclusive<f64> = 0.1..=0.7;

impl ComparisonBase {
    /// What a limit gives, with its slope. Where R* is known only vaguely, as of a stack that fails at one time
    /// and not at another, the rate is the lowest that was seen to fail plainly: at the estimate both arms may be well.
    #[must_use]
    pub fn of(limit: &LimitResult, slope: f64, max_pairs: usize) -> Self {
        let known = limit.rate_hz;
        let failing_hz = limit
            .rates_violating(FAILING)
            .filter(|rate_hz| *rate_hz > known.estimate)
            .min_by(f64::total_cmp);
        let vague = known.relative_half_width() > VAGUE;
        Self {
            rate_hz: failing_hz.filter(|_| vague).unwrap_or(known.estimate),
            slope,
            speed_exponent: speed_exponent(limit),
            max_pairs,
            step: Duration::from_secs(2),
        }
    }
}

/// How far R* follows the machine's speed, by a limit; not at all where that is not known.
#[must_use]
pub fn speed_exponent(limit: &LimitResult) -> f64 {
    limit.noise.map_or(0.0, |noise| noise.speed_exponent)
}

/// An effect in words: what was compared, by how much, how sure, and by which measure.
#[must_use]
pub fn describe_effect(effect: &Effect) -> String {
    let Some(ratio) = effect.ratio else {
        return format!(
            "{}: no verdict from {}",
            effect.quantity,
            counted(effect.pairs)
        );
    };
    let range = ratio.ratio_range(|end| format!("{end:.2}"));
    let factor = match range {
        Some(range) if ratio.estimate.is_finite() => format!("x{:.2} ({range})", ratio.estimate),
        Some(range) => range,
        None => "factor not known".to_owned(),
    };
    let undecided = effect.verdict == Verdict::Inconclusive;
    let unseen = effect.visible().filter(|_| undecided);
    let unseen = unseen.map_or_else(String::new, |least| {
        let least = format_share(least);
        format!(", changes below {least} would hardly show")
    });
    format!(
        "{} {factor}, {} in {}{unseen}",
        effect.quantity,
        effect.verdict,
        counted(effect.pairs)
    )
}

fn counted(pairs: u32) -> String {
    match pairs {
        1 => "1 pair".to_owned(),
        pairs => format!("{pairs} pairs"),
    }
}

/// `opcache.enable = 1, ...` without the layer where it is said once.
#[must_use]
pub fn describe_settings(settings: &[Setting]) -> String {
    settings
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::{ComparisonBase, describe_effect};
    use kneepoint_model::run::LimitResult;
    use kneepoint_model::{Effect, Interval};

    #[test]
    fn an_effect_is_described_by_what_its_pairs_say_and_no_more() {
        let described = |[low, estimate, high]: [f64; 3], visible: f64| {
            describe_effect(&Effect {
                quantity: "capacity".into(),
                ratio: Some(Interval {
                    low,
                    estimate,
                    high,
                }),
                pairs: 3,
                smallest_visible: Some(visible),
                ..Effect::default()
            })
        };
        assert_eq!(
            described([0.9, 1.1, 1.34], 0.25),
            "capacity x1.10 (0.90 to 1.34), inconclusive in 3 pairs, changes below 25 % would hardly show"
        );
        assert_eq!(
            described([1e-8, 1.1, 4.8e8], 4.8e8),
            "capacity factor not known, inconclusive in 3 pairs"
        );
        assert_eq!(
            described([1.3, f64::INFINITY, f64::INFINITY], f64::INFINITY),
            "capacity at least 1.30, inconclusive in 3 pairs"
        );
        assert_eq!(
            describe_effect(&Effect::default()),
            ": no verdict from 0 pairs"
        );
    }

    fn check(interval: [f64; 3], steps: &[(f64, f64)], rate_hz: f64) {
        let [low, estimate, high] = interval;
        let limit = LimitResult {
            rate_hz: Interval {
                low,
                estimate,
                high,
            },
            steps: steps
                .iter()
                .map(|(rate_hz, violating)| (*rate_hz, *violating, 500))
                .collect(),
            ..LimitResult::default()
        };
        let base = ComparisonBase::of(&limit, 8.0, 10);
        assert!(
            (base.rate_hz - rate_hz).abs() < 1e-9,
            "compares at {} instead of {rate_hz}",
            base.rate_hz
        );
    }

    #[test]
    fn a_known_limit_is_where_arms_are_compared() {
        check([95.0, 100.0, 105.0], &[(98.0, 0.04), (130.0, 0.4)], 100.0);
    }

    #[test]
    fn a_vague_limit_gives_way_to_the_lowest_rate_that_failed_plainly() {
        let steps = [(340.0, 0.9), (172.0, 0.4), (145.0, 0.3), (47.0, 0.01)];
        check([15.0, 27.0, 47.0], &steps, 145.0);
    }

    #[test]
    fn a_vague_limit_that_nothing_failed_at_stays() {
        check([15.0, 27.0, 47.0], &[(20.0, 0.0), (340.0, 1.0)], 27.0);
    }
}
