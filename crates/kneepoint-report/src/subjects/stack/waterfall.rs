//! Waterfalls side by side: where a request's time goes at low load and at R*, part by part.

pub(crate) mod html;

use crate::words;
use kneepoint_model::run::{Observation, Waterfall};
use kneepoint_model::{Layer, LoadPoint, Run, Slo};

/// One part of a request's time at low load and at R*.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PairedPart {
    /// Where.
    pub layer: Layer,
    /// What.
    pub what: String,
    /// Mean ms at low load; `None` when not measured there.
    pub low_ms: Option<f64>,
    /// Mean ms at R*; `None` when not measured there.
    pub knee_ms: Option<f64>,
}

/// The waterfalls of one configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair<'a> {
    /// The configuration: `base`, `best`, or a variant.
    pub arm: &'a str,
    /// At low load.
    pub low: Option<&'a Waterfall>,
    /// At R* (or above it, where R* itself was not observed).
    pub knee: Option<&'a Waterfall>,
}

impl<'a> Pair<'a> {
    /// The waterfalls of the configuration the run began with; `None` when it was not observed.
    pub(crate) fn of_base(run: &'a Run) -> Option<Self> {
        Self::of(run, "base")
    }

    /// The waterfalls of the last configuration that was observed, when that is not the first.
    pub(crate) fn of_best(run: &'a Run) -> Option<Self> {
        let last = run
            .observations
            .iter()
            .rev()
            .find(|seen| seen.arm != "base" && seen.waterfall.is_some())?;
        Self::of(run, &last.arm)
    }

    fn of(run: &'a Run, arm: &'a str) -> Option<Self> {
        let low = phase(run, arm, "low");
        let pair = Self {
            arm,
            low: low.and_then(|seen| seen.waterfall.as_ref()),
            knee: near(run, arm).and_then(|seen| seen.waterfall.as_ref()),
        };
        (pair.low.is_some() || pair.knee.is_some()).then_some(pair)
    }

    /// Every part of either waterfall, in the order a request meets them.
    pub(crate) fn parts(&self) -> Vec<PairedPart> {
        let mut parts: Vec<PairedPart> = Vec::new();
        let sides = [(self.knee, false), (self.low, true)];
        for (waterfall, is_low) in sides.into_iter().filter_map(|(w, l)| Some((w?, l))) {
            let mut at = 0;
            for part in &waterfall.parts {
                let known = parts
                    .iter()
                    .position(|known| known.layer == part.layer && known.what == part.what);
                at = known.unwrap_or(at);
                if known.is_none() {
                    parts.insert(
                        at,
                        PairedPart {
                            layer: part.layer,
                            what: part.what.clone(),
                            low_ms: None,
                            knee_ms: None,
                        },
                    );
                }
                let slot = if is_low {
                    &mut parts[at].low_ms
                } else {
                    &mut parts[at].knee_ms
                };
                *slot = Some(part.ms);
                at += 1;
            }
        }
        parts
    }

    /// The longer of the two response times, in ms: what an axis must hold.
    pub(crate) fn longest_ms(&self) -> f64 {
        let length = |w: &Waterfall| w.parts.iter().map(|p| p.ms).sum::<f64>().max(w.response_ms);
        [self.low, self.knee]
            .into_iter()
            .flatten()
            .map(length)
            .filter(|ms| ms.is_finite())
            .fold(0.0, f64::max)
    }
}

/// The observation of a phase of a configuration: the first of the base, the last of any other.
pub(crate) fn phase<'a>(run: &'a Run, arm: &str, name: &str) -> Option<&'a Observation> {
    let wanted = |seen: &&Observation| seen.arm == arm && seen.phase == name;
    if arm == "base" {
        run.observations.iter().find(wanted)
    } else {
        run.observations.iter().rev().find(wanted)
    }
}

/// The observation that a configuration's waterfall at R* is from: or one above it, where R* itself was not observed.
pub(crate) fn near<'a>(run: &'a Run, arm: &str) -> Option<&'a Observation> {
    ["knee", "over"]
        .iter()
        .filter_map(|name| phase(run, arm, name))
        .find(|seen| seen.waterfall.is_some())
}

/// The share of requests that failed or were late in the step of an observation, where the SLO did not hold in it; `None` where
/// it held, or where nobody can say.
pub(crate) fn too_many(run: &Run, seen: &Observation) -> Option<f64> {
    let slo = &run.scenario.as_ref()?.slo;
    let trial = run.trials.iter().find(|trial| trial.id == seen.trial)?;
    broke(slo, &trial.load)
}

