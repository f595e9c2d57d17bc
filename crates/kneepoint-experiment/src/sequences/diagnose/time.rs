//! How a diagnosis keeps its budget: what goes to the limit it starts from, to the evidence, and to interventions.

use crate::record::ENDING;
use crate::worker_insight::TRACE_TAKES;
use kneepoint_diagnosis::PhaseKind;
use kneepoint_model::statistics::sequential::MIN_PAIRS;
use kneepoint_planner::comparison::ComparisonBase;
use kneepoint_planner::limit::LimitOptions;
use kneepoint_planner::tune::Costs;
use std::time::Duration;

/// The overload of the evidence, relative to R*.
pub(super) const OVER: f64 = 1.3;

/// A phase of the evidence: its rate relative to R*, its length.
pub(super) const PHASES: [(PhaseKind, f64, Duration); 4] = [
    (PhaseKind::Low, 0.3, Duration::from_secs(5)),
    (PhaseKind::Knee, 0.95, Duration::from_secs(8)),
    (PhaseKind::Repeat, 0.95, Duration::from_secs(5)),
    (PhaseKind::Over, OVER, Duration::from_secs(6)),
];

/// What passes between the phases: queues run empty, pools shrink, telemetry starts.
const BETWEEN: Duration = Duration::from_secs(2);
/// Least share of their length that phases are shortened to: below it, percentiles and shares say too little \[prop\].
const SHORTEST: f64 = 0.5;
/// Share of the time that the limit takes at most: it only says where to look.
const LIMIT_MOST: f64 = 0.3;
/// Pairs beyond the fewest that an intervention is planned with.
const MORE_PAIRS: u32 = 7;

/// The time of a diagnosis under a budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DiagnosisTime {
    /// What the limit takes that the diagnosis starts from, rests included.
    pub(super) limit: Duration,
}

impl DiagnosisTime {
    /// Divides what is left once the stack stands among limit, evidence and so many interventions. What is short comes off
    /// the interventions first, then the limit, then the evidence.
    #[must_use]
    pub(super) fn of(left: Duration, interventions: usize) -> Self {
        let costs = Costs::default();
        let wished = costs.shortest_comparison() + costs.pairs_take(MORE_PAIRS);
        let tried = wished * u32::from(interventions > 0);
        let beside = evidence_takes(1.0) + tried + ENDING;
        let least = LimitOptions::least();
        let most = left.mul_f64(LIMIT_MOST).max(least);
        Self {
            limit: left.saturating_sub(beside).clamp(least, most),
        }
    }

    /// The least that a diagnosis takes once the stack stands: the shortest limit and the shortest evidence, without an
    /// intervention.
    #[must_use]
    pub(super) fn least() -> Duration {
        LimitOptions::least() + evidence_takes(SHORTEST) + ENDING
    }
}

/// What the phases take at this share of their length, with the trace behind them.
fn evidence_takes(share: f64) -> Duration {
    phases_take(share) + TRACE_TAKES
}

fn phases_take(share: f64) -> Duration {
    let load: Duration = PHASES.iter().map(|(_, _, length)| *length).sum();
    load.mul_f64(share) + BETWEEN * PHASES.len() as u32
}

/// The share of their length that the phases have when so much time is left.
pub(super) fn shorter(left: Duration) -> f64 {
    let beside = phases_take(0.0) + TRACE_TAKES + ENDING;
    let load = phases_take(1.0) - phases_take(0.0);
    let share = left.saturating_sub(beside).div_duration_f64(load);
    share.clamp(SHORTEST, 1.0)
}

/// Whether a phase that was disturbed may be looked at once more.
pub(super) fn for_another_look(left: Duration, length: Duration) -> bool {
    left >= evidence_takes(SHORTEST) + length + ENDING
}

/// Whether there is time to trace requests; else why not.
pub(super) fn for_the_trace(left: Duration) -> Result<(), String> {
    if left >= TRACE_TAKES {
        Ok(())
    } else {
        Err(format!("{:.0} s left", left.as_secs_f64()))
    }
}

/// What comparisons start from, with as many pairs as fit when what is left is shared among so many comparisons, or with the fewest where these
/// still fit; `None` where they do not.
pub(super) fn in_time(
    base: ComparisonBase,
    costs: &Costs,
    left: Duration,
    comparisons: usize,
) -> Option<ComparisonBase> {
    let left = left.saturating_sub(ENDING);
    let each = left / comparisons.max(1) as u32;
    let pairs = costs.fit(each, 1).min(base.max_pairs);
    if pairs >= MIN_PAIRS {
        return Some(ComparisonBase {
            max_pairs: pairs,
            ..base
        });
    }
    (costs.fit(left, 1) >= MIN_PAIRS).then_some(ComparisonBase {
        max_pairs: MIN_PAIRS,
        ..base
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_diagnosis_that_has_time_shortens_nothing() {
        assert!((shorter(S(86_400)) - 1.0).abs() < 1e-9);
        assert!(for_another_look(S(86_400), S(8)));
        assert_eq!(for_the_trace(S(86_400)), Ok(()));
    }

    #[test]
    fn what_is_planned_fits_into_what_is_left() {
        for left in [60, 90, 120, 200, 400, 1200].map(S) {
            let limit = DiagnosisTime::of(left, 1).limit;
            assert!(limit >= LimitOptions::least());
            let after = left - limit;
            let share = shorter(after);
            let evidence = evidence_takes(share);
            assert!(evidence <= after, "{left:?}: {limit:?} and {evidence:?}");
            assert!(limit <= left.mul_f64(LIMIT_MOST).max(LimitOptions::least()));
            if left >= S(120) {
                let costs = Costs::default();
                let rest = after - evidence;
                assert!(rest >= costs.shortest_comparison(), "{left:?}: {rest:?}");
                assert!((share - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn without_time_nothing_is_repeated_or_traced() {
        assert!((shorter(Duration::ZERO) - SHORTEST).abs() < 1e-9);
        assert!(!for_another_look(S(20), S(8)));
        assert_eq!(for_the_trace(S(3)), Err("3 s left".to_owned()));
    }

    #[test]
    fn comparisons_share_the_time_that_is_left_and_the_last_are_left_out() {
        let base = ComparisonBase {
            rate_hz: 100.0,
            slope: 8.0,
            speed_exponent: 1.0,
            max_pairs: 10,
            step: Duration::from_secs(2),
        };
        let pairs = |left, comparisons| {
            let left = Duration::from_secs(left);
            in_time(base, &Costs::default(), left, comparisons).map(|it| it.max_pairs)
        };
        assert_eq!(pairs(86_400, 3), Some(10));
        // A stack takes 7 s, a pair 4.5 s.
        assert_eq!(pairs(80, 2), Some(7));
        assert_eq!(pairs(40, 2), Some(MIN_PAIRS));
        assert_eq!(pairs(20, 1), None);
    }
}
