//! From measured steps to a twin: what CPU a request takes, and what it waits for.

use super::twin::{Twin, mean, trace};
use super::wander::wander;
use crate::random::Random;
use crate::simulated::pool::{PoolSize, Scheduling};
use kneepoint_model::capacity::Demand;
use kneepoint_model::{Interval, LatencyHistogram, Layer, Slo};

/// Most of a response time that may be CPU: of what is beyond, some ran beside it.
const MOST_CPU: f64 = 0.97;
/// Requests of the runs that bring the twin to the mean response time that was measured at the highest rate.
const ANCHOR_REQUESTS: u64 = 20_000;

/// One measured step, as the fit sees it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// Which of the rates it is, from the lowest on.
    pub(super) level: usize,
    /// Requests per second that ended.
    pub(super) rate_hz: f64,
    /// The same over all the time in which CPU was counted, the second that is left out of the window with it.
    pub(super) counted_hz: f64,
    pub(super) response: LatencyHistogram,
    /// Of each second, the mean logarithm of its median and its 90th percentile in ms.
    pub(super) seconds_ln_ms: Vec<f64>,
    /// Cores that were busy on the whole machine.
    pub(super) busy_cores: f64,
    pub(super) stolen_cores: f64,
    /// Cores that each tier's own processes used.
    pub(super) tiers: Vec<(Layer, f64)>,
}

/// The pool and the machine, as configured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground {
    pub(super) workers: u32,
    pub(super) backlog: u32,
    pub(super) cores: f64,
    /// How the kernel gives the cores out.
    pub(super) scheduling: Scheduling,
    /// Cores that are busy without a request, where more steps than those of a fit told it; the fit finds it where not.
    pub(super) idle_cores: Option<f64>,
}

/// A line `cores = idle + cpu_s rate` through steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// Cores that are busy without a request.
    pub(super) idle: f64,
    /// CPU seconds of a request.
    pub(super) cpu_s: f64,
}

/// The line through (rate, cores) with neither part below zero, by least squares.
pub(super) fn line(points: &[(f64, f64)]) -> Line {
    let n = (points.len() as f64).max(1.0);
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    let shared: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let slope = if spread > 0.0 { shared / spread } else { 0.0 };
    let idle = y - slope * x;
    if slope > 0.0 && idle >= 0.0 {
        return Line { idle, cpu_s: slope };
    }
    // Without an idle part the line goes through the origin.
    line_from(0.0, points)
}

/// The same where what is busy without a request is known: only the slope is left to find.
fn line_from(idle: f64, points: &[(f64, f64)]) -> Line {
    let squares: f64 = points.iter().map(|p| p.0 * p.0).sum();
    let products: f64 = points.iter().map(|p| p.0 * (p.1 - idle)).sum();
    Line {
        idle,
        cpu_s: (products / squares.max(f64::MIN_POSITIVE)).max(0.0),
    }
}

/// Cores that are busy whatever the rate, by steps at two rates or more.
pub(super) fn idle_cores<'a>(seen: impl Iterator<Item = &'a Seen>) -> f64 {
    line(&pairs(seen, |step| Some(step.busy_cores))).idle
}

/// A twin, and what it was made from.
#[derive(Debug, Clone)]
pub(super) struct Fitted {
    pub(super) twin: Twin,
    pub(super) whole: Line,
    pub(super) demand: Demand,
}

