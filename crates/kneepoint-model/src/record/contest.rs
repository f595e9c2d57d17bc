//! Several configurations on one bench, measured in turns: runtimes, scenarios, settings.

use crate::load::histogram::LatencyHistogram;
use crate::{Effect, Interval, LoadPoint, OutcomeCounts, Setting};
use serde::{Deserialize, Serialize};

/// What `compare` measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Contest {
    /// The loads that all were offered, in the order of [`Contestant::carried`].
    pub profiles: Vec<Profile>,
    /// Who was compared; differences are told against the first.
    pub contestants: Vec<Contestant>,
}

/// A load that every contestant is offered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Profile {
    /// `standard`: what all of them bear; `stress`: what the best of them bears.
    pub name: String,
    /// Offered rate per second.
    pub rate_hz: f64,
    /// Steps of each contestant, in turns.
    pub rounds: u32,
    /// Length of a step in seconds.
    pub step_s: f64,
}

/// One configuration and what was measured of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Contestant {
    /// Its name in the comparison.
    pub name: String,
    /// Its tiers in the order a request meets them: `proxy nginx 1.22.1`.
    pub tiers: Vec<String>,
    /// What tuning changed before; empty when it is compared as it is.
    pub tuned: Vec<Setting>,
    /// R* per second with its 95 % interval; `None` where it was not found.
    pub limit: Option<Interval>,
    /// From the start of the runtime until it takes connections, in ms.
    pub start_ms: Option<f64>,
    /// The first request of all, which compiles the application, in ms.
    pub first_response_ms: Option<f64>,
    /// How it bore each profile.
    pub carried: Vec<Carried>,
    /// Throughput at saturation over that of the first contestant; `None` for the first, and without enough rounds.
    pub against_first: Option<Effect>,
    /// What ended it, where it did not last until the end.
    pub last_words: Option<String>,
}

/// The steps of one profile, taken together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Carried {
    /// Response times of requests that went well.
    pub response: LatencyHistogram,
    /// How requests ended.
    pub outcomes: OutcomeCounts,
    /// Requests.
    pub arrivals: u64,
    /// Requests that met the SLO.
    pub good: u64,
    /// Time in seconds.
    pub window_s: f64,
    /// CPU time of all tiers in seconds; `None` where it was not measured.
    pub cpu_s: Option<f64>,
    /// Proportional set size (PSS) of the PHP tier in bytes, the largest seen; `None` where it was not measured.
    pub memory_bytes: Option<f64>,
    /// Steps that do not count, by the generator's own gates.
    pub invalid_steps: u32,
}

impl Carried {
    /// Adds a step with the CPU time of all tiers in seconds and the memory of the PHP tier in bytes. One that is not
    /// valid is counted, and no more.
    pub fn add(&mut self, point: &LoadPoint, cpu_s: Option<f64>, memory_bytes: Option<f64>) {
        if !point.validity.is_valid() {
            self.invalid_steps += 1;
            return;
        }
        self.response.merge(&point.response);
        self.outcomes.merge(&point.outcomes);
        self.arrivals += point.arrivals;
        self.good += point.good;
        self.window_s += point.window_s;
        self.cpu_s = self.cpu_s.into_iter().chain(cpu_s).reduce(|a, b| a + b);
        self.memory_bytes = self
            .memory_bytes
            .into_iter()
            .chain(memory_bytes)
            .reduce(f64::max);
    }

    /// CPU time of all tiers for each request that went well, in ms.
    #[must_use]
    pub fn cpu_ms_per_request(&self) -> Option<f64> {
        let done = self.response.count();
        (done > 0).then(|| self.cpu_s.map(|cpu_s| cpu_s * 1e3 / done as f64))?
    }

    /// Share of the requests that failed.
    #[must_use]
    pub fn failed_share(&self) -> f64 {
        self.outcomes.failed() as f64 / self.arrivals.max(1) as f64
    }

    /// Requests within the SLO, per second.
    #[must_use]
    pub fn goodput_hz(&self) -> f64 {
        if self.window_s > 0.0 {
            self.good as f64 / self.window_s
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, Validity};

    fn step(ok: u64, failed: u64) -> LoadPoint {
        let mut point = LoadPoint {
            window_s: 2.0,
            arrivals: ok + failed,
            good: ok,
            ..LoadPoint::default()
        };
        point.outcomes.by_outcome.insert(Outcome::Ok, ok);
        point.outcomes.by_outcome.insert(Outcome::Timeout, failed);
        (0..ok).for_each(|_| point.response.record_us(1000));
        point
    }

    #[test]
    fn steps_add_up() {
        let mut carried = Carried::default();
        carried.add(&step(90, 10), Some(0.2), Some(1e6));
        carried.add(&step(100, 0), Some(0.18), Some(3e6));
        assert_eq!(carried.cpu_ms_per_request(), Some(2.0));
        assert_eq!(carried.memory_bytes, Some(3e6));
        assert_eq!(carried.failed_share(), 0.05);
        assert_eq!(carried.goodput_hz(), 47.5);
    }

    #[test]
    fn a_step_that_does_not_count_is_only_counted() {
        let mut carried = Carried::default();
        let late = LoadPoint {
            validity: Validity::Invalid {
                because: vec!["late".into()],
            },
            ..step(90, 10)
        };
        carried.add(&late, Some(0.2), None);
        let expected = Carried {
            invalid_steps: 1,
            ..Carried::default()
        };
        assert_eq!(carried, expected);
        assert_eq!(carried.cpu_ms_per_request(), None);
    }
}
