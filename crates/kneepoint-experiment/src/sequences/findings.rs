//! What the rules found, told and written down; and what else binds, once the remedy of what was suspected was tried in
//! vain.

use crate::record::Recorder;
use kneepoint_diagnosis::{Evidence, diagnose_without};
use kneepoint_model::{Effect, Finding, Run};

/// Notes at which configuration findings were made.
pub(crate) fn found_at(findings: &mut [Finding], label: &str) {
    for finding in findings {
        label.clone_into(&mut finding.arm);
    }
}

pub(crate) fn report_findings(recorder: &mut Recorder<'_>, findings: &[Finding]) {
    if findings.is_empty() {
        recorder.result("no rule found anything");
    }
    for finding in findings {
        let seen = finding
            .seen
            .first()
            .map_or(String::new(), |seen| format!(": {}", seen.what));
        recorder.result(format!(
            "{} {} ({}){seen}",
            finding.code,
            finding.title,
            finding.confidence.name()
        ));
    }
}

/// Asks the rules what else it can be, where remedies of the findings of a diagnosis were tried in vain, and writes their
/// answer down. Returns what is new.
pub(crate) fn ask_what_else(
    recorder: &mut Recorder<'_>,
    evidence: &Evidence,
    findings: &[Finding],
) -> Vec<Finding> {
    let others = what_else(recorder.run(), evidence, findings);
    if !others.is_empty() {
        recorder.result("what was suspected was tried in vain; what else it can be:");
        report_findings(recorder, &others);
        recorder.findings(&others);
    }
    others
}

/// What the rules say when those whose remedies were tried in vain are left out: the CPU that is used up, where it stood
/// back behind them.
fn what_else(run: &Run, evidence: &Evidence, findings: &[Finding]) -> Vec<Finding> {
    let in_vain = |finding: &&Finding| run.tried(finding).is_some_and(Effect::refutes);
    let refuted: Vec<&str> = findings
        .iter()
        .filter(in_vain)
        .map(|it| it.code.as_str())
        .collect();
    if refuted.is_empty() {
        return Vec::new();
    }
    let mut others = diagnose_without(evidence, &refuted);
    others.retain(|other| !findings.iter().any(|known| known.is_same_cause(other)));
    if let Some(known) = findings.first() {
        found_at(&mut others, &known.arm);
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_diagnosis::{Phase, PhaseKind};
    use kneepoint_model::run::{Decision, Machine, Standing};
    use kneepoint_model::{Confidence, Interval, Layer, LoadPoint, SeriesSet, Verdict, metric};

    /// All of two cores was used above the limit.
    fn used_up() -> Evidence {
        let mut series = SeriesSet::default();
        for second in 0..=10 {
            let at = f64::from(second);
            series.push(Layer::Generator, metric::MACHINE_BUSY_S, "", at, 1.96 * at);
        }
        Evidence {
            machine: Machine {
                cores: 2,
                ..Machine::default()
            },
            phases: vec![Phase::new(
                PhaseKind::Over,
                LoadPoint::default(),
                series,
                Vec::new(),
            )],
            ..Evidence::default()
        }
    }

    fn finding(code: &str) -> Finding {
        Finding {
            code: code.into(),
            arm: "v2".into(),
            title: String::new(),
            layer: Layer::Php,
            seen: Vec::new(),
            refuted_by: String::new(),
            remedy: None,
            expected_gain: String::new(),
            confidence: Confidence::Suspected,
            weight: 0.3,
            source: String::new(),
            effects: Vec::new(),
        }
    }

    /// A run that tried the remedy of FPM-03 with this outcome.
    fn tried(verdict: Verdict) -> Run {
        let effect = Effect {
            verdict,
            ratio: Some(Interval::default()),
            ..Effect::default()
        };
        Run {
            decisions: vec![Decision {
                code: "FPM-03".into(),
                layer: Some(Layer::Php),
                settings: Vec::new(),
                kept: effect.verdict == Verdict::Better,
                effect,
                ..Decision::default()
            }],
            ..Run::default()
        }
    }

    /// The codes of what else it can be, where these were found.
    fn check(run: &Run, found: &[Finding], expected: &[&str]) {
        let others = what_else(run, &used_up(), found);
        let codes: Vec<&str> = others.iter().map(|it| it.code.as_str()).collect();
        assert_eq!(codes, expected);
        assert!(others.iter().all(|it| it.arm == "v2"), "{others:?}");
    }

    #[test]
    fn the_cpu_that_is_used_up_is_named_once_the_remedy_of_a_suspicion_did_not_help() {
        check(
            &tried(Verdict::Equivalent),
            &[finding("FPM-03")],
            &["CAP-02"],
        );
        check(&tried(Verdict::NoBetter), &[finding("FPM-03")], &["CAP-02"]);
        // The same where a diagnosis tried it, which decides nothing.
        let effect = tried(Verdict::Worse).decisions.remove(0).effect;
        let effects = vec![effect];
        let confirmed = Finding {
            effects,
            ..finding("FPM-03")
        };
        check(&Run::default(), &[confirmed], &["CAP-02"]);
    }

    #[test]
    fn nothing_else_is_asked_for_while_a_suspicion_stands_nor_told_twice() {
        check(&Run::default(), &[finding("FPM-03")], &[]);
        check(&tried(Verdict::Inconclusive), &[finding("FPM-03")], &[]);
        check(&tried(Verdict::Better), &[finding("FPM-03")], &[]);
        let known = [finding("FPM-03"), finding("CAP-02")];
        check(&tried(Verdict::Equivalent), &known, &[]);
    }

    #[test]
    fn a_remedy_that_there_was_no_time_for_was_not_tried_in_vain() {
        let mut untried = tried(Verdict::Inconclusive);
        untried.decisions[0].effect = Effect::default();
        assert_eq!(untried.decisions[0].standing(), Standing::NotTried);
        check(&untried, &[finding("FPM-03")], &[]);
        // Another value that was not tried takes nothing back.
        let mut in_vain = tried(Verdict::Equivalent);
        in_vain.decisions.append(&mut untried.decisions);
        check(&in_vain, &[finding("FPM-03")], &["CAP-02"]);
    }
}
