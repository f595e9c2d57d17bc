use super::fit::fit;
use super::low_load::seconds_ln_ms;
use super::twin::REQUESTS;
use super::*;
use crate::averages::usual_ms;
use crate::bench::{Bench as _, Step};
use crate::simulated::pool::Scheduling;
use crate::simulated::{App, Noise, RequestKind, SimulatedStack, truth};
use kneepoint_model::capacity::{CapacityPlan, Population};
use kneepoint_model::{LatencyHistogram, Layer, Slo};
use std::time::Duration;

/// Other draws of the steps. Two are enough for what is asked here: estimates do not depend on them, only how wide the
/// intervals are.
const OTHERS: u64 = 2;

fn model(seen: &[LowLoadStep], host: PlannedHost, slo: &Slo) -> Option<Model> {
    Model::with_others(seen, host, slo, OTHERS)
}

fn predicted(
    seen: &[LowLoadStep],
    host: PlannedHost,
    slo: &Slo,
    asked: Asked,
) -> Option<CapacityPlan> {
    model(seen, host, slo).map(|model| predict(&model, seen, host, None, asked))
}

#[test]
fn a_core_is_kept_for_whole_ticks_and_at_least_a_slice() {
    let check = |cores, tick_ms: f64, slice_ms: f64, quantum_ms: f64| {
        let it = scheduling(cores, tick_ms / 1e3);
        assert!((it.slice_s * 1e3 - slice_ms).abs() < 1e-9, "{it:?}");
        let quantum_s = it.quantum_s.expect("a quantum");
        assert!((quantum_s * 1e3 - quantum_ms).abs() < 1e-9, "{it:?}");
    };
    check(2, 4.0, 1.4, 4.0);
    check(2, 1.0, 1.4, 2.0);
    check(64, 1.0, 2.8, 3.0);
}

/// What the low load of a simulated stack shows, with the CPU that its requests took.
fn seen_of(app: &App, limit_hz: f64, seconds: u64) -> (Vec<LowLoadStep>, PlannedHost, Slo) {
    let slo = SimulatedStack::usual_slo();
    let mut stack = SimulatedStack::new(app.clone(), slo.clone(), Noise::none(), 5);
    let mut seen = Vec::new();
    for round in 0..3u64 {
        for level in 0..SHARES.len() {
            let seed = round * 10 + level as u64;
            seen.push(low_step(&mut stack, level, limit_hz, seconds, seed));
        }
    }
    (seen, ground_of(app), slo)
}

fn ground_of(app: &App) -> PlannedHost {
    PlannedHost {
        workers: app.size.workers,
        backlog: app.size.backlog,
        cores: app.size.cores,
        scheduling: Scheduling::default(),
        idle_cores: None,
        saving: None,
    }
}

/// A step at low load, with the CPU that its requests took. The second that it skips takes as much as the others.
fn low_step(
    stack: &mut SimulatedStack,
    level: usize,
    limit_hz: f64,
    seconds: u64,
    seed: u64,
) -> LowLoadStep {
    let step = Step::at_rate(
        "",
        SHARES[level] * limit_hz,
        Duration::from_secs(seconds),
        seed,
    );
    let before_s = stack.busy_s("base").unwrap_or(0.0);
    let Ok(point) = stack.measure("base", &step);
    let busy_s = stack.busy_s("base").unwrap_or(0.0) - before_s;
    let busy_cores = busy_s / step.duration.as_secs_f64();
    LowLoadStep {
        level,
        rate_hz: point.throughput_hz(),
        counted_hz: point.throughput_hz(),
        seconds_ln_ms: seconds_ln_ms(&point),
        response: point.response,
        busy_cores,
        others_cores: 0.0,
        stolen_cores: 0.0,
        tiers: vec![(Layer::Php, busy_cores)],
    }
}

/// A step of a verification.
fn high_step(stack: &mut SimulatedStack, rate_hz: f64, seed: u64) -> LatencyHistogram {
    let step = Step::at_rate("", rate_hz, Duration::from_secs(4), seed);
    let Ok(point) = stack.measure("base", &step);
    point.response
}

