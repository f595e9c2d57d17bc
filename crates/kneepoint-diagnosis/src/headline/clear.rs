//! Whether nothing is wrong may be said. That takes more than a CPU that is used up: everything that could stand in the
//! way was looked at, and nothing stands out.

use crate::evidence::{Phase, PhaseKind, Wait};
use crate::rule::LEAST_PART;
use crate::{Evidence, Rule, unjudged};
use kneepoint_model::units::format_share;
use kneepoint_model::{Confidence, Evidenced, Finding};

/// Share of the time of busy workers in one wait from which on it stands out \[ours\]: a page that asks its own database
/// waits for a part of its time, and half of it is no small part.
const TIER_STANDS_OUT: f64 = 0.5;
/// The same for whatever is no tier of the stack: another host, a lock, a sleep \[ours\].
const OTHER_STANDS_OUT: f64 = 0.2;

/// Share of the stack's CPU that has to be explained.
const EXPLAINED: f64 = 0.9;

/// The rule that says the CPU is the limit.
const CPU_USED_UP: &str = "CAP-02";
/// Its title and its remedy's last sentence when nothing is wrong.
const CLEAR: (&str, &str) = (
    "no setting limits it: it needs all of the CPU",
    " No setting of the stack is in the way.",
);

/// Says of the finding that the CPU is the limit either that nothing is wrong, or what keeps us from saying so.
pub(crate) fn settle(found: &mut [(&Rule, Finding)], evidence: &Evidence) {
    let kept_from = reservations(found, evidence);
    let Some((rule, limit)) = found.iter_mut().find(|(rule, _)| rule.code == CPU_USED_UP) else {
        return;
    };
    // Where other programs took a part of the CPU, its title says so, and the settings are not what is to be spoken of.
    if kept_from.is_empty() && limit.title == rule.title {
        CLEAR.0.clone_into(&mut limit.title);
        if let Some(remedy) = &mut limit.remedy {
            remedy.text.push_str(CLEAR.1);
        }
    }
    limit.seen.extend(kept_from);
}

/// What keeps us from saying that nothing is wrong.
fn reservations(found: &[(&Rule, Finding)], evidence: &Evidence) -> Vec<Evidenced> {
    let mut all = Vec::new();
    let mut say = |what: String, conditions: String| all.push(Evidenced { what, conditions });
    for (_, finding) in found {
        let is_note = finding.confidence < Confidence::Suspected && finding.weight >= LEAST_PART;
        if is_note {
            let (code, share) = (&finding.code, format_share(finding.weight));
            say(
                format!("to be looked at: {} ({code}, {share})", finding.title),
                String::new(),
            );
        }
    }
    if let Some((phase, label, share)) = largest_wait(evidence) {
        let what = format!(
            "busy workers wait {} of their time: {label}",
            format_share(share)
        );
        say(what, phase.conditions());
    }
    if evidence.stacks.is_none() {
        say(
            "which code uses the CPU was not seen".to_owned(),
            String::new(),
        );
    }
    let explained = crate::account(evidence).explained_share();
    if let Some(share) = explained.filter(|share| *share < EXPLAINED && evidence.stacks.is_some()) {
        let what = format!(
            "only {} of the stack's CPU is explained",
            format_share(share)
        );
        say(what, String::new());
    }
    let lacking = unjudged(evidence);
    if !lacking.is_empty() {
        let codes: Vec<&str> = lacking.iter().map(|(rule, _)| rule.code).collect();
        let what = format!(
            "could not be judged for lack of numbers: {}",
            codes.join(", ")
        );
        say(what, String::new());
    }
    all
}

