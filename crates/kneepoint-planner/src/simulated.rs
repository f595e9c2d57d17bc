//! A simulated stack behind the same interface as a real one: for dry runs, and as the known truth that the
//! estimators are tested against.
//!
//! [`pool`] is the queueing model, [`noise`] the machine under it, [`truth`] what is true of the two.

mod app;
mod drive;
mod noise;
pub mod pool;
mod truth;

pub use app::{App, RequestKind};
pub use noise::{Noise, Others};
pub(crate) use truth::WINDOW_S;
pub use truth::{Truth, truth};

use crate::bench::{Bench, Step};
use crate::random::Random;
use drive::{Bed, Drive};
use kneepoint_model::{LoadPoint, Slo, VisitShape};
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
        let mut machine = self.machine.clone();
        let (point, until_s) = self.drive_on(&mut machine, (arm, 1.0), step);
        self.machine = machine;
        self.driven_s += point.window_s + step.skip.as_secs_f64();
        self.now_s = until_s + BETWEEN_S;
        point
    }

    /// The same at two arms at once, each with half of the cores.
    fn drive_both(&mut self, arms: [&str; 2], step: &Step) -> [LoadPoint; 2] {
        // Each goes through the same seconds of the same machine.
        let mut machines = [self.machine.clone(), self.machine.clone()];
        let [first, second] = &mut machines;
        let (one, one_until_s) = self.drive_on(first, (arms[0], 0.5), step);
        let (other, other_until_s) = self.drive_on(second, (arms[1], 0.5), step);
        let [first, second] = machines;
        self.machine = if one_until_s > other_until_s {
            first
        } else {
            second
        };
        self.driven_s += one.window_s.max(other.window_s) + step.skip.as_secs_f64();
        self.now_s = one_until_s.max(other_until_s) + BETWEEN_S;
        [one, other]
    }

    /// Drives a step at an arm that has this share of a machine; returns also when it had come to rest.
    fn drive_on(
        &mut self,
        machine: &mut Machine,
        (arm, share): (&str, f64),
        step: &Step,
    ) -> (LoadPoint, f64) {
        let app = &self.app;
        let (app, pool) = self
            .arms
            .entry(arm.to_owned())
            .or_insert_with(|| (app.clone(), Pool::new(app.size)));
        let mut bed = Bed {
            app,
            slo: &self.slo,
            pool,
            machine,
            sizes: &mut self.sizes,
            next_id: &mut self.next_id,
            share,
        };
        rest(&mut bed, self.now_s, false);
        let point = Drive::new(&mut bed, step).run();
        let until_s = bed.pool.now_s() + DRAIN_S;
        rest(&mut bed, until_s, true);
        (point, bed.pool.now_s())
    }
}

/// Lets a pool go on without load, until a moment or until it is empty.
fn rest(bed: &mut Bed<'_>, until_s: f64, until_empty: bool) {
    while bed.pool.now_s() < until_s && !(until_empty && bed.pool.is_empty()) {
        let pace_until_s = if bed.pool.is_empty() {
            until_s
        } else {
            bed.keep_pace(bed.pool.now_s())
        };
        while bed.pool.advance(pace_until_s.min(until_s)).is_some() {
            if until_empty && bed.pool.is_empty() {
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

    fn visit(&self) -> Option<VisitShape> {
        let requests = self.app.requests_a_visit?;
        Some(VisitShape {
            requests: f64::from(requests),
            pauses: Duration::ZERO,
        })
    }

    fn now(&self) -> Duration {
        self.elapsed()
    }

    fn measure(&mut self, arm: &str, step: &Step) -> Result<LoadPoint, Self::Error> {
        Ok(self.drive(arm, step))
    }

    fn measure_both(
        &mut self,
        arms: [&str; 2],
        step: &Step,
    ) -> Result<[LoadPoint; 2], Self::Error> {
        Ok(self.drive_both(arms, step))
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
    fn both_at_once_take_as_much_cpu_a_request_as_alone_and_serve_half() {
        let of = |noise| {
            let mut stack =
                stack(App::default(), noise, 6).with_arm("slow", App::default().faster(0.5));
            let step = Step::saturating("", 32, Duration::from_secs(40), 1);
            let alone = stack.drive("base", &step);
            let [base, slow] = stack.drive_both(["base", "slow"], &step);
            (alone, base, slow)
        };
        let (alone, base, slow) = of(Noise::none());
        let cpu_ms = |point: &LoadPoint| point.cpu_ms.expect("it counts");
        assert!((cpu_ms(&base) / cpu_ms(&alone) - 1.0).abs() < 0.05);
        assert!((cpu_ms(&slow) / cpu_ms(&base) / 2.0 - 1.0).abs() < 0.05);
        assert!((base.throughput_hz() / alone.throughput_hz() - 0.5).abs() < 0.03);
        let idle = |point: &LoadPoint| point.health.idle_share.expect("it looks");
        assert!(idle(&alone) < 0.05 && idle(&base) < 0.05, "{alone:?}");
        // Others take part of the machine, and what a request takes stays about the same.
        let (_, base, slow) = of(Noise::busy());
        let foreign = base.health.foreign_share.expect("it looks");
        assert!((0.1..0.4).contains(&foreign), "{foreign}");
        assert!((cpu_ms(&slow) / cpu_ms(&base) / 2.0 - 1.0).abs() < 0.05);
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
