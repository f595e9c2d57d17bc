//! What a run record says, compared with what a fault expects. Pure functions of the record's text.

use super::fault::{Demands, Expectation};
use super::times::{Entry, Times};
use kneepoint_model::Confidence;
use serde::{Deserialize, Serialize};

/// The schema of run records that is understood.
const SCHEMA: &str = "kneepoint.run/1";

/// The one code that a healthy stack may name as suspected or above: its processors are the limit.
const HONEST_LIMIT: &str = "CAP-02";

/// The part of a run record that the bench looks at. Not the whole of `model::Run`: a series that a later version
/// writes differently must not fail the bench.
#[derive(Deserialize)]
struct Document {
    schema: String,
    run: Record,
}

#[derive(Deserialize)]
struct Record {
    ended: String,
    #[serde(default)]
    elapsed_s: f64,
    #[serde(default)]
    journal: Vec<Entry>,
    findings: Vec<Named>,
}

/// A finding, as far as the bench looks.
#[derive(Debug, Clone, Deserialize)]
struct Named {
    code: String,
    title: String,
    confidence: Confidence,
    effects: Vec<Measured>,
    #[serde(default)]
    seen: Vec<Told>,
    remedy: Option<Proposed>,
}

#[derive(Debug, Clone, Deserialize)]
struct Told {
    what: String,
}

#[derive(Debug, Clone, Deserialize)]
struct Proposed {
    text: String,
}

impl Named {
    /// Whether a person reads this text in it.
    fn mentions(&self, text: &str) -> bool {
        let remedy = self.remedy.iter().map(|remedy| &remedy.text);
        let seen = self.seen.iter().map(|seen| &seen.what);
        let mut all = seen.chain(remedy).chain([&self.title]);
        all.any(|said| said.contains(text))
    }
}

#[derive(Debug, Clone, Deserialize)]
struct Measured {
    change: String,
    quantity: String,
    verdict: String,
    ratio: Option<Ratio>,
}

/// With the remedy over without it. JSON has no infinity, so an end of the interval may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Ratio {
    pub(super) low: Option<f64>,
    pub(super) estimate: Option<f64>,
    pub(super) high: Option<f64>,
}

impl Ratio {
    /// `1.42 (1.31 to 1.55)`.
    pub(super) fn in_words(&self) -> String {
        let number = |value: Option<f64>| value.map_or("?".into(), |value| format!("{value:.2}"));
        let (low, high) = (number(self.low), number(self.high));
        format!("{} ({low} to {high})", number(self.estimate))
    }
}

/// What came of trying the remedy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Gain {
    /// What was changed: `pm.max_children 2 -> 8`.
    pub(super) change: String,
    /// What the ratio is of.
    pub(super) quantity: String,
    /// With the remedy over without it.
    pub(super) ratio: Ratio,
}

/// A run, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// Code of the first finding that is suspected or above.
    pub(super) named: Option<String>,
    /// Its title.
    pub(super) title: Option<String>,
    /// Whether that is right. A healthy stack is right without a false alarm.
    pub(super) right: bool,
    /// How sure the tool is, in a word: `confirmed` when an intervention or A/B went better, else what came of trying.
    pub(super) standing: String,
    /// Whether an intervention or A/B of the first finding went better.
    pub(super) won: bool,
    /// What came of trying the remedy; `None` when it was not tried.
    pub(super) gain: Option<Gain>,
    /// Codes that a healthy stack must not name. Empty for a fault.
    pub(super) false_alarms: Vec<String>,
    /// What the fault demands beside the first code and did not get, a sentence each.
    pub(super) unmet: Vec<String>,
    /// How long its parts took; `None` where the run does not tell.
    pub(super) times: Option<Times>,
}

/// Judges the text of a run record.
///
/// # Errors
/// It is not a run record, or the run did not finish: in words.
pub(super) fn judge(
    expect: &Expectation,
    demands: &Demands,
    text: &str,
) -> Result<Verdict, String> {
    let document: Document = serde_json::from_str(text)
        .map_err(|error| format!("the record cannot be read: {error}"))?;
    if document.schema != SCHEMA {
        return Err(format!(
            "the record's schema is `{}`, not `{SCHEMA}`",
            document.schema
        ));
    }
    if document.run.ended != "finished" {
        return Err(format!("the run did not finish: `{}`", document.run.ended));
    }
    let times = Times::of(&document.run.journal, document.run.elapsed_s);
    let (said, notes): (Vec<Named>, Vec<Named>) = document
        .run
        .findings
        .into_iter()
        .partition(|finding| finding.confidence >= Confidence::Suspected);
    let false_alarms: Vec<String> = match expect {
        Expectation::First(_) => Vec::new(),
        Expectation::Healthy => said
            .iter()
            .filter(|finding| finding.code != HONEST_LIMIT)
            .map(|finding| finding.code.clone())
            .collect(),
    };
    let unmet = unmet(demands, &said, &notes);
    let first = said.into_iter().next();
    let right = unmet.is_empty()
        && match expect {
            Expectation::Healthy => false_alarms.is_empty(),
            Expectation::First(codes) => first
                .as_ref()
                .is_some_and(|first| codes.contains(&first.code)),
        };
    Ok(Verdict {
        unmet,
        times,
        ..verdict(first, right, false_alarms)
    })
}

