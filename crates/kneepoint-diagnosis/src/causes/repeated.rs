//! One request that asks for the same thing again and again.

use crate::rule::FindingBuilder;
use crate::rule::prelude::*;
use kneepoint_model::TracedCall;

/// Runs of one call in one request from which on it is one too many (catalogue MYS-04) \[ours\].
const TOO_OFTEN: u64 = 20;
/// Share of the sampled stacks that pass through its line from which on it costs \[ours\].
const COSTS: f64 = 0.1;

/// The call that a usual request makes most often.
pub(crate) struct Repeated<'e> {
    evidence: &'e Evidence,
    pub(crate) call: &'e TracedCall,
    /// Share of the sampled stacks that pass through its line, where stacks were sampled.
    share: Option<f64>,
}

impl<'e> Repeated<'e> {
    /// The call of this kind that is made too often.
    pub(crate) fn find(evidence: &'e Evidence, kind: CallKind) -> Option<Self> {
        let call = evidence
            .traced(kind)
            .filter(|call| call.most >= TOO_OFTEN && evidence.is_usual(call))
            .max_by_key(|call| call.most)?;
        Some(Self {
            evidence,
            call,
            share: evidence.share_of_call(call),
        })
    }

    /// A finding that begins with the call.
    pub(crate) fn begun(&self, rule: &Rule) -> FindingBuilder {
        rule.finds(Layer::App, rule.title).under(
            self.evidence.describe_call(self.call),
            self.evidence.traced_under(),
        )
    }

    /// Adds what it costs, and how sure that makes the finding.
    pub(crate) fn weighed(&self, finding: FindingBuilder) -> FindingBuilder {
        let finding = match self.share {
            Some(share) => finding.under(
                format!(
                    "it takes {} of the work of all workers that were met",
                    format_share(share)
                ),
                self.evidence.sampled_under(),
            ),
            None => finding,
        };
        finding
            .suspected_if(self.share.is_none_or(|share| share >= COSTS))
            .weight(self.share.unwrap_or(0.0))
    }

    /// ` at file:line` of the loop that makes it; empty where that is not known.
    pub(crate) fn at(&self) -> String {
        let place = self.call.named_place();
        place.map_or_else(String::new, |place| format!(" at {}", place.at()))
    }
}