/// Makes the twin of steps at one or more rates.
pub(super) fn fit(seen: &[Seen], ground: Ground, slo: &Slo) -> Fitted {
    let busy = pairs(seen.iter(), |step| Some(step.busy_cores));
    let whole = match ground.idle_cores {
        Some(idle) => line_from(idle, &busy),
        None => line(&busy),
    };
    // How much longer some requests take than others shows best where they hardly wait for each other, and how long they
    // take at all close to where the twin is asked.
    let lowest = seen.iter().map(|step| step.level).min().unwrap_or(0);
    let highest = seen.iter().map(|step| step.level).max().unwrap_or(0);
    let (low, high) = (at_level(seen, lowest), at_level(seen, highest));
    let trace = trace(&low.response);
    let mean_s = mean(trace.iter().copied());
    let tiers = tiers(seen);
    let of_tiers: f64 = tiers.iter().map(|(_, cpu_s)| cpu_s).sum();
    let on_the_way_s = of_tiers.min(whole.cpu_s).min(MOST_CPU * mean_s);
    let stolen = seen.iter().map(|step| step.stolen_cores).sum::<f64>() / seen.len().max(1) as f64;
    let mut twin = Twin {
        size: PoolSize {
            workers: ground.workers,
            cores: (ground.cores - whole.idle - stolen).max(0.05),
            backlog: ground.backlog,
        },
        scheduling: ground.scheduling,
        trace,
        cpu_share: on_the_way_s / mean_s.max(f64::MIN_POSITIVE),
        aside_s: whole.cpu_s - on_the_way_s,
        timeout_s: slo.timeout.as_secs_f64(),
        wander: 0.0,
    }
    .anchored(
        high.rate_hz,
        high.response.mean_ms().unwrap_or(0.0) / 1e3,
        ANCHOR_REQUESTS,
    );
    twin.wander = wander(seen, ground.cores);
    Fitted {
        twin,
        whole,
        demand: Demand {
            cpu_ms: Interval {
                low: whole.cpu_s * 1e3,
                estimate: whole.cpu_s * 1e3,
                high: whole.cpu_s * 1e3,
            },
            tiers_ms: tiers
                .into_iter()
                .map(|(layer, cpu_s)| (layer, cpu_s * 1e3))
                .collect(),
            response_ms: mean_s * 1e3,
            on_the_way_ms: on_the_way_s * 1e3,
            worker_memory_bytes: None,
        },
    }
}

/// The steps at one of the rates together.
struct AtLevel {
    rate_hz: f64,
    response: LatencyHistogram,
}

fn at_level(seen: &[Seen], level: usize) -> AtLevel {
    let steps = || seen.iter().filter(|step| step.level == level);
    let mut response = LatencyHistogram::default();
    steps().for_each(|step| response.merge(&step.response));
    AtLevel {
        rate_hz: mean(steps().map(|step| step.rate_hz)),
        response,
    }
}

fn pairs<'a>(
    seen: impl Iterator<Item = &'a Seen>,
    of: impl Fn(&Seen) -> Option<f64>,
) -> Vec<(f64, f64)> {
    seen.filter_map(|step| Some((step.counted_hz, of(step)?)))
        .collect()
}

/// CPU seconds of a request in each tier's own processes.
fn tiers(seen: &[Seen]) -> Vec<(Layer, f64)> {
    let mut layers: Vec<Layer> = seen
        .iter()
        .flat_map(|step| step.tiers.iter().map(|(layer, _)| *layer))
        .collect();
    layers.sort_unstable();
    layers.dedup();
    layers
        .into_iter()
        .map(|layer| {
            let of = |step: &Seen| {
                let found = step.tiers.iter().find(|(other, _)| *other == layer);
                found.map(|(_, cores)| *cores)
            };
            (layer, line(&pairs(seen.iter(), of)).cpu_s)
        })
        .collect()
}

/// The steps drawn anew, each rate among its own: what another run might have seen.
pub(super) fn drawn_anew(seen: &[Seen], random: &mut Random) -> Vec<Seen> {
    seen.iter()
        .map(|step| {
            let alike: Vec<&Seen> = seen.iter().filter(|it| it.level == step.level).collect();
            alike[random.below(alike.len())].clone()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_part_below_zero() {
        let with_idle = line(&[(10.0, 0.3), (20.0, 0.4), (30.0, 0.5)]);
        assert!((with_idle.idle - 0.2).abs() < 1e-9 && (with_idle.cpu_s - 0.01).abs() < 1e-9);
        let below = line(&[(10.0, 0.05), (20.0, 0.25), (30.0, 0.3)]);
        assert!(
            below.idle == 0.0 && (0.008..0.012).contains(&below.cpu_s),
            "{below:?}"
        );
        let known = line_from(0.2, &[(10.0, 0.3), (20.0, 0.4)]);
        assert!((known.cpu_s - 0.01).abs() < 1e-9);
        let one = line(&[(10.0, 0.1)]);
        assert!((one.cpu_s - 0.01).abs() < 1e-9);
    }
}
