//! `--ci`: has the stack lost more of its capacity than it may?
//!
//! Two ways to know. Against a *stored run*, R* now is compared with R* then: two measurements apart in time, whose
//! intervals must carry all that changed meanwhile. *Side by side*, the application as it was stands up beside the
//! present one, and the two take turns ([`GatePairs`]): what drifts, drifts for both. That is the statistics to mean
//! it; R* of both is measured besides, for what shows in an open loop only.

use crate::error::ExperimentError;
use crate::record::{BASE, Record, Recorder};
use crate::sequences::Subject;
use crate::sequences::ab::both;
use crate::sequences::limit::find_limit;
use crate::testbed::Testbed;
use kneepoint_model::comparable::other_conditions;
use kneepoint_model::gate::{Doubt, GateClaim, judge, loss};
use kneepoint_model::run::LimitResult;
use kneepoint_model::units::format_share;
use kneepoint_model::{GateResult, GateVerdict, Interval, Run, Scenario};
use kneepoint_planner::ab::Side;
use kneepoint_planner::bench::Bench;
use kneepoint_planner::gate::{
    GatePairs, PairMove, PairOptions, STOOD_UP_FIRST, as_stood_up_first,
};
use kneepoint_planner::limit::LimitOptions;
use std::time::Duration;

/// The arm with the present application: its R* is what later runs are compared with.
pub const NOW: &str = BASE;
/// The arm with the application as it was.
pub const BEFORE: &str = "before";

/// Share of the load time that each of two limits gets beside the pairs.
const LIMIT_SHARE: f64 = 0.2;
/// Length of a step of a pair (method.md section 2).
const PAIR_STEP: Duration = Duration::from_secs(3);

/// What a pipeline asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Largest share of capacity that may be lost, 0.1.
    pub max_loss: f64,
    /// What an inconclusive answer counts as; `Inconclusive` keeps it apart.
    pub inconclusive_as: GateVerdict,
    /// Load time of everything that is measured.
    pub load_time: Duration,
}

/// R* of the application as it was before.
#[must_use]
pub fn baseline_limit(run: &Run) -> Option<&LimitResult> {
    run.limit(BASE)
        .filter(|limit| limit.rate_hz.estimate.is_finite() && limit.rate_hz.estimate > 0.0)
        .filter(|limit| limit.missed_alone.is_none())
}

/// Measures R* of the present application and compares it with that of a stored run; a second time before it fails.
///
/// # Errors
/// The stack cannot be stood up, the load cannot be driven, or somebody asked to stop; the stored run has no R*.
pub fn against_run(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    scenario: &Scenario,
    gate: &Gate,
    stored: &Run,
) -> Result<(), ExperimentError> {
    let before =
        baseline_limit(stored).ok_or_else(|| ExperimentError::NoBaseline(stored.id.clone()))?;
    testbed.stand_up_base(scenario, recorder)?;
    let mut claim = compared_to(testbed, recorder, (stored, before), gate)?;
    if fails(&claim) {
        // A disturbance of this machine looks like a loss: only what shows twice is taken for one.
        claim = compared_to(testbed, recorder, (stored, before), gate)?;
    }
    let doubts = other_conditions(stored, recorder.run());
    decide(
        recorder,
        gate,
        format!("run {} of {}", stored.id, stored.started_at),
        vec![claim],
        doubts,
    );
    Ok(())
}

fn compared_to(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    (stored, before): (&Run, &LimitResult),
    gate: &Gate,
) -> Result<GateClaim, ExperimentError> {
    let now = limit_of(testbed, recorder, NOW, gate.load_time)?;
    limit_claim((stored, before), (recorder.run(), &now), gate.max_loss)
        .ok_or_else(|| ExperimentError::NoBaseline(stored.id.clone()))
}

fn fails(claim: &GateClaim) -> bool {
    claim.verdict == GateVerdict::Fail
}

