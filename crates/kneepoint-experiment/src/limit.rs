//! Finding R*: the highest offered rate at which the SLO holds.
//!
//! The algorithm is `find_limit` of method.md: a closed loop at saturation gives the prior, short open-loop
//! steps straddle the current estimate, a Bayesian fit of the violating share gives R* with an interval, and
//! a longer stretch at the interval's lower end confirms it. The CPU time that a request took, and a canary, say how fast
//! the machine was during each step, and what others used how much of it there was, so that a machine that drifts, or has
//! other work, moves the rates and not the result at reference speed. No step is left out for what others did.

mod soak;
mod speed;
#[cfg(test)]
mod tests;

use crate::bench::{Canary, Step};
use kneepoint_model::run::{LimitNoise, LimitResult};
use kneepoint_model::statistics::limit_fit::{Fit, FitStep, Prior, fit};
use kneepoint_model::units::format_share;
use kneepoint_model::{Interval, LoadPoint, Outcome, Slo};
use soak::Soak;
use speed::{Reading, Speeds};
use std::time::Duration;

/// Time over load time of a search: between the steps the queue runs empty and the machine's speed is looked at. A search of
/// 81 s of load took 94 s on the demo's stack.
const WITH_RESTS: f64 = 1.15;

/// How much effort a search may take.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitOptions {
    /// Load time after which the search stops refining (the soak comes on top).
    pub load_time: Duration,
    /// Relative half-width of the interval at which it stops earlier.
    pub target: f64,
    /// Standard deviation of the machine's speed from which on it does not: stopping on the width of the interval
    /// costs coverage on a noisy machine (method.md section 1).
    pub noisy: f64,
    /// Steps it takes at least.
    pub min_steps: usize,
    /// Length of the saturating closed loop.
    pub saturate: Duration,
    /// Closed-loop workers at saturation: twice the pool, so that it is full.
    pub workers: u32,
    /// Shortest step.
    pub step_min: Duration,
    /// Longest step.
    pub step_max: Duration,
    /// Length of the confirming stretch; zero goes without, for a limit that only says where to look.
    pub soak: Duration,
    /// Confirming stretches after the first at most, each at a lower rate.
    pub more_soaks: u32,
    /// Seed of the first step.
    pub seed: u64,
}

impl LimitOptions {
    /// The full search of method.md, five minutes of load in all, with what `cargo xtask method` found to be better:
    /// steps of 7 s (5 s there: the second that each leaves out is less of it, and the bias is gone; from 10 s on the
    /// machine's drift within a step costs more), and a confirming stretch of 45 s (60 s there: it adds nothing to what
    /// is known of R*).
    #[must_use]
    pub fn thorough(workers: u32) -> Self {
        Self {
            load_time: Duration::from_secs(215),
            target: 0.02,
            noisy: 0.02,
            min_steps: 10,
            saturate: Duration::from_secs(6),
            workers,
            step_min: Duration::from_secs(7),
            step_max: Duration::from_secs(15),
            soak: Duration::from_secs(45),
            more_soaks: 3,
            seed: 1,
        }
    }

    /// A search that fits the time it is given, for tuning under a budget. The interval is as wide as the
    /// data leave it. Steps of 5 s where there is a minute or more: each begins with an empty queue, so that from
    /// shorter ones R* comes out too high (`cargo xtask method --budget 180`: 0.6 to 0.9 % with 4 s and 0.0 to 0.2 % with 5 s,
    /// at the same spread; on real stacks, whose slowest requests take longer, by more).
    #[must_use]
    pub fn within(load_time: Duration, workers: u32) -> Self {
        let tight = load_time < Duration::from_secs(60);
        Self {
            load_time: load_time.mul_f64(0.75),
            target: if tight { 0.06 } else { 0.04 },
            // Under a budget the time that is saved is worth more than the last percent of coverage.
            noisy: f64::INFINITY,
            min_steps: if tight { 4 } else { 10 },
            saturate: Duration::from_secs(4),
            step_min: Duration::from_secs(if tight { 4 } else { 5 }),
            step_max: Duration::from_secs(if tight { 6 } else { 8 }),
            soak: load_time.mul_f64(0.25).max(Duration::from_secs(5)),
            more_soaks: 2,
            ..Self::thorough(workers)
        }
    }

