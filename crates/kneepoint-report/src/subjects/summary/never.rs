//! An SLO that a request misses even when hardly anything else is under way.

use crate::subjects::limits::html::percentile;
use crate::subjects::stack::waterfall;
use crate::words;
use kneepoint_model::Run;
use kneepoint_model::run::{LimitResult, MissedAlone, Observation};

/// ` One request alone misses the SLO: ...`, with what it spends its time on; nothing where low load meets it, or nobody
/// looked.
pub(crate) fn met(run: &Run) -> String {
    let sentence = || {
        let slo = &run.scenario.as_ref()?.slo;
        let low = at_the_end(run)?;
        let trial = run.trials.iter().find(|trial| trial.id == low.trial)?;
        let missed = MissedAlone::of(&trial.load, slo)?;
        let spent = low.waterfall.as_ref().and_then(waterfall::largest);
        let spent =
            spent.map(|(part, share)| (words::share(share), words::part(part.layer, &part.what)));
        let is_told = last_limit(run).is_some_and(|limit| limit.missed_alone.is_some());
        if is_told {
            return spent
                .map(|(share, part)| format!(" {share} of such a request's time is {part}."));
        }
        let spent = spent.map_or_else(String::new, |(share, part)| {
            format!("; {share} of it is {part}")
        });
        Some(format!(
            " One request alone misses the SLO, which cannot be met at any rate: {} is {} at {}, and {} is allowed{spent}.",
            percentile(slo),
            words::ms(Some(missed.took_ms)),
            words::requests_in(run.unit(), trial.load.offered_hz),
            words::ms(Some(missed.allowed_ms)),
        ))
    };
    sentence().unwrap_or_default()
}

/// R* of what the run ended with.
fn last_limit(run: &Run) -> Option<&LimitResult> {
    run.limit("best").or_else(|| run.limit("base"))
}

/// Low load of what the run ended with; `None` where nobody looked at that: what missed the SLO before the changes may meet it
/// after them.
fn at_the_end(run: &Run) -> Option<&Observation> {
    let changed = run.limit("best").is_some() || run.decisions.iter().any(|it| it.kept);
    let arm = if changed { "best" } else { "base" };
    waterfall::phase(run, arm, "low")
}
