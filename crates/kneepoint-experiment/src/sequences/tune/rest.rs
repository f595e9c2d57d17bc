//! What tuning does with time that is left: comparisons that showed nothing are made again, and where no change won, R* is
//! made narrower. No run ends early beside an open question.

use super::{Current, Tuner};
use crate::error::ExperimentError;
use crate::record::{BASE, ENDING};
use crate::sequences::Subject;
use crate::sequences::limit::search_limit;
use kneepoint_model::{Finding, Setting};
use std::time::Duration;

/// Fewest pairs for which a comparison that showed nothing is made again, and how many times as many as before they are.
const AGAIN_PAIRS: usize = 8;
const AGAIN_TIMES: usize = 2;
/// Half width of R*'s interval, as a share, up to which it is narrow enough \[ours\].
const NARROW: f64 = 0.04;
/// Time that is worth going on with a search: a few steps and a confirming stretch.
const WORTH_GOING_ON: Duration = Duration::from_secs(25);

impl Tuner<'_, '_, '_> {
    /// Makes comparisons that showed nothing once more, with what time is left beside the proof: those are close, or were not
    /// tried for lack of time.
    pub(super) fn settle(&mut self, current: &mut Current) -> Result<(), ExperimentError> {
        let undecided = self.recorder.run().undecided().into_iter();
        let undecided: Vec<(Finding, Vec<Setting>, usize)> = undecided
            .map(|(decision, finding)| {
                let pairs = decision.effect.pairs as usize;
                (finding.clone(), decision.settings.clone(), pairs)
            })
            .collect();
        for (nth, (finding, settings, before)) in undecided.iter().enumerate() {
            let enough = AGAIN_PAIRS.max(AGAIN_TIMES * before);
            let shared = self.affordable(undecided.len() - nth, false);
            let pairs = shared.filter(|pairs| *pairs >= enough).or_else(|| {
                let (left, proof) = (self.recorder.left(), self.limit_of_the_best_takes());
                let alone = self.costs.pairs_alone(left, proof);
                (alone >= enough).then_some(enough)
            });
            if let Some(pairs) = pairs {
                self.try_one(current, finding, settings, pairs)?;
            }
        }
        self.ask_what_else(current);
        Ok(())
    }

    /// No change won, so that there is nothing to prove: the search for the base's limit goes on in the time that is left.
    pub(super) fn narrow_the_base(&mut self, current: &mut Current) -> Result<(), ExperimentError> {
        let left = self.recorder.left().saturating_sub(ENDING);
        let wide = current.limit.rate_hz.relative_half_width() > NARROW;
        let answered = (!wide && current.limit.soak_held) || current.limit.missed_alone.is_some();
        if answered || left < WORTH_GOING_ON || current.scenario != self.base {
            return Ok(());
        }
        self.recorder
            .stage("Limit: the search goes on in the time that is left");
        current.search.go_on_for(left);
        let arm = current.arm.clone();
        current.limit = search_limit(
            self.testbed,
            self.recorder,
            Subject {
                arm: &arm,
                label: BASE,
            },
            &mut current.search,
        )?;
        Ok(())
    }
}