    /// What the search takes where the first confirming stretch holds: the load, and the rests between the steps.
    #[must_use]
    pub fn takes(&self) -> Duration {
        (self.load_time + self.soak).mul_f64(WITH_RESTS)
    }

    /// What each confirming stretch after the first one takes.
    #[must_use]
    pub fn another_soak_takes(&self) -> Duration {
        self.soak.mul_f64(WITH_RESTS)
    }

    /// The same with only as many more confirming stretches as end within this time, the whole search included.
    #[must_use]
    pub fn ending_within(self, time: Duration) -> Self {
        if self.soak.is_zero() {
            return self;
        }
        let spare = time.saturating_sub(self.takes());
        let fit = spare.div_duration_f64(self.another_soak_takes()) as u32;
        Self {
            more_soaks: self.more_soaks.min(fit),
            ..self
        }
    }

    /// The same without the confirming stretch: for a limit that only says where to measure next.
    #[must_use]
    pub fn unconfirmed(self) -> Self {
        Self {
            soak: Duration::ZERO,
            ..self
        }
    }
}

/// What the search wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum LimitMove {
    /// Measure this step and hand the result to [`LimitSearch::record`].
    Measure(Step),
    /// The search is over.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Saturating,
    Stepping,
    Soaking,
    Finished,
}

/// The search as a state machine: ask [`Self::next_move`], measure, [`Self::record`], repeat.
#[derive(Debug, Clone)]
pub struct LimitSearch {
    slo: Slo,
    options: LimitOptions,
    stage: Stage,
    saturation_hz: f64,
    /// What the prior takes for the throughput at saturation: what the closed loop reached, until steps show more.
    prior_hz: f64,
    /// By how much the prior is raised when a step at its upper end holds.
    raise: f64,
    steps: Vec<StepRecord>,
    /// The fit of the violating share, and of the failed share where errors are a goal of their own.
    on_time: Fit,
    errors: Option<Fit>,
    /// What the canary said last.
    canary: Option<f64>,
    spent: Duration,
    soak: Soak,
    out_of_time: bool,
    warnings: Vec<String>,
    /// Invalid steps since the last that was sound, and how long they took.
    invalid: u32,
    invalid_time: Duration,
}

#[derive(Debug, Clone, Copy)]
struct StepRecord {
    rate_hz: f64,
    /// The rate of the arrivals that came: they are random, and a step that drew more of them is a higher load.
    drawn_hz: f64,
    arrivals: u64,
    violations: u64,
    failed: u64,
    timeouts: u64,
    reading: Reading,
}

/// Share of the closed loop's throughput from which on a step that holds contradicts it.
const CONTRADICTS: f64 = 0.8;
/// Factor between such a step and the next where the closed loop was sound: it cannot be far off.
const RAISE: f64 = 1.15;
/// The same where the closed loop says little, since much of it failed or the generator was not sound: doubling
/// brackets a limit anywhere above in a few steps.
const BRACKET: f64 = 2.0;
/// Failed share from which on a closed loop says little: failures end early, and their workers crowd out the rest.
const MUCH_FAILED: f64 = 0.1;
/// Where the prior puts R* within the throughput at saturation (method.md section 1).
const PRIOR_CENTRE: f64 = 0.87;
/// Invalid steps in a row after which the search gives up, when they took this share of the load time besides: what
/// disturbs for half a minute is waited out, and a generator that is never sound does not cost the whole time.
const INVALID_LIMIT: u32 = 6;
const INVALID_SHARE: f64 = 1.0 / 3.0;
/// Relative half width that, with the time spent, says that the machine is too noisy to say.
const TOO_WIDE: f64 = 0.1;

impl LimitSearch {
    /// A search for this SLO.
    #[must_use]
    pub fn new(slo: Slo, options: LimitOptions) -> Self {
        Self {
            stage: Stage::Saturating,
            saturation_hz: 0.0,
            prior_hz: 0.0,
            raise: RAISE,
            steps: Vec::new(),
            on_time: fit(&[], prior(0.0, slo.violating_share())),
            errors: None,
            canary: None,
            spent: Duration::ZERO,
            soak: Soak::default(),
            out_of_time: false,
            slo,
            options,
            warnings: Vec::new(),
            invalid: 0,
            invalid_time: Duration::ZERO,
        }
    }

