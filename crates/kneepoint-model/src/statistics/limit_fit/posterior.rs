//! The posterior of ln R* on a grid, under one link.

use super::{FitStep, LOWEST, Link, Observation, Prior, expected, observations};
use crate::statistics::special::normal_density;

/// Points of ln R* over everything the prior allows, to see where the weight is.
const COARSE: usize = 121;
/// Points of ln R* over where it is.
const FINE: usize = 61;
/// Weight relative to the largest from which a coarse point belongs to it.
const SEEN: f64 = 1e-4;
const SLOPE_POINTS: usize = 11;
/// Median and log-sd of the slope b (method.md: ln b ~ N(ln 25, 0.6)).
pub(super) const SLOPE_MEDIAN: f64 = 25.0;
const SLOPE_LOG_SD: f64 = 0.6;
/// Values of tau, in logits (method.md: 0.15 to 3).
const SPREADS: [f64; 6] = [0.15, 0.3, 0.6, 1.0, 1.7, 3.0];
/// How far R* may follow the speed, with prior weights: half on "not at all", the rest around "as the machine does".
/// It follows a little more than that where a slower machine also makes each request take more of the SLO's time, and
/// less where waits or workers bind.
const BETAS: [(f64, f64); 6] = [
    (0.0, 0.5),
    (0.25, 0.04),
    (0.5, 0.08),
    (0.75, 0.13),
    (1.0, 0.15),
    (1.25, 0.1),
];
/// Both extremes, to look around with.
const EXTREMES: [(f64, f64); 2] = [BETAS[0], BETAS[4]];
/// Where no speed was measured.
const NO_SPEED: [(f64, f64); 1] = [(0.0, 1.0)];
/// Residuals whose squares are multiplied before one logarithm is taken of the product: it stays finite.
const CHUNK: usize = 24;

/// Means over the posterior.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posterior {
    /// ln R* at reference speed.
    pub(super) ln_rate: f64,
    /// Standard deviation of the same.
    pub(super) sd: f64,
    /// How far the ends of the middle 95 % lie below and above it.
    pub(super) sides: [f64; 2],
    /// Slope b, in logits.
    pub(super) slope: f64,
    /// How far R* follows the speed.
    pub(super) beta: f64,
    /// Scale of a step around the fit, sqrt(tau^2 + v)/b, as a share of the rate.
    pub(super) step_scale: f64,
}

/// A point of the grid but for tau.
#[derive(Clone, Copy)]
struct Point {
    ln_rate: f64,
    slope: f64,
    beta: f64,
    ln_prior: f64,
}

struct Cell {
    ln_weight: f64,
    point: Point,
    spread: f64,
}

/// What of the likelihood depends on tau and beta only.
struct Spread {
    tau: f64,
    /// -1/2 sum of ln(tau^2 + v), with all that is uncertain in v: the same at every beta. That a beta leaves less uncertain
    /// says nothing for it, since a step far from the limit is clipped; with it in, beta came out at 0.4 where R* follows
    /// the speed, and R* a quarter too low (40 simulated searches of five minutes beside busy programs).
    ln_norm: f64,
    /// 1/(4 (tau^2 + v)) of each observation, with what is uncertain at beta in v and without.
    quarter: Vec<[f64; 2]>,
}

/// The squared residual of an observation: up to the best that the step may have had, where what others took is uncertain,
/// and beyond it, where nothing but chance is.
type Squares = [f64; 2];

impl Posterior {
    #[inline]
    pub(super) fn of(steps: &[FitStep], prior: Prior, link: Link) -> Self {
        let data = observations(steps, prior.violating_share, link);
        let speeds = !steps.is_empty() && steps.iter().all(|step| step.speed.is_some());
        let grid = Grid::new(&data, prior, link, speeds);
        let (low, high) = (
            (0.03 * prior.saturation_hz).ln(),
            (1.5 * prior.saturation_hz).ln(),
        );
        // Whether the speed matters is for the fine grid to say: to look around, both extremes do.
        let none: &[(f64, f64)] = &NO_SPEED;
        let betas = if speeds { &BETAS } else { none };
        let extremes = if speeds { &EXTREMES } else { none };
        let coarse = grid.cells((low, high), COARSE, extremes);
        let step = (high - low) / (COARSE - 1) as f64;
        let (from, to) = extent(&coarse);
        let (from, to) = ((from - step).max(low), (to + step).min(high));
        let fine = grid.cells((from, to), FINE, betas);
        grid.mean(&fine, (to - from) / (FINE - 1) as f64)
    }
}

