//! What is written down again of the same thing: a cause that is found once more, a change that is decided at last.

use super::{Decision, Run};
use crate::Finding;

impl Run {
    /// Adds findings. One of a cause that is known at the same configuration takes the place of what was said of it, unless
    /// that was surer; what a comparison showed before stays said.
    pub fn find(&mut self, findings: &[Finding]) {
        for finding in findings {
            let mut known = self.findings.iter_mut();
            match known.find(|known| known.is_same_cause(finding) && known.arm == finding.arm) {
                Some(known) if known.confidence <= finding.confidence => {
                    let mut raised = finding.clone();
                    if raised.effects.is_empty() {
                        raised.effects = std::mem::take(&mut known.effects);
                    }
                    *known = raised;
                }
                Some(_) => {}
                None => self.findings.push(finding.clone()),
            }
        }
    }

    /// Adds a decision. One on a change that was undecided takes the place of what was said of it before. A change that was
    /// never tried is the same with another value, which a later look proposed. That the stack fails with a value says nothing of
    /// another one, and takes no measurement back.
    pub fn decide(&mut self, decision: Decision) {
        let sets = |one: &Decision| -> Vec<_> {
            let settings = one.settings.iter();
            settings.map(|setting| setting.key.clone()).collect()
        };
        let mut known = self.decisions.iter_mut();
        let open = known.find(|known| {
            let untried =
                known.effect.pairs == 0 && !known.failed && sets(known) == sets(&decision);
            let takes_back = decision.failed && known.effect.was_measured();
            let is_same = known.code == decision.code
                && known.layer == decision.layer
                && (known.settings == decision.settings || untried);
            is_same && known.standing().is_open() && !takes_back
        });
        match open {
            Some(open) => *open = decision,
            None => self.decisions.push(decision),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Confidence, Effect, Layer, Setting};

    fn finding(arm: &str, layer: Layer, confidence: Confidence) -> Finding {
        Finding {
            code: "FPM-04".into(),
            arm: arm.into(),
            title: format!("{layer:?} of {arm} is slow"),
            layer,
            seen: Vec::new(),
            refuted_by: String::new(),
            remedy: None,
            expected_gain: String::new(),
            confidence,
            weight: 0.0,
            source: String::new(),
            effects: Vec::new(),
        }
    }

    /// Titles of what is known, with how many comparisons each has.
    fn known(run: &Run) -> Vec<(&str, usize)> {
        let findings = run.findings.iter();
        findings
            .map(|finding| (finding.title.as_str(), finding.effects.len()))
            .collect()
    }

    #[test]
    fn one_rule_at_two_layers_and_two_configurations_is_four_findings() {
        let mut run = Run::default();
        let mut proved = finding("base", Layer::Db, Confidence::Proved);
        proved.effects.push(Effect::default());
        run.find(&[proved]);
        run.find(&[finding("base", Layer::Cache, Confidence::Proved)]);
        run.find(&[
            finding("best", Layer::Db, Confidence::Suspected),
            finding("best", Layer::Cache, Confidence::Proved),
        ]);
        let expected = [
            ("Db of base is slow", 1),
            ("Cache of base is slow", 0),
            ("Db of best is slow", 0),
            ("Cache of best is slow", 0),
        ];
        assert_eq!(known(&run), expected);
    }

    #[test]
    fn what_is_found_again_is_raised_and_keeps_its_comparison() {
        let mut run = Run::default();
        let mut suspected = finding("base", Layer::Php, Confidence::Suspected);
        suspected.effects.push(Effect::default());
        run.find(&[suspected]);
        run.find(&[finding("base", Layer::Php, Confidence::Noted)]);
        assert_eq!(run.findings[0].confidence, Confidence::Suspected);
        run.find(&[finding("base", Layer::Php, Confidence::Confirmed)]);
        assert_eq!(run.findings[0].confidence, Confidence::Confirmed);
        assert_eq!(known(&run), [("Php of base is slow", 1)]);
    }

    #[test]
    fn a_change_that_was_never_tried_is_told_once_whatever_value_it_has() {
        let decision = |value: i64, pairs| Decision {
            code: "NGX-04".into(),
            layer: Some(Layer::Web),
            settings: vec![Setting::new(Layer::Proxy, "upstream.keepalive", value)],
            effect: Effect {
                pairs,
                ..Effect::default()
            },
            ..Decision::default()
        };
        let mut run = Run::default();
        run.decide(decision(186, 0));
        run.decide(decision(188, 4));
        assert_eq!(run.decisions, [decision(188, 4)]);
        // What was measured stays beside another value.
        run.decide(decision(190, 0));
        assert_eq!(run.decisions.len(), 2);
    }

    #[test]
    fn a_value_that_the_stack_fails_with_stays_told_beside_others_and_beside_what_was_measured() {
        let decision = |value: i64, pairs, failed| Decision {
            code: "FPM-03".into(),
            settings: vec![Setting::new(Layer::Php, "pm.max_children", value)],
            effect: Effect {
                pairs,
                ..Effect::default()
            },
            failed,
            ..Decision::default()
        };
        let (fails, measured) = (decision(900, 0, true), decision(36, 4, false));
        let fails_later = decision(36, 0, true);
        let mut run = Run::default();
        for it in [&fails, &measured, &fails_later] {
            run.decide(it.clone());
        }
        assert_eq!(run.decisions, [fails, measured, fails_later]);
        // It starts after all.
        run.decide(decision(900, 5, false));
        assert_eq!(run.decisions[0], decision(900, 5, false));
        assert_eq!(run.decisions.len(), 3);
    }

    #[test]
    fn a_decision_answers_the_finding_of_its_layer() {
        let decision = |layer, kept| Decision {
            code: "FPM-04".into(),
            layer,
            settings: Vec::new(),
            effect: Effect::default(),
            kept,
            ..Decision::default()
        };
        let at = |layer| finding("base", layer, Confidence::Suspected);
        let database = decision(Some(Layer::Db), true);
        assert!(database.answers(&at(Layer::Db)));
        assert!(!database.answers(&at(Layer::Cache)));
        assert!(
            decision(None, true).answers(&at(Layer::Cache)),
            "of an older record"
        );
        let mut run = Run::default();
        run.decide(decision(Some(Layer::Db), false));
        run.decide(decision(Some(Layer::Cache), false));
        run.decide(database);
        let kept: Vec<bool> = run.decisions.iter().map(|it| it.kept).collect();
        assert_eq!(kept, [true, false]);
    }
}
