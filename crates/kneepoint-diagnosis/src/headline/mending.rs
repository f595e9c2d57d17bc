//! The order in which suspected causes are best mended, from their shares and from what binds.

use crate::evidence::{Phase, PhaseKind};
use crate::rule::LEAST_PART;
use crate::saturation::pool::PoolState;
use crate::{Evidence, RULES, Rule, RuleStage};
use kneepoint_model::mending::{Mending, MendingStep, Taken, Used, mending_order};
use kneepoint_model::{Confidence, Finding, Layer, metric};

/// Use of the CPU from which on it is what binds above the limit \[ours\]: all workers are busy there too, since each waits
/// for a core, and the pool is taken from just below the limit.
const CPU_BINDS: f64 = 0.9;

/// Rules of the stage of waits whose share is one of the CPU: connections that are made again and again, workers and programs
/// that are started.
const WORK: [&str; 6] = ["RDS-01", "PG-02", "MYS-02", "NGX-04", "NGX-05", "FPM-06"];

/// In which order suspected causes are best mended, and what each is worth after those before it. `None` where fewer than two
/// have a share, or where nobody measured what is used.
///
/// The findings' weights are shares of what each takes: of the CPU (rules on code), of the time of busy workers (rules on
/// waits and on the pool). A cause on code holds workers too, by its part of the time in which they run.
#[must_use]
pub fn mending(evidence: &Evidence, findings: &[Finding]) -> Option<Mending> {
    let (over, phase) = saturated(evidence)?;
    let running = running_share(phase);
    let causes: Vec<(&Finding, Taken)> = findings
        .iter()
        .filter(|it| it.confidence >= Confidence::Suspected && it.weight >= LEAST_PART)
        .filter_map(|finding| Some((finding, taken(running, finding)?)))
        .collect();
    if causes.len() < 2 {
        return None;
    }
    let shares: Vec<Taken> = causes.iter().map(|(_, taken)| *taken).collect();
    let turns = mending_order(used(evidence, over, phase)?, &shares);
    let steps = turns.into_iter().map(|turn| {
        let (finding, _) = causes[turn.cause];
        MendingStep {
            code: finding.code.clone(),
            layer: finding.layer,
            title: finding.title.clone(),
            share: finding.weight,
            alone: turn.alone,
            after: turn.after,
        }
    });
    Some(Mending {
        arm: findings.first()?.arm.clone(),
        steps: steps.collect(),
    })
}

/// What a cause takes; `None` for what takes neither, such as a load that is not what it should be.
fn taken(running: f64, finding: &Finding) -> Option<Taken> {
    let mut rules = RULES.iter();
    let rule: &Rule = rules.find(|rule| rule.code == finding.code)?;
    let share = finding.weight;
    let of_work = || Taken {
        cpu: share,
        workers: share * running,
    };
    match rule.stage {
        RuleStage::Generator | RuleStage::Capacity => None,
        RuleStage::Code => Some(of_work()),
        RuleStage::Waits if WORK.contains(&rule.code) => Some(of_work()),
        _ => Some(Taken {
            cpu: 0.0,
            workers: share,
        }),
    }
}

/// The part of the time of busy workers in which they run; all of it where nobody looked.
fn running_share(phase: &Phase) -> f64 {
    let share = || {
        let running = phase.series.mean(Layer::Php, metric::WORKERS_RUNNING)?;
        Some((running / phase.busy_workers()?).clamp(0.0, 1.0))
    };
    share().unwrap_or(1.0)
}

/// The phase above the limit, and the one in which workers show what they hold: just below it where the CPU binds, since all
/// of them wait for a core above it.
fn saturated(evidence: &Evidence) -> Option<(&Phase, &Phase)> {
    let over = evidence.stressed()?;
    let knee = evidence.phase(PhaseKind::Knee).unwrap_or(over);
    let by_cpu = evidence.cpu_use(over)?.share >= CPU_BINDS;
    Some((over, if by_cpu { knee } else { over }))
}

/// What is used where the stack is saturated.
fn used(evidence: &Evidence, over: &Phase, phase: &Phase) -> Option<Used> {
    let cpu = evidence.cpu_use(over)?.share.clamp(0.0, 1.0);
    let pool = PoolState::read(evidence, phase);
    let workers = pool.map_or(0.0, |pool| pool.busy / pool.max.max(1.0));
    Some(Used {
        cpu,
        workers: workers.clamp(0.0, 1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::Case;

    fn finding(code: &str, weight: f64, confidence: Confidence) -> Finding {
        Finding {
            code: code.to_owned(),
            arm: "base".to_owned(),
            title: format!("title of {code}"),
            layer: Layer::App,
            seen: Vec::new(),
            refuted_by: String::new(),
            remedy: None,
            expected_gain: String::new(),
            confidence,
            weight,
            source: String::new(),
            effects: Vec::new(),
        }
    }

    fn check(case: Case, findings: &[(&str, f64)], expected: &[(&str, f64, f64)]) {
        let findings: Vec<Finding> = findings
            .iter()
            .map(|(code, weight)| finding(code, *weight, Confidence::Suspected))
            .collect();
        let order = mending(&case.evidence(), &findings);
        let steps = order.map(|order| order.steps).unwrap_or_default();
        let rounded = |ratio: f64| (ratio * 100.0).round() / 100.0;
        let told: Vec<(&str, f64, f64)> = steps
            .iter()
            .map(|step| (step.code.as_str(), rounded(step.alone), rounded(step.after)))
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn where_the_cpu_binds_work_comes_before_waits() {
        // 96 % of the CPU is used above the limit, and half of the pool just below it.
        check(
            Case::healthy(),
            &[("APP-05", 0.4), ("OPC-06", 0.3), ("APP-07", 0.2)],
            &[
                ("OPC-06", 1.43, 1.43),
                ("APP-07", 1.25, 1.4),
                ("APP-05", 1.0, 1.0),
            ],
        );
    }

    #[test]
    fn where_workers_wait_the_lock_comes_first_and_then_the_code() {
        let case = Case::healthy()
            .machine_at(PhaseKind::Over, 0.4)
            .running(PhaseKind::Over, 1.0)
            .waiting(PhaseKind::Over, "flock", 7.0);
        check(
            case,
            &[("OPC-06", 0.5), ("APP-17", 0.8)],
            &[("APP-17", 2.5, 2.5), ("OPC-06", 1.06, 2.0)],
        );
    }

    #[test]
    fn one_cause_needs_no_order_and_neither_does_a_full_cpu() {
        check(Case::healthy(), &[("OPC-06", 0.5)], &[]);
        check(
            Case::healthy(),
            &[("OPC-06", 0.5), ("CAP-02", 0.9), ("GEN-04", 0.9)],
            &[],
        );
        check(
            Case::healthy(),
            &[("OPC-06", 0.5), ("APP-07", LEAST_PART / 2.0)],
            &[],
        );
    }
}
