//! A simulated stack behind the same interface as a real one: for dry runs, and as the known truth that the
//! estimators are tested against.
//!
//! [`pool`] is the queueing model, [`noise`] the machine under it, [`truth`] what is true of the two.

mod app;
mod drive;
mod noise;
pub mod pool;
mod truth;

pub use app::{App, Kind};
pub use noise::Noise;
pub(crate) use truth::WINDOW_S;
pub use truth::{Truth, truth};

use crate::bench::{Bench, Step};
use crate::random::Random;
use drive::{Bed, Drive};
use kneepoint_model::{LoadPoint, Slo};
use noise::Machine;
use pool::Pool;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

/// How long a step's rest is waited for, as on the real testbed.
const DRAIN_S: f64 = 8.0;
/// What passes between two steps besides, in seconds.
const BETWEEN_S: f64 = 0.2;
/// What a canary reading takes, in seconds.
const CANARY_S: f64 = 0.3;

/// Configurations of a stack on one machine whose speed varies. Time goes on from step to step, and with it the
/// machine's drift. Runs with equal seeds and equal steps are equal.
///
/// What an arm's requests take is drawn anew for every request; arrivals and the sequence of kinds come from the
/// step's seed, so that two arms driven with one seed see the same requests.
#[derive(Debug, Clone)]
pub struct SimulatedStack {
    slo: Slo,
    machine: Machine,
    arms: BTreeMap<String, (App, Pool)>,
    /// What an arm that nobody added serves.
    app: App,
    sizes: Random,
    next_id: u64,
    now_s: f64,
    driven_s: f64,
}

impl SimulatedStack {
    /// A machine with this noise. Every arm serves `app`, unless it is given one of its own.
    #[must_use]
    pub fn new(app: App, slo: Slo, noise: Noise, seed: u64) -> Self {
        Self {
            slo,
            machine: Machine::new(noise, seed),
            arms: BTreeMap::new(),
            app,
            sizes: Random::new(seed, 3),
            next_id: 0,
            now_s: 0.0,
            driven_s: 0.0,
        }
    }

    /// The SLO that the simulation was made for, whose default suits [`App::default`]: p95 within 100 ms.
    #[must_use]
    pub fn usual_slo() -> Slo {
        Slo {
            response_time: Duration::from_millis(100),
            ..Slo::default()
        }
    }

    /// Gives an arm an application of its own.
    #[must_use]
    pub fn with_arm(mut self, name: &str, app: App) -> Self {
        let pool = Pool::new(app.size);
        self.arms.insert(name.to_owned(), (app, pool));
        self
    }

    /// Time under load so far, steps that ended early counted as long as they were.
    #[must_use]
    pub fn driven(&self) -> Duration {
        Duration::from_secs_f64(self.driven_s)
    }

    /// Simulated time so far, with what passed between the steps.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_secs_f64(self.now_s)
    }

    /// Core seconds that an arm's pool was in use so far; `None` for one that was never driven.
    #[must_use]
    pub fn busy_s(&self, arm: &str) -> Option<f64> {
        self.arms.get(arm).map(|(_, pool)| pool.busy_s())
    }

    /// Closed-loop workers that keep an arm's pool full, by the rule of the real testbed.
    #[must_use]
    pub fn saturating_workers(&self) -> u32 {
        (self.app.size.workers * 2).clamp(8, 64)
    }

    /// Drives a step at an arm from the present on, and rests: until the pool is empty, or for as long as is waited.
    fn drive(&mut self, arm: &str, step: &Step) -> LoadPoint {
        if !self.arms.contains_key(arm) {
            let pool = Pool::new(self.app.size);
            self.arms.insert(arm.to_owned(), (self.app.clone(), pool));
        }
        let Some((app, pool)) = self.arms.get_mut(arm) else {
            return LoadPoint::default();
        };
        rest(pool, &mut self.machine, self.now_s, false);
        let mut bed = Bed {
            app,
            slo: &self.slo,
            pool,
            machine: &mut self.machine,
            sizes: &mut self.sizes,
            next_id: &mut self.next_id,
        };
        let point = Drive::new(&mut bed, step).run();
        self.driven_s += point.window_s + step.skip.as_secs_f64();
        let until_s = pool.now_s() + DRAIN_S;
        rest(pool, &mut self.machine, until_s, true);
        self.now_s = pool.now_s() + BETWEEN_S;
        point
    }
}

