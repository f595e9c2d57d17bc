//! The main job: limit, diagnose, change one thing, prove it, repeat; then prove the whole.
//!
//! `tune` of method.md: diagnosis-guided single changes, each decided by an A/B on warm arms; what no longer helps
//! beside the others is taken back; where it was asked for, what is left is tried in combinations; the smallest pool
//! that serves as much; what a fresh start takes of it, and base against best after one.

mod deep;
mod levers;
mod pool;
mod proof;
mod sizes;
mod together;

use crate::ab::{Measure, Verdict};
use crate::compare::{
    Comparison, Ground, compare, compare_for, compare_with_itself, describe_effect,
    describe_settings,
};
use crate::diagnose::{diagnose, find_limit, worth_trying};
use crate::error::ExperimentError;
use crate::limit::LimitOptions;
use crate::recorder::Recorder;
use crate::testbed::Testbed;
use kneepoint_diagnosis::Evidence;
use kneepoint_model::run::{Decision, LimitResult};
use kneepoint_model::statistics::sequential::MIN_PAIRS;
use kneepoint_model::{Confidence, Effect, Finding, Scenario, Setting};
use std::collections::BTreeSet;
use std::time::Duration;

/// Rounds of diagnosis without a win after which tuning ends.
const IDLE_ROUNDS: u32 = 2;
/// Share of the budget that the searching may use; the rest is for the proof.
const SEARCH_SHARE: f64 = 0.7;
/// The same where combinations are to be searched, too.
const SEARCH_SHARE_DEEP: f64 = 0.45;
/// Gain of R* from which the limit is measured anew before the next change is judged; below it, the gain says well
/// enough where R* is now.
const LARGE_GAIN: f64 = 2.0;

/// Pairs of the A/A at the start (method.md, `ab_test`), where the budget has room for them.
const A_A_PAIRS: usize = 12;
/// Budget for each pair of it: a short run leaves the A/A out, and a long one spends a twentieth on it.
const BUDGET_PER_PAIR: Duration = Duration::from_secs(100);

/// What it takes to leave one change out.
const LEAVE_ONE_OUT: Duration = Duration::from_secs(60);
/// Most pairs for that (method.md, `tune`: 16).
const LEAVE_ONE_OUT_PAIRS: usize = 16;
/// Time beside the proof for which it is worth to look once more at what the last changes left.
const WORTH_SEEING: Duration = Duration::from_secs(420);
/// What another limit, diagnosis and A/B take at least: with less, a round is not begun.
const ROUND: Duration = Duration::from_secs(120);

/// Where tuning stands: the configuration kept so far and what is known of it.
struct Current {
    arm: String,
    scenario: Scenario,
    limit: LimitResult,
    slope: f64,
    /// Whether the limit was measured of this configuration, and not of one before the last change.
    is_measured: bool,
    /// What the last diagnosis saw, as long as the configuration is the one it saw.
    seen: Option<Evidence>,
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
    /// What the longest A/B of a change took so far.
    longest_try: Duration,
}

