//! The main job: limit, diagnose, change one thing, prove it, repeat; then prove the whole.
//!
//! Diagnosis-guided single changes, each decided by an A/B on warm arms; what no longer helps
//! beside the others is taken back; where it was asked for, what is left is tried in combinations; the smallest pool
//! that serves as much; what a fresh start takes of it, and base against best after one. The time for all of it is divided
//! before each comparison ([`Costs`]).

mod deep;
mod left_out;
mod pool;
mod proof;
mod rest;
mod undecided;

use crate::error::ExperimentError;
use crate::record::{BASE, Record, Recorder, TimeNeed};
use crate::sequences::Subject;
use crate::sequences::ab::{ArmComparison, compare, compare_for, compare_with_itself};
use crate::sequences::diagnose::{
    DOES_NOT_LAST, DOES_NOT_START, broke_off, compared_beside, diagnose, failed, not_tried,
    untried, with_remedy, worth_trying,
};
use crate::sequences::findings::ask_what_else;
use crate::sequences::limit::{find_limit, search_limit};
use crate::testbed::Testbed;
use kneepoint_diagnosis::Evidence;
use kneepoint_model::run::{Decision, LimitResult, Standing};
use kneepoint_model::statistics::sequential::{MIN_PAIRS, MIN_PAIRS_UNKNOWN};
use kneepoint_model::{Confidence, Effect, Finding, Scenario, Setting};
use kneepoint_planner::ab::{AbMeasure, BY_SHARE, Verdict};
use kneepoint_planner::comparison::{ComparisonBase, describe_effect, describe_settings};
use kneepoint_planner::limit::{LimitOptions, LimitSearch};
use kneepoint_planner::tune::{Costs, ToCome};
use std::collections::BTreeSet;
use std::time::Duration;

/// Rounds of diagnosis without a win after which tuning ends.
const IDLE_ROUNDS: u32 = 2;
/// Shares of the budget that go into the load of the limit of the first configuration, and of one in between.
const FIRST_LIMIT_SHARE: f64 = 0.14;
const LIMIT_BETWEEN_SHARE: f64 = 0.07;
/// Shortest and longest load of a limit.
const SHORTEST_LIMIT: Duration = Duration::from_secs(20);
const LONGEST_LIMIT: Duration = Duration::from_secs(360);
/// Share of the budget that is kept for trying combinations where that was asked for.
const DEEP_SHARE: f64 = 0.35;

/// Pairs of the A/A at the start (method.md, `ab_test`), where the budget has room for them.
const A_A_PAIRS: usize = 12;
/// Budget for each pair of it: a short run leaves the A/A out, and a long one spends a twentieth on it.
const BUDGET_PER_PAIR: Duration = Duration::from_secs(100);

/// Time beside the proof for which it is worth to look once more at what the last changes left.
const WORTH_SEEING: Duration = Duration::from_secs(300);

/// Where tuning stands: the configuration kept so far and what is known of it.
struct Current {
    arm: String,
    scenario: Scenario,
    limit: LimitResult,
    slope: f64,
    /// Whether the limit was measured of this configuration, and not of one before the last change.
    is_measured: bool,
    /// The last diagnosis, as long as the configuration is the one it saw.
    seen: Option<Seen>,
    /// The search for the base's limit, to go on with if time is left.
    search: LimitSearch,
}

/// What a diagnosis saw, and what the rules made of it.
struct Seen {
    evidence: Evidence,
    findings: Vec<Finding>,
}

impl Current {
    /// The next change is judged at the rate that the last one's gain puts R* at.
    fn expect(&mut self, gain: f64) {
        let rate_hz = &mut self.limit.rate_hz;
        rate_hz.low *= gain;
        rate_hz.estimate *= gain;
        rate_hz.high *= gain;
        self.is_measured = false;
        self.seen = None;
    }
}

/// The main job on one testbed.
pub struct Tuner<'t, 'r, 'o> {
    testbed: &'t mut Testbed,
    recorder: &'r mut Recorder<'o>,
    budget: Duration,
    base: Scenario,
    tried: BTreeSet<Vec<Setting>>,
    arms: u32,
    is_deep: bool,
    /// What things took so far, which says what those to come will.
    costs: Costs,
}

