//! Capacity: from what requests take at low load to R* and response times at rates that were never driven
//! (`plan_capacity` of method.md).
//!
//! Nothing above about half of R* is driven. [`twin`] is the queueing model, [`fit`] makes it of what was measured;
//! the highest rate is kept aside first, and the model that was made without it must hit it.

mod fit;
mod twin;

use crate::bench::Step;
use crate::diagnose::say_when_invalid;
use crate::error::ExperimentError;
use crate::random::Random;
use crate::recorder::Recorder;
use crate::testbed::Testbed;
use fit::{Fitted, Ground, Seen, drawn_anew, fit};
use kneepoint_model::capacity::{CapacityPlan, CapacityPoint, HoldOut, Need, Population};
use kneepoint_model::units::{format_ms, format_rate, format_share};
use kneepoint_model::{Interval, LatencyHistogram, Layer, LoadPoint, Slo, metric};
use kneepoint_telemetry::Recording;
use std::time::Duration;

/// Shares of the rate that a first, rough model says is R*, at which is measured (method.md: .2, .35, .5 of what
/// saturates, which is somewhat more).
const SHARES: [f64; 3] = [0.2, 0.35, 0.5];
/// Steps at each, in turns, so that a machine that drifts does so at all of them.
const ROUNDS: usize = 4;
/// Rate of the first look, per second.
const FIRST_HZ: f64 = 2.0;
/// Length of a look.
const LOOK: Duration = Duration::from_secs(3);
/// Share of cores or workers in use from which on a look says enough.
const LOOKED: f64 = 0.12;
/// Most that the rate grows between two looks.
const STRIDE: f64 = 6.0;
/// Looks at most.
const LOOKS: u32 = 7;
/// Requests of a twin's run.
const REQUESTS: u64 = 12_000;
/// Twins of steps drawn anew, for the intervals.
const BOOTSTRAPS: u64 = 48;
/// Shares of the predicted R* at which the response time is told.
const CURVE: [f64; 6] = [0.6, 0.7, 0.8, 0.9, 0.95, 1.0];
/// Largest difference of the rate that was kept aside (method.md: 15 %).
const HIT: f64 = 0.15;
/// Share of R* that a host is given at most (method.md, `plan_capacity`).
const HEADROOM: f64 = 0.8;
/// Workers over those that are busy on average (method.md section 3: c0 = 1.25 R E(hold)).
const SPARE_WORKERS: f64 = 1.25;

/// What is asked besides R*.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Asked {
    /// R* only.
    Limit,
    /// Hosts for a rate per second.
    Rate(f64),
    /// Hosts for users.
    Users(Population),
}

/// Measures an arm at low load, and predicts what it bears.
///
/// # Errors
/// The arm is gone, the load cannot be driven, CPU time cannot be read here, or somebody asked to stop.
pub fn plan(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    asked: Asked,
    step: Duration,
) -> Result<CapacityPlan, ExperimentError> {
    let ground = ground(testbed, arm)?;
    recorder.stage("Look: how much of the machine a request takes");
    let rough_hz = look(testbed, recorder, arm, ground)?;
    recorder.stage("Measure at low load, about half of R* at most");
    let (seen, worker_memory_bytes) = measure(testbed, recorder, arm, rough_hz, step)?;
    recorder.stage("Predict");
    let mut plan = predict(&seen, ground, testbed.slo(), asked)?;
    plan.demand.worker_memory_bytes = worker_memory_bytes;
    if let (Some(need), Some(bytes)) = (&mut plan.need, worker_memory_bytes) {
        need.memory_bytes = Some(bytes * f64::from(need.workers));
    }
    let pool = testbed
        .stack(arm)?
        .tier(Layer::Php)
        .and_then(|tier| tier.pool.clone());
    if pool.is_some_and(|pool| pool.spawn_per_s.is_some()) {
        plan.doubts.push(
            "the pool grows and shrinks with the load: the prediction is for a pool that has grown to its largest"
                .to_owned(),
        );
    }
    recorder.result(format!(
        "R* is predicted at {} (95 %: {} to {})",
        format_rate(plan.limit_hz.estimate),
        format_rate(plan.limit_hz.low),
        format_rate(plan.limit_hz.high)
    ));
    recorder.capacity(plan.clone());
    Ok(plan)
}

