//! R* from many short steps: a Bayesian fit of the violating share over the offered rate.
//!
//! Model (method.md, "find_limit"): on a link scale (logit or probit) the violating share of a step at rate r
//! is t4-distributed around `link(p) + b (ln r - beta ln s - ln R*)` with variance tau^2 + v: s the machine's
//! speed during the step, v the step's own sampling variance. The posterior is taken on a grid. Two links are
//! fitted because one alone is overconfident (PLRsearch): half their disagreement widens the interval, as an error of its
//! own that has nothing to do with chance.
//!
//! beta says how far R* follows the machine's speed. Half of the prior's weight is on "not at all", so the speed is
//! used only where the residuals shrink by it.
//!
//! What others took of the machine within a step can only have made it worse, and only as far as R* follows the speed: a step
//! that did badly then says less of R* the more they took, and one that did well says as much as any. One that did better
//! than what they left would bear at the most says that R* does not follow what they take.
//!
//! What integrates is `#[inline]`: it is compiled with the crate that asks for a fit, which is optimised also in tests, and not
//! with this one.

mod posterior;

use super::Interval;
use super::autocorrelation::{inflation, lag_one, sd_of_drifting_mean};
use super::special::{logit, normal_density, normal_quantile};
use posterior::Posterior;

/// One open-loop step as the fit sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitStep {
    /// Offered rate per second.
    pub rate_hz: f64,
    /// Arrivals that violated the goal.
    pub violations: u64,
    /// Arrivals.
    pub arrivals: u64,
    /// The machine's speed during the step relative to the reference; `None` where it was not measured.
    pub speed: Option<f64>,
    /// By how much the limit that the step speaks for is uncertain beside what the fit finds out, as a standard deviation of
    /// its logarithm, where it follows the speed or no speed was measured: what is known before of a step that others
    /// disturbed.
    pub uncertain: f64,
    /// By how much more of the machine there was over the whole of the step than `speed` says of its worst moment, as a
    /// difference of logarithms.
    pub spare: f64,
}

/// What the fit says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// R* per second at the machine's mean speed: the rate at which the violating share reaches `p`, with its 95 %
    /// interval. What is not known of the mean speed is in the interval.
    pub rate_hz: Interval,
    /// R* per second at reference speed; the same as `rate_hz` where the speed was not measured or does not matter.
    pub reference_hz: Interval,
    /// Standard deviation of ln R* at reference speed, as the posterior has it.
    pub sd_ln: f64,
    /// Slope b of the logit of the violating share over ln rate.
    pub slope: f64,
    /// How far R* follows the machine's speed: R* is proportional to speed to this power.
    pub beta: f64,
    /// Standard deviation of a single step around the fit, as a share of the rate.
    pub step_sd: f64,
    /// R90 per second at reference speed: the rate at which nine of ten steps meet the goal.
    pub r90_hz: f64,
    /// Lag-one autocorrelation of the residuals; 0 with too few steps.
    pub autocorrelation: f64,
}

impl Fit {
    /// R* per second that the fit expects at a speed of the machine.
    #[must_use]
    pub fn at_speed(&self, speed: Option<f64>) -> f64 {
        self.reference_hz.estimate * speed.unwrap_or(1.0).powf(self.beta)
    }
}

/// What is known before the first step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// Throughput of a closed loop at saturation, per second: R* usually is 0.6 to 1.0 of it.
    pub saturation_hz: f64,
    /// Share of violations that defines the limit, 0.05 for p95.
    pub violating_share: f64,
}

/// The end of what the prior allows for R*, over the throughput at saturation: what lies below it, no fit says.
pub const LOWEST: f64 = 0.05;
/// How far from the limit, on the link scale, a step still says *how* far it is.
const CLIP: f64 = 2.5;
/// Quantile of the t distribution with four degrees of freedom that nine tenths lie below.
const T4_NINE_TENTHS: f64 = 1.533;
/// How much further than the middle 95 % of the posterior one side of an interval may reach. The standard deviation covers what
/// the model does not know, and so it sets the width; but where hardly anything was seen on one side, it is large by that alone,
/// and says nothing of the other \[ours\].
const ENDS_SOONER: f64 = 1.3;
/// Standard deviation of the t distribution with four degrees of freedom, at scale 1.
const T4_SD: f64 = std::f64::consts::SQRT_2;
/// Most that the posterior's spread is widened by for autocorrelated residuals, as an autocorrelation.
const MOST_RESEMBLANCE: f64 = 0.8;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Link {
    Logit,
    Probit,
}

