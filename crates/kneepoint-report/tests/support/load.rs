//! Steps of load with log-logistic response times whose violating share follows a logit in ln(rate).

use kneepoint_model::run::TrialId;
use kneepoint_model::{Health, Layer, LoadPoint, Outcome, SeriesSet, Trial, metric};

const SLO_MS: f64 = 200.0;
/// Steepness of the violating share, as method.md expects it of a PHP pool.
const SLOPE: f64 = 22.0;
/// Spread of ln(response time) in a step.
const SPREAD: f64 = 0.33;
const FASTEST_MS: f64 = 14.0;

/// A number in -1 to 1 that is fixed for an id (the golden ratio's multiples are evenly spread).
fn jitter(id: u64) -> f64 {
    (id as f64 * 0.618_033_988_75).fract() * 2.0 - 1.0
}

fn logit(p: f64) -> f64 {
    (p / (1.0 - p)).ln()
}

/// A step at a rate of a stack with this limit.
pub(crate) fn point(id: u64, offered_hz: f64, limit_hz: f64, window_s: f64) -> LoadPoint {
    let strain = logit(0.05) + SLOPE * (offered_hz / limit_hz).ln() + 0.5 * jitter(id);
    let violating = 1.0 / (1.0 + (-strain).exp());
    let arrivals = (offered_hz * window_s).round() as u64;
    let middle = (SLO_MS / (SPREAD * logit(1.0 - violating.min(0.97))).exp()).max(FASTEST_MS);
    let failed = if offered_hz > 1.12 * limit_hz {
        arrivals / 12
    } else {
        0
    };
    let mut load = LoadPoint {
        offered_hz,
        window_s,
        arrivals,
        health: Health {
            achieved_share: 1.0,
            send_lag_p50_ms: 0.04,
            send_lag_p99_ms: 0.4 + 0.3 * jitter(id + 1).abs(),
            backlog_max: 2,
            cpu_share: 0.02 + offered_hz / 4_000.0,
            ceiling_hz: Some(41_200.0),
            steal_share: Some(0.003),
            foreign_share: None,
            foreign_peak_share: None,
            idle_share: None,
        },
        ..LoadPoint::default()
    };
    for i in 0..arrivals - failed {
        let quantile = (i as f64 + 0.5) / (arrivals - failed) as f64;
        let ms = middle * (SPREAD * logit(quantile)).exp();
        load.good += u64::from(ms <= SLO_MS);
        load.response.record_us((ms * 1e3) as u64);
        load.service.record_us((ms * 990.0) as u64);
    }
    load.outcomes
        .by_outcome
        .insert(Outcome::Ok, arrivals - failed);
    load.outcomes.by_status.insert(200, arrivals - failed);
    if failed > 0 {
        load.outcomes.by_outcome.insert(Outcome::Timeout, failed);
    }
    load
}

fn trial(id: u64, purpose: &str, arm: &str, at_s: f64, load: LoadPoint) -> Trial {
    Trial {
        id: TrialId(id),
        purpose: purpose.into(),
        arm: arm.into(),
        at_s,
        load,
        cpu: None,
    }
}

/// The steps of a search for a limit: a closed loop first, then steps that straddle it.
pub(crate) fn search(arm: &str, limit_hz: f64, from_s: f64, first_id: u64) -> Vec<Trial> {
    let strains = [
        0.5, 0.8, 1.22, 0.92, 1.08, 0.97, 1.03, 1.0, 0.95, 1.05, 0.98, 1.02, 0.99, 1.01, 0.97,
        1.03, 1.0, 0.985,
    ];
    let mut closed = point(first_id, limit_hz * 1.11, limit_hz, 6.0);
    closed.closed_workers = Some(10);
    let mut trials = vec![trial(first_id, "limit: saturation", arm, from_s, closed)];
    for (i, strain) in (1u64..).zip(strains) {
        let load = point(first_id + i, limit_hz * strain, limit_hz, 8.0);
        trials.push(trial(
            first_id + i,
            "limit: step",
            arm,
            from_s + 8.0 * i as f64,
            load,
        ));
    }
    trials.push(trial(
        first_id + 19,
        "limit: soak",
        arm,
        from_s + 160.0,
        point(first_id + 19, limit_hz * 0.966, limit_hz, 60.0),
    ));
    trials
}

/// The steps of the diagnoses, ids 20 to 23.
pub(crate) fn observed() -> Vec<Trial> {
    let phases = [
        ("low", "base", 11.5, 38.5),
        ("knee", "base", 36.6, 38.5),
        ("low", "best", 35.4, 117.6),
        ("knee", "best", 112.0, 117.6),
    ];
    (20u64..)
        .zip(phases)
        .map(|(id, (phase, arm, hz, limit))| {
            let at_s = if arm == "base" { 240.0 } else { 460.0 } + id as f64;
            trial(
                id,
                &format!("diagnose: {phase}"),
                arm,
                at_s,
                point(id, hz, limit, 10.0),
            )
        })
        .collect()
}

/// What telemetry saw in a phase.
pub(crate) fn telemetry(phase: &str, arm: &str, offered_hz: f64) -> SeriesSet {
    let busy = phase == "knee";
    let (php_cores, pool) = match (arm, busy) {
        ("base", true) => (0.98, 4.9),
        ("base", false) => (0.27, 0.4),
        (_, true) => (0.99, 12.4),
        (_, false) => (0.26, 0.6),
    };
    let queue = if !busy {
        0.0
    } else if arm == "base" {
        3.1
    } else {
        0.4
    };
    let rows = [
        (Layer::Web, metric::CPU_S, offered_hz * 0.000_35, true),
        (Layer::Web, metric::QUEUE, 0.0, false),
        (Layer::Web, metric::QUEUE_LIMIT, 511.0, false),
        (Layer::Php, metric::CPU_S, php_cores, true),
        (Layer::Php, metric::QUEUE, queue, false),
        (Layer::Php, metric::QUEUE_LIMIT, 511.0, false),
        (Layer::Php, metric::WORKERS_BUSY, pool, false),
        (Layer::Cache, metric::CPU_S, offered_hz * 0.000_2, true),
        (Layer::Db, metric::CPU_S, offered_hz * 0.000_9, true),
    ];
    let mut set = SeriesSet::default();
    for (layer, what, value, counts) in rows {
        for second in 0..=10 {
            let at = f64::from(second);
            set.push(layer, what, "", at, if counts { value * at } else { value });
        }
    }
    set
}
