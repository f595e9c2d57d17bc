//! The end of tuning: both ends of it freshly started, since what only a stack that has run for long can do is no gain
//! of a setting.

use super::{Current, Tuner};
use crate::error::ExperimentError;
use crate::record::{BASE, BEST, Record};
use crate::sequences::Subject;
use crate::sequences::ab::ArmComparison;
use crate::sequences::diagnose::{diagnose, with_remedy};
use crate::sequences::findings::ask_what_else;
use crate::sequences::limit::find_limit;
use kneepoint_model::run::LimitResult;
use kneepoint_model::statistics::sequential::MIN_PAIRS;
use kneepoint_model::{Effect, Scenario};
use kneepoint_planner::ab::Verdict;
use kneepoint_planner::comparison::describe_effect;
use kneepoint_planner::limit::LimitOptions;
use std::time::Duration;

/// Share of the budget that goes into the load of the best's limit.
const LIMIT_SHARE: f64 = 0.15;
/// Most pairs of base against best, and of the restart.
const PAIRS: usize = 12;

impl Tuner<'_, '_, '_> {
    /// What the proof takes with all that belongs to it: no change is tried that would not leave it.
    pub(super) fn proof_takes(&self) -> Duration {
        self.limit_of_the_best_takes() + self.costs.shortest_proof()
    }

    pub(super) fn limit_of_the_best_takes(&self) -> Duration {
        LimitOptions::taking(self.limit_time(LIMIT_SHARE), 1).takes()
    }

    /// Pairs of the next comparison of the proof, when there is time for so many more after it.
    fn pairs_of_proof(&self, more: u32) -> usize {
        let after = self.limit_of_the_best_takes() + self.costs.shortest_comparison() * more;
        let left = self.recorder.left().saturating_sub(after);
        self.costs.fit(left, more + 1).min(PAIRS)
    }

    /// Fresh start, what it takes, limit of the best, base against best.
    pub(super) fn prove(&mut self, current: &mut Current) -> Result<(), ExperimentError> {
        if self.kept().is_empty() {
            self.narrow_the_base(current)?;
            self.recorder
                .result(match self.recorder.run().undecided().len() {
                    0 => "no change won, so the configuration stays as it is",
                    _ => "no change was shown to win, and some could not be judged: the configuration stays as it is for now",
                });
            return Ok(());
        }
        self.recorder
            .stage("Prove: fresh start of the stack before and after the changes");
        self.stand_up(BEST, &current.scenario)?;
        self.restart(current)?;
        self.testbed.tear_down(&current.arm);
        let base = self.base.clone();
        self.stand_up(BASE, &base)?;
        let best = Box::new(self.testbed.stack(BEST)?.clone());
        let diff = self.testbed.diff(BASE, BEST)?;
        self.recorder.write(Record::Best(best, diff));
        let proof = ArmComparison {
            max_pairs: self.pairs_of_proof(0).max(MIN_PAIRS),
            seed: 91,
            ..self.at_saturation((BASE, BEST), "after against before".to_owned())?
        };
        if let Some((_, effect)) = self.compared_if_both_last(&proof, &current.scenario)? {
            self.recorder.write(Record::Proof(effect));
        }
        self.testbed.tear_down(BASE);
        let limit = self.limit_of_the_best()?;
        if limit.rate_hz.estimate > 0.0 && self.recorder.left() > self.costs.diagnosis() {
            self.recorder
                .stage("Diagnose the stack after the changes: what binds now");
            let best = Subject::named(BEST);
            let (evidence, findings) = diagnose(self.testbed, self.recorder, best, &limit)?;
            ask_what_else(self.recorder, &evidence, &findings);
        }
        Ok(())
    }

    /// A comparison of the proof; nothing where one of its stacks died of it, which takes nothing along that was shown before.
    fn compared_if_both_last(
        &mut self,
        comparison: &ArmComparison<'_>,
        best: &Scenario,
    ) -> Result<Option<(Verdict, Effect)>, ExperimentError> {
        let compared = self.compared(comparison);
        let has_best_died = matches!(&compared, Err(error) if error.is_death_of(BEST));
        let what = format!("{} could not be compared", comparison.change);
        match with_remedy(compared, &what)? {
            Ok(known) => Ok(Some(known)),
            Err(why) => {
                self.recorder.warn(why);
                if has_best_died {
                    self.stand_up(BEST, best)?;
                }
                Ok(None)
            }
        }
    }

    /// R* of the best, in the time that is left: what it is told with is what people read first. Where that is much, the
    /// diagnosis of what binds now comes after it.
    fn limit_of_the_best(&mut self) -> Result<LimitResult, ExperimentError> {
        let left = self.recorder.left();
        let least = self.limit_of_the_best_takes();
        let beside = left.saturating_sub(self.costs.diagnosis());
        let wall = if beside >= least { beside } else { left };
        let workers = self.testbed.saturating_workers(BEST)?;
        let options = LimitOptions::by(wall.max(LimitOptions::least()), workers);
        let (limit, _) = find_limit(self.testbed, self.recorder, Subject::named(BEST), options)?;
        Ok(limit)
    }

    /// The best freshly started beside the same as tuning left it: side by side, since over minutes a machine drifts by
    /// more than a restart takes, and without the base, whose few requests would say little of it.
    fn restart(&mut self, current: &Current) -> Result<(), ExperimentError> {
        let pairs = self.pairs_of_proof(1);
        if pairs < MIN_PAIRS {
            // No warning: a report says by itself that it was not checked.
            self.recorder.result(
                "no time left to check whether a restart alone changes what the stack serves",
            );
            return Ok(());
        }
        let comparison = ArmComparison {
            max_pairs: pairs,
            seed: 81,
            ..self.at_saturation((&current.arm, BEST), "the same after a restart".to_owned())?
        };
        let compared = self.compared_if_both_last(&comparison, &current.scenario)?;
        let Some((verdict, effect)) = compared else {
            return Ok(());
        };
        if verdict == Verdict::Worse {
            self.recorder.warn(format!(
                "after a restart the same configuration serves less than tuning left it at, so part of the gain was that \
                 it had run for long: {}",
                describe_effect(&effect)
            ));
        }
        self.recorder.write(Record::Restarted(effect));
        Ok(())
    }
}
