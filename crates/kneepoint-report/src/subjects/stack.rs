//! What each tier was doing in a phase: the key numbers beside its box in the picture of the stack.

pub(crate) mod html;
pub(crate) mod waterfall;

use kneepoint_model::{Layer, Run, metric};
use waterfall::Pair;

/// Numbers of one tier in one phase. Absent where telemetry has none.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct TierNumbers {
    /// CPU time as a share of the cores the tier may use.
    pub cpu_share: Option<f64>,
    /// Mean length of the accept queue and its limit.
    pub queue: Option<(f64, Option<f64>)>,
    /// Mean busy workers and the most there can be.
    pub workers: Option<(f64, Option<u64>)>,
}

/// The numbers of the tier at a layer while a configuration ran near R*.
pub(crate) fn numbers(run: &Run, layer: Layer, arm: &str) -> TierNumbers {
    let stack = if arm == "base" { &run.base } else { &run.best };
    let tier = stack
        .as_ref()
        .or(run.base.as_ref())
        .and_then(|stack| stack.tier(layer));
    let seen = ["knee", "over"]
        .iter()
        .find_map(|phase| waterfall::phase(run, arm, phase));
    let (Some(tier), Some(seen)) = (tier, seen) else {
        return TierNumbers::default();
    };
    let series = &seen.series;
    let workers_total = series
        .max(tier.layer, metric::WORKERS)
        .map(|total| total.round() as u64);
    TierNumbers {
        cpu_share: series
            .rate(tier.layer, metric::CPU_S)
            .map(|cores| cores / tier.cpus)
            .filter(|share| share.is_finite()),
        queue: series
            .mean(tier.layer, metric::QUEUE)
            .map(|mean| (mean, series.max(tier.layer, metric::QUEUE_LIMIT))),
        workers: series.mean(tier.layer, metric::WORKERS_BUSY).map(|busy| {
            let most = tier.pool.as_ref().map(|pool| pool.max_workers);
            (busy, most.or(workers_total))
        }),
    }
}

/// Where the stack was bound at first: by the first finding, else by the largest part of the time.
pub(crate) fn binding_before(run: &Run) -> Option<Layer> {
    run.headline()
        .map(|finding| finding.layer)
        .or_else(|| most_time(Pair::of_base(run)?))
}

/// Where most of a request's time goes in the last configuration at R*.
pub(crate) fn binding_after(run: &Run) -> Option<Layer> {
    most_time(Pair::of_best(run)?)
}

fn most_time(pair: Pair<'_>) -> Option<Layer> {
    waterfall::largest(pair.knee?).map(|(part, _)| part.layer)
}