/// The largest wait that stands out below the limit, where no queue for the CPU hides it: its phase, label and share of
/// the time of busy workers.
fn largest_wait(evidence: &Evidence) -> Option<(&Phase, String, f64)> {
    [PhaseKind::Knee, PhaseKind::Low]
        .into_iter()
        .filter_map(|kind| evidence.phase(kind))
        .find_map(|phase| {
            let stands_out = |wait: &Wait, share: f64| match wait.layer() {
                Some(_) => share >= TIER_STANDS_OUT,
                None => share >= OTHER_STANDS_OUT,
            };
            let busy = phase.busy_workers()?;
            phase
                .waits()
                .into_iter()
                .map(|wait| (wait.workers / busy, wait))
                .find(|(share, wait)| stands_out(wait, *share))
                .map(|(share, wait)| (phase, wait.label(), share))
        })
}

#[cfg(test)]
mod tests {
    use super::CLEAR;
    use crate::test_support::{Case, met, place, sampled};
    use crate::{PhaseKind, diagnose};
    use kneepoint_model::metric::{MACHINE_STEAL_S, REDIS_CONNECTIONS};

    /// A stack of which everything was seen: no function of PHP takes much.
    fn looked_into() -> Case {
        let stacks = sampled(
            99,
            (0..10)
                .map(|nth| place("f", &format!("{nth}.php"), 1))
                .collect(),
            (0..10).map(|nth| met("GET /", &[nth], 100)).collect(),
        );
        Case::healthy().with(|evidence| evidence.stacks = Some(stacks))
    }

    /// What the finding that the CPU is the limit says, and why not more.
    fn check(case: Case, title: &str, reservation: &str) {
        let findings = diagnose(&case.evidence());
        let limit = findings.iter().find(|finding| finding.code == "CAP-02");
        let limit = limit.expect("the CPU is the limit");
        assert_eq!(limit.title, title);
        let seen: Vec<&str> = limit.seen.iter().map(|seen| seen.what.as_str()).collect();
        assert!(
            reservation.is_empty() || seen.iter().any(|what| what.contains(reservation)),
            "{seen:?}"
        );
        let remedy = limit.remedy.as_ref().map_or("", |remedy| &remedy.text);
        let is_clear = title == CLEAR.0;
        assert_eq!(
            remedy.contains("No setting of the stack"),
            is_clear,
            "{remedy}"
        );
    }

    #[test]
    fn nothing_is_wrong_when_everything_was_seen_and_nothing_stands_out() {
        check(looked_into(), CLEAR.0, "");
    }

    #[test]
    fn a_rule_that_could_not_judge_keeps_us_from_saying_so() {
        let case = looked_into().without(REDIS_CONNECTIONS);
        check(case, "the CPU is the limit", "RDS-01");
        // A tier that is not there leaves nothing to judge.
        let no_cache = looked_into().without(REDIS_CONNECTIONS).with(|evidence| {
            evidence
                .stack
                .tiers
                .retain(|tier| tier.server.as_str() != "redis")
        });
        check(no_cache, CLEAR.0, "");
        let steal = looked_into().without(MACHINE_STEAL_S);
        check(steal, CLEAR.0, "");
    }

    #[test]
    fn code_that_nobody_looked_into_keeps_us_from_saying_so() {
        check(Case::healthy(), "the CPU is the limit", "was not seen");
    }

    #[test]
    fn cpu_that_is_not_explained_keeps_us_from_saying_so() {
        // Two tenths of the stacks have no code of a file on them.
        let case = looked_into().with(|evidence| {
            let stacks = evidence.stacks.as_mut().expect("stacks");
            for place in &mut stacks.places[..2] {
                place.file = None;
            }
        });
        check(
            case,
            "the CPU is the limit",
            "of the stack's CPU is explained",
        );
    }

    #[test]
    fn a_wait_that_stands_out_keeps_us_from_saying_so() {
        let sleeping = looked_into().waiting(PhaseKind::Knee, "sleep", 2.0);
        check(sleeping, "the CPU is the limit", "of their time: sleep");
        let outside = looked_into().waiting(PhaseKind::Knee, "recv 127.0.0.1:9977", 1.5);
        check(outside, "the CPU is the limit", "recv 127.0.0.1:9977");
        let database = looked_into().waiting(PhaseKind::Knee, "recv db", 6.0);
        check(database, "the CPU is the limit", "of their time: recv db");
    }
}