fn ground(testbed: &Testbed, arm: &str) -> Result<Ground, ExperimentError> {
    let stack = testbed.stack(arm)?;
    let pool = stack.tier(Layer::Php).and_then(|tier| tier.pool.as_ref());
    let pool = pool.ok_or_else(|| {
        ExperimentError::Unfit("there is no pool of PHP workers to plan for in this stack".into())
    })?;
    Ok(Ground {
        workers: pool.max_workers as u32,
        backlog: pool.queue_limit as u32,
        cores: f64::from(testbed.machine().cores.max(1)),
    })
}

/// Raises the rate until cores or workers are in use well enough to say roughly what R* will be.
fn look(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    ground: Ground,
) -> Result<f64, ExperimentError> {
    let mut rate_hz = FIRST_HZ;
    let mut seen: Vec<Seen> = Vec::new();
    for nth in 0..LOOKS {
        let mut step = Step::at_rate("plan: look", rate_hz, LOOK, 5 + u64::from(nth));
        step.may_abort = false;
        let (load, recording) = observe(testbed, recorder, arm, &step)?;
        seen.push(seen_in(0, &load, &recording)?);
        let busiest = seen.last().map_or(0.0, |last| in_use(last, ground));
        if busiest >= LOOKED {
            break;
        }
        rate_hz *= (1.5 * LOOKED / busiest.max(1e-3)).clamp(1.5, STRIDE);
    }
    // Steps of the looks are of different rates: the line through them says what the machine does without any.
    let fitted = fit(&seen[seen.len().saturating_sub(3)..], ground, testbed.slo());
    let (saturation_hz, _) = fitted.twin.saturation();
    if !saturation_hz.is_finite() || saturation_hz <= 0.0 {
        return Err(ExperimentError::Unfit(
            "no request was answered at low load, so there is nothing to plan from; see what `kneepoint load` says of the \
             application"
                .into(),
        ));
    }
    // Where the SLO does not hold even nearly alone, what saturates is all that there is to go by.
    let limit_hz = fitted.twin.limit_hz(testbed.slo(), REQUESTS, 1);
    Ok(if limit_hz > 0.05 * saturation_hz {
        limit_hz
    } else {
        saturation_hz
    })
}

/// Share of the cores or of the workers in use, whichever is more.
fn in_use(seen: &Seen, ground: Ground) -> f64 {
    let held_s = seen.response.mean_ms().unwrap_or(0.0) / 1e3;
    let workers = seen.rate_hz * held_s / f64::from(ground.workers.max(1));
    (seen.busy_cores / ground.cores).max(workers)
}

fn observe(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    step: &Step,
) -> Result<(LoadPoint, Recording), ExperimentError> {
    recorder.check_stop()?;
    let (load, recording) = testbed.observe(arm, step, true)?;
    recorder.result(format!("{}: {}", step.purpose, load.describe()));
    say_when_invalid(recorder, &load);
    recorder.trial(&step.purpose, arm, load.clone());
    Ok((load, recording))
}

fn seen_in(level: usize, load: &LoadPoint, recording: &Recording) -> Result<Seen, ExperimentError> {
    let series = &recording.series;
    let busy_cores = series.rate(Layer::Generator, metric::MACHINE_BUSY_S);
    let busy_cores = busy_cores.ok_or_else(|| {
        ExperimentError::Unfit("the machine's CPU time cannot be read from /proc/stat".into())
    })?;
    let tiers = Layer::TIERS.into_iter();
    Ok(Seen {
        level,
        rate_hz: load.throughput_hz(),
        response: load.response.clone(),
        busy_cores,
        stolen_cores: series
            .rate(Layer::Generator, metric::MACHINE_STEAL_S)
            .unwrap_or(0.0),
        tiers: tiers
            .filter_map(|layer| Some((layer, series.rate(layer, metric::CPU_S)?)))
            .collect(),
    })
}

/// Steps at each of the shares, and the largest memory of a worker in them.
fn measure(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    rough_hz: f64,
    length: Duration,
) -> Result<(Vec<Seen>, Option<f64>), ExperimentError> {
    let mut seen = Vec::new();
    let mut memory_bytes: Option<f64> = None;
    for round in 0..ROUNDS {
        for level in 0..SHARES.len() {
            // Each rate comes first once: a machine that is slow after a pause is so at all of them.
            let level = (level + round) % SHARES.len();
            let done = (round * SHARES.len() + level) as f64 / (ROUNDS * SHARES.len()) as f64;
            recorder.progress("plan: low load", done, None);
            let rate_hz = SHARES[level] * rough_hz;
            let seed = 300 + (round * SHARES.len() + level) as u64;
            let mut step = Step::at_rate("plan: low load", rate_hz, length, seed);
            step.may_abort = false;
            let (load, recording) = observe(testbed, recorder, arm, &step)?;
            let worker = recording.series.max(Layer::Php, metric::PSS_WORKER_BYTES);
            memory_bytes = memory_bytes.into_iter().chain(worker).reduce(f64::max);
            if load.validity.is_valid() {
                seen.push(seen_in(level, &load, &recording)?);
            }
        }
    }
    Ok((seen, memory_bytes))
}