impl<'t, 'r, 'o> Tuner<'t, 'r, 'o> {
    /// A tuner for the scenario the testbed was opened with.
    #[must_use]
    pub fn new(testbed: &'t mut Testbed, recorder: &'r mut Recorder<'o>) -> Self {
        testbed.try_remedies();
        let base = testbed.scenario().clone();
        let budget = base.budget.time;
        recorder.set_budget(budget);
        Self {
            testbed,
            recorder,
            budget,
            base,
            tried: BTreeSet::new(),
            arms: 0,
            is_deep: false,
            costs: Costs::default(),
        }
    }

    /// The least time in which a remedy is tried and proved once the stack stands: a limit, a diagnosis, a comparison, and the
    /// two of the proof with the limit of the best.
    fn least() -> Duration {
        let costs = Costs::default();
        let limit = LimitOptions::taking(SHORTEST_LIMIT, 1).takes();
        limit * 2 + costs.diagnosis() + costs.shortest_comparison() * 3
    }

    /// Says before anything starts where the scenario's budget is too small to tune in.
    pub fn warn_of_too_little_time(scenario: &Scenario, recorder: &mut Recorder<'_>) {
        let need = TimeNeed {
            what: "tuning",
            least: Self::least(),
            otherwise: "remedies stay untried",
        };
        recorder.keep_to(Some(scenario.budget.time), &need);
    }

    /// Whether the settings that survive are tried in combinations, too.
    #[must_use]
    pub fn deep(self, is_deep: bool) -> Self {
        Self { is_deep, ..self }
    }

    /// Runs the whole job. Whatever was measured is in the recorder, also after an error.
    ///
    /// # Errors
    /// The stack cannot be stood up or does not answer, or somebody asked to stop.
    pub fn run(&mut self) -> Result<(), ExperimentError> {
        self.recorder
            .stage("Stand up the stack as it is configured");
        let base = self.base.clone();
        let arm = self.next_arm();
        self.testbed.stand_up(&arm, &base)?;
        self.recorder
            .write(Record::Machine(self.testbed.machine().clone()));
        self.testbed.introduce(&arm, self.recorder)?;
        self.recorder
            .stage("Limit: the highest rate at which the SLO holds");
        let options = self.limit_options(&arm, FIRST_LIMIT_SHARE)?;
        let subject = Subject {
            arm: &arm,
            label: BASE,
        };
        let mut search = LimitSearch::of(self.testbed, options);
        let limit = search_limit(self.testbed, self.recorder, subject, &mut search)?;
        let mut current = Current {
            arm,
            scenario: base,
            limit,
            slope: search.slope(),
            is_measured: true,
            seen: None,
            search,
        };
        if current.limit.rate_hz.estimate <= 0.0 {
            return Ok(());
        }
        self.compare_with_itself(&current)?;
        self.search(&mut current)?;
        self.leave_one_out(&mut current)?;
        self.settle(&mut current)?;
        self.see(&mut current)?;
        self.search_together(&mut current)?;
        self.see(&mut current)?;
        self.size_pool(&mut current)?;
        self.prove(&mut current)
    }

    /// The A/A, as long as the budget allows: a few pairs too few to mean something are left out.
    fn compare_with_itself(&mut self, current: &Current) -> Result<(), ExperimentError> {
        let affordable = self.budget.as_secs_f64() / BUDGET_PER_PAIR.as_secs_f64();
        let pairs = (affordable as usize).min(A_A_PAIRS);
        if pairs < MIN_PAIRS_UNKNOWN {
            return Ok(());
        }
        self.recorder
            .stage("A/A: the configuration against itself, as every comparison is made");
        let workers = self.testbed.saturating_workers(&current.arm)?;
        compare_with_itself(
            self.testbed,
            self.recorder,
            &current.arm,
            AbMeasure::Saturation { workers },
            (pairs, Duration::from_secs(2)),
        )
        .map(drop)
    }

    fn next_arm(&mut self) -> String {
        self.arms += 1;
        format!("v{}", self.arms)
    }

    /// A limit that may take this share of the budget.
    fn limit_options(&self, arm: &str, share: f64) -> Result<LimitOptions, ExperimentError> {
        let workers = self.testbed.saturating_workers(arm)?;
        Ok(LimitOptions::taking(self.limit_time(share), workers))
    }

    /// Load time of a limit that may take this share of the budget.
    fn limit_time(&self, share: f64) -> Duration {
        self.budget
            .mul_f64(share)
            .clamp(SHORTEST_LIMIT, LONGEST_LIMIT)
    }

