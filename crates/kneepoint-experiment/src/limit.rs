//! Finding R*: the highest offered rate at which the SLO holds.
//!
//! The algorithm is `find_limit` of method.md: a closed loop at saturation gives the prior, short open-loop
//! steps straddle the current estimate, a Bayesian fit of the violating share gives R* with an interval, and
//! a longer stretch at the interval's lower end confirms it.

use crate::bench::Step;
use kneepoint_model::run::LimitResult;
use kneepoint_model::statistics::limit_fit::{Fit, FitStep, Prior, fit};
use kneepoint_model::units::{format_rate, format_share};
use kneepoint_model::{Interval, LoadPoint, Slo};
use std::time::Duration;

/// How much effort a search may take.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitOptions {
    /// Load time after which the search stops refining (the soak comes on top).
    pub load_time: Duration,
    /// Relative half-width of the interval at which it stops earlier.
    pub target: f64,
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
    /// Seed of the first step.
    pub seed: u64,
}

impl LimitOptions {
    /// The full search of method.md: 5 s steps, 3 %, five minutes, a 60 s soak.
    #[must_use]
    pub fn thorough(workers: u32) -> Self {
        Self {
            load_time: Duration::from_secs(300),
            target: 0.03,
            min_steps: 10,
            saturate: Duration::from_secs(6),
            workers,
            step_min: Duration::from_secs(5),
            step_max: Duration::from_secs(15),
            soak: Duration::from_secs(60),
            seed: 1,
        }
    }

