//! The smallest pool that serves as much as the one that was found: a worker nobody needs costs memory, and what it
//! costs is told by its proportional share (PSS), since most of what a worker maps is shared with the others.

use super::{Current, Tuner};
use crate::error::ExperimentError;
use crate::sequences::ab::{ArmComparison, compare};
use crate::sequences::diagnose::{DOES_NOT_LAST, compared_beside};
use kneepoint_diagnosis::{Evidence, PoolNeed, pool_need, remedy_guard};
use kneepoint_model::run::Decision;
use kneepoint_model::units::format_bytes;
use kneepoint_model::{Effect, Scenario, Setting};
use kneepoint_planner::ab::Verdict;
use kneepoint_planner::comparison::{describe_effect, describe_settings};
use kneepoint_planner::tune::PoolSizes;

/// What such a decision is called where others have the code of a finding.
const NAME: &str = "pool-size";
/// Loss of throughput up to which a smaller pool serves as much (method.md section 3).
pub(super) const NOT_WORSE: f64 = 0.02;
/// Most pairs of a comparison, and the fewest that are worth beginning with: a loss of a fiftieth shows in no less.
const PAIRS: usize = 40;
const FEWEST_PAIRS: usize = 12;

/// A smaller pool that serves as much, standing.
struct Smaller {
    arm: String,
    scenario: Scenario,
    decision: Decision,
}

impl Tuner<'_, '_, '_> {
    /// Looks for the smallest pool that serves as much as the present one, where there is time for it.
    pub(super) fn size_pool(&mut self, current: &mut Current) -> Result<(), ExperimentError> {
        let Some(evidence) = current.seen.take().map(|seen| seen.evidence) else {
            return Ok(());
        };
        let Some(need) = pool_need(&evidence).filter(|need| !self.is_to_stay(need)) else {
            return Ok(());
        };
        let mut sizes = PoolSizes::new(need.workers, need.needed, need.likely);
        if sizes.next_size().is_none() {
            self.recorder.result(format!(
                "{} = {}: R* needs about {} workers (Little's law, with a quarter of head room), so no smaller pool is \
                 tried",
                need.key, need.workers, need.needed
            ));
        }
        let mut found: Option<Smaller> = None;
        while let Some(size) = sizes.next_size() {
            let left = self.recorder.left();
            let beside = left.saturating_sub(self.proof_takes());
            let pairs = self.costs.fit(beside, 1).min(PAIRS);
            if pairs < FEWEST_PAIRS {
                self.recorder.result(format!(
                    "{} = {}: {size} workers may serve as much; not tried: {:.0} s left, and a comparison beside the proof \
                     needs more",
                    need.key,
                    need.workers,
                    left.as_secs_f64()
                ));
                break;
            }
            let smaller = self.try_size(current, &evidence, (&need, size), pairs)?;
            sizes.record(size, smaller.is_some());
            if let Some(smaller) = smaller
                && let Some(larger) = found.replace(smaller)
            {
                self.testbed.tear_down(&larger.arm);
            }
        }
        if let Some(smaller) = found {
            self.testbed.tear_down(&current.arm);
            self.recorder.decision(smaller.decision);
            current.arm = smaller.arm;
            current.scenario = smaller.scenario;
        }
        Ok(())
    }

    fn is_to_stay(&self, need: &PoolNeed) -> bool {
        self.base.budget.keep.contains(&need.key)
    }

    /// A pool of this size beside the present one; nothing where it may not be tried or serves less.
    fn try_size(
        &mut self,
        current: &Current,
        evidence: &Evidence,
        (need, size): (&PoolNeed, u64),
        pairs: usize,
    ) -> Result<Option<Smaller>, ExperimentError> {
        let settings = vec![Setting {
            key: need.key.clone(),
            value: size.to_string(),
        }];
        let what = describe_settings(&settings);
        let objections = remedy_guard(evidence, &settings);
        if !objections.is_empty() {
            let why = objections.join("; ");
            self.recorder.change(format!("{what} is not tried: {why}"));
            return Ok(None);
        }
        self.recorder
            .stage(format!("Smallest pool that serves as much: {what}"));
        let scenario = current
            .scenario
            .with(&settings)
            .map_err(ExperimentError::Settings)?;
        let arm = self.next_arm();
        let compared = self
            .testbed
            .stand_up(&arm, &scenario)
            .and_then(|()| self.compare_sizes((&current.arm, &arm), &settings, pairs));
        let effect = match compared_beside(compared, DOES_NOT_LAST, &current.arm)? {
            Ok(effect) => effect,
            Err(broken) => {
                self.testbed.tear_down(&arm);
                self.recorder.change(format!("{what}: {}", broken.why));
                let by_change = broken.by_change;
                self.recorder
                    .decision(broken.decision(NAME, None, &settings));
                self.stand_up_again(current, by_change)?;
                return Ok(None);
            }
        };
        let serves = effect
            .ratio
            .is_some_and(|ratio| ratio.low >= 1.0 - NOT_WORSE);
        let reason = reason(&effect, need, size, serves);
        self.recorder.change(format!("{what}: {reason}"));
        let decision = Decision {
            code: NAME.to_owned(),
            layer: None,
            settings,
            leave_one_out: Some(effect.clone()),
            effect,
            kept: serves,
            failed: false,
            reason,
        };
        if serves {
            return Ok(Some(Smaller {
                arm,
                scenario,
                decision,
            }));
        }
        self.testbed.tear_down(&arm);
        self.recorder.decision(decision);
        Ok(None)
    }

    fn compare_sizes(
        &mut self,
        (present, smaller): (&str, &str),
        settings: &[Setting],
        pairs: usize,
    ) -> Result<Effect, ExperimentError> {
        let comparison = ArmComparison {
            settings: settings.to_vec(),
            max_pairs: pairs,
            at_once: false,
            not_worse: Some(NOT_WORSE),
            seed: 71,
            ..self.at_saturation((present, smaller), describe_settings(settings))?
        };
        let (_, effect) = compare(self.testbed, self.recorder, &comparison)?;
        Ok(effect)
    }
}

/// What decided, in words.
fn reason(effect: &Effect, need: &PoolNeed, size: u64, serves: bool) -> String {
    let numbers = describe_effect(effect);
    let saved = need
        .worker_bytes
        .map(|bytes| bytes * need.workers.saturating_sub(size))
        .map_or(String::new(), |bytes| {
            format!(", and {} (PSS) less when all are busy", format_bytes(bytes))
        });
    if serves {
        format!(
            "kept: {size} workers serve as much as {}{saved}: {numbers}",
            need.workers
        )
    } else if effect.verdict == Verdict::Worse {
        format!("dropped, {size} workers serve less: {numbers}")
    } else {
        format!(
            "undecided, it was not shown that {size} workers serve as much as {}: {numbers}",
            need.workers
        )
    }
}
