//! What is predicted of a stack: R*, response times up to it, and the hosts that a rate or users need.

use super::fit::{Fitted, fit};
use super::low_load::{LowLoadStep, PlannedHost, SHARES};
use super::model::{Model, WHOLE};
use super::ports;
use super::twin::REQUESTS;
use crate::averages::{mean, usual_ms};
use kneepoint_model::Slo;
use kneepoint_model::capacity::{CapacityPlan, CapacityPoint, HoldOut, Need, Population, Ports};
use kneepoint_model::units::{format_ms, format_rate, format_share};

/// Shares of the predicted R* at which the response time is told.
const CURVE: [f64; 6] = [0.6, 0.7, 0.8, 0.9, 0.95, 1.0];
/// Largest difference of the rate that was kept aside (method.md: 15 %).
const HIT: f64 = 0.15;
/// Share of R* that a host is given at most (method.md, `plan_capacity`).
pub const HEADROOM: f64 = 0.8;
/// Share of the machine that other programs use from which on it is said: less is within what R* is predicted to
/// (method.md, `plan_capacity`).
const OTHERS: f64 = 0.05;
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

/// The prediction, from steps at each level.
#[must_use]
pub fn predict(
    model: &Model,
    seen: &[LowLoadStep],
    host: PlannedHost,
    ports: Option<Ports>,
    asked: Asked,
) -> CapacityPlan {
    let (whole, slo) = (&model.whole, &model.slo);
    let top = seen.iter().map(|step| step.level).max().unwrap_or(0);
    let limit_hz = model.limit_hz();
    let (saturation_hz, by_cores) = whole.twin.saturation();
    let hold_out = hold_out(seen, top, host, slo);
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
        workers: host.workers,
        cores: whole.twin.size.cores,
        saturation_hz,
        bound_by: if by_cores { "the CPU" } else { "the workers" }.to_owned(),
        speed_sd: Some(whole.twin.drift),
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
    let others_share = mean(seen.iter().map(|step| step.others_cores)) / host.cores;
    if others_share >= OTHERS {
        plan.doubts.push(format!(
            "other programs used {} of the machine during the steps at low load: what is predicted is what the stack \
             bears beside them",
            format_share(others_share)
        ));
    }
    let short = ports.and_then(|ports| ports::doubt(&ports, limit_hz.estimate));
    plan.doubts.extend(short);
    plan.need = need(&plan, model, asked);
    plan
}

fn points(seen: &[LowLoadStep], model: &Model) -> Vec<CapacityPoint> {
    let levels = 0..SHARES.len();
    levels
        .filter_map(|level| {
            let steps: Vec<&LowLoadStep> = seen.iter().filter(|step| step.level == level).collect();
            let n = steps.len() as f64;
            let mean =
                |of: fn(&LowLoadStep) -> f64| steps.iter().map(|step| of(step)).sum::<f64>() / n;
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

/// The highest rate against a model made of the lower ones.
fn hold_out(seen: &[LowLoadStep], top: usize, host: PlannedHost, slo: &Slo) -> Option<HoldOut> {
    let (kept, aside): (Vec<LowLoadStep>, Vec<LowLoadStep>) =
        seen.iter().cloned().partition(|step| step.level < top);
    let steps: Vec<&LowLoadStep> = aside.iter().collect();
    let offered_hz = steps.iter().map(|step| step.rate_hz).sum::<f64>() / steps.len() as f64;
    let measured_p95_ms = usual_ms(steps.iter().map(|step| &step.response), slo.quantile)?;
    let twin = fit(&kept, host, slo).twin;
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
