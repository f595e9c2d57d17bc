//! Capacity: from what requests take at low load to R* and response times at rates that were never driven
//! (`plan_capacity` of method.md).
//!
//! Nothing above about half of R* is driven, unless [`verify`] is asked for. [`low_load`] drives it, [`steady`] leaves out
//! what else used the machine, [`cost`] tells the CPU of a request by rate, [`ports`] up to which rate local ports last,
//! [`wander`] how much the machine's speed changes from step to step, [`twin`] is the queueing model, [`fit`] makes it of
//! what was measured; the highest rate is kept aside first, and the model that was made without it must hit it.

mod cost;
mod fit;
mod low_load;
mod ports;
mod steady;
mod twin;
mod verify;
mod wander;

use crate::error::ExperimentError;
use crate::random::Random;
use crate::recorder::Recorder;
use crate::simulated::pool::Scheduling;
use crate::store::Record;
use crate::testbed::Testbed;
use fit::{Fitted, Ground, Seen, drawn_anew, fit};
use kneepoint_model::capacity::{CapacityPlan, CapacityPoint, HoldOut, Need, Population, Ports};
use kneepoint_model::statistics::median::median;
use kneepoint_model::units::{format_ms, format_rate, format_share};
use kneepoint_model::{Interval, LatencyHistogram, Layer, Slo};
use low_load::{look, measure};
use rustix::time::ClockId;
use std::time::Duration;
use steady::steady;
use twin::Stretches;
use verify::Claimed;

/// Shares of the rate that a first, rough model says is R*, at which is measured (method.md: .2, .35, .5 of what
/// saturates, which is somewhat more). The highest leaves room for a shared machine that gets slower: it stays below 60 %
/// of an R* that is a quarter less by then.
const SHARES: [f64; 3] = [0.2, 0.33, 0.45];
/// Requests of a twin's run.
const REQUESTS: u64 = 12_000;
/// Length in seconds of the stretches whose p95 is told: that of a verification's step, less the second that is left out.
const STRETCH_S: f64 = 3.0;
/// Runs of the twin that make a prediction: long enough for spells of the machine's speed, and two, since close to the limit
/// one is some per cent off by chance.
const WHOLE: Stretches = Stretches {
    each_s: STRETCH_S,
    requests: 8 * REQUESTS,
    runs: 2,
};
/// The run that says by what factor two twins are apart.
const ONCE: Stretches = Stretches {
    each_s: STRETCH_S,
    requests: 2 * REQUESTS,
    runs: 1,
};
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

/// How a plan is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanOptions {
    /// What is asked besides R*.
    pub asked: Asked,
    /// Length of a step at low load.
    pub step: Duration,
    /// Whether to find out how far off the prediction is, and a quarter of how long that may take: as much goes into R*, as
    /// much into the response time below, and low load in turns with both comes on top. `None` where nobody wants to know.
    pub verify: Option<Duration>,
}

