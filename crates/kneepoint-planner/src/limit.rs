//! Finding R*: the highest offered rate at which the SLO holds.
//!
//! The algorithm is `find_limit` of method.md: a closed loop at saturation gives the prior, short open-loop
//! steps straddle the current estimate, a Bayesian fit of the violating share gives R* with an interval, and
//! a longer stretch at the interval's lower end confirms it. The CPU time that a request took, and a canary, say how fast
//! the machine was during each step, and what others used how much of it there was, so that a machine that drifts, or has
//! other work, moves the rates and not the result at reference speed. No step is left out for what others did.

mod alone;
mod clock;
mod errors;
mod options;
mod soak;
mod speed;
mod steps;
#[cfg(test)]
mod tests;
mod width;

use crate::bench::{Bench, Canary, Step};
use alone::{Alone, ONE_AT_A_TIME};
use clock::Clock;
use kneepoint_model::run::{LimitNoise, LimitResult, TrialId};
use kneepoint_model::statistics::limit_fit::{Fit, FitStep, Prior, fit};
use kneepoint_model::units::RateUnit;
use kneepoint_model::{Interval, LoadPoint, Outcome, Slo};
pub use options::LimitOptions;
use soak::Soak;
use speed::{Reading, Speeds};
use std::time::Duration;

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
    /// One request at a time, since nearly all of the steps were late.
    Alone,
    Soaking,
    Finished,
}

/// The search as a state machine: ask [`Self::next_move`], measure, [`Self::record`], repeat.
#[derive(Debug, Clone)]
pub struct LimitSearch {
    slo: Slo,
    options: LimitOptions,
    stage: Stage,
    clock: Clock,
    /// Requests and visits of the load so far; no visits where every request stands for itself.
    requests: u64,
    visits: u64,
    saturation_hz: f64,
    /// What the prior takes for the throughput at saturation: what the closed loop reached, until steps show more.
    prior_hz: f64,
    /// Whether the closed loop got no answer at all, so that one request at a time is tried.
    choked: bool,
    /// Whether one request at a time meets the SLO, once that was asked.
    alone: Alone,
    /// By how much the prior is raised when a step at its upper end holds.
    raise: f64,
    steps: Vec<StepRecord>,
    /// Where the load so far is written down.
    trials: Vec<TrialId>,
    /// The fit of the violating share, and of the failed share where errors are a goal of their own.
    on_time: Fit,
    errors: Option<Fit>,
    /// What the canary said last.
    canary: Option<f64>,
    spent: Duration,
    soak: Soak,
    out_of_time: bool,
    /// Why the interval is wider than was asked, in words; `None` where it is not.
    why_wide: Option<String>,
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
    /// Mean response time; `None` without responses.
    response_ms: Option<f64>,
    arrivals: u64,
    violations: u64,
    failed: u64,
    timeouts: u64,
    /// Those that failed before they were late.
    refused: u64,
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
/// Visits of each worker of a closed loop from which on they say how many requests one has.
const VISITS_EACH: u64 = 3;
/// Where the prior puts R* within the throughput at saturation (method.md section 1).
const PRIOR_CENTRE: f64 = 0.87;
/// Invalid steps in a row after which the search gives up, when they took this share of the load time besides: what
/// disturbs for half a minute is waited out, and a generator that is never sound does not cost the whole time.
const INVALID_LIMIT: u32 = 6;
const INVALID_SHARE: f64 = 1.0 / 3.0;

impl LimitSearch {
    /// A search for this SLO.
    #[must_use]
    pub fn new(slo: Slo, options: LimitOptions) -> Self {
        Self {
            stage: Stage::Saturating,
            choked: false,
            alone: Alone::default(),
            clock: Clock::new(options.wall),
            requests: 0,
            visits: 0,
            saturation_hz: 0.0,
            prior_hz: 0.0,
            raise: RAISE,
            steps: Vec::new(),
            trials: Vec::new(),
            on_time: fit(&[], prior(0.0, slo.violating_share())),
            errors: None,
            canary: None,
            spent: Duration::ZERO,
            soak: Soak::default(),
            out_of_time: false,
            why_wide: None,
            slo,
            options,
            warnings: Vec::new(),
            invalid: 0,
            invalid_time: Duration::ZERO,
        }
    }

