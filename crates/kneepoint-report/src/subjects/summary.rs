//! The run in a few numbers and sentences, the same in every format.

mod doubts;
pub(crate) mod html;
mod little;
mod load;
pub(crate) mod markdown;
mod missing;
mod never;
mod now;
pub(crate) mod terminal;

pub(crate) use doubts::{HealthRange, health, reads_until_it_broke};

use super::limits::first_limit;
use super::stack::waterfall::{self, Pair};
use super::{capacity, contest, gate, replay};
use crate::words::{self, plain};
use kneepoint_model::run::{Decision, LimitResult, Standing};
use kneepoint_model::units::RateUnit;
use kneepoint_model::{Finding, GateVerdict, Interval, Run, Trial};
use serde::Serialize;

/// How a run came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunOutcome {
    /// R* rose, and the interval of the factor lies above 1.
    Improved,
    /// R* was measured before and after, and the interval of the factor includes 1.
    Unchanged,
    /// R* fell, and the interval of the factor lies below 1; or the gate of a pipeline failed.
    Worse,
    /// R* was measured once.
    Limit,
    /// R* was predicted from low load.
    Plan,
    /// The stack was diagnosed without measuring R*.
    Diagnosis,
    /// There is no result.
    Nothing,
}

/// The confirming stretch of load below R*.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Confirmation {
    /// Its configuration.
    pub arm: String,
    /// Its offered rate per second.
    pub offered_hz: f64,
    /// What that counts.
    pub unit: RateUnit,
    /// How long it was in seconds; `None` where its step is not known.
    pub window_s: Option<f64>,
    /// Its requests.
    pub requests: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Its p95 in ms.
    pub p95_ms: Option<f64>,
    /// Whether the SLO held in it.
    pub held: bool,
}

/// A run in numbers and sentences, all derived from its record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// How it came out.
    pub outcome: RunOutcome,
    /// What was under test: the scenario's name, or the run's identity.
    pub subject: String,
    /// The result in one sentence.
    pub verdict: String,
    /// R* of the first configuration, per second.
    pub base_hz: Option<Interval>,
    /// R* of the last configuration, per second.
    pub best_hz: Option<Interval>,
    /// R* after over R* before.
    pub gain: Option<Interval>,
    /// The SLO in words.
    pub slo: Option<String>,
    /// The confirming stretch of the last configuration with an R*.
    pub confirmation: Option<Confirmation>,
    /// What bound at first: code and title.
    pub bound_by: Option<(String, String)>,
    /// What limits the stack after the changes, or that it is not known; `None` where no change was kept.
    pub limited_now: Option<String>,
    /// Where a request's time goes at the end, in words.
    pub bound_now: Option<String>,
    /// Changes that were kept.
    pub kept: usize,
    /// Changes that were shown not to help.
    pub dropped: usize,
    /// Remedies of suspected findings that could not be judged or were not tried, by the code of the finding.
    pub undecided: Vec<String>,
    /// Measured steps, invalid ones included.
    pub trials: usize,
    /// Steps that the generator itself called invalid.
    pub trials_invalid: usize,
    /// Requests of all steps.
    pub requests: u64,
    /// Seconds under load in all steps.
    pub load_s: f64,
    /// What a complete run would have and this one has not, a sentence each.
    pub missing: Vec<String>,
    /// Reasons to doubt a number, a sentence each.
    pub doubts: Vec<String>,
}

/// Derives the summary of a run.
#[must_use]
pub fn summarise(run: &Run) -> Summary {
    let base = run.limit("base").or_else(|| first_limit(run));
    let best = run.limit("best");
    let outcome = outcome(run);
    let kept = run
        .decisions
        .iter()
        .filter(|decision| decision.kept)
        .count();
    let dropped = run.decisions.iter();
    let dropped = dropped.filter(|decision| decision.standing() == Standing::Dropped);
    let verdict = with_gate(run, verdict(run, outcome, base, best));
    Summary {
        outcome,
        subject: subject(run),
        verdict: plain(&format!("{verdict}{}{}", never::met(run), still_open(run))),
        base_hz: base.and_then(met_at),
        best_hz: best.and_then(met_at),
        gain: run.gain(),
        slo: run
            .scenario
            .as_ref()
            .map(|scenario| scenario.slo.describe()),
        confirmation: best.or(base).and_then(|limit| confirmation(run, limit)),
        bound_by: run.headline().map(|it| (it.code.clone(), it.title.clone())),
        limited_now: now::limited_now(run).map(|now| plain(&now)),
        bound_now: bound_now(run),
        kept,
        dropped: dropped.count(),
        undecided: undecided_codes(run),
        trials: run.trials.len(),
        trials_invalid: run
            .trials
            .iter()
            .filter(|trial| !trial.load.validity.is_valid())
            .count(),
        requests: run
            .trials
            .iter()
            .map(|trial| trial.load.arrivals)
            .fold(0, u64::saturating_add),
        load_s: run.trials.iter().map(|trial| trial.load.window_s).sum(),
        missing: missing::missing(run),
        doubts: doubts::doubts(run),
    }
}