fn check(app: &App, bound_by: &str) {
    let known = truth(app, &SimulatedStack::usual_slo(), Noise::none(), 150, 1);
    let (seen, host, slo) = seen_of(app, known.limit_hz, 20);
    let plan = predicted(&seen, host, &slo, Asked::Limit).expect("a prediction");
    let error = plan.limit_hz.estimate / known.limit_hz - 1.0;
    assert!(error.abs() < 0.05, "{error}: {plan:?}");
    assert_eq!(plan.bound_by, bound_by);
    assert!(plan.measured_up_to < 0.6, "{plan:?}");
    assert!(
        plan.hold_out.is_some_and(|kept| kept.hit),
        "{:?}",
        plan.hold_out
    );
    assert!(plan.doubts.is_empty(), "{:?}", plan.doubts);

    let rate_hz = 0.8 * known.limit_hz;
    let mut stack = SimulatedStack::new(app.clone(), slo.clone(), Noise::none(), 9);
    let steps: Vec<LatencyHistogram> = (0..40)
        .map(|nth| high_step(&mut stack, rate_hz, 77 + nth))
        .collect();
    let measured = usual_ms(steps.iter(), 0.95).expect("responses");
    let model = model(&seen, host, &slo).expect("a model");
    let predicted = model.p95_ms(rate_hz).estimate;
    assert!(
        (predicted / measured - 1.0).abs() < 0.15,
        "{predicted} {measured}"
    );
}

#[test]
fn what_cores_bear_is_predicted_from_half_of_it() {
    check(&App::default(), "the CPU");
}

/// Five workers that wait for something else most of the time.
fn waiting_workers() -> App {
    let mut app = App::default();
    app.size.workers = 5;
    app.kinds.iter_mut().for_each(|kind| kind.wait_s *= 2.0);
    app
}

#[test]
fn what_workers_bear_is_predicted_from_half_of_it() {
    check(&waiting_workers(), "the workers");
}

#[test]
fn hosts_are_counted_for_users_and_for_a_rate() {
    let (seen, host, slo) = seen_of(&App::default(), 290.0, 10);
    let need = |asked| {
        let plan = predicted(&seen, host, &slo, asked).expect("a prediction");
        (plan.need.expect("something was asked"), plan.limit_hz)
    };
    let (of_rate, limit) = need(Asked::Rate(1000.0));
    assert_eq!(of_rate.hosts, (1000.0 / (0.8 * limit.low)).ceil() as u32);
    assert_eq!(of_rate.hosts_with_spare, of_rate.hosts + 1);
    assert!(
        of_rate.busy_cores < 2.0 && of_rate.workers >= 2,
        "{of_rate:?}"
    );
    let population = Population {
        users: 10_000.0,
        think_s: 10.0,
        requests_per_page: 1.0,
        peak: 1.0,
    };
    let (of_users, _) = need(Asked::Users(population));
    assert!((990.0..1000.0).contains(&of_users.rate_hz), "{of_users:?}");
    assert_eq!(of_users.hosts, of_rate.hosts);
}

/// Pages, scripts and a few requests that take long, which nearly fill two cores before the SLO is broken.
fn uneven() -> (App, Slo) {
    let kind = |weight, cpu_s| RequestKind {
        weight,
        cpu_s,
        wait_s: 0.0,
        pieces: 1,
    };
    let app = App {
        kinds: vec![kind(4.0, 0.0002), kind(3.0, 0.001), kind(3.0, 0.007)],
        ..App::default()
    };
    let slo = Slo {
        response_time: Duration::from_millis(250),
        ..SimulatedStack::usual_slo()
    };
    (app, slo)
}

