//! An SLO that a request misses even when hardly anything else is under way.

use crate::subjects::limits::html::percentile;
use crate::subjects::stack::waterfall;
use crate::words;
use kneepoint_model::Run;
use kneepoint_model::run::Observation;

/// Misses at low load over those the SLO allows, from which on it is out of reach \[ours\].
const SURELY: f64 = 2.0;
/// Requests that the SLO would let be late in a step, below which its quantile is little more than its slowest request
/// \[ours\]: 40 requests for p95.
const FEWEST_LATE: f64 = 2.0;

/// ` One request alone misses the SLO: ...`, with what it spends its time on; nothing where low load meets it, or nobody
/// looked.
pub(crate) fn met(run: &Run) -> String {
    let sentence = || {
        let slo = &run.scenario.as_ref()?.slo;
        let low = at_the_end(run)?;
        let trial = run.trials.iter().find(|trial| trial.id == low.trial)?;
        let took_ms = trial.load.response.quantile_ms(slo.quantile)?;
        let allowed_ms = slo.response_time.as_secs_f64() * 1e3;
        // Some of the slowest may be so by chance or by others' work.
        let surely = 1.0 - SURELY * (1.0 - slo.quantile);
        let surely_ms = trial.load.response.quantile_ms(surely)?;
        let few = trial.load.response.count() as f64 * (1.0 - slo.quantile) < FEWEST_LATE;
        if few || surely_ms <= allowed_ms || !trial.load.validity.is_valid() {
            return None;
        }
        let spent = low.waterfall.as_ref().and_then(waterfall::largest);
        let spent = spent.map_or_else(String::new, |(part, share)| {
            format!(
                "; {} of it is {}",
                words::share(share),
                words::part(part.layer, &part.what)
            )
        });
        Some(format!(
            " One request alone misses the SLO, which cannot be met at any rate: {} is {} at {}, and {} is allowed{spent}.",
            percentile(slo),
            words::ms(Some(took_ms)),
            words::requests_in(run.unit(), trial.load.offered_hz),
            words::ms(Some(allowed_ms)),
        ))
    };
    sentence().unwrap_or_default()
}

/// Low load of what the run ended with; `None` where nobody looked at that: what missed the SLO before the changes may meet it
/// after them.
fn at_the_end(run: &Run) -> Option<&Observation> {
    let changed = run.limit("best").is_some() || run.decisions.iter().any(|it| it.kept);
    let arm = if changed { "best" } else { "base" };
    waterfall::phase(run, arm, "low")
}
