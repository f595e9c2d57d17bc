//! What is said of a change that could be judged neither way, beside what its comparison measured.

use kneepoint_model::units::format_share;
use kneepoint_model::{Effect, Finding};
use kneepoint_planner::ab::WORTH;
use kneepoint_planner::tune::Costs;
use std::time::Duration;

/// Why a change was not tried, what would decide it, and what it is expected to gain; `left` is what was left of the budget.
pub(super) fn in_words(
    finding: &Finding,
    effect: &Effect,
    costs: &Costs,
    left: Duration,
) -> String {
    let expected = match finding.expected_gain.trim_end_matches('.') {
        "" => String::new(),
        gain => format!("; expected: {gain}"),
    };
    if !effect.was_measured() {
        return format!(
            "the last {:.0} s were kept for what may gain more and for the final measurements; a longer --budget would \
             decide it{expected}",
            left.as_secs_f64()
        );
    }
    let needs = effect
        .visible()
        .and_then(|visible| costs.until_visible(WORTH, effect.pairs, visible));
    let decides = match needs {
        Some(time) => format!(
            "about {:.0} s more of pairs, or a quieter machine, would show a gain of {}",
            time.as_secs_f64(),
            format_share(WORTH)
        ),
        None => "a longer --budget would decide it".to_owned(),
    };
    format!("{decides}{expected}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{Confidence, Interval, Layer};

    fn check(pairs: u32, seen: Option<(Interval, f64)>, expected_gain: &str, words: &str) {
        let finding = Finding {
            code: "RDS-01".into(),
            arm: String::new(),
            title: String::new(),
            layer: Layer::Cache,
            seen: Vec::new(),
            refuted_by: String::new(),
            remedy: None,
            expected_gain: expected_gain.into(),
            confidence: Confidence::Suspected,
            weight: 0.1,
            source: String::new(),
            effects: Vec::new(),
        };
        let effect = Effect {
            quantity: "capacity".into(),
            ratio: seen.map(|(ratio, _)| ratio),
            smallest_visible: seen.map(|(_, visible)| visible),
            pairs,
            ..Effect::default()
        };
        let left = Duration::from_secs(95);
        let told = in_words(&finding, &effect, &Costs::default(), left);
        assert_eq!(told, words);
    }

    #[test]
    fn one_that_was_not_tried_needs_more_time() {
        check(
            0,
            None,
            "a tenth of R*, from what connecting takes.",
            "the last 95 s were kept for what may gain more and for the final measurements; a longer --budget would decide it; \
             expected: a tenth of R*, from what connecting takes",
        );
    }

    #[test]
    fn one_whose_pairs_scatter_needs_time_or_a_quieter_machine() {
        let ratio = Interval {
            low: 0.95,
            estimate: 1.03,
            high: 1.12,
        };
        check(
            6,
            Some((ratio, 0.1)),
            "a tenth of R*",
            "about 76 s more of pairs, or a quieter machine, would show a gain of 5.0 %; expected: a tenth of R*",
        );
    }

    #[test]
    fn one_of_too_few_pairs_needs_more_time_and_no_number_is_made_up() {
        check(2, None, "", "a longer --budget would decide it");
    }
}
