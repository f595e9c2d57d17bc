//! Looks at a stack of which nothing is known yet: the rate is raised until a look says roughly what R* will be.

use super::cost::{USUAL_SAVING, idle_of};
use super::fit::fit;
use super::low_load::{LowLoadStep, PlannedHost};
use super::twin::REQUESTS;
use crate::bench::Step;
use kneepoint_model::{CpuTime, LoadPoint, Slo};
use std::time::Duration;

/// Rate of the first look, per second.
const FIRST_HZ: f64 = 2.0;
/// Length of a look, and of the first one: it hardly asks anything, and shows what the machine does without.
const LOOK: Duration = Duration::from_secs(3);
const FIRST_LOOK: Duration = Duration::from_secs(8);
/// Share of cores or workers in use from which on a look says enough: what samples the machine takes a tenth by itself.
const LOOKED: f64 = 0.3;
/// Most that the rate grows between two looks.
const STRIDE: f64 = 6.0;
/// Looks at most.
const LOOKS: u32 = 7;

/// What the looks say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoughCapacity {
    /// Roughly R*, per second.
    pub limit_hz: f64,
    /// Cores that are busy without a request; `None` where already the first look used much of the machine.
    pub idle_cores: Option<f64>,
}

/// The looks as a state machine: ask [`Self::next_step`], measure, [`Self::record`], repeat.
#[derive(Debug, Clone)]
pub struct FirstLooks {
    host: PlannedHost,
    rate_hz: f64,
    made: u32,
    is_over: bool,
    seen: Vec<LowLoadStep>,
}

impl FirstLooks {
    /// Looks at a host.
    #[must_use]
    pub fn new(host: PlannedHost) -> Self {
        Self {
            host,
            rate_hz: FIRST_HZ,
            made: 0,
            is_over: false,
            seen: Vec::new(),
        }
    }

    /// The look to take next; none when cores or workers are in use well enough, or it was tried often enough.
    #[must_use]
    pub fn next_step(&self) -> Option<Step> {
        let length = if self.made == 0 { FIRST_LOOK } else { LOOK };
        let seed = 5 + u64::from(self.made);
        let wanted = !self.is_over && self.made < LOOKS;
        wanted.then(|| Step::at_rate("plan: look", self.rate_hz, length, seed).to_the_end())
    }

    /// Takes in a look.
    pub fn record(&mut self, load: &LoadPoint, cpu: &CpuTime) {
        let looked = LowLoadStep::of(0, load, cpu);
        let busiest = in_use(&looked, self.host);
        if looked.response.count() > 0 {
            self.seen.push(looked);
        }
        self.made += 1;
        self.is_over = busiest >= LOOKED;
        self.rate_hz *= (1.5 * LOOKED / busiest.max(1e-3)).clamp(1.5, STRIDE);
    }

    /// What the looks say; `None` where no request was answered.
    #[must_use]
    pub fn rough(&self, slo: &Slo) -> Option<RoughCapacity> {
        // The first hardly asks anything: the line through it and the last comes from what the machine does without a
        // request.
        let idle_cores = match &self.seen[..] {
            [first, .., last] => Some(idle_of(&[first, last].map(LowLoadStep::busy))),
            _ => None,
        };
        // Of requests so rare that each finds the machine asleep nothing is to be learned of those at R*.
        let host = PlannedHost {
            idle_cores,
            saving: Some(USUAL_SAVING),
            ..self.host
        };
        let last = self.seen.last().map(std::slice::from_ref)?;
        let twin = fit(last, host, slo).twin;
        let (saturation_hz, _) = twin.saturation();
        if !(saturation_hz.is_finite() && saturation_hz > 0.0) {
            return None;
        }
        // Where the SLO does not hold even nearly alone, what saturates is all that there is to go by.
        let limit_hz = twin.long_run_hz(slo, REQUESTS, 1);
        Some(RoughCapacity {
            limit_hz: if limit_hz > 0.05 * saturation_hz {
                limit_hz
            } else {
                saturation_hz
            },
            idle_cores,
        })
    }
}

/// Share of the cores that others leave or of the workers in use, whichever is more.
fn in_use(seen: &LowLoadStep, host: PlannedHost) -> f64 {
    let held_s = seen.response.mean_ms().unwrap_or(0.0) / 1e3;
    let workers = seen.rate_hz * held_s / f64::from(host.workers.max(1));
    let left = (host.cores - seen.others_cores).max(0.05);
    (seen.own_cores() / left).max(workers)
}