/// By what factor, as a logarithm, the p95 at four fifths of R* is predicted too long from low load in turns with it.
fn off_in_turns(noise: Noise, limit_hz: f64, seed: u64) -> f64 {
    const PAIRS: u64 = 60;
    let (app, slo) = uneven();
    let rate_hz = HEADROOM * limit_hz;
    let mut stack = SimulatedStack::new(app.clone(), slo.clone(), noise, seed);
    let (mut seen, mut measured) = (Vec::new(), Vec::new());
    for nth in 0..PAIRS {
        let level = [0, SHARES.len() - 1][nth as usize % 2];
        seen.push(low_step(&mut stack, level, limit_hz, 4, 2 * nth));
        measured.push(high_step(&mut stack, rate_hz, 2 * nth + 1));
    }
    let model = model(&seen, ground_of(&app), &slo).expect("a model");
    let measured_ms = usual_ms(measured.iter(), slo.quantile).expect("responses");
    (model.p95_ms(rate_hz).estimate / measured_ms).ln()
}

/// A slow spell is a queue close to the limit, and hardly one at low load.
#[test]
fn the_p95_of_a_machine_that_drifts_is_predicted_from_low_load() {
    const SEEDS: u64 = 10;
    let (app, slo) = uneven();
    let known = truth(&app, &slo, Noise::none(), 60, 1);
    let mean_off = |noise| {
        let off = (1..=SEEDS).map(|seed| off_in_turns(noise, known.limit_hz, seed));
        off.sum::<f64>() / SEEDS as f64
    };
    let drifts = Noise {
        drift_sd: 0.1,
        drift_s: 8.0,
        ..Noise::none()
    };
    let (with, without) = (mean_off(drifts), mean_off(Noise::none()));
    assert!(with.abs() < 0.12 && without.abs() < 0.1, "{with} {without}");
}

/// What violates an SLO comes in bursts: over all requests it is broken before half of the windows break it.
#[test]
fn the_limit_is_the_rate_that_half_of_the_windows_bear() {
    let (app, slo) = uneven();
    let known = truth(&app, &slo, Noise::none(), 150, 1);
    let mut stack = SimulatedStack::new(app.clone(), slo.clone(), Noise::none(), 3);
    let seen: Vec<LowLoadStep> = (0..24)
        .map(|nth| low_step(&mut stack, [0, 2][nth as usize % 2], known.limit_hz, 8, nth))
        .collect();
    let twin = fit(&seen, ground_of(&app), &slo).twin;
    let long_run_hz = twin.long_run_hz(&slo, 10 * REQUESTS, 1);
    let limit_hz = twin.limit_hz(&slo, long_run_hz, 1);
    let off = (limit_hz / known.limit_hz).ln() - (long_run_hz / known.long_run_hz).ln();
    assert!(off.abs() < 0.01 && limit_hz > long_run_hz, "{off}");
    assert!(
        (limit_hz / known.limit_hz - 1.0).abs() < 0.04,
        "{limit_hz} {known:?}"
    );
}

/// A stack that gets slower with load in a way the model does not know misses the rate that was kept aside.
#[test]
fn a_model_that_does_not_fit_is_said_not_to() {
    let (mut seen, host, slo) = seen_of(&App::default(), 290.0, 10);
    for step in seen.iter_mut().filter(|step| step.level == 2) {
        let mut slower = LatencyHistogram::default();
        for (ms, _) in step.response.curve() {
            slower.record_us((ms * 2e3) as u64);
        }
        step.response = slower;
    }
    let plan = predicted(&seen, host, &slo, Asked::Limit).expect("a prediction");
    assert!(plan.hold_out.is_some_and(|kept| !kept.hit));
    assert!(plan.doubts[0].contains("kept aside"), "{:?}", plan.doubts);
}

