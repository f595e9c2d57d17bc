//! A field report replayed: what somebody reported of a stack, stage by stage, beside what was measured here.

use crate::record::contest::Carried;
use crate::{Interval, Layer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a report says of a stage and what is measured of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Requests answered as expected, per second.
    ThroughputHz,
    /// Share of the requests that failed.
    FailedShare,
    /// Mean response time of requests that went well, in ms.
    MeanMs,
    /// Median of the same in ms.
    P50Ms,
    /// 95th percentile of the same in ms.
    P95Ms,
    /// 99th percentile of the same in ms.
    P99Ms,
    /// Offered rate at which a rising load was no longer borne, per second; the highest there was where it was.
    BorneHz,
    /// CPU time of all tiers for each request that went well, in ms.
    CpuMsPerRequest,
    /// Files a request opens, on average.
    OpensPerRequest,
    /// Most connections that the first tier held to the next one.
    UpstreamConnections,
}

impl Measure {
    /// What it is, in words, with its unit.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::ThroughputHz => "requests/s",
            Self::FailedShare => "failed",
            Self::MeanMs => "mean, ms",
            Self::P50Ms => "median, ms",
            Self::P95Ms => "p95, ms",
            Self::P99Ms => "p99, ms",
            Self::BorneHz => "highest rate that held, /s",
            Self::CpuMsPerRequest => "CPU a request, ms",
            Self::OpensPerRequest => "files opened a request",
            Self::UpstreamConnections => "upstream connections",
        }
    }

    /// Its value of a stretch of load with the CPU time of all tiers in seconds; `None` where the load does not tell.
    #[must_use]
    pub fn of(self, carried: &Carried) -> Option<f64> {
        let done = carried.response.count() as f64;
        let positive = |value: f64| (value > 0.0).then_some(value);
        match self {
            Self::ThroughputHz => positive(carried.window_s).map(|window_s| done / window_s),
            Self::FailedShare => (carried.arrivals > 0).then(|| carried.failed_share()),
            Self::MeanMs => carried.response.mean_ms(),
            Self::P50Ms => carried.response.quantile_ms(0.5),
            Self::P95Ms => carried.response.quantile_ms(0.95),
            Self::P99Ms => carried.response.quantile_ms(0.99),
            Self::CpuMsPerRequest => carried.cpu_ms_per_request(),
            Self::BorneHz | Self::OpensPerRequest | Self::UpstreamConnections => None,
        }
    }
}

/// A replayed report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Replay {
    /// Its short name: `S2`.
    pub report: String,
    /// What it is about.
    pub title: String,
    /// What it tells, in our words.
    pub told: String,
    /// Why numbers here differ from the report's, a sentence each.
    pub differs: Vec<String>,
    /// The loads, in the order of [`Stage::carried`].
    pub loads: Vec<PlayedLoad>,
    /// The stages, in the order of the report.
    pub stages: Vec<Stage>,
    /// What the report claims, beside what was measured.
    pub claims: Vec<Claim>,
    /// How much of a difference is configuration.
    pub gaps: Vec<Gap>,
    /// How many hosts of the last stage do what so many of the first did.
    pub hosts: Option<Hosts>,
}

/// A load that stages are offered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PlayedLoad {
    /// Its name.
    pub name: String,
    /// As written, in the syntax of the report's tool.
    pub text: String,
    /// Rounds in which each stage had a turn.
    pub rounds: u32,
}

/// One state of the stack.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// What was done to get there, in words.
    pub did: String,
    /// What the report says of it.
    pub reported: BTreeMap<Measure, f64>,
    /// What was measured of it under the first load.
    pub measured: BTreeMap<Measure, f64>,
    /// Its tiers: `php fpm 8.2.35`.
    pub tiers: Vec<String>,
    /// How it bore each load.
    pub carried: Vec<Carried>,
    /// Offered rate until which each load was borne, per second, in the same order; `None` of a load that does not rise.
    #[serde(default)]
    pub borne_hz: Vec<Option<f64>>,
    /// Cores that each tier used under the first load, on average.
    pub cores: BTreeMap<Layer, f64>,
    /// Sockets that the tier with the most of them held during the first round.
    pub sockets: Option<Sockets>,
    /// What was found of it without being told; `None` where nobody looked.
    pub diagnosed: Option<Diagnosed>,
    /// What ended it, where it did not last until the end.
    pub last_words: Option<String>,
}

