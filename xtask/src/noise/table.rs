//! What the demos came to, side by side, and whether the busy ones say what the quiet ones say.

use super::Demo;
use crate::method::Verdict;
use kneepoint_model::run::{Decision, Standing};
use kneepoint_model::{Confidence, Interval};
use std::collections::BTreeMap;
use std::io::Write;

/// The finding that must be named first and kept, in every demo.
const FIRST: &str = "OPC-01";
/// From which effect on every demo must decide alike.
const LARGE: f64 = 1.3;
/// How many times as long as a quiet demo a busy one may take.
const LONGER: f64 = 1.5;

pub(super) fn head(out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(
        out,
        "{:<7}{:>6}{:>8}{:>8}  {:<30}{:<34}decisions (factor), + left out once",
        "machine", "min", "others", "first", "R* of base", "R* of best"
    )?;
    Ok(())
}

pub(super) fn row(demo: &Demo, out: &mut impl Write) -> anyhow::Result<()> {
    let rate = |arm: &str| {
        demo.run.limit(arm).map_or_else(
            || "-".to_owned(),
            |limit| {
                let rate = limit.rate_hz;
                format!(
                    "{:.1} ({:.1} to {:.1}, +-{:.0} %)",
                    rate.estimate,
                    rate.low,
                    rate.high,
                    rate.relative_half_width() * 100.0
                )
            },
        )
    };
    let decisions: Vec<String> = demo.run.decisions.iter().map(decision).collect();
    writeln!(
        out,
        "{:<7}{:>6.1}{:>6.0} %{:>8}  {:<30}{:<34}{}",
        if demo.busy { "busy" } else { "quiet" },
        demo.took.as_secs_f64() / 60.0,
        foreign_share(demo) * 100.0,
        first(demo).unwrap_or("-"),
        rate("base"),
        rate("best"),
        decisions.join("; ")
    )?;
    Ok(())
}

fn decision(decision: &Decision) -> String {
    let factor = decision.effect.ratio.map_or_else(String::new, |ratio| {
        format!(
            " {:.2} ({:.2} to {:.2})",
            ratio.estimate, ratio.low, ratio.high
        )
    });
    let left_out = if decision.leave_one_out.is_some() {
        " +"
    } else {
        ""
    };
    format!(
        "{} {}{factor} in {}{left_out}",
        decision.code,
        decision.standing().name(),
        decision.effect.pairs
    )
}

/// What other programs used of the machine, on average over the steps.
fn foreign_share(demo: &Demo) -> f64 {
    let loads = demo.run.trials.iter().map(|trial| &trial.load);
    let (used, all) = loads.fold((0.0, 0.0), |(used, all), load| {
        let share = load.health.foreign_share.unwrap_or(0.0);
        (used + share * load.window_s, all + load.window_s)
    });
    used / f64::max(all, 1e-9)
}

/// The finding that was named first: of those that are suspected or more.
fn first(demo: &Demo) -> Option<&str> {
    let mut findings = demo.run.findings.iter();
    let first = findings.find(|finding| finding.confidence > Confidence::Noted)?;
    Some(&first.code)
}

fn of<'d>(demo: &'d Demo, code: &str) -> Option<&'d Decision> {
    demo.run.decisions.iter().find(|it| it.code == code)
}

pub(super) fn judged(demos: &[Demo]) -> Vec<Verdict> {
    let count = |met: &dyn Fn(&Demo) -> bool| demos.iter().filter(|demo| met(demo)).count();
    let all = demos.len();
    let named =
        count(&|demo| first(demo) == Some(FIRST) && of(demo, FIRST).is_some_and(|it| it.kept));
    let quiet = factors(demos.iter().filter(|demo| !demo.busy));
    let known = quiet.get(FIRST).copied();
    let ratio = |demo: &Demo| -> Option<Interval> { of(demo, FIRST)?.effect.ratio };
    let covers = count(&|demo| {
        let (ratio, known) = (ratio(demo), known);
        ratio
            .zip(known)
            .is_some_and(|(ratio, known)| ratio.contains(known))
    });
    let unlike = unlike(demos, &quiet);
    let mean_s = |busy: bool| {
        let of_kind: Vec<f64> = demos
            .iter()
            .filter(|demo| demo.busy == busy)
            .map(|demo| demo.took.as_secs_f64())
            .collect();
        of_kind.iter().sum::<f64>() / of_kind.len().max(1) as f64
    };
    let longer = mean_s(true) / mean_s(false);
    vec![
        Verdict {
            what: format!("{FIRST} is named first and kept in {named} of {all}"),
            met: named == all,
        },
        Verdict {
            what: format!(
                "{covers} of {all} intervals of its factor contain the median of the quiet runs, {:.2}",
                known.unwrap_or(f64::NAN)
            ),
            met: covers == all,
        },
        Verdict {
            what: if unlike.is_empty() {
                format!("every effect of {LARGE} or more is decided alike in all")
            } else {
                format!("decided unlike: {}", unlike.join("; "))
            },
            met: unlike.is_empty(),
        },
        Verdict {
            what: format!(
                "busy runs take {longer:.2} times the time of quiet ones, at most {LONGER}"
            ),
            met: longer <= LONGER,
        },
    ]
}