/// What else ran on the machine for one round is not what the stack does.
#[test]
fn a_disturbed_round_is_left_out() {
    let (mut seen, host, slo) = seen_of(&App::default(), 290.0, 10);
    let all = seen.len();
    let (kept, left_out) = steady(&seen, host.cores);
    assert_eq!((kept.len(), left_out), (all, Vec::new()));

    let round = seen.iter_mut().find(|step| step.level == 0);
    let round = &mut round.expect("steps").response;
    for _ in 0..round.count() / 5 {
        round.record_us(600_000);
    }
    let (kept, left_out) = steady(&seen, host.cores);
    assert_eq!(kept.len(), all - 1);
    assert!(left_out[0].starts_with("1 of 9 steps"), "{left_out:?}");
    let plan = predicted(&kept, host, &slo, Asked::Limit).expect("a prediction");
    let known = truth(&App::default(), &slo, Noise::none(), 150, 1);
    let error = plan.limit_hz.estimate / known.limit_hz - 1.0;
    assert!(error.abs() < 0.05, "{error}: {plan:?}");
}

/// A host that keeps the machine's time makes low load slower than it makes what is close to the limit.
#[test]
fn steps_are_left_out_from_which_the_host_kept_time() {
    let (mut seen, host, _) = seen_of(&App::default(), 290.0, 10);
    let all = seen.len();
    seen[0].stolen_cores = 0.019 * host.cores;
    assert_eq!(steady(&seen, host.cores).0.len(), all);
    seen[0].stolen_cores = 0.1 * host.cores;
    let (kept, left_out) = steady(&seen, host.cores);
    assert_eq!(kept.len(), all - 1);
    assert!(left_out[0].contains("during 1 of 9 steps"), "{left_out:?}");

    // Where it always keeps some, the half during which it kept least is all there is, and the plan says so.
    for (nth, step) in seen.iter_mut().enumerate() {
        step.stolen_cores = (0.05 + 0.01 * nth as f64) * host.cores;
    }
    let (kept, left_out) = steady(&seen, host.cores);
    assert_eq!(kept.len(), 6);
    assert!(
        kept.iter()
            .all(|step| step.stolen_cores < 0.12 * host.cores)
    );
    assert!(
        left_out[1].contains("the host keeps CPU time"),
        "{left_out:?}"
    );
}

/// Programs beside the stack come and go; what its requests take does not follow from when they ran.
#[test]
fn what_others_use_is_not_taken_for_what_requests_take() {
    let app = waiting_workers();
    let mut what_is_left = app.clone();
    what_is_left.size.cores -= 0.4;
    let slo = SimulatedStack::usual_slo();
    let known = truth(&what_is_left, &slo, Noise::none(), 150, 1);
    let (mut seen, host, slo) = seen_of(&app, known.limit_hz, 20);
    // Most while the rate is high: without an account of them each request would seem to take that CPU.
    for step in &mut seen {
        step.others_cores = [0.1, 0.4, 0.7][step.level];
        step.busy_cores += step.others_cores;
    }
    let plan = predicted(&seen, host, &slo, Asked::Limit).expect("a prediction");
    assert_eq!(plan.bound_by, "the workers", "{plan:?}");
    let error = plan.limit_hz.estimate / known.limit_hz - 1.0;
    assert!(error.abs() < 0.05, "{error}: {plan:?}");
    assert!((plan.cores - host.cores + 0.4).abs() < 0.1, "{plan:?}");
    assert!(
        plan.doubts
            .iter()
            .any(|it| it.starts_with("other programs used 20 %")),
        "{:?}",
        plan.doubts
    );
}

#[test]
fn one_rate_is_too_little() {
    let (seen, host, slo) = seen_of(&App::default(), 290.0, 10);
    let one: Vec<LowLoadStep> = seen.into_iter().filter(|step| step.level == 0).collect();
    assert!(predicted(&one, host, &slo, Asked::Limit).is_none());
}

/// JSON has no infinity: a plan with one could not be read again.
#[test]
fn a_response_that_never_comes_takes_the_timeout() {
    let (seen, host, slo) = seen_of(&App::default(), 290.0, 10);
    let model = model(&seen, host, &slo).expect("a model");
    let drowned = model.p95_ms(3000.0);
    let timeout_ms = slo.timeout.as_secs_f64() * 1e3;
    assert!(
        [drowned.low, drowned.estimate, drowned.high]
            .iter()
            .all(|ms| (ms - timeout_ms).abs() < 1e-6),
        "{drowned:?}"
    );
}