/// The rate at which a configuration meets the SLO, where there is one.
fn met_at(limit: &LimitResult) -> Option<Interval> {
    limit.missed_alone.is_none().then_some(limit.rate_hz)
}

fn undecided_codes(run: &Run) -> Vec<String> {
    let undecided = run.undecided().into_iter();
    undecided
        .map(|(decision, _)| decision.code.clone())
        .collect()
}

/// ` Undecided, because ...: OPC-01. Not tried, ...: FPM-03.`: what could not be judged, as the list of changes has it. What
/// is suspected to limit comes first, since it alone makes a run undecided.
fn still_open(run: &Run) -> String {
    let suspected = |standing: Standing| {
        let open = run.undecided().into_iter();
        let open = open.filter(|(decision, _)| decision.standing() == standing);
        codes(open.map(|(decision, _)| decision))
    };
    let undecided = suspected(Standing::Undecided);
    let mut untried = suspected(Standing::NotTried);
    untried.retain(|code| !undecided.contains(code));
    let open = run.decisions.iter();
    let (failed, open): (Vec<_>, Vec<_>) = open
        .filter(|it| it.standing().is_open())
        .partition(|it| it.failed);
    let mut others = codes(open.into_iter());
    others.retain(|code| !undecided.contains(code) && !untried.contains(code));
    let told = [
        (
            "Undecided, because the run was too short or the machine too busy",
            undecided,
        ),
        ("Not tried, because there was no time left", untried),
        (
            "Not tried, because the stack failed with it",
            codes(failed.into_iter()),
        ),
        ("Undecided or not tried, and not suspected to limit", others),
    ];
    let told = told.iter().filter(|(_, codes)| !codes.is_empty());
    let told: Vec<String> = told
        .map(|(what, codes)| format!(" {what}: {}.", words::listed(codes)))
        .collect();
    told.concat()
}

/// The codes of decisions, each once.
fn codes<'a>(decisions: impl Iterator<Item = &'a Decision>) -> Vec<String> {
    let mut codes: Vec<String> = Vec::new();
    for decision in decisions {
        if !codes.contains(&decision.code) {
            codes.push(decision.code.clone());
        }
    }
    codes
}

fn subject(run: &Run) -> String {
    match &run.scenario {
        Some(scenario) if !scenario.name.is_empty() => scenario.name.clone(),
        _ if !run.id.is_empty() => run.id.clone(),
        _ => "the stack".into(),
    }
}

fn outcome(run: &Run) -> RunOutcome {
    if run
        .gate
        .as_ref()
        .is_some_and(|gate| gate.verdict == GateVerdict::Fail)
    {
        return RunOutcome::Worse;
    }
    match run.gain() {
        Some(gain) if gain.low > 1.0 => RunOutcome::Improved,
        Some(gain) if gain.high < 1.0 => RunOutcome::Worse,
        Some(_) => RunOutcome::Unchanged,
        // A plan that was verified has an R*, too: what was asked for is the prediction.
        None if run.capacity.is_some() => RunOutcome::Plan,
        None if !run.limits.is_empty() => RunOutcome::Limit,
        None if !run.observations.is_empty() || !run.findings.is_empty() => RunOutcome::Diagnosis,
        None => RunOutcome::Nothing,
    }
}

/// What a gate decided comes first: it is what was asked.
fn with_gate(run: &Run, verdict: String) -> String {
    match &run.gate {
        Some(gate) => format!("{} {verdict}", gate::sentence(gate)),
        None => verdict,
    }
}

