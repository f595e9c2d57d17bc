//! `tune --deep`: the settings that did something one by one, tried in combinations.

use super::{Current, Tuner};
use crate::error::ExperimentError;
use crate::sequences::ab::{ArmComparison, compare};
use crate::sequences::diagnose::{DOES_NOT_LAST, DOES_NOT_START, compared_beside, with_remedy};
use kneepoint_diagnosis::{Evidence, pool_need, remedy_guard};
use kneepoint_model::run::Decision;
use kneepoint_model::{Effect, Setting, SettingKey};
use kneepoint_planner::ab::Verdict;
use kneepoint_planner::comparison::{describe_effect, describe_settings};
use kneepoint_planner::tune::{Lever, MOST_LEVERS, Together};
use std::time::Duration;

/// What such a decision is called where others have the code of a finding.
const NAME: &str = "deep";
/// What one combination takes: starting it, warming it, its pairs.
const ONE: Duration = Duration::from_secs(60);
/// Pairs of each.
const EACH: usize = 6;
/// Most pairs of the comparison that a combination has to win once more.
const PROOF: usize = 24;
/// Fewest combinations that are worth beginning with.
const FEWEST: u32 = 4;
/// Combinations that have to show their gain once more, until one does.
const CANDIDATES: usize = 3;
/// Least gain of a combination worth proving, as ln.
const LEAST_GAIN: f64 = 0.02;