/// Measures an arm at low load, and predicts what it bears. Where that is wanted, drives it up to its limit then.
///
/// # Errors
/// The arm is gone, the load cannot be driven, CPU time cannot be read here, or somebody asked to stop.
pub fn plan(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    options: PlanOptions,
) -> Result<CapacityPlan, ExperimentError> {
    let ground = ground(testbed, arm)?;
    recorder.stage("Look: how much of the machine a request takes");
    let looked = look(testbed, recorder, arm, ground)?;
    let ground = Ground {
        idle_cores: looked.idle_cores,
        ..ground
    };
    recorder.stage("Measure at low load, about half of R* at most");
    let measured = measure(testbed, recorder, arm, looked.limit_hz, options.step)?;
    recorder.stage("Predict");
    let (seen, left_out) = steady(&measured.seen, ground.cores);
    let model = Model::of(&seen, ground, testbed.slo())?;
    let ports = measured.closed.scarcest(testbed.stack(arm)?);
    let mut plan = predict(&model, &seen, ground, ports, options.asked);
    plan.doubts.extend(left_out);
    plan.demand.worker_memory_bytes = measured.worker_memory_bytes;
    if let (Some(need), Some(bytes)) = (&mut plan.need, measured.worker_memory_bytes) {
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
    recorder.write(Record::Capacity(Box::new(plan.clone())));
    if let Some(time) = options.verify {
        let claimed = Claimed {
            model: &model,
            seen: &seen,
            ground,
            limit_hz: plan.limit_hz.estimate,
        };
        let verified = verify::verify(testbed, recorder, arm, claimed, time)?;
        plan.doubts
            .extend(verified.turned().unwrap_or(verified).too_vague());
        plan.verified = Some(verified);
        recorder.write(Record::Capacity(Box::new(plan.clone())));
    }
    Ok(plan)
}

fn ground(testbed: &Testbed, arm: &str) -> Result<Ground, ExperimentError> {
    let stack = testbed.stack(arm)?;
    let pool = stack.tier(Layer::Php).and_then(|tier| tier.pool.as_ref());
    let pool = pool.ok_or_else(|| {
        ExperimentError::Unfit("there is no pool of PHP workers to plan for in this stack".into())
    })?;
    let cores = testbed.machine().cores.max(1);
    Ok(Ground {
        workers: pool.max_workers as u32,
        backlog: pool.queue_limit as u32,
        cores: f64::from(cores),
        scheduling: scheduling(cores, tick_s()),
        idle_cores: None,
        saving: None,
    })
}

/// How Linux gives out this many cores where its clock ticks this often.
///
/// The slice is what a task may run before another that woke up comes first: 0.7 ms by `1 + log2` of the cores, of eight at
/// most (`sysctl_sched_base_slice` and `get_update_sysctl_factor` of kernel/sched/fair.c, Linux 6.14; 0.75 ms before). Among
/// tasks that are all beyond it the kernel looks whether one has had its slice at each tick only (`entity_tick`), so that
/// each keeps its core for as many whole ticks as a slice takes.
fn scheduling(cores: u32, tick_s: f64) -> Scheduling {
    let slice_s = 0.7e-3 * f64::from(1 + cores.clamp(1, 8).ilog2());
    Scheduling {
        slice_s,
        quantum_s: Some(tick_s * (slice_s / tick_s).ceil()),
    }
}

/// The length of the kernel's tick in seconds, which is how fine its coarse clock is: 1/`CONFIG_HZ`.
fn tick_s() -> f64 {
    let resolution = rustix::time::clock_getres(ClockId::MonotonicCoarse);
    resolution.tv_sec as f64 + resolution.tv_nsec as f64 / 1e9
}

/// A twin of the stack, and those that other draws of the same steps make, for the intervals.
struct Model {
    whole: Fitted,
    others: Vec<Fitted>,
    slo: Slo,
}

impl Model {
    fn of(seen: &[Seen], ground: Ground, slo: &Slo) -> Result<Self, ExperimentError> {
        if seen.iter().all(|step| step.level == 0) {
            return Err(ExperimentError::Unfit(
                "too few of the steps were sound to plan from; try again on a quieter machine"
                    .into(),
            ));
        }
        let mut random = Random::new(23, 0);
        Ok(Self {
            whole: fit(seen, ground, slo),
            others: (0..BOOTSTRAPS)
                .map(|_| fit(&drawn_anew(seen, &mut random), ground, slo))
                .collect(),
            slo: slo.clone(),
        })
    }

    /// A quantity of the twin, with the 95 % range of what it is in the others.
    fn over(&self, of: impl Fn(&Fitted, u64) -> f64) -> Interval {
        around(of(&self.whole, 1), self.of_others(of))
    }

    fn of_others(&self, of: impl Fn(&Fitted, u64) -> f64) -> Vec<f64> {
        let others = (1..).zip(&self.others);
        others.map(|(seed, fitted)| of(fitted, seed)).collect()
    }

    /// R* per second. Of the others, only by what factor they are apart: that is found with a tenth of the requests.
    fn limit_hz(&self) -> Interval {
        let long_run = |fitted: &Fitted, seed| fitted.twin.long_run_hz(&self.slo, REQUESTS, seed);
        let whole_hz = long_run(&self.whole, 1);
        let limit_hz = self.whole.twin.limit_hz(&self.slo, whole_hz, 1);
        let factor = limit_hz / whole_hz;
        let mut others_hz = self.of_others(long_run);
        others_hz.iter_mut().for_each(|hz| *hz *= factor);
        around(limit_hz, others_hz)
    }

    /// The SLO's quantile of the response time in ms at a rate, that half of all stretches stay below. Of
    /// the others, only by what factor they are apart where they see the same arrivals.
    fn p95_ms(&self, rate_hz: f64) -> Interval {
        let of = |fitted: &Fitted, asked| {
            let twin = &fitted.twin;
            twin.quantile_ms(rate_hz, self.slo.quantile, asked)
        };
        let (whole_ms, once_ms) = (of(&self.whole, WHOLE), of(&self.whole, ONCE));
        let others = self.others.iter();
        let others_ms = others.map(|fitted| whole_ms * of(fitted, ONCE) / once_ms);
        let most_ms = self.slo.timeout.as_secs_f64() * 1e3;
        around(whole_ms, others_ms.map(|ms| ms.min(most_ms)).collect())
    }
}

/// The prediction, from steps at each level.
fn predict(
    model: &Model,
    seen: &[Seen],
    ground: Ground,
    ports: Option<Ports>,
    asked: Asked,
) -> CapacityPlan {
    let (whole, slo) = (&model.whole, &model.slo);
    let top = seen.iter().map(|step| step.level).max().unwrap_or(0);
    let limit_hz = model.limit_hz();
    let (saturation_hz, by_cores) = whole.twin.saturation();
    let hold_out = hold_out(seen, top, ground, slo);
    let mut demand = whole.demand.clone();
    demand.cpu_ms = model.over(|fitted, _| fitted.whole.cpu_s * 1e3);
    let points = points(seen, model);
    let measured_up_to = points
        .iter()
        .map(|point| point.offered_hz / limit_hz.estimate)
        .fold(0.0, f64::max);
    let mut plan = CapacityPlan {
        points,
        curve: CURVE
            .map(|share| share * limit_hz.estimate)
            .map(|rate_hz| (rate_hz, model.p95_ms(rate_hz)))
            .to_vec(),
        demand,
        workers: ground.workers,
        cores: whole.twin.size.cores,
        saturation_hz,
        bound_by: if by_cores { "the CPU" } else { "the workers" }.to_owned(),
        speed_sd: Some(whole.twin.wander),
        ports,
        measured_up_to,
        limit_hz,
        hold_out,
        need: None,
        verified: None,
        doubts: doubts(hold_out),
    };
    if limit_hz.estimate < plan.points.first().map_or(0.0, |point| point.offered_hz) {
        plan.doubts.push(format!(
            "the response time is beyond the SLO ({}) at the lowest rate already: R* is below what was driven, and no rate \
             is predicted to hold",
            slo.describe()
        ));
    }
    let short = ports.and_then(|ports| ports::doubt(&ports, limit_hz.estimate));
    plan.doubts.extend(short);
    plan.need = need(&plan, model, asked);
    plan
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

fn points(seen: &[Seen], model: &Model) -> Vec<CapacityPoint> {
    let levels = 0..SHARES.len();
    levels
        .filter_map(|level| {
            let steps: Vec<&Seen> = seen.iter().filter(|step| step.level == level).collect();
            let n = steps.len() as f64;
            let mean = |of: fn(&Seen) -> f64| steps.iter().map(|step| of(step)).sum::<f64>() / n;
            let offered_hz = mean(|step| step.rate_hz);
            (!steps.is_empty()).then(|| CapacityPoint {
                offered_hz,
                arrivals: steps.iter().map(|step| step.response.count()).sum(),
                p95_ms: usual_ms(steps.iter().map(|step| &step.response), model.slo.quantile),
                predicted_p95_ms: Some(model.p95_ms(offered_hz)),
                busy_cores: mean(|step| step.busy_cores),
                stolen_cores: mean(|step| step.stolen_cores),
            })
        })
        .collect()
}

/// A quantile of the response time in ms that half of the steps stay below: a few slow ones do not decide it. `None`
/// without responses.
fn usual_ms<'a>(
    responses: impl Iterator<Item = &'a LatencyHistogram>,
    quantile: f64,
) -> Option<f64> {
    median(&of_steps_ms(responses, quantile))
}

/// The quantile of each step, in their order; steps without responses have none.
fn of_steps_ms<'a>(
    responses: impl Iterator<Item = &'a LatencyHistogram>,
    quantile: f64,
) -> Vec<f64> {
    responses
        .filter_map(|one| one.quantile_ms(quantile))
        .collect()
}