/// Sockets over the time of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sockets {
    /// Who held them.
    pub layer: Layer,
    /// Towards whom.
    pub peer: String,
    /// Seconds since the load began, and sockets in TIME_WAIT.
    pub time_wait: Vec<(f64, f64)>,
    /// Seconds since the load began, and established connections.
    pub established: Vec<(f64, f64)>,
    /// Local ports there are for them; `None` where that is not known.
    pub port_range: Option<f64>,
}

impl Sockets {
    /// The most local ports that were taken at a time, in TIME_WAIT or not.
    #[must_use]
    pub fn most(&self) -> f64 {
        let taken = self.time_wait.iter().map(|(at_s, waiting)| {
            let same = self.established.iter().find(|(other_s, _)| other_s == at_s);
            waiting + same.map_or(0.0, |(_, count)| *count)
        });
        taken.fold(0.0, f64::max)
    }
}

/// What a diagnosis said of a stage.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Diagnosed {
    /// The report's cause as codes of rules, any of which is right; empty where the report names none.
    pub cause: Vec<String>,
    /// What else must be among the findings: what a stage added to a cause that is still there.
    #[serde(default)]
    pub also: Vec<String>,
    /// What was found, the most likely first.
    pub found: Vec<Named>,
    /// R* per second with its 95 % interval.
    pub limit: Interval,
}

/// A finding in short.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Named {
    /// The rule's code.
    pub code: String,
    /// Its title.
    pub title: String,
    /// What it was seen by.
    pub seen: String,
}

impl Diagnosed {
    /// Whether the report's cause was named first; `None` where the report names none.
    #[must_use]
    pub fn is_named_first(&self) -> Option<bool> {
        let first = self.found.first();
        (!self.cause.is_empty()).then(|| first.is_some_and(|it| self.cause.contains(&it.code)))
    }

    /// What must be among the findings and is not.
    pub fn missed(&self) -> impl Iterator<Item = &str> {
        let is_found = |code: &&String| self.found.iter().any(|it| it.code == **code);
        let missed = self.also.iter().filter(move |code| !is_found(code));
        missed.map(String::as_str)
    }
}

/// A claim of the report: what one stage is over another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// In words.
    pub what: String,
    /// What is measured.
    pub measure: Measure,
    /// Under which of the loads.
    #[serde(default)]
    pub load: usize,
    /// The stages: from this one to that one.
    pub from: String,
    /// See `from`.
    pub to: String,
    /// What must hold for the claim to be met here.
    pub needs: Needs,
    /// What the second stage is over the first, in the report.
    pub reported_ratio: Option<f64>,
    /// The same here, with its 95 % interval where there were rounds enough: low and high are the estimate otherwise.
    pub measured_ratio: Option<Interval>,
    /// What was measured of both.
    pub measured: (Option<f64>, Option<f64>),
    /// Whether it is met; `None` where it was not measured.
    pub is_met: Option<bool>,
}

/// Bounds that a claim is held to; those that are `None` ask nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Needs {
    /// The ratio is at least this.
    pub ratio_at_least: Option<f64>,
    /// The ratio is at most this.
    pub ratio_at_most: Option<f64>,
    /// The first stage's value is at least this.
    pub from_at_least: Option<f64>,
    /// The second stage's value is at least this.
    pub to_at_least: Option<f64>,
    /// The second stage's value is at most this.
    pub to_at_most: Option<f64>,
}

impl Claim {
    /// Judges what was measured of both stages, with their ratio.
    pub fn judge(&mut self, values: (Option<f64>, Option<f64>), ratio: Option<Interval>) {
        self.measured = values;
        self.measured_ratio = ratio;
        let ratio = ratio.map(|ratio| ratio.estimate);
        let needs = self.needs;
        let holds = |value: Option<f64>, least: Option<f64>, most: Option<f64>| {
            if least.is_none() && most.is_none() {
                return Some(true);
            }
            let value = value?;
            Some(least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most))
        };
        let all = [
            holds(ratio, needs.ratio_at_least, needs.ratio_at_most),
            holds(values.0, needs.from_at_least, None),
            holds(values.1, needs.to_at_least, needs.to_at_most),
        ];
        self.is_met = match values.1 {
            None => None,
            Some(_) => all.into_iter().try_fold(true, |met, one| Some(met && one?)),
        };
    }
}

