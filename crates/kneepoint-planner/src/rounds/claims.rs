//! What rounds say of the stages, and of the report's claims.

use crate::random::Random;
use kneepoint_model::Interval;
use kneepoint_model::contest::Carried;
use kneepoint_model::replay::{Claim, Gap, Measure, Replay, Stage};
use kneepoint_model::statistics::sequential::confidence_sequence;
use kneepoint_model::units::format_share;
use std::collections::BTreeMap;

/// Measures that a single turn tells.
const OF_A_TURN: [Measure; 7] = [
    Measure::ThroughputHz,
    Measure::FailedShare,
    Measure::MeanMs,
    Measure::P50Ms,
    Measure::P95Ms,
    Measure::P99Ms,
    Measure::CpuMsPerRequest,
];
/// Times that rounds are drawn anew for the interval of a share.
const DRAWN: usize = 2000;
/// Rounds below which a share has no interval.
const FEWEST: usize = 6;

/// What was measured of a stage under a load, round by round.
type Rounds = BTreeMap<u32, BTreeMap<Measure, f64>>;

/// What was measured, by stage and load.
#[derive(Debug, Clone, Default)]
pub struct StageValues {
    by_turn: BTreeMap<(usize, usize), Rounds>,
}

impl StageValues {
    /// Records a turn that counts: stage, load, round.
    pub fn record(
        &mut self,
        (stage, load, round): (usize, usize, u32),
        carried: &Carried,
        borne_hz: Option<f64>,
    ) {
        let told = OF_A_TURN.into_iter();
        let mut values: BTreeMap<Measure, f64> = told
            .filter_map(|measure| Some((measure, measure.of(carried)?)))
            .collect();
        values.extend(borne_hz.map(|rate| (Measure::BorneHz, rate)));
        let rounds = self.by_turn.entry((stage, load)).or_default();
        rounds.insert(round, values);
    }

    /// Rounds under a load of whoever has the fewest of those who had one.
    #[must_use]
    pub fn fewest(&self, load: usize) -> usize {
        let turns = self.by_turn.iter().filter(|((_, at), _)| *at == load);
        turns.map(|(_, rounds)| rounds.len()).min().unwrap_or(0)
    }

    /// What the stages came to so far, and what that makes of the claims. The first load is the one that stages are
    /// about.
    pub fn judge(&self, replay: &mut Replay) {
        for (nth, stage) in replay.stages.iter_mut().enumerate() {
            let all = stage.carried.first().cloned().unwrap_or_default();
            for measure in OF_A_TURN {
                stage
                    .measured
                    .extend(measure.of(&all).map(|value| (measure, value)));
            }
            stage.borne_hz = (0..stage.carried.len())
                .map(|load| self.median((nth, load), Measure::BorneHz))
                .collect();
            let borne = stage.borne_hz.first().copied().flatten();
            stage
                .measured
                .extend(borne.map(|rate| (Measure::BorneHz, rate)));
        }
        let Replay {
            stages,
            claims,
            gaps,
            ..
        } = replay;
        for claim in claims {
            self.judge_claim(stages, claim);
        }
        for gap in gaps {
            gap.share = self.share(stages, gap);
        }
    }

    /// What each round of a stage under a load came to.
    fn of(&self, turn: (usize, usize), measure: Measure) -> BTreeMap<u32, f64> {
        let rounds = self.by_turn.get(&turn).into_iter().flatten();
        rounds
            .filter_map(|(round, values)| Some((*round, *values.get(&measure)?)))
            .collect()
    }