impl<'t, 'r, 'o> Tuner<'t, 'r, 'o> {
    /// A tuner for the scenario the testbed was opened with.
    #[must_use]
    pub fn new(testbed: &'t mut Testbed, recorder: &'r mut Recorder<'o>) -> Self {
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
            longest_try: Duration::ZERO,
        }
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
        self.recorder.machine(self.testbed.machine().clone());
        self.recorder.base(self.testbed.stack(&arm)?.clone());
        self.recorder
            .stage("Limit: the highest rate at which the SLO holds");
        let options = self.limit_options(&arm, 0.11)?;
        let (limit, slope) = find_limit(self.testbed, self.recorder, &arm, "base", options)?;
        let mut current = Current {
            arm,
            scenario: base,
            limit,
            slope,
            is_measured: true,
            seen: None,
        };
        if current.limit.rate_hz.estimate <= 0.0 {
            return Ok(());
        }
        self.compare_with_itself(&current)?;
        self.search(&mut current)?;
        self.leave_one_out(&mut current)?;
        self.see(&mut current)?;
        self.search_together(&mut current)?;
        self.see(&mut current)?;
        self.size_pool(&mut current)?;
        self.prove(&current)
    }

    /// The A/A, as long as the budget allows: a few pairs too few to mean something are left out.
    fn compare_with_itself(&mut self, current: &Current) -> Result<(), ExperimentError> {
        let affordable = self.budget.as_secs_f64() / BUDGET_PER_PAIR.as_secs_f64();
        let pairs = (affordable as usize).min(A_A_PAIRS);
        if pairs < MIN_PAIRS {
            return Ok(());
        }
        self.recorder
            .stage("A/A: the configuration against itself, as every comparison is made");
        let workers = self.testbed.saturating_workers(&current.arm)?;
        compare_with_itself(
            self.testbed,
            self.recorder,
            &current.arm,
            Measure::Saturation { workers },
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
        Ok(LimitOptions::within(self.limit_time(share), workers))
    }

    /// Load time of a limit that may take this share of the budget.
    fn limit_time(&self, share: f64) -> Duration {
        self.budget
            .mul_f64(share)
            .clamp(Duration::from_secs(20), Duration::from_secs(360))
    }

    /// Where R* of the configuration kept so far is now, to judge the next changes there.
    fn look_again(&mut self, current: &mut Current, stage: &str) -> Result<(), ExperimentError> {
        if current.is_measured {
            return Ok(());
        }
        self.recorder.stage(stage);
        let options = self.limit_options(&current.arm, 0.07)?.unconfirmed();
        let arm = current.arm.clone();
        (current.limit, current.slope) =
            find_limit(self.testbed, self.recorder, &arm, &arm, options)?;
        current.is_measured = true;
        Ok(())
    }

    /// Diagnoses the configuration kept so far, unless that was done, where there is time for more than the proof.
    fn see(&mut self, current: &mut Current) -> Result<(), ExperimentError> {
        if current.seen.is_some() || self.recorder.left() < self.for_the_proof() + WORTH_SEEING {
            return Ok(());
        }
        self.look_again(current, "Limit after the changes so far")?;
        self.recorder
            .stage("Diagnose: what the configuration kept so far needs");
        let arm = current.arm.clone();
        let (evidence, _) = diagnose(self.testbed, self.recorder, &arm, &arm, &current.limit)?;
        current.seen = Some(evidence);
        Ok(())
    }

    /// Time that the searching leaves to what comes after it.
    fn after_the_search(&self) -> Duration {
        let share = if self.is_deep {
            SEARCH_SHARE_DEEP
        } else {
            SEARCH_SHARE
        };
        self.budget.mul_f64(1.0 - share)
    }

    /// Time that is kept for the proof by what comes between it and the search.
    fn for_the_proof(&self) -> Duration {
        let share = self.budget.mul_f64(1.0 - SEARCH_SHARE);
        share.max(self.proof_takes())
    }

    fn search_is_over(&self) -> bool {
        self.recorder.left() < self.after_the_search()
    }

    /// Whether another change can be tried and the proof still ends in time.
    fn has_time_to_try(&self) -> bool {
        !self.search_is_over() && self.recorder.left() >= self.proof_takes() + self.longest_try
    }

    fn search(&mut self, current: &mut Current) -> Result<(), ExperimentError> {
        let mut idle = 0;
        while idle < IDLE_ROUNDS {
            if self.search_is_over() {
                self.recorder
                    .warn("the time for searching is spent: what was found so far is proved now");
                return Ok(());
            }
            self.recorder
                .stage("Diagnose: which layer and which cause bind");
            let label = if self.arms == 1 {
                "base".to_owned()
            } else {
                current.arm.clone()
            };
            let arm = current.arm.clone();
            let (evidence, findings) =
                diagnose(self.testbed, self.recorder, &arm, &label, &current.limit)?;
            let won = self.round(current, &evidence, &findings)?;
            if won {
                idle = 0;
                if self.recorder.left() < self.after_the_search() + ROUND {
                    return Ok(());
                }
                self.look_again(current, "Limit after the changes so far")?;
                continue;
            }
            current.seen = Some(evidence);
            if !worth_trying(&findings, Confidence::Noted)
                .any(|(_, settings)| !self.tried.contains(settings))
            {
                return Ok(());
            }
            idle += 1;
        }
        Ok(())
    }

    /// Tries the remedies of one diagnosis, the first cause first and what is merely noted last: a setting that
    /// looks wrong and does not bind is worth an A/B that says so. True when one was kept.
    fn round(
        &mut self,
        current: &mut Current,
        evidence: &Evidence,
        findings: &[Finding],
    ) -> Result<bool, ExperimentError> {
        let mut won = false;
        let tries: Vec<(Finding, Vec<Setting>)> = worth_trying(findings, Confidence::Noted)
            .map(|(finding, settings)| (finding.clone(), settings.to_vec()))
            .collect();
        for (finding, settings) in tries {
            if self.tried.contains(&settings) {
                continue;
            }
            if !self.has_time_to_try() {
                self.recorder.warn(format!(
                    "no time left to try {} for {}: whether it helps is not known",
                    describe_settings(&settings),
                    finding.code
                ));
                continue;
            }
            self.tried.insert(settings.clone());
            let objections = kneepoint_diagnosis::remedy_guard(evidence, &settings);
            if !objections.is_empty() {
                self.recorder.change(format!(
                    "{}: {} is not tried: {}",
                    finding.code,
                    describe_settings(&settings),
                    objections.join("; ")
                ));
                continue;
            }
            let before = self.recorder.left();
            let (kept, gain) = self.try_one(current, &finding, &settings)?;
            let took = before.saturating_sub(self.recorder.left());
            self.longest_try = self.longest_try.max(took);
            won |= kept;
            if kept {
                current.expect(gain);
            }
            if kept && gain > LARGE_GAIN {
                self.look_again(
                    current,
                    "Limit after a large gain, so that the next change is judged at the right rate",
                )?;
            }
        }
        Ok(won)
    }

    /// Sets one remedy on a second arm, compares, and keeps it when it wins.
    fn try_one(
        &mut self,
        current: &mut Current,
        finding: &Finding,
        settings: &[Setting],
    ) -> Result<(bool, f64), ExperimentError> {
        self.recorder.stage(format!(
            "Fix {}: {}",
            finding.code,
            describe_settings(settings)
        ));
        let changed = current
            .scenario
            .with(settings)
            .map_err(ExperimentError::Unfit)?;
        let arm = self.next_arm();
        if let Err(error) = self.testbed.stand_up(&arm, &changed) {
            self.recorder.change(format!(
                "{}: the stack does not start with the remedy, so it is dropped: {error}",
                finding.code
            ));
            return Ok((false, 1.0));
        }
        let ground = Ground::of(&current.limit, current.slope, self.pairs());
        let (verdict, effect) = compare_for(
            self.testbed,
            self.recorder,
            (&current.arm, &arm),
            finding,
            settings,
            ground,
        )?;
        let kept = verdict == Verdict::Better;
        let gain = effect.ratio.estimate;
        self.decide(finding, settings, &effect, kept);
        if kept {
            self.testbed.tear_down(&current.arm);
            current.arm = arm;
            current.scenario = changed;
        } else {
            self.testbed.tear_down(&arm);
        }
        Ok((kept, gain))
    }

    /// More pairs where there is time for them.
    fn pairs(&self) -> usize {
        (self.budget.as_secs_f64() / 54.0).clamp(8.0, 24.0) as usize
    }

    fn decide(&mut self, finding: &Finding, settings: &[Setting], effect: &Effect, kept: bool) {
        let numbers = describe_effect(effect);
        let reason = if kept {
            format!("kept: {numbers}")
        } else {
            format!("dropped, it did not win: {numbers}")
        };
        self.recorder.change(format!(
            "{} {}: {reason}",
            finding.code,
            describe_settings(settings)
        ));
        let mut finding = finding.clone();
        if kept {
            finding.confidence = Confidence::Proved;
        }
        finding.effects.push(effect.clone());
        self.recorder.findings(&[finding.clone()]);
        self.recorder.decision(Decision {
            code: finding.code,
            settings: settings.to_vec(),
            effect: effect.clone(),
            kept,
            leave_one_out: None,
            reason,
        });
    }

    /// The configuration kept so far against the same without one change, for each kept change: what no longer makes
    /// a difference beside the others is taken back.
    fn leave_one_out(&mut self, current: &mut Current) -> Result<(), ExperimentError> {
        let kept = self.kept();
        if kept.len() < 2 {
            return Ok(());
        }
        for index in kept {
            let decision = self.recorder.run().decisions[index].clone();
            if self.recorder.left() < self.for_the_proof() + LEAVE_ONE_OUT {
                self.recorder.warn(format!(
                    "no time left to leave {} out: its gain rests on its own A/B",
                    decision.code
                ));
                continue;
            }
            self.recorder
                .stage(format!("Leave one out: without {}", decision.code));
            let scenario = self.without(&decision)?;
            let arm = self.next_arm();
            self.testbed.stand_up(&arm, &scenario)?;
            let (verdict, effect) = self.compare_without(current, &arm, &decision)?;
            self.recorder.leave_one_out(index, effect.clone());
            if matches!(verdict, Verdict::Equivalent | Verdict::Worse) {
                let reason = format!(
                    "taken back, beside the other changes it does not help: {}",
                    describe_effect(&effect)
                );
                self.recorder.change(format!("{}: {reason}", decision.code));
                self.recorder.take_back(index, reason);
                self.testbed.tear_down(&current.arm);
                (current.arm, current.scenario) = (arm, scenario);
                current.is_measured = false;
                current.seen = None;
            } else {
                self.testbed.tear_down(&arm);
            }
        }
        Ok(())
    }

    fn compare_without(
        &mut self,
        current: &Current,
        without: &str,
        decision: &Decision,
    ) -> Result<(Verdict, Effect), ExperimentError> {
        let change = format!(
            "all changes against all but {}",
            describe_settings(&decision.settings)
        );
        let comparison = Comparison {
            settings: decision.settings.clone(),
            max_pairs: self.pairs().min(LEAVE_ONE_OUT_PAIRS),
            seed: 51,
            ..self.at_saturation((without, &current.arm), change)?
        };
        compare(self.testbed, self.recorder, &comparison)
    }

    /// A comparison at saturation, as all that `tune` makes beside those of single changes are: pairs of short steps, as few as
    /// mean something unless more are asked for.
    fn at_saturation<'a>(
        &self,
        (without, with): (&'a str, &'a str),
        change: String,
    ) -> Result<Comparison<'a>, ExperimentError> {
        Ok(Comparison {
            without,
            with,
            change,
            settings: Vec::new(),
            max_pairs: MIN_PAIRS,
            min_pairs: MIN_PAIRS,
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

    /// The best scenario with the settings of one decision as they were at the start.
    fn without(&self, decision: &Decision) -> Result<Scenario, ExperimentError> {
        let mut others: Vec<Setting> = Vec::new();
        for other in self
            .recorder
            .run()
            .decisions
            .iter()
            .filter(|other| other.kept && other.settings != decision.settings)
        {
            others.extend(other.settings.iter().cloned());
        }
        self.base.with(&others).map_err(ExperimentError::Unfit)
    }
}
