//! The judge: from what was configured and measured to what is wrong with it.
//!
//! This crate alone says which layer binds and why. [`diagnose`] is a pure function of [`Evidence`]; each rule of
//! the catalogue is one file in `rules/` with its documentation, its thresholds and its tests, and one line in the
//! ordered list of `rules.rs`. [`waterfall()`] shows where a request's time goes, [`remedy_guard`] says why a change
//! must not be tried, and [`account()`] divides the CPU and the time by who took them.
//!
//! It must never do IO, read a clock, draw a random number, name a program's file or format, or decide that
//! something was *confirmed*: that takes an intervention, and the experiments do those.

mod account;
mod advice;
mod causes;
mod evidence;
mod explain;
mod guard;
mod headline;
mod rule;
mod rules;
mod saturation;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;

pub use account::account;
pub use account::waterfall::waterfall;
pub use evidence::{Evidence, Phase, PhaseKind};
pub use explain::explain;
pub use guard::remedy_guard;
pub use headline::mending::mending;
pub use rule::{AppliesTo, Rule, RuleDoc, RuleStage, UseSignal};
pub use rules::RULES;
pub use saturation::pool::{PoolNeed, pool_need};

use kneepoint_model::{Confidence, Finding, Layer};

/// A finding whose stage is this late or later gives way to every other one that is at least suspected: that the
/// CPU is used up is the verdict that remains when nothing else explains the limit (catalogue CAP-02).
const LAST_RESORT: RuleStage = RuleStage::Capacity;

/// Judges the evidence: every finding of every rule, what binds first.
///
/// Order: at least suspected before noted, then by stage in the discriminating order of the catalogue (section 3),
/// then by the share of the limit a finding is estimated to cost. Waits and code share a stage's rank, since
/// neither is a symptom of the other: the costlier one goes first. A suspicion whose share is small or not known is
/// merely noted. On a healthy stack the answer is CAP-02 alone, beside what is merely noted; it says that nothing is
/// wrong only where every rule could judge and nothing stands out.
#[must_use]
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    diagnose_without(evidence, &[])
}

/// The same without the rules of these codes: what else it can be, when their remedies were tried in vain.
#[must_use]
pub fn diagnose_without(evidence: &Evidence, refuted: &[&str]) -> Vec<Finding> {
    let mut found: Vec<(&Rule, Finding)> = RULES
        .iter()
        .filter(|rule| rule.can_judge(evidence) && !refuted.contains(&rule.code))
        .filter_map(|rule| Some((*rule, (rule.check)(evidence)?)))
        .collect();
    for (rule, finding) in &mut found {
        headline::settle(rule, finding);
    }
    let named: Vec<(&Rule, Finding)> = found
        .iter()
        .filter(|(_, finding)| finding.confidence >= Confidence::Suspected)
        .cloned()
        .collect();
    found.retain(|(rule, finding)| {
        let explained = named
            .iter()
            .any(|(by, cause)| rule.yields_to.contains(&by.code) && explains(cause, finding));
        let outranked = rule.stage >= LAST_RESORT
            && named
                .iter()
                .any(|(by, _)| by.code != rule.code && by.stage < LAST_RESORT);
        !(explained || outranked)
    });
    headline::clear::settle(&mut found, evidence);
    found.sort_by(|(rule_a, a), (rule_b, b)| {
        let noted = |finding: &Finding| finding.confidence < Confidence::Suspected;
        noted(a)
            .cmp(&noted(b))
            .then(rule_a.stage.rank().cmp(&rule_b.stage.rank()))
            .then(b.weight.total_cmp(&a.weight))
    });
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// Part of a symptom that a cause must be worth at least to explain it \[ours\].
const EXPLAINS: f64 = 0.5;

/// Whether a cause can be what a symptom comes from: it is worth about as much, where both are known, and does not sit at
/// another of the tiers behind PHP.
fn explains(cause: &Finding, symptom: &Finding) -> bool {
    let is_behind = |layer: Layer| matches!(layer, Layer::Cache | Layer::Db);
    let is_elsewhere =
        is_behind(cause.layer) && is_behind(symptom.layer) && cause.layer != symptom.layer;
    let is_small = cause.weight > 0.0 && cause.weight < EXPLAINS * symptom.weight;
    !(is_elsewhere || is_small)
}

/// The rules that could not judge because telemetry did not deliver what they need, with the names of the missing
/// metrics. A report that says "nothing is wrong" must say this beside it.
#[must_use]
pub fn unjudged(evidence: &Evidence) -> Vec<(&'static Rule, Vec<&'static str>)> {
    RULES
        .iter()
        .filter(|rule| rule.applies(&evidence.stack) && rule.has_layer(&evidence.stack))
        .filter_map(|rule| {
            let missing = rule.missing(evidence);
            (!missing.is_empty()).then_some((*rule, missing))
        })
        .collect()
}