    /// Where R* of the configuration kept so far is now, to judge the next changes there.
    fn look_again(&mut self, current: &mut Current, stage: &str) -> Result<(), ExperimentError> {
        if current.is_measured {
            return Ok(());
        }
        self.recorder.stage(stage);
        let options = self
            .limit_options(&current.arm, LIMIT_BETWEEN_SHARE)?
            .unconfirmed();
        let arm = current.arm.clone();
        (current.limit, current.slope) =
            find_limit(self.testbed, self.recorder, Subject::named(&arm), options)?;
        current.is_measured = true;
        Ok(())
    }

    /// Diagnoses the configuration kept so far, unless that was done, where there is time for more than the proof.
    fn see(&mut self, current: &mut Current) -> Result<(), ExperimentError> {
        let worth = self.proof_takes() + self.look_takes() + WORTH_SEEING;
        if current.seen.is_some() || self.recorder.left() < worth {
            return Ok(());
        }
        self.look_again(current, "Limit after the changes so far")?;
        self.recorder
            .stage("Diagnose: what the configuration kept so far needs");
        let arm = current.arm.clone();
        current.seen = Some(self.diagnose(current, &arm)?);
        self.ask_what_else(current);
        Ok(())
    }

    fn diagnose(&mut self, current: &Current, label: &str) -> Result<Seen, ExperimentError> {
        let began = self.recorder.elapsed();
        let arm = current.arm.clone();
        let subject = Subject { arm: &arm, label };
        let (evidence, findings) = diagnose(self.testbed, self.recorder, subject, &current.limit)?;
        self.costs.diagnosed(self.recorder.elapsed() - began);
        Ok(Seen { evidence, findings })
    }

    /// What else binds the configuration kept so far, where remedies of what was suspected did not help.
    fn ask_what_else(&mut self, current: &mut Current) {
        if let Some(seen) = &mut current.seen {
            let others = ask_what_else(self.recorder, &seen.evidence, &seen.findings);
            seen.findings.extend(others);
        }
    }

    fn stand_up(&mut self, arm: &str, scenario: &Scenario) -> Result<(), ExperimentError> {
        let began = self.recorder.elapsed();
        self.testbed.stand_up(arm, scenario)?;
        self.costs.stood_up(self.recorder.elapsed() - began);
        Ok(())
    }

    /// Stands the configuration kept so far up again, where that died and not the one with the change: the next comparison
    /// needs it.
    fn stand_up_again(
        &mut self,
        current: &Current,
        by_change: bool,
    ) -> Result<(), ExperimentError> {
        match by_change {
            true => Ok(()),
            false => self.stand_up(&current.arm, &current.scenario),
        }
    }

    /// What it takes to see where the configuration kept so far stands.
    fn look_takes(&self) -> Duration {
        let limit = LimitOptions::taking(self.limit_time(LIMIT_BETWEEN_SHARE), 1);
        limit.unconfirmed().takes() + self.costs.diagnosis()
    }

    /// What follows when so many remedies are still to be tried, with or without another look before the proof.
    fn to_come(&self, remedies: usize, look_again: bool) -> ToCome {
        let deep = if self.is_deep {
            self.budget.mul_f64(DEEP_SHARE)
        } else {
            Duration::ZERO
        };
        ToCome {
            remedies: remedies as u32,
            left_out: self.not_left_out().len() as u32,
            look_again: if look_again {
                self.look_takes()
            } else {
                Duration::ZERO
            },
            proof: self.limit_of_the_best_takes() + deep,
        }
    }

    /// Pairs that the next comparison may take; `None` where there is no time for one.
    fn affordable(&self, remedies: usize, look_again: bool) -> Option<usize> {
        let to_come = self.to_come(remedies, look_again);
        self.costs.pairs(self.recorder.left(), to_come)
    }