impl Tuner<'_, '_, '_> {
    /// Searches the settings that survived, where that was asked for and there is time.
    pub(super) fn search_together(&mut self, current: &mut Current) -> Result<(), ExperimentError> {
        let seen = current.seen.as_ref().filter(|_| self.is_deep);
        let Some(evidence) = seen.map(|seen| seen.evidence.clone()) else {
            return Ok(());
        };
        let levers = self.levers(&evidence);
        if levers.len() < 2 {
            self.recorder.result(
                "--deep: fewer than two settings did anything, so there is nothing to combine",
            );
            return Ok(());
        }
        let names: Vec<String> = levers.iter().map(|lever| lever.key.to_string()).collect();
        self.recorder.stage(format!(
            "Try settings together, since they may need each other: {}",
            names.join(", ")
        ));
        let failed = |why| ExperimentError::Unfit(format!("the search for combinations: {why}"));
        let mut search = Together::new(levers, 17).map_err(failed)?;
        if self.left_for_deep() < ONE * FEWEST {
            self.recorder
                .warn("--deep: no time is left for it; give the run a larger --budget");
            return Ok(());
        }
        let mut nth = 0;
        while self.left_for_deep() > ONE {
            let Some(settings) = search.next_settings().map_err(failed)? else {
                break;
            };
            nth += 1;
            let pairs = (EACH, EACH, 100 + nth);
            let outcome = self.try_together(current, &evidence, &settings, pairs)?;
            let effect = outcome.map(|(arm, effect)| {
                self.testbed.tear_down(&arm);
                effect
            });
            let ratio = effect.and_then(|effect| effect.ratio);
            search.record(ratio.map(|ratio| ratio.estimate.ln()));
        }
        self.prove_together(current, &evidence, &search)
    }

    /// What of the budget is neither for the proof nor for sizing the pool.
    fn left_for_deep(&self) -> Duration {
        let reserved = self.proof_takes() + ONE;
        self.recorder.left().saturating_sub(reserved)
    }

    /// The settings that were kept, then those whose gain was not shown and may be there, and the size of the pool.
    fn levers(&self, evidence: &Evidence) -> Vec<Lever> {
        let mut decisions: Vec<&Decision> = self.recorder.run().decisions.iter().collect();
        decisions.retain(|it| it.effect.verdict != Verdict::Worse && !it.failed);
        decisions.sort_by(|a, b| {
            let gain = |decision: &Decision| decision.effect.ratio.map_or(1.0, |it| it.estimate);
            b.kept.cmp(&a.kept).then(gain(b).total_cmp(&gain(a)))
        });
        let size = pool_need(evidence).map(|need| need.key);
        let tried = decisions.iter().flat_map(|decision| &decision.settings);
        let mut keys: Vec<SettingKey> = Vec::new();
        for key in size
            .into_iter()
            .chain(tried.map(|setting| setting.key.clone()))
        {
            if !keys.contains(&key) && !self.base.budget.keep.contains(&key) {
                keys.push(key);
            }
        }
        let levers = keys
            .iter()
            .filter_map(|key| Lever::of(&evidence.stack, key));
        levers.take(MOST_LEVERS).collect()
    }

    /// Compares a combination with the present one; the arm stands afterwards. Nothing where it may not be tried.
    fn try_together(
        &mut self,
        current: &Current,
        evidence: &Evidence,
        settings: &[Setting],
        (min_pairs, max_pairs, seed): (usize, usize, u64),
    ) -> Result<Option<(String, Effect)>, ExperimentError> {
        let what = describe_settings(settings);
        let objections = remedy_guard(evidence, settings);
        if !objections.is_empty() {
            let why = objections.join("; ");
            self.recorder.result(format!("{what} is not tried: {why}"));
            return Ok(None);
        }
        let scenario = current
            .scenario
            .with(settings)
            .map_err(ExperimentError::Settings)?;
        let arm = self.next_arm();
        if let Err(why) = with_remedy(self.testbed.stand_up(&arm, &scenario), DOES_NOT_START)? {
            self.recorder.result(format!("{what}: {why}"));
            return Ok(None);
        }
        let comparison = ArmComparison {
            settings: settings.to_vec(),
            max_pairs,
            min_pairs,
            // The size of the pool is mostly among what is combined, and two workers at once do not show it.
            at_once: false,
            seed,
            ..self.at_saturation((&current.arm, &arm), what.clone())?
        };
        let compared = compare(self.testbed, self.recorder, &comparison);
        match compared_beside(compared, DOES_NOT_LAST, &current.arm)? {
            Ok((_, effect)) => Ok(Some((arm, effect))),
            Err(broken) => {
                self.testbed.tear_down(&arm);
                self.recorder.result(format!("{what}: {}", broken.why));
                self.stand_up_again(current, broken.by_change)?;
                Ok(None)
            }
        }
    }

    /// Of many combinations the best looks better than it is: it has to win a comparison of its own.
    fn prove_together(
        &mut self,
        current: &mut Current,
        evidence: &Evidence,
        search: &Together,
    ) -> Result<(), ExperimentError> {
        let mut best = search.best();
        best.retain(|(_, gain)| *gain >= LEAST_GAIN);
        if best.is_empty() {
            self.recorder
                .result("--deep: no combination seemed better than what was found one by one");
        }
        for (settings, _) in best.into_iter().take(CANDIDATES) {
            if self.recorder.left() < self.proof_takes() + ONE {
                self.recorder.warn(format!(
                    "--deep: no time left to prove {}: whether it helps is not known",
                    describe_settings(&settings)
                ));
                break;
            }
            let pairs = (EACH, PROOF, 61);
            let Some((arm, effect)) = self.try_together(current, evidence, &settings, pairs)?
            else {
                continue;
            };
            let kept = effect.verdict == Verdict::Better;
            self.decide_together(&settings, effect, kept);
            if kept {
                self.testbed.tear_down(&current.arm);
                current.scenario = current
                    .scenario
                    .with(&settings)
                    .map_err(ExperimentError::Settings)?;
                current.arm = arm;
                current.is_measured = false;
                current.seen = None;
                break;
            }
            self.testbed.tear_down(&arm);
        }
        Ok(())
    }

    fn decide_together(&mut self, settings: &[Setting], effect: Effect, kept: bool) {
        let numbers = describe_effect(&effect);
        let reason = if kept {
            format!("kept, beside all other changes: {numbers}")
        } else {
            format!("it did not win once more: {numbers}")
        };
        self.recorder
            .change(format!("{}: {reason}", describe_settings(settings)));
        self.recorder.decision(Decision {
            code: NAME.to_owned(),
            layer: None,
            settings: settings.to_vec(),
            // It was compared with everything else in place.
            leave_one_out: kept.then(|| effect.clone()),
            effect,
            kept,
            failed: false,
            reason,
        });
    }
}