/// The range of ln R* that carries the weight.
#[inline]
fn extent(cells: &[Cell]) -> (f64, f64) {
    let least = top(cells) + SEEN.ln();
    cells
        .iter()
        .filter(|cell| cell.ln_weight >= least)
        .map(|cell| cell.point.ln_rate)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), rate| {
            (low.min(rate), high.max(rate))
        })
}

#[inline]
fn top(cells: &[Cell]) -> f64 {
    cells
        .iter()
        .map(|cell| cell.ln_weight)
        .fold(f64::NEG_INFINITY, f64::max)
}

#[inline]
fn ln_prior_rate(ln_rate: f64, prior: Prior) -> f64 {
    let z = (ln_rate - (0.87 * prior.saturation_hz).ln()) / 0.15;
    let near = 0.9 * normal_density(z) / 0.15;
    let (low, high) = (
        (LOWEST * prior.saturation_hz).ln(),
        (1.1 * prior.saturation_hz).ln(),
    );
    let wide = if (low..=high).contains(&ln_rate) {
        0.1 / (high - low)
    } else {
        0.0
    };
    (near + wide).max(1e-12).ln()
}

struct Grid<'a> {
    data: &'a [Observation],
    prior: Prior,
    link: Link,
    centre: f64,
    /// Whether the speed of each step was measured.
    speeds: bool,
}

impl<'a> Grid<'a> {
    #[inline]
    fn new(data: &'a [Observation], prior: Prior, link: Link, speeds: bool) -> Self {
        Self {
            data,
            prior,
            link,
            centre: link.of(prior.violating_share),
            speeds,
        }
    }

    /// Every tau where R* follows the speed to the power of `beta`. Where no speed was measured, nothing says that it does not.
    #[inline]
    fn spreads(&self, beta: f64) -> [Spread; SPREADS.len()] {
        let follows = if self.speeds { beta.min(1.0) } else { 1.0 };
        let variance =
            |seen: &Observation, follows: f64| seen.sampling + (follows * seen.uncertain).powi(2);
        SPREADS.map(|spread| {
            let tau = spread * self.link.scale();
            let all = self.data.iter().map(|seen| tau * tau + variance(seen, 1.0));
            let quarter = |v: f64| 0.25 / (tau * tau + v);
            Spread {
                tau,
                ln_norm: -0.5 * all.map(f64::ln).sum::<f64>(),
                quarter: self
                    .data
                    .iter()
                    .map(|seen| [quarter(variance(seen, follows)), quarter(seen.sampling)])
                    .collect(),
            }
        })
    }