/// How much of the difference between two stages one change makes: the share of its logarithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// In words.
    pub what: String,
    /// What is measured.
    pub measure: Measure,
    /// The slow stage, the same with the change, and the fast one.
    pub stages: [String; 3],
    /// The share with its 95 % interval; `None` where it could not be measured.
    pub share: Option<Interval>,
}

/// How many hosts do the same work.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Hosts {
    /// Hosts of the first stage, in the report.
    pub before: f64,
    /// Hosts of the last stage, in the report.
    pub after: f64,
    /// What one of the first bears per second, predicted from low load.
    pub before_hz: Interval,
    /// What one of the last bears per second, predicted from low load.
    pub after_hz: Interval,
}

impl Hosts {
    /// Hosts of the last stage that bear what the report's hosts of the first bear.
    #[must_use]
    pub fn needed(&self) -> f64 {
        let work_hz = self.before * self.before_hz.estimate;
        (work_hz / self.after_hz.estimate.max(1e-9)).ceil().max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(needs: Needs) -> Claim {
        Claim {
            what: "served".into(),
            measure: Measure::ThroughputHz,
            load: 0,
            from: "a".into(),
            to: "b".into(),
            needs,
            reported_ratio: Some(9.0),
            measured_ratio: None,
            measured: (None, None),
            is_met: None,
        }
    }

    fn check(needs: Needs, values: (Option<f64>, Option<f64>), expected: Option<bool>) {
        let ratio = values.0.zip(values.1).filter(|(from, _)| *from > 0.0);
        let ratio = ratio.map(|(from, to)| Interval {
            low: to / from,
            estimate: to / from,
            high: to / from,
        });
        let mut claim = claim(needs);
        claim.judge(values, ratio);
        assert_eq!(claim.is_met, expected, "{needs:?} of {values:?}");
    }

    #[test]
    fn a_claim_is_met_when_all_it_needs_holds() {
        let nine = Needs {
            ratio_at_least: Some(9.0),
            ..Needs::default()
        };
        check(nine, (Some(10.0), Some(95.0)), Some(true));
        check(nine, (Some(10.0), Some(80.0)), Some(false));
        check(nine, (Some(0.0), Some(80.0)), None);
        check(nine, (None, None), None);
        let gone = Needs {
            from_at_least: Some(0.2),
            to_at_most: Some(0.0),
            ..Needs::default()
        };
        check(gone, (Some(0.5), Some(0.0)), Some(true));
        check(gone, (Some(0.1), Some(0.0)), Some(false));
        check(gone, (Some(0.5), Some(0.01)), Some(false));
    }

    #[test]
    fn hosts_are_counted_by_what_one_bears() {
        let at = |estimate| Interval {
            low: estimate,
            estimate,
            high: estimate,
        };
        let hosts = Hosts {
            before: 5.0,
            after: 2.0,
            before_hz: at(20.0),
            after_hz: at(60.0),
        };
        assert_eq!(hosts.needed(), 2.0);
    }

    #[test]
    fn the_cause_must_be_the_first_that_is_named() {
        let named = |codes: &[&str]| {
            let found = codes.iter().map(|code| Named {
                code: (*code).to_owned(),
                ..Named::default()
            });
            Diagnosed {
                cause: vec!["OPC-01".into(), "OPC-02".into()],
                also: vec!["PG-02".into()],
                found: found.collect(),
                limit: Interval::default(),
            }
        };
        assert_eq!(named(&["OPC-02", "PG-02"]).is_named_first(), Some(true));
        assert_eq!(named(&["PG-02", "OPC-01"]).is_named_first(), Some(false));
        assert_eq!(named(&[]).is_named_first(), Some(false));
        assert_eq!(Diagnosed::default().is_named_first(), None);
        assert_eq!(named(&["OPC-02", "PG-02"]).missed().count(), 0);
        assert_eq!(named(&["OPC-02"]).missed().collect::<Vec<_>>(), ["PG-02"]);
    }

    #[test]
    fn ports_in_time_wait_are_taken_too() {
        let sockets = Sockets {
            time_wait: vec![(1.0, 10.0), (2.0, 30.0)],
            established: vec![(1.0, 5.0), (2.0, 5.0)],
            layer: Layer::Proxy,
            peer: "web".into(),
            port_range: None,
        };
        assert_eq!(sockets.most(), 35.0);
    }
}
