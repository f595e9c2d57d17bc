use super::*;
use crate::bench::{Bench as _, Step};
use crate::simulated::{App, Noise, SimulatedStack, truth};

fn predicted(
    seen: &[Seen],
    ground: Ground,
    slo: &Slo,
    asked: Asked,
) -> Result<CapacityPlan, ExperimentError> {
    Model::of(seen, ground, slo).map(|model| predict(&model, seen, ground, asked))
}

/// What the low load of a simulated stack shows, with the CPU that its requests took.
fn seen_of(app: &App, limit_hz: f64, seconds: u64) -> (Vec<Seen>, Ground, Slo) {
    let slo = SimulatedStack::usual_slo();
    let mut stack = SimulatedStack::new(app.clone(), slo.clone(), Noise::none(), 5);
    let weights: f64 = app.kinds.iter().map(|kind| kind.weight).sum();
    let cpu_s = app
        .kinds
        .iter()
        .map(|kind| kind.weight * kind.cpu_s)
        .sum::<f64>()
        / weights;
    let mut seen = Vec::new();
    for round in 0..3u64 {
        for (level, share) in SHARES.into_iter().enumerate() {
            let rate_hz = share * limit_hz;
            let step = Step::at_rate(
                "",
                rate_hz,
                Duration::from_secs(seconds),
                round * 10 + level as u64,
            );
            let point = match stack.measure("base", &step) {
                Ok(point) => point,
                Err(never) => match never {},
            };
            let rate_hz = point.throughput_hz();
            seen.push(Seen {
                level,
                rate_hz,
                response: point.response,
                busy_cores: cpu_s * rate_hz,
                stolen_cores: 0.0,
                tiers: vec![(Layer::Php, cpu_s * rate_hz)],
            });
        }
    }
    let ground = Ground {
        workers: app.size.workers,
        backlog: app.size.backlog,
        cores: app.size.cores,
        idle_cores: None,
    };
    (seen, ground, slo)
}

fn check(app: &App, bound_by: &str) {
    let known = truth(app, &SimulatedStack::usual_slo(), Noise::none(), 150, 1);
    let (seen, ground, slo) = seen_of(app, known.limit_hz, 20);
    let plan = predicted(&seen, ground, &slo, Asked::Limit).expect("a prediction");
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
    let step = Step::at_rate("", rate_hz, Duration::from_secs(120), 77);
    let Ok(point) = stack.measure("base", &step);
    let measured = point.response.quantile_ms(0.95).expect("responses");
    let twin = fit(&seen, ground, &slo).twin;
    let predicted = twin.run(rate_hz, 30_000, 3).quantile_s(0.95) * 1e3;
    assert!(
        (predicted / measured - 1.0).abs() < 0.2,
        "{predicted} {measured}"
    );
}

#[test]
fn what_cores_bear_is_predicted_from_half_of_it() {
    check(&App::default(), "the CPU");
}

#[test]
fn what_workers_bear_is_predicted_from_half_of_it() {
    let mut app = App::default();
    app.size.workers = 5;
    app.kinds.iter_mut().for_each(|kind| kind.wait_s *= 2.0);
    check(&app, "the workers");
}

#[test]
fn hosts_are_counted_for_users_and_for_a_rate() {
    let (seen, ground, slo) = seen_of(&App::default(), 290.0, 10);
    let need = |asked| {
        let plan = predicted(&seen, ground, &slo, asked).expect("a prediction");
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

/// A stack that gets slower with load in a way the model does not know misses the rate that was kept aside.
#[test]
fn a_model_that_does_not_fit_is_said_not_to() {
    let (mut seen, ground, slo) = seen_of(&App::default(), 290.0, 10);
    for step in seen.iter_mut().filter(|step| step.level == 2) {
        let mut slower = LatencyHistogram::default();
        for (ms, _) in step.response.curve() {
            slower.record_us((ms * 2e3) as u64);
        }
        step.response = slower;
    }
    let plan = predicted(&seen, ground, &slo, Asked::Limit).expect("a prediction");
    assert!(plan.hold_out.is_some_and(|kept| !kept.hit));
    assert!(plan.doubts[0].contains("kept aside"), "{:?}", plan.doubts);
}

/// What else ran on the machine for one round is not what the stack does.
#[test]
fn a_disturbed_round_is_left_out() {
    let (mut seen, ground, slo) = seen_of(&App::default(), 290.0, 10);
    let all = seen.len();
    let (kept, left_out) = steady(&seen);
    assert_eq!((kept.len(), left_out), (all, None));

    let round = seen.iter_mut().find(|step| step.level == 0);
    let round = &mut round.expect("steps").response;
    for _ in 0..round.count() / 5 {
        round.record_us(600_000);
    }
    let (kept, left_out) = steady(&seen);
    assert_eq!(kept.len(), all - 1);
    assert!(left_out.is_some_and(|said| said.starts_with("1 of 9 steps")));
    let plan = predicted(&kept, ground, &slo, Asked::Limit).expect("a prediction");
    let known = truth(&App::default(), &slo, Noise::none(), 150, 1);
    let error = plan.limit_hz.estimate / known.limit_hz - 1.0;
    assert!(error.abs() < 0.05, "{error}: {plan:?}");
}

#[test]
fn one_rate_is_too_little() {
    let (seen, ground, slo) = seen_of(&App::default(), 290.0, 10);
    let one: Vec<Seen> = seen.into_iter().filter(|step| step.level == 0).collect();
    let error = predicted(&one, ground, &slo, Asked::Limit).expect_err("too little");
    assert!(error.to_string().contains("too few"), "{error}");
}

/// JSON has no infinity: a plan with one could not be read again.
#[test]
fn a_response_that_never_comes_takes_the_timeout() {
    let (seen, ground, slo) = seen_of(&App::default(), 290.0, 10);
    let model = Model::of(&seen, ground, &slo).expect("a model");
    let drowned = model.p95_ms(3000.0);
    let timeout_ms = slo.timeout.as_secs_f64() * 1e3;
    assert!(
        [drowned.low, drowned.estimate, drowned.high]
            .iter()
            .all(|ms| (ms - timeout_ms).abs() < 1e-6),
        "{drowned:?}"
    );
}