    /// A search that fits the time it is given, for tuning under a budget. The interval is as wide as the
    /// data leave it.
    #[must_use]
    pub fn within(load_time: Duration, workers: u32) -> Self {
        let tight = load_time < Duration::from_secs(60);
        Self {
            load_time: load_time.mul_f64(0.75),
            target: if tight { 0.06 } else { 0.04 },
            min_steps: if tight { 4 } else { 6 },
            saturate: Duration::from_secs(4),
            step_min: Duration::from_secs(4),
            step_max: Duration::from_secs(if tight { 6 } else { 8 }),
            soak: load_time.mul_f64(0.25).max(Duration::from_secs(5)),
            ..Self::thorough(workers)
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
    spent: Duration,
    soak: Option<LoadPoint>,
    soak_hz: f64,
    lowered: u32,
    warnings: Vec<String>,
    invalid: u32,
}

#[derive(Debug, Clone, Copy)]
struct StepRecord {
    rate_hz: f64,
    arrivals: u64,
    violations: u64,
    failed: u64,
}

/// Factor by which the rate is lowered when a soak fails (method.md: "if it fails, lower and widen").
const LOWERING: f64 = 0.93;
/// Times it is lowered at most.
const MOST_LOWERED: u32 = 3;
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
/// Invalid steps after which the search gives up on the generator.
const INVALID_LIMIT: u32 = 6;

impl LimitSearch {
    /// A search for this SLO.
    #[must_use]
    pub fn new(slo: Slo, options: LimitOptions) -> Self {
        Self {
            slo,
            options,
            stage: Stage::Saturating,
            saturation_hz: 0.0,
            prior_hz: 0.0,
            raise: RAISE,
            steps: Vec::new(),
            spent: Duration::ZERO,
            soak: None,
            soak_hz: 0.0,
            lowered: 0,
            warnings: Vec::new(),
            invalid: 0,
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
                let mut step =
                    Step::at_rate("limit: soak", self.soak_hz, self.options.soak, seed + 1000);
                step.may_abort = false;
                LimitMove::Measure(step)
            }
            Stage::Finished => LimitMove::Done,
        }
    }

    /// The current estimate of R* with its interval.
    #[must_use]
    pub fn estimate(&self) -> Fit {
        let on_time = self.fit_of(|step| step.violations, self.slo.violating_share());
        self.error_fit()
            .filter(|errors| errors.rate_hz.estimate < on_time.rate_hz.estimate)
            .unwrap_or(on_time)
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

    /// Takes in a measured step.
    pub fn record(&mut self, point: &LoadPoint) {
        match self.stage {
            Stage::Saturating => self.record_saturation(point),
            Stage::Stepping => self.record_step(point),
            Stage::Soaking => self.record_soak(point),
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
        }
    }

    fn record_step(&mut self, point: &LoadPoint) {
        self.spent += self.step_length(point.offered_hz);
        if !point.validity.is_valid() {
            self.invalid += 1;
            if self.invalid >= INVALID_LIMIT {
                self.warnings.push(format!("{INVALID_LIMIT} steps were invalid for the generator's own reasons; the limit rests on the others"));
                self.begin_soak();
            }
            return;
        }
        self.steps.push(StepRecord {
            rate_hz: point.offered_hz,
            arrivals: point.arrivals,
            violations: point.violations(),
            failed: point.outcomes.failed(),
        });
        self.raise_prior(point);
        let enough = self.steps.len() >= self.options.min_steps;
        let narrow = self.estimate().rate_hz.relative_half_width() <= self.options.target;
        let spent = self.spent >= self.options.load_time;
        if (enough && narrow) || spent {
            if spent && !narrow {
                let width = self.estimate().rate_hz.relative_half_width();
                self.warnings.push(format!(
                    "the load time ran out with the interval still at +-{}",
                    format_share(width)
                ));
            }
            self.begin_soak();
        }
    }

    /// A step that holds well where the prior ends shows that the limit is further up than the closed loop said.
    fn raise_prior(&mut self, point: &LoadPoint) {
        let holds = point.violating_share() < 0.5 * self.slo.violating_share();
        if holds && point.offered_hz > CONTRADICTS * self.prior_hz {
            self.prior_hz = self.raise * point.offered_hz / PRIOR_CENTRE;
        }
    }

    /// Confirms the lower end, unless nobody asked for it.
    fn begin_soak(&mut self) {
        self.soak_hz = self.estimate().rate_hz.low;
        self.stage = if self.options.soak.is_zero() {
            Stage::Finished
        } else {
            Stage::Soaking
        };
    }

    fn record_soak(&mut self, point: &LoadPoint) {
        let held = point.violating_share() <= self.slo.violating_share()
            && point.error_share() <= self.slo.errors;
        self.soak = Some(point.clone());
        self.stage = Stage::Finished;
        if held && point.validity.is_valid() {
            return;
        }
        let why = if held {
            "the generator was not sound"
        } else {
            "the SLO did not hold"
        };
        if self.lowered < MOST_LOWERED {
            self.warnings.push(format!(
                "{why} over {:.0} s at {} ({} late or failed, {} failed): the limit is lowered",
                point.window_s,
                format_rate(self.soak_hz),
                format_share(point.violating_share()),
                point.outcomes.failed()
            ));
            self.lowered += 1;
            self.soak_hz *= LOWERING;
            self.stage = Stage::Soaking;
        } else {
            self.warnings.push(format!(
                "{why} at {MOST_LOWERED} lower rates either: the limit is not confirmed"
            ));
        }
    }

    fn prior(&self, violating_share: f64) -> Prior {
        Prior {
            saturation_hz: self.prior_hz.max(f64::MIN_POSITIVE),
            violating_share,
        }
    }

    fn fit_of(&self, count: impl Fn(&StepRecord) -> u64, share: f64) -> Fit {
        let steps: Vec<FitStep> = self
            .steps
            .iter()
            .map(|step| FitStep {
                rate_hz: step.rate_hz,
                violations: count(step),
                arrivals: step.arrivals,
            })
            .collect();
        fit(&steps, self.prior(share))
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
        if self.steps.is_empty() {
            return so_far.rate_hz.estimate;
        }
        let sign = if self.steps.len().is_multiple_of(2) {
            1.0
        } else {
            -1.0
        };
        let reach = so_far.sd_ln.clamp(0.015, 0.04);
        so_far.rate_hz.estimate * (sign * reach).exp()
    }

    /// The result, once [`LimitMove::Done`]; before that, what is known so far.
    #[must_use]
    pub fn result(&self, arm: &str) -> LimitResult {
        let fitted = self.estimate();
        let mut rate_hz = if self.saturation_hz > 0.0 {
            fitted.rate_hz
        } else {
            Interval::default()
        };
        if self.lowered > 0 {
            // The limit lies between the rate that held and the last that did not, and no higher than the first.
            let failed = |times: u32| self.soak_hz / LOWERING.powi(times as i32);
            rate_hz.low = rate_hz.low.min(self.soak_hz);
            rate_hz.high = rate_hz.high.min(failed(self.lowered));
            rate_hz.estimate = (self.soak_hz * failed(1)).sqrt().min(rate_hz.high);
        }
        let soak = self.soak.as_ref();
        LimitResult {
            arm: arm.to_owned(),
            rate_hz,
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
            soak_error_share: soak.map_or(0.0, LoadPoint::error_share),
            soak_p95_ms: soak.and_then(|point| point.response.quantile_ms(self.slo.quantile)),
            soak_hz: self.soak_hz,
            soak_failed: soak.map_or(0, |point| point.outcomes.failed()),
            soak_arrivals: soak.map_or(0, |point| point.arrivals),
            warnings: self.warnings.clone(),
        }
    }

    fn bound_by(&self) -> String {
        let on_time = self.fit_of(|step| step.violations, self.slo.violating_share());
        match self.error_fit() {
            Some(errors) if errors.rate_hz.estimate < on_time.rate_hz.estimate => {
                "errors".to_owned()
            }
            _ => format!("p{}", (self.slo.quantile * 1000.0).round() / 10.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;
    use crate::simulated::SimulatedStack;
    use kneepoint_model::Outcome;

    fn search(stack: &mut SimulatedStack, options: LimitOptions) -> LimitResult {
        let mut search = LimitSearch::new(stack.slo.clone(), options);
        while let LimitMove::Measure(step) = search.next_move() {
            let point = stack
                .measure("base", &step)
                .expect("a simulated stack does not fail");
            search.record(&point);
        }
        search.result("base")
    }

    #[test]
    fn the_limit_of_a_simulated_pool_is_found() {
        let mut within = 0;
        for seed in 0..8 {
            let mut stack = SimulatedStack::new(16, Duration::from_millis(40), seed);
            let truth = stack.true_limit_hz();
            let found = search(
                &mut stack,
                LimitOptions {
                    seed: seed * 100,
                    ..LimitOptions::thorough(32)
                },
            );
            assert!(
                (found.rate_hz.estimate / truth - 1.0).abs() < 0.06,
                "{truth}: {:?}",
                found.rate_hz
            );
            within +=
                u32::from(found.rate_hz.low * 0.98 <= truth && truth <= found.rate_hz.high * 1.02);
        }
        assert!(within >= 6, "{within} of 8 intervals cover");
    }

    /// A server that drops what it has no room for wastes most of a closed loop: what is left says little.
    #[test]
    fn a_closed_loop_that_mostly_failed_does_not_bound_the_search() {
        let mut stack = SimulatedStack::new(16, Duration::from_millis(40), 11);
        let truth = stack.true_limit_hz();
        let mut search = LimitSearch::new(
            stack.slo.clone(),
            LimitOptions::within(Duration::from_secs(80), 32),
        );
        while let LimitMove::Measure(step) = search.next_move() {
            let mut point = stack
                .measure("base", &step)
                .expect("a simulated stack does not fail");
            if step.purpose == "limit: saturate" {
                let kept = point.outcomes.of(Outcome::Ok) / 10;
                let lost = point.outcomes.of(Outcome::Ok) - kept;
                point.outcomes.by_outcome.insert(Outcome::Ok, kept);
                point.outcomes.by_outcome.insert(Outcome::Reset, lost);
            }
            search.record(&point);
        }
        let found = search.result("base").rate_hz;
        assert!(
            (found.estimate / truth - 1.0).abs() < 0.1,
            "{truth}: {found:?}"
        );
    }

    #[test]
    fn a_stack_that_serves_nothing_has_no_limit() {
        let mut stack = SimulatedStack::new(4, Duration::from_millis(10), 1);
        stack.broken = true;
        let found = search(&mut stack, LimitOptions::within(Duration::from_secs(30), 8));
        assert_eq!(found.rate_hz, Interval::default());
        assert!(
            found.warnings[0].contains("serves nothing"),
            "{:?}",
            found.warnings
        );
    }

    #[test]
    fn a_limit_that_does_not_hold_for_long_is_lowered_below_the_rate_that_failed() {
        let mut stack = SimulatedStack::new(8, Duration::from_millis(20), 5);
        let mut search = LimitSearch::new(
            stack.slo.clone(),
            LimitOptions::within(Duration::from_secs(40), 16),
        );
        let mut failed_at = None;
        while let LimitMove::Measure(step) = search.next_move() {
            let mut point = stack
                .measure("base", &step)
                .expect("a simulated stack does not fail");
            if step.purpose == "limit: soak" && failed_at.is_none() {
                failed_at = Some(point.offered_hz);
                point.good = 0;
            }
            search.record(&point);
        }
        let (found, failed_at) = (search.result("base").rate_hz, failed_at.expect("a soak"));
        assert!(
            found.low <= found.estimate && found.estimate <= found.high,
            "{found:?}"
        );
        assert!(
            found.estimate < failed_at && found.high <= failed_at * 1.001,
            "{found:?} {failed_at}"
        );
    }

    #[test]
    fn the_search_ends_within_its_load_time_and_one_soak() {
        let mut stack = SimulatedStack::new(8, Duration::from_millis(20), 3);
        let options = LimitOptions::within(Duration::from_secs(40), 16);
        let allowed = options.load_time + options.step_max + options.soak * 4;
        search(&mut stack, options);
        assert!(stack.driven <= allowed, "{:?} of {allowed:?}", stack.driven);
    }
}
