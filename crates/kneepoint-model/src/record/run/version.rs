//! Records of older versions, brought up to date.

use super::{LimitResult, RUN_VERSION, Run, Trial, TrialId};

impl Run {
    /// Brings a record of an older version up to date: says which trials each limit rests on.
    pub fn upgrade(&mut self) {
        if self.version < 2 {
            let searched: Vec<Vec<TrialId>> = self
                .limits
                .iter()
                .map(|limit| searched(&self.trials, limit))
                .collect();
            for (limit, trials) in self.limits.iter_mut().zip(searched) {
                limit.trials = trials;
            }
        }
        self.version = RUN_VERSION;
    }
}

/// The trials of a limit's search, by what a record of version 1 says of them. A configuration that was searched more than
/// once has several stretches of them, each from its closed loop on: the one that holds the limit's first step.
fn searched(trials: &[Trial], limit: &LimitResult) -> Vec<TrialId> {
    let first_hz = limit.steps.first().map(|(rate_hz, _, _)| *rate_hz);
    let own: Vec<&Trial> = trials
        .iter()
        .filter(|trial| trial.arm == limit.arm && trial.purpose.starts_with("limit: "))
        .collect();
    own.chunk_by(|_, next| next.load.closed_workers.is_none())
        .find(|search| {
            search
                .iter()
                .any(|trial| Some(trial.load.rate_hz()) == first_hz)
        })
        .map_or_else(Vec::new, |search| {
            search.iter().map(|trial| trial.id).collect()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoadPoint;

    fn trial(id: u64, arm: &str, purpose: &str, offered_hz: f64) -> Trial {
        let load = LoadPoint {
            offered_hz,
            closed_workers: purpose.ends_with("saturate").then_some(8),
            ..LoadPoint::default()
        };
        Trial {
            id: TrialId(id),
            purpose: purpose.into(),
            arm: arm.into(),
            at_s: 0.0,
            load,
            cpu: None,
        }
    }

    #[test]
    fn a_limit_of_version_1_has_the_trials_of_its_own_search() {
        let limit = |first_hz| LimitResult {
            arm: "base".into(),
            steps: vec![(first_hz, 0.05, 500)],
            ..LimitResult::default()
        };
        let mut run = Run {
            version: 1,
            trials: vec![
                trial(0, "base", "limit: saturate", 110.0),
                trial(1, "base", "limit: step", 97.0),
                trial(2, "other", "limit: step", 102.0),
                trial(3, "base", "ab: pair 1 with", 102.0),
                trial(4, "base", "limit: soak", 95.0),
                trial(5, "base", "limit: saturate", 111.0),
                trial(6, "base", "limit: step", 102.0),
            ],
            limits: [97.0, 102.0, 55.0].map(limit).into(),
            ..Run::default()
        };
        run.upgrade();
        let found: Vec<Vec<u64>> = run
            .limits
            .iter()
            .map(|limit| limit.trials.iter().map(|id| id.0).collect())
            .collect();
        assert_eq!(found, [vec![0, 1, 4], vec![5, 6], vec![]]);
        assert_eq!(run.version, RUN_VERSION);
    }

    #[test]
    fn what_a_limit_says_itself_stays() {
        let mut run = Run {
            version: 2,
            limits: vec![LimitResult {
                trials: vec![TrialId(7)],
                ..LimitResult::default()
            }],
            ..Run::default()
        };
        run.upgrade();
        assert_eq!(run.limits[0].trials, [TrialId(7)]);
    }
}