    fn median(&self, turn: (usize, usize), measure: Measure) -> Option<f64> {
        let mut values: Vec<f64> = self.of(turn, measure).into_values().collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    fn judge_claim(&self, stages: &[Stage], claim: &mut Claim) {
        let at = |name: &str| stages.iter().position(|stage| stage.name == name);
        let Some((from, to)) = at(&claim.from).zip(at(&claim.to)) else {
            return;
        };
        let value = |nth: usize| match claim.load {
            0 => stages[nth].measured.get(&claim.measure).copied(),
            load => self.median((nth, load), claim.measure),
        };
        let values = (value(from), value(to));
        let turns = [from, to].map(|stage| (stage, claim.load));
        let ratio = self.ratio(turns, claim.measure, values);
        claim.judge(values, ratio);
    }

    /// What one stage is over another by the rounds of both; by their sums where there are too few of them for an
    /// interval, or where one of them is zero. A zero has no logarithm, and it is an observation: what is rare is not to be
    /// judged by those rounds alone in which it happened.
    fn ratio(
        &self,
        [from, to]: [(usize, usize); 2],
        measure: Measure,
        sums: (Option<f64>, Option<f64>),
    ) -> Option<Interval> {
        let (first, second) = (self.of(from, measure), self.of(to, measure));
        let both: Vec<(f64, f64)> = first
            .iter()
            .filter_map(|(round, before)| Some((*before, *second.get(round)?)))
            .collect();
        let has_zero = both
            .iter()
            .any(|(before, after)| *before <= 0.0 || *after <= 0.0);
        let (before, after) = if has_zero {
            both.iter()
                .fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
        } else {
            let logs = both.iter().map(|(before, after)| (after / before).ln());
            if let Some(log) = confidence_sequence(&logs.collect::<Vec<_>>()) {
                return Some(Interval {
                    low: log.low.exp(),
                    estimate: log.estimate.exp(),
                    high: log.high.exp(),
                });
            }
            sums.0.zip(sums.1)?
        };
        let ratio = after / before;
        (before > 0.0).then_some(Interval {
            low: ratio,
            estimate: ratio,
            high: ratio,
        })
    }

    /// The share of a gap that its change makes, with an interval by drawing the rounds anew. There is none where a
    /// round has no logarithm: a share of the others would be one of the rounds in which something happened.
    fn share(&self, stages: &[Stage], gap: &Gap) -> Option<Interval> {
        let mut found = gap.stages.iter().map(|name| {
            let nth = stages.iter().position(|stage| stage.name == *name)?;
            Some(self.of((nth, 0), gap.measure))
        });
        let [slow, changed, fast] = [found.next()??, found.next()??, found.next()??];
        let logs: Vec<(f64, f64)> = slow
            .iter()
            .filter_map(|(round, slow)| {
                let (changed, fast) = (changed.get(round)?, fast.get(round)?);
                Some(((changed / slow).ln(), (fast / slow).ln()))
            })
            .collect();
        let is_known = |(part, whole): &(f64, f64)| part.is_finite() && whole.is_finite();
        if logs.len() < FEWEST || !logs.iter().all(is_known) {
            return None;
        }
        let share = |logs: &mut dyn Iterator<Item = (f64, f64)>| {
            let (part, whole) = logs.fold((0.0, 0.0), |sum, log| (sum.0 + log.0, sum.1 + log.1));
            part / whole
        };
        let mut random = Random::new(7, 5);
        let mut drawn: Vec<f64> = (0..DRAWN)
            .map(|_| share(&mut (0..logs.len()).map(|_| logs[random.below(logs.len())])))
            .filter(|share| share.is_finite())
            .collect();
        drawn.sort_by(f64::total_cmp);
        let end = |quantile: f64| drawn.get((quantile * drawn.len() as f64) as usize).copied();
        Some(Interval {
            low: end(0.025)?,
            estimate: share(&mut logs.iter().copied()),
            high: end(0.975)?,
        })
    }
}

/// A claim and what became of it, in a sentence.
#[must_use]
pub fn describe(claim: &Claim) -> String {
    let verdict = match claim.is_met {
        Some(true) => "met",
        Some(false) => "not met",
        None => "not measured",
    };
    let value = |value: Option<f64>| match (claim.measure, value) {
        (_, None) => "unknown".to_owned(),
        (Measure::FailedShare, Some(share)) => format_share(share),
        (_, Some(value)) => format!("{value:.1}"),
    };
    format!(
        "{}: {} at {}, {} at {}: {verdict}",
        claim.what,
        value(claim.measured.0),
        claim.from,
        value(claim.measured.1),
        claim.to
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::replay::Needs;
    use kneepoint_model::{LoadPoint, Outcome};

    fn turn(ok: u64, ms: u64) -> Carried {
        let mut point = LoadPoint {
            window_s: 1.0,
            arrivals: ok,
            ..LoadPoint::default()
        };
        point.outcomes.by_outcome.insert(Outcome::Ok, ok);
        (0..ok).for_each(|_| point.response.record_us(1000 * ms));
        let mut carried = Carried::default();
        carried.add(&point, None, None);
        carried
    }

    fn stage(name: &str) -> Stage {
        Stage {
            name: name.to_owned(),
            carried: vec![turn(100, 5)],
            ..Stage::default()
        }
    }

    /// Stages that serve so much each, on a machine whose speed changes from round to round.
    fn measured(served: &[u64], rounds: u32) -> (StageValues, Replay) {
        let mut values = StageValues::default();
        for round in 0..rounds {
            for (nth, served) in served.iter().enumerate() {
                let drift = 100 + 10 * u64::from(round % 4);
                values.record(
                    (nth, 0, round),
                    &turn(served * drift / 100, 1000 / served),
                    None,
                );
            }
        }
        let names = ["slow", "changed", "fast"];
        let replay = Replay {
            stages: names[..served.len()]
                .iter()
                .map(|name| stage(name))
                .collect(),
            ..Replay::default()
        };
        (values, replay)
    }

    #[test]
    fn a_ratio_is_that_of_the_same_round() {
        let (values, mut replay) = measured(&[100, 900], 8);
        replay.claims = vec![Claim {
            what: "served".into(),
            measure: Measure::ThroughputHz,
            load: 0,
            from: "slow".into(),
            to: "changed".into(),
            needs: Needs {
                ratio_at_least: Some(9.0),
                ..Needs::default()
            },
            reported_ratio: Some(9.4),
            measured_ratio: None,
            measured: (None, None),
            is_met: None,
        }];
        values.judge(&mut replay);
        let claim = &replay.claims[0];
        let ratio = claim.measured_ratio.expect("eight rounds");
        assert!(ratio.low > 8.9 && ratio.high < 9.1, "{ratio:?}");
        assert_eq!(claim.is_met, Some(true));
        assert_eq!(values.fewest(0), 8);
    }

    /// A turn of 100 requests of which so many failed.
    fn failing(count: u64) -> Carried {
        let mut point = LoadPoint {
            window_s: 1.0,
            arrivals: 100,
            ..LoadPoint::default()
        };
        point.outcomes.by_outcome.insert(Outcome::HttpError, count);
        let mut carried = Carried::default();
        carried.add(&point, None, None);
        carried
    }

    #[test]
    fn rounds_in_which_nothing_happened_count() {
        let ratio = |after: [u64; 2]| {
            let mut values = StageValues::default();
            for round in 0..12 {
                let failed = after[round as usize % 2];
                values.record((0, 0, round), &failing(10), None);
                values.record((1, 0, round), &failing(failed), None);
            }
            let stages = [(0, 0), (1, 0)];
            values.ratio(stages, Measure::FailedShare, (None, None))
        };
        // In every other round more failed than before, in the others nothing did: together it is less.
        let told = ratio([16, 0]).expect("twelve rounds");
        assert!((told.estimate - 0.8).abs() < 1e-9, "{told:?}");
        assert_eq!((told.low, told.high), (told.estimate, told.estimate));
        let told = ratio([16, 4]).expect("twelve rounds");
        assert!((told.estimate - 0.8).abs() < 1e-9, "{told:?}");
        assert!(told.low < 0.7 && told.high > 0.9, "{told:?}");
    }

    #[test]
    fn a_claim_is_about_its_own_load() {
        let mut values = StageValues::default();
        let borne_hz = [[5000.0, 5000.0], [7000.0, 14_000.0]];
        for (load, stages) in borne_hz.into_iter().enumerate() {
            for (nth, rate_hz) in stages.into_iter().enumerate() {
                values.record((nth, load, 0), &turn(100, 5), Some(rate_hz));
            }
        }
        let claim = |load: usize| Claim {
            what: "borne".into(),
            measure: Measure::BorneHz,
            load,
            from: "slow".into(),
            to: "fast".into(),
            needs: Needs {
                ratio_at_least: Some(1.2),
                ..Needs::default()
            },
            reported_ratio: None,
            measured_ratio: None,
            measured: (None, None),
            is_met: None,
        };
        let mut replay = Replay {
            stages: ["slow", "fast"].map(stage).into(),
            claims: vec![claim(0), claim(1)],
            ..Replay::default()
        };
        for stage in &mut replay.stages {
            stage.carried = vec![turn(100, 5); 2];
        }
        values.judge(&mut replay);
        let met: Vec<_> = replay.claims.iter().map(|claim| claim.is_met).collect();
        assert_eq!(met, [Some(false), Some(true)]);
        assert_eq!(replay.claims[1].measured, (Some(7000.0), Some(14_000.0)));
        let borne = &replay.stages[1].borne_hz;
        assert_eq!(*borne, [Some(5000.0), Some(14_000.0)]);
    }

    #[test]
    fn the_share_of_a_gap_is_that_of_its_logarithm() {
        let gap = Gap {
            what: "OPcache".into(),
            measure: Measure::ThroughputHz,
            stages: ["slow", "changed", "fast"].map(str::to_owned),
            share: None,
        };
        let (values, mut replay) = measured(&[10, 100, 1000], 8);
        replay.gaps = vec![gap.clone()];
        values.judge(&mut replay);
        let share = replay.gaps[0].share.expect("eight rounds");
        assert!((share.estimate - 0.5).abs() < 0.01, "{share:?}");
        assert!(share.low <= share.estimate && share.estimate <= share.high);
        let (values, mut replay) = measured(&[10, 100, 1000], 3);
        replay.gaps = vec![gap.clone()];
        values.judge(&mut replay);
        assert_eq!(replay.gaps[0].share, None);
        // A round in which a stage served nothing has no share.
        let (mut values, mut replay) = measured(&[10, 100, 1000], 8);
        values.record((2, 0, 3), &turn(0, 1), None);
        replay.gaps = vec![gap];
        values.judge(&mut replay);
        assert_eq!(replay.gaps[0].share, None);
    }
}