    fn search(&mut self, current: &mut Current) -> Result<(), ExperimentError> {
        let mut idle = 0;
        while idle < IDLE_ROUNDS {
            self.recorder
                .stage("Diagnose: which tier and which cause bind");
            let label = if self.arms == 1 {
                BASE.to_owned()
            } else {
                current.arm.clone()
            };
            let mut seen = self.diagnose(current, &label)?;
            if self.rounds(current, &mut seen)? {
                idle = 0;
                let needs = self.look_takes() + self.costs.shortest_comparison();
                let left_out = self.costs.shortest_comparison() * self.not_left_out().len() as u32;
                if self.recorder.left() < self.proof_takes() + left_out + needs {
                    return Ok(());
                }
                self.look_again(current, "Limit after the changes so far")?;
                continue;
            }
            let left =
                worth_trying(&seen.findings, Confidence::Noted).any(|(finding, settings)| {
                    !self.tried.contains(settings) && !undecided::is_little(finding, 1.0)
                });
            current.seen = Some(seen);
            if !left {
                return Ok(());
            }
            idle += 1;
        }
        Ok(())
    }

    /// Tries the remedies of one diagnosis, then those of what else it can be, until one is kept or nothing else is found.
    /// True when one was kept.
    fn rounds(&mut self, current: &mut Current, seen: &mut Seen) -> Result<bool, ExperimentError> {
        let mut untried = seen.findings.clone();
        loop {
            if self.round(current, &seen.evidence, &untried)? {
                return Ok(true);
            }
            untried = ask_what_else(self.recorder, &seen.evidence, &seen.findings);
            if untried.is_empty() {
                return Ok(false);
            }
            seen.findings.extend(untried.iter().cloned());
        }
    }

    /// Tries the remedies of one diagnosis, the first cause first and what is merely noted last: a setting that
    /// looks wrong and does not bind is worth an A/B that says so, unless it is known to be worth next to nothing. True when
    /// one was kept.
    fn round(
        &mut self,
        current: &mut Current,
        evidence: &Evidence,
        findings: &[Finding],
    ) -> Result<bool, ExperimentError> {
        let (mut won, mut faster) = (false, 1.0);
        let tries: Vec<(Finding, Vec<Setting>)> = worth_trying(findings, Confidence::Noted)
            .filter(|(_, settings)| !self.tried.contains(*settings))
            .map(|(finding, settings)| (finding.clone(), settings.to_vec()))
            .collect();
        let suspected = |finding: &Finding| finding.confidence > Confidence::Noted;
        for (nth, (finding, settings)) in tries.iter().enumerate() {
            if self.tried.contains(settings) {
                continue;
            }
            // It may be worth more once what binds is mended.
            if undecided::is_little(finding, faster) {
                self.leave_undecided(finding, settings);
                continue;
            }
            // What is merely noted takes no time from what is suspected.
            let rest = tries[nth..].iter();
            let rest = rest.filter(|(other, _)| !undecided::is_little(other, faster));
            let rest = rest.filter(|(other, _)| suspected(other) || !suspected(finding));
            let Some(pairs) = self.affordable(rest.count(), true) else {
                self.leave_undecided(finding, settings);
                continue;
            };
            self.tried.insert(settings.clone());
            let objections = kneepoint_diagnosis::remedy_guard(evidence, settings);
            if !objections.is_empty() {
                not_tried(self.recorder, finding, settings, &objections.join("; "));
                continue;
            }
            // A note whose part nobody knows may bind all the same, and then by much: few pairs show that.
            let is_known = suspected(finding) || finding.weight > 0.0;
            let pairs = if is_known {
                pairs
            } else {
                pairs.min(MIN_PAIRS)
            };
            if self.try_one(current, finding, settings, pairs)? {
                won = true;
                faster *= self.last_gain();
            }
        }
        Ok(won)
    }

    /// By how much the change that was kept last made the stack faster; 1 where that has no number.
    fn last_gain(&self) -> f64 {
        let mut decisions = self.recorder.run().decisions.iter();
        let kept = decisions.rfind(|decision| decision.kept);
        let ratio = kept.and_then(|decision| decision.effect.ratio);
        ratio.map_or(1.0, |ratio| ratio.estimate.max(1.0))
    }

    /// A remedy is not tried, since there is no time for it or it is worth too little: whether it helps is not known.
    fn leave_undecided(&mut self, finding: &Finding, settings: &[Setting]) {
        self.decide(finding, settings, &untried(settings));
    }

