//! Capacity: from what requests take at low load to R* and response times at rates that were never driven
//! (`plan_capacity` of method.md).
//!
//! Nothing above about half of R* is driven, unless [`verify`] is asked for. [`low_load`] drives it; what it means is
//! [`kneepoint_planner::capacity`]'s.

mod low_load;
mod verify;

use crate::error::ExperimentError;
use crate::record::{BASE, Record, Recorder};
use crate::testbed::Testbed;
use kneepoint_model::capacity::CapacityPlan;
use kneepoint_model::units::format_rate;
use kneepoint_model::{Layer, Scenario, Sessions, Workload};
use kneepoint_planner::capacity::{
    Asked, Claimed, Model, PlannedHost, predict, scheduling, steady,
};
use low_load::{look, measure};
use rustix::time::ClockId;
use std::time::Duration;

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

/// Time for the load of a plan when nobody says how long it may take: method.md's two minutes.
const USUAL_TIME: Duration = Duration::from_secs(120);
/// What looks, pauses and resets take of the time that there is, as a share.
const BESIDE: f64 = 0.3;
/// Steps of low load that share the rest.
const STEPS: f64 = 12.0;
/// The shortest and the longest step that is worth it.
const STEP: std::ops::RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_secs(60);

impl PlanOptions {
    /// A plan within a time, or within what it usually takes, and where it is to be verified as much again for each part of
    /// that.
    #[must_use]
    pub fn within(time: Option<Duration>, asked: Asked, verify: bool) -> Self {
        let time = time.unwrap_or(USUAL_TIME);
        Self {
            asked,
            step: time
                .mul_f64((1.0 - BESIDE) / STEPS)
                .clamp(*STEP.start(), *STEP.end()),
            verify: verify.then_some(time),
        }
    }
}

/// Stands the scenario's stack up, and predicts what it bears.
///
/// # Errors
/// Its visitors make several requests each; the stack cannot be stood up; or as [`plan`].
pub fn plan_base(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    scenario: &Scenario,
    options: PlanOptions,
) -> Result<(), ExperimentError> {
    of_requests(&scenario.workload)?;
    testbed.stand_up_base(scenario, recorder)?;
    plan(testbed, recorder, BASE, options).map(drop)
}

/// Refuses visitors who make several requests each: the model has rates of requests, and theirs are offered in visits.
fn of_requests(workload: &Workload) -> Result<(), ExperimentError> {
    let visit = workload.sessions.as_ref().map(Sessions::shape);
    match visit {
        Some(visit) if visit.requests > 1.0 => Err(ExperimentError::Unfit(
            "`plan` predicts requests that stand for themselves, and the visitors of this scenario make several each: find R* \
             with `kneepoint limit`"
                .into(),
        )),
        _ => Ok(()),
    }
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
    let host = planned_host(testbed, arm)?;
    recorder.stage("Look: how much of the machine a request takes");
    let looked = look(testbed, recorder, arm, host)?;
    let host = PlannedHost {
        idle_cores: looked.idle_cores,
        ..host
    };
    recorder.stage("Measure at low load, about half of R* at most");
    let measured = measure(testbed, recorder, arm, looked.limit_hz, options.step)?;
    recorder.stage("Predict");
    let (seen, left_out) = steady(&measured.seen, host.cores);
    let model = Model::of(&seen, host, testbed.slo()).ok_or_else(|| {
        ExperimentError::Unsound(
            "too few of the steps were sound to plan from; try again on a quieter machine".into(),
        )
    })?;
    let ports = measured.closed.scarcest(testbed.stack(arm)?);
    let mut plan = predict(&model, &seen, host, ports, options.asked);
    plan.doubts.extend(left_out);
    plan.demand.worker_memory_bytes = measured.worker_memory_bytes;
    if let (Some(need), Some(bytes)) = (&mut plan.need, measured.worker_memory_bytes) {
        need.memory_bytes = Some(bytes * f64::from(need.workers));
    }
    let mut hosts = testbed.scenario().hosts.values();
    if hosts.any(|host| host.cpus.is_some()) {
        plan.doubts.push(
            "[hosts] limits the CPU of a tier, and the prediction is for all cores of the machine"
                .to_owned(),
        );
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
            host,
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

fn planned_host(testbed: &Testbed, arm: &str) -> Result<PlannedHost, ExperimentError> {
    let stack = testbed.stack(arm)?;
    let pool = stack.tier(Layer::Php).and_then(|tier| tier.pool.as_ref());
    let pool = pool.ok_or_else(|| {
        ExperimentError::Unfit("there is no pool of PHP workers to plan for in this stack".into())
    })?;
    let machine = testbed.machine();
    Ok(PlannedHost {
        workers: pool.max_workers as u32,
        backlog: pool.queue_limit as u32,
        cores: machine.cpus(),
        scheduling: scheduling(machine.cores.max(1), tick_s()),
        idle_cores: None,
        saving: None,
    })
}

/// The length of the kernel's tick in seconds, which is how fine its coarse clock is: 1/`CONFIG_HZ`.
fn tick_s() -> f64 {
    let resolution = rustix::time::clock_getres(ClockId::MonotonicCoarse);
    resolution.tv_sec as f64 + resolution.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::ThinkTime;

    #[test]
    fn visitors_who_make_several_requests_are_refused() {
        let of = |requests| {
            let mut workload = Workload::single("/");
            workload.sessions = Some(Sessions {
                scripts: Vec::new(),
                lengths: vec![(requests, 1.0)],
                think_time: ThinkTime::None,
            });
            of_requests(&workload)
        };
        assert!(of_requests(&Workload::single("/")).is_ok() && of(1).is_ok());
        let refused = of(3).expect_err("three requests a visit").to_string();
        assert!(refused.contains("kneepoint limit"), "{refused}");
    }

    /// The kernel here ticks 100 to 1000 times a second, as every one does.
    #[test]
    fn the_kernels_tick_is_read() {
        let tick_s = tick_s();
        assert!((0.000_999..0.0101).contains(&tick_s), "{tick_s}");
    }
}