/// Stands the application up as it is and as it was, measures R* of both, and lets them take turns.
///
/// # Errors
/// A stack cannot be stood up, the load cannot be driven, or somebody asked to stop.
pub fn side_by_side(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    now: &Scenario,
    before: &Scenario,
    gate: &Gate,
) -> Result<(), ExperimentError> {
    testbed.stand_up_base(now, recorder)?;
    recorder.stage(format!(
        "Stand up the stack as it was, with {}",
        before.root.display()
    ));
    recorder.know(before);
    testbed.stand_up(BEFORE, before)?;
    let each = gate.load_time.mul_f64(LIMIT_SHARE);
    let limit_before = limit_of(testbed, recorder, BEFORE, each)?;
    let limit_now = limit_of(testbed, recorder, NOW, each)?;
    let turns = take_turns(testbed, recorder, gate)?;
    let mut limits = claim_of_both(recorder, &limit_before, &limit_now, gate);
    let shows_a_loss = |claim: &GateClaim| fails(claim) || claim.leaves_a_loss_open();
    if limits.as_ref().is_some_and(shows_a_loss) && !fails(&turns) {
        // One search after the other, so that the machine may have slowed between them: only what shows in the other
        // order too is taken for a loss.
        let limit_now = limit_of(testbed, recorder, NOW, each)?;
        let limit_before = limit_of(testbed, recorder, BEFORE, each)?;
        limits = claim_of_both(recorder, &limit_before, &limit_now, gate);
    }
    let baseline = format!(
        "the application in {}, beside the present one",
        before.root.display()
    );
    let claims = std::iter::once(turns).chain(limits).collect();
    decide(recorder, gate, baseline, claims, Vec::new());
    Ok(())
}

fn claim_of_both(
    recorder: &Recorder<'_>,
    before: &LimitResult,
    now: &LimitResult,
    gate: &Gate,
) -> Option<GateClaim> {
    let run = recorder.run();
    let mut claim = limit_claim((run, before), (run, now), gate.max_loss)?;
    claim.loss = as_stood_up_first(claim.loss);
    let share = format_share(STOOD_UP_FIRST);
    claim.conditions += &format!("; up to {share} may come from the order of starting");
    claim.verdict = judge(&claim.loss, gate.max_loss);
    Some(claim)
}

/// Most pairs there are at least, so that a short budget can still tell a large loss.
const FEWEST_PAIRS: usize = 8;

fn limit_of(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    time: Duration,
) -> Result<LimitResult, ExperimentError> {
    let whose = if arm == NOW {
        "the highest rate at which the SLO holds"
    } else {
        "the same as it was before"
    };
    recorder.stage(format!("Limit: {whose}"));
    let workers = testbed.saturating_workers(arm)?;
    let options = LimitOptions::taking(time, workers);
    find_limit(testbed, recorder, Subject::named(arm), options).map(|(limit, _)| limit)
}

/// The loss of R*; `None` where there was none before.
fn limit_claim(
    (before_run, before): (&Run, &LimitResult),
    (now_run, now): (&Run, &LimitResult),
    max_loss: f64,
) -> Option<GateClaim> {
    let was_hz = before.met_hz()?;
    let (before_hz, now_hz) = match now.met_hz() {
        Some(now_hz) => at_one_speed(before, now).unwrap_or((was_hz, now_hz)),
        None => (was_hz, Interval::default()),
    };
    let lost = loss(&before_hz, &now_hz)?;
    Some(GateClaim {
        quantity: "R*".to_owned(),
        before_hz: Some(before.rate_hz),
        now_hz: now.met_hz(),
        loss: lost,
        verdict: judge(&lost, max_loss),
        conditions: format!(
            "before: {}; now: {}",
            basis(before_run, before),
            basis(now_run, now)
        ),
    })
}

/// Both as they are at the speed that the machine had when the first of them was measured; `None` where one of them does
/// not know its own.
fn at_one_speed(before: &LimitResult, now: &LimitResult) -> Option<(Interval, Interval)> {
    let canary_ms = before.noise?.reference_ms?;
    Some((
        before.at_canary_ms(canary_ms)?,
        now.at_canary_ms(canary_ms)?,
    ))
}