fn broke(slo: &Slo, load: &LoadPoint) -> Option<f64> {
    let share = load.violating_share();
    let held = share <= slo.violating_share() && load.error_share() <= slo.errors;
    (!held && load.validity.is_valid()).then_some(share)
}

/// `At 187/s the SLO did not hold: 54 % of the requests failed or were late. ...`: a rate just below R* may be too much in the
/// moment it is looked at, and then the parts of the time are those of an overload. `None` where the SLO held.
pub(crate) fn overload(run: &Run, seen: &Observation) -> Option<String> {
    /// Requests that failed or were late over those the SLO allows, from which on it was an overload and not the chance by
    /// which every second step near R* misses the SLO \[ours\].
    const CLEARLY: f64 = 2.0;
    let share = too_many(run, seen)?;
    let allowed = run.scenario.as_ref()?.slo.violating_share();
    // What misses the SLO at low load, too, does not miss it for the load.
    let at_low_load = phase(run, &seen.arm, "low").and_then(|low| too_many(run, low));
    let why = match share > CLEARLY * allowed && at_low_load.is_none() {
        true => {
            " The stack had more load than it could serve in time, and these times show that state."
        }
        false => "",
    };
    Some(format!(
        "At {} the SLO did not hold: {} of the requests failed or were late.{why}",
        words::requests_in(run.unit(), seen.waterfall.as_ref()?.offered_hz),
        words::share(share),
    ))
}

/// The part that takes the largest share of a request's time, with its share.
pub(crate) fn largest(
    waterfall: &Waterfall,
) -> Option<(&kneepoint_model::run::WaterfallPart, f64)> {
    let part = waterfall
        .parts
        .iter()
        .max_by(|a, b| a.ms.total_cmp(&b.ms))?;
    let share = part.ms / waterfall.response_ms;
    share.is_finite().then_some((part, share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::WaterfallPart;
    use kneepoint_model::{Outcome, Validity};

    fn waterfall(parts: &[(Layer, &str, f64)]) -> Waterfall {
        Waterfall {
            offered_hz: 1.0,
            response_ms: parts.iter().map(|part| part.2).sum(),
            parts: parts
                .iter()
                .map(|&(layer, what, ms)| WaterfallPart {
                    layer,
                    what: what.into(),
                    ms,
                })
                .collect(),
            little: String::new(),
            little_error: None,
        }
    }

    #[test]
    fn parts_of_both_loads_keep_the_order_of_the_request() {
        let low = waterfall(&[
            (Layer::Web, "CPU", 1.0),
            (Layer::Php, "CPU", 5.0),
            (Layer::Db, "query", 2.0),
        ]);
        let knee = waterfall(&[
            (Layer::Web, "CPU", 1.0),
            (Layer::Php, "queue", 50.0),
            (Layer::Php, "CPU", 6.0),
        ]);
        let pair = Pair {
            arm: "base",
            low: Some(&low),
            knee: Some(&knee),
        };
        let seen: Vec<_> = pair
            .parts()
            .into_iter()
            .map(|part| (part.layer, part.what, part.low_ms, part.knee_ms))
            .collect();
        assert_eq!(
            seen,
            [
                (Layer::Web, "CPU".to_owned(), Some(1.0), Some(1.0)),
                (Layer::Php, "queue".to_owned(), None, Some(50.0)),
                (Layer::Php, "CPU".to_owned(), Some(5.0), Some(6.0)),
                (Layer::Db, "query".to_owned(), Some(2.0), None),
            ]
        );
        assert_eq!(pair.longest_ms(), 57.0);
        assert_eq!(
            largest(&knee).map(|(part, _)| part.what.as_str()),
            Some("queue")
        );
    }

    #[test]
    fn a_step_broke_the_slo_by_lateness_or_by_errors_where_the_generator_was_sound() {
        let check = |good: u64, failed: u64, validity: Validity, expected: Option<f64>| {
            let mut load = LoadPoint {
                arrivals: 1000,
                good,
                validity,
                ..LoadPoint::default()
            };
            let counts = [(Outcome::Ok, 1000 - failed), (Outcome::Timeout, failed)];
            load.outcomes.by_outcome = counts.into();
            assert_eq!(broke(&Slo::default(), &load), expected, "{good} {failed}");
        };
        let late = || Validity::Invalid {
            because: Vec::new(),
        };
        check(960, 0, Validity::Valid, None);
        check(460, 0, Validity::Valid, Some(0.54));
        check(980, 20, Validity::Valid, Some(0.02));
        check(460, 0, late(), None);
    }
}