    /// A search on a bench, for its SLO and its visitors.
    #[must_use]
    pub fn of<B: Bench>(bench: &B, options: LimitOptions) -> Self {
        let visit = bench.visit();
        Self::new(bench.slo().clone(), LimitOptions { visit, ..options })
    }

    /// How much effort it may take.
    #[must_use]
    pub fn options(&self) -> &LimitOptions {
        &self.options
    }

    /// Goes on with a search that was done, for so long in all: with further steps, and with another confirming stretch at
    /// what is the lower end then.
    pub fn go_on_for(&mut self, wall: Duration) {
        if self.saturation_hz <= 0.0 || self.misses_alone() {
            return;
        }
        self.options = LimitOptions {
            visit: self.options.visit,
            seed: self.options.seed,
            ..LimitOptions::by(wall, self.options.workers)
        };
        self.options.load_time += self.spent;
        self.clock = Clock::new(self.options.wall);
        self.soak.forget_all_but_what_contradicts();
        self.warnings.clear();
        self.why_wide = None;
        self.warn_of_the_build_up();
        self.stage = Stage::Stepping;
    }

    /// What to measure next.
    #[must_use]
    pub fn next_move(&self) -> LimitMove {
        let seed = self.options.seed + self.steps.len() as u64;
        match self.stage {
            Stage::Saturating => {
                let (purpose, workers) = if self.choked {
                    (ONE_AT_A_TIME, 1)
                } else {
                    ("limit: saturate", self.options.workers)
                };
                let length = self.options.saturate;
                LimitMove::Measure(Step::saturating(purpose, workers, length, seed))
            }
            Stage::Alone => {
                let length = self.length_alone();
                LimitMove::Measure(Step::saturating(ONE_AT_A_TIME, 1, length, seed))
            }
            Stage::Stepping => {
                let rate = self.next_rate();
                let length = self.length_of_step(rate);
                let step = Step::at_rate("limit: step", rate, length, seed);
                LimitMove::Measure(self.built_up(step))
            }
            Stage::Soaking => {
                let seed = seed + 1000 + u64::from(self.soak.attempts);
                let step = Step::at_rate("limit: soak", self.soak.rate_hz, self.soak.length, seed);
                LimitMove::Measure(self.built_up(step).to_the_end())
            }
            Stage::Finished => LimitMove::Done,
        }
    }

    /// A step that leaves out as much more of its start as visitors pause in a visit: only then as many are on the site as
    /// its rate brings.
    fn built_up(&self, step: Step) -> Step {
        let build_up = self.options.build_up();
        Step {
            duration: step.duration + build_up,
            skip: step.skip + build_up,
            ..step
        }
    }

    /// What the rates of the search count.
    fn unit(&self) -> RateUnit {
        if self.visits > 0 || self.options.visit.is_some() {
            RateUnit::Visits
        } else {
            RateUnit::Requests
        }
    }

    /// Requests of a visit as measured so far, and before that by the scenario; 1 where every request stands for itself.
    fn requests_a_visit(&self) -> f64 {
        match self.visits {
            0 => self.options.visit.map_or(1.0, |visit| visit.requests),
            visits => self.requests as f64 / visits as f64,
        }
    }

    /// Says how much time has passed since the search began, rests included: call it before [`Self::record`] where the whole
    /// has a bound ([`LimitOptions::wall`]).
    pub fn at(&mut self, passed: Duration) {
        self.clock.passed = passed;
    }

    /// The current estimate of R* with its interval.
    #[must_use]
    pub fn estimate(&self) -> Fit {
        self.bound_by_errors().unwrap_or(self.on_time)
    }

    /// The slope of the share of requests that violate the SLO, in logits for each unit of ln rate: what comparisons at one rate
    /// count by, also where errors bind.
    #[must_use]
    pub fn slope(&self) -> f64 {
        self.on_time.slope
    }

