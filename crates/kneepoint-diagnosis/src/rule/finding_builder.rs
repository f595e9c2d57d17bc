//! Builds a finding step by step, so that a check reads as what it says.

use crate::evidence::{Logged, Phase};
use crate::saturation::waits::Part;
use crate::{Evidence, Rule};
use kneepoint_model::units::format_ms;
use kneepoint_model::{Confidence, Evidenced, Finding, Layer, Remedy};

/// A finding under construction.
pub(crate) struct FindingBuilder(Finding);

impl FindingBuilder {
    pub(crate) fn new(rule: &Rule, layer: Layer, title: String) -> Self {
        Self(Finding {
            code: rule.code.to_owned(),
            arm: String::new(),
            title,
            layer,
            seen: Vec::new(),
            refuted_by: String::new(),
            remedy: None,
            expected_gain: String::new(),
            confidence: Confidence::Suspected,
            weight: 0.0,
            source: format!(
                "catalogue {}: {}",
                rule.code,
                rule.doc.references.join("; ")
            ),
            effects: Vec::new(),
        })
    }

    /// Something measured, with the phase it was measured in.
    pub(crate) fn measured(self, what: impl Into<String>, phase: &Phase) -> Self {
        self.under(what, phase.conditions())
    }

    /// A wait, with the time of a request that it is.
    pub(crate) fn waited(self, part: &Part<'_>) -> Self {
        let each = format!("{} of it in each request", format_ms(part.ms));
        self.measured(part.describe(), part.phase)
            .measured(each, part.phase)
    }

    /// How much of the CPU was used in a phase, where that was measured.
    pub(crate) fn cpu_used(self, evidence: &Evidence, phase: &Phase) -> Self {
        match evidence.cpu_use(phase) {
            Some(cpu) => self.measured(cpu.describe(), phase),
            None => self,
        }
    }

    /// Something read from the configuration.
    pub(crate) fn configured(self, what: impl Into<String>) -> Self {
        self.under(what, String::new())
    }

    /// Something seen under conditions already in words.
    pub(crate) fn under(mut self, what: impl Into<String>, conditions: String) -> Self {
        self.0.seen.push(Evidenced {
            what: what.into(),
            conditions,
        });
        self
    }

    /// What was seen from within the workers, when somebody looked.
    pub(crate) fn inside(mut self, seen: Vec<Evidenced>) -> Self {
        self.0.seen.extend(seen);
        self
    }

    /// Log lines, when there were any.
    pub(crate) fn logged(self, lines: Option<Logged>) -> Self {
        match lines {
            Some(lines) => self.under(
                format!("{} log lines: {}", lines.count, lines.example),
                lines.conditions,
            ),
            None => self,
        }
    }

    /// What would show that the finding is wrong.
    pub(crate) fn refuted_by(mut self, text: impl Into<String>) -> Self {
        self.0.refuted_by = text.into();
        self
    }

    pub(crate) fn remedy(mut self, remedy: Remedy) -> Self {
        self.0.remedy = Some(remedy);
        self
    }

    /// Expected gain in words, with its basis.
    pub(crate) fn gain(mut self, text: impl Into<String>) -> Self {
        self.0.expected_gain = text.into();
        self
    }

    /// Estimated share of the limit this costs; cut to 0..0.95, since no cause leaves nothing.
    pub(crate) fn weight(mut self, share: f64) -> Self {
        self.0.weight = if share.is_finite() {
            share.clamp(0.0, 0.95)
        } else {
            0.0
        };
        self
    }

    /// Only noted unless the condition holds.
    pub(crate) fn suspected_if(mut self, condition: bool) -> Self {
        if !condition {
            self.0.confidence = Confidence::Noted;
        }
        self
    }

    pub(crate) fn done(self) -> Option<Finding> {
        Some(self.0)
    }
}
