//! The account: where the CPU goes at R*, and where a request's time goes, part by part, with what is not explained.

mod code;
mod cpu;
mod time;
pub(crate) mod waterfall;

use crate::Evidence;
use crate::evidence::Phase;
use kneepoint_model::account::{Account, FEWEST_STACKS};
use kneepoint_model::{MetStack, StackProfile};

/// Accounts for the CPU and for a request's time just below the limit, or above it where that is all that was driven.
///
/// The CPU of the tiers is exact: what their control groups counted while telemetry looked, over the requests that
/// finished. PHP's is divided by the stacks of its workers that did not wait ([`kneepoint_model::account::CodeAccount`]),
/// and the response time by [`crate::waterfall()`], whose time of PHP at work is told from that without a core by PHP's CPU.
/// Nothing is ever negative, the shares of tiers add up to 1, and so do those of owners with what has none, and those of the
/// time. What explains how much is defined at [`Account`]. Empty where no phase was driven.
#[must_use]
pub fn account(evidence: &Evidence) -> Account {
    let Some(phase) = evidence.knee() else {
        return Account::default();
    };
    let requests = finished(phase);
    let whole = phase.whole();
    let cpu = cpu::parts(evidence, &whole, requests);
    let stacks = sampled(evidence, phase);
    let code = stacks.map(code::account).filter(|code| code.stacks > 0);
    let fall = waterfall::of_whole(&whole, &evidence.stack);
    let time = time::parts(
        &fall,
        &cpu,
        (evidence.stacks_near(phase), evidence.calls.as_ref()),
    );
    let mut notes = Vec::new();
    match &code {
        None => notes.push("no PHP stacks were sampled, so PHP's CPU is not divided".to_owned()),
        Some(code) if code.stacks < FEWEST_STACKS => notes.push(format!(
            "{} PHP stacks that computed are too few to divide PHP's CPU",
            code.stacks
        )),
        Some(code) if code.phase != phase.kind.name() => notes.push(format!(
            "PHP's code is that of the phase `{}`: too few stacks computed in this one",
            code.phase
        )),
        Some(_) => {}
    }
    if requests == 0 {
        notes.push("no request finished, so nothing is told for each".to_owned());
    }
    Account {
        phase: phase.kind.name().to_owned(),
        arm: String::new(),
        offered_hz: phase.load.offered_hz,
        requests,
        response_ms: fall.response_ms,
        cpu,
        code,
        native: evidence.native.clone(),
        time,
        notes,
    }
}

/// Requests that finished in a phase, failed ones included.
fn finished(phase: &Phase) -> u64 {
    phase.load.response.count() + phase.load.failed_response.count()
}

/// The stacks that PHP's CPU is divided by: those of the phase itself, or of another one where too few of them computed.
fn sampled<'e>(evidence: &'e Evidence, phase: &Phase) -> Option<&'e StackProfile> {
    let near = evidence.stacks_near(phase);
    let enough = |profile: &&StackProfile| computing(profile) >= FEWEST_STACKS;
    near.filter(enough).or_else(|| {
        let others = [&evidence.knee_stacks, &evidence.stacks];
        others
            .into_iter()
            .flatten()
            .max_by_key(|one| computing(one))
    })
}

/// Stacks of workers that computed.
fn computing(profile: &StackProfile) -> u64 {
    let computed = profile.stacks.iter().filter(|met| computes(profile, met));
    computed.map(|met| met.count).sum()
}

/// Whether a worker computed when it was met.
fn computes(profile: &StackProfile, met: &MetStack) -> bool {
    profile.wait_of(met).is_none()
}

impl Evidence {
    /// The stacks that were sampled in a phase, or else in any.
    fn stacks_near(&self, phase: &Phase) -> Option<&StackProfile> {
        let all = [&self.knee_stacks, &self.stacks].into_iter().flatten();
        let of_phase = |profile: &&StackProfile| profile.phase == phase.kind.name();
        all.clone().find(of_phase).or_else(|| all.clone().next())
    }
}

#[cfg(test)]
mod tests;
