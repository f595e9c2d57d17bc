//! Reasons to doubt a number, and how the generator was doing.

use super::little::little;
use crate::subjects::arm_name;
use crate::subjects::limits::limits;
use crate::words::{self, plain};
use kneepoint_model::run::{EntryKind, LimitResult};
use kneepoint_model::{Run, Validity};

/// How many times the highest offered rate a generator must be able to send (method.md section 6).
const CEILING_LEAST: f64 = 3.0;

/// The worst the generator said of itself over the valid steps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HealthRange {
    /// Valid steps looked at.
    pub trials: usize,
    /// Largest CPU share of one core.
    pub cpu_share: f64,
    /// Largest 99th percentile of the send lag in ms.
    pub send_lag_p99_ms: f64,
    /// Smallest share of arrivals sent in time.
    pub achieved_share: f64,
    /// Largest number of arrivals that waited for a connection.
    pub backlog_max: u64,
    /// Largest steal time as a share of all cores; `None` when never measured.
    pub steal_share: Option<f64>,
    /// Highest open-loop rate offered, per second.
    pub offered_hz: f64,
    /// What the generator reaches against a null server, per second.
    pub ceiling_hz: Option<f64>,
}

/// The generator's health over the valid steps; `None` when there is none.
pub(crate) fn health(run: &Run) -> Option<HealthRange> {
    let valid = || {
        run.trials
            .iter()
            .map(|trial| &trial.load)
            .filter(|load| load.validity.is_valid())
    };
    let most =
        |value: fn(&kneepoint_model::LoadPoint) -> f64| valid().map(value).fold(0.0, f64::max);
    let trials = valid().count();
    (trials > 0).then(|| HealthRange {
        trials,
        cpu_share: most(|load| load.health.cpu_share),
        send_lag_p99_ms: most(|load| load.health.send_lag_p99_ms),
        achieved_share: valid()
            .map(|load| load.health.achieved_share)
            .fold(1.0, f64::min),
        backlog_max: valid()
            .map(|load| load.health.backlog_max)
            .max()
            .unwrap_or(0),
        steal_share: valid()
            .filter_map(|load| load.health.steal_share)
            .reduce(f64::max),
        offered_hz: valid()
            .filter(|load| load.closed_workers.is_none())
            .map(|load| load.offered_hz)
            .fold(0.0, f64::max),
        ceiling_hz: run.machine.generator_ceiling_hz,
    })
}

/// A sentence for each doubt, each once.
pub(crate) fn doubts(run: &Run) -> Vec<String> {
    // Whose R* it is need only be said where there are two.
    let both = run.limit("best").is_some();
    let of = |limit: &LimitResult| match both {
        true => format!(" {}", arm_name(run, &limit.arm)),
        false => String::new(),
    };
    // Limits in between only said where to measure next.
    let measured = limits(run).into_iter().flat_map(|(_, limit)| {
        let soak = (limit.soak_arrivals == 0 && limit.met_hz().is_some())
            .then(|| format!("R*{} has no confirming stretch of load.", of(limit)));
        let warnings = limit
            .warnings
            .iter()
            .map(|text| format!("R*{}: {text}", of(limit)));
        let mixed = run.mixes_units(limit).then(|| {
            format!(
                "R*{} was measured by a version that took requests for visits: measure it again.",
                of(limit)
            )
        });
        warnings.chain(mixed).chain(soak).collect::<Vec<_>>()
    });
    let said = run
        .journal
        .iter()
        .filter(|entry| entry.kind == EntryKind::Warning)
        .map(|entry| entry.text.clone());
    let planned = run
        .capacity
        .iter()
        .flat_map(|plan| plan.doubts.iter().map(|text| words::sentence(text) + "."));
    let compared = run.gate.iter().flat_map(|gate| {
        let sentences = gate.obstacles.iter().chain(&gate.notes);
        sentences.map(|text| words::sentence(text) + ".")
    });
    let mut all: Vec<String> = Vec::new();
    for doubt in measured
        .chain(invalid(run))
        .chain(little(run))
        .chain(ceiling(run))
        .chain(compared)
        .chain(planned)
        .chain(weak(run))
        .chain(said)
    {
        let doubt = plain(&doubt);
        // A limit's warnings are in the journal too, without the limit's name.
        if !all.iter().any(|said| said.ends_with(&doubt)) {
            all.push(doubt);
        }
    }
    all
}