fn verdict(
    run: &Run,
    outcome: RunOutcome,
    base: Option<&LimitResult>,
    best: Option<&LimitResult>,
) -> String {
    if let (Some(base), Some(best), Some(gain)) = (base, best, run.gain()) {
        let verb = match outcome {
            RunOutcome::Improved => "rose",
            RunOutcome::Worse => "fell",
            _ => "did not change measurably:",
        };
        let factor = words::ratio_interval(&gain);
        return format!(
            "R* {verb} from {} to {}{}.",
            words::of_limit(base),
            words::of_limit(best),
            factor.map_or_else(String::new, |factor| format!(", a factor of {factor}")),
        );
    }
    if let (Some(base), Some(best)) = (base, best)
        && (base.missed_alone.is_some() || best.missed_alone.is_some())
    {
        return format!(
            "Before the changes: {}. After them: {}.",
            words::limit_is(base),
            words::limit_is(best)
        );
    }
    if let Some(it) = &run.replay {
        return replay::sentence(it);
    }
    if let Some(contest) = &run.contest {
        return contest::sentence(contest);
    }
    if let Some(plan) = &run.capacity {
        return capacity::sentence(plan);
    }
    match (base, run.headline()) {
        (Some(limit), Some(finding)) => format!(
            "{}. What limits it: {} ({}, {}{}).",
            words::limit_is(limit),
            finding.title.trim_end_matches('.'),
            finding.code,
            finding.confidence.name(),
            measured(run, finding),
        ),
        (Some(limit), None) => format!(
            "{}{}",
            words::limit_is(limit),
            if run.observations.is_empty() {
                ".".to_owned()
            } else {
                format!("; {}", not_found(run))
            },
        ),
        (None, Some(finding)) => format!(
            "What limits: {} ({}, {}{}).",
            finding.title.trim_end_matches('.'),
            finding.code,
            finding.confidence.name(),
            measured(run, finding),
        ),
        (None, None) if outcome == RunOutcome::Diagnosis => {
            let text = not_found(run);
            format!("{}{}", text[..1].to_uppercase(), &text[1..])
        }
        (None, None) => load::sentence(run).unwrap_or_else(|| nothing(run)),
    }
}

/// What is said of a run that found nothing: a search that was ended in the midst has measured, and not in vain.
fn nothing(run: &Run) -> String {
    match run.trials.len() {
        0 => "Nothing has been measured.".to_owned(),
        steps => format!(
            "R* was not found: the run ended after {}.",
            words::counted(steps as u64, "step", "steps")
        ),
    }
}

/// `, its remedy measured x0.99 (0.95 to 1.04), inconclusive`, where the remedy of a suspicion was tried.
fn measured(run: &Run, finding: &Finding) -> String {
    let tried = run.tried(finding);
    tried.map_or_else(String::new, |effect| {
        format!(
            "; its remedy measured {}: {}",
            words::factor(effect),
            effect.verdict
        )
    })
}

/// That nobody knows what binds, and what was suspected and tried in vain.
fn not_found(run: &Run) -> String {
    let tried: Vec<String> = run
        .refuted()
        .into_iter()
        .map(|(finding, effect)| {
            format!(
                "{} was suspected, and its remedy did not help: {}",
                finding.code,
                words::factor(effect)
            )
        })
        .collect();
    match tried.as_slice() {
        [] => "what limits it was not found.".to_owned(),
        tried => format!("what limits it was not found; {}.", tried.join("; ")),
    }
}

/// The command that goes on from here; nothing where there is nothing to go on with.
pub(crate) fn next(run: &Run) -> Option<String> {
    let has_remedy = |finding: &Finding| {
        let settings = finding.remedy.as_ref().map(|remedy| &remedy.settings);
        settings.is_some_and(|settings| !settings.is_empty())
    };
    let next = match run.command.as_str() {
        "limit" => "kneepoint diagnose names what limits it",
        "diagnose" if run.findings.iter().any(has_remedy) => {
            "kneepoint tune tries the settings below one by one and keeps what is shown to help"
        }
        "diagnose" if run.headline().is_some() => {
            "the remedies below; no setting of the stack is among them, so tune has nothing to try"
        }
        _ => return None,
    };
    Some(next.to_owned())
}

/// The confirming stretch of a limit: the last one that was driven.
fn confirmation(run: &Run, limit: &LimitResult) -> Option<Confirmation> {
    let own = |trial: &&Trial| limit.trials.contains(&trial.id) && trial.purpose == "limit: soak";
    let driven = run.trials.iter().rev().find(own);
    (limit.soak_arrivals > 0).then(|| Confirmation {
        arm: limit.arm.clone(),
        offered_hz: limit.soak_hz,
        unit: limit.unit(),
        window_s: driven.map(|trial| trial.load.window_s),
        requests: limit.soak_arrivals,
        failed: limit.soak_failed,
        p95_ms: limit.soak_p95_ms,
        held: limit.soak_held,
    })
}