/// The highest rate against a model made of the lower ones.
fn hold_out(seen: &[Seen], top: usize, ground: Ground, slo: &Slo) -> Option<HoldOut> {
    let (kept, aside): (Vec<Seen>, Vec<Seen>) =
        seen.iter().cloned().partition(|step| step.level < top);
    let steps: Vec<&Seen> = aside.iter().collect();
    let offered_hz = steps.iter().map(|step| step.rate_hz).sum::<f64>() / steps.len() as f64;
    let measured_p95_ms = usual_ms(steps.iter().map(|step| &step.response), slo.quantile)?;
    let twin = fit(&kept, ground, slo).twin;
    let predicted_p95_ms = twin.quantile_ms(offered_hz, slo.quantile, WHOLE);
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
fn need(plan: &CapacityPlan, model: &Model, asked: Asked) -> Option<Need> {
    let whole = &model.whole;
    let lasting_hz = plan.ports.map_or(f64::INFINITY, |ports| ports.lasting_hz());
    let per_host_hz = HEADROOM * plan.limit_hz.low.min(lasting_hz);
    let (rate_hz, population) = match asked {
        Asked::Limit => return None,
        Asked::Rate(rate_hz) => (rate_hz, None),
        Asked::Users(population) => (
            settled_rate(&population, whole, per_host_hz, &model.slo),
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
        p95_ms: Some(model.p95_ms(rate_hz / (hosts + 1.0))),
        busy_cores: whole.whole.cores(each_hz),
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
