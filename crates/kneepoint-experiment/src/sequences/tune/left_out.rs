//! Leave one out: what each kept change is still worth beside the others.

use super::{Current, Tuner};
use crate::error::ExperimentError;
use crate::sequences::ab::ArmComparison;
use crate::sequences::diagnose::compared_beside;
use kneepoint_model::run::Decision;
use kneepoint_model::{Effect, Scenario, Setting};
use kneepoint_planner::ab::{BY_SHARE, Verdict};
use kneepoint_planner::comparison::{describe_effect, describe_settings};

impl Tuner<'_, '_, '_> {
    /// The configuration kept so far against the same without one change, for each kept change: what no longer makes
    /// a difference beside the others is taken back.
    pub(super) fn leave_one_out(&mut self, current: &mut Current) -> Result<(), ExperimentError> {
        let kept = self.kept();
        if kept.len() < 2 {
            return Ok(());
        }
        for index in kept {
            let decision = self.recorder.run().decisions[index].clone();
            let Some(pairs) = self.affordable(0, false) else {
                // No warning: a report says by itself what was not left out.
                self.recorder.result(format!(
                    "no time left to check whether {} is still needed beside the other changes",
                    decision.code
                ));
                continue;
            };
            self.recorder
                .stage(format!("Leave one out: without {}", decision.code));
            let scenario = self.without(&decision)?;
            let arm = self.next_arm();
            let compared = self
                .stand_up(&arm, &scenario)
                .and_then(|()| self.compare_without(current, &arm, &decision, pairs));
            let what = "the stack could not be measured without it";
            let (verdict, effect) = match compared_beside(compared, what, &current.arm)? {
                Ok(compared) => compared,
                Err(broken) => {
                    self.testbed.tear_down(&arm);
                    let (code, why) = (&decision.code, &broken.why);
                    self.recorder.warn(format!(
                        "whether {code} is still needed beside the other changes is not known: {why}"
                    ));
                    self.stand_up_again(current, broken.by_change)?;
                    continue;
                }
            };
            self.recorder.leave_one_out(index, effect.clone());
            // What was kept for R* at one rate need not show in what is served at saturation.
            let by_rate = decision.effect.quantity == BY_SHARE;
            let is_no_help = match verdict {
                Verdict::Equivalent => !by_rate,
                verdict => verdict == Verdict::Worse,
            };
            if is_no_help {
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
        pairs: usize,
    ) -> Result<(Verdict, Effect), ExperimentError> {
        let change = format!(
            "all changes against all but {}",
            describe_settings(&decision.settings)
        );
        let comparison = ArmComparison {
            settings: decision.settings.clone(),
            max_pairs: pairs,
            seed: 51,
            ..self.at_saturation((without, &current.arm), change)?
        };
        self.compared(&comparison)
    }

    /// Kept changes that were not left out yet; none where there is one only, which the proof leaves out.
    pub(super) fn not_left_out(&self) -> Vec<usize> {
        let mut kept = self.kept();
        if kept.len() < 2 {
            return Vec::new();
        }
        kept.retain(|index| {
            self.recorder.run().decisions[*index]
                .leave_one_out
                .is_none()
        });
        kept
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
        self.base.with(&others).map_err(ExperimentError::Settings)
    }
}
