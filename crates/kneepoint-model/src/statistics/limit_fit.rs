//! R* from many short steps: a Bayesian fit of the violating share over the offered rate.
//!
//! Model (method.md, "find_limit"): on a link scale (logit or probit) the violating share of a step at rate r
//! is t4-distributed around `link(p) + b (ln r - ln R*)` with variance tau^2 + v, v the step's own sampling
//! variance. The posterior is taken on a grid. Two links are fitted because one alone is overconfident
//! (PLRsearch): half their disagreement widens the interval.

use super::Interval;
use super::special::{logit, normal_density, normal_quantile};

/// One open-loop step as the fit sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitStep {
    /// Offered rate per second.
    pub rate_hz: f64,
    /// Arrivals that violated the goal.
    pub violations: u64,
    /// Arrivals.
    pub arrivals: u64,
}

/// What the fit says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// R* per second: the rate at which the violating share reaches `p`, with its 95 % interval.
    pub rate_hz: Interval,
    /// Standard deviation of ln R*.
    pub sd_ln: f64,
    /// Slope b of the logit of the violating share over ln rate.
    pub slope: f64,
}

/// What is known before the first step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// Throughput of a closed loop at saturation, per second: R* usually is 0.6 to 1.0 of it.
    pub saturation_hz: f64,
    /// Share of violations that defines the limit, 0.05 for p95.
    pub violating_share: f64,
}

/// How far from the limit, on the link scale, a step still says *how* far it is.
const CLIP: f64 = 2.5;
const RATE_POINTS: usize = 241;
const SLOPE_POINTS: usize = 13;
const SPREADS: [f64; 6] = [0.15, 0.3, 0.6, 1.0, 1.7, 3.0];
/// Steps below which a lag-one autocorrelation is noise itself.
const FEWEST_FOR_AUTOCORRELATION: usize = 8;
/// Median and log-sd of the slope b (method.md: ln b ~ N(ln 25, 0.6)).
const SLOPE_MEDIAN: f64 = 25.0;
const SLOPE_LOG_SD: f64 = 0.6;

#[derive(Clone, Copy)]
enum Link {
    Logit,
    Probit,
}

impl Link {
    fn of(self, p: f64) -> f64 {
        match self {
            Self::Logit => logit(p),
            Self::Probit => normal_quantile(p),
        }
    }

    /// One probit is about 1.7 logits near the middle; in the tail at 5 % about 2.
    fn scale(self) -> f64 {
        match self {
            Self::Logit => 1.0,
            Self::Probit => 0.5,
        }
    }

    fn variance(self, share: f64, arrivals: f64) -> f64 {
        match self {
            Self::Logit => 1.0 / (share * arrivals) + 1.0 / ((1.0 - share) * arrivals),
            Self::Probit => {
                share * (1.0 - share) / arrivals / normal_density(normal_quantile(share)).powi(2)
            }
        }
    }
}

struct Observation {
    x: f64,
    y: f64,
    variance: f64,
}

fn observations(steps: &[FitStep], p: f64, link: Link) -> Vec<Observation> {
    let centre = link.of(p);
    steps
        .iter()
        .filter(|step| step.arrivals > 0 && step.rate_hz > 0.0)
        .map(|step| {
            let arrivals = step.arrivals as f64 + 1.0;
            let share = (step.violations as f64 + 0.5) / arrivals;
            let reach = CLIP * link.scale();
            Observation {
                x: step.rate_hz.ln(),
                y: link.of(share).clamp(centre - reach, centre + reach),
                variance: link.variance(share, arrivals),
            }
        })
        .collect()
}

/// ln of the density of a t distribution with four degrees of freedom, up to a constant.
fn ln_t4(residual: f64, variance: f64) -> f64 {
    -0.5 * variance.ln() - 2.5 * (1.0 + residual * residual / variance / 4.0).ln()
}

fn ln_prior_rate(ln_rate: f64, prior: Prior) -> f64 {
    let z = (ln_rate - (0.87 * prior.saturation_hz).ln()) / 0.15;
    let near = 0.9 * normal_density(z) / 0.15;
    let (low, high) = (
        (0.05 * prior.saturation_hz).ln(),
        (1.1 * prior.saturation_hz).ln(),
    );
    let wide = if (low..=high).contains(&ln_rate) {
        0.1 / (high - low)
    } else {
        0.0
    };
    (near + wide).max(1e-12).ln()
}

/// Expected link value at distance `b (x - ln R*)`, clipped like the observations are.
fn expected(centre: f64, slope: f64, distance: f64, link: Link) -> f64 {
    let reach = CLIP * link.scale();
    (centre + slope * distance).clamp(centre - reach, centre + reach)
}