    /// What to measure next.
    #[must_use]
    pub fn next_move(&self) -> LimitMove {
        let seed = self.options.seed + self.steps.len() as u64;
        match self.stage {
            Stage::Saturating => LimitMove::Measure(Step::saturating(
                "limit: saturate",
                self.options.workers,
                self.options.saturate,
                seed,
            )),
            Stage::Stepping => {
                let rate = self.next_rate();
                LimitMove::Measure(Step::at_rate(
                    "limit: step",
                    rate,
                    self.step_length(rate),
                    seed,
                ))
            }
            Stage::Soaking => {
                let seed = seed + 1000 + u64::from(self.soak.attempts);
                let step = Step::at_rate("limit: soak", self.soak.rate_hz, self.options.soak, seed);
                LimitMove::Measure(step.to_the_end())
            }
            Stage::Finished => LimitMove::Done,
        }
    }

    /// The current estimate of R* with its interval.
    #[must_use]
    pub fn estimate(&self) -> Fit {
        self.bound_by_errors().unwrap_or(self.on_time)
    }

    /// The fit of the failed share, where that is the goal that binds.
    fn bound_by_errors(&self) -> Option<Fit> {
        self.errors
            .filter(|errors| errors.reference_hz.estimate < self.on_time.reference_hz.estimate)
    }

    fn refit(&mut self) {
        self.on_time = self.fit_of(|step| step.violations, self.slo.violating_share());
        self.errors = self.error_fit();
    }

    /// What share of the load time is spent, for progress.
    #[must_use]
    pub fn progress(&self) -> f64 {
        let whole = self.options.load_time + self.options.soak;
        let done = self.spent
            + if self.stage == Stage::Finished {
                self.options.soak
            } else {
                Duration::ZERO
            };
        (done.as_secs_f64() / whole.as_secs_f64()).min(1.0)
    }

    /// Takes in a measured step, with what the canary said around it.
    pub fn record(&mut self, point: &LoadPoint, canary: Canary) {
        self.canary = canary.after;
        let reading = Reading::of(point, canary);
        match self.stage {
            Stage::Saturating => self.record_saturation(point),
            Stage::Stepping => self.record_step(point, reading),
            Stage::Soaking => self.record_soak(point, self.speeds().of_step(&reading)),
            Stage::Finished => {}
        }
    }

    fn record_saturation(&mut self, point: &LoadPoint) {
        self.saturation_hz = point.throughput_hz();
        self.prior_hz = self.saturation_hz;
        if point.error_share() > MUCH_FAILED || !point.validity.is_valid() {
            self.raise = BRACKET;
        }
        self.spent += self.options.saturate;
        if self.saturation_hz <= 0.0 {
            self.warnings.push(format!(
                "no request succeeded at saturation ({} of {} failed): the stack serves nothing, so there is no limit to find",
                point.outcomes.failed(),
                point.arrivals
            ));
            self.stage = Stage::Finished;
        } else {
            self.stage = Stage::Stepping;
            self.refit();
        }
    }

    fn record_step(&mut self, point: &LoadPoint, reading: Reading) {
        self.spent += self.time_of(point);
        self.out_of_time = self.spent >= self.options.load_time;
        if !point.validity.is_valid() {
            return self.record_invalid(point);
        }
        (self.invalid, self.invalid_time) = (0, Duration::ZERO);
        self.steps.push(StepRecord {
            rate_hz: point.offered_hz,
            drawn_hz: drawn_hz(point),
            arrivals: point.arrivals,
            violations: point.violations(),
            failed: point.outcomes.failed(),
            timeouts: point.outcomes.of(Outcome::Timeout) + point.outcomes.of(Outcome::Unsent),
            reading,
        });
        self.raise_prior(point);
        self.refit();
        let rate_hz = self.estimate().rate_hz;
        let width = rate_hz.relative_half_width();
        let enough = self.steps.len() >= self.options.min_steps;
        let narrow = width <= self.options.target;
        let steady = self.speed_sd().is_none_or(|sd| sd < self.options.noisy);
        if (enough && narrow && steady) || self.out_of_time {
            if !narrow {
                let why = if too_wide(&rate_hz) {
                    ": the machine is too noisy to say more in this time"
                } else {
                    ""
                };
                self.warnings.push(format!(
                    "the load time ran out with the interval still at +-{}{why}",
                    format_share(width)
                ));
            }
            self.begin_soak();
        }
    }

