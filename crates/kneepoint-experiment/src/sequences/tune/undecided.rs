//! What is said of a change that could be judged neither way, beside what its comparison measured.

use kneepoint_model::units::format_share;
use kneepoint_model::{Confidence, Effect, Finding};
use kneepoint_planner::ab::WORTH;
use kneepoint_planner::tune::Costs;
use std::time::Duration;

/// Part of the limit that a note must be worth at least for its change to be tried \[ours\]: to show so little takes many times what
/// a tuning has for a change.
const WORTH_A_TRY: f64 = 0.4 * WORTH;

/// Whether a finding is known to be worth so little that no comparison would show it. What was kept since it was judged made
/// the stack this much faster, and so its part of a request that much larger (Amdahl's law).
pub(super) fn is_little(finding: &Finding, faster: f64) -> bool {
    let is_known = finding.weight > 0.0 && finding.confidence == Confidence::Noted;
    is_known && finding.weight * faster.max(1.0) < WORTH_A_TRY
}

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
    if !effect.was_measured() && is_little(finding, 1.0) {
        return format!(
            "it is worth about {} of the limit, which no comparison in this time would show{expected}",
            format_share(finding.weight)
        );
    }
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
    use kneepoint_model::{Interval, Layer};

    fn finding(expected_gain: &str) -> Finding {
        Finding {
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
        }
    }

    fn check(pairs: u32, seen: Option<(Interval, f64)>, expected_gain: &str, words: &str) {
        let finding = finding(expected_gain);
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
    fn a_note_that_is_known_to_be_worth_next_to_nothing_is_not_tried() {
        let of = |confidence, weight| Finding {
            confidence,
            weight,
            ..finding("")
        };
        let little = of(Confidence::Noted, 0.002);
        assert!(is_little(&little, 1.0));
        // A hundredth of a request is a twentieth of one that takes a fifth of the time.
        let more = of(Confidence::Noted, 0.01);
        assert!(is_little(&more, 1.0) && !is_little(&more, 5.0));
        assert!(!is_little(&of(Confidence::Noted, 0.04), 1.0));
        // What nobody knows the part of is tried, and so is what is suspected.
        assert!(!is_little(&of(Confidence::Noted, 0.0), 1.0));
        assert!(!is_little(&of(Confidence::Suspected, 0.002), 1.0));
        let left = Duration::from_secs(95);
        let told = in_words(&little, &Effect::default(), &Costs::default(), left);
        let words =
            "it is worth about 0.2 % of the limit, which no comparison in this time would show";
        assert_eq!(told, words);
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