    fn refit(&mut self) {
        self.on_time = self.fit_of(|step| step.violations, self.slo.violating_share());
        self.errors = self.error_fit();
    }

    /// What share of the load time is spent, for progress.
    #[must_use]
    pub fn progress(&self) -> f64 {
        if let Some(share) = self.clock.progress() {
            return share;
        }
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
        self.count(point);
        let reading = Reading::of(point, canary);
        match self.stage {
            Stage::Saturating => self.record_saturation(point),
            Stage::Stepping => self.record_step(point, reading),
            Stage::Alone => self.record_alone(point),
            Stage::Soaking => self.record_soak(point, self.speeds().of_step(&reading)),
            Stage::Finished => {}
        }
    }

    /// Counts requests and visits. Where much failed, visits were broken off, and had fewer requests than they have; of a
    /// closed loop whose workers made few visits, it is chance how many began in the window.
    fn count(&mut self, point: &LoadPoint) {
        let whole = point.error_share() <= MUCH_FAILED && !point.aborted;
        let least = point
            .closed_workers
            .map_or(1, |workers| VISITS_EACH * u64::from(workers));
        if let Some(visits) = point.sessions
            && whole
            && visits.started >= least
        {
            self.requests += point.arrivals;
            self.visits += visits.started;
        }
    }

    fn record_saturation(&mut self, point: &LoadPoint) {
        self.saturation_hz = point.throughput_hz() / self.requests_a_visit();
        self.prior_hz = self.saturation_hz;
        if point.error_share() > MUCH_FAILED || !point.validity.is_valid() {
            self.raise = BRACKET;
        }
        self.spent += self.options.saturate;
        self.clock.drove(self.options.saturate);
        self.warn_of_the_build_up();
        if self.saturation_hz > 0.0 {
            self.stage = Stage::Stepping;
            self.refit();
            if self.choked {
                self.judge_alone(point);
            }
        } else if !self.choked {
            // Pages that wait for one another serve nobody once there are as many as workers, and well below that.
            self.choked = true;
            self.warnings.push(format!(
                "{} requests at once got no answer at all ({} of {} failed): the search begins with one at a time",
                self.options.workers,
                point.outcomes.failed(),
                point.arrivals
            ));
        } else {
            self.warnings.push(format!(
                "no request succeeded, not even one at a time ({} of {} failed): the stack serves nothing, so there is no limit to find",
                point.outcomes.failed(),
                point.arrivals
            ));
            self.stage = Stage::Finished;
        }
    }

    fn record_step(&mut self, point: &LoadPoint, reading: Reading) {
        let took = self.time_of(point);
        self.spent += took;
        self.clock.drove(took);
        if !point.validity.is_valid() {
            self.out_of_time = self.is_out_of_time();
            return self.record_invalid(point);
        }
        (self.invalid, self.invalid_time) = (0, Duration::ZERO);
        self.steps.push(StepRecord {
            rate_hz: point.rate_hz(),
            drawn_hz: drawn_hz(point),
            response_ms: point.response.mean_ms(),
            arrivals: point.arrivals,
            violations: point.violations(),
            failed: point.outcomes.failed(),
            timeouts: point.outcomes.of(Outcome::Timeout) + point.outcomes.of(Outcome::Unsent),
            refused: point.refused(&self.slo),
            reading,
        });
        self.raise_prior(point);
        self.refit();
        self.out_of_time = self.is_out_of_time();
        if self.is_alone_to_be_asked() {
            self.stage = Stage::Alone;
            return;
        }
        self.after_a_step();
    }

    /// Another step, or the end of them.
    fn after_a_step(&mut self) {
        self.stage = Stage::Stepping;
        let width = self.estimate().rate_hz.relative_half_width();
        let enough = self.steps.len() >= self.options.min_steps;
        let narrow = width <= self.options.target;
        let steady = self.speed_sd().is_none_or(|sd| sd < self.options.noisy);
        if (enough && narrow && steady) || self.out_of_time {
            if narrow {
                self.why_wide = None;
            } else {
                self.warn_of_the_width();
            }
            self.end_of_the_steps();
        }
    }