/// The prediction, from steps at each level.
fn predict(
    seen: &[Seen],
    ground: Ground,
    slo: &Slo,
    asked: Asked,
) -> Result<CapacityPlan, ExperimentError> {
    let top = seen.iter().map(|step| step.level).max().unwrap_or(0);
    if top == 0 {
        return Err(ExperimentError::Unfit(
            "too few of the steps were sound to plan from; try again on a quieter machine".into(),
        ));
    }
    let whole = fit(seen, ground, slo);
    let mut random = Random::new(23, 0);
    let others: Vec<Fitted> = (0..BOOTSTRAPS)
        .map(|_| fit(&drawn_anew(seen, &mut random), ground, slo))
        .collect();
    let over = |estimate: f64, of: &dyn Fn(&Fitted, u64) -> f64| {
        let values = (1..).zip(&others).map(|(seed, fitted)| of(fitted, seed));
        around(estimate, values.collect())
    };
    let limit_of = |fitted: &Fitted, seed| fitted.twin.limit_hz(slo, REQUESTS, seed);
    let limit_hz = over(limit_of(&whole, 1), &limit_of);
    let p95_at = |rate_hz: f64| {
        let of = |fitted: &Fitted, seed| {
            fitted
                .twin
                .run(rate_hz, REQUESTS, seed)
                .quantile_s(slo.quantile)
                * 1e3
        };
        over(of(&whole, 1), &of)
    };
    let (saturation_hz, by_cores) = whole.twin.saturation();
    let hold_out = hold_out(seen, top, ground, slo);
    let mut demand = whole.demand.clone();
    demand.cpu_ms = over(demand.cpu_ms.estimate, &|fitted, _| {
        fitted.whole.cpu_s * 1e3
    });
    let points = points(seen, &p95_at, slo);
    let measured_up_to = points
        .iter()
        .map(|point| point.offered_hz / limit_hz.estimate)
        .fold(0.0, f64::max);
    let mut plan = CapacityPlan {
        points,
        curve: CURVE
            .map(|share| share * limit_hz.estimate)
            .map(|rate_hz| (rate_hz, p95_at(rate_hz)))
            .to_vec(),
        demand,
        workers: ground.workers,
        cores: whole.twin.size.cores,
        saturation_hz,
        bound_by: if by_cores { "the CPU" } else { "the workers" }.to_owned(),
        measured_up_to,
        limit_hz,
        hold_out,
        need: None,
        doubts: doubts(hold_out),
    };
    if limit_hz.estimate < plan.points.first().map_or(0.0, |point| point.offered_hz) {
        plan.doubts.push(format!(
            "the response time is beyond the SLO ({}) at the lowest rate already: R* is below what was driven, and no rate \
             is predicted to hold",
            slo.describe()
        ));
    }
    plan.need = need(&plan, &whole, slo, asked, &p95_at);
    Ok(plan)
}

/// An estimate with the 95 % range of what other draws say.
fn around(estimate: f64, mut values: Vec<f64>) -> Interval {
    values.sort_by(f64::total_cmp);
    let at = |quantile: f64| {
        let index = (quantile * (values.len() - 1) as f64).round() as usize;
        values.get(index).copied().unwrap_or(estimate)
    };
    Interval {
        low: at(0.025).min(estimate),
        estimate,
        high: at(0.975).max(estimate),
    }
}