/// What is demanded beside the first code and was not said.
fn unmet(demands: &Demands, said: &[Named], notes: &[Named]) -> Vec<String> {
    let named = |code: &&String| said.iter().any(|finding| finding.code == **code);
    let is_note = |code: &str| notes.iter().any(|finding| finding.code == code);
    let also = demands.also.iter().filter(|code| !named(code));
    let noted = demands.noted.iter();
    let noted = noted.filter(|code| !named(code) && !is_note(code));
    let never = demands.never.iter().filter(named);
    let first = said.first();
    let mentions = demands.mentions.iter();
    let mentions = mentions.filter(|text| !first.is_some_and(|finding| finding.mentions(text)));
    also.map(|code| format!("{code} is not suspected as well"))
        .chain(noted.map(|code| format!("{code} is not even noted")))
        .chain(never.map(|code| format!("{code} is suspected, and must not be")))
        .chain(mentions.map(|text| format!("the first finding does not mention `{text}`")))
        .collect()
}

fn verdict(first: Option<Named>, right: bool, false_alarms: Vec<String>) -> Verdict {
    let Some(first) = first else {
        return Verdict {
            named: None,
            title: None,
            right,
            standing: "-".into(),
            won: false,
            gain: None,
            false_alarms,
            unmet: Vec::new(),
            times: None,
        };
    };
    let better = first
        .effects
        .iter()
        .rfind(|effect| effect.verdict == "better");
    let shown = better.or(first.effects.last());
    let standing = match (better, first.effects.last()) {
        (Some(_), _) => first
            .confidence
            .max(Confidence::Confirmed)
            .name()
            .to_owned(),
        (None, Some(tried)) => tried.verdict.clone(),
        (None, None) => "not tried".to_owned(),
    };
    Verdict {
        right,
        standing,
        won: better.is_some(),
        gain: shown.map(|effect| Gain {
            change: effect.change.clone(),
            quantity: effect.quantity.clone(),
            ratio: effect.ratio.unwrap_or_default(),
        }),
        named: Some(first.code),
        title: Some(first.title),
        false_alarms,
        unmet: Vec::new(),
        times: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{Effect, Finding, Interval, Layer, Run};

    fn effect(verdict: kneepoint_model::Verdict, estimate: f64) -> Effect {
        Effect {
            change: "opcache.enable 0 -> 1".into(),
            settings: Vec::new(),
            quantity: "goodput at saturation".into(),
            ratio: Some(Interval {
                low: estimate - 0.1,
                estimate,
                high: f64::INFINITY,
            }),
            pairs: 6,
            e_value: 40.0,
            verdict,
            smallest_visible: Some(0.03),
            permutation_p: None,
            bootstrap: None,
            void_pairs: 0,
            measures: Vec::new(),
            cpu_binds: None,
            conditions: "8 workers".into(),
        }
    }

    fn finding(code: &str, confidence: Confidence, effects: Vec<Effect>) -> Finding {
        Finding {
            code: code.into(),
            arm: String::new(),
            title: format!("title of {code}"),
            layer: Layer::Php,
            seen: Vec::new(),
            refuted_by: String::new(),
            remedy: None,
            expected_gain: String::new(),
            confidence,
            weight: 0.0,
            source: String::new(),
            effects,
        }
    }

    /// A record as the program writes it: the model's own types, serialised.
    fn record(findings: Vec<Finding>, ended: &str) -> String {
        let run = Run {
            ended: ended.into(),
            findings,
            ..Run::default()
        };
        serde_json::json!({ "schema": SCHEMA, "run": run }).to_string()
    }

    fn first(codes: &[&str]) -> Expectation {
        Expectation::First(codes.iter().map(|code| (*code).to_owned()).collect())
    }

    #[track_caller]
    fn check(
        expect: Expectation,
        findings: Vec<Finding>,
        right: bool,
        standing: &str,
        alarms: &[&str],
    ) -> Verdict {
        let text = record(findings, "finished");
        let verdict = judge(&expect, &Demands::default(), &text).expect("verdict");
        assert_eq!(
            (
                verdict.right,
                verdict.standing.as_str(),
                verdict.false_alarms.as_slice()
            ),
            (
                right,
                standing,
                alarms
                    .iter()
                    .map(|code| (*code).to_owned())
                    .collect::<Vec<_>>()
                    .as_slice()
            )
        );
        verdict
    }

    #[test]
    fn the_first_that_is_suspected_counts_and_noted_ones_do_not() {
        use Confidence::{Confirmed, Noted, Suspected};
        let said = || {
            vec![
                finding("FPM-16", Noted, vec![]),
                finding(
                    "OPC-01",
                    Confirmed,
                    vec![
                        effect(kneepoint_model::Verdict::Inconclusive, 1.0),
                        effect(kneepoint_model::Verdict::Better, 3.2),
                    ],
                ),
                finding("FPM-01", Suspected, vec![]),
            ]
        };
        let verdict = check(first(&["OPC-01"]), said(), true, "confirmed", &[]);
        assert_eq!(verdict.named.as_deref(), Some("OPC-01"));
        assert!(verdict.won);
        assert_eq!(
            verdict.gain.expect("gain").ratio.in_words(),
            "3.20 (3.10 to ?)"
        );
        check(first(&["OPC-02", "OPC-01"]), said(), true, "confirmed", &[]);
        // The right code in the second place is not named first.
        check(first(&["FPM-01"]), said(), false, "confirmed", &[]);
    }

    #[test]
    fn what_came_of_trying_is_told_in_a_word() {
        use Confidence::{Proved, Suspected};
        let one = |confidence, effects| vec![finding("OPC-01", confidence, effects)];
        let opc = || first(&["OPC-01"]);
        check(opc(), one(Suspected, vec![]), true, "not tried", &[]);
        check(
            opc(),
            one(Proved, vec![effect(kneepoint_model::Verdict::Better, 2.0)]),
            true,
            "proved",
            &[],
        );
        let tried = check(
            opc(),
            one(
                Suspected,
                vec![effect(kneepoint_model::Verdict::Equivalent, 1.0)],
            ),
            true,
            "equivalent",
            &[],
        );
        assert!(!tried.won && tried.gain.is_some());
        let silent = check(opc(), vec![], false, "-", &[]);
        assert_eq!(silent.named, None);
    }

    #[test]
    fn a_healthy_stack_may_be_limited_by_its_processors_and_nothing_else() {
        use Confidence::{Noted, Suspected};
        let healthy = || Expectation::Healthy;
        check(healthy(), vec![], true, "-", &[]);
        let cpu = finding("CAP-02", Suspected, vec![]);
        check(
            healthy(),
            vec![finding("FPM-16", Noted, vec![]), cpu.clone()],
            true,
            "not tried",
            &[],
        );
        let alarm = finding("FPM-01", Suspected, vec![]);
        check(healthy(), vec![cpu, alarm], false, "not tried", &["FPM-01"]);
    }

    #[test]
    fn what_is_demanded_beside_the_first_code_must_be_met() {
        use Confidence::{Noted, Suspected};
        let mut lock = finding("PG-03", Suspected, vec![]);
        lock.seen.push(kneepoint_model::Evidenced {
            what: "behind POST /checkout, which holds stock".into(),
            conditions: String::new(),
        });
        let said = vec![
            lock,
            finding("OPC-06", Suspected, vec![]),
            finding("FPM-16", Noted, vec![]),
        ];
        let text = record(said, "finished");
        let judged = |also: &[&str], noted: &[&str], never: &[&str], mentions: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
            let demands = Demands {
                also: owned(also),
                noted: owned(noted),
                never: owned(never),
                mentions: owned(mentions),
            };
            let verdict = judge(&first(&["PG-03"]), &demands, &text).expect("verdict");
            (verdict.right, verdict.unmet)
        };
        assert_eq!(
            judged(
                &["OPC-06"],
                &["FPM-16", "OPC-06"],
                &["FPM-16"],
                &["stock", "/checkout"]
            ),
            (true, vec![]),
            "what is merely noted is not suspected"
        );
        let (right, unmet) = judged(&["FPM-16"], &["OPC-05"], &["OPC-06"], &["hits"]);
        assert!(!right);
        assert_eq!(
            unmet,
            [
                "FPM-16 is not suspected as well",
                "OPC-05 is not even noted",
                "OPC-06 is suspected, and must not be",
                "the first finding does not mention `hits`"
            ]
        );
    }

    #[test]
    fn a_record_of_something_else_or_of_a_broken_run_is_a_failure() {
        let fails =
            |text: &str| judge(&Expectation::Healthy, &Demands::default(), text).expect_err(text);
        assert!(fails("{}").contains("cannot be read"));
        assert!(fails(&record(vec![], "failed: no nginx")).contains("`failed: no nginx`"));
        assert!(fails(&record(vec![], "")).contains("did not finish"));
        let other = record(vec![], "finished").replace(SCHEMA, "other/7");
        assert!(fails(&other).contains("`other/7`"));
    }
}
