//! From measured steps to a twin: what CPU a request takes, and what it waits for.

use super::cost::{Cost, idle_of, saving_of};
use super::drift::drift;
use super::low_load::{LowLoadStep, PlannedHost};
use super::twin::{MOST_CPU, Twin, trace};
use crate::averages::mean;
use crate::random::Random;
use crate::simulated::pool::PoolSize;
use kneepoint_model::capacity::Demand;
use kneepoint_model::{Interval, LatencyHistogram, Layer, Slo};
use std::collections::BTreeMap;

/// Requests of the runs that bring the twin to the mean response time that was measured at the highest rate.
const ANCHOR_REQUESTS: u64 = 20_000;

/// A twin, and what it was made from.
#[derive(Debug, Clone)]
pub(crate) struct Fitted {
    pub(crate) twin: Twin,
    pub(crate) whole: Cost,
    pub(crate) demand: Demand,
}

/// Makes the twin of steps at one or more rates.
pub(crate) fn fit(seen: &[LowLoadStep], host: PlannedHost, slo: &Slo) -> Fitted {
    // How much longer some requests take than others shows best where they hardly wait for each other, and how long they
    // take at all close to where the twin is asked.
    let lowest = seen.iter().map(|step| step.level).min().unwrap_or(0);
    let highest = seen.iter().map(|step| step.level).max().unwrap_or(0);
    let (low, high) = (at_level(seen, lowest), at_level(seen, highest));
    let whole = Cost::of(
        &busy(seen.iter()),
        host.idle_cores,
        host.saving,
        high.rate_hz,
    );
    let trace = trace(&low.response);
    let mean_s = mean(trace.iter().copied());
    let tiers = tiers(seen, highest);
    let of_tiers: f64 = tiers.iter().map(|(_, cpu_s)| cpu_s).sum();
    let on_the_way_s = of_tiers.min(whole.cpu_s).min(MOST_CPU * mean_s);
    let elsewhere = mean(
        seen.iter()
            .map(|step| step.stolen_cores + step.others_cores),
    );
    let twin = Twin {
        size: PoolSize {
            workers: host.workers,
            cores: (host.cores - whole.idle - elsewhere).max(0.05),
            backlog: host.backlog,
        },
        scheduling: host.scheduling,
        trace,
        cpu_share: on_the_way_s / mean_s.max(f64::MIN_POSITIVE),
        aside_s: whole.cpu_s - on_the_way_s,
        at_hz: whole.at_hz,
        saving: whole.saving,
        timeout_s: slo.timeout.as_secs_f64(),
        drift: drift(seen, host.cores),
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

fn at_level(seen: &[LowLoadStep], level: usize) -> AtLevel {
    let steps = || seen.iter().filter(|step| step.level == level);
    let mut response = LatencyHistogram::default();
    steps().for_each(|step| response.merge(&step.response));
    AtLevel {
        rate_hz: mean(steps().map(|step| step.rate_hz)),
        response,
    }
}

fn busy<'a>(seen: impl Iterator<Item = &'a LowLoadStep>) -> Vec<(f64, f64)> {
    seen.map(LowLoadStep::busy).collect()
}

/// The host where all these steps tell what the machine does without a request, unless that is known, and how much less
/// CPU a request takes at higher rates.
pub(crate) fn known_from<'a>(
    host: PlannedHost,
    seen: impl Iterator<Item = &'a LowLoadStep>,
) -> PlannedHost {
    let points = busy(seen);
    let idle = host.idle_cores.unwrap_or_else(|| idle_of(&points));
    PlannedHost {
        idle_cores: Some(idle),
        saving: Some(saving_of(&points, idle)),
        ..host
    }
}

/// CPU seconds of a request in each tier's own processes, at one of the rates.
fn tiers(seen: &[LowLoadStep], level: usize) -> Vec<(Layer, f64)> {
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
pub(crate) fn drawn_anew(seen: &[LowLoadStep], random: &mut Random) -> Vec<LowLoadStep> {
    seen.iter()
        .map(|step| {
            let alike: Vec<&LowLoadStep> =
                seen.iter().filter(|it| it.level == step.level).collect();
            alike[random.below(alike.len())].clone()
        })
        .collect()
}
