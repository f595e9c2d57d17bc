//! The end of tuning: both ends of it freshly started, since what only a stack that has run for long can do is no gain
//! of a setting.

use super::{Current, Tuner};
use crate::ab::Verdict;
use crate::compare::{Comparison, compare, describe_effect};
use crate::diagnose::{diagnose, find_limit};
use crate::error::ExperimentError;
use crate::limit::LimitOptions;
use kneepoint_model::statistics::sequential::MIN_PAIRS;
use std::time::Duration;

/// Share of the budget that goes into the load of the best's limit.
const LIMIT_SHARE: f64 = 0.12;
/// What base against best takes: two stacks to start, and their pairs.
const BASE_AGAINST_BEST: Duration = Duration::from_secs(55);
/// What a pair of the fresh start against the stack that stood takes: two steps of 2 s, and the rest between them; and the
/// most of them.
const RESTART_PAIR: Duration = Duration::from_millis(5400);
const RESTART_PAIRS: u32 = 12;
/// Most of the budget that is kept for all of it.
const MOST: f64 = 0.45;
/// What the diagnosis of the best takes.
const LAST_LOOK: Duration = Duration::from_secs(50);

impl Tuner<'_, '_, '_> {
    /// What the proof takes with all that belongs to it: no change is tried that would not leave it.
    pub(super) fn proof_takes(&self) -> Duration {
        let all = self.after_the_restart() + RESTART_PAIR * RESTART_PAIRS;
        all.min(self.budget.mul_f64(MOST))
    }

    /// One more confirming stretch is part of it: on a shared machine the first one may meet a slow spell, and a limit that
    /// is confirmed after all is worth more than some more pairs of the restart.
    fn after_the_restart(&self) -> Duration {
        let limit = LimitOptions::within(self.limit_time(LIMIT_SHARE), 1);
        limit.takes() + limit.another_soak_takes() + BASE_AGAINST_BEST
    }

    /// Fresh start, what it takes, limit of the best, base against best.
    pub(super) fn prove(&mut self, current: &Current) -> Result<(), ExperimentError> {
        if self.kept().is_empty() {
            self.recorder
                .result("no change won, so the configuration stays as it is");
            return Ok(());
        }
        self.recorder.stage("Prove: fresh start of base and best");
        self.testbed.stand_up("best", &current.scenario)?;
        self.restart(current)?;
        self.testbed.tear_down(&current.arm);
        self.testbed.stand_up("base", &self.base)?;
        self.recorder.best(
            self.testbed.stack("best")?.clone(),
            self.testbed.diff("base", "best")?,
        );
        let for_the_limit = self.recorder.left().saturating_sub(BASE_AGAINST_BEST);
        let options = self
            .limit_options("best", LIMIT_SHARE)?
            .ending_within(for_the_limit);
        let (limit, _) = find_limit(self.testbed, self.recorder, "best", "best", options)?;
        let proof = Comparison {
            max_pairs: 8,
            seed: 91,
            ..self.at_saturation(("base", "best"), "best against base".to_owned())?
        };
        let (_, effect) = compare(self.testbed, self.recorder, &proof)?;
        self.recorder.proof(effect);
        self.testbed.tear_down("base");
        if limit.rate_hz.estimate > 0.0 && self.recorder.left() > LAST_LOOK {
            self.recorder.stage("Diagnose the best: what binds now");
            diagnose(self.testbed, self.recorder, "best", "best", &limit)?;
        }
        Ok(())
    }

    /// The best freshly started beside the same as tuning left it: side by side, since over minutes a machine drifts by
    /// more than a restart takes, and without the base, whose few requests would say little of it.
    fn restart(&mut self, current: &Current) -> Result<(), ExperimentError> {
        let time = self
            .recorder
            .left()
            .saturating_sub(self.after_the_restart());
        let pairs = (time.as_secs_f64() / RESTART_PAIR.as_secs_f64()) as usize;
        if pairs < MIN_PAIRS {
            self.recorder
                .warn("no time left to see how much of the gain a restart takes");
            return Ok(());
        }
        let comparison = Comparison {
            max_pairs: pairs.min(RESTART_PAIRS as usize),
            seed: 81,
            ..self.at_saturation(
                (&current.arm, "best"),
                "the best after a restart".to_owned(),
            )?
        };
        let (verdict, effect) = compare(self.testbed, self.recorder, &comparison)?;
        if verdict == Verdict::Worse {
            self.recorder.warn(format!(
                "after a restart the same configuration serves less than tuning left it at, so part of the gain was that \
                 it had run for long: {}",
                describe_effect(&effect)
            ));
        }
        self.recorder.restarted(effect);
        Ok(())
    }
}
