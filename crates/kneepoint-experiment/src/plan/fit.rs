//! From measured steps to a twin: what CPU a request takes, and what it waits for.

use super::cost::{Cost, idle_of, saving_of};
use super::twin::{MOST_CPU, Twin, mean, trace};
use super::wander::wander;
use crate::random::Random;
use crate::simulated::pool::{PoolSize, Scheduling};
use kneepoint_model::capacity::Demand;
use kneepoint_model::{Interval, LatencyHistogram, Layer, Slo};
use std::collections::BTreeMap;

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
    /// Cores that are busy without a request, and how much less CPU a request takes at higher rates, where more steps than
    /// those of a fit told them; the fit finds them where not.
    pub(super) idle_cores: Option<f64>,
    pub(super) saving: Option<f64>,
}

/// A twin, and what it was made from.
#[derive(Debug, Clone)]
pub(super) struct Fitted {
    pub(super) twin: Twin,
    pub(super) whole: Cost,
    pub(super) demand: Demand,
}

/// Makes the twin of steps at one or more rates.
pub(super) fn fit(seen: &[Seen], ground: Ground, slo: &Slo) -> Fitted {
    // How much longer some requests take than others shows best where they hardly wait for each other, and how long they
    // take at all close to where the twin is asked.
    let lowest = seen.iter().map(|step| step.level).min().unwrap_or(0);
    let highest = seen.iter().map(|step| step.level).max().unwrap_or(0);
    let (low, high) = (at_level(seen, lowest), at_level(seen, highest));
    let whole = Cost::of(
        &busy(seen.iter()),
        ground.idle_cores,
        ground.saving,
        high.rate_hz,
    );
    let trace = trace(&low.response);
    let mean_s = mean(trace.iter().copied());
    let tiers = tiers(seen, highest);
    let of_tiers: f64 = tiers.iter().map(|(_, cpu_s)| cpu_s).sum();
    let on_the_way_s = of_tiers.min(whole.cpu_s).min(MOST_CPU * mean_s);
    let stolen = seen.iter().map(|step| step.stolen_cores).sum::<f64>() / seen.len().max(1) as f64;
    let twin = Twin {
        size: PoolSize {
            workers: ground.workers,
            cores: (ground.cores - whole.idle - stolen).max(0.05),
            backlog: ground.backlog,
        },
        scheduling: ground.scheduling,
        trace,
        cpu_share: on_the_way_s / mean_s.max(f64::MIN_POSITIVE),
        aside_s: whole.cpu_s - on_the_way_s,
        at_hz: whole.at_hz,
        saving: whole.saving,
        timeout_s: slo.timeout.as_secs_f64(),
        wander: wander(seen, ground.cores),
    }
    .anchored(
        high.response.mean_ms().unwrap_or(0.0) / 1e3,
        ANCHOR_REQUESTS,
    );
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

impl Seen {
    /// Rate and cores that were busy.
    pub(super) fn busy(&self) -> (f64, f64) {
        (self.counted_hz, self.busy_cores)
    }
}

fn busy<'a>(seen: impl Iterator<Item = &'a Seen>) -> Vec<(f64, f64)> {
    seen.map(Seen::busy).collect()
}

/// The ground where all these steps tell what the machine does without a request, unless that is known, and how much less
/// CPU a request takes at higher rates.
pub(super) fn known_from<'a>(ground: Ground, seen: impl Iterator<Item = &'a Seen>) -> Ground {
    let points = busy(seen);
    let idle = ground.idle_cores.unwrap_or_else(|| idle_of(&points));
    Ground {
        idle_cores: Some(idle),
        saving: Some(saving_of(&points, idle)),
        ..ground
    }
}

/// CPU seconds of a request in each tier's own processes, at one of the rates.
fn tiers(seen: &[Seen], level: usize) -> Vec<(Layer, f64)> {
    let steps = || seen.iter().filter(|step| step.level == level);
    let requests_hz: f64 = steps().map(|step| step.counted_hz).sum();
    let mut cores: BTreeMap<Layer, f64> = BTreeMap::new();
    for (layer, of_step) in steps().flat_map(|step| &step.tiers) {
        *cores.entry(*layer).or_default() += of_step;
    }
    let each = |(layer, cores)| (layer, cores / f64::max(requests_hz, f64::MIN_POSITIVE));
    cores.into_iter().map(each).collect()
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