/// `12 steps in 58 s of load, within 3.4 %`.
fn basis(run: &Run, limit: &LimitResult) -> String {
    let basis = run.limit_basis(limit);
    format!(
        "{} steps in {:.0} s of load, within {}",
        basis.steps,
        basis.load_s,
        format_share(limit.rate_hz.relative_half_width())
    )
}

fn take_turns(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    gate: &Gate,
) -> Result<GateClaim, ExperimentError> {
    recorder.stage("Let the application as it is and as it was take turns");
    let time = gate.load_time.mul_f64(1.0 - 2.0 * LIMIT_SHARE);
    let pairs = time.as_secs_f64() / (2.0 * PAIR_STEP.as_secs_f64());
    let options = PairOptions {
        max_loss: gate.max_loss,
        workers: testbed
            .saturating_workers(NOW)?
            .max(testbed.saturating_workers(BEFORE)?),
        max_pairs: (pairs as usize).max(FEWEST_PAIRS),
        step: PAIR_STEP,
        seed: 53,
    };
    let mut pairs = GatePairs::new(options);
    loop {
        recorder.check_stop()?;
        match pairs.next_move() {
            PairMove::Measure(side, step) => {
                recorder.progress(&step.purpose, pairs.progress(), None);
                let arm = if side == Side::A { BEFORE } else { NOW };
                let point = testbed.measure(arm, &step)?;
                recorder.say_when_invalid(&point);
                pairs.record(side, &point);
                recorder.trial(&step.purpose, arm, point);
            }
            PairMove::Both(first, step) => {
                recorder.progress(&step.purpose, pairs.progress(), None);
                let [before, now] = both(testbed, (BEFORE, NOW), first, &step)?;
                pairs.record_both(&before, &now);
                recorder.trial(&step.purpose, BEFORE, before);
                recorder.trial(&step.purpose, NOW, now);
            }
            PairMove::Done => return Ok(pairs.claim()),
        }
    }
}

fn decide(
    recorder: &mut Recorder<'_>,
    gate: &Gate,
    baseline: String,
    claims: Vec<GateClaim>,
    doubts: Vec<Doubt>,
) {
    let result = GateResult::new(
        baseline,
        gate.max_loss,
        gate.inconclusive_as,
        claims,
        doubts,
    );
    for claim in &result.claims {
        recorder.result(describe(claim, gate.max_loss));
    }
    for sentence in result.obstacles.iter().chain(&result.notes) {
        recorder.result(sentence.clone());
    }
    recorder.write(Record::Gate(Box::new(result)));
}

/// `R* changed by -4.2 % (95 %: -9.3 % to 1.1 %), a loss of 10 % is allowed: pass; ...`.
fn describe(claim: &GateClaim, max_loss: f64) -> String {
    let change = claim.change();
    format!(
        "{} changed by {} (95 %: {} to {}), a loss of {} is allowed: {}; {}",
        claim.quantity,
        format_share(change.estimate),
        format_share(change.low),
        format_share(change.high),
        format_share(max_loss),
        claim.verdict.name(),
        claim.conditions
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::MissedAlone;

    fn limit(estimate: f64, is_met: bool) -> LimitResult {
        LimitResult {
            rate_hz: Interval {
                low: 0.98 * estimate,
                estimate,
                high: 1.02 * estimate,
            },
            missed_alone: (!is_met).then_some(MissedAlone {
                requests: 8,
                late: 8,
                quantile: 0.95,
                took_ms: 309.0,
                allowed_ms: 200.0,
            }),
            ..LimitResult::default()
        }
    }

    #[test]
    fn where_no_rate_meets_the_slo_any_more_all_is_lost_and_before_nothing_could_be() {
        let run = Run::default();
        let claim =
            |before: &LimitResult, now: &LimitResult| limit_claim((&run, before), (&run, now), 0.1);
        let (met, never) = (limit(100.0, true), limit(3.0, false));
        let same = claim(&met, &met).expect("a claim");
        assert_eq!(same.verdict, GateVerdict::Pass);
        let lost = claim(&met, &never).expect("a claim");
        assert_eq!((lost.verdict, lost.now_hz), (GateVerdict::Fail, None));
        assert_eq!(claim(&never, &met), None);
        assert_eq!(claim(&never, &never), None);
    }
}
