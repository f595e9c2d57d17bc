//! Changes that were decided on: what became of each, and the difference they make to the configuration.

pub(crate) mod diff;
pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod terminal;

use crate::words;
use kneepoint_model::run::{Decision, Standing};
use kneepoint_model::{Finding, Run};

/// What the words on the changes mean, where reports tell them.
pub(crate) const LEGEND: &str = "kept: shown to help; dropped: shown not to, so the simpler stays; undecided: the run was too short \
     or the machine too busy to tell; not tried: there was no time left for it, it is worth \
     too little to be shown, or the stack failed with it";

/// What heads the changes of [`recommended`].
pub(crate) const RECOMMENDED: &str =
    "Recommended all the same, because what is wrong was read from the stack itself";

/// Said of a change that was kept by a comparison which does not hold among all of the run.
pub(crate) const NOT_CERTAIN: &str = "not certain: see Doubts";

/// What a factor may be of, and what that is.
const QUANTITIES: [(&str, &str); 4] = [
    (
        "throughput at saturation",
        "requests answered a second under a load that never pauses, however late",
    ),
    (
        "capacity",
        "requests a second that the stack can serve, told by its throughput at saturation and by the CPU time that a request \
         takes; above 1 is better in both",
    ),
    (
        "R* by the violating share at one rate",
        "how far R* moves, told by how many requests violate the SLO at that rate",
    ),
    ("R*", "the highest rate of arrivals at which the SLO holds"),
];

/// What the factors of a run are of, where they are of several things; nothing where they are of one.
pub(crate) fn quantities(run: &Run) -> Option<String> {
    let comparisons = run.comparisons();
    let is_told = |name: &str| {
        let mut measured = comparisons.iter();
        (name == "R*" && run.gain().is_some()) || measured.any(|effect| effect.quantity == name)
    };
    let told: Vec<String> = QUANTITIES
        .iter()
        .filter(|(name, _)| is_told(name))
        .map(|(name, what)| format!("{}: {what}.", words::sentence(name)))
        .collect();
    (told.len() > 1).then(|| {
        format!(
            "The factors measure different things, so do not multiply them. {}",
            told.join(" ")
        )
    })
}

/// Whether a change of this run was kept by a comparison that does not hold among all of the run.
pub(crate) fn is_uncertain(run: &Run, decision: &Decision) -> bool {
    let mut weak = run.weak_claims().into_iter();
    decision.kept && weak.any(|claim| std::ptr::eq(claim, &decision.effect))
}

/// What stands where a kept change has no leave-one-out: that nobody looked, unless it is the only one, which the proof
/// leaves out.
pub(crate) fn not_left_out(run: &Run, decision: &Decision) -> &'static str {
    let kept = run.decisions.iter().filter(|it| it.kept).count();
    if decision.kept && kept > 1 {
        "not checked"
    } else {
        ""
    }
}

/// Remedies that could not be judged and stay a recommendation: what is wrong was read from the stack itself.
pub(crate) fn recommended(run: &Run) -> Vec<(&Decision, &Finding)> {
    let mut read = run.undecided();
    read.retain(|(_, finding)| finding.is_read());
    read
}

