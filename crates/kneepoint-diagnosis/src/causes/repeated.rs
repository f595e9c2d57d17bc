//! One request that asks for the same thing again and again.

use crate::rule::FindingBuilder;
use crate::rule::prelude::*;
use kneepoint_model::TracedCall;

/// Runs of one call in one request from which on it is one too many (catalogue MYS-04) \[ours\].
const TOO_OFTEN: u64 = 20;
/// Runs of a query that reads from which on asking once saves most of them, and the share of the work that it saves from which
/// on they are too many, however few \[ours\].
const FEW: u64 = 3;
const SAVES: f64 = 0.3;
/// Share of the sampled stacks that pass through its line from which on it costs \[ours\].
const COSTS: f64 = 0.1;

/// The call that a usual request makes too often, and that costs most of those.
pub(crate) struct Repeated<'e> {
    evidence: &'e Evidence,
    pub(crate) call: &'e TracedCall,
    /// Share of the sampled stacks that pass through its line, where stacks were sampled.
    share: Option<f64>,
}

impl<'e> Repeated<'e> {
    /// The call of this kind that is made too often.
    pub(crate) fn find(evidence: &'e Evidence, kind: CallKind) -> Option<Self> {
        let of = |call| Self {
            evidence,
            call,
            share: evidence.share_of_call(call),
        };
        let usual = evidence.traced(kind).filter(|call| evidence.is_usual(call));
        let too_many = usual.map(of).filter(|it| {
            let often = it.call.most >= TOO_OFTEN;
            often || (it.call.most >= FEW && reads(it.call) && it.saved() >= SAVES)
        });
        // The dearest, and where that is not known the most frequent.
        too_many.max_by(|a, b| {
            let costs = a.weight().total_cmp(&b.weight());
            costs.then(a.call.most.cmp(&b.call.most))
        })
    }

    /// Share of the work of all workers that asking once would save.
    fn saved(&self) -> f64 {
        self.share.unwrap_or(0.0) * (1.0 - 1.0 / self.call.most as f64)
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
            .weight(self.weight())
    }

    /// What it costs to make it so often: of a few, what asking once would save.
    fn weight(&self) -> f64 {
        match self.call.most {
            TOO_OFTEN.. => self.share.unwrap_or(0.0),
            _ => self.saved(),
        }
    }

    /// ` at file:line` of the loop that makes it; empty where that is not known.
    pub(crate) fn at(&self) -> String {
        let place = self.call.named_place();
        place.map_or_else(String::new, |place| format!(" at {}", place.at()))
    }
}

/// Whether a call is a query that reads: one that writes is to be made as often as it is.
fn reads(call: &TracedCall) -> bool {
    let verb = call.what.split_whitespace().next().unwrap_or_default();
    call.kind == CallKind::Query && verb.eq_ignore_ascii_case("select")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{met, place, sampled, traced};

    /// Whether a query that a request makes so often, and at whose line so many of a hundred workers were met, is found.
    fn check((what, times, workers): (&str, u64, u64), expected: bool) {
        let at = || place("Authors::articles", "src/Authors.php", 7);
        let query = traced("GET /authors", CallKind::Query, what, at(), times);
        let stacks = sampled(
            50,
            vec![at(), place("page", "index.php", 1)],
            vec![
                met("GET /authors", &[0], workers),
                met("GET /", &[1], 100 - workers),
            ],
        );
        let case = Case::healthy().traced("GET /authors", 10, vec![query]);
        let case = case.with(|evidence| evidence.stacks = Some(stacks));
        let evidence = case.evidence();
        let found = Repeated::find(&evidence, CallKind::Query);
        assert_eq!(found.is_some(), expected, "{what} {times} {workers}");
    }

    #[test]
    fn the_dearest_is_told_and_not_the_most_frequent() {
        let at = |line| place("Shop::page", "src/Shop.php", line);
        let query = |what, line, times| traced("GET /", CallKind::Query, what, at(line), times);
        let calls = vec![
            query("select value from options where name = ?", 7, 60),
            query("select * from meta where post = ?", 9, 24),
        ];
        let stacks = sampled(
            50,
            vec![at(7), at(9), place("page", "index.php", 1)],
            vec![
                met("GET /", &[0], 3),
                met("GET /", &[1], 60),
                met("GET /", &[2], 37),
            ],
        );
        let case = Case::healthy().traced("GET /", 10, calls);
        let evidence = case.with(|it| it.stacks = Some(stacks)).evidence();
        let found = Repeated::find(&evidence, CallKind::Query).expect("too many");
        assert_eq!(found.call.most, 24);
    }

    #[test]
    fn a_few_dear_queries_are_too_many_and_a_few_cheap_ones_are_not() {
        let select = "select * from articles where author_id = ?";
        check((select, 5, 80), true);
        check((select, 5, 20), false);
        check((select, 2, 90), false);
        check((select, 25, 20), true);
        check(("insert into visits values (?)", 5, 80), false);
    }
}