fn points(seen: &[Seen], p95_at: &dyn Fn(f64) -> Interval, slo: &Slo) -> Vec<CapacityPoint> {
    let levels = 0..SHARES.len();
    levels
        .filter_map(|level| {
            let steps: Vec<&Seen> = seen.iter().filter(|step| step.level == level).collect();
            let n = steps.len() as f64;
            let mean = |of: fn(&Seen) -> f64| steps.iter().map(|step| of(step)).sum::<f64>() / n;
            let response = together(&steps);
            let offered_hz = mean(|step| step.rate_hz);
            (!steps.is_empty()).then(|| CapacityPoint {
                offered_hz,
                arrivals: response.count(),
                p95_ms: response.quantile_ms(slo.quantile),
                predicted_p95_ms: Some(p95_at(offered_hz)),
                busy_cores: mean(|step| step.busy_cores),
                stolen_cores: mean(|step| step.stolen_cores),
            })
        })
        .collect()
}

fn together(steps: &[&Seen]) -> LatencyHistogram {
    let mut response = LatencyHistogram::default();
    steps.iter().for_each(|step| response.merge(&step.response));
    response
}

/// The highest rate against a model made of the lower ones.
fn hold_out(seen: &[Seen], top: usize, ground: Ground, slo: &Slo) -> Option<HoldOut> {
    let (kept, aside): (Vec<Seen>, Vec<Seen>) =
        seen.iter().cloned().partition(|step| step.level < top);
    let steps: Vec<&Seen> = aside.iter().collect();
    let offered_hz = steps.iter().map(|step| step.rate_hz).sum::<f64>() / steps.len() as f64;
    let measured_p95_ms = together(&steps).quantile_ms(slo.quantile)?;
    let twin = fit(&kept, ground, slo).twin;
    let predicted_p95_ms = twin
        .run(offered_hz, 4 * REQUESTS, 1)
        .quantile_s(slo.quantile)
        * 1e3;
    Some(HoldOut {
        offered_hz,
        measured_p95_ms,
        predicted_p95_ms,
        hit: (predicted_p95_ms / measured_p95_ms - 1.0).abs() <= HIT,
    })
}

fn doubts(hold_out: Option<HoldOut>) -> Vec<String> {
    let missed = hold_out.filter(|kept| !kept.hit).map(|kept| {
        format!(
            "the model misses the rate that was kept aside: at {} it says a p95 of {}, and {} was measured ({} apart, 15 % \
             allowed); do not build on the response times it predicts",
            format_rate(kept.offered_hz),
            format_ms(kept.predicted_p95_ms),
            format_ms(kept.measured_p95_ms),
            format_share((kept.predicted_p95_ms / kept.measured_p95_ms - 1.0).abs()),
        )
    });
    let none = hold_out
        .is_none()
        .then(|| "no rate could be kept aside to test the model with".to_owned());
    missed.into_iter().chain(none).collect()
}

/// Hosts for what was asked, each such as the one that was measured.
fn need(
    plan: &CapacityPlan,
    whole: &Fitted,
    slo: &Slo,
    asked: Asked,
    p95_at: &dyn Fn(f64) -> Interval,
) -> Option<Need> {
    let per_host_hz = HEADROOM * plan.limit_hz.low;
    let (rate_hz, population) = match asked {
        Asked::Limit => return None,
        Asked::Rate(rate_hz) => (rate_hz, None),
        Asked::Users(population) => (
            settled_rate(&population, whole, per_host_hz, slo),
            Some(population),
        ),
    };
    let hosts = (rate_hz / per_host_hz).ceil().max(1.0);
    let each_hz = rate_hz / hosts;
    let held_s = whole.twin.run(each_hz, REQUESTS, 1).mean_s();
    Some(Need {
        rate_hz,
        population,
        per_host_hz,
        hosts: hosts as u32,
        hosts_with_spare: hosts as u32 + 1,
        p95_ms: Some(p95_at(rate_hz / (hosts + 1.0))),
        busy_cores: whole.whole.idle + whole.whole.cpu_s * each_hz,
        workers: (SPARE_WORKERS * each_hz * held_s).ceil() as u32,
        memory_bytes: None,
    })
}

/// The rate of users who wait for each page: slower pages slow them down, which makes pages faster.
fn settled_rate(population: &Population, whole: &Fitted, per_host_hz: f64, slo: &Slo) -> f64 {
    let mut response_s = whole.demand.response_ms / 1e3;
    let mut rate_hz = population.rate_hz(response_s);
    for _ in 0..4 {
        let hosts = (rate_hz / per_host_hz).ceil().max(1.0);
        response_s = whole.twin.run(rate_hz / hosts, REQUESTS, 1).mean_s();
        rate_hz = population.rate_hz(response_s.min(slo.timeout.as_secs_f64()));
    }
    rate_hz
}

#[cfg(test)]
mod tests;