    /// Sets one remedy on a second arm, compares, and keeps it when it wins.
    fn try_one(
        &mut self,
        current: &mut Current,
        finding: &Finding,
        settings: &[Setting],
        pairs: usize,
    ) -> Result<bool, ExperimentError> {
        self.recorder.stage(format!(
            "Fix {}: {}",
            finding.code,
            describe_settings(settings)
        ));
        let changed = current
            .scenario
            .with(settings)
            .map_err(ExperimentError::Settings)?;
        let arm = self.next_arm();
        if let Err(why) = with_remedy(self.stand_up(&arm, &changed), DOES_NOT_START)? {
            failed(self.recorder, finding, settings, why);
            return Ok(false);
        }
        let base = ComparisonBase::of(&current.limit, current.slope, pairs);
        let began = self.recorder.elapsed();
        let arms = (current.arm.as_str(), arm.as_str());
        let compared = compare_for(self.testbed, self.recorder, arms, finding, settings, base);
        let compared = match compared_beside(compared, DOES_NOT_LAST, &current.arm)? {
            Ok(compared) => compared,
            Err(broken) => {
                self.testbed.tear_down(&arm);
                let by_change = broken.by_change;
                broke_off(self.recorder, finding, settings, broken);
                self.stand_up_again(current, by_change)?;
                return Ok(false);
            }
        };
        let effect = compared.effect;
        // At one rate a pair waits for pools to shrink and a rate that tells is looked for: others take no such time.
        if effect.quantity != BY_SHARE {
            self.costs
                .compared(effect.pairs, self.recorder.elapsed() - began);
        }
        let mut finding = finding.clone();
        finding.effects.extend(compared.other);
        self.decide(&finding, settings, &effect);
        let kept = effect.verdict == Verdict::Better;
        if kept {
            self.testbed.tear_down(&current.arm);
            current.arm = arm;
            current.scenario = changed;
            current.expect(effect.ratio.map_or(1.0, |ratio| ratio.estimate));
        } else {
            self.testbed.tear_down(&arm);
        }
        Ok(kept)
    }

    /// Writes down what became of a change: words claim no more than its comparison showed.
    fn decide(&mut self, finding: &Finding, settings: &[Setting], effect: &Effect) {
        let kept = effect.verdict == Verdict::Better;
        let mut decision = Decision {
            code: finding.code.clone(),
            layer: Some(finding.layer),
            settings: settings.to_vec(),
            effect: effect.clone(),
            kept,
            ..Decision::default()
        };
        let standing = decision.standing();
        // What the effect says itself is not said again.
        if standing.is_open() {
            let left = self.recorder.left();
            decision.reason = undecided::in_words(finding, effect, &self.costs, left);
        }
        let measured = (standing != Standing::NotTried).then(|| describe_effect(effect));
        let reason = Some(decision.reason.clone()).filter(|reason| !reason.is_empty());
        let told: Vec<String> = measured.into_iter().chain(reason).collect();
        self.recorder.change(format!(
            "{} {}: {}: {}",
            finding.code,
            describe_settings(settings),
            standing.name(),
            told.join("; ")
        ));
        let mut finding = finding.clone();
        if kept {
            finding.confidence = Confidence::Proved;
        }
        if effect.pairs > 0 {
            finding.effects.push(effect.clone());
        }
        self.recorder.findings(&[finding]);
        self.recorder.decision(decision);
    }

    /// Makes a comparison and notes what its pairs took.
    fn compared(
        &mut self,
        comparison: &ArmComparison<'_>,
    ) -> Result<(Verdict, Effect), ExperimentError> {
        let began = self.recorder.elapsed();
        let (verdict, effect) = compare(self.testbed, self.recorder, comparison)?;
        self.costs
            .compared(effect.pairs, self.recorder.elapsed() - began);
        Ok((verdict, effect))
    }

    /// A comparison at saturation, as all that `tune` makes beside those of single changes are: pairs of short steps, as few as
    /// mean something unless more are asked for.
    fn at_saturation<'a>(
        &self,
        (without, with): (&'a str, &'a str),
        change: String,
    ) -> Result<ArmComparison<'a>, ExperimentError> {
        Ok(ArmComparison {
            without,
            with,
            change,
            settings: Vec::new(),
            max_pairs: MIN_PAIRS,
            min_pairs: MIN_PAIRS,
            at_once: true,
            not_worse: None,
            step: Duration::from_secs(2),
            measure: self.testbed.saturation_of(without, with)?,
            seed: 0,
        })
    }

    /// Which decisions keep a change.
    fn kept(&self) -> Vec<usize> {
        let decisions = &self.recorder.run().decisions;
        (0..decisions.len())
            .filter(|index| decisions[*index].kept)
            .collect()
    }
}