impl Link {
    #[inline]
    fn of(self, p: f64) -> f64 {
        match self {
            Self::Logit => logit(p),
            Self::Probit => normal_quantile(p),
        }
    }

    /// One probit is about 1.7 logits near the middle; in the tail at 5 % about 2.
    #[inline]
    fn scale(self) -> f64 {
        match self {
            Self::Logit => 1.0,
            Self::Probit => 0.5,
        }
    }

    #[inline]
    fn variance(self, share: f64, arrivals: f64) -> f64 {
        match self {
            Self::Logit => 1.0 / (share * arrivals) + 1.0 / ((1.0 - share) * arrivals),
            Self::Probit => {
                share * (1.0 - share) / arrivals / normal_density(normal_quantile(share)).powi(2)
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Observation {
    /// ln rate.
    x: f64,
    /// ln speed.
    speed: f64,
    /// By how much higher ln speed was over the whole of the step.
    spare: f64,
    /// The violating share on the link scale, clipped.
    y: f64,
    /// Sampling variance of the same.
    sampling: f64,
    /// Standard deviation of the same for what is uncertain of the limit, where that follows the speed.
    uncertain: f64,
}

#[inline]
fn observations(steps: &[FitStep], p: f64, link: Link) -> Vec<Observation> {
    let centre = link.of(p);
    steps
        .iter()
        .filter(|step| step.arrivals > 0 && step.rate_hz > 0.0)
        .map(|step| {
            let arrivals = step.arrivals as f64 + 1.0;
            let share = (step.violations as f64 + 0.5) / arrivals;
            let reach = CLIP * link.scale();
            let sampling = link.variance(share, arrivals);
            // Half a violation of few arrivals is more than a goal of one in a thousand: what had none speaks against no rate.
            let y = match step.violations {
                0 => link.of(share).min(centre),
                _ => link.of(share),
            };
            Observation {
                x: step.rate_hz.ln(),
                speed: step.speed.filter(|speed| *speed > 0.0).map_or(0.0, f64::ln),
                y: y.clamp(centre - reach, centre + reach),
                spare: step.spare,
                sampling,
                uncertain: posterior::SLOPE_MEDIAN * link.scale() * step.uncertain,
            }
        })
        .collect()
}

/// Expected link value at distance `b (x - beta speed - ln R*)`, clipped like the observations are.
#[inline]
fn expected(centre: f64, slope: f64, distance: f64, link: Link) -> f64 {
    let reach = CLIP * link.scale();
    (centre + slope * distance).clamp(centre - reach, centre + reach)
}

/// Lag-one autocorrelation of what the fit leaves over, in the order of the steps.
fn resemblance(data: &[Observation], prior: Prior, fitted: &Posterior) -> f64 {
    let centre = Link::Logit.of(prior.violating_share);
    let residuals: Vec<f64> = data
        .iter()
        .map(|seen| {
            let distance = seen.x - fitted.beta * seen.speed - fitted.ln_rate;
            seen.y - expected(centre, fitted.slope, distance, Link::Logit)
        })
        .collect();
    lag_one(&residuals).unwrap_or(0.0)
}

/// An interval around a rate from the middle of its logarithm, and how far that reaches below and above it.
fn around(ln_rate: f64, [below, above]: [f64; 2]) -> Interval {
    Interval {
        low: (ln_rate - below).exp(),
        estimate: ln_rate.exp(),
        high: (ln_rate + above).exp(),
    }
}

/// Fits R* to the steps taken so far (none at all gives the prior back).
#[must_use]
#[inline]
pub fn fit(steps: &[FitStep], prior: Prior) -> Fit {
    let logit = Posterior::of(steps, prior, Link::Logit);
    let probit = Posterior::of(steps, prior, Link::Probit);
    let ln_rate = f64::midpoint(logit.ln_rate, probit.ln_rate);
    let sd = f64::midpoint(logit.sd, probit.sd);
    let data = observations(steps, prior.violating_share, Link::Logit);
    let rho = resemblance(&data, prior, &logit);
    let inflated = inflation(rho.min(MOST_RESEMBLANCE));
    let effective = (steps.len() as f64 / inflated).max(3.0);
    let widened = inflated.sqrt() * (1.0 + 1.5 / effective);
    let disagree = (logit.ln_rate - probit.ln_rate) / 2.0;
    let sides = [0, 1].map(|side| {
        let reach = f64::midpoint(logit.sides[side], probit.sides[side]);
        let by_chance = (1.96 * sd).min(ENDS_SOONER * reach) * widened;
        by_chance.hypot(disagree)
    });
    let beta = f64::midpoint(logit.beta, probit.beta);
    let speeds: Vec<f64> = data.iter().map(|seen| seen.speed).collect();
    let mean_speed = speeds.iter().sum::<f64>() / (speeds.len() as f64).max(1.0);
    let of_speed = 1.96 * beta * sd_of_drifting_mean(&speeds).unwrap_or(0.0);
    Fit {
        rate_hz: around(
            ln_rate + beta * mean_speed,
            sides.map(|side| side.hypot(of_speed)),
        ),
        reference_hz: around(ln_rate, sides),
        sd_ln: sd,
        slope: logit.slope,
        beta,
        step_sd: T4_SD * logit.step_scale,
        r90_hz: (ln_rate - T4_NINE_TENTHS * logit.step_scale).exp(),
        autocorrelation: rho,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of a stack whose violating share is exactly the model's.
    fn step(limit_hz: f64, slope: f64, rate_hz: f64, speed: Option<f64>) -> FitStep {
        let limit_now = limit_hz * speed.unwrap_or(1.0);
        let y = logit(0.05) + slope * (rate_hz / limit_now).ln();
        FitStep {
            rate_hz,
            violations: ((1.0 / (1.0 + (-y).exp())) * 500.0).round() as u64,
            arrivals: 500,
            speed,
            uncertain: 0.0,
            spare: 0.0,
        }
    }

    fn prior(saturation_hz: f64) -> Prior {
        Prior {
            saturation_hz,
            violating_share: 0.05,
        }
    }

    fn check(limit_hz: f64, saturation_hz: f64, slope: f64) {
        let mut taken = Vec::new();
        let prior = prior(saturation_hz);
        for i in 0..12 {
            let so_far = fit(&taken, prior);
            let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
            let rate = so_far.rate_hz.estimate * (sign * so_far.sd_ln.clamp(0.015, 0.04)).exp();
            taken.push(step(limit_hz, slope, rate, None));
        }
        let fitted = fit(&taken, prior);
        assert!(fitted.rate_hz.contains(limit_hz), "{limit_hz}: {fitted:?}");
        assert!(fitted.rate_hz.relative_half_width() < 0.06, "{fitted:?}");
        assert_eq!(fitted.rate_hz, fitted.reference_hz, "no speed was measured");
    }

    /// One step at which nearly everything was late: how far R* lies below is not known, and that it is not far above is.
    #[test]
    fn what_one_step_shows_of_one_side_it_shows_of_that_side_alone() {
        let late = FitStep {
            violations: 10,
            arrivals: 10,
            ..step(1.0, 25.0, 2.7, None)
        };
        let fitted = fit(&[late], prior(3.6));
        let (low, high) = (fitted.rate_hz.low, fitted.rate_hz.high);
        assert!(low < 0.9 && (1.5..9.0).contains(&high), "{fitted:?}");
    }

    #[test]
    fn steps_without_a_violation_do_not_lower_the_limit() {
        let prior = Prior {
            saturation_hz: 115.0,
            violating_share: 0.001,
        };
        let clean = FitStep {
            violations: 0,
            arrivals: 140,
            ..step(100.0, 25.0, 100.0, None)
        };
        let (before, after) = (fit(&[], prior), fit(&[clean; 10], prior));
        let change = after.rate_hz.estimate / before.rate_hz.estimate;
        assert!(change > 0.97, "{before:?} {after:?}");
    }

    #[test]
    fn the_limit_is_found_from_a_saturation_estimate() {
        check(87.0, 100.0, 25.0);
        check(400.0, 460.0, 40.0);
        check(60.0, 100.0, 25.0);
    }

    #[test]
    fn a_limit_far_below_saturation_is_still_found() {
        check(25.0, 100.0, 20.0);
    }

    #[test]
    fn without_steps_the_prior_speaks() {
        let fitted = fit(&[], prior(100.0));
        assert!(
            (60.0..100.0).contains(&fitted.rate_hz.estimate),
            "{fitted:?}"
        );
        assert!(fitted.rate_hz.relative_half_width() > 0.2);
    }

    /// Speeds that go up and down by a tenth within the steps, and a canary that is right.
    fn speeds() -> impl Iterator<Item = f64> {
        (0..24).map(|i| 0.9 + 0.1 * (f64::from(i) * 0.4).sin())
    }

    #[test]
    fn a_machine_that_drifts_is_seen_through_with_a_canary_that_tracks_it() {
        let taken: Vec<FitStep> = speeds()
            .enumerate()
            .map(|(i, speed)| {
                let aside = if i % 2 == 0 { 1.02 } else { 0.98 };
                step(87.0, 25.0, 87.0 * speed * aside, Some(speed))
            })
            .collect();
        let fitted = fit(&taken, prior(90.0));
        assert!(fitted.beta > 0.9, "{fitted:?}");
        assert!(fitted.reference_hz.contains(87.0), "{fitted:?}");
        assert!(
            fitted.reference_hz.relative_half_width() < 0.02,
            "{fitted:?}"
        );
        // At the speed it had, it does a tenth less; how fast it is in the long run is known less well.
        assert!(
            (fitted.rate_hz.estimate / 87.0 - 0.9).abs() < 0.03,
            "{fitted:?}"
        );
        assert!(
            fitted.rate_hz.relative_half_width() > fitted.reference_hz.relative_half_width(),
            "{fitted:?}"
        );
    }

    #[test]
    fn a_canary_that_tracks_nothing_is_not_listened_to() {
        let taken: Vec<FitStep> = speeds()
            .enumerate()
            .map(|(i, speed)| {
                let aside = if i % 2 == 0 { 1.03 } else { 0.97 };
                FitStep {
                    speed: Some(speed),
                    ..step(87.0, 25.0, 87.0 * aside, None)
                }
            })
            .collect();
        let fitted = fit(&taken, prior(90.0));
        assert!(fitted.beta < 0.1, "{fitted:?}");
        assert!(fitted.reference_hz.contains(87.0), "{fitted:?}");
    }

    #[test]
    fn a_step_that_others_disturbed_counts_for_less() {
        let taken = |uncertain: f64| -> Vec<FitStep> {
            (0..12)
                .map(|i| {
                    let aside = if i % 2 == 0 { 1.02 } else { 0.98 };
                    // Every third step came out as if the limit were a tenth lower.
                    let (limit_hz, uncertain) = if i % 3 == 0 {
                        (87.0 * 0.9, uncertain)
                    } else {
                        (87.0, 0.0)
                    };
                    FitStep {
                        uncertain,
                        ..step(limit_hz, 25.0, 87.0 * aside, None)
                    }
                })
                .collect()
        };
        let (as_usual, weighed) = (
            fit(&taken(0.0), prior(95.0)),
            fit(&taken(0.15), prior(95.0)),
        );
        assert!(weighed.rate_hz.estimate > as_usual.rate_hz.estimate);
        assert!(weighed.rate_hz.contains(87.0), "{weighed:?}");
    }

    #[test]
    fn a_step_that_held_while_others_took_the_machine_says_that_the_limit_does_not_follow_it() {
        let held = |rate_hz: f64, available: f64| FitStep {
            rate_hz,
            violations: 0,
            arrivals: 300,
            speed: Some(available),
            uncertain: -0.4 * available.ln(),
            spare: 0.1,
        };
        let fitted = fit(&[held(56.0, 0.1), held(60.0, 0.15)], prior(75.0));
        assert!(fitted.beta < 0.1, "{fitted:?}");
        assert!(fitted.rate_hz.low > 40.0, "{fitted:?}");
        assert!(
            (55.0..80.0).contains(&fitted.at_speed(Some(0.1))),
            "{fitted:?}"
        );
    }

    #[test]
    fn r90_lies_below_the_limit_and_further_the_more_steps_scatter() {
        let scattered = |by: f64| {
            let taken: Vec<FitStep> = (0..24)
                .map(|i| {
                    let aside = if i % 2 == 0 { 1.02 } else { 0.98 };
                    let luck = 1.0 + by * if (i / 2) % 2 == 0 { 1.0 } else { -1.0 };
                    FitStep {
                        rate_hz: 87.0 * aside,
                        ..step(87.0, 25.0, 87.0 * aside * luck, None)
                    }
                })
                .collect();
            fit(&taken, prior(95.0))
        };
        let (calm, rough) = (scattered(0.005), scattered(0.04));
        assert!(rough.r90_hz < calm.r90_hz && calm.r90_hz < calm.reference_hz.estimate);
        assert!(rough.step_sd > 2.0 * calm.step_sd, "{calm:?} {rough:?}");
    }
}