/// Verdicts that stand by themselves and not among all that were made.
fn weak(run: &Run) -> Option<String> {
    let weak = run.weak_claims();
    let changes: Vec<_> = weak.iter().map(|effect| effect.change.as_str()).collect();
    let made = run.comparisons().len();
    (!changes.is_empty()).then(|| {
        format!(
            "The run made {made} comparisons, so one of them may look better or worse by chance. What passed its own test, and \
             not the stricter one for all of them together (Holm's correction): {}. That is likely, not certain; a second run \
             that shows the same settles it.",
            changes.join("; ")
        )
    })
}

fn invalid(run: &Run) -> Option<String> {
    let reasons: Vec<_> = run
        .trials
        .iter()
        .filter_map(|trial| match &trial.load.validity {
            Validity::Valid => None,
            Validity::Invalid { because } => {
                Some(because.first().map_or("no reason given", String::as_str))
            }
        })
        .collect();
    let first = reasons.first()?;
    Some(format!(
        "{} of {} not valid and {}: {first}",
        words::counted(reasons.len() as u64, "step", "steps"),
        format_args!(
            "{} {}",
            words::count(run.trials.len() as u64),
            if reasons.len() == 1 { "was" } else { "were" }
        ),
        if reads_until_it_broke(run) {
            "used only to find where the rising load failed"
        } else {
            "not used"
        }
    ))
}

/// Whether the run tells until which rate a rising load was borne: that is read from loads that broke, too, and a
/// generator that can no more send in time is one way to break.
pub(crate) fn reads_until_it_broke(run: &Run) -> bool {
    let mut stages = run.replay.iter().flat_map(|replay| &replay.stages);
    stages.any(|stage| stage.borne_hz.iter().any(Option::is_some))
}

fn ceiling(run: &Run) -> Option<String> {
    let health = health(run)?;
    let ceiling = health.ceiling_hz?;
    (ceiling < CEILING_LEAST * health.offered_hz).then(|| {
        format!(
            "The generator reaches {} against a null server, less than three times the highest rate offered ({}).",
            words::rate(ceiling),
            words::rate(health.offered_hz),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::replay::{Replay, Stage};
    use kneepoint_model::run::TrialId;
    use kneepoint_model::{Effect, LoadPoint, Trial, Verdict};

    #[test]
    fn what_holds_by_itself_and_not_among_all_is_told_as_likely() {
        let better = |change: &str, e_value| Effect {
            change: change.into(),
            e_value,
            pairs: 3,
            verdict: Verdict::Better,
            ..Effect::default()
        };
        let mut run = Run {
            restarted: Some(better("restart", 1e6)),
            proof: Some(better("after against before", 25.0)),
            ..Run::default()
        };
        assert_eq!(weak(&run), None);
        run.restarted = Some(better("restart", 25.0));
        let told = weak(&run).expect("neither reaches 40");
        for part in [
            "made 2 comparisons",
            "together (Holm's correction): restart; after against before.",
            "likely, not certain",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn what_is_read_from_a_load_that_broke_is_not_called_unused() {
        let load = LoadPoint {
            validity: Validity::Invalid {
                because: vec!["It fell behind.".into()],
            },
            ..LoadPoint::default()
        };
        let mut run = Run {
            trials: vec![Trial {
                id: TrialId(0),
                purpose: "replay".into(),
                arm: "as shipped".into(),
                at_s: 0.0,
                load,
                cpu: None,
            }],
            ..Run::default()
        };
        let said = |run: &Run| plain(&invalid(run).expect("one is not valid"));
        assert_eq!(
            said(&run),
            "1 step of 1 was not valid and not used: It fell behind."
        );
        run.replay = Some(Replay {
            stages: vec![Stage {
                borne_hz: vec![Some(4875.0)],
                ..Stage::default()
            }],
            ..Replay::default()
        });
        assert_eq!(
            said(&run),
            "1 step of 1 was not valid and used only to find where the rising load failed: It fell \
             behind."
        );
    }
}
