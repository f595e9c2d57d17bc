//! An SLO that a request misses even when hardly anything else is under way.

use crate::subjects::stack::waterfall;
use crate::words;
use kneepoint_model::Run;

/// Misses at low load over those the SLO allows, from which on it is out of reach \[ours\].
const SURELY: f64 = 2.0;

/// ` One request alone misses the SLO: ...`, with what it spends its time on; nothing where low load meets it, or nobody
/// looked.
pub(crate) fn met(run: &Run) -> String {
    let sentence = || {
        let slo = &run.scenario.as_ref()?.slo;
        let low = waterfall::phase(run, "base", "low")?;
        let trial = run.trials.iter().find(|trial| trial.id == low.trial)?;
        let took_ms = trial.load.response.quantile_ms(slo.quantile)?;
        let allowed_ms = slo.response_time.as_secs_f64() * 1e3;
        // Some of the slowest may be so by chance or by others' work.
        let surely = 1.0 - SURELY * (1.0 - slo.quantile);
        let surely_ms = trial.load.response.quantile_ms(surely)?;
        if surely_ms <= allowed_ms || !trial.load.validity.is_valid() {
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
            " One request alone misses the SLO, which cannot be met at any rate: p{:.0} is {} at {}, and {} is allowed{spent}.",
            slo.quantile * 100.0,
            words::ms(Some(took_ms)),
            words::rate(trial.load.offered_hz),
            words::ms(Some(allowed_ms)),
        ))
    };
    sentence().unwrap_or_default()
}