/// Lets a pool go on without load, until a moment or until it is empty.
fn rest(pool: &mut Pool, machine: &mut Machine, until_s: f64, until_empty: bool) {
    while pool.now_s() < until_s && !(until_empty && pool.is_empty()) {
        let (speed, speed_until_s) = if pool.is_empty() {
            (1.0, until_s)
        } else {
            machine.speed(pool.now_s())
        };
        pool.set_speed(speed);
        while pool.advance(speed_until_s.min(until_s)).is_some() {
            if until_empty && pool.is_empty() {
                return;
            }
        }
    }
}

impl Bench for SimulatedStack {
    type Error = Infallible;

    fn slo(&self) -> &Slo {
        &self.slo
    }

    fn measure(&mut self, arm: &str, step: &Step) -> Result<LoadPoint, Self::Error> {
        Ok(self.drive(arm, step))
    }

    fn canary(&mut self) -> Option<f64> {
        let reading = self.machine.canary(self.now_s);
        self.now_s += CANARY_S;
        Some(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Outcome;

    fn stack(app: App, noise: Noise, seed: u64) -> SimulatedStack {
        SimulatedStack::new(app, SimulatedStack::usual_slo(), noise, seed)
    }

    fn at(stack: &mut SimulatedStack, rate_hz: f64, seconds: u64) -> LoadPoint {
        let step = Step::at_rate("", rate_hz, Duration::from_secs(seconds), 9);
        stack.drive("base", &step.to_the_end())
    }

    #[test]
    fn a_closed_loop_reaches_the_capacity() {
        let mut stack = stack(App::default(), Noise::none(), 1);
        let step = Step::saturating("", 32, Duration::from_secs(30), 1);
        let point = stack.drive("base", &step);
        let known = App::default().capacity_hz();
        assert!(
            (point.throughput_hz() / known - 1.0).abs() < 0.03,
            "{}",
            point.throughput_hz()
        );
        assert_eq!(point.outcomes.failed(), 0);
    }

    #[test]
    fn load_is_as_offered_and_every_arrival_has_an_outcome() {
        let mut stack = stack(App::default(), Noise::medium(), 2);
        let point = at(&mut stack, 150.0, 60);
        assert!(
            (point.arrivals as f64 / 59.0 / 150.0 - 1.0).abs() < 0.05,
            "{}",
            point.arrivals
        );
        assert_eq!(point.outcomes.total(), point.arrivals);
        assert!(point.violating_share() < 0.02, "{}", point.describe());
    }

    #[test]
    fn overload_times_out_and_a_small_backlog_refuses_at_once() {
        let overloaded = at(&mut stack(App::default(), Noise::none(), 3), 500.0, 20);
        assert!(
            overloaded.outcomes.of(Outcome::Timeout) > 0,
            "{overloaded:?}"
        );
        let mut small = App::default();
        small.size.backlog = 4;
        let refused = at(&mut stack(small, Noise::none(), 3), 500.0, 20);
        assert_eq!(refused.outcomes.of(Outcome::Timeout), 0);
        assert!(
            refused.outcomes.of(Outcome::HttpError) > 1000,
            "{refused:?}"
        );
    }

    #[test]
    fn a_hopeless_step_ends_early() {
        let mut stack = stack(App::default(), Noise::none(), 4);
        let step = Step::at_rate("", 600.0, Duration::from_secs(10), 1);
        let point = stack.drive("base", &step);
        assert!(point.aborted && point.window_s < 4.0, "{}", point.window_s);
        assert!(stack.driven() < Duration::from_secs(5));
    }

    #[test]
    fn equal_seeds_are_equal_runs_and_others_are_not() {
        let run = |seed| {
            let mut stack = stack(App::default(), Noise::high(), seed);
            (at(&mut stack, 250.0, 20), stack.canary())
        };
        assert_eq!(run(5), run(5));
        assert_ne!(run(5), run(6));
    }

    #[test]
    fn a_slow_machine_slows_the_stack_and_the_canary_alike() {
        let noise = Noise {
            canary_error: 0.0,
            drift_s: 1e6,
            ..Noise::high()
        };
        let mut checked = 0;
        for seed in 0..20 {
            let mut stack = stack(App::default(), noise, seed);
            let speed = stack.canary().expect("it has one");
            if (speed - 1.0).abs() < 0.05 {
                continue;
            }
            let step = Step::saturating("", 32, Duration::from_secs(40), 1);
            let reached = stack.drive("base", &step).throughput_hz() / App::default().capacity_hz();
            assert!(
                (reached / speed - 1.0).abs() < 0.04,
                "{reached} at speed {speed}"
            );
            checked += 1;
        }
        assert!(checked >= 5, "{checked}");
    }
}