impl Summary {
    /// What the confirming stretch came to, and what it says of R*; `None` where there was none.
    pub(crate) fn confirmed(&self) -> Option<String> {
        let stretch = self.confirmation.as_ref()?;
        let limit_hz = self.best_hz.or(self.base_hz);
        let proves = stretch.proves(limit_hz, stretch.arm == "best");
        Some(format!("{} ({proves})", stretch.sentence()))
    }
}

impl Confirmation {
    /// Whether it says something of R* itself: it was driven at the lower end of an interval that is not wide. Another one
    /// shows only that a lower rate holds.
    fn is_near(&self, limit_hz: &Interval) -> bool {
        /// Rates this close are the same one: a stretch is driven at the lower end of the interval of its moment.
        const NEAR: f64 = 0.95;
        let is_wide = limit_hz.estimate > words::WIDE * self.offered_hz;
        self.offered_hz >= NEAR * limit_hz.low && !is_wide
    }

    /// What it says of this R*: that it holds, or that only a lower rate was shown to hold.
    fn proves(&self, limit_hz: Option<Interval>, is_new: bool) -> String {
        let name = if is_new { "the new R*" } else { "R*" };
        match limit_hz {
            Some(limit) if !self.held && !self.is_near(&limit) => format!("below {name}"),
            _ if !self.held => format!("at {name}"),
            Some(limit) if !self.is_near(&limit) => format!(
                "{name} is at least that; {} was not confirmed",
                words::rate_in(self.unit, limit.estimate)
            ),
            _ => format!("confirms {name}"),
        }
    }

    /// ` in 12 s`, where that is known.
    fn length(&self) -> String {
        let window_s = self.window_s.map(words::duration);
        window_s.map_or_else(String::new, |length| format!(" in {length}"))
    }

    /// `0 of 4146 requests failed in 60 s at 69.1/s, p95 148 ms`; where the SLO did not hold, that it did not.
    fn sentence(&self) -> String {
        format!(
            "{} of {} failed{} at {}, p95 {}{}",
            words::count(self.failed),
            words::counted(self.requests, "request", "requests"),
            self.length(),
            words::rate_in(self.unit, self.offered_hz),
            words::ms(self.p95_ms),
            if self.held { "" } else { ": not confirmed" },
        )
    }
}

fn bound_now(run: &Run) -> Option<String> {
    let pair = Pair::of_best(run).or_else(|| Pair::of_base(run))?;
    let knee = pair.knee?;
    let (part, share) = waterfall::largest(knee)?;
    let broke = waterfall::near(run, pair.arm).and_then(|seen| waterfall::too_many(run, seen));
    let broke = broke.map_or("", |_| ", where the SLO did not hold");
    Some(plain(&format!(
        "{} takes {} of a request's time at {}{broke}",
        words::part(part.layer, &part.what),
        words::share(share),
        words::requests_in(run.unit(), knee.offered_hz),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_far_below_the_limit_proves_its_own_rate_only() {
        let mut stretch = Confirmation {
            arm: "base".into(),
            offered_hz: 28.8,
            unit: RateUnit::Requests,
            window_s: None,
            requests: 354,
            failed: 0,
            p95_ms: Some(30.0),
            held: true,
        };
        let around = |low: f64, estimate: f64, high: f64| {
            Some(Interval {
                low,
                estimate,
                high,
            })
        };
        let (wide, narrow) = (around(36.8, 89.9, 220.0), around(36.8, 38.0, 40.0));
        let far = "R* is at least that; 89.9/s was not confirmed";
        assert_eq!(stretch.proves(wide, false), far);
        // The lower end of an interval as wide as that is not R*.
        stretch.offered_hz = 36.8;
        assert_eq!(stretch.proves(wide, false), far);
        assert_eq!(stretch.proves(narrow, true), "confirms the new R*");
        stretch.held = false;
        assert_eq!(stretch.proves(narrow, false), "at R*");
        assert_eq!(stretch.proves(wide, false), "below R*");
        stretch.window_s = Some(12.0);
        assert_eq!(
            plain(&stretch.sentence()),
            "0 of 354 requests failed in 12 s at 36.8/s, p95 30.0 ms: not confirmed"
        );
    }
}
