//! What became of a change that was tried: words claim no more than its comparison showed.

use super::{Decision, Run};
use crate::{Change, Confidence, Effect, Evidenced, Finding, Setting, Verdict};

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It won, and stayed.
    Kept,
    /// It was shown not to help, or not to help beside the others.
    Dropped,
    /// Its comparison showed neither.
    Undecided,
    /// There was no time for a comparison, or the stack failed with it ([`Decision::failed`]).
    NotTried,
}

impl Standing {
    /// The word in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Dropped => "dropped",
            Self::Undecided => "undecided",
            Self::NotTried => "not tried",
        }
    }

    /// Whether it is not known if the change helps.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Undecided | Self::NotTried)
    }
}

impl Effect {
    /// Whether it showed that what its change mends is not what binds: the change was of no help, and it was no guess. A statement,
    /// such as an index made from the text of a query, is one way of several: where it does not help, another may.
    #[must_use]
    pub fn refutes(&self) -> bool {
        let shown = matches!(
            self.verdict,
            Verdict::Worse | Verdict::Equivalent | Verdict::NoBetter
        );
        let is_statement =
            |it: &Setting| matches!(Change::of(&it.key), Some(Change::Statement { .. }));
        let is_a_guess = self.settings.iter().any(is_statement);
        self.ratio.is_some() && shown && !is_a_guess
    }
}

impl Decision {
    /// Whether it is on this finding's remedy.
    #[must_use]
    pub fn answers(&self, finding: &Finding) -> bool {
        let at_layer = self.layer.is_none_or(|layer| layer == finding.layer);
        self.code == finding.code && at_layer
    }

    /// What became of the change.
    #[must_use]
    pub fn standing(&self) -> Standing {
        if self.kept {
            Standing::Kept
        } else if !self.effect.was_measured() {
            Standing::NotTried
        } else if self.effect.verdict == Verdict::Inconclusive || self.effect.ratio.is_none() {
            Standing::Undecided
        } else {
            Standing::Dropped
        }
    }
}

impl Run {
    /// Remedies of suspected findings that could not be judged, those without a comparison among them, in the order they
    /// came up. One that the stack failed with is none: more time does not judge it.
    #[must_use]
    pub fn undecided(&self) -> Vec<(&Decision, &Finding)> {
        let undecided = self.decisions.iter();
        let undecided = undecided.filter(|it| it.standing().is_open() && !it.failed);
        undecided
            .filter_map(|decision| {
                let mut findings = self.findings.iter();
                let finding = findings.find(|finding| decision.answers(finding))?;
                (finding.confidence > Confidence::Noted).then_some((decision, finding))
            })
            .collect()
    }
}

impl Run {
    /// The finding that heads a report, what bound when the run began: the first that is at least suspected, and whose
    /// remedy was not tried in vain.
    #[must_use]
    pub fn headline(&self) -> Option<&Finding> {
        let mut suspected = self.suspected();
        suspected.find(|finding| !self.tried(finding).is_some_and(Effect::refutes))
    }

    /// Suspicions whose remedy was tried in vain, with what was measured, each once.
    #[must_use]
    pub fn refuted(&self) -> Vec<(&Finding, &Effect)> {
        let mut refuted: Vec<(&Finding, &Effect)> = Vec::new();
        for finding in self.suspected() {
            let is_known = refuted
                .iter()
                .any(|(known, _)| known.is_same_cause(finding));
            let effect = self.tried(finding).filter(|effect| effect.refutes());
            if let Some(effect) = effect.filter(|_| !is_known) {
                refuted.push((finding, effect));
            }
        }
        refuted
    }

    /// What the last comparison of a finding's remedy measured; `None` where none was made. A later value of the same setting
    /// that was not tried takes nothing back.
    #[must_use]
    pub fn tried<'a>(&'a self, finding: &'a Finding) -> Option<&'a Effect> {
        let mut tried = self.decisions.iter().rev();
        let decided = tried.find(|it| it.answers(finding) && it.standing() != Standing::NotTried);
        let same = self.findings.iter().filter(|it| it.is_same_cause(finding));
        let confirmed = same.filter_map(|it| it.effects.last()).next_back();
        decided
            .map(|decision| &decision.effect)
            .or(finding.effects.last())
            .or(confirmed)
            .filter(|effect| effect.ratio.is_some())
    }

    fn suspected(&self) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter();
        findings.filter(|finding| finding.confidence >= Confidence::Suspected)
    }
}

impl Finding {
    /// Whether it was read from the stack itself, such as a setting that a program answered with, and not only concluded from
    /// how the stack behaved under load. It stays a recommendation whether or not a comparison of its remedy ended.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.confidence > Confidence::Noted && self.seen.iter().any(Evidenced::is_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Effect, Interval, Layer};

    fn decision(code: &str, verdict: Verdict, kept: bool) -> Decision {
        Decision {
            code: code.into(),
            layer: None,
            settings: Vec::new(),
            effect: Effect {
                verdict,
                ratio: Some(Interval::default()),
                ..Effect::default()
            },
            kept,
            ..Decision::default()
        }
    }

    fn finding(code: &str, confidence: Confidence, conditions: &str) -> Finding {
        Finding {
            code: code.into(),
            arm: String::new(),
            title: String::new(),
            layer: Layer::Php,
            seen: vec![Evidenced {
                what: "opcache.enable = 0".into(),
                conditions: conditions.into(),
            }],
            refuted_by: String::new(),
            remedy: None,
            expected_gain: String::new(),
            confidence,
            weight: 0.0,
            source: String::new(),
            effects: Vec::new(),
        }
    }