/// Why it is not known what such a change gains.
pub(crate) fn untold(decision: &Decision) -> String {
    let effect = &decision.effect;
    if decision.standing() == Standing::NotTried {
        return "There was no time to try it.".to_owned();
    }
    if effect.ratio.as_ref().and_then(words::ratio_range).is_some() {
        let factor = words::factor(effect);
        return format!("Its comparison showed neither a gain nor a loss: {factor}.");
    }
    let told: Vec<String> = effect
        .measures
        .iter()
        .map(|measure| format!("by {} x{}", measure.quantity, words::ratio(measure.ratio)))
        .collect();
    let any = |is: fn(f64) -> bool| effect.measures.iter().any(|measure| is(measure.ratio));
    let what = if any(|ratio| ratio > 1.0) && any(|ratio| ratio < 1.0) {
        "Its comparison was too short: one measure shows a gain, another a loss"
    } else {
        "Its comparison was too short or too noisy for a factor"
    };
    match told.as_slice() {
        [] => format!("{what}."),
        told => format!("{what} ({}).", told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{Effect, Interval, PairedMeasure};

    fn decision(effect: Effect) -> Decision {
        Decision {
            code: "APP-01".into(),
            layer: None,
            settings: Vec::new(),
            effect,
            ..Decision::default()
        }
    }

    fn compared(quantity: &str, e_value: f64) -> Effect {
        Effect {
            quantity: quantity.into(),
            pairs: 3,
            e_value,
            verdict: kneepoint_model::Verdict::Better,
            ..Effect::default()
        }
    }

    #[test]
    fn what_a_recommendation_gains_is_as_unknown_as_its_comparison_left_it() {
        let check = |effect: Effect, expected: &str| {
            assert_eq!(words::plain(&untold(&decision(effect))), expected);
        };
        check(Effect::default(), "There was no time to try it.");
        let short = Effect {
            pairs: 2,
            ..Effect::default()
        };
        let what = "Its comparison was too short or too noisy for a factor";
        check(short.clone(), &format!("{what}."));
        let by = |ratios: &[f64]| {
            let measures = ratios.iter().map(|ratio| PairedMeasure {
                quantity: "capacity".into(),
                ratio: *ratio,
                ..PairedMeasure::default()
            });
            Effect {
                measures: measures.collect(),
                ..short.clone()
            }
        };
        check(
            by(&[1.16, 1.3]),
            &format!("{what} (by capacity x1.16, by capacity x1.30)."),
        );
        check(
            by(&[1.16, 0.85]),
            "Its comparison was too short: one measure shows a gain, another a loss (by capacity x1.16, by capacity x0.85).",
        );
        let unclear = Effect {
            ratio: Some(Interval {
                low: 0.8,
                estimate: 1.2,
                high: 1.5,
            }),
            ..short.clone()
        };
        check(
            unclear,
            "Its comparison showed neither a gain nor a loss: x1.20 (0.80 to 1.50).",
        );
    }

    #[test]
    fn factors_of_several_things_are_explained_and_those_of_one_are_not() {
        let throughput = "throughput at saturation";
        let mut run = Run {
            decisions: vec![decision(compared(throughput, 1e6))],
            ..Run::default()
        };
        assert_eq!(quantities(&run), None);
        run.proof = Some(compared("capacity", 1e6));
        let told = quantities(&run).expect("two things");
        for part in ["do not multiply", "Throughput at sat", "Capacity: "] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(!told.contains("violate"), "{told}");
    }

    #[test]
    fn only_a_kept_change_that_does_not_hold_among_all_is_uncertain() {
        let kept = |e_value| Decision {
            kept: true,
            ..decision(compared("capacity", e_value))
        };
        let run = Run {
            decisions: vec![kept(1e6), kept(25.0), decision(compared("capacity", 25.0))],
            ..Run::default()
        };
        let decisions = run.decisions.iter();
        let uncertain: Vec<bool> = decisions.map(|it| is_uncertain(&run, it)).collect();
        assert_eq!(uncertain, [false, true, false]);
    }

    #[test]
    fn the_only_kept_change_needs_no_leave_one_out() {
        let kept = || Decision {
            kept: true,
            ..decision(compared("capacity", 1e6))
        };
        let dropped = decision(compared("capacity", 1e6));
        let mut run = Run {
            decisions: vec![kept(), dropped],
            ..Run::default()
        };
        let told = |run: &Run| -> Vec<&'static str> {
            let decisions = run.decisions.iter();
            decisions.map(|it| not_left_out(run, it)).collect()
        };
        assert_eq!(told(&run), ["", ""]);
        run.decisions.push(kept());
        assert_eq!(told(&run), ["not checked", "", "not checked"]);
    }
}
