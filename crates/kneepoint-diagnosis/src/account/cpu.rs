//! Whose CPU time it was: each tier's by its control group, the generator's, others', and what is left of the machine's.

use crate::Evidence;
use crate::evidence::Phase;
use kneepoint_model::account::{CpuOf, CpuPart};
use kneepoint_model::{Layer, Series, metric};

/// Less of a core than this is not worth a line of what is no tier's \[ours\].
const NEGLIGIBLE_CORES: f64 = 0.005;

/// The CPU time of each tier without the jobs on its host, then of what else ran, the largest first in either group. All tiers
/// are 1 together.
pub(super) fn parts(evidence: &Evidence, phase: &Phase, requests: u64) -> Vec<CpuPart> {
    let jobs_s = jobs_s(phase);
    let used = |layer| {
        let span = phase.series.get(layer, metric::CPU_S)?;
        let span_s = span.points.last()?.0 - span.points.first()?.0;
        let jobs_s = if layer == Layer::Php { jobs_s } else { 0.0 };
        (span_s > 0.0).then_some((layer, (span.delta()? - jobs_s).max(0.0), span_s))
    };
    let tiers: Vec<(Layer, f64, f64)> = Layer::TIERS.into_iter().filter_map(used).collect();
    let stack_s: f64 = tiers.iter().map(|(_, used_s, _)| used_s).sum();
    let part = |of, used_s: f64, span_s: f64, share| CpuPart {
        of,
        cores: used_s / span_s,
        ms: used_s * 1e3 / requests.max(1) as f64,
        share,
    };
    let mut parts: Vec<CpuPart> = tiers
        .iter()
        .filter(|_| stack_s > 0.0)
        .map(|&(layer, used_s, span_s)| part(CpuOf::Tier(layer), used_s, span_s, used_s / stack_s))
        .collect();
    parts.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    let mut besides: Vec<CpuPart> = others(evidence, phase, stack_s, jobs_s)
        .into_iter()
        .map(|(of, used_s, span_s)| part(of, used_s, span_s, 0.0))
        .filter(|part| part.cores >= NEGLIGIBLE_CORES)
        .collect();
    besides.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    parts.extend(besides);
    parts
}

/// Core seconds of the jobs that ran beside the requests, which the control group of PHP counts as well.
fn jobs_s(phase: &Phase) -> f64 {
    let jobs = phase.series.all(Layer::Php, metric::JOB_CPU_S);
    jobs.filter_map(Series::delta).sum()
}

/// What is no tier's, in core seconds over so many seconds. The generator and other programs were measured over the load's
/// window, the machine for as long as telemetry looked.
fn others(evidence: &Evidence, phase: &Phase, stack_s: f64, jobs_s: f64) -> Vec<(CpuOf, f64, f64)> {
    let health = &phase.load.health;
    let window_s = phase.load.window_s;
    if window_s <= 0.0 {
        return Vec::new();
    }
    let is_shared = evidence.machine.shared_with_generator;
    let generator_s = if is_shared {
        health.cpu_share.max(0.0) * window_s
    } else {
        0.0
    };
    let foreign_s = health.foreign_share.unwrap_or(0.0).max(0.0) * evidence.cores() * window_s;
    let mut parts = vec![
        (CpuOf::Jobs, jobs_s, window_s),
        (CpuOf::Generator, generator_s, window_s),
        (CpuOf::Others, foreign_s, window_s),
    ];
    let busy = phase.series.get(Layer::Generator, metric::MACHINE_BUSY_S);
    let busy = busy.and_then(|busy| {
        let span_s = busy.points.last()?.0 - busy.points.first()?.0;
        (span_s > 0.0).then_some((busy.delta()?, span_s))
    });
    if let Some((busy_s, span_s)) = busy {
        let rest_s = busy_s - stack_s - jobs_s - generator_s - foreign_s;
        parts.push((CpuOf::Rest, rest_s.max(0.0), span_s));
    }
    parts
}