/// The median factor of each change over demos.
fn factors<'d>(demos: impl Iterator<Item = &'d Demo>) -> BTreeMap<String, f64> {
    let mut seen: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for decision in demos.flat_map(|demo| &demo.run.decisions) {
        if let Some(ratio) = decision.effect.ratio {
            seen.entry(decision.code.clone())
                .or_default()
                .push(ratio.estimate);
        }
    }
    let medians = seen.into_iter().filter_map(|(code, factors)| {
        Some((code, kneepoint_model::statistics::median::median(&factors)?))
    });
    medians.collect()
}

/// Changes with a large effect that some demos decided in another way than others.
fn unlike(demos: &[Demo], quiet: &BTreeMap<String, f64>) -> Vec<String> {
    let large = quiet.iter().filter(|(_, factor)| **factor >= LARGE);
    large
        .filter_map(|(code, factor)| {
            let standing = |demo: &Demo| {
                let decided = of(demo, code).map(Decision::standing);
                decided.filter(|it| *it != Standing::NotTried)
            };
            let standings: Vec<Option<Standing>> = demos.iter().map(standing).collect();
            let alike = standings.windows(2).all(|two| two[0] == two[1]);
            let names: Vec<&str> = standings
                .iter()
                .map(|it| it.map_or("not tried", Standing::name))
                .collect();
            (!alike).then(|| format!("{code} ({factor:.2}): {}", names.join(", ")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::Run;
    use kneepoint_model::{Effect, Finding, Layer};
    use std::time::Duration;

    fn demo(busy: bool, minutes: u64, factor: f64, kept: bool) -> Demo {
        let ratio = Interval {
            low: factor * 0.9,
            estimate: factor,
            high: factor * 1.1,
        };
        let run = Run {
            findings: vec![Finding {
                code: FIRST.into(),
                arm: String::new(),
                title: String::new(),
                layer: Layer::Php,
                seen: Vec::new(),
                refuted_by: String::new(),
                remedy: None,
                expected_gain: String::new(),
                confidence: Confidence::Suspected,
                weight: 0.0,
                source: String::new(),
                effects: Vec::new(),
            }],
            decisions: vec![Decision {
                code: FIRST.into(),
                layer: None,
                settings: Vec::new(),
                effect: Effect {
                    ratio: Some(ratio),
                    verdict: if kept {
                        kneepoint_model::Verdict::Better
                    } else {
                        kneepoint_model::Verdict::Inconclusive
                    },
                    ..Effect::default()
                },
                kept,
                ..Decision::default()
            }],
            ..Run::default()
        };
        Demo {
            busy,
            took: Duration::from_secs(60 * minutes),
            run,
        }
    }

    fn check(demos: &[Demo], met: [bool; 4]) {
        let verdicts = judged(demos);
        let found: Vec<bool> = verdicts.iter().map(|it| it.met).collect();
        let words: Vec<&str> = verdicts.iter().map(|it| it.what.as_str()).collect();
        assert_eq!(found, met, "{words:?}");
    }

    #[test]
    fn what_busy_demos_say_is_held_against_the_quiet_ones() {
        check(
            &[demo(false, 9, 8.0, true), demo(true, 10, 7.6, true)],
            [true; 4],
        );
        check(
            &[demo(false, 9, 8.0, true), demo(true, 14, 4.0, false)],
            [false, false, false, false],
        );
    }
}