    /// After the steps: one request at a time where nobody knows how low R* is, then the confirming stretch unless one held.
    fn end_of_the_steps(&mut self) {
        if self.soak.held {
            self.stage = Stage::Finished;
        } else if self.may_lie_anywhere_below() && self.may_ask_alone() {
            self.stage = Stage::Alone;
        } else {
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
            self.end_of_the_steps();
        }
    }

    /// How long a step loaded the stack: one that ended early, for as long as it was.
    fn time_of(&self, point: &LoadPoint) -> Duration {
        let skip = self
            .built_up(Step::at_rate("", 1.0, self.options.step_min, 0))
            .skip;
        skip + Duration::from_secs_f64(point.window_s)
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
        let in_time = point.violating_share() < 0.5 * self.slo.violating_share();
        // One error more than the goal bears may be chance.
        let few_errors =
            point.outcomes.failed() as f64 <= point.arrivals as f64 * self.slo.errors + 1.0;
        if in_time && few_errors && point.rate_hz() > CONTRADICTS * self.prior_hz {
            self.prior_hz = self.raise * point.rate_hz() / PRIOR_CENTRE;
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
                spare: step.reading.spare(),
            })
            .collect();
        speeds.widen(fit(&steps, prior(self.prior_hz, share)))
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

    /// Notes where a step that was recorded is written down.
    pub fn written_as(&mut self, trial: TrialId) {
        self.trials.push(trial);
    }

    /// The result, once [`LimitMove::Done`]; before that, what is known so far.
    #[must_use]
    pub fn result(&self, arm: &str) -> LimitResult {
        let fitted = self.estimate();
        let serves = self.saturation_hz > 0.0;
        let mut rate_hz = self.soak.lowered(fitted.rate_hz);
        if self.has_no_low_end() {
            rate_hz.low = 0.0;
        }
        let speeds = self.speeds().of_each();
        let reference_hz = (serves && !speeds.is_empty()).then(|| scaled(&fitted, &rate_hz));
        let soak = self.soak.point.as_ref();
        LimitResult {
            arm: arm.to_owned(),
            rate_hz: if serves { rate_hz } else { Interval::default() },
            requests_a_visit: (self.unit() == RateUnit::Visits).then(|| self.requests_a_visit()),
            visit_s: self.visit_s(),
            reference_hz,
            r90_hz: (!self.steps.is_empty()).then_some(fitted.r90_hz),
            noise: (!self.steps.is_empty()).then(|| self.noise(&fitted)),
            bound_by: self.bound_by(),
            saturation_hz: self.saturation_hz,
            trials: self.trials.clone(),
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
            missed_alone: self.alone.missed,
            warnings: self
                .why_wide
                .iter()
                .chain(&self.warnings)
                .cloned()
                .chain(self.short_for_the_slo())
                .chain(self.held_nowhere())
                .collect(),
        }
    }

    /// How long a visit takes: its pauses and its responses, as in the confirming stretch or else in the last step.
    fn visit_s(&self) -> Option<f64> {
        let soak = self.soak.point.as_ref();
        let soaked_ms = soak.and_then(|point| point.response.mean_ms());
        let response_ms = soaked_ms.or(self.steps.last()?.response_ms)?;
        let responses_s = self.requests_a_visit() * response_ms / 1e3;
        let visits = self.unit() == RateUnit::Visits;
        visits.then(|| self.options.pauses().as_secs_f64() + responses_s)
    }

    fn noise(&self, fitted: &Fit) -> LimitNoise {
        LimitNoise {
            speed_sd: self.speed_sd(),
            speed_exponent: fitted.beta,
            step_sd: fitted.step_sd,
            autocorrelation: fitted.autocorrelation,
            too_noisy: self.out_of_time && self.is_noise_to_blame(),
            // For whoever owns the canary to say.
            reference_ms: None,
            cpu_ms: self.speeds().cost_ms(),
        }
    }
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
        point.rate_hz()
    } else {
        point.drawn_hz()
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
