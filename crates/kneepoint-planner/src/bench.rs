//! One measured step, as planners ask for it.

use kneepoint_model::{LoadPoint, Slo, VisitShape};
use std::time::Duration;

/// How load is offered in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Offer {
    /// Open loop at this rate per second: of visits where visitors come, else of requests.
    Rate(f64),
    /// Closed loop with this many workers. Visitors make no pauses in it: it asks what the stack can do.
    Workers(u32),
}

/// A stretch of load to drive at one arm.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What it is for; goes into the run record.
    pub purpose: String,
    /// How load is offered.
    pub offer: Offer,
    /// Length, the skipped start included.
    pub duration: Duration,
    /// What is discarded at the start.
    pub skip: Duration,
    /// Whether the step starts from rest: a pool that shrinks when idle has shrunk.
    pub rested: bool,
    /// Whether a hopeless step may be ended early.
    pub may_abort: bool,
    /// How many of the slowest requests are named: then each carries a name, in `X-Request-Id`.
    pub slowest: usize,
    /// Seed of the arrivals and of the mix: equal seeds drive equal requests.
    pub seed: u64,
}

impl Step {
    /// An open-loop step that discards its first second (or a fifth, when it is short).
    #[must_use]
    pub fn at_rate(purpose: &str, rate_hz: f64, duration: Duration, seed: u64) -> Self {
        Self {
            purpose: purpose.to_owned(),
            offer: Offer::Rate(rate_hz),
            duration,
            skip: Duration::from_secs(1).min(duration / 5),
            rested: false,
            may_abort: true,
            slowest: 0,
            seed,
        }
    }

    /// The same step, driven to its end however hopeless it is: what it shows is asked for, and not whether the SLO holds.
    #[must_use]
    pub fn to_the_end(self) -> Self {
        Self {
            may_abort: false,
            ..self
        }
    }

    /// A closed-loop step at saturation.
    #[must_use]
    pub fn saturating(purpose: &str, workers: u32, duration: Duration, seed: u64) -> Self {
        Self {
            purpose: purpose.to_owned(),
            offer: Offer::Workers(workers),
            duration,
            skip: Duration::from_secs(1).min(duration / 4),
            rested: false,
            may_abort: false,
            slowest: 0,
            seed,
        }
    }
}

/// What the canary said around a step: how fast the machine was, relative to the bench's reference.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Canary {
    /// Before the step; `None` where the bench has no canary.
    pub before: Option<f64>,
    /// After it.
    pub after: Option<f64>,
}

impl Canary {
    /// The speed during the step: the geometric mean of both readings.
    #[must_use]
    pub fn during(&self) -> Option<f64> {
        Some((self.before? * self.after?).sqrt())
    }
}

/// Something that measures steps: the testbed, or a simulated stack.
pub trait Bench {
    /// What may go wrong.
    type Error;

    /// When a request counts as good.
    fn slo(&self) -> &Slo;

    /// What a visit is by the scenario; `None` where every request stands for itself. An open loop of visits is at its rate
    /// only after as long as a visit pauses.
    fn visit(&self) -> Option<VisitShape> {
        None
    }

    /// Time since the bench was opened: what budgets are kept by, and simulated where the stack is.
    fn now(&self) -> Duration;

    /// Drains the arm, drives the step at it and returns what was measured.
    ///
    /// # Errors
    /// The arm is gone or the generator could not run. A bad measurement is not an error: see
    /// [`LoadPoint::validity`].
    fn measure(&mut self, arm: &str, step: &Step) -> Result<LoadPoint, Self::Error>;

    /// Drives the same step at two arms in the same seconds and returns what each of them did: what the machine does then,
    /// it does to both. The two share the machine, so that their throughput says nothing; the CPU time a request took is
    /// each one's own (docs/noise.md).
    ///
    /// # Errors
    /// As [`Self::measure`].
    fn measure_both(&mut self, arms: [&str; 2], step: &Step)
    -> Result<[LoadPoint; 2], Self::Error>;

    /// The machine's speed now, relative to a reference that stays the same for the life of the bench, by timing a
    /// fixed piece of work (method.md section 2). `None` where there is no such thing.
    fn canary(&mut self) -> Option<f64> {
        None
    }

    /// CPU time in ms of the canary's piece of work at the reference speed; `None` where there is none.
    fn canary_ms(&self) -> Option<f64> {
        None
    }

    /// Measures a step with a canary reading before and after it.
    ///
    /// # Errors
    /// As [`Self::measure`].
    fn measure_with_canary(
        &mut self,
        arm: &str,
        step: &Step,
    ) -> Result<(LoadPoint, Canary), Self::Error> {
        let before = self.canary();
        let point = self.measure(arm, step)?;
        let after = self.canary();
        Ok((point, Canary { before, after }))
    }
}