    /// A step that says nothing of the stack.
    fn record_invalid(&mut self, point: &LoadPoint) {
        self.invalid += 1;
        self.invalid_time += self.time_of(point);
        let much = self.options.load_time.mul_f64(INVALID_SHARE);
        let hopeless = self.invalid >= INVALID_LIMIT && self.invalid_time >= much;
        if hopeless || self.out_of_time {
            self.warnings.push(format!(
                "the last steps ({}) were invalid, for reasons that are not the stack's; the limit rests on the others",
                self.invalid
            ));
            self.begin_soak();
        }
    }

    /// How long a step loaded the stack: one that ended early, for as long as it was.
    fn time_of(&self, point: &LoadPoint) -> Duration {
        let whole = self.step_length(point.offered_hz);
        let skip = Step::at_rate("", point.offered_hz, whole, 0).skip;
        if point.aborted {
            whole.min(skip + Duration::from_secs_f64(point.window_s))
        } else {
            whole
        }
    }

    /// How fast the machine was in the steps so far.
    fn speeds(&self) -> Speeds {
        Speeds::of(self.steps.iter().map(|step| step.reading))
    }

    /// The speed to expect of the next step.
    fn speed_ahead(&self) -> Option<f64> {
        self.speeds().ahead().or(self.canary)
    }

    /// Standard deviation of the machine's speed over the steps, as a share; `None` where it was not measured.
    fn speed_sd(&self) -> Option<f64> {
        self.speeds().sd()
    }

    /// A step that holds well where the prior ends shows that the limit is further up than the closed loop said.
    fn raise_prior(&mut self, point: &LoadPoint) {
        let holds = point.violating_share() < 0.5 * self.slo.violating_share();
        if holds && point.offered_hz > CONTRADICTS * self.prior_hz {
            self.prior_hz = self.raise * point.offered_hz / PRIOR_CENTRE;
        }
    }

    fn fit_of(&self, count: impl Fn(&StepRecord) -> u64, share: f64) -> Fit {
        let speeds = self.speeds();
        let steps: Vec<FitStep> = self
            .steps
            .iter()
            .map(|step| FitStep {
                rate_hz: step.drawn_hz,
                violations: count(step),
                arrivals: step.arrivals,
                speed: speeds.of_step(&step.reading),
                uncertain: step.reading.uncertain(),
            })
            .collect();
        speeds.widen(fit(&steps, prior(self.prior_hz, share)))
    }

    /// The limit by errors, where errors occurred that are not violations of time already: a goal of its own.
    fn error_fit(&self) -> Option<Fit> {
        let goal = self.slo.errors.max(1e-4);
        let binding = self.steps.iter().any(|step| {
            let expected = step.arrivals as f64 * goal;
            let time_holds =
                (step.violations as f64) < step.arrivals as f64 * self.slo.violating_share();
            time_holds && step.failed as f64 > expected + 2.0 * expected.sqrt() + 1.0
        });
        binding.then(|| self.fit_of(|step| step.failed, goal))
    }

    /// Step length: enough arrivals for the share to mean something, within bounds (method.md section 1).
    fn step_length(&self, rate_hz: f64) -> Duration {
        let by_count = Duration::from_secs_f64((500.0 / rate_hz.max(0.1)).min(3600.0));
        by_count.clamp(
            self.options.step_min,
            self.options.step_max.max(self.options.step_min),
        )
    }

    /// Straddles the estimate: alternately above and below by its own uncertainty.
    fn next_rate(&self) -> f64 {
        let so_far = self.estimate();
        let limit_hz = so_far.at_speed(self.speed_ahead());
        if self.steps.is_empty() {
            return limit_hz;
        }
        let sign = if self.steps.len().is_multiple_of(2) {
            1.0
        } else {
            -1.0
        };
        let reach = so_far.sd_ln.clamp(0.015, 0.04);
        limit_hz * (sign * reach).exp()
    }