    /// Every cell between two values of ln R*, with its unnormalised weight.
    #[inline]
    fn cells(&self, (low, high): (f64, f64), points: usize, betas: &[(f64, f64)]) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(points * SLOPE_POINTS * SPREADS.len() * betas.len());
        let mut squares = vec![[0.0; 2]; self.data.len()];
        let spreads: Vec<_> = betas.iter().map(|(beta, _)| self.spreads(*beta)).collect();
        for i in 0..points {
            let ln_rate = low + (high - low) * i as f64 / (points - 1) as f64;
            let rate_weight = ln_prior_rate(ln_rate, self.prior);
            for ((beta, weight), spreads) in betas.iter().zip(&spreads) {
                for j in 0..SLOPE_POINTS {
                    let z = -2.0 + 4.0 * j as f64 / (SLOPE_POINTS - 1) as f64;
                    let point = Point {
                        ln_rate,
                        slope: SLOPE_MEDIAN * (SLOPE_LOG_SD * z).exp(),
                        beta: *beta,
                        ln_prior: rate_weight + weight.ln() - 0.5 * z * z,
                    };
                    self.squares(point, &mut squares);
                    cells.extend(spreads.iter().map(|spread| Cell {
                        ln_weight: point.ln_prior + ln_t4(&squares, spread),
                        point,
                        spread: spread.tau,
                    }));
                }
            }
        }
        cells
    }

    /// The squared residuals of each observation.
    #[inline]
    fn squares(&self, point: Point, squares: &mut [Squares]) {
        let slope = point.slope * self.link.scale();
        let expected = |distance: f64| expected(self.centre, slope, distance, self.link);
        for (square, seen) in squares.iter_mut().zip(self.data) {
            let distance = seen.x - point.beta * seen.speed - point.ln_rate;
            let at_worst = expected(distance);
            let at_best = expected(distance - point.beta * seen.spare);
            let within = seen.y.max(at_best);
            *square = [(within - at_worst).powi(2), (seen.y - within).powi(2)];
        }
    }

    /// Means over cells whose values of ln R* are `grid` apart.
    #[inline]
    fn mean(&self, cells: &[Cell], grid: f64) -> Posterior {
        let top = top(cells);
        let n = (self.data.len() as f64).max(1.0);
        let variance = |seen: &Observation| seen.sampling + seen.uncertain.powi(2);
        let variance = self.data.iter().map(variance).sum::<f64>() / n;
        let (mut mass, mut mean, mut square) = (0.0, 0.0, 0.0);
        let mut marginal: Vec<(f64, f64)> = Vec::new();
        let (mut slope, mut beta, mut scale) = (0.0, 0.0, 0.0);
        for Cell {
            ln_weight,
            point,
            spread,
        } in cells
        {
            let weight = (ln_weight - top).exp();
            mass += weight;
            match marginal.last_mut() {
                Some((ln_rate, of_it)) if *ln_rate == point.ln_rate => *of_it += weight,
                _ => marginal.push((point.ln_rate, weight)),
            }
            mean += weight * point.ln_rate;
            square += weight * point.ln_rate * point.ln_rate;
            slope += weight * point.slope;
            beta += weight * point.beta;
            scale += weight * spread.hypot(variance.sqrt()) / (point.slope * self.link.scale());
        }
        let mean = mean / mass;
        let variance = (square / mass - mean * mean).max(0.0) + grid * grid / 12.0;
        let end = |part: f64| quantile(&marginal, grid, part * mass);
        Posterior {
            ln_rate: mean,
            sd: variance.sqrt(),
            sides: [mean - end(0.025), end(0.975) - mean].map(|side| side.max(grid)),
            slope: slope / mass,
            beta: beta / mass,
            step_scale: scale / mass,
        }
    }
}

/// Where so much of the weight lies below, each point's being spread evenly over its part of the grid.
#[inline]
fn quantile(marginal: &[(f64, f64)], grid: f64, wanted: f64) -> f64 {
    let mut below = 0.0;
    for (ln_rate, mass) in marginal {
        if below + mass >= wanted {
            let part = (wanted - below) / mass.max(f64::MIN_POSITIVE);
            return ln_rate + (part - 0.5) * grid;
        }
        below += mass;
    }
    marginal
        .last()
        .map_or(0.0, |(ln_rate, _)| ln_rate + 0.5 * grid)
}

/// ln of the density of t distributions with four degrees of freedom, up to a constant: of each observation
/// `(tau^2 + v)^(-1/2) (1 + residual^2/(4 (tau^2 + v)))^(-5/2)`.
#[inline]
fn ln_t4(squares: &[Squares], spread: &Spread) -> f64 {
    let tails: f64 = squares
        .chunks(CHUNK)
        .zip(spread.quarter.chunks(CHUNK))
        .map(|(squares, quarter)| {
            let terms = squares.iter().zip(quarter);
            terms
                .map(|(square, quarter)| 1.0 + square[0] * quarter[0] + square[1] * quarter[1])
                .product::<f64>()
                .ln()
        })
        .sum();
    spread.ln_norm - 2.5 * tails
}