    #[test]
    fn dropped_is_only_what_was_shown_not_to_help() {
        let standing = |verdict, kept| decision("X", verdict, kept).standing();
        assert_eq!(standing(Verdict::Better, true), Standing::Kept);
        assert_eq!(standing(Verdict::Worse, false), Standing::Dropped);
        assert_eq!(standing(Verdict::Equivalent, false), Standing::Dropped);
        assert_eq!(standing(Verdict::NoBetter, false), Standing::Dropped);
        assert_eq!(standing(Verdict::Inconclusive, false), Standing::Undecided);
        // It won, and was taken back when it was left out.
        assert_eq!(standing(Verdict::Better, false), Standing::Dropped);
        let mut untried = decision("X", Verdict::default(), false);
        untried.effect.ratio = None;
        assert_eq!(untried.standing(), Standing::NotTried);
        // Of too few pairs, and of none that counted.
        untried.effect.pairs = 2;
        assert_eq!(untried.standing(), Standing::Undecided);
        (untried.effect.pairs, untried.effect.void_pairs) = (0, 3);
        assert_eq!(untried.standing(), Standing::Undecided);
        assert!(Standing::NotTried.is_open() && Standing::Undecided.is_open());
        assert!(!Standing::Dropped.is_open());
    }

    #[test]
    fn undecided_are_remedies_of_suspected_findings_only() {
        let run = Run {
            findings: vec![
                finding("OPC-01", Confidence::Suspected, ""),
                finding("OPC-06", Confidence::Noted, ""),
                finding("RDS-01", Confidence::Suspected, "at 40/s"),
            ],
            decisions: vec![
                decision("OPC-01", Verdict::Inconclusive, false),
                decision("OPC-06", Verdict::Inconclusive, false),
                decision("RDS-01", Verdict::NoBetter, false),
                decision("pool-size", Verdict::Inconclusive, false),
            ],
            ..Run::default()
        };
        let codes: Vec<&str> = run
            .undecided()
            .iter()
            .map(|(it, _)| it.code.as_str())
            .collect();
        assert_eq!(codes, ["OPC-01"]);
    }

    #[test]
    fn a_remedy_that_was_not_tried_counts_as_undecided_and_takes_no_measurement_back() {
        let mut untried = decision("OPC-01", Verdict::Inconclusive, false);
        untried.effect.ratio = None;
        let mut run = Run {
            findings: vec![finding("OPC-01", Confidence::Suspected, "")],
            decisions: vec![untried.clone()],
            ..Run::default()
        };
        assert_eq!(run.undecided().len(), 1);
        assert_eq!(run.tried(&run.findings[0]), None);
        // The stack failed with it: nothing is left to decide.
        run.decisions[0].failed = true;
        assert_eq!(run.decisions[0].standing(), Standing::NotTried);
        assert!(run.undecided().is_empty());
        run.decisions = vec![decision("OPC-01", Verdict::Equivalent, false), untried];
        let tried = run.tried(&run.findings[0]).expect("it was tried");
        assert_eq!(tried.verdict, Verdict::Equivalent);
    }

    #[test]
    fn a_guessed_index_that_did_not_help_refutes_no_cause() {
        let index = Change::Statement { name: "by_mail" }.key();
        let setting = |key| Setting {
            key,
            value: String::new(),
        };
        let mut effect = decision("MYS-03", Verdict::NoBetter, false).effect;
        effect.settings = vec![setting(crate::SettingKey::new(Layer::Php, "pm"))];
        assert!(effect.refutes());
        effect.settings = vec![setting(index)];
        assert!(!effect.refutes());
        let (file, line) = ("wp-config.php", 80);
        effect.settings = vec![setting(Change::Line { file, line }.key())];
        assert!(effect.refutes(), "debugging that is off is no guess");
    }

    #[test]
    fn a_cause_whose_remedy_was_tried_in_vain_heads_no_report() {
        let mut run = Run {
            findings: vec![
                finding("FPM-03", Confidence::Suspected, "at 40/s"),
                finding("CAP-02", Confidence::Suspected, "at 40/s"),
            ],
            ..Run::default()
        };
        let heads = |run: &Run| run.headline().map(|it| it.code.clone());
        assert_eq!(heads(&run).as_deref(), Some("FPM-03"));
        run.decisions = vec![decision("FPM-03", Verdict::Inconclusive, false)];
        assert_eq!(heads(&run).as_deref(), Some("FPM-03"));
        run.decisions = vec![decision("FPM-03", Verdict::Equivalent, false)];
        assert_eq!(heads(&run).as_deref(), Some("CAP-02"));
        assert_eq!(run.refuted().len(), 1);
        // The same where a diagnosis tried it, and nothing else was suspected.
        run.decisions.clear();
        run.findings.pop();
        run.findings[0].effects = vec![decision("", Verdict::NoBetter, false).effect];
        assert_eq!(heads(&run), None);
        assert_eq!(run.refuted()[0].0.code, "FPM-03");
    }

    #[test]
    fn what_is_merely_noted_heads_no_report() {
        let run = Run {
            findings: vec![finding("MYS-02", Confidence::Noted, "at 40/s")],
            ..Run::default()
        };
        assert_eq!(run.headline(), None);
    }

    #[test]
    fn what_was_read_from_the_stack_stays_a_recommendation() {
        assert!(finding("OPC-01", Confidence::Suspected, "").is_read());
        assert!(!finding("RDS-01", Confidence::Suspected, "at 40/s").is_read());
        assert!(!finding("OPC-06", Confidence::Noted, "").is_read());
    }
}