    /// The result, once [`LimitMove::Done`]; before that, what is known so far.
    #[must_use]
    pub fn result(&self, arm: &str) -> LimitResult {
        let fitted = self.estimate();
        let serves = self.saturation_hz > 0.0;
        let rate_hz = self.soak.lowered(fitted.rate_hz);
        let speeds = self.speeds().of_each();
        let reference_hz = (serves && !speeds.is_empty()).then(|| scaled(&fitted, &rate_hz));
        let soak = self.soak.point.as_ref();
        LimitResult {
            arm: arm.to_owned(),
            rate_hz: if serves { rate_hz } else { Interval::default() },
            reference_hz,
            r90_hz: (!self.steps.is_empty()).then_some(fitted.r90_hz),
            noise: (!self.steps.is_empty()).then(|| self.noise(&fitted)),
            bound_by: self.bound_by(),
            saturation_hz: self.saturation_hz,
            steps: self
                .steps
                .iter()
                .map(|s| {
                    (
                        s.rate_hz,
                        s.violations as f64 / (s.arrivals as f64).max(1.0),
                        s.arrivals,
                    )
                })
                .collect(),
            speeds,
            load_s: (self.spent + self.soak.spent).as_secs_f64(),
            soak_error_share: soak.map_or(0.0, LoadPoint::error_share),
            soak_p95_ms: soak.and_then(|point| point.response.quantile_ms(self.slo.quantile)),
            soak_hz: self.soak.rate_hz,
            soak_failed: soak.map_or(0, |point| point.outcomes.failed()),
            soak_arrivals: soak.map_or(0, |point| point.arrivals),
            soak_held: self.soak.held,
            warnings: self.warnings.clone(),
        }
    }

    fn noise(&self, fitted: &Fit) -> LimitNoise {
        LimitNoise {
            speed_sd: self.speed_sd(),
            speed_exponent: fitted.beta,
            step_sd: fitted.step_sd,
            autocorrelation: fitted.autocorrelation,
            too_noisy: self.out_of_time && too_wide(&fitted.rate_hz),
            // For whoever owns the canary to say.
            reference_ms: None,
            cpu_ms: self.speeds().cost_ms(),
        }
    }

    /// The goal that binds: the response time, or errors, and of these the timeouts where they are most of them.
    fn bound_by(&self) -> String {
        if self.bound_by_errors().is_none() {
            return format!("p{}", (self.slo.quantile * 1000.0).round() / 10.0);
        }
        let sum = |of: fn(&StepRecord) -> u64| self.steps.iter().map(of).sum::<u64>();
        if 2 * sum(|step| step.timeouts) > sum(|step| step.failed) {
            "timeout".to_owned()
        } else {
            "errors".to_owned()
        }
    }
}

/// Whether the interval of R* as the machine was says little of it. At reference speed it may be narrow all the same.
fn too_wide(rate_hz: &Interval) -> bool {
    rate_hz.relative_half_width() > TOO_WIDE
}

fn prior(saturation_hz: f64, violating_share: f64) -> Prior {
    Prior {
        saturation_hz: saturation_hz.max(f64::MIN_POSITIVE),
        violating_share,
    }
}

/// The rate of the arrivals that a step drew. One that ended early did so because of what it drew: its own rate says
/// more of its luck than of its load.
fn drawn_hz(point: &LoadPoint) -> f64 {
    if point.aborted || point.arrivals == 0 || point.window_s <= 0.0 {
        point.offered_hz
    } else {
        point.arrivals as f64 / point.window_s
    }
}

/// R* at reference speed, lowered as R* was lowered by a confirming stretch that failed.
fn scaled(fitted: &Fit, lowered: &Interval) -> Interval {
    let (raw, reference) = (fitted.rate_hz, fitted.reference_hz);
    Interval {
        low: reference.low * (lowered.low / raw.low),
        estimate: reference.estimate * (lowered.estimate / raw.estimate),
        high: reference.high * (lowered.high / raw.high),
    }
}