/// Posterior mean and sd of ln R*, and mean slope, under one link.
fn posterior(steps: &[FitStep], prior: Prior, link: Link) -> (f64, f64, f64) {
    let centre = link.of(prior.violating_share);
    let data = observations(steps, prior.violating_share, link);
    let (low, high) = (
        (0.03 * prior.saturation_hz).ln(),
        (1.5 * prior.saturation_hz).ln(),
    );
    let mut cells = Vec::with_capacity(RATE_POINTS * SLOPE_POINTS * SPREADS.len());
    for i in 0..RATE_POINTS {
        let ln_rate = low + (high - low) * i as f64 / (RATE_POINTS - 1) as f64;
        let rate_weight = ln_prior_rate(ln_rate, prior);
        for j in 0..SLOPE_POINTS {
            let z = -2.0 + 4.0 * j as f64 / (SLOPE_POINTS - 1) as f64;
            let slope = link.scale() * SLOPE_MEDIAN * (SLOPE_LOG_SD * z).exp();
            for spread in SPREADS {
                let spread = spread * link.scale();
                let fit: f64 = data
                    .iter()
                    .map(|seen| {
                        let residual = seen.y - expected(centre, slope, seen.x - ln_rate, link);
                        ln_t4(residual, spread * spread + seen.variance)
                    })
                    .sum();
                cells.push((
                    rate_weight - 0.5 * z * z + fit,
                    ln_rate,
                    slope / link.scale(),
                ));
            }
        }
    }
    let top = cells
        .iter()
        .map(|cell| cell.0)
        .fold(f64::NEG_INFINITY, f64::max);
    let (mut mass, mut mean, mut square, mut slope) = (0.0, 0.0, 0.0, 0.0);
    for (ln_weight, ln_rate, cell_slope) in cells {
        let weight = (ln_weight - top).exp();
        mass += weight;
        mean += weight * ln_rate;
        square += weight * ln_rate * ln_rate;
        slope += weight * cell_slope;
    }
    let mean = mean / mass;
    let grid = (high - low) / (RATE_POINTS - 1) as f64;
    let variance = (square / mass - mean * mean).max(0.0) + grid * grid / 12.0;
    (mean, variance.sqrt(), slope / mass)
}

/// Variance inflation for autocorrelated residuals, (1 + rho)/(1 - rho), from lag one, never below 1.
fn inflation(steps: &[FitStep], prior: Prior, ln_rate: f64, slope: f64) -> f64 {
    let centre = Link::Logit.of(prior.violating_share);
    let residuals: Vec<f64> = observations(steps, prior.violating_share, Link::Logit)
        .iter()
        .map(|seen| seen.y - expected(centre, slope, seen.x - ln_rate, Link::Logit))
        .collect();
    if residuals.len() < FEWEST_FOR_AUTOCORRELATION {
        return 1.0;
    }
    let mean = residuals.iter().sum::<f64>() / residuals.len() as f64;
    let power: f64 = residuals.iter().map(|r| (r - mean).powi(2)).sum();
    let lagged: f64 = residuals
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    let rho = if power > 0.0 {
        (lagged / power).clamp(0.0, 0.8)
    } else {
        0.0
    };
    (1.0 + rho) / (1.0 - rho)
}

/// Fits R* to the steps taken so far (none at all gives the prior back).
#[must_use]
pub fn fit(steps: &[FitStep], prior: Prior) -> Fit {
    let (logit_mean, logit_sd, slope) = posterior(steps, prior, Link::Logit);
    let (probit_mean, probit_sd, _) = posterior(steps, prior, Link::Probit);
    let mean = (logit_mean + probit_mean) / 2.0;
    let sd = f64::midpoint(logit_sd, probit_sd);
    let effective = (steps.len() as f64 / inflation(steps, prior, mean, slope)).max(1.0);
    let half =
        1.96 * sd * inflation(steps, prior, mean, slope).sqrt() * (1.0 + 1.5 / effective.max(3.0))
            + (logit_mean - probit_mean).abs() / 2.0;
    Fit {
        rate_hz: Interval {
            low: (mean - half).exp(),
            estimate: mean.exp(),
            high: (mean + half).exp(),
        },
        sd_ln: sd,
        slope,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of a stack whose violating share is exactly the model's.
    fn steps(limit_hz: f64, slope: f64, rates: &[f64]) -> Vec<FitStep> {
        rates
            .iter()
            .map(|rate| {
                let y = logit(0.05) + slope * (rate / limit_hz).ln();
                let share = 1.0 / (1.0 + (-y).exp());
                FitStep {
                    rate_hz: *rate,
                    violations: (share * 500.0).round() as u64,
                    arrivals: 500,
                }
            })
            .collect()
    }

    fn check(limit_hz: f64, saturation_hz: f64, slope: f64) {
        let mut taken = Vec::new();
        let prior = Prior {
            saturation_hz,
            violating_share: 0.05,
        };
        for i in 0..12 {
            let so_far = fit(&taken, prior);
            let sign = if i % 2 == 0 { 1.0 } else { -1.0 };
            let rate = so_far.rate_hz.estimate * (sign * so_far.sd_ln.clamp(0.015, 0.04)).exp();
            taken.extend(steps(limit_hz, slope, &[rate]));
        }
        let fitted = fit(&taken, prior);
        assert!(fitted.rate_hz.contains(limit_hz), "{limit_hz}: {fitted:?}");
        assert!(fitted.rate_hz.relative_half_width() < 0.06, "{fitted:?}");
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
        let prior = Prior {
            saturation_hz: 100.0,
            violating_share: 0.05,
        };
        let fitted = fit(&[], prior);
        assert!(
            (60.0..100.0).contains(&fitted.rate_hz.estimate),
            "{fitted:?}"
        );
        assert!(fitted.rate_hz.relative_half_width() > 0.2);
    }
}
